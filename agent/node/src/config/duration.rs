//! Durations as people write them: `250ms`, `5s`, `-1h`.

use forebay_core::units::Span;

/// Units with their microseconds.
const UNITS: [(&str, i64); 7] = [
    ("us", 1),
    ("ms", 1_000),
    ("s", 1_000_000),
    ("m", 60_000_000),
    ("h", 3_600_000_000),
    ("d", 86_400_000_000),
    ("w", 604_800_000_000),
];

/// Reads a whole number with a unit, perhaps negative. The error ends a
/// sentence that starts with the text.
pub fn parse(text: &str) -> Result<Span, &'static str> {
    let digits_from = usize::from(text.starts_with('-'));
    let unit_at = text[digits_from..]
        .find(|c: char| !c.is_ascii_digit())
        .map_or(text.len(), |at| at + digits_from);
    let (number, unit) = text.split_at(unit_at);
    if number.len() == digits_from {
        return Err("is not a duration such as \"5s\"");
    }
    if unit == "mo" {
        return Err(
            "is in months, which only the size of a tumbling window may be, and only \"1mo\"",
        );
    }
    let Some((_, micros)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err("needs a whole number and one of the units us ms s m h d w");
    };
    number
        .parse::<i64>()
        .ok()
        .and_then(|n| n.checked_mul(*micros))
        .map(Span)
        .ok_or("is too long")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_by_name() {
        for (text, want) in [
            ("5us", Some(5)),
            ("20ms", Some(20_000)),
            ("5s", Some(5_000_000)),
            ("2m", Some(120_000_000)),
            ("1h", Some(3_600_000_000)),
            ("1d", Some(86_400_000_000)),
            ("1w", Some(604_800_000_000)),
            ("-5s", Some(-5_000_000)),
            ("0s", Some(0)),
            ("106751991d", Some(9_223_372_022_400_000_000)),
            ("106751992d", None),
            ("9223372036854775807us", Some(i64::MAX)),
            ("9223372036854775808us", None),
            ("", None),
            ("-", None),
            ("s", None),
            ("5", None),
            ("5 s", None),
            ("+5s", None),
            ("1.5s", None),
            ("5é", None),
            ("1mo", None),
        ] {
            assert_eq!(parse(text).ok(), want.map(Span), "{text}");
        }
    }
}
