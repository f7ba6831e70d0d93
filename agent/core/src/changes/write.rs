//! From an event of a source to its changes: against the rows that are held.
//!
//! Always holds: what a change says was before is what the topic said before; an event
//! that cannot be written whole leaves no row that is wrong. Bound: one event, and of one
//! that is about many rows one row at a time. Knows no store.

use std::sync::Arc;

use super::book::{Book, Table, filled, is_same_row};
use super::event::{RowText, SourceEvent, SourcePosition};
use super::source::{Deletes, Next, Snapshot, Source};
use super::{CHANGES_AT, ChangesSay, heartbeat, is_config};
use crate::change::{Change, ChangeOp, is_row, row_key};
use crate::commit::GroupCommit;
use crate::limits::{
    CHANGE_LINGER_US, CHANGES_NOTE_EACH_US, EVENT_TIME_MAX, HEARTBEAT_SPACING_US, ROW_BYTES_MAX,
    SOURCE_BATCH_EVENTS_MAX, TABLE_KEY_BYTES_MAX, TABLE_ROWS_MAX,
};
use crate::record::Row;
use crate::units::{EventTime, Mono, Now};

/// See the module.
#[derive(Debug)]
pub(super) struct Writer<'a> {
    pub book: &'a mut Book,
    pub says: &'a mut Vec<ChangesSay>,
    pub now: Now,
    pub commit: &'a mut GroupCommit,
}

/// A row as it is to be from then on.
struct Upsert {
    table: Arc<str>,
    key: Option<Arc<str>>,
    time: EventTime,
    before: Option<RowText>,
    after: RowText,
    position: SourcePosition,
    unchanged: Vec<Arc<str>>,
    /// The source may have said it before: a row that is the same is no change.
    may_repeat: bool,
}

/// What became of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    Yes,
    /// It fits no line; nothing was written.
    No,
}

