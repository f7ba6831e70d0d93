//! From a status to samples: a path with stars is walked, each star over the members of
//! a list or an object, and labels are read beside it. Knows no metric.

use serde_json::Value;

/// Where the samples of a metric stand.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source {
    /// Pointer of JSON; a `*` is each member of a list or an object.
    pub path: &'static str,
    pub labels: &'static [(&'static str, Label)],
    pub figure: Figure,
}

/// Where a label's text stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Label {
    /// At this path, each star as in the sample's own.
    At(&'static str),
    /// The name of the member that the last star stands for.
    Key,
    /// Always this.
    Is(&'static str),
}

/// What the figure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Figure {
    /// As it stands.
    Number,
    /// Microseconds, shown as seconds.
    Micros,
    /// Milliseconds, shown as seconds.
    Millis,
    /// A time, shown as seconds since 1970.
    Time,
    /// 1 when true, 0 when false.
    Flag,
    /// 1 where this text stands, 0 for any other.
    Text(&'static str),
    /// 1 where anything stands.
    There,
}

/// A member that a star stands for.
type Bound = String;

/// All samples of a source, in the order of the status; a member that is null or missing
/// has none.
pub(super) fn samples(status: &Value, source: &Source) -> Vec<(Vec<(&'static str, String)>, f64)> {
    let mut out = Vec::new();
    let parts: Vec<&str> = source.path.split('/').skip(1).collect();
    walk(status, &parts, &mut Vec::new(), &mut |bound, value| {
        if let Some(figure) = figure(value, source.figure) {
            let labels = source.labels.iter();
            let labels = labels.map(|(name, label)| (*name, text(status, *label, bound)));
            out.push((labels.collect(), figure));
        }
    });
    out
}

fn walk(
    value: &Value,
    parts: &[&str],
    bound: &mut Vec<Bound>,
    each: &mut dyn FnMut(&[Bound], &Value),
) {
    let Some((first, rest)) = parts.split_first() else {
        return each(bound, value);
    };
    if *first != "*" {
        if let Some(member) = value.get(first) {
            walk(member, rest, bound, each);
        }
        return;
    }
    let mut go = |name: String, member: &Value| {
        bound.push(name);
        walk(member, rest, bound, each);
        bound.pop();
    };
    match value {
        Value::Array(members) => {
            for (at, member) in members.iter().enumerate() {
                go(at.to_string(), member);
            }
        }
        Value::Object(members) => {
            for (name, member) in members {
                go(name.clone(), member);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn text(status: &Value, label: Label, bound: &[Bound]) -> String {
    let path = match label {
        Label::Is(text) => return text.to_owned(),
        Label::Key => return bound.last().cloned().unwrap_or_default(),
        Label::At(path) => path,
    };
    let mut stars = bound.iter();
    let mut value = status;
    for part in path.split('/').skip(1) {
        let part = if part == "*" {
            stars.next().map_or("", String::as_str)
        } else {
            part
        };
        let member = match value {
            Value::Array(members) => part.parse().ok().and_then(|at: usize| members.get(at)),
            Value::Object(members) => members.get(part),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        };
        let Some(member) = member else {
            return String::new();
        };
        value = member;
    }
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            other.to_string()
        }
    }
}

fn figure(value: &Value, figure: Figure) -> Option<f64> {
    match figure {
        Figure::Number => value.as_f64(),
        Figure::Micros => value.as_f64().map(|us| us / 1e6),
        Figure::Millis => value.as_f64().map(|ms| ms / 1e3),
        Figure::Time => {
            let time = forebay_core::utc::parse(value.as_str()?)?;
            Some(time.0 as f64 / 1e6)
        }
        Figure::Flag => value.as_bool().map(f64::from),
        Figure::Text(wanted) => value.as_str().map(|text| f64::from(text == wanted)),
        Figure::There => (!value.is_null()).then_some(1.0),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn stars_are_bound_in_order_and_labels_follow_them() {
        let status = json!({ "devices": [
            { "device": "a", "gaps": { "by_reason": { "ring_full": 3, "isr_full": 1 } } },
            { "device": "b", "gaps": { "by_reason": {} } },
            { "device": "c", "gaps": { "by_reason": { "ring_full": null } } },
        ] });
        let source = Source {
            path: "/devices/*/gaps/by_reason/*",
            labels: &[
                ("device", Label::At("/devices/*/device")),
                ("reason", Label::Key),
                ("of", Label::Is("x")),
            ],
            figure: Figure::Number,
        };
        let all = samples(&status, &source);
        let flat: Vec<String> = all
            .iter()
            .map(|(labels, value)| {
                let texts: Vec<&str> = labels.iter().map(|(_, text)| text.as_str()).collect();
                format!("{} {value}", texts.join(" "))
            })
            .collect();
        assert_eq!(flat, ["a ring_full x 3", "a isr_full x 1"]);
    }

    #[test]
    fn figures_are_in_base_units() {
        for (value, of, want) in [
            (json!(1_500_000), Figure::Micros, Some(1.5)),
            (json!(16), Figure::Millis, Some(0.016)),
            (json!("1970-01-01T00:00:02.5Z"), Figure::Time, Some(2.5)),
            (json!(true), Figure::Flag, Some(1.0)),
            (json!(false), Figure::Flag, Some(0.0)),
            (json!("open"), Figure::Text("open"), Some(1.0)),
            (json!("waiting"), Figure::Text("open"), Some(0.0)),
            (json!("x"), Figure::There, Some(1.0)),
            (json!(null), Figure::There, None),
            (json!(null), Figure::Number, None),
            (json!("7"), Figure::Number, None),
        ] {
            assert_eq!(figure(&value, of), want, "{value} {of:?}");
        }
    }
}
