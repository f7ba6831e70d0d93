//! Debezium's envelope: `op`, `before`, `after`, `source`, `ts_ms`.
//!
//! A column whose value the database did not log (PostgreSQL's TOAST, unchanged) has a
//! placeholder in `after`: what `before` has is taken, else it is said to be unchanged.

use super::super::json::{self, Object};
use super::{DbPosition, Event, Op, Passed, Rules, Said, key_in, time};

/// What Debezium writes for a value that it was not given.
const UNAVAILABLE: &str = "\"__debezium_unavailable_value\"";

pub(super) fn read(
    rules: &Rules,
    key: Option<String>,
    object: &Object<'_>,
) -> Result<Said, String> {
    let source = object.object("source");
    if !is_of_table(rules, source.as_ref()) {
        return Ok(Said::Passed(Passed::OtherTable));
    }
    let op = object.text("op").unwrap_or_default();
    let before = row(object, "before")?;
    let after = row(object, "after")?;
    let op = match &*op {
        "m" => return Ok(Said::Passed(Passed::NoRow)),
        "t" => Op::Truncate,
        "d" => deleted(rules, key, before.as_ref())?,
        letter => {
            let after = after.ok_or_else(|| format!("has op {letter} and no after"))?;
            let is_insert = match letter {
                "c" => Some(true),
                "u" => Some(false),
                _ => None,
            };
            Op::Upsert {
                key: key.or_else(|| key_in(rules, &after)),
                after: with_known(&after, before.as_ref()),
                unchanged: unknown(&after, before.as_ref()),
                before: before.as_ref().map(|row| json::object(row.members())),
                is_insert,
            }
        }
    };
    let of_source = source
        .as_ref()
        .and_then(|source| time::of_members(source, ""));
    let time = of_source.or_else(|| time::of_members(object, ""));
    let is_snapshot = object.text("op").as_deref() == Some("r");
    let at = source
        .as_ref()
        .and_then(|source| DbPosition::of(source, time));
    Ok(Said::Events(moved(rules, op, before.as_ref(), |op| {
        Event {
            op,
            time,
            // All rows of a snapshot have the same position.
            at: at.clone().filter(|_| !is_snapshot),
        }
    })))
}

/// A row, or null, or nothing.
fn row<'a>(object: &Object<'a>, name: &str) -> Result<Option<Object<'a>>, String> {
    match object.some(name) {
        None => Ok(None),
        Some(raw) => Object::inside(raw)
            .map(Some)
            .ok_or_else(|| format!("has {name} that is no object")),
    }
}

/// `schema.table` or `database.table`, or the table alone.
fn is_of_table(rules: &Rules, source: Option<&Object<'_>>) -> bool {
    let Some(only) = &rules.only else {
        return true;
    };
    let Some(source) = source else {
        return false;
    };
    let table = source.text("table").unwrap_or_default();
    match only.rsplit_once('.') {
        None => *only == table,
        Some((place, name)) => {
            let places = ["schema", "db"].map(|member| source.text(member));
            name == table && places.into_iter().flatten().any(|known| known == place)
        }
    }
}

pub(super) fn deleted(
    rules: &Rules,
    key: Option<String>,
    before: Option<&Object<'_>>,
) -> Result<Op, String> {
    let key = key.or_else(|| before.and_then(|row| key_in(rules, row)));
    let key = key.ok_or_else(|| {
        format!(
            "deletes a row without saying which: before has no {}",
            rules.key.join(", ")
        )
    })?;
    Ok(Op::Delete {
        key,
        before: before.map(|row| json::object(row.members())),
    })
}

/// The value of a column after an update; `None` where nobody says it.
fn known<'a>((name, after): (&str, &'a str), before: Option<&Object<'a>>) -> Option<&'a str> {
    if after != UNAVAILABLE {
        return Some(after);
    }
    let before = before.and_then(|row| row.get(name));
    before.filter(|raw| *raw != UNAVAILABLE)
}

fn with_known<'a>(after: &Object<'a>, before: Option<&Object<'a>>) -> String {
    json::object(
        after
            .members()
            .filter_map(|(name, raw)| Some((name, known((name, raw), before)?))),
    )
}

fn unknown<'a>(after: &Object<'a>, before: Option<&Object<'a>>) -> Vec<String> {
    let unknown = after
        .members()
        .filter(|member| known(*member, before).is_none());
    unknown.map(|(name, _)| name.to_owned()).collect()
}

/// An update that gives a row another key takes the old one away first.
fn moved(
    rules: &Rules,
    op: Op,
    before: Option<&Object<'_>>,
    event: impl Fn(Op) -> Event,
) -> Vec<Event> {
    let old = before.and_then(|row| key_in(rules, row));
    match (op, old) {
        (
            Op::Upsert {
                key: Some(new),
                before,
                after,
                unchanged,
                ..
            },
            Some(old),
        ) if new != old => {
            let gone = Op::Delete { key: old, before };
            let there = Op::Upsert {
                key: Some(new),
                before: None,
                after,
                is_insert: Some(true),
                unchanged,
            };
            vec![event(gone), event(there)]
        }
        (op, _) => vec![event(op)],
    }
}
