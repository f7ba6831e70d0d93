//! The format texts of `defmt`: literal text with parameters in braces,
//! `{index=type:hint}`, each part optional.
//!
//! Bound: [`ARGS_MAX`] arguments. Knows no frame.

use std::ops::Range;

use super::limits::{ARGS_MAX, VALUES_MAX, ZEROS_MAX};

/// What stands at one place of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    Literal(String),
    Param {
        index: usize,
        kind: Kind,
        hint: Option<Hint>,
    },
}

/// How an argument stands in a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    Bool,
    Char,
    F32,
    F64,
    /// Bytes of an integer without a sign, and of one with.
    Unsigned(usize),
    Signed(usize),
    /// Bits of a number, of which only the bytes that hold them are sent.
    Bits(Range<u8>),
    /// Text, bytes: with their length before them.
    Str,
    Bytes,
    ByteArray(usize),
    /// Number of a text of the firmware.
    Interned,
    /// Number of a format, and its arguments.
    Format,
    /// The same with a number of elements before it, or a fixed one.
    List,
    Array(usize),
    /// Formats up to number 0.
    Sequence,
    /// Text up to a byte 0xff.
    Rendered,
}

/// How a value is to be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hint {
    Plain {
        zeros: usize,
    },
    Hex {
        upper: bool,
        prefix: bool,
        zeros: usize,
    },
    Octal {
        prefix: bool,
        zeros: usize,
    },
    Binary {
        prefix: bool,
        zeros: usize,
    },
    Ascii,
    Debug,
    /// Seconds with so many decimals, from a count of the smallest.
    Seconds(u32),
    /// Hours, minutes and seconds with so many decimals.
    Time(u32),
    /// A date, from a count since 1970 with so many decimals.
    Date(u32),
    /// One that is not known: shown plain.
    Other,
}

/// Reads a text; `None` when it is none that a firmware is built with.
#[must_use]
pub fn parse(text: &str) -> Option<Vec<Piece>> {
    let mut out = Vec::new();
    let mut literal = String::new();
    let mut next = 0;
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        literal.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix("{{") {
            literal.push('{');
            rest = after;
        } else if let Some(after) = rest.strip_prefix("}}") {
            literal.push('}');
            rest = after;
        } else {
            if !literal.is_empty() {
                out.push(Piece::Literal(std::mem::take(&mut literal)));
            }
            let (inside, after) = rest.strip_prefix('{')?.split_once('}')?;
            out.push(param(inside, &mut next)?);
            rest = after;
        }
    }
    literal.push_str(rest);
    if !literal.is_empty() {
        out.push(Piece::Literal(literal));
    }
    Some(out)
}

/// Splits the digits off that `text` begins with; `None` of them is `None`.
fn digits(text: &str) -> (Option<usize>, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit());
    let (digits, rest) = text.split_at(end.unwrap_or(text.len()));
    (digits.parse().ok(), rest)
}

fn param(inside: &str, next: &mut usize) -> Option<Piece> {
    let (index, rest) = digits(inside);
    let index = index.unwrap_or_else(|| {
        *next += 1;
        *next - 1
    });
    let (kind, hint) = match rest.split_once(':') {
        Some((kind, hint)) => (kind, Some(hint)),
        None => (rest, None),
    };
    let kind = match kind.strip_prefix('=') {
        Some(kind) => kind_of(kind)?,
        None if kind.is_empty() => Kind::Format,
        None => return None,
    };
    let hint = hint.map(hint_of);
    (index < ARGS_MAX).then_some(Piece::Param { index, kind, hint })
}

fn kind_of(text: &str) -> Option<Kind> {
    Some(match text {
        "bool" => Kind::Bool,
        "char" => Kind::Char,
        "f32" => Kind::F32,
        "f64" => Kind::F64,
        "u8" => Kind::Unsigned(1),
        "u16" => Kind::Unsigned(2),
        "u32" | "usize" => Kind::Unsigned(4),
        "u64" => Kind::Unsigned(8),
        "u128" => Kind::Unsigned(16),
        "i8" => Kind::Signed(1),
        "i16" => Kind::Signed(2),
        "i32" | "isize" => Kind::Signed(4),
        "i64" => Kind::Signed(8),
        "i128" => Kind::Signed(16),
        "str" => Kind::Str,
        "istr" => Kind::Interned,
        "[u8]" => Kind::Bytes,
        "?" => Kind::Format,
        "[?]" => Kind::List,
        "__internal_Debug" | "__internal_Display" => Kind::Rendered,
        "__internal_FormatSequence" => Kind::Sequence,
        other => return counted(other),
    })
}

