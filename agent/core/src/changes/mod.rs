//! Changes of tables: what sources hand over becomes lines of topic `changes`, in the order
//! in which it came, and engines are told from where on they count.
//!
//! Always holds: an event of a source becomes its changes once, whatever is handed over
//! again after a crash; a row stands in the book as the topic says, and a position is told
//! to a source only when everything up to it is durable. Changes that are to go are in the
//! base of tables before. Bounds: `limits.rs`, SOURCE_* and
//! TABLE_*. Knows no database, no broker, no file and no engine. How and why:
//! `agent/core/docs/changes.md`.

mod base;
mod book;
mod event;
mod marks;
mod source;
#[cfg(test)]
mod tests;
mod write;

use std::sync::Arc;

use self::base::Fold;
pub use self::base::{BASE_META_KEY, BASE_META_PREFIX, Base};
pub use self::book::{
    Book, CHANGES_META_KEY, Held, TABLE_META_PREFIX, Table, TableCounters, filled, is_same_row,
};
pub use self::event::{
    RowText, SourceBatch, SourceConfig, SourceEvent, SourceNo, SourcePosition, SourceState,
    StaticTable,
};
use self::marks::Marks;
pub use self::source::{SOURCE_META_PREFIX, Source, SourceCounters};
use self::write::Writer;
use crate::change::{Change, ChangeOp};
use crate::commit::GroupCommit;
use crate::engine::config::{EngineConfig, JoinSource};
use crate::limits::{EVENT_TIME_MAX, HEARTBEAT_SPACING_US};
use crate::log::block::Body;
use crate::log::key::{StoredBlock, TopicPartition};
use crate::log::topic::CHANGES;
use crate::log::walk::{Met, Walk};
use crate::meta::{Entry, with_crc};
use crate::units::{EventTime, Mono, Now, Offset, PartitionId};

/// The one partition of topic `changes`.
pub const CHANGES_AT: TopicPartition = TopicPartition {
    topic: CHANGES,
    partition: PartitionId(0),
};

/// Meta keys that say that a table's rows were once taken from the config: this and its name.
pub const STATIC_META_PREFIX: &[u8] = b"static/";
/// From when on a row holds that stood in the config from the first.
pub const BEGINNING: EventTime = EventTime(-EVENT_TIME_MAX);

/// What a run has to do with topic `changes`.
#[derive(Debug)]
pub struct Changes {
    book: Book,
    /// Those of the config, then the config itself where it has tables.
    sources: Vec<Source>,
    /// Tables of the config whose rows are taken for the first time, until they are.
    fresh: Vec<Arc<str>>,
    marks: Marks,
    /// What of the topic is not in the book yet.
    tail: Walk,
    /// Where it ended when the log was opened.
    tail_end: Offset,
    /// What of the topic is to go, or has gone.
    fold: Fold,
    /// Changes that could not be read again.
    missing: u64,
    is_announced: bool,
    says: Vec<ChangesSay>,
}

/// What the stage wants said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangesSay {
    Start(SourceNo, Option<SourcePosition>),
    Durable(SourceNo, SourcePosition),
    Note(String),
}

/// Whether some window or join of an engine looks at a table.
#[must_use]
pub fn uses_tables(engine: &EngineConfig) -> bool {
    let is_table = |from: JoinSource| matches!(from, JoinSource::Table(_));
    let of_join = |join: &crate::engine::config::JoinSpec| {
        is_table(join.left.from) || is_table(join.right.from)
    };
    engine.joins.iter().any(of_join)
        || engine
            .windows
            .iter()
            .any(|window| !window.key_columns.is_empty())
}

impl Changes {
    /// What `meta` keeps of it on a log whose topic ends at `head`; the rows of `tables`
    /// come as what the config says at `now`.
    #[must_use]
    pub fn new(
        (sources, tables): (&[SourceConfig], &[StaticTable]),
        (engine, partitions): (&EngineConfig, Vec<PartitionId>),
        meta: &[Entry],
        (head, now): (Offset, Now),
    ) -> Self {
        let specs = || engine.tables.iter();
        let specs = || specs().map(|spec| (spec.name.as_str(), spec.key.as_slice()));
        let (mut book, mut upto) = Book::restore(specs(), meta, true);
        let mut says = Vec::new();
        let mut believed = meta;
        if upto > head {
            // Engines know less than the book: all of it comes again as changes.
            says.push(ChangesSay::Note(format!(
                "the log lost the changes of tables from offset {} to {}: tables are taken anew \
                 from where they come from",
                head.0, upto.0
            )));
            (book, upto) = Book::restore(specs(), meta, false);
            believed = &[];
        }
        let restored = sources.iter();
        let restored = restored.map(|config| Source::restore(config.clone(), believed));
        let mut sources: Vec<Source> = restored.collect();
        let fresh = tables.iter().map(|table| table.table.clone());
        let fresh: Vec<_> = fresh.filter(|name| !was_taken(name, meta)).collect();
        sources.extend(of_config(tables, &fresh, now.utc));
        let partitions = if uses_tables(engine) {
            partitions
        } else {
            Vec::new()
        };
        Self {
            book,
            sources,
            fresh,
            marks: Marks::new(partitions),
            tail: Walk::new(CHANGES_AT, upto),
            tail_end: head,
            fold: Fold::restore(meta, head),
            missing: 0,
            is_announced: false,
            says,
        }
    }

