//! What the topic `changes` says of one table: its rows as they were at a time, or all
//! changes of one row.
//!
//! Always holds: of two changes of a row the one with the later time counts, at the
//! same time the later in the log, as for joins. Bound: [`QUERY_LINES_MAX`] keys or
//! changes. Knows neither the rows that are held now nor the log before what retention
//! has left, which whoever asks hands in.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::change::{Change, ChangeOp, change_op_name};
use crate::limits::QUERY_LINES_MAX;
use crate::log::block::Body;
use crate::log::decode::decode;
use crate::log::key::StoredBlock;
use crate::units::{EventTime, Offset};
use crate::utc::time_value;

/// A row as it was, or that there was none.
type Version = (EventTime, Option<Arc<str>>);

#[derive(Debug)]
enum Fold {
    At {
        key: Option<String>,
        at: EventTime,
        rows: BTreeMap<Arc<str>, Version>,
        more: bool,
    },
    History {
        key: String,
        changes: VecDeque<Value>,
        more: bool,
    },
}

/// A question about a table being answered.
#[derive(Debug)]
pub struct TableJob {
    table: String,
    /// Of the topic's one partition: the next to be read, and where the answer ends.
    next: Offset,
    end: Offset,
    fold: Fold,
}

impl TableJob {
    /// The rows of `table` that held at `at`: all of them, or the one of `key`.
    #[must_use]
    pub fn at(table: &str, key: Option<&str>, at: EventTime, end: Offset) -> Self {
        let fold = Fold::At {
            key: key.map(str::to_owned),
            at,
            rows: BTreeMap::new(),
            more: false,
        };
        Self::new(table, end, fold)
    }

    /// What became of the row of `key`.
    #[must_use]
    pub fn history(table: &str, key: &str, end: Offset) -> Self {
        let fold = Fold::History {
            key: key.to_owned(),
            changes: VecDeque::new(),
            more: false,
        };
        Self::new(table, end, fold)
    }

    fn new(table: &str, end: Offset, fold: Fold) -> Self {
        Self {
            table: table.to_owned(),
            next: Offset(0),
            end,
            fold,
        }
    }

    /// The next read of the topic; `None` when the answer is complete.
    #[must_use]
    pub fn next_fetch(&self) -> Option<Offset> {
        (self.next < self.end).then_some(self.next)
    }

    /// Takes blocks that a read from [`TableJob::next_fetch`] brought. What was removed
    /// is passed over; without a block there is nothing more.
    pub fn on_blocks(&mut self, blocks: &[StoredBlock]) {
        let from = self.next;
        self.next = self.end;
        for stored in blocks {
            let Ok(block) = decode(stored.key, &stored.bytes) else {
                // A step on, so that an unreadable place is not asked for twice.
                let step = stored.key.base.0.max(from.0).saturating_add(1);
                self.next = Offset(step);
                continue;
            };
            self.next = block.end().max(Offset(from.0.saturating_add(1)));
            let Body::Rows(rows) = &block.body else {
                continue;
            };
            for (offset, row) in (block.base.0..).zip(rows) {
                if offset < from.0 || offset >= self.end.0 {
                    continue;
                }
                if let Ok(change) = Change::parse(&row.line)
                    && *change.table == *self.table
                {
                    self.take(&change);
                }
            }
        }
    }

    /// Takes a change; those of the log in its order.
    pub fn take(&mut self, change: &Change) {
        if change.op == ChangeOp::Heartbeat {
            return;
        }
        match &mut self.fold {
            Fold::At {
                key,
                at,
                rows,
                more,
            } => {
                let is_other = key.as_ref().is_some_and(|key| **key != *change.key);
                if is_other || change.time > *at {
                    return;
                }
                let version = (change.time, change.after.clone());
                let held = rows.entry(change.key.clone()).or_insert(version.clone());
                if change.time >= held.0 {
                    *held = version;
                }
                if rows.len() > QUERY_LINES_MAX {
                    rows.pop_last();
                    *more = true;
                }
            }
            Fold::History { key, changes, more } => {
                if *change.key != **key {
                    return;
                }
                if changes.len() == QUERY_LINES_MAX {
                    changes.pop_front();
                    *more = true;
                }
                changes.push_back(change_value(change));
            }
        }
    }

    /// The answer, once [`TableJob::next_fetch`] has nothing more.
    #[must_use]
    pub fn finish(self) -> Value {
        match self.fold {
            Fold::At { at, rows, more, .. } => {
                let rows = rows.iter().filter_map(|(key, (time, row))| {
                    let row = row.as_ref()?;
                    Some(row_value(key, *time, row))
                });
                json!({
                    "table": self.table,
                    "at": (at.0 < i64::MAX).then(|| time_value(at)),
                    "rows": rows.collect::<Value>(),
                    "more": more,
                })
            }
            Fold::History { key, changes, more } => json!({
                "table": self.table,
                "key": key,
                "history": changes.into_iter().collect::<Value>(),
                "more": more,
            }),
        }
    }
}

