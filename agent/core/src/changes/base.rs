//! The base of tables: what the changes say that retention takes out of topic `changes`, so
//! that an engine that is built anew afterwards knows all rows.
//!
//! Always holds: what of the base is durable says all of the changes below its offset: of
//! each key the newest version by time, of two of one time the later in the log; a row that
//! was deleted has none. Folding a change again changes nothing. Bound: [`TABLE_ROWS_MAX`]
//! rows of a table, [`TABLES_MAX`] tables; what is beyond is counted. Knows no segment and
//! no engine.
//!
//! | meta key | value |
//! |---|---|
//! | `table-base/` name `/` key | version u8 = 1; time, zigzag; offset of its change, varint; the row's text; CRC-32C |
//! | `table-base` | version u8 = 1; offset up to which the base reaches, varint; changes that it lacks, varint; number of tables, varint; of each its name (length, varint; UTF-8) and the largest time of its changes and heartbeats, zigzag; CRC-32C |

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::CHANGES_AT;
use super::book::{meta_key, parse_key};
use crate::change::{Change, ChangeOp};
use crate::limits::{META_KEY_BYTES_MAX, TABLE_ROWS_MAX, TABLES_MAX};
use crate::log::block::Body;
use crate::log::bytes::{put_varint, put_zigzag};
use crate::log::key::{StoredBlock, TopicPartition};
use crate::log::walk::{Met, Walk};
use crate::meta::{Entry, checked, with_crc};
use crate::units::{EventTime, Offset};

/// Meta keys of rows: this, table, `/`, key.
pub const BASE_META_PREFIX: &[u8] = b"table-base/";
/// Meta key of how far these reach.
pub const BASE_META_KEY: &[u8] = b"table-base";
const VERSION: u8 = 1;

/// The newest version of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Newest {
    time: EventTime,
    /// Of its change.
    offset: Offset,
    row: Arc<str>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct TableBase {
    rows: BTreeMap<Arc<str>, Newest>,
    /// Largest time of its changes and heartbeats.
    known: Option<EventTime>,
}

/// What the changes below an offset say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Base {
    upto: Offset,
    /// Changes below it that it does not have: lost, or of rows and tables beyond the bounds.
    lost: u64,
    tables: BTreeMap<Arc<str>, TableBase>,
}

impl Base {
    /// As `meta` keeps it.
    #[must_use]
    pub fn restore(meta: &[Entry]) -> Self {
        let head = meta.iter().find(|(key, _)| key == BASE_META_KEY);
        let Some(mut base) = head.and_then(|(_, value)| parse_head(value)) else {
            return Self::default();
        };
        for (key, value) in meta {
            let Some((table, key)) = parse_key(key, BASE_META_PREFIX) else {
                continue;
            };
            let table = base.tables.get_mut(table);
            match table.zip(parse_newest(value)) {
                Some((table, newest)) => {
                    table.rows.insert(Arc::from(key), newest);
                }
                None => base.lost += 1,
            }
        }
        base
    }

    /// It says all of the changes below this offset.
    #[must_use]
    pub fn upto(&self) -> Offset {
        self.upto
    }

    /// Rows of all tables.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tables.values().map(|table| table.rows.len()).sum()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What an engine that has applied the changes below `applied` is to apply instead of
    /// those up to [`Base::upto`], and how many of these it lacks: in the order of the log,
    /// so that no table is taken to be known up to a time before its rows are there.
    #[must_use]
    pub fn changes(&self, applied: Offset) -> (Vec<Change>, u64) {
        let mut all = Vec::new();
        for (name, table) in &self.tables {
            let new = table.rows.iter().filter(|(_, row)| row.offset >= applied);
            all.extend(new.map(|(key, row)| (row.offset, change(name, key, row))));
        }
        all.sort_by_key(|(offset, _)| *offset);
        let missing = if applied == Offset(0) {
            self.lost
        } else {
            // Versions between, and deletes.
            let passed = self.upto.0.saturating_sub(applied.0);
            passed.saturating_sub(all.len() as u64)
        };
        let rows = all.into_iter().map(|(_, change)| change);
        let known = self.tables.iter().filter_map(|(name, table)| {
            let time = table.known?;
            Some(super::heartbeat(name, time))
        });
        (rows.chain(known).collect(), missing)
    }

