//! A line with a change of a table: checked against the tables of the config, to core's
//! type. Rows are kept as they are written, but for the spaces between their parts.

use std::sync::Arc;

use forebay_core::change::{CHANGE_OPS, Change, ChangeOp, row_key};
use forebay_core::json::scan::members;
use forebay_core::json::write_text;
use forebay_core::limits::ROW_BYTES_MAX;
use forebay_core::near::did_you_mean;
use forebay_core::units::EventTime;
use serde_json::{Map, Value};

use super::line::{text_field, time_field};
use crate::config::{TableConfig, TableSource};
use crate::import::fields::cut;

/// What such a line says, whatever tables there are.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ChangeLine {
    table: String,
    op: ChangeOp,
    /// Parts of the key; `None`: those of the row.
    key: Option<Vec<String>>,
    time: EventTime,
    before: Option<Arc<str>>,
    after: Option<Arc<str>>,
}

/// Reads a line whose fields are at hand.
pub(super) fn parse(text: &str, fields: &Map<String, Value>) -> Result<ChangeLine, String> {
    let table = text_field(fields, "table")?;
    let op = op(fields)?;
    let is_delete = op == ChangeOp::Delete;
    let row = object(text, fields, "row")?;
    let before = object(text, fields, "before")?;
    let after = object(text, fields, "after")?;
    if row.is_some() && (after.is_some() || is_delete && before.is_some()) {
        return Err("has a row beside before and after; one of them is enough".into());
    }
    let (before, after) = if is_delete {
        (before.or(row), after)
    } else {
        (before, after.or(row))
    };
    let needs_row = matches!(op, ChangeOp::Insert | ChangeOp::Update);
    if needs_row && after.is_none() {
        return Err("has no row; for example \"row\":{\"building\":\"north\"}".into());
    }
    if !needs_row && after.is_some() {
        return Err("has a row after a change that leaves none".into());
    }
    Ok(ChangeLine {
        table,
        op,
        key: key(fields)?,
        time: time_field(fields)?,
        before,
        after,
    })
}

fn op(fields: &Map<String, Value>) -> Result<ChangeOp, String> {
    let text = text_field(fields, "op")?;
    let found = CHANGE_OPS.iter().find(|(_, name)| *name == text);
    found.map(|(op, _)| *op).ok_or_else(|| {
        let names = || CHANGE_OPS.iter().map(|(_, name)| *name);
        format!(
            "has the unknown op {}{}; known: {}",
            cut(&text),
            did_you_mean(&text, names()),
            names().collect::<Vec<_>>().join(", ")
        )
    })
}

/// The parts of the key as texts, the form in which keys are compared.
fn key(fields: &Map<String, Value>) -> Result<Option<Vec<String>>, String> {
    let part = |value: &Value| match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(_) | Value::Bool(_) => Ok(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => Err(format!(
            "has a key that is no text and no number: {}",
            cut(&value.to_string())
        )),
    };
    match fields.get("key") {
        None => Ok(None),
        Some(Value::Array(parts)) if !parts.is_empty() => {
            parts.iter().map(part).collect::<Result<_, _>>().map(Some)
        }
        Some(value) => part(value).map(|part| Some(vec![part])),
    }
}

/// The text of an object among the members, without spaces between its parts.
fn object(text: &str, fields: &Map<String, Value>, name: &str) -> Result<Option<Arc<str>>, String> {
    match fields.get(name) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Object(_)) => {}
        Some(other) => {
            return Err(format!(
                "has a {name} that is no object: {}",
                cut(&other.to_string())
            ));
        }
    }
    let mut found = None;
    for member in members(text) {
        let (key, value) = member.map_err(|e| format!("is not JSON at byte {}", e.at + 1))?;
        if key == name {
            found = Some(compact(value).into());
        }
    }
    Ok(found)
}

/// JSON without the spaces outside of its texts.
fn compact(json: &str) -> String {
    let (mut in_text, mut escaped) = (false, false);
    json.chars()
        .filter(|c| {
            if in_text {
                in_text = escaped || *c != '"';
                escaped = !escaped && *c == '\\';
                return true;
            }
            in_text = *c == '"';
            !matches!(c, ' ' | '\t' | '\r' | '\n')
        })
        .collect()
}

