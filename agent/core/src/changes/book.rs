//! The rows that tables have now, as topic `changes` says so far.
//!
//! Always holds: the book is what the changes up to an offset leave, row by row; what it
//! has said of itself in meta entries is right up to the offset that stands beside them.
//! Bound: [`TABLE_ROWS_MAX`] rows of a table. Knows no source.
//!
//! | meta key | value |
//! |---|---|
//! | `table/` name `/` key | version u8 = 1; time, zigzag; the row's text; CRC-32C |
//! | `changes` | version u8 = 1; offset of `changes` below which the entries say all, varint; CRC-32C |

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::event::RowText;
use crate::change::{Change, ChangeOp};
use crate::json::scan::members;
use crate::limits::TABLE_ROWS_MAX;
use crate::log::bytes::{put_varint, put_zigzag};
use crate::meta::{Entry, checked, with_crc};
use crate::units::{EventTime, Mono, Offset};

/// Meta keys of rows: this, table, `/`, key.
pub const TABLE_META_PREFIX: &[u8] = b"table/";
/// Meta key of how far these are right.
pub const CHANGES_META_KEY: &[u8] = b"changes";
const VERSION: u8 = 1;

/// A row that is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    pub row: RowText,
    /// From when on it is so.
    pub time: EventTime,
}

/// What is counted of a table since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TableCounters {
    pub changes: u64,
    pub heartbeats: u64,
    /// Rows too long for a change, keys too long, and keys that are null.
    pub oversize: u64,
    pub keyless: u64,
    /// New rows of a table that has as many as it may.
    pub beyond: u64,
    /// Columns that a source left out and of which nothing was known.
    pub columns_unknown: u64,
}

/// One table.
#[derive(Debug)]
pub struct Table {
    pub name: Arc<str>,
    /// Its key columns.
    pub key: Vec<String>,
    rows: BTreeMap<Arc<str>, Held>,
    bytes: u64,
    /// Largest time of a change or a heartbeat in this run.
    pub known: Option<EventTime>,
    /// When a heartbeat was written last.
    pub(super) beat_at: Option<Mono>,
    /// Not before this an operator is told again.
    pub(super) told_until: Mono,
    pub counters: TableCounters,
}

impl Table {
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Held> {
        self.rows.get(key)
    }

    /// Rows in order of their keys, from the first behind `after` on.
    pub fn rows(&self, after: Option<&str>) -> impl Iterator<Item = (&Arc<str>, &Held)> {
        use std::ops::Bound;
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.rows.range::<str, _>((from, Bound::Unbounded))
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Bytes of keys and rows.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn is_full(&self) -> bool {
        self.rows.len() >= TABLE_ROWS_MAX
    }

    fn set(&mut self, key: &Arc<str>, held: Held) {
        self.bytes += bytes_of(key, &held);
        if let Some(before) = self.rows.insert(key.clone(), held) {
            self.bytes -= bytes_of(key, &before);
        }
    }

    fn remove(&mut self, key: &str) {
        if let Some(before) = self.rows.remove(key) {
            self.bytes -= bytes_of(key, &before);
        }
    }
}

fn bytes_of(key: &str, held: &Held) -> u64 {
    (key.len() + held.row.len()) as u64
}

/// See the module.
#[derive(Debug, Default)]
pub struct Book {
    tables: BTreeMap<Arc<str>, Table>,
    /// Rows whose entries are to be written.
    dirty: BTreeSet<(Arc<str>, Arc<str>)>,
}

impl Book {
    /// The tables of these names and key columns, as `meta` keeps them, and the offset up
    /// to which they are right. Where they are not believed, all rows have to come again.
    #[must_use]
    pub fn restore<'a>(
        tables: impl Iterator<Item = (&'a str, &'a [String])>,
        meta: &[Entry],
        is_believed: bool,
    ) -> (Self, Offset) {
        let tables = tables.map(|(name, key)| {
            let name: Arc<str> = Arc::from(name);
            let table = Table {
                name: name.clone(),
                key: key.to_vec(),
                rows: BTreeMap::new(),
                bytes: 0,
                known: None,
                beat_at: None,
                told_until: Mono(0),
                counters: TableCounters::default(),
            };
            (name, table)
        });
        let mut book = Self {
            tables: tables.collect(),
            dirty: BTreeSet::new(),
        };
        let upto = meta.iter().find(|(key, _)| key == CHANGES_META_KEY);
        let upto = upto.filter(|_| is_believed);
        let upto = upto.and_then(|(_, value)| parse_offset(value));
        for (key, value) in meta {
            let Some((table, key)) = parse_key(key, TABLE_META_PREFIX) else {
                continue;
            };
            let Some(table) = book.tables.get_mut(table) else {
                continue;
            };
            match (upto, parse_row(value)) {
                (Some(_), Some(held)) => table.set(&Arc::from(key), held),
                // Nothing of it is believed: what the topic does not say again goes.
                (None, _) | (Some(_), None) => {
                    book.dirty.insert((table.name.clone(), Arc::from(key)));
                }
            }
        }
        (book, upto.unwrap_or_default())
    }