    /// The next read of the topic.
    pub fn next_fetch(&mut self) -> Option<(TopicPartition, Offset)> {
        self.tail.next_fetch(self.tail_end)
    }

    /// Takes what it brought: changes that a crash left out of the entries.
    pub fn on_fetched(&mut self, blocks: &[StoredBlock]) {
        let (book, sources) = (&mut self.book, &mut self.sources);
        let missing = &mut self.missing;
        self.tail
            .on_fetched(blocks, self.tail_end, |met| match met {
                Met::Hole { first, end } => *missing += end.0 - first.0,
                Met::Block { block, records, .. } => {
                    let Body::Rows(rows) = &block.body else {
                        return;
                    };
                    for row in &rows[records] {
                        let Ok(change) = Change::parse(&row.line) else {
                            *missing += 1;
                            continue;
                        };
                        book.apply(&change);
                        let source = sources.iter_mut().find(|s| s.feeds(&change.table));
                        if let (Some(source), Some(position)) = (source, &change.position) {
                            source.take(&SourcePosition(position.clone()));
                        }
                    }
                }
            });
    }

    /// Wants the changes below `end` in the base, as they are to go.
    pub fn fold(&mut self, end: Offset) {
        self.fold.want(end);
    }

    /// The next read of the topic for the base.
    pub fn next_base_fetch(&mut self) -> Option<(TopicPartition, Offset)> {
        self.fold.next_fetch()
    }

    /// Takes what it brought; what it says goes with the next batch.
    pub fn on_base_fetched(&mut self, blocks: &[StoredBlock]) {
        self.fold.on_fetched(blocks);
    }

    /// Changes below it are in a base that is durable.
    #[must_use]
    pub fn folded(&self) -> Offset {
        self.fold.durable()
    }

    /// What the changes say that went, or are about to.
    #[must_use]
    pub fn base(&self) -> &Arc<Base> {
        self.fold.base()
    }

    /// Whether the book says all that the log said when it was opened.
    #[must_use]
    pub fn is_loaded(&self) -> bool {
        self.tail.cursor() >= self.tail_end
    }

    /// Takes what a source has read.
    pub fn on_batch(&mut self, number: SourceNo, batch: SourceBatch) {
        let Some(source) = self.sources.get_mut(usize::from(number.0)) else {
            return;
        };
        if source.broken.is_some() {
            return;
        }
        if let Err(why) = source.push(batch) {
            let text = format!(
                "source {}: {why}; nothing more of it is taken until the next start",
                source.config.name
            );
            source.break_off(why);
            self.says.push(ChangesSay::Note(text));
        }
    }

    pub fn on_state(&mut self, number: SourceNo, state: SourceState, lag_bytes: Option<u64>) {
        if let Some(source) = self.sources.get_mut(usize::from(number.0)) {
            (source.state, source.lag_bytes) = (Some(state), lag_bytes);
        }
    }

    /// Writes what there is room for, and tells engines of what is durable. `now` is by the
    /// gateway's clock as far as it is known.
    pub fn step(&mut self, now: Now, commit: &mut GroupCommit) {
        if !self.is_loaded() {
            return;
        }
        if !self.is_announced {
            self.is_announced = true;
            self.announce();
        }
        let mut writer = Writer {
            book: &mut self.book,
            says: &mut self.says,
            now,
            commit,
        };
        loop {
            let mut moved = false;
            for source in &mut self.sources {
                moved |= writer.step(source);
            }
            if !moved {
                break;
            }
        }
        for source in &mut self.sources {
            writer.beat(source);
        }
        if self.sources.iter().any(Source::is_given) {
            commit.wake(now.mono);
        }
        self.marks.step(commit.head(CHANGES_AT), now, commit);
    }

    fn announce(&mut self) {
        if self.missing > 0 {
            self.says.push(ChangesSay::Note(format!(
                "{} changes of tables cannot be read any more: rows may be as they were before, \
                 until their source says them again",
                self.missing
            )));
        }
        let starts = (0..)
            .zip(&self.sources)
            .filter(|(_, source)| !is_config(source));
        let starts = starts
            .map(|(number, source)| ChangesSay::Start(SourceNo(number), source.taken().cloned()));
        self.says.extend(starts);
    }

