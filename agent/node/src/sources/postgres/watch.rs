//! Looks at the database beside the stream: where its write log ends and when, what the
//! slot keeps, whether the tables are as they were. A thread with a connection of its own,
//! so that a slow answer does not hold the stream back.
//!
//! Always holds: a time is looked at before the place, so that what commits later stands
//! behind it. Bound: one look waits to be taken. Ends with its handle.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use super::catalog::{Catalog, Figures, Tables};
use super::fault::{Fault, Place};
use super::hand::Told;
use super::limits::LOOK_EVERY;
use super::lsn::Lsn;
use super::translate::Fed;
use crate::config::DatabaseConfig;

/// One look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Look {
    pub figures: Figures,
    /// Once the stream has come here, everything up to the look's time has come.
    pub reach: Lsn,
    /// Every LOOK_EVERY.
    pub tables: Option<Tables>,
}

/// The thread's other end.
#[derive(Debug)]
pub(super) struct Watch {
    looks: Receiver<Result<Look, Fault>>,
    told: Arc<Told>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Watch {
    pub(super) fn start(
        config: &DatabaseConfig,
        place: &Place,
        fed: &[Fed],
        mut catalog: Catalog,
    ) -> Result<Self, Fault> {
        let (send, looks) = sync_channel(1);
        let told = Arc::new(Told::default());
        let (told_there, fed, every) = (told.clone(), fed.to_vec(), config.heartbeat);
        let thread = std::thread::Builder::new()
            .name(format!("watch {}", config.name))
            .spawn(move || look_on(&mut catalog, &fed, every, &told_there, &send));
        let thread = thread.map_err(|error| {
            Fault::Waiting(place.said(format!("a thread did not start: {error}")))
        })?;
        Ok(Self {
            looks,
            told,
            thread: Some(thread),
        })
    }

    /// The newest look, where there is a new one.
    ///
    /// # Errors
    /// Why no more can be taken.
    pub(super) fn look(&self) -> Result<Option<Look>, Fault> {
        match self.looks.try_recv() {
            Ok(look) => look.map(Some),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => {
                Err(Fault::Waiting("the watch of the database has ended".into()))
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.told.stop();
        if let Some(thread) = self.thread.take() {
            // A query that hangs ends by its own time; nobody waits for it.
            drop(thread);
        }
    }
}

fn look_on(
    catalog: &mut Catalog,
    fed: &[Fed],
    every: Duration,
    told: &Told,
    send: &SyncSender<Result<Look, Fault>>,
) {
    let mut quiet = Quiet::default();
    let mut tables_at: Option<Instant> = None;
    while !told.is_stopped() {
        let with_tables = tables_at.is_none_or(|at| at.elapsed() >= LOOK_EVERY);
        let look = look(catalog, fed, with_tables, &mut quiet);
        if with_tables {
            tables_at = Some(Instant::now());
        }
        let is_last = look.is_err();
        let Some(look) = look.transpose() else {
            // The stream itself will say that its slot is gone.
            told.pause(every);
            continue;
        };
        // One that was not taken yet makes way for none: the next comes soon.
        match send.try_send(look) {
            Ok(()) => {}
            Err(TrySendError::Full(look)) if is_last => drop(send.send(look)),
            Err(TrySendError::Full(_)) => tables_at = None,
            Err(TrySendError::Disconnected(_)) => return,
        }
        if is_last {
            return;
        }
        told.pause(every);
    }
}

fn look(
    catalog: &mut Catalog,
    fed: &[Fed],
    with_tables: bool,
    quiet: &mut Quiet,
) -> Result<Option<Look>, Fault> {
    let Some(figures) = catalog.figures()? else {
        return Ok(None);
    };
    let reach = quiet.reach(&figures, Instant::now());
    let tables = match with_tables {
        true => Some(catalog.tables(fed)?),
        false => None,
    };
    Ok(Some(Look {
        figures,
        reach,
        tables,
    }))
}

/// Since when the write log has not grown.
#[derive(Debug, Default)]
struct Quiet(Option<(Lsn, Instant)>);

/// What is written but not a commit may stay in the server's memory while nothing happens:
/// the stream never comes there. A commit is on the disk before this time is over.
const QUIET: Duration = Duration::from_secs(1);
/// Pages of the write log begin with a header, behind which the next record will stand;
/// the stream ends before it.
const PAGE_BYTES: u64 = 8192;
const PAGE_HEADERS: [u64; 2] = [24, 40];

impl Quiet {
    fn reach(&mut self, figures: &Figures, now: Instant) -> Lsn {
        let end = figures.inserted;
        match self.0 {
            Some((known, since)) if known == end => {
                if now.saturating_duration_since(since) >= QUIET {
                    return figures.flushed;
                }
            }
            Some(_) | None => self.0 = Some((end, now)),
        }
        let within = end.0 % PAGE_BYTES;
        match PAGE_HEADERS.contains(&within) {
            true => Lsn(end.0 - within),
            false => end,
        }
    }
}

#[cfg(test)]
mod tests {
    use forebay_core::units::EventTime;

    use super::*;

    #[test]
    fn the_stream_must_come_to_the_end_unless_nothing_happens() {
        let figures = |inserted, flushed| Figures {
            time: EventTime(0),
            inserted: Lsn(inserted),
            flushed: Lsn(flushed),
            lag: 0,
            kept: 0,
            spare: None,
            status: String::new(),
        };
        let start = Instant::now();
        let mut quiet = Quiet::default();
        assert_eq!(quiet.reach(&figures(900, 500), start), Lsn(900));
        let almost = start + QUIET - Duration::from_millis(1);
        assert_eq!(quiet.reach(&figures(900, 500), almost), Lsn(900));
        assert_eq!(quiet.reach(&figures(900, 800), start + QUIET), Lsn(800));
        assert_eq!(quiet.reach(&figures(901, 800), start + QUIET), Lsn(901));
        for (end, want) in [(8192 + 24, 8192), (8192 + 40, 8192), (8192 + 41, 8192 + 41)] {
            let mut quiet = Quiet::default();
            assert_eq!(quiet.reach(&figures(end, 0), start), Lsn(want));
        }
    }
}
