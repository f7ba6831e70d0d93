//! One source: what it handed over and what of it is written and durable.
//!
//! Always holds: an event is taken once; a position is durable only when all that came up
//! to it is. Bound: [`SOURCE_BATCHES_MAX`] batches wait. Knows no row.
//!
//! | meta key | value |
//! |---|---|
//! | `source/` name | version u8 = 1; position of the last batch that was taken whole, text; position of the last event, text; CRC-32C. A text is its length, varint, and UTF-8 |

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use super::event::{SourceBatch, SourceConfig, SourceEvent, SourcePosition, SourceState};
use crate::limits::{META_VALUE_BYTES_MAX, SOURCE_BATCHES_MAX, SOURCE_POSITION_BYTES_MAX};
use crate::log::bytes::{Reader, put_varint};
use crate::meta::{Entry, checked, with_crc};
use crate::units::EventTime;

/// Meta keys of sources: this and the name.
pub const SOURCE_META_PREFIX: &[u8] = b"source/";
const VERSION: u8 = 1;
const _: () = assert!(2 * SOURCE_POSITION_BYTES_MAX + 32 <= META_VALUE_BYTES_MAX);

/// What is counted of a source since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SourceCounters {
    pub events: u64,
    /// Changes that were written.
    pub changes: u64,
    /// Events that had come before.
    pub repeated: u64,
    /// Events of tables that are not the source's, rows that are none, and rows of no
    /// snapshot.
    pub refused: u64,
    pub snapshots: u64,
}

/// A snapshot under way.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub table: Arc<str>,
    /// Keys of rows that are held and have not come yet.
    pub unseen: BTreeSet<Arc<str>>,
}

/// Rows that go, one after the other.
#[derive(Debug)]
pub(super) struct Deletes {
    pub table: Arc<str>,
    pub keys: std::collections::btree_set::IntoIter<Arc<str>>,
    pub time: EventTime,
    /// Of the event that they belong to: once the last is written.
    pub position: SourcePosition,
}

/// What is taken next.
#[derive(Debug)]
pub(super) enum Next {
    Event(SourceEvent),
    /// All of a batch was taken.
    End(SourcePosition),
}

/// See the module.
#[derive(Debug)]
pub struct Source {
    pub config: SourceConfig,
    waiting: VecDeque<(std::vec::IntoIter<SourceEvent>, SourcePosition)>,
    /// Of the last event that was taken.
    seen: SourcePosition,
    /// Of the last batch that was taken whole.
    taken: Option<SourcePosition>,
    is_dirty: bool,
    /// Positions of batches whose changes are given to the commit, and in the batch of it
    /// that is under way.
    given: Option<SourcePosition>,
    cut: Option<SourcePosition>,
    pub(super) snapshot: Option<Snapshot>,
    pub(super) deletes: Option<Deletes>,
    /// The newest heartbeat that is not written.
    pub(super) beat: Option<EventTime>,
    /// Handed over what it must not; nothing of it is taken in this run.
    pub(super) broken: Option<String>,
    pub state: Option<SourceState>,
    pub lag_bytes: Option<u64>,
    pub counters: SourceCounters,
}

impl Source {
    /// A source as `meta` keeps it.
    #[must_use]
    pub fn restore(config: SourceConfig, meta: &[Entry]) -> Self {
        let wanted = [SOURCE_META_PREFIX, config.name.as_bytes()].concat();
        let entry = meta.iter().find(|(key, _)| *key == wanted);
        let kept = entry.and_then(|(_, value)| parse(value));
        let (taken, seen) = kept.unzip();
        Self {
            config,
            waiting: VecDeque::new(),
            seen: seen.unwrap_or_default(),
            taken: taken.filter(|position| !position.is_none()),
            is_dirty: false,
            given: None,
            cut: None,
            snapshot: None,
            deletes: None,
            beat: None,
            broken: None,
            state: None,
            lag_bytes: None,
            counters: SourceCounters::default(),
        }
    }

    /// Whether a table is its own.
    #[must_use]
    pub fn feeds(&self, table: &str) -> bool {
        self.config.tables.iter().any(|of| **of == *table)
    }

    /// Behind which position it goes on.
    #[must_use]
    pub fn taken(&self) -> Option<&SourcePosition> {
        self.taken.as_ref()
    }

