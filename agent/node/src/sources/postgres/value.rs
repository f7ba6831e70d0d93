//! Values of a database as JSON: which types become numbers, times and nested values, and
//! which stand as text.
//!
//! Always holds: what is written is one JSON value without a line break, for every text
//! that a server may send. The sessions are set up so that times are ISO in UTC and doubles
//! exact. Table of types: `agent/node/docs/tables-postgres.md`. Knows no row.

use std::collections::BTreeMap;

use forebay_core::json;
use serde_json::Value as Json;

use super::limits::EXACT_DIGITS_MAX;
use super::pgoutput::TypeId;

/// How values of a type are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Bool,
    Integer,
    Double,
    Decimal,
    Json,
    /// `timestamptz`
    Instant,
    /// `timestamp`, of no zone
    Local,
    Text,
}

/// Types below are the same in each database.
const FIRST_OF_USERS: u32 = 16_384;

/// Domains stand for what they are based on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kinds(BTreeMap<TypeId, Kind>);

impl Kinds {
    /// The kind of a type; `None` where the catalog must be asked for it first.
    #[must_use]
    pub fn of(&self, id: TypeId) -> Option<Kind> {
        if id.0 >= FIRST_OF_USERS {
            return self.0.get(&id).copied();
        }
        Some(built_in(id))
    }

    /// Notes what a type of the users is based on; `None`: on none that is known.
    pub fn learn(&mut self, id: TypeId, base: Option<TypeId>) {
        let kind = base.filter(|base| base.0 < FIRST_OF_USERS);
        self.0.insert(id, kind.map_or(Kind::Text, built_in));
    }
}

/// By the numbers in PostgreSQL's `pg_type.dat`.
fn built_in(id: TypeId) -> Kind {
    match id.0 {
        16 => Kind::Bool,
        // int8, int2, int4, oid
        20 | 21 | 23 | 26 => Kind::Integer,
        700 | 701 => Kind::Double,
        1700 => Kind::Decimal,
        114 | 3802 => Kind::Json,
        1184 => Kind::Instant,
        1114 => Kind::Local,
        _ => Kind::Text,
    }
}

/// Appends the value whose text the server sent.
pub fn write(kind: Kind, text: &str, out: &mut Vec<u8>) {
    match kind {
        Kind::Bool if text == "t" => out.extend_from_slice(b"true"),
        Kind::Bool if text == "f" => out.extend_from_slice(b"false"),
        Kind::Integer if is_number(text) => out.extend_from_slice(text.as_bytes()),
        // Not a number and the infinities are texts.
        Kind::Double if is_number(text) => out.extend_from_slice(text.as_bytes()),
        Kind::Decimal if is_number(text) && digits(text) <= EXACT_DIGITS_MAX => {
            out.extend_from_slice(text.as_bytes());
        }
        Kind::Json if serde_json::from_str::<Json>(text).is_ok() => compact(text, out),
        Kind::Instant => write_time(text, true, out),
        Kind::Local => write_time(text, false, out),
        Kind::Bool | Kind::Integer | Kind::Double | Kind::Decimal | Kind::Json | Kind::Text => {
            json::write_text(text, out)
        }
    }
}

/// Whether it is a number of JSON: `-`, digits without a zero before them, a fraction, an
/// exponent.
fn is_number(text: &str) -> bool {
    let bytes = text.as_bytes();
    let mut at = usize::from(bytes.first() == Some(&b'-'));
    let run = |from: usize| {
        let rest = bytes.get(from..).unwrap_or_default();
        rest.iter().take_while(|b| b.is_ascii_digit()).count()
    };
    let whole = run(at);
    if whole == 0 || (whole > 1 && bytes[at] == b'0') {
        return false;
    }
    at += whole;
    if bytes.get(at) == Some(&b'.') {
        let fraction = run(at + 1);
        if fraction == 0 {
            return false;
        }
        at += 1 + fraction;
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        at += 1;
        at += usize::from(matches!(bytes.get(at), Some(b'+' | b'-')));
        let exponent = run(at);
        if exponent == 0 {
            return false;
        }
        at += exponent;
    }
    at == bytes.len()
}

/// Digits that count, of a number.
fn digits(text: &str) -> usize {
    let digits = text.bytes().filter(u8::is_ascii_digit);
    digits.skip_while(|b| *b == b'0').count()
}

/// JSON without the blanks between its values: rows stand on one line.
fn compact(text: &str, out: &mut Vec<u8>) {
    let (mut within, mut escaped) = (false, false);
    for b in text.bytes() {
        if within {
            within = escaped || b != b'"';
            escaped = !escaped && b == b'\\';
        } else if matches!(b, b' ' | b'\t' | b'\n' | b'\r') {
            continue;
        } else {
            within = b == b'"';
        }
        out.push(b);
    }
}

