//! The parameters of a request, held against the table of its path.
//!
//! Always holds: what the table does not name, or names once and is there twice, is
//! refused by name; each value has been looked at before a route sees it. Bound: the
//! URL's, and the `most` of the table.

use forebay_core::near::nearest;
use forebay_core::units::{EventTime, Span};

use super::cursor::Cursor;
use super::endpoints::{Endpoint, Kind as Of, Need, Param};
use super::problem::{Kind, Problem, shown};
use super::time;
use crate::config::error::list;

/// Longest name of a device, a channel or a stream that is looked up, bytes.
pub(super) const NAME_BYTES_MAX: usize = 128;

/// What a request gives, each value good by its kind.
#[derive(Debug)]
pub(super) struct Given {
    endpoint: &'static Endpoint,
    values: Vec<(&'static str, String)>,
    now: EventTime,
}

impl Given {
    /// Reads the part of the URL behind `?`.
    ///
    /// # Errors
    /// What is wrong with which parameter, and what it may be.
    pub(super) fn read(
        endpoint: &'static Endpoint,
        query: Option<&str>,
        now: EventTime,
    ) -> Result<Self, Problem> {
        let mut given = Self {
            endpoint,
            values: Vec::new(),
            now,
        };
        for pair in query.unwrap_or_default().split('&') {
            if !pair.is_empty() {
                given.take(pair)?;
            }
        }
        for param in endpoint.params {
            let missing = given.all(param.name).next().is_none();
            if missing && matches!(param.need, Need::Once | Need::Some { .. }) {
                let example = format!("{}?{}={}", endpoint.path, param.name, param.example);
                let detail = format!("{} is missing, for example {example}", param.name);
                return Err(Problem::new(Kind::MissingParameter, detail));
            }
        }
        Ok(given)
    }

    fn take(&mut self, pair: &str) -> Result<(), Problem> {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (decode(name)?, decode(value)?);
        let params = self.endpoint.params;
        let Some(param) = params.iter().find(|param| param.name == name) else {
            return Err(unknown(self.endpoint, &name));
        };
        look_at(param, &value, self.now).map_err(|what| wrong(param, &value, &what))?;
        let before = self.all(param.name).count();
        let most = param.need.most();
        if before >= most {
            let times = if most == 1 {
                String::from("once")
            } else {
                format!("at most {most} times")
            };
            let detail = format!("{} may be given {times}", param.name);
            return Err(Problem::new(Kind::BadParameter, detail));
        }
        self.values.push((param.name, value));
        Ok(())
    }

    /// All values of a parameter, in their order.
    pub(super) fn all(&self, name: &'static str) -> impl Iterator<Item = &str> {
        let of = self.values.iter().filter(move |(of, _)| *of == name);
        of.map(|(_, value)| value.as_str())
    }

    /// The value, or its default.
    pub(super) fn text(&self, name: &'static str) -> Option<&str> {
        let default = || match self.param(name).need {
            Need::Default(text) => Some(text),
            Need::Once | Need::Maybe | Need::Many { .. } | Need::Some { .. } => None,
        };
        self.values
            .iter()
            .find(|(of, _)| *of == name)
            .map(|(_, value)| value.as_str())
            .or_else(default)
    }