impl Writer<'_> {
    fn has_room(&self) -> bool {
        // As for rows of engines: readings come first.
        self.commit.has_room_for_rows() && !self.commit.is_full(CHANGES_AT.topic)
    }

    /// Takes some of what a source handed over; whether there was something.
    pub(super) fn step(&mut self, source: &mut Source) -> bool {
        let mut moved = false;
        // Then it is another one's turn.
        for _ in 0..SOURCE_BATCH_EVENTS_MAX {
            if !self.has_room() || !self.take(source) {
                break;
            }
            moved = true;
        }
        moved
    }

    fn take(&mut self, source: &mut Source) -> bool {
        if source.deletes.is_some() {
            self.delete_next(source);
            return true;
        }
        match source.next() {
            None => return false,
            Some(Next::Event(event)) => self.event(source, event),
            Some(Next::End(position)) => source.end(position),
        }
        true
    }

    fn event(&mut self, source: &mut Source, event: SourceEvent) {
        match event {
            SourceEvent::Upsert {
                table,
                key,
                time,
                before,
                after,
                position,
                is_insert,
                unchanged,
            } => {
                let may_repeat = is_insert.is_none();
                let upsert = Upsert {
                    table,
                    key,
                    time,
                    before,
                    after,
                    position,
                    unchanged,
                    may_repeat,
                };
                self.new_upsert(source, upsert);
            }
            SourceEvent::Delete {
                table,
                key,
                time,
                before,
                position,
            } => {
                if !source.has_come(&position) {
                    self.delete(source, (table, key), time, before, &position);
                    source.take(&position);
                }
            }
            SourceEvent::Truncate {
                table,
                time,
                position,
            } => {
                if !source.has_come(&position) {
                    let keys = self.keys(&table);
                    self.delete_all(source, (table, keys), time, position);
                }
            }
            SourceEvent::SnapshotBegin { table, position } => {
                source.take(&position);
                let unseen = self.keys(&table);
                source.snapshot = Some(Snapshot { table, unseen });
            }
            SourceEvent::SnapshotRow { table, row, time } => {
                self.snapshot_row(source, table, row, time);
            }
            SourceEvent::SnapshotEnd {
                table,
                time,
                position,
            } => self.snapshot_end(source, table, time, position),
            SourceEvent::Heartbeat { time, position } => {
                // At the same place a later time is news.
                if position.is_none() || position >= *source.seen() {
                    source.take(&position);
                    source.beat = source.beat.max(Some(time));
                }
            }
        }
    }

    /// What the snapshot did not name is not there any more.
    fn snapshot_end(
        &mut self,
        source: &mut Source,
        table: Arc<str>,
        time: EventTime,
        position: SourcePosition,
    ) {
        source.counters.snapshots += u64::from(!is_config(source));
        match source.snapshot.take().filter(|s| s.table == table) {
            Some(snapshot) => self.delete_all(source, (table, snapshot.unseen), time, position),
            None => source.counters.refused += 1,
        }
    }

    fn keys(&self, table: &str) -> std::collections::BTreeSet<Arc<str>> {
        let table = self.book.table(table);
        let rows = table.into_iter().flat_map(|table| table.rows(None));
        rows.map(|(key, _)| key.clone()).collect()
    }

    fn snapshot_row(
        &mut self,
        source: &mut Source,
        table: Arc<str>,
        row: RowText,
        time: EventTime,
    ) {
        let snapshot = source.snapshot.as_mut().filter(|s| s.table == table);
        let (Some(snapshot), Some(of)) = (snapshot, self.book.table(&table)) else {
            source.counters.refused += 1;
            return;
        };
        let key: Option<Arc<str>> = row_key(&row, &of.key).map(Arc::from);
        if let Some(key) = &key {
            snapshot.unseen.remove(key);
            if of.get(key).is_some_and(|held| is_same_row(&held.row, &row)) {
                return;
            }
        }
        let upsert = Upsert {
            table,
            key,
            time,
            before: None,
            after: row,
            position: SourcePosition::default(),
            unchanged: Vec::new(),
            may_repeat: false,
        };
        self.upsert(source, upsert);
    }

    fn new_upsert(&mut self, source: &mut Source, upsert: Upsert) {
        let position = upsert.position.clone();
        if !source.has_come(&position) {
            self.upsert(source, upsert);
            source.take(&position);
        }
    }

    fn upsert(&mut self, source: &mut Source, upsert: Upsert) {
        let Upsert {
            table,
            key,
            time,
            before,
            after,
            position,
            unchanged,
            may_repeat,
        } = upsert;
        let Some(key) = self.key_of(source, &table, (key, &after)) else {
            return;
        };
        let Some(of) = self.book.table(&table) else {
            return;
        };
        let moved_from = before.as_ref().and_then(|row| row_key(row, &of.key));
        let moved_from = moved_from.filter(|from| **from != *key && of.get(from).is_some());
        if let Some(from) = moved_from {
            let place = (table.clone(), Arc::from(from));
            self.delete(source, place, time, None, &SourcePosition::default());
        }
        let Some(of) = self.book.table(&table) else {
            return;
        };
        let held = of.get(&key).map(|held| (held.row.clone(), held.time));
        let (after, unknown) = match unchanged.is_empty() {
            true => (after, 0),
            false => filled(&after, &unchanged, held.as_ref().map(|(row, _)| &**row)),
        };
        let after = on_one_line(after);
        let repeats = |(row, since): &(RowText, EventTime)| {
            (position.is_none() && *row == after && *since == time)
                || (may_repeat && is_same_row(row, &after))
        };
        if held.as_ref().is_some_and(repeats) {
            source.counters.repeated += 1;
            return;
        }
        if held.is_none() && of.is_full() {
            return self.tell_beyond(&table, &key);
        }
        if let Some(table) = self.book.table_mut(&table) {
            table.counters.columns_unknown += unknown;
        }
        let is_held = held.is_some();
        let change = Change {
            table: table.clone(),
            op: match is_held {
                true => ChangeOp::Update,
                false => ChangeOp::Insert,
            },
            key: key.clone(),
            time: bounded(time),
            before: held.map(|(row, _)| row),
            after: Some(after),
            position: text_of(&position),
        };
        let bytes = change.after.as_ref().map_or(0, |row| row.len());
        if self.write(source, change) == Written::Yes {
            return;
        }
        self.tell_oversize(&table, &key, bytes);
        if is_held {
            // Better no row than one that is not so any more.
            self.delete(source, (table, key), time, None, &position);
        }
    }

    /// The key of a row, given or from its columns; `None`: the row is none that the table
    /// may take, which is counted and told.
    fn key_of(
        &mut self,
        source: &mut Source,
        table: &Arc<str>,
        (key, row): (Option<Arc<str>>, &RowText),
    ) -> Option<Arc<str>> {
        let feeds = source.feeds(table);
        let known = self.book.table(table).filter(|_| feeds);
        let Some(of) = known.filter(|_| is_row(row)) else {
            source.counters.refused += 1;
            return None;
        };
        let key = key.or_else(|| row_key(row, &of.key).map(Arc::from));
        if key.is_none() {
            let columns = of.key.join(", ");
            self.tell(table, |table| &mut table.counters.keyless, || {
                format!(
                    "a row has no value of its key ({columns}): it is left out; give the table a \
                     key whose columns are never null"
                )
            });
        }
        key
    }

    fn tell_beyond(&mut self, table: &Arc<str>, key: &Arc<str>) {
        self.tell(table, |table| &mut table.counters.beyond, || {
            format!(
                "it has {TABLE_ROWS_MAX} rows, as many as a table may have: the row of key {key} \
                 is left out; take fewer rows"
            )
        });
    }

    fn tell_oversize(&mut self, table: &Arc<str>, key: &Arc<str>, bytes: usize) {
        self.tell(table, |table| &mut table.counters.oversize, || {
            format!(
                "the row of key {} has {bytes} bytes, and a change holds {ROW_BYTES_MAX} with the \
                 names of its columns (a key {TABLE_KEY_BYTES_MAX}): it is left out, and lookups \
                 find none; take fewer columns of the table",
                shortened(key)
            )
        });
    }

    fn delete(
        &mut self,
        source: &mut Source,
        (table, key): (Arc<str>, Arc<str>),
        time: EventTime,
        before: Option<RowText>,
        position: &SourcePosition,
    ) {
        let feeds = source.feeds(&table);
        let Some(of) = self.book.table(&table).filter(|_| feeds) else {
            source.counters.refused += 1;
            return;
        };
        let held = of.get(&key).map(|held| held.row.clone());
        if held.is_none() && position.is_none() {
            source.counters.repeated += 1;
            return;
        }
        let before = before.filter(|row| is_row(row)).map(on_one_line);
        let change = Change {
            table,
            op: ChangeOp::Delete,
            key,
            time: bounded(time),
            before: held.or(before),
            after: None,
            position: text_of(position),
        };
        // Of a key that is too long no row was ever taken.
        self.write(source, change);
    }

    fn delete_all(
        &mut self,
        source: &mut Source,
        (table, keys): (Arc<str>, std::collections::BTreeSet<Arc<str>>),
        time: EventTime,
        position: SourcePosition,
    ) {
        if keys.is_empty() || !source.feeds(&table) {
            source.take(&position);
            return;
        }
        source.deletes = Some(Deletes {
            table,
            keys: keys.into_iter(),
            time,
            position,
        });
    }

    /// Deletes the next of the rows that go. The last of them has the event's position: a
    /// crash before it makes all of the event come again.
    fn delete_next(&mut self, source: &mut Source) {
        let Some(mut deletes) = source.deletes.take() else {
            return;
        };
        if let Some(key) = deletes.keys.next() {
            let is_last = deletes.keys.len() == 0;
            let none = SourcePosition::default();
            let position = if is_last { &deletes.position } else { &none };
            let place = (deletes.table.clone(), key);
            self.delete(source, place, deletes.time, None, position);
        }
        if deletes.keys.len() == 0 {
            source.take(&deletes.position);
        } else {
            source.deletes = Some(deletes);
        }
    }

    /// Writes the newest heartbeat of a source for each table of which so little was said
    /// for long enough.
    pub(super) fn beat(&mut self, source: &mut Source) {
        let Some(time) = source.beat else {
            return;
        };
        let mut waits = false;
        for name in source.config.tables.clone() {
            let Some(table) = self.book.table(&name) else {
                continue;
            };
            if table.known >= Some(time) {
                continue;
            }
            let due = table
                .beat_at
                .map_or(0, |at| at.0.saturating_add(HEARTBEAT_SPACING_US));
            if self.now.mono.0 < due || !self.has_room() {
                waits = true;
                continue;
            }
            self.write(source, heartbeat(&name, bounded(time)));
            if let Some(table) = self.book.table_mut(&name) {
                table.beat_at = Some(self.now.mono);
            }
        }
        if !waits {
            source.beat = None;
        }
    }

    fn write(&mut self, source: &mut Source, mut change: Change) -> Written {
        if change.key.len() > TABLE_KEY_BYTES_MAX {
            return Written::No;
        }
        let mut line = Vec::new();
        change.write_json(&mut line);
        if line.len() > ROW_BYTES_MAX && change.before.is_some() {
            // Whoever follows the topic has seen it.
            change.before = None;
            line.clear();
            change.write_json(&mut line);
        }
        if line.len() > ROW_BYTES_MAX {
            return Written::No;
        }
        // What holds from the beginning was said now.
        let time = match change.time {
            time if time <= super::BEGINNING => self.now.utc,
            time => time,
        };
        let row = Row { time, line };
        self.commit.row(CHANGES_AT, &row, self.now.mono);
        self.book.apply(&change);
        if let Some(table) = self.book.table_mut(&change.table) {
            match change.op {
                ChangeOp::Heartbeat => table.counters.heartbeats += 1,
                ChangeOp::Insert | ChangeOp::Update | ChangeOp::Delete => {
                    let until = self.now.mono.0.saturating_add(CHANGE_LINGER_US);
                    self.commit.hurry(Mono(until));
                    table.counters.changes += 1;
                    source.counters.changes += 1;
                }
            }
        }
        Written::Yes
    }

    /// Counts what is wrong with a row, and says it now and then.
    fn tell(
        &mut self,
        name: &str,
        counter: fn(&mut Table) -> &mut u64,
        text: impl FnOnce() -> String,
    ) {
        let Some(table) = self.book.table_mut(name) else {
            return;
        };
        *counter(table) += 1;
        if self.now.mono < table.told_until {
            return;
        }
        table.told_until = Mono(self.now.mono.0.saturating_add(CHANGES_NOTE_EACH_US));
        let text = format!("table {name}: {}", text());
        self.says.push(ChangesSay::Note(text));
    }
}

fn text_of(position: &SourcePosition) -> Option<Arc<str>> {
    (!position.is_none()).then(|| position.0.clone())
}

fn bounded(time: EventTime) -> EventTime {
    EventTime(time.0.clamp(-EVENT_TIME_MAX, EVENT_TIME_MAX))
}

/// Line breaks stand in JSON only between its parts.
fn on_one_line(row: RowText) -> RowText {
    if row.contains(['\n', '\r']) {
        return Arc::from(row.replace(['\n', '\r'], " "));
    }
    row
}

/// The beginning of a key.
fn shortened(key: &str) -> String {
    const CHARS: usize = 40;
    if key.chars().count() <= CHARS {
        return key.to_owned();
    }
    key.chars().take(CHARS).chain("...".chars()).collect()
}