    /// The entries to write with the batch that holds all changes so far.
    pub fn take_entries(&mut self, commit: &GroupCommit) -> Vec<Entry> {
        let mut entries = Vec::new();
        if self.is_loaded() && self.book.is_dirty() {
            entries = self.book.take_entries(commit.next(CHANGES_AT));
        }
        entries.extend(self.fold.take_entries());
        for source in &mut self.sources {
            if !is_config(source) {
                entries.extend(source.take_entry());
            } else if source.is_taken() {
                for table in self.fresh.drain(..) {
                    let key = [STATIC_META_PREFIX, table.as_bytes()].concat();
                    entries.push((key, with_crc(vec![STATIC_VERSION])));
                }
            }
        }
        entries
    }

    /// A batch was cut.
    pub fn on_cut(&mut self) {
        self.sources.iter_mut().for_each(Source::on_cut);
        self.fold.on_cut();
    }

    /// It is durable. True: the base has all now that was wanted in it.
    pub fn on_committed(&mut self) -> bool {
        let is_folded = self.fold.on_committed();
        for (number, source) in (0..).zip(&mut self.sources) {
            if let Some(position) = source.on_committed().filter(|_| !is_config(source)) {
                self.says
                    .push(ChangesSay::Durable(SourceNo(number), position));
            }
        }
        is_folded
    }

    /// What is to be said since the last call.
    pub fn take_says(&mut self) -> Vec<ChangesSay> {
        std::mem::take(&mut self.says)
    }

    /// When [`Changes::step`] wants to be called without anything happening.
    #[must_use]
    pub fn next_deadline(&self, commit: &GroupCommit) -> Option<Mono> {
        let beating = self.sources.iter().filter(|source| source.beat.is_some());
        let tables = beating.flat_map(|source| &source.config.tables);
        let beats = tables.filter_map(|table| {
            let at = self.book.table(table)?.beat_at?;
            Some(Mono(at.0.saturating_add(HEARTBEAT_SPACING_US)))
        });
        let mark = self.marks.next_deadline(commit.head(CHANGES_AT));
        let can_go_on = self.is_loaded() && commit.has_room();
        beats.chain(mark).min().filter(|_| can_go_on)
    }

    /// Whether everything that was handed over is durable and told to the engines.
    #[must_use]
    pub fn is_settled(&self, commit: &GroupCommit) -> bool {
        let head = commit.head(CHANGES_AT);
        self.is_loaded()
            && self.sources.iter().all(Source::is_settled)
            && commit.next(CHANGES_AT) == head
            && self.marks.is_told(head)
    }

    #[must_use]
    pub fn book(&self) -> &Book {
        &self.book
    }

    /// The sources of the config, in its order.
    pub fn sources(&self) -> impl Iterator<Item = &Source> {
        self.sources.iter().filter(|source| !is_config(source))
    }

    /// Changes that a start could not read.
    #[must_use]
    pub fn missing(&self) -> u64 {
        self.missing
    }
}

const STATIC_VERSION: u8 = 1;

fn was_taken(table: &str, meta: &[Entry]) -> bool {
    let wanted = [STATIC_META_PREFIX, table.as_bytes()].concat();
    let value = with_crc(vec![STATIC_VERSION]);
    meta.iter().any(|(key, is)| *key == wanted && *is == value)
}

/// The config as a source: no name has no letter.
fn is_config(source: &Source) -> bool {
    source.config.name.is_empty()
}

/// The rows of the config as what a source says: a snapshot of each table.
fn of_config(tables: &[StaticTable], fresh: &[Arc<str>], now: EventTime) -> Option<Source> {
    if tables.is_empty() {
        return None;
    }
    let config = SourceConfig {
        name: String::new(),
        tables: tables.iter().map(|table| table.table.clone()).collect(),
    };
    let mut source = Source::restore(config, &[]);
    let position = SourcePosition::default();
    let mut events = Vec::new();
    for StaticTable { table, rows } in tables {
        let time = if fresh.contains(table) {
            BEGINNING
        } else {
            now
        };
        let table = || table.clone();
        events.push(SourceEvent::SnapshotBegin {
            table: table(),
            position: position.clone(),
        });
        events.extend(rows.iter().map(|row| SourceEvent::SnapshotRow {
            table: table(),
            row: row.clone(),
            time,
        }));
        events.push(SourceEvent::SnapshotEnd {
            table: table(),
            time: now,
            position: position.clone(),
        });
    }
    let pushed = source.push(SourceBatch { events, position });
    pushed.expect("the first batch of a source, with no position");
    Some(source)
}

fn heartbeat(table: &Arc<str>, time: EventTime) -> Change {
    Change {
        table: table.clone(),
        op: ChangeOp::Heartbeat,
        key: Arc::from(""),
        time,
        before: None,
        after: None,
        position: None,
    }
}