/// `2026-11-30 09:00:00.5+00` as `2026-11-30T09:00:00.5Z`. Infinity, years before Christ
/// and those of more than four digits have no such form and stay as they are.
fn write_time(text: &str, zoned: bool, out: &mut Vec<u8>) {
    let local = if zoned {
        text.strip_suffix("+00")
    } else {
        Some(text)
    };
    let Some((date, time)) = local.and_then(|local| local.split_once(' ')) else {
        return json::write_text(text, out);
    };
    let is_plain = |b: u8| b.is_ascii_digit() || matches!(b, b'-' | b':' | b'.');
    if date.len() != 10 || !date.bytes().chain(time.bytes()).all(is_plain) {
        return json::write_text(text, out);
    }
    out.push(b'"');
    out.extend_from_slice(date.as_bytes());
    out.push(b'T');
    out.extend_from_slice(time.as_bytes());
    out.extend_from_slice(if zoned { b"Z\"" } else { b"\"" });
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(kind: Kind, text: &str) -> String {
        let mut out = Vec::new();
        write(kind, text, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn values_are_written_by_their_kind() {
        for (name, kind, text, want) in [
            ("true", Kind::Bool, "t", "true"),
            ("false", Kind::Bool, "f", "false"),
            (
                "least",
                Kind::Integer,
                "-9223372036854775808",
                "-9223372036854775808",
            ),
            ("no integer", Kind::Integer, "x", r#""x""#),
            ("double", Kind::Double, "1.5e+300", "1.5e+300"),
            ("negative zero", Kind::Double, "-0", "-0"),
            ("nan", Kind::Double, "NaN", r#""NaN""#),
            ("infinity", Kind::Double, "-Infinity", r#""-Infinity""#),
            ("scale is kept", Kind::Decimal, "12.50", "12.50"),
            (
                "15 digits",
                Kind::Decimal,
                "-0.0123456789012345",
                "-0.0123456789012345",
            ),
            (
                "14 digits",
                Kind::Decimal,
                "12345678901234",
                "12345678901234",
            ),
            (
                "16 digits",
                Kind::Decimal,
                "1234567890123456",
                r#""1234567890123456""#,
            ),
            ("decimal nan", Kind::Decimal, "NaN", r#""NaN""#),
            (
                "json",
                Kind::Json,
                "{ \"a b\" :\n [1, \"\\\" \"] }",
                r#"{"a b":[1,"\" "]}"#,
            ),
            ("json null", Kind::Json, "null", "null"),
            ("half a pair", Kind::Json, r#""\ud800""#, r#""\"\\ud800\"""#),
            (
                "instant",
                Kind::Instant,
                "2026-11-30 09:00:00+00",
                r#""2026-11-30T09:00:00Z""#,
            ),
            (
                "micros",
                Kind::Instant,
                "2026-11-30 09:00:00.000001+00",
                r#""2026-11-30T09:00:00.000001Z""#,
            ),
            ("never", Kind::Instant, "infinity", r#""infinity""#),
            (
                "before Christ",
                Kind::Instant,
                "0044-03-15 00:00:00+00 BC",
                r#""0044-03-15 00:00:00+00 BC""#,
            ),
            (
                "far",
                Kind::Instant,
                "12026-11-30 09:00:00+00",
                r#""12026-11-30 09:00:00+00""#,
            ),
            (
                "local",
                Kind::Local,
                "2026-11-30 09:00:00.25",
                r#""2026-11-30T09:00:00.25""#,
            ),
            ("text", Kind::Text, "a\"b\nc", r#""a\"b\nc""#),
            ("array", Kind::Text, "{1,2}", r#""{1,2}""#),
        ] {
            assert_eq!(written(kind, text), want, "{name}");
        }
    }

    #[test]
    fn domains_are_what_they_are_based_on() {
        let mut kinds = Kinds::default();
        let id = TypeId(FIRST_OF_USERS);
        assert_eq!(kinds.of(id), None);
        assert_eq!(kinds.of(TypeId(FIRST_OF_USERS - 1)), Some(Kind::Text));
        kinds.learn(id, Some(TypeId(23)));
        assert_eq!(kinds.of(id), Some(Kind::Integer));
        kinds.learn(id, None);
        assert_eq!(kinds.of(id), Some(Kind::Text));
        kinds.learn(id, Some(id));
        assert_eq!(kinds.of(id), Some(Kind::Text));
    }

    proptest! {
        #[test]
        fn any_text_of_any_kind_is_one_line_of_json(text: String, number in "-?[0-9]{0,3}\\.?[0-9]{0,3}(e[+-]?[0-9]{0,2})?") {
            for kind in [Kind::Bool, Kind::Integer, Kind::Double, Kind::Decimal, Kind::Json,
                Kind::Instant, Kind::Local, Kind::Text] {
                for text in [&text, &number] {
                    let out = written(kind, text);
                    prop_assert!(serde_json::from_str::<Json>(&out).is_ok(), "{out}");
                    prop_assert!(!out.contains(['\n', '\r']), "{out}");
                }
            }
        }
    }
}