/// An array, or bits of a number.
fn counted(text: &str) -> Option<Kind> {
    if let Some((kind, len)) = text.strip_suffix(']').and_then(|text| text.split_once(';')) {
        let len = len.trim_start_matches(' ').parse().ok()?;
        return match kind {
            _ if len > VALUES_MAX => None,
            "[u8" => Some(Kind::ByteArray(len)),
            "[?" => Some(Kind::Array(len)),
            _ => None,
        };
    }
    let (first, end) = text.split_once("..")?;
    let (first, end): (u8, u8) = (first.parse().ok()?, end.parse().ok()?);
    (first < end && end <= 128).then_some(Kind::Bits(first..end))
}

fn hint_of(text: &str) -> Hint {
    let (prefix, text) = match text.strip_prefix('#') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (zeros, text) = match text.strip_prefix('0') {
        Some(rest) => digits(rest),
        None => (None, text),
    };
    let zeros = zeros.unwrap_or(0).min(ZEROS_MAX);
    match text {
        "" => Hint::Plain { zeros },
        "x" | "X" => Hint::Hex {
            upper: text == "X",
            prefix,
            zeros,
        },
        "o" => Hint::Octal { prefix, zeros },
        "b" => Hint::Binary { prefix, zeros },
        "a" => Hint::Ascii,
        "?" => Hint::Debug,
        "us" => Hint::Seconds(6),
        "ms" => Hint::Seconds(3),
        "tus" => Hint::Time(6),
        "tms" => Hint::Time(3),
        "ts" => Hint::Time(0),
        "iso8601ms" => Hint::Date(3),
        "iso8601s" => Hint::Date(0),
        _ => Hint::Other,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn one(index: usize, kind: Kind, hint: Option<Hint>) -> Vec<Piece> {
        vec![Piece::Param { index, kind, hint }]
    }

    #[test]
    fn texts_and_what_they_are() {
        let literal = |text: &str| Piece::Literal(text.to_owned());
        for (name, text, want) in [
            ("nothing", "", Some(vec![])),
            ("literal", "a {{b}}", Some(vec![literal("a {b}")])),
            ("argument", "{}", Some(one(0, Kind::Format, None))),
            ("type", "{=u8}", Some(one(0, Kind::Unsigned(1), None))),
            (
                "all parts",
                "{3=i16:#06x}",
                Some(one(
                    3,
                    Kind::Signed(2),
                    Some(Hint::Hex {
                        upper: false,
                        prefix: true,
                        zeros: 6,
                    }),
                )),
            ),
            ("bits", "{0=3..8}", Some(one(0, Kind::Bits(3..8), None))),
            ("bits beyond", "{0=3..129}", None),
            ("no bits", "{0=8..8}", None),
            (
                "array",
                "{=[u8; 4]}",
                Some(one(0, Kind::ByteArray(4), None)),
            ),
            ("formats", "{=[?;4]}", Some(one(0, Kind::Array(4), None))),
            (
                "array at its limit",
                &format!("{{=[?;{VALUES_MAX}]}}"),
                Some(one(0, Kind::Array(VALUES_MAX), None)),
            ),
            (
                "array beyond",
                &format!("{{=[?;{}]}}", VALUES_MAX + 1),
                None,
            ),
            (
                "unknown hint",
                "{=u8:later}",
                Some(one(0, Kind::Unsigned(1), Some(Hint::Other))),
            ),
            (
                "last argument",
                "{63=u8}",
                Some(one(ARGS_MAX - 1, Kind::Unsigned(1), None)),
            ),
            ("argument beyond", "{64=u8}", None),
            (
                "huge argument",
                "{99999999999999999999=u8}",
                Some(one(0, Kind::Unsigned(1), None)),
            ),
            ("unknown type", "{=u9}", None),
            ("open", "{", None),
            ("closed", "a } b", None),
        ] {
            assert_eq!(parse(text), want, "{name}");
        }
        let two = parse("a={=u8} b={=bool}!").expect("a text");
        assert_eq!(
            (two.len(), &two[0], &two[4]),
            (5, &literal("a="), &literal("!"))
        );
        assert!(matches!(
            two[3],
            Piece::Param {
                index: 1,
                kind: Kind::Bool,
                ..
            }
        ));
    }

    proptest! {
        #[test]
        fn texts_never_panic(text in "[{}=:;.0-9u\\[\\]?a-z é]{0,40}") {
            let _ = parse(&text);
        }
    }
}
