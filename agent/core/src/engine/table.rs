//! Tables as they were at any time that is kept: the versions of each row, by the time
//! from which they hold. A deleted row leaves a version without a row, so that an older
//! one that comes later does not bring it back.
//!
//! Always: at most one version of a key per time, the later in the log. Where a table is
//! known ([`Tables::known_until`]) never goes back while the gateway's clock holds. Keys
//! have numbers that stay while one of its versions is kept or somebody watches it.
//!
//! Bound: [`TABLE_ROWS_MAX`] keys, each with [`TABLE_VERSIONS_MAX`] versions; a version
//! that ended before the history, and a row that is gone since then, leave. Knows no
//! readings and no joins.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::change::{Change, ChangeOp};
use crate::engine::config::TableSpec;
use crate::engine::state::{self, StateError, StateReader, StateWriter};
use crate::limits::{TABLE_ROWS_MAX, TABLE_VERSIONS_MAX};
use crate::log::bytes::{put_varint, put_zigzag};
use crate::units::EventTime;

/// A key of a table, from 0; free numbers are given again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct KeyNo(u32);

/// A row from a time on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Version {
    /// us
    pub(super) from: i64,
    /// `None`: there is none any more.
    pub(super) row: Option<Arc<str>>,
}

/// What a change made of a row.
#[derive(Debug, Clone)]
pub(super) struct Changed {
    pub(super) table: u16,
    pub(super) key: Arc<str>,
    /// Of the change, us.
    pub(super) time: i64,
    /// The newest version before and after; the same where the change came after one that
    /// is newer.
    pub(super) before: Option<Version>,
    pub(super) after: Option<Version>,
}

/// What one table met that an operator should hear of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TableCounters {
    /// Changes of rows.
    pub changes: u64,
    /// Of these, those older than what was known already: what was joined before does not
    /// have them.
    pub late: u64,
    /// Changes of new keys beyond [`TABLE_ROWS_MAX`]: left out.
    pub refused: u64,
    /// Versions that left early, beyond [`TABLE_VERSIONS_MAX`], and deleted rows forgotten
    /// early for want of room.
    pub forgotten: u64,
}

#[derive(Debug)]
struct Entry {
    key: Arc<str>,
    /// By time.
    versions: Vec<Version>,
    /// Somebody keeps its number.
    is_watched: bool,
}

#[derive(Debug)]
struct Table {
    name: Arc<str>,
    is_static: bool,
    /// us
    out_of_order: i64,
    history: i64,
    /// Largest time of a change or heartbeat.
    newest: i64,
    by_key: BTreeMap<Arc<str>, KeyNo>,
    entries: Vec<Option<Entry>>,
    free: Vec<KeyNo>,
    /// Keys with versions, and of these with a row now.
    keys: usize,
    rows: usize,
    bytes: usize,
    /// When a version replaced another one or a row went: once this is before the history,
    /// what was before has no use.
    ends: BTreeSet<(i64, KeyNo)>,
    /// Rows that are gone, by when.
    gone: BTreeSet<(i64, KeyNo)>,
    counters: TableCounters,
    touched: BTreeSet<KeyNo>,
    touched_bytes: usize,
    is_touched: bool,
}

/// All tables of an engine.
#[derive(Debug)]
pub(super) struct Tables {
    tables: Vec<Table>,
    /// The gateway's clock; `None` while it does not hold.
    clock: Option<i64>,
    floor: i64,
}

/// What one table holds, for whoever shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableSummary<'a> {
    pub name: &'a str,
    /// Rows that are there now.
    pub rows: usize,
    /// Of rows and keys, all versions.
    pub bytes: usize,
    /// Nothing with a smaller time is still expected.
    pub watermark: EventTime,
    pub counters: TableCounters,
}

/// Keys of the state, before the table's place.
const TABLE_KEY: u8 = b'T';
const ROW_KEY: u8 = b'R';

impl Tables {
    pub(super) fn new(specs: &[TableSpec]) -> Self {
        Self {
            tables: specs.iter().map(Table::new).collect(),
            clock: None,
            floor: i64::MIN,
        }
    }

    /// Nothing with a smaller time is still expected of a table, us.
    #[inline]
    pub(super) fn known_until(&self, table: u16) -> i64 {
        let table = &self.tables[usize::from(table)];
        table.known_until(self.clock, self.floor)
    }

