//! Exact moments as bytes. They are a function of the bag alone: sums in the
//! coarsest unit that holds them, whichever path they are on.
//!
//! | Field | Form |
//! |---|---|
//! | flags | bit 0: the three counters follow |
//! | NaN, +Inf, -Inf | varint each |
//! | finite values | varint |
//! | sums | only where there are finite values: exponent of the unit, zigzag; twice the bytes of the sum and 1 when it is below 0, varint; its size; bytes of the squares, varint; they |
//!
//! Integers are little-endian without zero bytes at their end. The exponent is 0
//! where all sums are 0.

use num_bigint::{BigInt, BigUint, Sign};

use super::short::join;
use super::wide::Wide;
use super::{Moments, Rare};
use crate::log::bytes::{Malformed, Reader, put_varint, put_zigzag};

const HAS_RARE: u8 = 1;
/// The largest sum of 2^64 doubles, in the finest unit, and that of squares.
const SUM_BYTES_MAX: usize = (2 * 1074 + 64) / 8 + 1;
const SQUARES_BYTES_MAX: usize = 2 * SUM_BYTES_MAX;
/// Units in which a sum can be.
const UNITS: std::ops::RangeInclusive<i64> = -1074..=1024 + 64;
/// What fits the short path, with a bit to spare for its sign and the next value.
const SHORT_SUM_BITS: u64 = 126;
const SHORT_SQUARES_BITS: u64 = 255;

impl Moments {
    /// Appends what is inside, but not whether squares are kept.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let counters = self
            .rare
            .as_deref()
            .map(|r| [r.nan, r.infinite[0], r.infinite[1]]);
        let counters = counters.filter(|counters| *counters != [0; 3]);
        out.push(if counters.is_some() { HAS_RARE } else { 0 });
        for counter in counters.into_iter().flatten() {
            put_varint(out, counter);
        }
        put_varint(out, self.finite);
        if self.finite == 0 {
            return;
        }
        match self.wide() {
            Some(wide) => put_wide(wide, out),
            None => self.put_short(out),
        }
    }

    fn put_short(&self, out: &mut Vec<u8>) {
        let sum = join(self.sum).cast_signed();
        let (size, squares) = (sum.unsigned_abs(), self.short_squares());
        let zeros = size.trailing_zeros().min(squares.trailing_zeros() / 2);
        let (unit, size, squares) = if size == 0 && squares.is_zero() {
            (0, 0, squares)
        } else {
            let unit = self.unit() + zeros.cast_signed();
            (unit, size >> zeros, squares.shr(2 * zeros))
        };
        put_zigzag(out, i64::from(unit));
        put_size(&size.to_le_bytes(), Some(sum < 0), out);
        let limbs = squares.limbs().map(u64::to_le_bytes);
        put_size(limbs.as_flattened(), None, out);
    }

    /// Reads what [`Moments::encode`] wrote.
    ///
    /// # Errors
    /// When the bytes are nothing that it writes, or are the sums of no bag.
    pub fn decode(with_squares: bool, from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let mut moments = Self::new(with_squares);
        let start = from.malformed();
        match from.byte()? {
            0 => {}
            HAS_RARE => {
                let (nan, infinite) = (from.varint()?, [from.varint()?, from.varint()?]);
                if nan == 0 && infinite == [0; 2] {
                    return Err(start);
                }
                moments.rare = Some(Box::new(Rare {
                    nan,
                    infinite,
                    wide: None,
                }));
            }
            _ => return Err(start),
        }
        moments.finite = from.varint()?;
        let counts = [moments.finite, moments.nan_count()];
        let (plus, minus) = moments.infinite_counts();
        let all = counts.into_iter().chain([plus, minus]);
        if all.map(u128::from).sum::<u128>() > u128::from(u64::MAX) {
            return Err(start);
        }
        if moments.finite > 0 {
            let wide = take_sums(from)?;
            if !wide.is_possible(moments.finite, with_squares) {
                return Err(start);
            }
            moments.set(wide, SHORT_SUM_BITS, SHORT_SQUARES_BITS);
        }
        Ok(moments)
    }
}

impl Wide {
    /// Whether there can be a bag of n values with these sums, in their form.
    fn is_possible(&self, n: u64, with_squares: bool) -> bool {
        let is_coarsest = self.zeros().map_or(self.unit == 0, |zeros| zeros == 0);
        let are_sums = if with_squares {
            &self.squares * n >= self.sum.magnitude() * self.sum.magnitude()
        } else {
            self.squares.bits() == 0
        };
        is_coarsest && are_sums
    }
}

fn put_wide(wide: &Wide, out: &mut Vec<u8>) {
    let wide = wide.coarser(wide.zeros().unwrap_or(0));
    put_zigzag(out, i64::from(wide.unit));
    let (sign, size) = wide.sum.to_bytes_le();
    put_size(&size, Some(sign == Sign::Minus), out);
    put_size(&wide.squares.to_bytes_le(), None, out);
}

/// A number without its zero bytes, after its length and, where it has one, its sign.
fn put_size(bytes: &[u8], minus: Option<bool>, out: &mut Vec<u8>) {
    let len = bytes
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |at| at + 1);
    match minus {
        Some(minus) => put_varint(out, 2 * len as u64 + u64::from(minus)),
        None => put_varint(out, len as u64),
    }
    out.extend_from_slice(&bytes[..len]);
}

fn take_sums(from: &mut Reader<'_>) -> Result<Wide, Malformed> {
    let at = from.malformed();
    let unit = from.zigzag()?;
    let head = from.varint()?;
    let size = take_size(from, head >> 1, SUM_BYTES_MAX)?;
    let len = from.varint()?;
    let squares = take_size(from, len, SQUARES_BYTES_MAX)?;
    let minus = head & 1 == 1;
    if !UNITS.contains(&unit) || (minus && size.bits() == 0) {
        return Err(at);
    }
    let sign = if minus { Sign::Minus } else { Sign::Plus };
    Ok(Wide {
        sum: BigInt::from_biguint(sign, size),
        squares,
        unit: i32::try_from(unit).map_err(|_| at)?,
    })
}

fn take_size(from: &mut Reader<'_>, len: u64, max: usize) -> Result<BigUint, Malformed> {
    let at = from.malformed();
    let len = usize::try_from(len)
        .ok()
        .filter(|len| *len <= max)
        .ok_or(at)?;
    let bytes = from.take(len)?;
    if bytes.last() == Some(&0) {
        return Err(at);
    }
    Ok(BigUint::from_bytes_le(bytes))
}
