//! Events of a port on their way to the link: a few of each port at once, so that one
//! that floods never fills the channel that all share.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::limits::PORT_EVENTS_MAX;
use super::{PortEventKind, PortId};

/// Something that happened at a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortEvent {
    pub port: PortId,
    pub kind: PortEventKind,
    /// Given back when the event is dropped.
    share: Share,
}

#[derive(Debug)]
struct Share {
    _permit: Option<OwnedSemaphorePermit>,
}

/// A copy is not in the channel.
impl Clone for Share {
    fn clone(&self) -> Self {
        Self { _permit: None }
    }
}

/// Two events are the same when the same happened.
impl PartialEq for Share {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Eq for Share {}

impl PortEvent {
    /// An event that is in no channel.
    pub fn new(port: PortId, kind: PortEventKind) -> Self {
        let share = Share { _permit: None };
        Self { port, kind, share }
    }
}

/// One port's end of the channel.
#[derive(Debug)]
pub(super) struct EventSender {
    port: PortId,
    share: Arc<Semaphore>,
    events: mpsc::Sender<PortEvent>,
}

impl EventSender {
    pub(super) fn new(port: PortId, events: mpsc::Sender<PortEvent>) -> Self {
        Self {
            port,
            share: Arc::new(Semaphore::new(PORT_EVENTS_MAX)),
            events,
        }
    }

    /// Waits until this port's share and the channel have room. False: nobody takes
    /// events any more.
    pub(super) async fn send(&self, kind: PortEventKind) -> bool {
        // It is never closed, so there always comes a permit.
        let Ok(permit) = Arc::clone(&self.share).acquire_owned().await else {
            return false;
        };
        let event = PortEvent {
            port: self.port,
            kind,
            share: Share {
                _permit: Some(permit),
            },
        };
        self.events.send(event).await.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// Whether it is done at its first poll.
    fn at_once(send: impl Future<Output = bool>) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        match std::pin::pin!(send).poll(&mut context) {
            Poll::Ready(sent) => sent,
            Poll::Pending => false,
        }
    }

    fn opened() -> PortEventKind {
        PortEventKind::Opened { baud: None }
    }

    #[test]
    fn a_port_fills_its_share_and_not_the_channel() {
        let (sender, mut events) = mpsc::channel(4 * PORT_EVENTS_MAX);
        let flood = EventSender::new(PortId(1), sender.clone());
        let quiet = EventSender::new(PortId(2), sender);
        let sent = (0..2 * PORT_EVENTS_MAX)
            .filter(|_| at_once(flood.send(opened())))
            .count();
        assert_eq!(sent, PORT_EVENTS_MAX);
        assert!(at_once(quiet.send(opened())), "the other port has its own");
        // Taking an event, here by dropping it, makes room for one.
        for (name, want) in [("limit", true), ("limit+1", false)] {
            if want {
                drop(events.try_recv().unwrap());
            }
            assert_eq!(at_once(flood.send(opened())), want, "{name}");
        }
        drop(events);
        assert!(!at_once(quiet.send(opened())), "nobody takes events");
    }
}