    /// Why nothing of it is taken in this run.
    #[must_use]
    pub fn broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }

    /// Position of the last event that was taken.
    #[must_use]
    pub fn seen(&self) -> &SourcePosition {
        &self.seen
    }

    /// Takes what it handed over.
    ///
    /// # Errors
    /// When it must not hand that over.
    pub(super) fn push(&mut self, batch: SourceBatch) -> Result<(), String> {
        let positions = batch.events.iter().filter_map(position_of);
        let lengths = positions.chain([&batch.position]).map(|p| p.0.len());
        let longest = lengths.max().unwrap_or(0);
        if longest > SOURCE_POSITION_BYTES_MAX {
            return Err(format!(
                "a position of {longest} bytes: at most {SOURCE_POSITION_BYTES_MAX} are kept"
            ));
        }
        if self.waiting.len() >= SOURCE_BATCHES_MAX {
            return Err(format!(
                "more than {SOURCE_BATCHES_MAX} batches at once: it does not wait for the disk"
            ));
        }
        self.waiting
            .push_back((batch.events.into_iter(), batch.position));
        Ok(())
    }

    /// Batches that are not taken whole.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The next thing to take.
    pub(super) fn next(&mut self) -> Option<Next> {
        let (events, _) = self.waiting.front_mut()?;
        if let Some(event) = events.next() {
            self.counters.events += 1;
            return Some(Next::Event(event));
        }
        let (_, position) = self.waiting.pop_front()?;
        Some(Next::End(position))
    }

    /// Whether an event at `position` came before; from now on it has.
    pub(super) fn has_come(&mut self, position: &SourcePosition) -> bool {
        if position.is_none() {
            return false;
        }
        if *position <= self.seen {
            self.counters.repeated += 1;
            return true;
        }
        false
    }

    /// All of the event at `position` is given to the commit.
    pub(super) fn take(&mut self, position: &SourcePosition) {
        if !position.is_none() {
            self.seen = position.clone();
            self.is_dirty = true;
        }
    }

    /// All of the batch that ends at `position` is.
    pub(super) fn end(&mut self, position: SourcePosition) {
        self.is_dirty |= self.taken.as_ref() != Some(&position);
        self.taken = Some(position.clone());
        self.given = Some(position);
    }

    /// Forgets what was handed over and not taken.
    pub(super) fn break_off(&mut self, why: String) {
        self.waiting.clear();
        (self.snapshot, self.deletes, self.beat) = (None, None, None);
        self.broken = Some(why);
    }

    /// Whether everything that it handed over is durable.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.is_taken() && self.given.is_none() && self.cut.is_none()
    }

    /// Whether everything that it handed over is given to the commit.
    pub(super) fn is_taken(&self) -> bool {
        self.waiting.is_empty() && self.deletes.is_none() && self.beat.is_none()
    }

    /// Whether a batch is given to the commit that is not cut.
    pub(super) fn is_given(&self) -> bool {
        self.given.is_some()
    }

    /// A batch of the commit was cut.
    pub(super) fn on_cut(&mut self) {
        if let Some(position) = self.given.take() {
            self.cut = Some(position);
        }
    }

    /// It is durable: up to where.
    pub(super) fn on_committed(&mut self) -> Option<SourcePosition> {
        self.cut.take()
    }

    /// Its entry, where it changed.
    pub(super) fn take_entry(&mut self) -> Option<Entry> {
        if !std::mem::take(&mut self.is_dirty) {
            return None;
        }
        let key = [SOURCE_META_PREFIX, self.config.name.as_bytes()].concat();
        let mut value = vec![VERSION];
        let taken = self.taken.clone().unwrap_or_default();
        for position in [&taken, &self.seen] {
            put_varint(&mut value, position.0.len() as u64);
            value.extend_from_slice(position.0.as_bytes());
        }
        Some((key, with_crc(value)))
    }
}

/// Position of an event, where it has one.
fn position_of(event: &SourceEvent) -> Option<&SourcePosition> {
    match event {
        SourceEvent::Upsert { position, .. }
        | SourceEvent::Delete { position, .. }
        | SourceEvent::Truncate { position, .. }
        | SourceEvent::SnapshotBegin { position, .. }
        | SourceEvent::SnapshotEnd { position, .. }
        | SourceEvent::Heartbeat { position, .. } => Some(position),
        SourceEvent::SnapshotRow { .. } => None,
    }
}

fn parse(value: &[u8]) -> Option<(SourcePosition, SourcePosition)> {
    let mut reader = checked(VERSION, value)?;
    let taken = read_position(&mut reader)?;
    let seen = read_position(&mut reader)?;
    reader.is_at_end().then_some((taken, seen))
}

fn read_position(reader: &mut Reader<'_>) -> Option<SourcePosition> {
    let length = usize::try_from(reader.varint().ok()?).ok()?;
    let text = reader.take(length).ok()?;
    Some(SourcePosition(Arc::from(std::str::from_utf8(text).ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position(text: &str) -> SourcePosition {
        SourcePosition(Arc::from(text))
    }

    fn source(meta: &[Entry]) -> Source {
        let config = SourceConfig {
            name: "plant".into(),
            tables: vec![Arc::from("sites")],
        };
        Source::restore(config, meta)
    }

    #[test]
    fn positions_come_back() {
        let mut first = source(&[]);
        assert_eq!((first.taken(), first.seen()), (None, &position("")));
        first.take(&position("b/2"));
        first.end(position("b"));
        let entry = first.take_entry().expect("it changed");
        assert_eq!(first.take_entry(), None);
        let mut again = source(std::slice::from_ref(&entry));
        assert_eq!(again.taken(), Some(&position("b")));
        for (at, came) in [("b/1", true), ("b/2", true), ("b/3", false), ("", false)] {
            assert_eq!(again.has_come(&position(at)), came, "{at}");
        }
        let (key, value) = entry;
        for at in 0..value.len() {
            let mut bad = value.clone();
            bad[at] ^= 1;
            assert_eq!(source(&[(key.clone(), bad)]).taken(), None, "byte {at}");
        }
    }

    #[test]
    fn batches_and_positions_at_their_limits() {
        let batch = |bytes: usize| SourceBatch {
            events: Vec::new(),
            position: position(&"x".repeat(bytes)),
        };
        for (bytes, good) in [
            (SOURCE_POSITION_BYTES_MAX - 1, true),
            (SOURCE_POSITION_BYTES_MAX, true),
            (SOURCE_POSITION_BYTES_MAX + 1, false),
        ] {
            assert_eq!(source(&[]).push(batch(bytes)).is_ok(), good, "{bytes}");
        }
        let mut source = source(&[]);
        for n in 1..=SOURCE_BATCHES_MAX + 1 {
            let taken = source.push(batch(1)).is_ok();
            assert_eq!(taken, n <= SOURCE_BATCHES_MAX, "{n}");
        }
    }
}
