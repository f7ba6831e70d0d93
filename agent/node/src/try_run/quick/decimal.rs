//! Numbers at the head of a text, as JSON spells them. `None` for any other spelling
//! and for what is too large; never a guess. Short ones, which nearly all are, take one
//! division; the standard library reads the others.

/// Powers of ten that are doubles themselves, as far as they are needed.
const POWERS: [f64; DIGITS_MAX + 1] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18,
];
/// So many digits always fit a u64 and an i64.
const DIGITS_MAX: usize = 18;
/// Up to here every whole number is a double.
const EXACT_MAX: u64 = 1 << 53;

/// A number and its length. The double is the nearest one: of a short one both parts of
/// the division are exact, and it rounds once.
#[inline]
pub(super) fn decimal(text: &[u8]) -> Option<(f64, usize)> {
    let minus = text.first() == Some(&b'-');
    let start = usize::from(minus);
    let (mut digits, mut at) = run(text, start, 0);
    let whole = at - start;
    if whole == 0 || (whole > 1 && text[start] == b'0') {
        return None;
    }
    let mut places = 0;
    if text.get(at) == Some(&b'.') {
        let end;
        (digits, end) = run(text, at + 1, digits);
        places = end - (at + 1);
        at = end;
        if places == 0 {
            return None;
        }
    }
    let exponent = matches!(text.get(at), Some(b'e' | b'E'));
    if exponent || whole + places > DIGITS_MAX || digits > EXACT_MAX {
        return long(text, at);
    }
    let size = digits as f64 / POWERS[places];
    Some((if minus { -size } else { size }, at))
}

/// A number whose digits end there, and which may have an exponent.
#[cold]
fn long(text: &[u8], mut end: usize) -> Option<(f64, usize)> {
    if let Some(b'e' | b'E') = text.get(end) {
        let sign = matches!(text.get(end + 1), Some(b'+' | b'-'));
        let from = end + 1 + usize::from(sign);
        (_, end) = run(text, from, 0);
        if end == from {
            return None;
        }
    }
    let number: f64 = std::str::from_utf8(&text[..end]).ok()?.parse().ok()?;
    // What is too large is a bad line.
    number.is_finite().then_some((number, end))
}

/// A whole number from 0 and its length.
#[inline]
pub(super) fn unsigned(text: &[u8]) -> Option<(u64, usize)> {
    let (n, len) = run(text, 0, 0);
    let plain = (1..=DIGITS_MAX).contains(&len) && (len == 1 || text[0] != b'0');
    plain.then_some((n, len))
}

/// A whole number and its length.
#[inline]
pub(super) fn signed(text: &[u8]) -> Option<(i64, usize)> {
    let (n, len) = match text.strip_prefix(b"-") {
        Some(rest) => {
            let (n, len) = unsigned(rest)?;
            // "-0" is a double in JSON.
            (n.cast_signed().checked_neg().filter(|n| *n < 0)?, len + 1)
        }
        None => {
            let (n, len) = unsigned(text)?;
            (n.cast_signed(), len)
        }
    };
    Some((n, len))
}

/// Digits from there on, and where they end. Too many of them give any number.
#[inline]
fn run(text: &[u8], mut at: usize, mut n: u64) -> (u64, usize) {
    while let Some(byte) = text.get(at).filter(|b| b.is_ascii_digit()) {
        n = n.wrapping_mul(10).wrapping_add(u64::from(byte - b'0'));
        at += 1;
    }
    (n, at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_goes_the_short_way() {
        for (text, want) in [
            ("21.5", Some((21.5, 4))),
            ("-0.0,", Some((-0.0, 4))),
            ("0}", Some((0.0, 1))),
            ("9007199254740992", Some((9_007_199_254_740_992.0, 16))),
            ("9007199254740993", Some((9_007_199_254_740_992.0, 16))),
            ("0.00000000000000001", Some((1e-17, 19))),
            ("0.000000000000000001", Some((1e-18, 20))),
            ("99999999999999999999999999", Some((1e26, 26))),
            ("21.500000000000004,", Some((21.500_000_000_000_004, 18))),
            ("1e3}", Some((1000.0, 3))),
            ("-1.5E-3", Some((-0.0015, 7))),
            ("5e-324", Some((5e-324, 6))),
            ("1e400", None),
            ("1e", None),
            ("1e+", None),
            ("1e+x", None),
            ("", None),
            ("-", None),
            (".5", None),
            ("5.", None),
            ("05", None),
            ("+5", None),
        ] {
            let read = decimal(text.as_bytes());
            assert_eq!(
                read.map(|(x, len)| (x.to_bits(), len)),
                want.map(|(x, len): (f64, usize)| (x.to_bits(), len)),
                "{text}"
            );
        }
        for (text, want) in [
            ("0", Some((0, 1))),
            ("-12 ", Some((-12, 3))),
            ("999999999999999999", Some((999_999_999_999_999_999, 18))),
            ("1000000000000000000", None),
            ("-0", None),
            ("007", None),
            ("x", None),
        ] {
            assert_eq!(signed(text.as_bytes()), want, "{text}");
        }
    }

    proptest! {
        #[test]
        fn decimals_are_the_nearest_doubles(text in "-?[0-9]{1,20}(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?[,}]?") {
            let number = text.trim_end_matches([',', '}']);
            if let Some((x, len)) = decimal(text.as_bytes()) {
                prop_assert_eq!(len, number.len());
                let want: f64 = number.parse().expect("a number");
                prop_assert_eq!(x.to_bits(), want.to_bits());
            }
        }

        #[test]
        fn what_json_takes_is_taken(bits: u64) {
            let x = f64::from_bits(bits);
            prop_assume!(x.is_finite());
            for text in [format!("{x:?}"), format!("{x:e}"), format!("{x}")] {
                let read = decimal(text.as_bytes()).map(|(x, len)| (x.to_bits(), len));
                prop_assert_eq!(read, Some((bits, text.len())), "{}", text);
            }
        }

        #[test]
        fn short_ones_are_all_taken(n in -1_000_000_000_i64..1_000_000_000, places in 0_usize..9) {
            let text = format!("{:.*}", places, n as f64 / 1000.0);
            let (x, len) = decimal(text.as_bytes()).expect("short");
            prop_assert_eq!((x.to_bits(), len), (text.parse::<f64>().expect("a number").to_bits(), text.len()));
        }
    }
}