impl ChangeLine {
    /// As a change of one of these tables.
    ///
    /// # Errors
    /// When there is no such table, or it is not fed by lines, or the key is none of it.
    pub(super) fn of(self, tables: &[TableConfig]) -> Result<Change, String> {
        let Some(table) = tables.iter().find(|table| table.name == self.table) else {
            let known = || tables.iter().map(|table| table.name.as_str());
            return Err(format!(
                "changes {}, which is no table{}; tables: {}",
                cut(&self.table),
                did_you_mean(&self.table, known()),
                match tables {
                    [] => "none".into(),
                    _ => known().collect::<Vec<_>>().join(", "),
                }
            ));
        };
        if table.source == TableSource::Config {
            return Err(format!(
                "changes \"{}\", whose rows stand in the config",
                table.name
            ));
        }
        let change = Change {
            key: self.key_of(table)?.into(),
            table: table.name.as_str().into(),
            op: self.op,
            time: self.time,
            before: self.before,
            after: self.after,
            position: None,
        };
        let mut line = Vec::new();
        change.write_json(&mut line);
        if line.len() > ROW_BYTES_MAX {
            return Err(format!(
                "is a change of {} bytes, at most {ROW_BYTES_MAX}",
                line.len()
            ));
        }
        Ok(change)
    }

    fn key_of(&self, table: &TableConfig) -> Result<String, String> {
        if self.op == ChangeOp::Heartbeat {
            return Ok(String::new());
        }
        let row = self.after.as_ref().or(self.before.as_ref());
        let columns = || table.key.join(", ");
        match (&self.key, row) {
            (Some(parts), _) if parts.len() != table.key.len() => Err(format!(
                "has a key of {} part{}; that of \"{}\" has {}: {}",
                parts.len(),
                if parts.len() == 1 { "" } else { "s" },
                table.name,
                table.key.len(),
                columns()
            )),
            (Some(parts), _) => Ok(key_text(parts)),
            (None, Some(row)) => row_key(row, &table.key)
                .ok_or_else(|| format!("has no key, and no {} in its row", columns())),
            (None, None) => Err("has no key".into()),
        }
    }
}

