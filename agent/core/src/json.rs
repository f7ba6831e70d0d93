//! Single values as JSON, appended to bytes without an allocation of their own:
//! integers, doubles, texts. Equal values give equal bytes on every machine.
//! Knows no object, no array and no time; [`scan`] walks over what others wrote.

pub mod scan;

/// Digits of the largest u64.
const DIGITS_MAX: usize = 20;
/// `00` to `99`, one after the other.
const PAIRS: [u8; 200] = pairs();

const fn pairs() -> [u8; 200] {
    let mut pairs = [0; 200];
    let mut n = 0;
    while n < 100 {
        pairs[2 * n] = b'0' + (n / 10) as u8;
        pairs[2 * n + 1] = b'0' + (n % 10) as u8;
        n += 1;
    }
    pairs
}

/// The two digits of a number below 100; of a larger one its last two.
#[must_use]
pub fn pair(n: u64) -> [u8; 2] {
    let at = 2 * (n % 100) as usize;
    [PAIRS[at], PAIRS[at + 1]]
}

/// Appends an integer from 0.
pub fn write_unsigned(mut n: u64, out: &mut Vec<u8>) {
    if n < 10 {
        // Revisions and small counts: most of what is written.
        out.push(b'0' + n as u8);
        return;
    }
    let mut text = [0; DIGITS_MAX];
    let mut first = DIGITS_MAX;
    while n >= 10 {
        first -= 2;
        text[first..first + 2].copy_from_slice(&pair(n));
        n /= 100;
    }
    if n > 0 {
        first -= 1;
        text[first] = b'0' + n as u8;
    }
    out.extend_from_slice(&text[first..]);
}

/// Appends an integer.
pub fn write_signed(n: i64, out: &mut Vec<u8>) {
    if n < 0 {
        out.push(b'-');
    }
    write_unsigned(n.unsigned_abs(), out);
}

/// From here to [`PLAIN_END`] a double is written without an exponent.
const PLAIN_FROM: f64 = 1e-4;
const PLAIN_END: f64 = 1e16;

/// Appends a double in the shortest form that reads back to the same bits, always
/// with a point or an exponent; what JSON has no number for becomes a text.
///
/// # Panics
/// Never: a `Vec` takes all bytes.
pub fn write_number(x: f64, out: &mut Vec<u8>) {
    if x == 0.0 || (PLAIN_FROM..PLAIN_END).contains(&x.abs()) {
        out.extend_from_slice(zmij::Buffer::new().format_finite(x).as_bytes());
    } else {
        write_rare_number(x, out);
    }
}

#[cold]
fn write_rare_number(x: f64, out: &mut Vec<u8>) {
    use std::io::Write;
    if x.is_finite() {
        write!(out, "{x:?}").expect("a Vec takes all bytes");
    } else if x.is_nan() {
        out.extend_from_slice(b"\"NaN\"");
    } else if x > 0.0 {
        out.extend_from_slice(b"\"Infinity\"");
    } else {
        out.extend_from_slice(b"\"-Infinity\"");
    }
}

/// Appends a text with its quotes.
///
/// # Panics
/// Never: a text is JSON and a `Vec` takes all bytes.
pub fn write_text(text: &str, out: &mut Vec<u8>) {
    serde_json::to_writer(&mut *out, text).expect("text is JSON and a Vec takes all bytes");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn number(x: f64) -> String {
        let mut out = Vec::new();
        write_number(x, &mut out);
        String::from_utf8(out).expect("ASCII")
    }

    #[test]
    fn numbers_read_back_to_the_same_bits() {
        for (x, want) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (21.48, "21.48"),
            (-1234.5, "-1234.5"),
            (0.1 + 0.2, "0.30000000000000004"),
            (0.0001, "0.0001"),
            (0.000_099_999_999_999_999_99, "9.999999999999999e-5"),
            (9_007_199_254_740_993.0, "9007199254740992.0"),
            (9_999_999_999_999_998.0, "9999999999999998.0"),
            (1e16, "1e16"),
            (-1.5e300, "-1.5e300"),
            (1e-7, "1e-7"),
            (5e-324, "5e-324"),
            (f64::MAX, "1.7976931348623157e308"),
            (f64::NAN, "\"NaN\""),
            (f64::INFINITY, "\"Infinity\""),
            (f64::NEG_INFINITY, "\"-Infinity\""),
        ] {
            assert_eq!(number(x), want);
        }
    }

    #[test]
    fn integers_at_their_lengths() {
        let mut powers: Vec<u64> = (0..20).map(|power| 10_u64.pow(power)).collect();
        powers.extend(powers.clone().iter().map(|n| n - 1));
        powers.extend([u64::MAX, 42, 100, 101, 65_536]);
        for n in powers {
            let mut out = Vec::new();
            write_unsigned(n, &mut out);
            assert_eq!(String::from_utf8_lossy(&out), n.to_string());
        }
        for n in [i64::MIN, -10, -1, 0, i64::MAX] {
            let mut out = Vec::new();
            write_signed(n, &mut out);
            assert_eq!(String::from_utf8_lossy(&out), n.to_string());
        }
    }

    proptest! {
        #[test]
        fn doubles_are_as_short_as_those_of_the_standard_library(bits: u64, unit: i32, places in 0_i32..8) {
            let any = f64::from_bits(bits);
            for x in [any, f64::from(unit) / 10_f64.powi(places), any.abs().rem_euclid(1e17)] {
                if x.is_finite() {
                    // Where two of the shortest are equally near, each chooses its own.
                    let (ours, theirs) = (number(x), format!("{x:?}"));
                    prop_assert_eq!(ours.len(), theirs.len(), "{} {}", ours, theirs);
                    prop_assert_eq!(ours.parse::<f64>().map(f64::to_bits), Ok(x.to_bits()));
                }
            }
        }

        #[test]
        fn integers_are_written_as_the_standard_library_does(n: u64, shift in 0_u32..64) {
            let mut out = Vec::new();
            write_unsigned(n >> shift, &mut out);
            prop_assert_eq!(String::from_utf8_lossy(&out), (n >> shift).to_string());
        }
    }
}
