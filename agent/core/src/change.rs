//! A change of a table, as it stands in topic `changes`: one JSON object per line.
//!
//! Always holds: what is written here is read here as the same change, and rows are kept
//! as they were written. Bound: a line has at most [`ROW_BYTES_MAX`](crate::limits::ROW_BYTES_MAX)
//! bytes, which the writer sees to. Knows no source and no join.
//!
//! Line, version 1. Keys in this order; a reader passes over keys that it does not know.
//!
//! | key | of | value |
//! |---|---|---|
//! | `table` | all | text: name of the table, 1 to 64 characters |
//! | `op` | all | `insert`, `update`, `delete`; `heartbeat`: nothing changed up to `time` |
//! | `key` | all but heartbeats | text: of one key column its text as [`column_text`] gives it; of several a JSON array of these |
//! | `time` | all | from when on it holds: as `time` in `payload.md` |
//! | `before` | updates and deletes, where it is known | object: the row before |
//! | `after` | inserts and updates | object: the row from then on |
//! | `position` | where the source has one | text: its place in the source; grows as text does |

use std::fmt;
use std::sync::Arc;

use crate::json::scan::{NoJson, check_object, members, text_of};
use crate::json::write_text;
use crate::units::EventTime;
use crate::utc;

/// What happened to a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChangeOp {
    Insert,
    Update,
    Delete,
    /// Nothing: the table is known up to the time.
    Heartbeat,
}

/// Names of these in JSON.
pub const CHANGE_OPS: [(ChangeOp, &str); 4] = [
    (ChangeOp::Insert, "insert"),
    (ChangeOp::Update, "update"),
    (ChangeOp::Delete, "delete"),
    (ChangeOp::Heartbeat, "heartbeat"),
];

/// Name of such in JSON.
#[must_use]
pub fn change_op_name(op: ChangeOp) -> &'static str {
    match op {
        ChangeOp::Insert => "insert",
        ChangeOp::Update => "update",
        ChangeOp::Delete => "delete",
        ChangeOp::Heartbeat => "heartbeat",
    }
}

/// A row of a table that was inserted, updated or deleted, or that a table is known up to
/// a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub table: Arc<str>,
    pub op: ChangeOp,
    /// Empty of a heartbeat.
    pub key: Arc<str>,
    pub time: EventTime,
    /// Text of a JSON object, as it was written.
    pub before: Option<Arc<str>>,
    /// The same; an insert and an update have one, others none.
    pub after: Option<Arc<str>>,
    pub position: Option<Arc<str>>,
}

/// A line that is no change: at which byte, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangeError {
    pub at: usize,
    pub what: &'static str,
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}: {}", self.at, self.what)
    }
}

impl std::error::Error for ChangeError {}

impl From<NoJson> for ChangeError {
    fn from(NoJson { at }: NoJson) -> Self {
        Self {
            at,
            what: "no JSON object",
        }
    }
}

impl Change {
    /// Appends its line, without a newline.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"table\":");
        write_text(&self.table, out);
        out.extend_from_slice(b",\"op\":\"");
        out.extend_from_slice(change_op_name(self.op).as_bytes());
        out.push(b'"');
        if self.op != ChangeOp::Heartbeat {
            out.extend_from_slice(b",\"key\":");
            write_text(&self.key, out);
        }
        out.extend_from_slice(b",\"time\":");
        utc::write_json(self.time, out);
        for (name, row) in [("before", &self.before), ("after", &self.after)] {
            if let Some(row) = row {
                out.extend_from_slice(b",\"");
                out.extend_from_slice(name.as_bytes());
                out.extend_from_slice(b"\":");
                out.extend_from_slice(row.as_bytes());
            }
        }
        if let Some(position) = &self.position {
            out.extend_from_slice(b",\"position\":");
            write_text(position, out);
        }
        out.push(b'}');
    }

    /// Reads a line.
    ///
    /// # Errors
    /// With the byte, and what is wrong there.
    pub fn parse(line: &[u8]) -> Result<Self, ChangeError> {
        let text = std::str::from_utf8(line).map_err(|error| ChangeError {
            at: error.valid_up_to(),
            what: "no UTF-8",
        })?;
        let mut parts = Parts::default();
        for member in members(text) {
            let (key, value) = member?;
            parts.member(&key, value).map_err(|what| ChangeError {
                at: value.as_ptr().addr() - text.as_ptr().addr(),
                what,
            })?;
        }
        parts.finish().map_err(|what| ChangeError {
            at: text.len(),
            what,
        })
    }
}

/// Members of a line as they come.
#[derive(Default)]
struct Parts {
    table: Option<Arc<str>>,
    op: Option<ChangeOp>,
    key: Option<Arc<str>>,
    time: Option<EventTime>,
    before: Option<Arc<str>>,
    after: Option<Arc<str>>,
    position: Option<Arc<str>>,
}

