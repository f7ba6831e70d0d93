//! Numbers, times and strings as Prometheus writes them in its answers.
//!
//! Always holds: a number comes back bit for bit when it is read, and is as short as that
//! allows. Knows no query.

use std::fmt::Write as _;

/// Writes a value: digits with a point, or with an exponent where it is very large or
/// very small; `NaN`, `+Inf`, `-Inf`.
pub fn number(out: &mut String, value: f64) {
    let size = value.abs();
    if value.is_nan() {
        out.push_str("NaN");
    } else if value.is_infinite() {
        out.push_str(if value > 0.0 { "+Inf" } else { "-Inf" });
    } else if size != 0.0 && !(1e-6..1e21).contains(&size) {
        exponential(out, value);
    } else {
        // Writing to a string does not fail.
        let _ = write!(out, "{value}");
    }
}

/// With a sign and two digits of exponent at least, as the C library does it.
fn exponential(out: &mut String, value: f64) {
    let text = format!("{value:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, power) = match exponent.strip_prefix('-') {
        Some(power) => ('-', power),
        None => ('+', exponent),
    };
    let _ = write!(out, "{digits}e{sign}{power:0>2}");
}

/// Writes a time given in microseconds since 1970: seconds, with milliseconds where it has
/// a part of a second, with microseconds where it has a part of a millisecond.
pub fn time(out: &mut String, micros: i64) {
    if micros < 0 {
        out.push('-');
    }
    let size = micros.unsigned_abs();
    let (seconds, part) = (size / 1_000_000, size % 1_000_000);
    let _ = match (part, part % 1000) {
        (0, _) => write!(out, "{seconds}"),
        (part, 0) => write!(out, "{seconds}.{:03}", part / 1000),
        (part, _) => write!(out, "{seconds}.{part:06}"),
    };
}

/// Writes a string of JSON with its quotes.
pub fn quoted(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_look_as_prometheus_writes_them() {
        for (value, want) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (0.1, "0.1"),
            (-12.5, "-12.5"),
            (1e-6, "0.000001"),
            (9.99e-7, "9.99e-07"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (1.5e300, "1.5e+300"),
            (5e-324, "5e-324"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
        ] {
            let mut out = String::new();
            number(&mut out, value);
            assert_eq!(out, want);
        }
    }

    #[test]
    fn times_have_only_the_digits_that_they_need() {
        for (micros, want) in [
            (0, "0"),
            (1_435_781_430_000_000, "1435781430"),
            (1_435_781_430_781_000, "1435781430.781"),
            (1_100_000, "1.100"),
            (1_000_001, "1.000001"),
            (-1_500_000, "-1.500"),
        ] {
            let mut out = String::new();
            time(&mut out, micros);
            assert_eq!(out, want);
        }
    }

    #[test]
    fn strings_are_those_of_json() {
        for text in ["", "plain", "quote\" back\\slash", "line\nend\u{1}\tµ"] {
            let mut out = String::new();
            quoted(&mut out, text);
            let back: String = serde_json::from_str(&out).expect("it is JSON");
            assert_eq!(back, text);
        }
    }
}
