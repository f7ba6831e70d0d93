//! Debezium's events as its transformation `ExtractNewRecordState` flattens them: the
//! row itself, with `__op`, `__deleted` and `__source_ts_ms` among its columns.

use super::super::json::{self, Object};
use super::envelope::deleted;
use super::{Event, Op, Passed, Rules, Said, key_in, time};

/// Before the names of what is not a column.
const PREFIX: &str = "__";

pub(super) fn read(
    rules: &Rules,
    key: Option<String>,
    object: &Object<'_>,
) -> Result<Said, String> {
    if let Some(only) = &rules.only
        && let Some(table) = object.text("__table")
        && only.rsplit('.').next() != Some(&*table)
    {
        return Ok(Said::Passed(Passed::OtherTable));
    }
    let op = object.text("__op");
    let deleted_text = object.text("__deleted");
    let is_deleted = deleted_text.as_deref() == Some("true")
        || object.get("__deleted") == Some("true")
        || op.as_deref() == Some("d");
    let op = if is_deleted {
        match deleted(rules, key, Some(object))? {
            Op::Delete { key, .. } => Op::Delete {
                key,
                before: Some(columns(object)),
            },
            other @ (Op::Upsert { .. } | Op::Truncate | Op::Heartbeat) => other,
        }
    } else if op.as_deref() == Some("t") {
        Op::Truncate
    } else {
        Op::Upsert {
            key: key.or_else(|| key_in(rules, object)),
            before: None,
            after: columns(object),
            is_insert: match op.as_deref() {
                Some("c") => Some(true),
                Some("u") => Some(false),
                Some(_) | None => None,
            },
            unchanged: Vec::new(),
        }
    };
    let time = time::of_members(object, "__source_").or_else(|| time::of_members(object, "__"));
    Ok(Said::one(Event { op, time, at: None }))
}

fn columns(object: &Object<'_>) -> String {
    json::object(
        object
            .members()
            .filter(|(name, _)| !name.starts_with(PREFIX)),
    )
}
