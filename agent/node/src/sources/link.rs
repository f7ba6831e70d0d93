//! What connects a source with the agent: batches and states one way, how far all is
//! durable the other way.
//!
//! Always holds: a source is told of a position only when everything up to it is
//! durable, so what it confirms to where it reads from is never lost. Bound:
//! [`SOURCE_BATCHES_MAX`] batches that are not durable; above it the source waits.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use forebay_core::effect::{SourceBatch, SourceNo, SourcePosition, SourceState};
use forebay_core::limits::SOURCE_BATCHES_MAX;
use tokio::sync::{mpsc, watch};

use super::figures::Figures;

/// Where changes come from.
pub trait Source: std::fmt::Debug + Send + Sync + 'static {
    /// Reads until the link says that the agent stops; connects again by itself. May be
    /// called again, with another link: what was under way on the former one is void.
    fn run(&self, link: SourceLink) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// What a source says.
#[derive(Debug)]
pub enum SourceSays {
    Batch(SourceBatch),
    State {
        state: SourceState,
        /// What it still has to hand over, where that is known.
        lag_bytes: Option<u64>,
    },
    /// A sentence for the operator, without the source's name.
    Note(String),
}

/// The agent stops: read nothing more, and end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped;

/// How far a source is.
#[derive(Debug, Clone, Default)]
struct Durable {
    position: Option<SourcePosition>,
    /// Nothing more is taken; what was taken may still become durable.
    draining: bool,
}

/// The source's end.
#[derive(Debug)]
pub struct SourceLink {
    number: SourceNo,
    out: mpsc::Sender<(SourceNo, SourceSays)>,
    durable: watch::Receiver<Durable>,
    /// Positions of the batches that are on their way.
    under_way: VecDeque<SourcePosition>,
    figures: Arc<Figures>,
}

impl SourceLink {
    /// Everything up to there is durable; `None`: the source was never read. Go on
    /// behind it.
    #[must_use]
    pub fn durable(&self) -> Option<SourcePosition> {
        self.durable.borrow().position.clone()
    }

    /// Hands a batch over, once few enough are on their way. Positions of batches
    /// grow as texts.
    ///
    /// # Errors
    /// When the agent takes nothing more.
    pub async fn send(&mut self, batch: SourceBatch) -> Result<(), Stopped> {
        while !self.has_room() {
            self.moved().await?;
        }
        if self.is_draining() {
            return Err(Stopped);
        }
        self.under_way.push_back(batch.position.clone());
        let said = SourceSays::Batch(batch);
        let sent = self.out.send((self.number, said)).await;
        sent.map_err(|_| Stopped)
    }

    /// Whether [`SourceLink::send`] hands over at once.
    pub fn has_room(&mut self) -> bool {
        let durable = self.durable.borrow();
        let reached = |sent: &mut SourcePosition| {
            let position = durable.position.as_ref();
            position.is_some_and(|position| sent.0 <= position.0)
        };
        while self.under_way.pop_front_if(reached).is_some() {}
        self.under_way.len() < SOURCE_BATCHES_MAX
    }

    /// Whether all that was sent is durable.
    pub fn is_settled(&mut self) -> bool {
        self.has_room() && self.under_way.is_empty()
    }

    /// Whether the agent takes nothing more; what was sent may still become durable.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.durable.borrow().draining || self.durable.has_changed().is_err()
    }

    /// Waits until more is durable, or the agent begins to stop. Gives how far it is.
    ///
    /// # Errors
    /// When the agent has stopped.
    pub async fn moved(&mut self) -> Result<Option<SourcePosition>, Stopped> {
        self.durable.changed().await.map_err(|_| Stopped)?;
        Ok(self.durable.borrow_and_update().position.clone())
    }

    /// Says how the source is doing, and how many bytes it is behind where it knows that.
    ///
    /// # Errors
    /// When the agent has stopped.
    pub async fn state(&self, state: SourceState, lag_bytes: Option<u64>) -> Result<(), Stopped> {
        let said = SourceSays::State { state, lag_bytes };
        let sent = self.out.send((self.number, said)).await;
        sent.map_err(|_| Stopped)
    }

    /// Says something to the operator; without an agent nobody hears it.
    pub async fn say(&self, text: String) {
        let _ = self.out.send((self.number, SourceSays::Note(text))).await;
    }

    /// What is counted of the source.
    #[must_use]
    pub fn figures(&self) -> &Arc<Figures> {
        &self.figures
    }
}