    fn param(&self, name: &'static str) -> &'static Param {
        let mut params = self.endpoint.params.iter();
        params
            .find(|param| param.name == name)
            .expect("routes ask for parameters of their table")
    }

    pub(super) fn time(&self, name: &'static str) -> Option<EventTime> {
        let text = self.text(name)?;
        Some(time::parse(text, self.now).expect("looked at, and defaults are times"))
    }

    pub(super) fn span(&self, name: &'static str) -> Option<Span> {
        let text = self.text(name)?;
        Some(time::span(text).expect("looked at, and defaults are lengths"))
    }

    /// A number that is small enough to count rows.
    pub(super) fn count(&self, name: &'static str) -> Option<usize> {
        let text = self.text(name)?;
        Some(text.parse().expect("looked at, and defaults are numbers"))
    }

    pub(super) fn flag(&self, name: &'static str) -> bool {
        self.text(name) == Some("true")
    }

    pub(super) fn cursor(&self) -> Option<Cursor> {
        let text = self.text("cursor")?;
        Some(Cursor::parse(text).expect("looked at"))
    }

    /// The half-open range of `from` and `to`, or what a cursor leaves of it.
    ///
    /// # Errors
    /// When it is empty.
    pub(super) fn range(&self) -> Result<std::ops::Range<EventTime>, Problem> {
        if let Some(cursor) = self.cursor() {
            return Ok(cursor.from..cursor.to);
        }
        let end = |name| self.time(name).expect("the table gives both a default");
        let (from, to) = (end("from"), end("to"));
        if from < to {
            return Ok(from..to);
        }
        let text = |name| shown(self.text(name).unwrap_or_default());
        let (from, to) = (text("from"), text("to"));
        let detail = format!(
            "from={from} is not before to={to}: nothing lies between; give a from that is earlier \
             or a to that is later"
        );
        Err(Problem::new(Kind::BadParameter, detail))
    }
}

fn unknown(endpoint: &Endpoint, name: &str) -> Problem {
    let names = || endpoint.params.iter().map(|param| param.name);
    let meant =
        nearest(name, names()).map_or_else(String::new, |near| format!(" (did you mean {near}?)"));
    let takes = if endpoint.params.is_empty() {
        String::from("no parameters")
    } else {
        list(names())
    };
    let (name, path) = (shown(name), endpoint.path);
    let detail = format!("{name} is no parameter here{meant}: {path} takes {takes}");
    Problem::new(Kind::UnknownParameter, detail)
}

fn wrong(param: &Param, value: &str, what: &str) -> Problem {
    let detail = format!("{}={} {what}", param.name, shown(value));
    Problem::new(Kind::BadParameter, detail)
}

/// Whether a value is one of its kind; else what follows it in a sentence.
fn look_at(param: &Param, value: &str, now: EventTime) -> Result<(), String> {
    match param.kind {
        Of::Name => {
            if value.is_empty() || value.len() > NAME_BYTES_MAX {
                return Err(format!("must have 1 to {NAME_BYTES_MAX} bytes"));
            }
            Ok(())
        }
        Of::Time => match time::parse(value, now) {
            Some(_) => Ok(()),
            None => Err(format!("must be {}", time::FORMS)),
        },
        Of::Span => time::span(value).map(drop).map_err(String::from),
        Of::Count { most } => {
            let plain = !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit());
            let number = value.parse::<usize>().ok().filter(|_| plain);
            match number.filter(|n| (1..=most).contains(n)) {
                Some(_) => Ok(()),
                None => Err(format!("must be a whole number from 1 to {most}")),
            }
        }
        Of::Word(words) if words.contains(&value) => Ok(()),
        Of::Word(words) => Err(format!("must be one of: {}", list(words.iter().copied()))),
        Of::Cursor => match Cursor::parse(value) {
            Some(_) => Ok(()),
            None => Err(String::from(
                "must be the text of next in the answer before, with the other parameters as they were",
            )),
        },
        Of::Place => super::places::Start::parse(value).map(drop),
    }
}

/// A name or a value of the URL, with `+` and `%xx` as what they stand for.
fn decode(text: &str) -> Result<String, Problem> {
    let bad = |what: &str| {
        let detail = format!("{} {what}", shown(text));
        Problem::new(Kind::BadRequest, detail)
    };
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'+' => out.push(b' '),
            b'%' => {
                let mut digit = || bytes.next().and_then(|b| char::from(b).to_digit(16));
                let (high, low) = (digit(), digit());
                let (Some(high), Some(low)) = (high, low) else {
                    return Err(bad(
                        "has a % without two hexadecimal digits: write % as %25",
                    ));
                };
                out.push((high * 16 + low) as u8);
            }
            _ => out.push(byte),
        }
    }
    let decoded = String::from_utf8(out).map_err(|_| bad("is not UTF-8 once it is decoded"))?;
    if decoded.contains('\0') {
        return Err(bad("has a zero byte"));
    }
    Ok(decoded)
}