/// The text of one part, or a JSON array of several.
fn key_text(parts: &[String]) -> String {
    if let [one] = parts {
        return one.clone();
    }
    let mut out = vec![b'['];
    for (nth, part) in parts.iter().enumerate() {
        if nth > 0 {
            out.push(b',');
        }
        write_text(part, &mut out);
    }
    out.push(b']');
    String::from_utf8(out).expect("texts in JSON are UTF-8")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::try_run::line::{self, Line};

    fn tables() -> Vec<TableConfig> {
        let table = |name: &str, key: &[&str], source| TableConfig {
            name: name.into(),
            key: key.iter().map(ToString::to_string).collect(),
            source,
            rows: Vec::new(),
            columns: None,
        };
        vec![
            table("sites", &["device"], TableSource::File),
            table("limits", &["device", "channel"], TableSource::Postgres),
            table("fixed", &["id"], TableSource::Config),
        ]
    }

    fn change(line: &str) -> Result<String, String> {
        let Line::Change(line) = line::json(line)? else {
            panic!("{line} is no change")
        };
        let mut out = Vec::new();
        line.of(&tables())?.write_json(&mut out);
        Ok(String::from_utf8(out).expect("UTF-8"))
    }

    #[test]
    fn changes_by_name() {
        for (line, want) in [
            (
                r#"{"table":"sites","op":"insert","key":"d1","time":1,"row":{"a": "x  y", "n": 1.50}}"#,
                r#""op":"insert","key":"d1","time":"1970-01-01T00:00:00.000001Z","after":{"a":"x  y","n":1.50}}"#,
            ),
            (
                r#"{"table":"sites","op":"update","key":7,"time":0,"before":{"q":"\" }"},"after":{}}"#,
                r#""key":"7","time":"1970-01-01T00:00:00Z","before":{"q":"\" }"},"after":{}}"#,
            ),
            (
                r#"{"table":"sites","op":"insert","time":0,"row":{"device":"d2"}}"#,
                r#""key":"d2","#,
            ),
            (
                r#"{"table":"sites","op":"delete","time":0,"row":{"device":true}}"#,
                r#""op":"delete","key":"true","time":"1970-01-01T00:00:00Z","before":{"device":true}}"#,
            ),
            (
                r#"{"table":"sites","op":"delete","key":"d1","time":0,"row":null}"#,
                r#""op":"delete","key":"d1","time":"1970-01-01T00:00:00Z"}"#,
            ),
            (
                r#"{"table":"limits","op":"insert","key":["d1",2],"time":0,"row":{}}"#,
                r#""key":"[\"d1\",\"2\"]","#,
            ),
            (
                r#"{"table":"limits","op":"insert","time":0,"row":{"channel":"c","device":"d"}}"#,
                r#""key":"[\"d\",\"c\"]","#,
            ),
            (
                r#"{"table":"sites","op":"heartbeat","time":0}"#,
                r#"{"table":"sites","op":"heartbeat","time":"1970-01-01T00:00:00Z"}"#,
            ),
        ] {
            let found = change(line).expect(line);
            assert!(found.ends_with(want) || found.contains(want), "{found}");
        }
    }

    #[test]
    fn what_is_wrong_is_told() {
        let long = "x".repeat(ROW_BYTES_MAX);
        for (line, want) in [
            (r#""table":5"#, "has a table that is no text: 5"),
            (
                r#""table":"site","op":"insert","key":"d","time":0,"row":{}"#,
                "changes site, which is no table (did you mean \"sites\"?); tables: sites, limits, fixed",
            ),
            (
                r#""table":"fixed","op":"insert","key":"d","time":0,"row":{}"#,
                "changes \"fixed\", whose rows stand in the config",
            ),
            (
                r#""table":"sites","key":"d","time":0,"row":{}"#,
                "has no op",
            ),
            (
                r#""table":"sites","op":"upsert","key":"d","time":0,"row":{}"#,
                "has the unknown op upsert (did you mean \"insert\"?); known: insert, update, delete, heartbeat",
            ),
            (
                r#""table":"sites","op":"updat","key":"d","time":0,"row":{}"#,
                "has the unknown op updat (did you mean \"update\"?)",
            ),
            (
                r#""table":"sites","op":"insert","key":"d","row":{}"#,
                "has no time",
            ),
            (
                r#""table":"sites","op":"insert","key":"d","time":0"#,
                "has no row",
            ),
            (
                r#""table":"sites","op":"insert","key":"d","time":0,"row":[1]"#,
                "has a row that is no object: [1]",
            ),
            (
                r#""table":"sites","op":"insert","key":"d","time":0,"row":{},"after":{}"#,
                "one of them is enough",
            ),
            (
                r#""table":"sites","op":"delete","key":"d","time":0,"after":{}"#,
                "has a row after a change that leaves none",
            ),
            (
                r#""table":"sites","op":"insert","key":null,"time":0,"row":{}"#,
                "has a key that is no text and no number: null",
            ),
            (
                r#""table":"sites","op":"insert","time":0,"row":{"a":1}"#,
                "has no key, and no device in its row",
            ),
            (
                r#""table":"sites","op":"insert","time":0,"row":{"device":null}"#,
                "has no key, and no device in its row",
            ),
            (r#""table":"sites","op":"delete","time":0"#, "has no key"),
            (
                r#""table":"limits","op":"delete","time":0,"key":"d1""#,
                "has a key of 1 part; that of \"limits\" has 2: device, channel",
            ),
            (
                r#""table":"sites","op":"delete","time":0,"key":["a","b"]"#,
                "has a key of 2 parts; that of \"sites\" has 1: device",
            ),
            (
                &format!(
                    r#""table":"sites","op":"insert","key":"d","time":0,"row":{{"a":"{long}"}}"#
                ),
                &format!("bytes, at most {ROW_BYTES_MAX}"),
            ),
        ] {
            let found = change(&format!("{{{line}}}")).expect_err(line);
            assert!(found.contains(want), "{line}: {found}");
        }
    }

    #[test]
    fn spaces_in_texts_stay() {
        for (json, want) in [
            (r#"{ "a" : [ 1 , 2 ] }"#, r#"{"a":[1,2]}"#),
            (
                r#"{"a b":"c \" d\\" , "e":" "}"#,
                r#"{"a b":"c \" d\\","e":" "}"#,
            ),
        ] {
            assert_eq!(compact(json), want);
        }
    }
}