    #[must_use]
    pub fn table(&self, name: &str) -> Option<&Table> {
        self.tables.get(name)
    }

    pub(super) fn table_mut(&mut self, name: &str) -> Option<&mut Table> {
        self.tables.get_mut(name)
    }

    /// All tables, in order of their names.
    pub fn tables(&self) -> impl Iterator<Item = &Table> {
        self.tables.values()
    }

    /// Applies a change that stands in the topic.
    pub fn apply(&mut self, change: &Change) {
        let Some(table) = self.tables.get_mut(&change.table) else {
            return;
        };
        table.known = table.known.max(Some(change.time));
        match (change.op, &change.after) {
            (ChangeOp::Insert | ChangeOp::Update, Some(row)) => {
                let held = Held {
                    row: row.clone(),
                    time: change.time,
                };
                table.set(&change.key, held);
            }
            (ChangeOp::Delete, _) => table.remove(&change.key),
            (ChangeOp::Insert | ChangeOp::Update | ChangeOp::Heartbeat, _) => return,
        }
        let place = (change.table.clone(), change.key.clone());
        self.dirty.insert(place);
    }

    /// Whether [`Book::take_entries`] has something.
    #[must_use]
    pub fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// The entries of rows that changed, and that they are right up to `upto`.
    pub fn take_entries(&mut self, upto: Offset) -> Vec<Entry> {
        let dirty = std::mem::take(&mut self.dirty);
        let mut entries: Vec<Entry> = dirty
            .iter()
            .map(|(table, key)| {
                let held = self.tables.get(table).and_then(|table| table.get(key));
                let value = held.map_or(Vec::new(), row_bytes);
                (meta_key(TABLE_META_PREFIX, table, key), value)
            })
            .collect();
        entries.push((CHANGES_META_KEY.to_vec(), offset_bytes(upto)));
        entries
    }
}

/// Key of the entry of a row.
#[must_use]
pub(super) fn meta_key(prefix: &[u8], table: &str, key: &str) -> Vec<u8> {
    [prefix, table.as_bytes(), b"/", key.as_bytes()].concat()
}

/// Table and key that a meta key names.
#[must_use]
pub(super) fn parse_key<'a>(meta_key: &'a [u8], prefix: &[u8]) -> Option<(&'a str, &'a str)> {
    let place = std::str::from_utf8(meta_key.strip_prefix(prefix)?).ok()?;
    place.split_once('/')
}

pub(super) fn row_bytes(held: &Held) -> Vec<u8> {
    let mut value = vec![VERSION];
    put_zigzag(&mut value, held.time.0);
    value.extend_from_slice(held.row.as_bytes());
    with_crc(value)
}

pub(super) fn parse_row(value: &[u8]) -> Option<Held> {
    let mut reader = checked(VERSION, value)?;
    let time = EventTime(reader.zigzag().ok()?);
    let row = reader.take(reader.remaining()).ok()?;
    Some(Held {
        row: Arc::from(std::str::from_utf8(row).ok()?),
        time,
    })
}