    /// Takes the change at `offset`; gives the key whose entry is another.
    fn fold(&mut self, offset: Offset, change: &Change) -> Option<(Arc<str>, Arc<str>)> {
        let meta_key_bytes = BASE_META_PREFIX.len() + change.table.len() + 1 + change.key.len();
        let is_new = !self.tables.contains_key(&change.table);
        if meta_key_bytes > META_KEY_BYTES_MAX || (is_new && self.tables.len() >= TABLES_MAX) {
            self.lost += 1;
            return None;
        }
        if is_new {
            self.tables
                .insert(change.table.clone(), TableBase::default());
        }
        let table = self.tables.get_mut(&change.table)?;
        table.known = table.known.max(Some(change.time));
        let held = table.rows.get(&change.key);
        let is_newer = held.is_none_or(|held| (held.time, held.offset) <= (change.time, offset));
        if !is_newer {
            return None;
        }
        match (change.op, &change.after) {
            (ChangeOp::Insert | ChangeOp::Update, Some(row)) => {
                if held.is_none() && table.rows.len() >= TABLE_ROWS_MAX {
                    self.lost += 1;
                    return None;
                }
                let newest = Newest {
                    time: change.time,
                    offset,
                    row: row.clone(),
                };
                table.rows.insert(change.key.clone(), newest);
            }
            (ChangeOp::Delete, _) => {
                table.rows.remove(&change.key)?;
            }
            (ChangeOp::Insert | ChangeOp::Update | ChangeOp::Heartbeat, _) => return None,
        }
        Some((change.table.clone(), change.key.clone()))
    }

    fn head_bytes(&self) -> Vec<u8> {
        let mut value = vec![VERSION];
        put_varint(&mut value, self.upto.0);
        put_varint(&mut value, self.lost);
        put_varint(&mut value, self.tables.len() as u64);
        for (name, table) in &self.tables {
            put_varint(&mut value, name.len() as u64);
            value.extend_from_slice(name.as_bytes());
            put_zigzag(&mut value, table.known.map_or(i64::MIN, |known| known.0));
        }
        with_crc(value)
    }
}

/// The base of a run, on its way to what retention wants gone.
#[derive(Debug)]
pub(super) struct Fold {
    /// Engines that have not begun may hold it.
    base: Arc<Base>,
    walk: Walk,
    /// Up to here changes are wanted in it.
    target: Offset,
    /// Rows whose entries are to be written, and whether that of the base itself is.
    dirty: BTreeSet<(Arc<str>, Arc<str>)>,
    is_dirty: bool,
    /// How far it reaches by the entries given, in the batch that was cut, and durable.
    written: Option<Offset>,
    cut: Option<Offset>,
    durable: Offset,
    /// Entries that are of no use any more.
    stale: Vec<Vec<u8>>,
}

impl Fold {
    /// As `meta` keeps it, of a topic that ends at `head`. Where the log ends before it,
    /// all rows come again as changes: nothing of it is kept.
    pub(super) fn restore(meta: &[Entry], head: Offset) -> Self {
        let mut base = Base::restore(meta);
        let mut stale = Vec::new();
        let is_believed = base.upto > Offset(0) && base.upto <= head;
        if !is_believed {
            base = Base::default();
            let keys = meta.iter().map(|(key, _)| key);
            let ours =
                keys.filter(|key| *key == BASE_META_KEY || key.starts_with(BASE_META_PREFIX));
            stale = ours.cloned().collect();
        }
        let upto = base.upto;
        Self {
            base: Arc::new(base),
            walk: Walk::new(CHANGES_AT, upto),
            target: upto,
            dirty: BTreeSet::new(),
            is_dirty: false,
            written: None,
            cut: None,
            durable: upto,
            stale,
        }
    }

    /// Changes below `end` are to go.
    pub(super) fn want(&mut self, end: Offset) {
        self.target = self.target.max(end);
    }

    /// The next read of the topic: when what came before it is durable.
    pub(super) fn next_fetch(&mut self) -> Option<(TopicPartition, Offset)> {
        let is_durable = self.durable == self.walk.cursor();
        is_durable.then(|| self.walk.next_fetch(self.target))?
    }