fn set<T>(slot: &mut Option<T>, value: Option<T>, what: &'static str) -> Result<(), &'static str> {
    if slot.is_some() {
        return Err("a key that stands here twice");
    }
    *slot = Some(value.ok_or(what)?);
    Ok(())
}

impl Parts {
    fn member(&mut self, key: &str, value: &str) -> Result<(), &'static str> {
        let text = || text_of(value).map(Arc::from);
        let object = || value.starts_with('{').then(|| Arc::from(value));
        match key {
            "table" => set(&mut self.table, text(), "no name of a table"),
            "op" => {
                let name = text_of(value);
                let known = CHANGE_OPS
                    .iter()
                    .find(|(_, of)| name.as_deref() == Some(of));
                set(&mut self.op, known.map(|(op, _)| *op), "no such op")
            }
            "key" => set(&mut self.key, text(), "no key"),
            "time" => {
                let time = match text_of(value) {
                    Some(text) => utc::parse(&text),
                    None => value.parse().ok().map(EventTime),
                };
                set(&mut self.time, time, "no time")
            }
            "before" => set(&mut self.before, object(), "no row"),
            "after" => set(&mut self.after, object(), "no row"),
            "position" => set(&mut self.position, text(), "no position"),
            _ => Ok(()),
        }
    }

    fn finish(self) -> Result<Change, &'static str> {
        let op = self.op.ok_or("no op")?;
        let key = match op {
            ChangeOp::Insert | ChangeOp::Update | ChangeOp::Delete => self.key.ok_or("no key")?,
            ChangeOp::Heartbeat => Arc::from(""),
        };
        match op {
            ChangeOp::Insert | ChangeOp::Update if self.after.is_none() => {
                return Err("no row after the change");
            }
            ChangeOp::Delete | ChangeOp::Heartbeat if self.after.is_some() => {
                return Err("a row after what leaves none");
            }
            ChangeOp::Insert | ChangeOp::Update | ChangeOp::Delete | ChangeOp::Heartbeat => {}
        }
        Ok(Change {
            table: self.table.ok_or("no table")?,
            op,
            key,
            time: self.time.ok_or("no time")?,
            before: self.before,
            after: self.after,
            position: self.position,
        })
    }
}

/// Text of a column of a row: the form in which keys are compared. `None`: null, or not
/// there, or no row at all. A text stands without its quotes, all else as its JSON text.
#[must_use]
pub fn column_text(row: &str, column: &str) -> Option<String> {
    for member in members(row) {
        let (key, value) = member.ok()?;
        if key == column {
            return match value {
                "null" => None,
                value => Some(text_of(value).map_or_else(|| value.to_owned(), String::from)),
            };
        }
    }
    None
}

/// Key of a row by its key columns: the text of the one, or a JSON array of the texts of
/// several. `None` where one of them is null or not there.
#[must_use]
pub fn row_key(row: &str, columns: &[String]) -> Option<String> {
    if let [column] = columns {
        return column_text(row, column);
    }
    let texts: Option<Vec<String>> = columns.iter().map(|c| column_text(row, c)).collect();
    let mut out = vec![b'['];
    for (nth, text) in texts?.iter().enumerate() {
        if nth > 0 {
            out.push(b',');
        }
        write_text(text, &mut out);
    }
    out.push(b']');
    String::from_utf8(out).ok()
}

