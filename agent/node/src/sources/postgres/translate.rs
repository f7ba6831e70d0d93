//! Messages of `pgoutput` to changes of tables: which table a change is of, its key, its
//! row, its place in the order of all changes.
//!
//! Always holds: a place depends on the write log alone, so what is read again after a
//! restart has the places it had; an update that changes a key is a delete and an insert;
//! nothing at or before the place that is held already is handed on. Bound: what one
//! message gives, and the columns of the publication's tables. Knows no connection.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use forebay_core::change::row_key;
use forebay_core::units::EventTime;

use super::bytes::Malformed;
use super::limits::TRANSACTION_CHANGES_MAX;
use super::lsn::{At, LSN_MAX, Life, Lsn};
use super::pgoutput::{
    Message, Old, RelationId, RelationMessage, ReplicaIdentity, ServerTime, Tuple, TypeId, Value,
};
use super::row::Shape;
use super::value::Kinds;
use forebay_core::effect::{SourceEvent, SourcePosition};

/// Microseconds from 1970-01-01 to 2000-01-01.
const SERVER_EPOCH_US: i64 = 946_684_800_000_000;

/// A table that is fed from the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fed {
    /// What the pipeline calls it.
    pub name: Arc<str>,
    pub schema: String,
    pub table: String,
    /// Its key's columns, at least one.
    pub key: Vec<String>,
}

impl fmt::Display for Fed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.schema, self.table)
    }
}

/// Why the stream cannot go on as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    Malformed(Malformed),
    /// The server said what its protocol does not let it say here.
    Unexpected(&'static str),
    /// The catalog must be asked for these first.
    UnknownTypes(Vec<TypeId>),
    /// A key's column is not there, or was renamed.
    NoKeyColumn {
        table: String,
        column: String,
    },
    /// The write log does not say which row was changed.
    KeyNotLogged {
        table: String,
        column: String,
    },
    TooLong(Lsn),
}

impl From<Malformed> for Trouble {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

/// What a message was, for who keeps the positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Within,
    /// A transaction is whole; the next one begins at or behind this place.
    Committed(Lsn),
}

/// Columns of a table as the stream has them now.
#[derive(Debug)]
struct Relation {
    /// Which of the tables; `None`: one that nobody asked for.
    fed: Option<usize>,
    shape: Shape,
    /// Places of the key's columns; or why there are none, which matters only to a change
    /// that is not held.
    key: Result<Vec<usize>, Trouble>,
    is_full: bool,
}

#[derive(Debug, Clone, Copy)]
struct Transaction {
    commit: Lsn,
    time: EventTime,
    changes: u32,
}

/// See the module's text.
#[derive(Debug)]
pub struct Translator {
    fed: Vec<Fed>,
    kinds: Kinds,
    relations: BTreeMap<RelationId, Relation>,
    transaction: Option<Transaction>,
    life: Life,
    /// Nothing up to here is handed on.
    held: At,
    events: Vec<SourceEvent>,
    /// Bytes of rows in `events`.
    bytes: usize,
    /// What an operator should read.
    notes: Vec<String>,
    scratch: Vec<u8>,
}