    /// The row that held at a time. `None`: there was none, or it is not known any more.
    #[inline]
    pub(super) fn as_of(&self, table: u16, key: KeyNo, time: i64) -> Option<&Arc<str>> {
        let table = &self.tables[usize::from(table)];
        let versions = &table.entries.get(key.0 as usize)?.as_ref()?.versions;
        let at = match versions.last() {
            // Mostly the newest.
            Some(last) if last.from <= time => versions.len(),
            Some(_) | None => versions.partition_point(|version| version.from <= time),
        };
        versions[..at].last()?.row.as_ref()
    }

    /// The newest version of a key, which may say that there is no row any more.
    pub(super) fn newest(&self, table: u16, key: &str) -> Option<&Version> {
        let table = &self.tables[usize::from(table)];
        let no = table.by_key.get(key)?;
        let entry = table.entries.get(no.0 as usize)?.as_ref()?;
        entry.versions.last()
    }

    /// The number of a key, which stays from now on, whether there is such a row or not.
    pub(super) fn watch(&mut self, table: u16, key: &str) -> KeyNo {
        let table = &mut self.tables[usize::from(table)];
        let no = table.known_or_new(key);
        if let Some(entry) = table.entry(no) {
            entry.is_watched = true;
        }
        no
    }

    /// The rows that are there now, by key, with the times from which they hold.
    pub(super) fn rows(&self, table: u16) -> impl Iterator<Item = (&Arc<str>, &Version)> {
        let table = &self.tables[usize::from(table)];
        table.by_key.iter().filter_map(|(key, no)| {
            let entry = table.entries.get(no.0 as usize)?.as_ref()?;
            let last = entry.versions.last()?;
            last.row.is_some().then_some((key, last))
        })
    }

    /// Takes a change. `latest`: a time beyond it moves no watermark. `None`: there is no
    /// such table, or no row that has changed.
    pub(super) fn apply(&mut self, change: &Change, latest: i64) -> Option<Changed> {
        let at = self.tables.iter().position(|t| t.name == change.table)?;
        let (clock, floor) = (self.clock, self.floor);
        let table = &mut self.tables[at];
        table.is_touched = true;
        let known_until = table.known_until(clock, floor);
        if change.time.0 <= latest {
            table.newest = table.newest.max(change.time.0);
        }
        let row = match change.op {
            ChangeOp::Insert | ChangeOp::Update => Some(change.after.clone()?),
            ChangeOp::Delete => None,
            ChangeOp::Heartbeat => return None,
        };
        table.counters.changes += 1;
        table.counters.late += u64::from(!table.is_static && change.time.0 < known_until);
        let version = Version {
            from: change.time.0,
            row,
        };
        let (before, after) = table.put(&change.key, version)?;
        Some(Changed {
            table: u16::try_from(at).expect("at most TABLES_MAX"),
            key: change.key.clone(),
            time: change.time.0,
            before,
            after,
        })
    }

    /// The gateway's clock says this, or nothing that holds.
    pub(super) fn on_clock(&mut self, now: Option<EventTime>) {
        self.clock = now.map(|now| now.0);
    }

    /// Nothing before is still expected of any table.
    pub(super) fn raise_floor(&mut self, time: EventTime) {
        self.floor = self.floor.max(time.0);
        self.tables.iter_mut().for_each(|t| t.is_touched = true);
    }

    /// Forgets what ended before the history.
    pub(super) fn prune(&mut self) {
        for table in &mut self.tables {
            let now = self.clock.map_or(table.newest, |now| now.max(table.newest));
            table.prune(now.saturating_sub(table.history));
        }
    }

    pub(super) fn summaries(&self) -> impl Iterator<Item = TableSummary<'_>> {
        self.tables.iter().map(|table| TableSummary {
            name: &table.name,
            rows: table.rows,
            bytes: table.bytes,
            watermark: EventTime(table.known_until(self.clock, self.floor)),
            counters: table.counters,
        })
    }

    /// Bytes that the next checkpoint takes, about.
    pub(super) fn changed_bytes(&self) -> usize {
        self.tables.iter().map(|table| table.touched_bytes).sum()
    }

    pub(super) fn encode(&mut self, writer: &mut StateWriter<'_>) {
        for (at, table) in (0_u16..).zip(&mut self.tables) {
            table.encode((at, self.floor), writer);
        }
    }

    /// Reads what [`Tables::encode`] wrote into tables that have no row.
    pub(super) fn decode(&mut self, reader: &StateReader) -> Result<(), StateError> {
        for (at, table) in (0_u16..).zip(&mut self.tables) {
            self.floor = self.floor.max(table.decode(at, reader)?);
        }
        Ok(())
    }
}

