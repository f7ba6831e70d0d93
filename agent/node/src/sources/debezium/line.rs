//! Our own change lines, as `forebay try` reads them and the topic `changes` has them:
//! `{"op","key","time","row"}`, with `after` for `row`, and `table` and `before` where
//! they are given.

use super::super::json::{self, Object};
use super::{Event, Op, Passed, Rules, Said, key_in, key_of, time};

pub(super) fn read(
    rules: &Rules,
    key: Option<String>,
    object: &Object<'_>,
) -> Result<Said, String> {
    if object
        .text("table")
        .is_some_and(|table| *table != *rules.table)
    {
        return Ok(Said::Passed(Passed::OtherTable));
    }
    let key = match object.some("key") {
        Some(raw) => Some(key_of(rules, raw)?),
        None => key,
    };
    let time = object.some("time").map(time::of_line).transpose()?;
    let before = row(object, "before")?;
    let after = match row(object, "row")? {
        Some(row) => Some(row),
        None => row(object, "after")?,
    };
    let text = |row: &Object<'_>| json::object(row.members());
    let op = object.text("op").unwrap_or_default();
    let op = match &*op {
        "truncate" => Op::Truncate,
        "heartbeat" => Op::Heartbeat,
        "delete" => {
            let of_row = before.as_ref().or(after.as_ref());
            let key = key.or_else(|| of_row.and_then(|row| key_in(rules, row)));
            Op::Delete {
                key: key.ok_or("deletes a row without saying which: there is no key")?,
                before: before.as_ref().map(text),
            }
        }
        upsert => {
            let after = after.ok_or_else(|| format!("has op {upsert} and no row"))?;
            Op::Upsert {
                key: key.or_else(|| key_in(rules, &after)),
                before: before.as_ref().map(text),
                after: text(&after),
                is_insert: match upsert {
                    "insert" => Some(true),
                    "update" => Some(false),
                    _ => None,
                },
                unchanged: Vec::new(),
            }
        }
    };
    Ok(Said::one(Event { op, time, at: None }))
}

fn row<'a>(object: &Object<'a>, name: &str) -> Result<Option<Object<'a>>, String> {
    match object.some(name) {
        None => Ok(None),
        Some(raw) => Object::inside(raw)
            .map(Some)
            .ok_or_else(|| format!("has a {name} that is no object")),
    }
}
