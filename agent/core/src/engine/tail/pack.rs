//! A chunk of readings in few bytes, a few nanoseconds each: the steps between
//! times above the smallest step, and values as whole numbers of a decimal unit
//! above the smallest of them, all in the fewest of 0, 1, 2, 4 or 8 bytes that
//! hold each. Values that are no such decimals stand as their bits.
//!
//! Both what memory holds of a chunk that nobody reads, and its form in the state
//! (see `docs/state.md`).

use super::list::Held;
use crate::limits::TAIL_CHUNK_READINGS_MAX;
use crate::log::bytes::{Malformed, Reader, put_varint, put_zigzag};

/// Most decimals that are tried; then bits.
const DECIMALS_MAX: u8 = 9;
const BITS: u8 = 0xff;
const POWERS: [f64; DECIMALS_MAX as usize + 1] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9];
/// Whole numbers up to here come back from a product with a power of ten.
const WHOLE_MAX: f64 = 2_251_799_813_685_248.0;

/// Appends the packed form of at least one reading.
pub(super) fn pack(held: &[Held], out: &mut Vec<u8>) {
    out.reserve(32 + 4 * held.len());
    put_varint(out, held.len() as u64);
    put_zigzag(out, held[0].0);
    let steps = || {
        held.windows(2)
            .map(|two| two[1].0.wrapping_sub(two[0].0).cast_unsigned())
    };
    let (least, most) = steps().fold((u64::MAX, 0), |(a, b), step| (a.min(step), b.max(step)));
    let least = least.min(most);
    put_varint(out, least);
    put_column(out, width(most - least), steps().map(|step| step - least));
    match (0..=DECIMALS_MAX).find(|decimals| are_decimals(held, *decimals)) {
        Some(decimals) => {
            out.push(decimals);
            let power = POWERS[usize::from(decimals)];
            let wholes = || held.iter().map(|(_, x)| whole(*x, power) as i64);
            let (least, most) =
                wholes().fold((i64::MAX, i64::MIN), |(a, b), n| (a.min(n), b.max(n)));
            put_zigzag(out, least);
            let above = |n: i64| (n - least).cast_unsigned();
            put_column(out, width(above(most)), wholes().map(above));
        }
        None => {
            out.push(BITS);
            for (_, x) in held {
                out.extend_from_slice(&x.to_bits().to_le_bytes());
            }
        }
    }
}

/// Whether each value comes back from so many decimals, bit for bit.
fn are_decimals(held: &[Held], decimals: u8) -> bool {
    let power = POWERS[usize::from(decimals)];
    held.iter().all(|(_, x)| {
        let whole = whole(*x, power);
        whole.abs() <= WHOLE_MAX
            && (whole / power).to_bits() == x.to_bits()
            && whole.to_bits() != (-0.0_f64).to_bits()
    })
}

/// A product rounded to a whole number, where that is below [`WHOLE_MAX`]: beyond
/// 2^52 doubles are whole. Several times faster than `round`, a call on older CPUs.
fn whole(x: f64, power: f64) -> f64 {
    const FIRST_WHOLE: f64 = 6_755_399_441_055_744.0;
    (x * power + FIRST_WHOLE) - FIRST_WHOLE
}

/// Bytes for numbers up to this one.
fn width(most: u64) -> u8 {
    match most {
        0 => 0,
        1..=0xff => 1,
        0x100..=0xffff => 2,
        0x1_0000..=0xffff_ffff => 4,
        _ => 8,
    }
}

fn put_column(out: &mut Vec<u8>, width: u8, numbers: impl Iterator<Item = u64>) {
    out.push(width);
    match width {
        0 => {}
        1 => out.extend(numbers.map(|n| n as u8)),
        2 => numbers.for_each(|n| out.extend_from_slice(&(n as u16).to_le_bytes())),
        4 => numbers.for_each(|n| out.extend_from_slice(&(n as u32).to_le_bytes())),
        _ => numbers.for_each(|n| out.extend_from_slice(&n.to_le_bytes())),
    }
}

