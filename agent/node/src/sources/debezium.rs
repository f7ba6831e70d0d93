//! Change events as text: Debezium's, with and without its `schema` around them or
//! flattened, and our own change lines. Pure: bytes in, what they say out.
//!
//! Always holds: what is given as a row is a JSON object on one line; an event is
//! given whole or not at all. Bound: the bytes that are handed in, and
//! [`JSON_DEPTH_MAX`](forebay_core::limits::JSON_DEPTH_MAX) levels. Knows no place of the bytes and
//! remembers nothing.

use forebay_core::change::row_key;
use forebay_core::units::EventTime;

use super::json::{self, Object};

mod envelope;
mod flat;
mod line;
pub(super) mod position;
mod time;

pub(super) use self::position::DbPosition;

/// What a table expects of its events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// Name of the table, as our own lines may say it.
    pub table: String,
    /// Columns that make its key.
    pub key: Vec<String>,
    /// `schema.table` or `database.table`: of Debezium's events only these are taken.
    pub only: Option<String>,
    /// An object that is no event is a row.
    pub plain_rows: bool,
}

/// One change of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Op {
    Upsert {
        /// `None`: to be made from the row's columns.
        key: Option<String>,
        before: Option<String>,
        after: String,
        /// `None`: the event does not say whether the row was there.
        is_insert: Option<bool>,
        /// Columns that are as they were, whose values the event does not say.
        unchanged: Vec<String>,
    },
    Delete {
        key: String,
        before: Option<String>,
    },
    /// All rows go.
    Truncate,
    /// Nothing changed until then.
    Heartbeat,
}

/// What a message or a line says of one row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) op: Op,
    /// `None`: the event does not say when.
    pub(super) time: Option<EventTime>,
    /// Where the database wrote it.
    pub(super) at: Option<DbPosition>,
}

/// Why bytes that are well formed say nothing about the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Passed {
    OtherTable,
    /// A change of a schema, an end of a transaction, a message of the database.
    NoRow,
    /// What follows a delete so that a topic can be compacted.
    Tombstone,
}

/// What bytes say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Said {
    /// One event; two where an update gives a row another key.
    Events(Vec<Event>),
    Passed(Passed),
}

impl Said {
    fn one(event: Event) -> Self {
        Self::Events(vec![event])
    }
}

/// Reads one message or line. `topic_key` is the key where something beside the bytes
/// says it, such as a level of the topic.
///
/// # Errors
/// A sentence without a subject: what is wrong, or missing.
pub(super) fn read(rules: &Rules, topic_key: Option<&str>, bytes: &[u8]) -> Result<Said, String> {
    let bytes = bytes.trim_ascii();
    if bytes.is_empty() || bytes == b"null" {
        return Ok(tombstone(topic_key.map(str::to_owned)));
    }
    let object = Object::parse(bytes)?;
    wrapped(rules, topic_key, object)
}

/// A value of null: the row of that key is gone, if it was not before.
fn tombstone(key: Option<String>) -> Said {
    match key {
        None => Said::Passed(Passed::Tombstone),
        Some(key) => Said::one(Event {
            op: Op::Delete { key, before: None },
            time: None,
            at: None,
        }),
    }
}

/// Takes off what stands around an event, a layer at a time.
fn wrapped(rules: &Rules, topic_key: Option<&str>, object: Object<'_>) -> Result<Said, String> {
    let mut object = object;
    let mut key = None;
    if object.len() == 2 && object.get("key").is_some() && object.get("value").is_some() {
        // A message with its key, as consumers of Kafka print both.
        key = object.get("key").and_then(unwrapped_key);
        match object.object("value") {
            Some(value) => object = value,
            None if object.some("value").is_none() => {
                let key = key.map(|key| key_of(rules, key)).transpose()?;
                return Ok(tombstone(key.or(topic_key.map(str::to_owned))));
            }
            None => return Err(String::from("has a value that is no object")),
        }
    }
    // CloudEvents have the event in `data`, Debezium with its schema in `payload`.
    for (beside, name) in [("specversion", "data"), ("schema", "payload")] {
        if object.get(beside).is_none() || object.get(name).is_none() {
            continue;
        }
        match object.object(name) {
            Some(inner) => object = inner,
            None if object.some(name).is_none() => {
                let key = key.map(|key| key_of(rules, key)).transpose()?;
                return Ok(tombstone(key.or(topic_key.map(str::to_owned))));
            }
            None => return Err(format!("has a {name} that is no object")),
        }
    }
    let key = key.map(|key| key_of(rules, key)).transpose()?;
    event(rules, key.or(topic_key.map(str::to_owned)), &object)
}

/// A key without the schema around it.
fn unwrapped_key(raw: &str) -> Option<&str> {
    if raw == "null" {
        return None;
    }
    let payload = Object::inside(raw).and_then(|object| {
        object.get("schema")?;
        object.get("payload")
    });
    Some(payload.unwrap_or(raw))
}

fn event(rules: &Rules, key: Option<String>, object: &Object<'_>) -> Result<Said, String> {
    let op = object.text("op");
    let envelope = ["before", "after", "source"];
    let is_envelope = envelope.iter().any(|name| object.get(name).is_some());
    match op.as_deref() {
        Some("c" | "r" | "u" | "d" | "t" | "m") if is_envelope => {
            envelope::read(rules, key, object)
        }
        Some("insert" | "update" | "delete" | "truncate" | "heartbeat" | "upsert") => {
            line::read(rules, key, object)
        }
        _ if object.get("__op").is_some() || object.get("__deleted").is_some() => {
            flat::read(rules, key, object)
        }
        // What Debezium says beside the changes of rows.
        _ if object.get("ddl").is_some() || object.get("tableChanges").is_some() => {
            Ok(Said::Passed(Passed::NoRow))
        }
        _ if object.get("status").is_some() && object.get("data_collections").is_some() => {
            Ok(Said::Passed(Passed::NoRow))
        }
        None if object.len() == 1 && object.int("ts_ms").is_some() => Ok(Said::one(Event {
            op: Op::Heartbeat,
            time: time::of_millis(object.int("ts_ms")),
            at: None,
        })),
        _ if rules.plain_rows => Ok(Said::one(Event {
            op: Op::Upsert {
                key,
                before: None,
                after: json::object(object.members()),
                is_insert: None,
                unchanged: Vec::new(),
            },
            time: None,
            at: None,
        })),
        Some(op) => Err(format!(
            "has an unknown op \"{}\"; known: c r u d t of Debezium, insert update delete truncate heartbeat of ours",
            shown(op)
        )),
        None => Err(String::from(
            "is no change: there is no op, as Debezium and our own lines have it",
        )),
    }
}

/// The key of a message: an object with the columns, or the value of the one column.
fn key_of(rules: &Rules, raw: &str) -> Result<String, String> {
    match Object::inside(raw) {
        None => {
            let text = json::text(raw);
            Ok(text.map_or_else(|| json::compact(raw), |text| text.into_owned()))
        }
        Some(object) => key_in(rules, &object).ok_or_else(|| {
            format!(
                "has a key without the table's key column {}",
                rules.key.join(", ")
            )
        }),
    }
}

/// The key by a row's columns; `None` where one is missing or null.
fn key_in(rules: &Rules, row: &Object<'_>) -> Option<String> {
    row_key(row.raw(), &rules.key)
}

/// A value from outside in an error: a few signs of it.
fn shown(text: &str) -> String {
    let cut: String = text.chars().take(24).collect();
    cut.escape_debug().to_string()
}

#[cfg(test)]
mod tests;