pub(super) fn offset_bytes(offset: Offset) -> Vec<u8> {
    let mut value = vec![VERSION];
    put_varint(&mut value, offset.0);
    with_crc(value)
}

pub(super) fn parse_offset(value: &[u8]) -> Option<Offset> {
    let mut reader = checked(VERSION, value)?;
    let offset = reader.varint().ok()?;
    reader.is_at_end().then_some(Offset(offset))
}

/// Whether two rows have the same columns with the same values, in whatever order.
#[must_use]
pub fn is_same_row(one: &str, other: &str) -> bool {
    if one == other {
        return true;
    }
    let columns = |row| members(row).collect::<Result<BTreeMap<_, _>, _>>();
    matches!((columns(one), columns(other)), (Ok(one), Ok(other)) if one == other)
}

/// `row` with the columns in `unchanged` as they are in `before`; and how many of them are
/// not known there.
#[must_use]
pub fn filled(row: &RowText, unchanged: &[Arc<str>], before: Option<&str>) -> (RowText, u64) {
    let known: BTreeMap<_, _> = before
        .map(|before| members(before).filter_map(Result::ok).collect())
        .unwrap_or_default();
    let Some(open) = row.trim_end().strip_suffix('}') else {
        return (row.clone(), 0);
    };
    let (mut out, mut unknown) = (open.as_bytes().to_vec(), 0);
    let mut is_first = members(row).next().is_none();
    for column in unchanged {
        let Some(value) = known.get(&**column) else {
            unknown += 1;
            continue;
        };
        if !std::mem::take(&mut is_first) {
            out.push(b',');
        }
        crate::json::write_text(column, &mut out);
        out.push(b':');
        out.extend_from_slice(value.as_bytes());
    }
    out.push(b'}');
    let filled = String::from_utf8(out).map(Arc::from);
    (filled.unwrap_or_else(|_| row.clone()), unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_the_same_by_their_columns() {
        for (one, other, same) in [
            (r#"{"a":1,"b":2}"#, r#"{"a":1,"b":2}"#, true),
            (r#"{"a":1,"b":2}"#, r#"{"b":2, "a":1}"#, true),
            (r#"{"a":1}"#, r#"{"a":1.0}"#, false),
            (r#"{"a":1}"#, r#"{"a":1,"b":null}"#, false),
            ("no row", r#"{"a":1}"#, false),
        ] {
            assert_eq!(is_same_row(one, other), same, "{one} {other}");
        }
    }

    #[test]
    fn columns_that_were_left_out_are_filled_in() {
        let columns = [Arc::from("a\"b"), Arc::from("c")];
        for (name, row, before, want) in [
            (
                "all known",
                r#"{"x":1}"#,
                Some(r#"{"c":[1],"a\"b":"t"}"#),
                (r#"{"x":1,"a\"b":"t","c":[1]}"#, 0),
            ),
            ("to none", "{ }", Some(r#"{"c":1}"#), (r#"{ "c":1}"#, 1)),
            ("nothing held", r#"{"x":1}"#, None, (r#"{"x":1}"#, 2)),
        ] {
            let (got, unknown) = filled(&Arc::from(row), &columns, before);
            assert_eq!((&*got, unknown), want, "{name}");
        }
    }

    #[test]
    fn rows_and_offsets_read_back_whole_or_not_at_all() {
        let held = Held {
            row: Arc::from(r#"{"a":"é"}"#),
            time: EventTime(-5),
        };
        let bytes = row_bytes(&held);
        assert_eq!(parse_row(&bytes), Some(held));
        let offset = offset_bytes(Offset(300));
        assert_eq!(parse_offset(&offset), Some(Offset(300)));
        for (bytes, is_row) in [(bytes, true), (offset, false)] {
            for at in 0..bytes.len() {
                let mut bad = bytes.clone();
                bad[at] ^= 0x10;
                for bad in [&bad[..], &bytes[..at]] {
                    let read = match is_row {
                        true => parse_row(bad).is_some(),
                        false => parse_offset(bad).is_some(),
                    };
                    assert!(!read, "byte {at}");
                }
            }
        }
    }
}