impl Table {
    fn new(spec: &TableSpec) -> Self {
        Self {
            name: spec.name.as_str().into(),
            is_static: spec.is_static,
            out_of_order: spec.out_of_order.0,
            history: spec.history.0,
            newest: i64::MIN,
            by_key: BTreeMap::new(),
            entries: Vec::new(),
            free: Vec::new(),
            keys: 0,
            rows: 0,
            bytes: 0,
            ends: BTreeSet::new(),
            gone: BTreeSet::new(),
            counters: TableCounters::default(),
            touched: BTreeSet::new(),
            touched_bytes: 0,
            is_touched: false,
        }
    }

    #[inline]
    fn known_until(&self, clock: Option<i64>, floor: i64) -> i64 {
        if self.is_static {
            return i64::MAX;
        }
        let seen = clock.map_or(self.newest, |clock| clock.max(self.newest));
        seen.saturating_sub(self.out_of_order).max(floor)
    }

    fn entry(&mut self, no: KeyNo) -> Option<&mut Entry> {
        self.entries.get_mut(no.0 as usize)?.as_mut()
    }

    fn known_or_new(&mut self, key: &str) -> KeyNo {
        if let Some(no) = self.by_key.get(key) {
            return *no;
        }
        let key: Arc<str> = key.into();
        let no = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            let last = self.entries.len() - 1;
            KeyNo(u32::try_from(last).expect("at most TABLE_ROWS_MAX and the series"))
        });
        self.entries[no.0 as usize] = Some(Entry {
            key: key.clone(),
            versions: Vec::new(),
            is_watched: false,
        });
        self.by_key.insert(key, no);
        no
    }

    /// Puts a version in its place; gives the newest before and after. `None`: there is no
    /// room for one more key.
    fn put(
        &mut self,
        key: &Arc<str>,
        version: Version,
    ) -> Option<(Option<Version>, Option<Version>)> {
        let known = self.by_key.get(key).copied();
        let held = known.and_then(|no| self.entry(no));
        if held.is_none_or(|entry| entry.versions.is_empty()) && self.keys >= TABLE_ROWS_MAX {
            let Some((_, oldest)) = self.gone.first().copied() else {
                self.counters.refused += 1;
                return None;
            };
            self.counters.forgotten += 1;
            self.drop_before(oldest, i64::MAX);
        }
        let no = self.known_or_new(key);
        let before = self.take_out(no);
        let entry = self.entries[no.0 as usize].as_mut()?;
        let versions = &mut entry.versions;
        let at = versions.partition_point(|v| v.from < version.from);
        match versions.get_mut(at).filter(|v| v.from == version.from) {
            Some(same) => *same = version,
            None => versions.insert(at, version),
        }
        if versions.len() > TABLE_VERSIONS_MAX {
            versions.remove(0);
            self.counters.forgotten += 1;
        }
        let after = versions.last().cloned();
        self.put_in(no);
        Some((before, after))
    }

    /// Takes a key out of all sums and queues; gives its newest version.
    fn take_out(&mut self, no: KeyNo) -> Option<Version> {
        let entry = self.entries[no.0 as usize].as_ref()?;
        let last = entry.versions.last()?;
        self.keys -= 1;
        self.rows -= usize::from(last.row.is_some());
        self.bytes -= bytes(entry);
        if last.row.is_none() {
            self.gone.remove(&(last.from, no));
        }
        if let Some(end) = first_end(entry) {
            self.ends.remove(&(end, no));
        }
        Some(last.clone())
    }

    /// Puts a key into all sums and queues, and notes that it has changed.
    fn put_in(&mut self, no: KeyNo) {
        self.touched.insert(no);
        let Some(entry) = self.entries[no.0 as usize].as_ref() else {
            return;
        };
        let size = bytes(entry);
        self.touched_bytes += size;
        let Some(last) = entry.versions.last() else {
            return;
        };
        self.keys += 1;
        self.rows += usize::from(last.row.is_some());
        self.bytes += size;
        if last.row.is_none() {
            self.gone.insert((last.from, no));
        }
        if let Some(end) = first_end(entry) {
            self.ends.insert((end, no));
        }
    }

    fn prune(&mut self, horizon: i64) {
        let first = |ends: &BTreeSet<(i64, KeyNo)>| ends.first().copied();
        while let Some((_, no)) = first(&self.ends).filter(|(end, _)| *end <= horizon) {
            self.drop_before(no, horizon);
        }
    }

    /// Forgets the versions of a key that ended at this time or before.
    fn drop_before(&mut self, no: KeyNo, horizon: i64) {
        self.take_out(no);
        let Some(entry) = self.entry(no) else {
            return;
        };
        let ended = entry.versions.partition_point(|v| v.from <= horizon);
        entry.versions.drain(..ended.saturating_sub(1));
        // That there is none is what holds without a version, too.
        if entry
            .versions
            .first()
            .is_some_and(|v| v.row.is_none() && v.from <= horizon)
        {
            entry.versions.remove(0);
        }
        let is_free = entry.versions.is_empty() && !entry.is_watched;
        self.put_in(no);
        if is_free && let Some(entry) = self.entries[no.0 as usize].take() {
            self.by_key.remove(&entry.key);
            self.free.push(no);
        }
    }

    fn encode(&mut self, (at, floor): (u16, i64), writer: &mut StateWriter<'_>) {
        let [high, low] = at.to_be_bytes();
        self.touched_bytes = 0;
        if std::mem::take(&mut self.is_touched) {
            let mut blob = Vec::new();
            put_zigzag(&mut blob, self.newest);
            put_zigzag(&mut blob, floor);
            let TableCounters {
                changes,
                late,
                refused,
                forgotten,
            } = self.counters;
            for count in [changes, late, refused, forgotten] {
                put_varint(&mut blob, count);
            }
            writer.put(&[TABLE_KEY, high, low], &blob);
        }
        for no in std::mem::take(&mut self.touched) {
            let [a, b, c, d] = no.0.to_be_bytes();
            let key = [ROW_KEY, high, low, a, b, c, d];
            let entry = self.entries[no.0 as usize].as_ref();
            let Some(entry) = entry.filter(|entry| !entry.versions.is_empty()) else {
                writer.gone(&key);
                continue;
            };
            let mut blob = Vec::with_capacity(bytes(entry) + 16);
            state::put_long(&mut blob, &entry.key);
            for version in &entry.versions {
                put_zigzag(&mut blob, version.from);
                state::put_bool(&mut blob, version.row.is_some());
                if let Some(row) = &version.row {
                    state::put_long(&mut blob, row);
                }
            }
            writer.put(&key, &blob);
        }
    }

    /// Gives the floor of all tables.
    fn decode(&mut self, at: u16, reader: &StateReader) -> Result<i64, StateError> {
        let [high, low] = at.to_be_bytes();
        let mut floor = i64::MIN;
        reader.each(&[TABLE_KEY, high, low], |_, from| {
            self.newest = from.zigzag()?;
            floor = from.zigzag()?;
            self.counters = TableCounters {
                changes: from.varint()?,
                late: from.varint()?,
                refused: from.varint()?,
                forgotten: from.varint()?,
            };
            Ok(())
        })?;
        reader.each(&[ROW_KEY, high, low], |rest, from| {
            let no: [u8; 4] = rest.try_into().map_err(|_| from.malformed())?;
            let no = u32::from_be_bytes(no) as usize;
            if no < self.entries.len() || no >= ENTRIES_MAX {
                return Err(from.malformed());
            }
            let key: Arc<str> = state::long(from)?.into();
            let mut versions: Vec<Version> = Vec::new();
            while !from.is_at_end() {
                let time = from.zigzag()?;
                let row = match state::bool(from)? {
                    true => Some(state::long(from)?.into()),
                    false => None,
                };
                if versions.last().is_some_and(|last| last.from >= time) {
                    return Err(from.malformed());
                }
                versions.push(Version { from: time, row });
            }
            let free = self.entries.len()..no;
            self.free.extend(free.map(|no| KeyNo(no as u32)));
            self.entries.resize_with(no, || None);
            let no = KeyNo(no as u32);
            if versions.is_empty() || self.by_key.insert(key.clone(), no).is_some() {
                return Err(from.malformed());
            }
            self.entries.push(Some(Entry {
                key,
                versions,
                is_watched: false,
            }));
            self.put_in(no);
            Ok(())
        })?;
        self.touched.clear();
        self.touched_bytes = 0;
        Ok(floor)
    }
}

/// Numbers that keys can have: of rows, and of keys that are watched.
const ENTRIES_MAX: usize = 1 << 31;

/// Of its key and all versions, about what the state takes.
fn bytes(entry: &Entry) -> usize {
    let rows = entry.versions.iter().flat_map(|v| &v.row);
    let rows: usize = rows.map(|row| row.len()).sum();
    entry.key.len() + rows + 12 * entry.versions.len()
}

/// When the oldest version was replaced, or ended the row.
fn first_end(entry: &Entry) -> Option<i64> {
    match &entry.versions[..] {
        [first, ..] if first.row.is_none() => Some(first.from),
        [_, second, ..] => Some(second.from),
        [_] | [] => None,
    }
}

#[cfg(test)]
mod tests;