impl Translator {
    #[must_use]
    pub fn new(fed: Vec<Fed>, kinds: Kinds, held: At) -> Self {
        Self {
            fed,
            kinds,
            relations: BTreeMap::new(),
            transaction: None,
            life: held.life,
            held,
            events: Vec::new(),
            bytes: 0,
            notes: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Takes one message.
    ///
    /// # Errors
    /// Why it cannot be translated; no event of it is handed on.
    pub fn on(&mut self, message: Message<'_>) -> Result<Step, Trouble> {
        match message {
            Message::Begin { commit, time } => self.begin(commit, time)?,
            Message::Commit { end, .. } => {
                if self.transaction.take().is_none() {
                    return Err(Trouble::Unexpected("a commit without its beginning"));
                }
                return Ok(Step::Committed(end));
            }
            Message::Origin { .. } | Message::Text { .. } | Message::Type { .. } => {}
            Message::Relation(relation) => self.relation(&relation)?,
            Message::Insert { relation, new } => {
                let (at, time) = self.next(relation)?;
                self.upsert(relation, at, time, &Old::None, &new, Some(true))?;
            }
            Message::Update { relation, old, new } => {
                let (at, time) = self.next(relation)?;
                self.update(relation, at, time, &old, &new)?;
            }
            Message::Delete { relation, old } => {
                let (at, time) = self.next(relation)?;
                self.delete(relation, at, time, &old)?;
            }
            Message::Truncate { relations } => {
                for relation in relations {
                    let (at, time) = self.next(relation)?;
                    self.truncate(relation, at, time);
                }
            }
        }
        Ok(Step::Within)
    }

    /// Events that wait to be handed on.
    #[must_use]
    pub fn waiting(&self) -> (usize, usize) {
        (self.events.len(), self.bytes)
    }

    /// Hands them on, with the place of the last of them.
    pub fn take(&mut self) -> Vec<SourceEvent> {
        self.bytes = 0;
        std::mem::take(&mut self.events)
    }

    /// Sentences for the operator.
    pub fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// The place of the last change that was handed on.
    #[must_use]
    pub fn held(&self) -> At {
        self.held
    }

    /// Whether a transaction has begun and not ended.
    #[must_use]
    pub fn is_within(&self) -> bool {
        self.transaction.is_some()
    }

    /// Adds that nothing earlier than `time` is still to come, when everything before
    /// `received` has come; false where the log has later places already. It stands just
    /// before `received`, at which the next commit may stand.
    pub fn heartbeat(&mut self, received: Lsn, time: EventTime) -> bool {
        let lsn = Lsn(received.0.saturating_sub(1));
        let index = match lsn.cmp(&self.held.lsn) {
            Ordering::Less => return false,
            Ordering::Equal => match self.held.index.checked_add(1) {
                None => return false,
                Some(index) => index,
            },
            Ordering::Greater => 0,
        };
        let life = self.life;
        self.held = At { life, lsn, index };
        let position = self.held.position();
        self.events.push(SourceEvent::Heartbeat { time, position });
        true
    }

    fn begin(&mut self, commit: Lsn, time: ServerTime) -> Result<(), Trouble> {
        if self.transaction.is_some() {
            return Err(Trouble::Unexpected("a beginning within a transaction"));
        }
        if commit > LSN_MAX {
            return Err(Trouble::Unexpected("a place that no write log has"));
        }
        self.transaction = Some(Transaction {
            commit,
            time: event_time(time),
            changes: 0,
        });
        Ok(())
    }

    /// The second place and the time of the next change; the place before it is that of
    /// the delete which a changed key is.
    fn next(&mut self, relation: RelationId) -> Result<(At, EventTime), Trouble> {
        if !self.relations.contains_key(&relation) {
            return Err(Trouble::Unexpected(
                "a change of a table without its columns",
            ));
        }
        let Some(transaction) = &mut self.transaction else {
            return Err(Trouble::Unexpected("a change outside of a transaction"));
        };
        if transaction.changes == TRANSACTION_CHANGES_MAX {
            return Err(Trouble::TooLong(transaction.commit));
        }
        transaction.changes += 1;
        let at = At {
            life: self.life,
            lsn: transaction.commit,
            index: transaction.changes * 2,
        };
        Ok((at, transaction.time))
    }

    fn relation(&mut self, message: &RelationMessage<'_>) -> Result<(), Trouble> {
        let schema = match message.schema {
            "" => "pg_catalog",
            schema => schema,
        };
        let is_it = |fed: &Fed| fed.schema == schema && fed.table == message.name;
        let fed = self.fed.iter().position(is_it);
        let mut columns = Vec::new();
        let mut unknown = Vec::new();
        for column in message.columns.iter().filter(|_| fed.is_some()) {
            match self.kinds.of(column.type_id) {
                Some(kind) => columns.push((column.name.into(), kind)),
                None => unknown.push(column.type_id),
            }
        }
        if !unknown.is_empty() {
            return Err(Trouble::UnknownTypes(unknown));
        }
        let shape = Shape::new(columns);
        let key = match fed {
            Some(fed) => key_places(&self.fed[fed], &shape, message),
            None => Ok(Vec::new()),
        };
        let new = Relation {
            fed,
            shape,
            key,
            is_full: message.identity == ReplicaIdentity::Full,
        };
        let before = self.relations.get(&message.id);
        if let (Some(before), Some(fed)) = (before, fed)
            && before.shape != new.shape
        {
            let text = "has other columns from here on; rows that are not written again stay as \
                        they were";
            self.notes.push(format!("table {}: {text}", self.fed[fed]));
        }
        self.relations.insert(message.id, new);
        Ok(())
    }

    fn update(
        &mut self,
        relation: RelationId,
        at: At,
        time: EventTime,
        old: &Old<'_>,
        new: &Tuple<'_>,
    ) -> Result<(), Trouble> {
        let known = &self.relations[&relation];
        let (Old::Key(old_row) | Old::Full(old_row)) = old else {
            return self.upsert(relation, at, time, old, new, Some(false));
        };
        let is_same = |key: &Vec<usize>| !has_other_key(key, old_row, new);
        if known.fed.is_none() || known.key.as_ref().is_ok_and(is_same) {
            return self.upsert(relation, at, time, old, new, Some(false));
        }
        let before = At {
            index: at.index - 1,
            ..at
        };
        self.delete(relation, before, time, old)?;
        self.upsert(relation, at, time, old, new, Some(true))
    }

    fn upsert(
        &mut self,
        relation: RelationId,
        at: At,
        time: EventTime,
        old: &Old<'_>,
        new: &Tuple<'_>,
        is_insert: Option<bool>,
    ) -> Result<(), Trouble> {
        let Some((fed, position)) = self.wanted(relation, at) else {
            return Ok(());
        };
        let known = &self.relations[&relation];
        let key = known.key.as_ref().map_err(Clone::clone)?;
        check(known, new)?;
        let mut unchanged = Vec::new();
        let mut values = Vec::with_capacity(new.0.len());
        for (place, value) in new.0.iter().enumerate() {
            let value = match (value, old) {
                // The old row has large values whole.
                (Value::Unchanged, Old::Full(old)) => old.0.get(place).unwrap_or(value),
                // A large key stands in the old row where it stands nowhere else.
                (Value::Unchanged, Old::Key(old)) if key.contains(&place) => {
                    old.0.get(place).unwrap_or(value)
                }
                (Value::Unchanged | Value::Null | Value::Text(_), _) => value,
            };
            if *value == Value::Unchanged {
                unchanged.push(known.shape.name(place).clone());
            }
            values.push(*value);
        }
        let after = known.shape.row(values.into_iter(), &mut self.scratch);
        let before = match (old, is_insert) {
            (Old::Full(old), Some(false) | None) => {
                check(known, old)?;
                let old = old.0.iter().copied();
                Some(known.shape.row(old, &mut self.scratch))
            }
            (Old::None | Old::Key(_) | Old::Full(_), _) => None,
        };
        self.held = at;
        self.bytes += after.len() + before.as_ref().map_or(0, |row| row.len());
        self.events.push(SourceEvent::Upsert {
            table: self.fed[fed].name.clone(),
            key: None,
            time,
            before,
            after,
            position,
            is_insert,
            unchanged,
        });
        Ok(())
    }

    fn delete(
        &mut self,
        relation: RelationId,
        at: At,
        time: EventTime,
        old: &Old<'_>,
    ) -> Result<(), Trouble> {
        let Some((fed, position)) = self.wanted(relation, at) else {
            return Ok(());
        };
        let known = &self.relations[&relation];
        let (Old::Key(old_row) | Old::Full(old_row)) = old else {
            return Err(Trouble::Unexpected("a delete without a row"));
        };
        let key = known.key.as_ref().map_err(Clone::clone)?;
        check(known, old_row)?;
        let key = known.shape.part(key, old_row, &mut self.scratch);
        let before = match (old, known.is_full) {
            (Old::Full(old), true) => {
                let old = old.0.iter().copied();
                Some(known.shape.row(old, &mut self.scratch))
            }
            (Old::None | Old::Key(_) | Old::Full(_), _) => None,
        };
        let table = &self.fed[fed];
        let Some(key) = row_key(&key, &table.key) else {
            return Err(Trouble::KeyNotLogged {
                table: table.to_string(),
                column: table.key.join(", "),
            });
        };
        self.held = at;
        let key: Arc<str> = key.into();
        self.bytes += key.len() + before.as_ref().map_or(0, |row| row.len());
        self.events.push(SourceEvent::Delete {
            table: table.name.clone(),
            key,
            time,
            before,
            position,
        });
        Ok(())
    }

    fn truncate(&mut self, relation: RelationId, at: At, time: EventTime) {
        let Some((fed, position)) = self.wanted(relation, at) else {
            return;
        };
        self.held = at;
        self.events.push(SourceEvent::Truncate {
            table: self.fed[fed].name.clone(),
            time,
            position,
        });
    }

    /// The table of a change that is to be handed on, and the place it gets.
    fn wanted(&self, relation: RelationId, at: At) -> Option<(usize, SourcePosition)> {
        let fed = self.relations[&relation].fed?;
        (at > self.held).then(|| (fed, at.position()))
    }
}

/// The server's time as that of an event.
#[must_use]
pub fn event_time(time: ServerTime) -> EventTime {
    EventTime(time.0.saturating_add(SERVER_EPOCH_US))
}

fn check(relation: &Relation, tuple: &Tuple<'_>) -> Result<(), Trouble> {
    if tuple.0.len() != relation.shape.len() {
        return Err(Trouble::Unexpected(
            "a row with other columns than its table",
        ));
    }
    Ok(())
}

fn has_other_key(key: &[usize], old: &Tuple<'_>, new: &Tuple<'_>) -> bool {
    key.iter().any(|place| {
        let (old, new) = (old.0.get(*place), new.0.get(*place));
        new != Some(&Value::Unchanged) && old != new
    })
}

fn key_places(
    fed: &Fed,
    shape: &Shape,
    message: &RelationMessage<'_>,
) -> Result<Vec<usize>, Trouble> {
    let mut places = Vec::new();
    for column in &fed.key {
        let (table, named) = (fed.to_string(), column.clone());
        let Some(place) = shape.place(column) else {
            return Err(Trouble::NoKeyColumn {
                table,
                column: named,
            });
        };
        let is_logged = match message.identity {
            ReplicaIdentity::Full => true,
            ReplicaIdentity::Default | ReplicaIdentity::Index => message.columns[place].is_key,
            ReplicaIdentity::Nothing => false,
        };
        if !is_logged {
            return Err(Trouble::KeyNotLogged {
                table,
                column: named,
            });
        }
        places.push(place);
    }
    Ok(places)
}

#[cfg(test)]
mod tests;
