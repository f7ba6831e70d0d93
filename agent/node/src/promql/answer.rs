//! Answers and errors in the form of Prometheus's API.
//!
//! Always holds: the text is one object with a `status`. Bound: what the answer holds; results of
//! queries are written by [`pieces`](super::pieces).

use super::error::QueryError;
use super::labels::Labels;
use super::text::{number, quoted, time};

/// What is to be said beside an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Notes {
    /// The answer lacks something.
    pub warnings: Vec<String>,
    /// How it came about.
    pub infos: Vec<String>,
}

/// The body of an error.
#[must_use]
pub fn error(error: &QueryError) -> String {
    let mut out = String::from(r#"{"status":"error","errorType":"#);
    quoted(&mut out, error.class());
    out.push_str(r#","error":"#);
    quoted(&mut out, error.text());
    out.push('}');
    out
}

/// The body around `data`, which is JSON.
#[must_use]
pub fn success(data: &str, notes: &Notes) -> String {
    let mut out = String::with_capacity(data.len() + 64);
    out.push_str(r#"{"status":"success","data":"#);
    out.push_str(data);
    notes_after(&mut out, notes);
    out.push('}');
    out
}

/// What stands behind the data.
pub(super) fn notes_after(out: &mut String, notes: &Notes) {
    for (name, texts) in [("warnings", &notes.warnings), ("infos", &notes.infos)] {
        if !texts.is_empty() {
            out.push(',');
            quoted(out, name);
            out.push(':');
            list(out, texts, |out, text| quoted(out, text));
        }
    }
}

/// Labels of series, as `/series` has them.
#[must_use]
pub fn series(series: &[Labels]) -> String {
    let mut out = String::new();
    list(&mut out, series, labels);
    out
}

/// Strings.
#[must_use]
pub fn texts(texts: &[String]) -> String {
    let mut out = String::new();
    list(&mut out, texts, |out, text| quoted(out, text));
    out
}

/// The start of a series of a result.
pub(super) fn metric(out: &mut String, of: &Labels) {
    out.push_str(r#"{"metric":"#);
    labels(out, of);
}

fn labels(out: &mut String, of: &Labels) {
    out.push('{');
    for (index, (name, value)) in of.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        quoted(out, name);
        out.push(':');
        quoted(out, value);
    }
    out.push('}');
}

/// A time in microseconds, and a value.
pub(super) fn point(out: &mut String, micros: i64, value: f64) {
    out.push('[');
    time(out, micros);
    out.push_str(",\"");
    number(out, value);
    out.push_str("\"]");
}

fn list<T>(out: &mut String, items: &[T], mut write: impl FnMut(&mut String, &T)) {
    out.push('[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write(out, item);
    }
    out.push(']');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_and_infos_stand_beside_the_data() {
        let wrong = QueryError::BadData("no \"x\"".to_owned());
        assert_eq!(
            error(&wrong),
            r#"{"status":"error","errorType":"bad_data","error":"no \"x\""}"#
        );
        let mut notes = Notes::default();
        assert_eq!(success("[]", &notes), r#"{"status":"success","data":[]}"#);
        notes.infos.push("so".to_owned());
        assert_eq!(
            success("[]", &notes),
            r#"{"status":"success","data":[],"infos":["so"]}"#
        );
    }
}
