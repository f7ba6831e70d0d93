//! Messages of PostgreSQL's output plugin `pgoutput`, protocol version 1 (version 2
//! without streamed transactions is the same): bytes to values that borrow from them.
//!
//! Always holds: whatever the bytes are, the answer is a message or an error with its
//! place. Bounds: COLUMNS_MAX columns; memory in proportion to the message. Knows no
//! connection, no table and no transaction. Bytes: `agent/node/docs/tables-postgres.md`.

use super::bytes::{Bytes, Malformed};
use super::limits::COLUMNS_MAX;
use super::lsn::Lsn;

/// Number of a table within a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RelationId(pub u32);

/// Number of a type within a database; those below 16,384 are the same in each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TypeId(pub u32);

/// Microseconds since 2000-01-01T00:00:00Z by the server's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerTime(pub i64);

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message<'a> {
    Begin {
        /// Where the commit stands in the write log.
        commit: Lsn,
        time: ServerTime,
    },
    Commit {
        commit: Lsn,
        /// Just behind it.
        end: Lsn,
        time: ServerTime,
    },
    /// The transaction came from elsewhere.
    Origin {
        name: &'a str,
    },
    /// What `pg_logical_emit_message` wrote.
    Text {
        prefix: &'a str,
    },
    Relation(RelationMessage<'a>),
    Type {
        id: TypeId,
        schema: &'a str,
        name: &'a str,
    },
    Insert {
        relation: RelationId,
        new: Tuple<'a>,
    },
    Update {
        relation: RelationId,
        old: Old<'a>,
        new: Tuple<'a>,
    },
    Delete {
        relation: RelationId,
        old: Old<'a>,
    },
    Truncate {
        relations: Vec<RelationId>,
    },
}

/// Name and columns of a table, from here on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelationMessage<'a> {
    pub id: RelationId,
    /// Empty for `pg_catalog`.
    pub schema: &'a str,
    pub name: &'a str,
    pub identity: ReplicaIdentity,
    pub columns: Vec<Column<'a>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column<'a> {
    /// Whether it is part of the replica identity.
    pub is_key: bool,
    pub name: &'a str,
    pub type_id: TypeId,
}

/// Which columns of an old row the write log has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplicaIdentity {
    /// Those of the primary key.
    Default,
    Nothing,
    Full,
    /// Those of an index.
    Index,
}

impl ReplicaIdentity {
    /// From the letter in `pg_class.relreplident`.
    #[must_use]
    pub fn of(letter: u8) -> Option<Self> {
        Some(match letter {
            b'd' => Self::Default,
            b'n' => Self::Nothing,
            b'f' => Self::Full,
            b'i' => Self::Index,
            _ => return None,
        })
    }
}

/// What is said of the row before a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Old<'a> {
    /// Its key is that of the new row.
    None,
    /// The columns of the replica identity; the others are null.
    Key(Tuple<'a>),
    Full(Tuple<'a>),
}

/// A row: one value per column of its relation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tuple<'a>(pub Vec<Value<'a>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    Null,
    /// A large value that the change did not touch is not in the write log.
    Unchanged,
    /// As the type's output function writes it.
    Text(&'a str),
}

/// Reads one message.
///
/// # Errors
/// What is wrong with it, and at which of its bytes.
pub fn decode(message: &[u8]) -> Result<Message<'_>, Malformed> {
    let mut bytes = Bytes::new(message);
    let kind = bytes.bad("a kind of message that is not known");
    let decoded = match bytes.u8("the kind of the message")? {
        b'B' => begin(&mut bytes)?,
        b'C' => commit(&mut bytes)?,
        b'O' => {
            bytes.u64("the origin's position")?;
            let name = bytes.text("the origin's name")?;
            Message::Origin { name }
        }
        b'M' => text(&mut bytes)?,
        b'R' => Message::Relation(relation(&mut bytes)?),
        b'Y' => Message::Type {
            id: TypeId(bytes.u32("the type's number")?),
            schema: bytes.text("the type's schema")?,
            name: bytes.text("the type's name")?,
        },
        b'I' => insert(&mut bytes)?,
        b'U' => update(&mut bytes)?,
        b'D' => delete(&mut bytes)?,
        b'T' => truncate(&mut bytes)?,
        _ => return Err(kind),
    };
    bytes.end()?;
    Ok(decoded)
}

fn begin<'a>(bytes: &mut Bytes<'a>) -> Result<Message<'a>, Malformed> {
    let commit = Lsn(bytes.u64("the commit's position")?);
    let time = ServerTime(bytes.i64("the commit's time")?);
    bytes.u32("the transaction's number")?;
    Ok(Message::Begin { commit, time })
}

fn commit<'a>(bytes: &mut Bytes<'a>) -> Result<Message<'a>, Malformed> {
    bytes.u8("the commit's flags")?;
    Ok(Message::Commit {
        commit: Lsn(bytes.u64("the commit's position")?),
        end: Lsn(bytes.u64("the commit's end")?),
        time: ServerTime(bytes.i64("the commit's time")?),
    })
}