#[cfg(test)]
mod tests {
    use super::super::endpoints::{READINGS, STATUS};
    use super::super::limits::LIMIT_MAX;
    use super::*;

    const NOW: EventTime = EventTime(1_700_000_000_000_000);

    fn said(query: &str) -> (Kind, String) {
        let problem = Given::read(&READINGS, Some(query), NOW).expect_err(query);
        (problem.kind, problem.detail)
    }

    #[test]
    fn what_is_wrong_is_named_with_what_is_right() {
        let name = "x".repeat(NAME_BYTES_MAX + 1);
        for (name, query, kind, word) in [
            (
                "unknown",
                "chanel=x",
                Kind::UnknownParameter,
                "did you mean channel?",
            ),
            (
                "far",
                "zzz=x",
                Kind::UnknownParameter,
                "takes device, channel",
            ),
            (
                "no time",
                "from=soon",
                Kind::BadParameter,
                "-15m (before now)",
            ),
            (
                "no number",
                "limit=x",
                Kind::BadParameter,
                "whole number from 1",
            ),
            (
                "signed",
                "limit=%2B5",
                Kind::BadParameter,
                "whole number from 1",
            ),
            ("zero", "limit=0", Kind::BadParameter, "whole number from 1"),
            (
                "twice",
                "limit=1&limit=2",
                Kind::BadParameter,
                "may be given once",
            ),
            (
                "no cursor",
                "cursor=x",
                Kind::BadParameter,
                "next in the answer",
            ),
            ("empty name", "device=", Kind::BadParameter, "1 to 128"),
            (
                "long name",
                &format!("device={name}"),
                Kind::BadParameter,
                "1 to 128",
            ),
            (
                "no word",
                "time=unix",
                Kind::BadParameter,
                "one of: rfc3339, us",
            ),
            ("no code", "device=%2", Kind::BadRequest, "%25"),
            ("no text", "device=%ff", Kind::BadRequest, "UTF-8"),
            ("a zero", "device=%00", Kind::BadRequest, "zero byte"),
        ] {
            let (got, detail) = said(query);
            assert_eq!(got, kind, "{name}: {detail}");
            assert!(detail.contains(word), "{name}: {detail}");
        }
    }

    #[test]
    fn limits_of_a_count_and_a_name() {
        let longest = "x".repeat(NAME_BYTES_MAX);
        let shorter = "x".repeat(NAME_BYTES_MAX - 1);
        for (query, good) in [
            (format!("limit={}", LIMIT_MAX - 1), true),
            (format!("limit={LIMIT_MAX}"), true),
            (format!("limit={}", LIMIT_MAX + 1), false),
            (format!("device={shorter}"), true),
            (format!("device={longest}"), true),
        ] {
            let read = Given::read(&READINGS, Some(&query), NOW);
            assert_eq!(read.is_ok(), good, "{query}");
        }
    }

    #[test]
    fn values_are_decoded_and_defaults_hold() {
        let query = "device=a%20b&device=c+d&&limit=7";
        let given = Given::read(&READINGS, Some(query), NOW).unwrap();
        assert_eq!(given.all("device").collect::<Vec<_>>(), ["a b", "c d"]);
        assert_eq!(given.count("limit"), Some(7));
        assert_eq!(given.time("to"), Some(NOW));
        assert!(Given::read(&STATUS, None, NOW).is_ok());
    }

    #[test]
    fn a_range_has_to_have_something_in_it() {
        for (query, good) in [
            ("from=10&to=11", true),
            ("from=10&to=10", false),
            ("from=11&to=10", false),
            ("from=-1h&to=-30m", true),
            ("from=now", false),
        ] {
            let given = Given::read(&READINGS, Some(query), NOW).unwrap();
            let range = given.range();
            assert_eq!(range.is_ok(), good, "{query}");
            if let Err(problem) = range {
                assert!(
                    problem.detail.contains("is not before"),
                    "{}",
                    problem.detail
                );
            }
        }
    }
}