/// Reads a column; each number goes where it belongs.
fn take_column(
    from: &mut Reader<'_>,
    count: usize,
    mut put: impl FnMut(usize, u64),
) -> Result<(), Malformed> {
    let bad = from.malformed();
    match from.byte()? {
        0 => (0..count).for_each(|at| put(at, 0)),
        1 => {
            let bytes = from.take(count)?;
            bytes
                .iter()
                .enumerate()
                .for_each(|(at, n)| put(at, u64::from(*n)));
        }
        2 => {
            let (numbers, _) = from.take(2 * count)?.as_chunks();
            let numbers = numbers.iter().map(|n| u64::from(u16::from_le_bytes(*n)));
            numbers.enumerate().for_each(|(at, n)| put(at, n));
        }
        4 => {
            let (numbers, _) = from.take(4 * count)?.as_chunks();
            let numbers = numbers.iter().map(|n| u64::from(u32::from_le_bytes(*n)));
            numbers.enumerate().for_each(|(at, n)| put(at, n));
        }
        8 => {
            let (numbers, _) = from.take(8 * count)?.as_chunks();
            let numbers = numbers.iter().map(|n| u64::from_le_bytes(*n));
            numbers.enumerate().for_each(|(at, n)| put(at, n));
        }
        _ => return Err(bad),
    }
    Ok(())
}

/// Appends what [`pack`] wrote, times in order.
///
/// # Errors
/// When the bytes are nothing that it writes.
pub(super) fn unpack(bytes: &[u8], out: &mut Vec<Held>) -> Result<(), Malformed> {
    let from = &mut Reader::new(bytes);
    let bad = from.malformed();
    let count = usize::try_from(from.varint()?).map_err(|_| bad)?;
    if !(1..=TAIL_CHUNK_READINGS_MAX).contains(&count) {
        return Err(bad);
    }
    let first = from.zigzag()?;
    let least = from.varint()?;
    let start = out.len();
    out.resize(start + count, (first, 0.0));
    let held = &mut out[start..];
    // In wide integers what does not fit can be told afterwards.
    let mut time = i128::from(first);
    take_column(from, count - 1, |at, step| {
        time += i128::from(step) + i128::from(least);
        held[at + 1].0 = time as i64;
    })?;
    if time > i128::from(i64::MAX) {
        return Err(bad);
    }
    match from.byte()? {
        BITS => {
            let (bits, _) = from.take(8 * count)?.as_chunks();
            let values = bits.iter().map(|b| f64::from_bits(u64::from_le_bytes(*b)));
            held.iter_mut().zip(values).for_each(|(one, x)| one.1 = x);
        }
        decimals if decimals <= DECIMALS_MAX => {
            let power = POWERS[usize::from(decimals)];
            let least = from.zigzag()?;
            take_column(from, count, |at, above| {
                held[at].1 = least.wrapping_add_unsigned(above) as f64 / power;
            })?;
        }
        _ => return Err(from.malformed()),
    }
    if from.is_at_end() {
        Ok(())
    } else {
        Err(from.malformed())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn there_and_back(held: &[Held]) -> usize {
        let mut bytes = Vec::new();
        pack(held, &mut bytes);
        let mut back = Vec::new();
        unpack(&bytes, &mut back).expect("its own bytes");
        let bits = |held: &[Held]| {
            held.iter()
                .map(|(t, x)| (*t, x.to_bits()))
                .collect::<Vec<_>>()
        };
        assert_eq!(bits(&back), bits(held));
        bytes.len()
    }

    #[test]
    fn sensors_take_few_bytes() {
        const N: usize = TAIL_CHUNK_READINGS_MAX;
        let series = |value: fn(i64) -> f64| {
            (0..N as i64)
                .map(|n| (n * 1_000_000, value(n)))
                .collect::<Vec<_>>()
        };
        for (name, held, most) in [
            ("flat", series(|_| 21.5), 20),
            (
                "hundredths",
                series(|n| (2000 + n % 97) as f64 / 100.0),
                N + 20,
            ),
            (
                "negative",
                series(|n| (n % 97 - 50) as f64 / 1000.0),
                N + 20,
            ),
            (
                "pressure",
                series(|n| 101_325.0 + (n % 1500) as f64),
                2 * N + 20,
            ),
            ("any doubles", series(|n| (n as f64).sqrt()), 8 * N + 20),
            ("minus zero", series(|_| -0.0), 8 * N + 20),
            ("NaN", series(|_| f64::NAN), 8 * N + 20),
        ] {
            let len = there_and_back(&held);
            assert!(len <= most, "{name}: {len} bytes");
        }
    }

    proptest! {
        #[test]
        fn everything_comes_back(first: i64, steps in prop::collection::vec((0_u64..1 << 40, any::<f64>(), -1000_i32..1000), 1..=TAIL_CHUNK_READINGS_MAX), decimal: bool) {
            let mut time = first >> 1;
            let held: Vec<Held> = steps.into_iter().map(|(step, x, n)| {
                time += step as i64;
                (time, if decimal { f64::from(n) / 100.0 } else { x })
            }).collect();
            there_and_back(&held);
        }

        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let mut out = Vec::new();
            if unpack(&bytes, &mut out).is_ok() {
                prop_assert!(out.is_sorted_by_key(|(time, _)| *time));
            }
        }
    }
}