    /// Takes what it brought.
    pub(super) fn on_fetched(&mut self, blocks: &[StoredBlock]) {
        let base = Arc::make_mut(&mut self.base);
        let dirty = &mut self.dirty;
        self.walk.on_fetched(blocks, self.target, |met| match met {
            Met::Hole { first, end } => base.lost += end.0 - first.0,
            Met::Block {
                head,
                block,
                records,
            } => {
                let Body::Rows(rows) = &block.body else {
                    base.lost += records.len() as u64;
                    return;
                };
                for index in records {
                    let offset = Offset(head.base.0 + index as u64);
                    match Change::parse(&rows[index].line) {
                        Ok(change) => dirty.extend(base.fold(offset, &change)),
                        Err(_) => base.lost += 1,
                    }
                }
            }
        });
        base.upto = self.walk.cursor();
        self.is_dirty = true;
    }

    /// The entries to write with one batch.
    pub(super) fn take_entries(&mut self) -> Vec<Entry> {
        let stale = std::mem::take(&mut self.stale).into_iter();
        let mut entries: Vec<Entry> = stale.map(|key| (key, Vec::new())).collect();
        if !std::mem::take(&mut self.is_dirty) {
            return entries;
        }
        for (table, key) in std::mem::take(&mut self.dirty) {
            let rows = self.base.tables.get(&table).map(|table| &table.rows);
            let newest = rows.and_then(|rows| rows.get(&key));
            let value = newest.map_or(Vec::new(), newest_bytes);
            entries.push((meta_key(BASE_META_PREFIX, &table, &key), value));
        }
        entries.push((BASE_META_KEY.to_vec(), self.base.head_bytes()));
        self.written = Some(self.base.upto);
        entries
    }

    pub(super) fn on_cut(&mut self) {
        self.cut = self.written.take().or(self.cut);
    }

    /// True: all that was wanted is durable now.
    pub(super) fn on_committed(&mut self) -> bool {
        let Some(upto) = self.cut.take() else {
            return false;
        };
        self.durable = upto;
        upto >= self.target
    }

    /// Changes below it are in what is durable.
    pub(super) fn durable(&self) -> Offset {
        self.durable
    }

    pub(super) fn base(&self) -> &Arc<Base> {
        &self.base
    }
}

fn change(table: &Arc<str>, key: &Arc<str>, newest: &Newest) -> Change {
    Change {
        table: table.clone(),
        op: ChangeOp::Insert,
        key: key.clone(),
        time: newest.time,
        before: None,
        after: Some(newest.row.clone()),
        position: None,
    }
}

fn newest_bytes(newest: &Newest) -> Vec<u8> {
    let mut value = vec![VERSION];
    put_zigzag(&mut value, newest.time.0);
    put_varint(&mut value, newest.offset.0);
    value.extend_from_slice(newest.row.as_bytes());
    with_crc(value)
}

fn parse_newest(value: &[u8]) -> Option<Newest> {
    let mut reader = checked(VERSION, value)?;
    let time = EventTime(reader.zigzag().ok()?);
    let offset = Offset(reader.varint().ok()?);
    let row = reader.take(reader.remaining()).ok()?;
    Some(Newest {
        time,
        offset,
        row: Arc::from(std::str::from_utf8(row).ok()?),
    })
}

/// A base without its rows.
fn parse_head(value: &[u8]) -> Option<Base> {
    let mut reader = checked(VERSION, value)?;
    let upto = Offset(reader.varint().ok()?);
    let lost = reader.varint().ok()?;
    let count = usize::try_from(reader.varint().ok()?).ok()?;
    if count > TABLES_MAX {
        return None;
    }
    let mut tables = BTreeMap::new();
    for _ in 0..count {
        let length = usize::try_from(reader.varint().ok()?).ok()?;
        let name = std::str::from_utf8(reader.take(length).ok()?).ok()?;
        let known = reader.zigzag().ok()?;
        let table = TableBase {
            rows: BTreeMap::new(),
            known: (known > i64::MIN).then_some(EventTime(known)),
        };
        tables.insert(Arc::from(name), table);
    }
    let is_whole = reader.is_at_end();
    is_whole.then_some(Base { upto, lost, tables })
}

#[cfg(test)]
mod tests;