/// The agent's end. Dropping it ends the source.
#[derive(Debug)]
pub struct SourceHandle {
    durable: watch::Sender<Durable>,
}

impl SourceHandle {
    /// Everything up to `position` is durable.
    pub fn durable(&self, position: SourcePosition) {
        self.durable
            .send_modify(|durable| durable.position = Some(position));
    }

    /// The source takes nothing more.
    pub fn drain(&self) {
        self.durable.send_modify(|durable| durable.draining = true);
    }
}

/// Both ends of the link of a source that was read up to `held`; `figures` go on counting.
#[must_use]
pub fn link(
    number: SourceNo,
    held: Option<SourcePosition>,
    out: mpsc::Sender<(SourceNo, SourceSays)>,
    figures: Arc<Figures>,
) -> (SourceHandle, SourceLink) {
    let (sender, durable) = watch::channel(Durable {
        position: held,
        draining: false,
    });
    let handle = SourceHandle { durable: sender };
    let link = SourceLink {
        number,
        out,
        durable,
        under_way: VecDeque::new(),
        figures,
    };
    (handle, link)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position(n: usize) -> SourcePosition {
        SourcePosition(format!("{n:020}").into())
    }

    fn batch(n: usize) -> SourceBatch {
        SourceBatch {
            events: Vec::new(),
            position: position(n),
        }
    }

    fn on_runtime(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.unwrap().block_on(test);
    }

    #[test]
    fn batches_wait_for_the_disk_at_their_limit() {
        on_runtime(async {
            let (out, mut said) = mpsc::channel(64);
            let (handle, mut link) = link(SourceNo(3), Some(position(0)), out, Arc::default());
            assert_eq!(link.durable(), Some(position(0)));
            for n in 1..=SOURCE_BATCHES_MAX {
                assert!(link.has_room(), "{n}");
                assert_eq!(link.send(batch(n)).await, Ok(()));
            }
            assert!(!link.has_room() && !link.is_settled());
            handle.durable(position(1));
            assert!(link.has_room());
            assert_eq!(link.moved().await, Ok(Some(position(1))));
            assert_eq!(link.send(batch(SOURCE_BATCHES_MAX + 1)).await, Ok(()));
            assert!(!link.has_room());
            handle.durable(position(SOURCE_BATCHES_MAX + 1));
            assert!(link.is_settled());
            let mut count = 0;
            while let Ok((number, SourceSays::Batch(_))) = said.try_recv() {
                assert_eq!(number, SourceNo(3));
                count += 1;
            }
            assert_eq!(count, SOURCE_BATCHES_MAX + 1);
        });
    }

    #[test]
    fn a_stopping_agent_takes_nothing_more_and_then_ends_the_source() {
        on_runtime(async {
            let (out, _said) = mpsc::channel(64);
            let (handle, mut link) = link(SourceNo(0), None, out, Arc::default());
            assert_eq!(link.send(batch(1)).await, Ok(()));
            handle.drain();
            assert!(link.is_draining());
            assert_eq!(link.send(batch(2)).await, Err(Stopped));
            handle.durable(position(1));
            assert_eq!(link.moved().await, Ok(Some(position(1))));
            assert!(link.is_settled());
            drop(handle);
            assert_eq!(link.moved().await, Err(Stopped));
        });
    }
}