/// A row in an answer.
#[must_use]
pub fn row_value(key: &str, since: EventTime, row: &str) -> Value {
    json!({ "key": key, "time": time_value(since), "row": object(Some(row)) })
}

fn change_value(change: &Change) -> Value {
    let mut value = json!({
        "op": change_op_name(change.op),
        "time": time_value(change.time),
    });
    for (name, row) in [("before", &change.before), ("after", &change.after)] {
        if row.is_some() {
            value[name] = object(row.as_deref());
        }
    }
    if let Some(position) = &change.position {
        value["position"] = json!(&**position);
    }
    value
}

/// A row as it was written.
fn object(row: Option<&str>) -> Value {
    let read = row.map(serde_json::from_str);
    // What cannot be read is shown as the text that it is.
    match read {
        Some(Ok(value)) => value,
        Some(Err(_)) => json!(row),
        None => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(op: ChangeOp, key: &str, time: i64, row: Option<&str>) -> Change {
        Change {
            table: "sites".into(),
            op,
            key: key.into(),
            time: EventTime(time),
            before: None,
            after: row.map(Arc::from),
            position: None,
        }
    }

    fn changes() -> Vec<Change> {
        vec![
            change(ChangeOp::Insert, "a", 10, Some(r#"{"n":1}"#)),
            change(ChangeOp::Insert, "b", 10, Some(r#"{"n":2}"#)),
            change(ChangeOp::Update, "a", 30, Some(r#"{"n":3}"#)),
            change(ChangeOp::Heartbeat, "", 35, None),
            // Out of order: older than what is held.
            change(ChangeOp::Update, "a", 20, Some(r#"{"n":4}"#)),
            change(ChangeOp::Update, "a", 20, Some(r#"{"n":5}"#)),
            change(ChangeOp::Delete, "b", 40, None),
            change(ChangeOp::Update, "b", 39, Some(r#"{"n":6}"#)),
        ]
    }

    fn answer(mut job: TableJob) -> Value {
        changes().iter().for_each(|change| job.take(change));
        job.finish()
    }

    #[test]
    fn rows_are_those_that_held_then() {
        for (at, key, want) in [
            (9, None, vec![]),
            (10, None, vec![("a", 1), ("b", 2)]),
            (19, None, vec![("a", 1), ("b", 2)]),
            (20, None, vec![("a", 5), ("b", 2)]),
            (39, None, vec![("a", 3), ("b", 6)]),
            (40, None, vec![("a", 3)]),
            (i64::MAX, Some("a"), vec![("a", 3)]),
            (i64::MAX, Some("b"), vec![]),
        ] {
            let job = TableJob::at("sites", key, EventTime(at), Offset(0));
            let answer = answer(job);
            let rows = answer["rows"].as_array().unwrap();
            let rows: Vec<_> = rows
                .iter()
                .map(|row| {
                    (
                        row["key"].as_str().unwrap(),
                        row["row"]["n"].as_i64().unwrap(),
                    )
                })
                .collect();
            assert_eq!(rows, want, "{at} {key:?}");
        }
    }

    #[test]
    fn a_history_is_in_the_order_of_the_log() {
        let answer = answer(TableJob::history("sites", "b", Offset(0)));
        let ops = answer["history"].as_array().unwrap().iter();
        let ops = ops.map(|change| change["op"].as_str().unwrap());
        assert_eq!(ops.collect::<Vec<_>>(), ["insert", "delete", "update"]);
    }

    #[test]
    fn rows_and_changes_are_kept_up_to_the_limit() {
        for (count, more) in [
            (QUERY_LINES_MAX - 1, false),
            (QUERY_LINES_MAX, false),
            (QUERY_LINES_MAX + 1, true),
        ] {
            let mut rows = TableJob::at("sites", None, EventTime(i64::MAX), Offset(0));
            let mut history = TableJob::history("sites", "k", Offset(0));
            for n in 0..count {
                rows.take(&change(ChangeOp::Insert, &n.to_string(), 0, Some("{}")));
                history.take(&change(ChangeOp::Insert, "k", 0, Some("{}")));
            }
            for answer in [rows.finish(), history.finish()] {
                let lines = answer.get("rows").unwrap_or(&answer["history"]);
                let kept = lines.as_array().unwrap().len();
                assert_eq!(kept, count.min(QUERY_LINES_MAX), "{count}");
                assert_eq!(answer["more"], more, "{count}");
            }
        }
    }
}
