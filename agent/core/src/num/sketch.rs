//! A DDSketch of doubles: any rank to within 1 %, and values can be taken out.
//!
//! The mapping is fixed and reads the bits of the double: 64 buckets between two
//! powers of two, so a bucket's middle is at most 0.8 % off, on every machine
//! the same. No collapse. Knows no NaN: the caller counts those apart. Bound:
//! 64 buckets per power of two that occurs, a few dozen for a usual series.

use std::collections::BTreeMap;

use crate::log::bytes::{Malformed, Reader, put_varint, put_zigzag};

/// log2 of the buckets between two powers of two.
const BUCKET_BITS: u32 = 6;
const SHIFT: u32 = 52 - BUCKET_BITS;
/// Lifts subnormals into the normal doubles, exactly.
const LIFT: i64 = 54;

/// All buckets, that of the infinities included.
const BUCKETS: std::ops::RangeInclusive<i64> = -(LIFT << BUCKET_BITS)..=0x7ff << BUCKET_BITS;

/// Counts per bucket.
#[derive(Debug, Clone, Default)]
pub struct Sketch {
    negative: BTreeMap<i64, u64>,
    zero: u64,
    positive: BTreeMap<i64, u64>,
}

fn bucket(size: f64) -> i64 {
    let lifted = size < f64::MIN_POSITIVE;
    let x = if lifted { size * lift() } else { size };
    let at = i64::try_from(x.to_bits() >> SHIFT).expect("at most 17 bits");
    if lifted {
        at - (LIFT << BUCKET_BITS)
    } else {
        at
    }
}

/// 2^54
fn lift() -> f64 {
    18_014_398_509_481_984.0
}

/// The middle of a bucket.
fn middle(bucket: i64) -> f64 {
    // The first bucket of the normal doubles; below it buckets are lifted.
    let lifted = bucket < 1 << BUCKET_BITS;
    let at = if lifted {
        bucket + (LIFT << BUCKET_BITS)
    } else {
        bucket
    };
    let bits = u64::try_from(at).unwrap_or(0) << SHIFT | 1 << (SHIFT - 1);
    let x = f64::from_bits(bits);
    if lifted { x / lift() } else { x }
}

impl Sketch {
    /// Puts a value in; an infinity has a bucket of its own.
    pub fn add(&mut self, x: f64) {
        if x == 0.0 {
            self.zero += 1;
        } else {
            *self.store(x).entry(bucket(x.abs())).or_insert(0) += 1;
        }
    }

    /// Takes a value out that is inside.
    pub fn sub(&mut self, x: f64) {
        if x == 0.0 {
            self.zero -= 1;
            return;
        }
        let store = self.store(x);
        let at = bucket(x.abs());
        let count = store.get_mut(&at).expect("the value is inside");
        *count -= 1;
        if *count == 0 {
            store.remove(&at);
        }
    }

    /// Appends what is inside.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.zero);
        for store in [&self.negative, &self.positive] {
            put_varint(out, store.len() as u64);
            for (bucket, count) in store {
                put_zigzag(out, *bucket);
                put_varint(out, *count);
            }
        }
    }

    /// Reads what [`Sketch::encode`] wrote.
    ///
    /// # Errors
    /// When the bytes are nothing that it writes.
    pub fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let zero = from.varint()?;
        let mut stores = [BTreeMap::new(), BTreeMap::new()];
        for store in &mut stores {
            for _ in 0..from.varint()? {
                let at = from.zigzag()?;
                let count = from.varint()?;
                if !BUCKETS.contains(&at) || count == 0 || store.insert(at, count).is_some() {
                    return Err(from.malformed());
                }
            }
        }
        let [negative, positive] = stores;
        Ok(Self {
            negative,
            zero,
            positive,
        })
    }

    /// Puts all of another sketch in.
    pub fn merge(&mut self, other: &Self) {
        self.zero += other.zero;
        for (mine, theirs) in [
            (&mut self.negative, &other.negative),
            (&mut self.positive, &other.positive),
        ] {
            for (bucket, count) in theirs {
                *mine.entry(*bucket).or_insert(0) += count;
            }
        }
    }

    fn store(&mut self, x: f64) -> &mut BTreeMap<i64, u64> {
        if x < 0.0 {
            &mut self.negative
        } else {
            &mut self.positive
        }
    }

    /// About the `rank`-th smallest value, from 1. `None` when there are fewer.
    #[must_use]
    pub fn at_rank(&self, rank: u64) -> Option<f64> {
        let infinity = bucket(f64::INFINITY);
        let size = |at: i64| {
            if at == infinity {
                f64::INFINITY
            } else {
                middle(at)
            }
        };
        let buckets = (self.negative.iter().rev().map(|(at, n)| (-size(*at), *n)))
            .chain(std::iter::once((0.0, self.zero)))
            .chain(self.positive.iter().map(|(at, n)| (size(*at), *n)));
        let mut seen = 0;
        for (value, count) in buckets {
            seen += count;
            if seen >= rank {
                return Some(value);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_rank_is_within_one_percent(values in prop::collection::vec(any::<f64>().prop_filter("no NaN", |x| !x.is_nan()), 1..50), gone in 0_usize..50) {
            let (mut sketch, mut other) = (Sketch::default(), Sketch::default());
            for (at, x) in values.iter().enumerate() {
                if at % 2 == 0 { sketch.add(*x) } else { other.add(*x) }
            }
            sketch.merge(&other);
            let mut left = values.clone();
            for x in left.drain(..gone.min(values.len() - 1)) {
                sketch.sub(x);
            }
            left.sort_by(f64::total_cmp);
            for (at, want) in left.iter().enumerate() {
                let got = sketch.at_rank(at as u64 + 1).expect("a value");
                // The smallest subnormals are whole units apart: half of one is the best.
                let near = (got - want).abs() <= want.abs() * 0.01 + 5e-324;
                prop_assert!(got == *want || near, "{got} for {want}");
            }
            prop_assert_eq!(sketch.at_rank(left.len() as u64 + 1), None);
        }
    }
}