/// Whether a text is a row: a JSON object.
#[must_use]
pub fn is_row(text: &str) -> bool {
    check_object(text).is_ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn change(op: ChangeOp) -> Change {
        let row = |text: &str| Some(Arc::from(text));
        let (before, after) = match op {
            ChangeOp::Insert => (None, row(r#"{"device":"d1","max":5}"#)),
            ChangeOp::Update => (row(r#"{"max":4}"#), row(r#"{"max": 5}"#)),
            ChangeOp::Delete => (row(r#"{"max":5}"#), None),
            ChangeOp::Heartbeat => (None, None),
        };
        Change {
            table: Arc::from("sites"),
            op,
            key: Arc::from(if op == ChangeOp::Heartbeat {
                ""
            } else {
                "d\"1"
            }),
            time: EventTime(1_500_000),
            before,
            after,
            position: (op != ChangeOp::Insert).then(|| Arc::from("0/1")),
        }
    }

    fn line(change: &Change) -> String {
        let mut out = Vec::new();
        change.write_json(&mut out);
        String::from_utf8(out).expect("UTF-8")
    }

    /// Golden lines of version 1.
    #[test]
    fn lines_of_version_1() {
        for (op, want) in [
            (
                ChangeOp::Insert,
                r#"{"table":"sites","op":"insert","key":"d\"1","time":"1970-01-01T00:00:01.500000Z","after":{"device":"d1","max":5}}"#,
            ),
            (
                ChangeOp::Update,
                r#"{"table":"sites","op":"update","key":"d\"1","time":"1970-01-01T00:00:01.500000Z","before":{"max":4},"after":{"max": 5},"position":"0/1"}"#,
            ),
            (
                ChangeOp::Delete,
                r#"{"table":"sites","op":"delete","key":"d\"1","time":"1970-01-01T00:00:01.500000Z","before":{"max":5},"position":"0/1"}"#,
            ),
            (
                ChangeOp::Heartbeat,
                r#"{"table":"sites","op":"heartbeat","time":"1970-01-01T00:00:01.500000Z","position":"0/1"}"#,
            ),
        ] {
            let change = change(op);
            assert_eq!(line(&change), want, "{op:?}");
            assert_eq!(Change::parse(want.as_bytes()), Ok(change), "{op:?}");
        }
    }

    #[test]
    fn lines_that_are_no_change_say_where() {
        for (name, line, at, what) in [
            ("no object", "1", 0, "no JSON object"),
            ("empty", "{}", 2, "no op"),
            ("an op of others", r#"{"op":"upsert"}"#, 6, "no such op"),
            (
                "a number as table",
                r#"{"table":5}"#,
                9,
                "no name of a table",
            ),
            (
                "twice",
                r#"{"op":"delete","op":"delete"}"#,
                20,
                "a key that stands here twice",
            ),
            ("a bad time", r#"{"time":"soon"}"#, 8, "no time"),
            ("a row that is none", r#"{"after":[1]}"#, 9, "no row"),
            (
                "an insert of nothing",
                r#"{"table":"t","op":"insert","key":"k","time":0}"#,
                46,
                "no row after the change",
            ),
            (
                "a delete that leaves a row",
                r#"{"table":"t","op":"delete","key":"k","time":0,"after":{}}"#,
                57,
                "a row after what leaves none",
            ),
            (
                "without a key",
                r#"{"table":"t","op":"delete","time":0}"#,
                36,
                "no key",
            ),
        ] {
            let error = Change::parse(line.as_bytes());
            assert_eq!(error, Err(ChangeError { at, what }), "{name}");
        }
        let no_text = Change::parse(b"{\"a\":\"\xff\"}").map_err(|error| error.at);
        assert_eq!(no_text, Err(6));
    }

    #[test]
    fn keys_of_later_versions_are_passed_over() {
        let line = br#"{"more":{"a":[]},"table":"t","op":"delete","key":"k","time":0}"#;
        assert_eq!(Change::parse(line).map(|c| c.key), Ok(Arc::from("k")));
    }

    #[test]
    fn texts_of_columns() {
        let row = r#"{"a":"x\ty","b":1.50,"c":null,"d":true,"e":{"f": 1},"\u0067":"g"}"#;
        for (column, want) in [
            ("a", Some("x\ty")),
            ("b", Some("1.50")),
            ("c", None),
            ("d", Some("true")),
            ("e", Some(r#"{"f": 1}"#)),
            ("g", Some("g")),
            ("h", None),
        ] {
            assert_eq!(column_text(row, column).as_deref(), want, "{column}");
        }
        assert_eq!(column_text("no row", "a"), None);
    }

    #[test]
    fn keys_of_one_and_of_more_columns() {
        let row = r#"{"a":"x","b":1,"c":null}"#;
        let columns = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        for (names, want) in [
            (&["a"][..], Some("x")),
            (&["b"], Some("1")),
            (&["c"], None),
            (&["a", "b"], Some(r#"["x","1"]"#)),
            (&["a", "c"], None),
        ] {
            assert_eq!(row_key(row, &columns(names)).as_deref(), want, "{names:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            op in 0..4_usize,
            key in ".{0,8}",
            table in "[a-z]{1,8}",
            value in ".{0,8}",
            time: i64,
            position in proptest::option::of("[0-9a-f/]{1,8}"),
        ) {
            let (op, _) = CHANGE_OPS[op];
            let row: Arc<str> = Arc::from(serde_json::json!({ "k": value }).to_string());
            let is_kept = matches!(op, ChangeOp::Insert | ChangeOp::Update);
            let key = if op == ChangeOp::Heartbeat { String::new() } else { key };
            let change = Change {
                table: Arc::from(table),
                op,
                key: Arc::from(key),
                time: EventTime(time),
                before: (op == ChangeOp::Delete).then(|| row.clone()),
                after: is_kept.then(|| row.clone()),
                position: position.map(Arc::from),
            };
            prop_assert_eq!(Change::parse(line(&change).as_bytes()), Ok(change));
            prop_assert_eq!(column_text(&row, "k"), Some(value));
        }

        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = Change::parse(&bytes);
        }
    }
}