fn text<'a>(bytes: &mut Bytes<'a>) -> Result<Message<'a>, Malformed> {
    bytes.u8("the text's flags")?;
    bytes.u64("the text's position")?;
    let prefix = bytes.text("the text's prefix")?;
    let len = length(bytes, "the text's length")?;
    bytes.take(len, "the text")?;
    Ok(Message::Text { prefix })
}

fn relation<'a>(bytes: &mut Bytes<'a>) -> Result<RelationMessage<'a>, Malformed> {
    let id = RelationId(bytes.u32("the table's number")?);
    let schema = bytes.text("the table's schema")?;
    let name = bytes.text("the table's name")?;
    let bad = bytes.bad("the table's replica identity");
    let identity = ReplicaIdentity::of(bytes.u8(bad.what)?).ok_or(bad)?;
    let count = columns(bytes)?;
    let mut columns = Vec::new();
    for _ in 0..count {
        let flags = bytes.u8("a column's flags")?;
        let name = bytes.text("a column's name")?;
        let type_id = TypeId(bytes.u32("a column's type")?);
        bytes.u32("a column's modifier")?;
        columns.push(Column {
            is_key: flags & 1 != 0,
            name,
            type_id,
        });
    }
    Ok(RelationMessage {
        id,
        schema,
        name,
        identity,
        columns,
    })
}

fn insert<'a>(bytes: &mut Bytes<'a>) -> Result<Message<'a>, Malformed> {
    let relation = RelationId(bytes.u32("the table's number")?);
    let bad = bytes.bad("the mark of a new row");
    if bytes.u8(bad.what)? != b'N' {
        return Err(bad);
    }
    let new = tuple(bytes)?;
    Ok(Message::Insert { relation, new })
}

fn update<'a>(bytes: &mut Bytes<'a>) -> Result<Message<'a>, Malformed> {
    let relation = RelationId(bytes.u32("the table's number")?);
    let mut bad = bytes.bad("the mark of an old or new row");
    let mut mark = bytes.u8(bad.what)?;
    let old = match mark {
        b'K' => Old::Key(tuple(bytes)?),
        b'O' => Old::Full(tuple(bytes)?),
        _ => Old::None,
    };
    if old != Old::None {
        bad = bytes.bad("the mark of a new row");
        mark = bytes.u8(bad.what)?;
    }
    if mark != b'N' {
        return Err(bad);
    }
    let new = tuple(bytes)?;
    Ok(Message::Update { relation, old, new })
}

fn delete<'a>(bytes: &mut Bytes<'a>) -> Result<Message<'a>, Malformed> {
    let relation = RelationId(bytes.u32("the table's number")?);
    let bad = bytes.bad("the mark of an old row");
    let old = match bytes.u8(bad.what)? {
        b'K' => Old::Key(tuple(bytes)?),
        b'O' => Old::Full(tuple(bytes)?),
        _ => return Err(bad),
    };
    Ok(Message::Delete { relation, old })
}

fn truncate<'a>(bytes: &mut Bytes<'a>) -> Result<Message<'a>, Malformed> {
    let count = length(bytes, "the count of tables")?;
    bytes.u8("the truncation's options")?;
    // Not allocated by the count: the bytes may not be there.
    let mut relations = Vec::new();
    for _ in 0..count {
        relations.push(RelationId(bytes.u32("a table's number")?));
    }
    Ok(Message::Truncate { relations })
}

fn tuple<'a>(bytes: &mut Bytes<'a>) -> Result<Tuple<'a>, Malformed> {
    let count = columns(bytes)?;
    let mut values = Vec::with_capacity(count);
    for _ in 0..count {
        let bad = bytes.bad("the kind of a value");
        values.push(match bytes.u8(bad.what)? {
            b'n' => Value::Null,
            b'u' => Value::Unchanged,
            b't' => {
                let len = length(bytes, "a value's length")?;
                let at = bytes.at();
                let text = std::str::from_utf8(bytes.take(len, "a value")?);
                let what = "a value that is not UTF-8";
                Value::Text(text.map_err(|error| Malformed {
                    at: at + error.valid_up_to(),
                    what,
                })?)
            }
            _ => return Err(bad),
        });
    }
    Ok(Tuple(values))
}

fn columns(bytes: &mut Bytes<'_>) -> Result<usize, Malformed> {
    let bad = bytes.bad("the count of columns");
    let count = usize::from(bytes.u16(bad.what)?);
    if count > COLUMNS_MAX {
        return Err(bad);
    }
    Ok(count)
}

/// A signed 32-bit number that may not be negative.
fn length(bytes: &mut Bytes<'_>, what: &'static str) -> Result<usize, Malformed> {
    let bad = bytes.bad(what);
    let len = bytes.u32(what)?;
    if len > i32::MAX.unsigned_abs() {
        return Err(bad);
    }
    Ok(len as usize)
}

#[cfg(test)]
mod tests;
