//! A DDSketch of doubles: any rank to within 1 %, and values can be taken out.
//!
//! The mapping is fixed and reads the bits of the double: 64 buckets between two
//! powers of two, so a bucket's middle is at most 0.8 % off, on every machine
//! the same. No collapse. Knows no NaN: the caller counts those apart. Bound:
//! half a KiB per power of two that occurs, one or two for a usual series.

use crate::log::bytes::{Malformed, Reader, put_varint, put_zigzag};

/// log2 of the buckets between two powers of two.
const BUCKET_BITS: u32 = 6;
const BUCKETS: usize = 1 << BUCKET_BITS;
const SHIFT: u32 = 52 - BUCKET_BITS;
/// Lifts subnormals into the normal doubles, exactly.
const LIFT: i64 = 54;
/// Bucket of infinity, the last one.
const LAST: i64 = (0x7ff + LIFT) << BUCKET_BITS;

/// Counts per bucket.
#[derive(Debug, Clone, Default)]
pub struct Sketch {
    zero: u64,
    /// By number; none is empty.
    pages: Vec<Page>,
}

/// The buckets between two powers of two. Those of negative values have negative
/// numbers, so that buckets are in the order of their values.
#[derive(Debug, Clone)]
struct Page {
    number: i64,
    total: u64,
    counts: Box<[u64; BUCKETS]>,
}

/// Bucket of a value that is not 0: from 0 upwards for positive ones, from -1
/// downwards for negative ones.
#[inline]
fn bucket(x: f64) -> i64 {
    let size = x.abs();
    let bucket = if size < f64::MIN_POSITIVE {
        (size * lift()).to_bits() >> SHIFT
    } else {
        (size.to_bits() >> SHIFT) + (LIFT << BUCKET_BITS).unsigned_abs()
    };
    let bucket = bucket.cast_signed();
    if x < 0.0 { !bucket } else { bucket }
}

/// 2^54
fn lift() -> f64 {
    18_014_398_509_481_984.0
}

/// The middle of a bucket; infinity has one of its own.
fn middle(bucket: i64) -> f64 {
    let above = if bucket < 0 { !bucket } else { bucket };
    let inside = |at: i64| f64::from_bits(at.cast_unsigned() << SHIFT | 1 << (SHIFT - 1));
    // The first buckets of the normal doubles are those of lifted ones, too.
    let normal = above - (LIFT << BUCKET_BITS);
    let size = if above == LAST {
        f64::INFINITY
    } else if normal < 1 << BUCKET_BITS {
        inside(above) / lift()
    } else {
        inside(normal)
    };
    if bucket < 0 { -size } else { size }
}

/// Page and place in it of a bucket.
#[inline]
fn split(bucket: i64) -> (i64, usize) {
    (bucket >> BUCKET_BITS, bucket as usize & (BUCKETS - 1))
}

impl Sketch {
    /// Puts a value in.
    #[inline]
    pub fn add(&mut self, x: f64) {
        if x == 0.0 {
            self.zero += 1;
        } else {
            self.put(bucket(x), 1);
        }
    }

    fn put(&mut self, bucket: i64, count: u64) {
        let (number, at) = split(bucket);
        let page = match self.find(number) {
            Ok(page) => page,
            Err(page) => {
                let counts = Box::new([0; BUCKETS]);
                let (total, new) = (0, page);
                self.pages.insert(
                    new,
                    Page {
                        number,
                        total,
                        counts,
                    },
                );
                page
            }
        };
        let page = &mut self.pages[page];
        page.total += count;
        page.counts[at] += count;
    }

    #[inline]
    fn find(&self, number: i64) -> Result<usize, usize> {
        self.pages.binary_search_by_key(&number, |page| page.number)
    }

    /// Takes a value out that is inside.
    ///
    /// # Panics
    /// When its bucket is empty.
    #[inline]
    pub fn sub(&mut self, x: f64) {
        if x == 0.0 {
            self.zero -= 1;
            return;
        }
        let (number, at) = split(bucket(x));
        let place = self.find(number).expect("the value is inside");
        let page = &mut self.pages[place];
        page.counts[at] = page.counts[at].checked_sub(1).expect("the value is inside");
        page.total -= 1;
        if page.total == 0 {
            self.pages.remove(place);
        }
    }

    /// Buckets that are not empty, in order.
    fn buckets(&self) -> impl Iterator<Item = (i64, u64)> {
        self.pages.iter().flat_map(|page| {
            let first = page.number << BUCKET_BITS;
            let counts = (first..).zip(*page.counts);
            counts.filter(|(_, count)| *count > 0)
        })
    }

    /// Appends what is inside: how many are 0, how many buckets are not empty, and of
    /// each its number's distance to the one before, and its count.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.zero);
        put_varint(out, self.buckets().count() as u64);
        let mut before = 0;
        for (bucket, count) in self.buckets() {
            put_zigzag(out, bucket - before);
            put_varint(out, count);
            before = bucket;
        }
    }

    /// Reads what [`Sketch::encode`] wrote.
    ///
    /// # Errors
    /// When the bytes are nothing that it writes.
    pub fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let mut sketch = Self {
            zero: from.varint()?,
            pages: Vec::new(),
        };
        let (mut before, mut all) = (0, sketch.zero);
        for index in 0..from.varint()? {
            let step = from.zigzag()?;
            let count = from.varint()?;
            let bucket = i64::checked_add(before, step).filter(|b| (!LAST..=LAST).contains(b));
            let (Some(bucket), Some(sum)) = (bucket, all.checked_add(count)) else {
                return Err(from.malformed());
            };
            if count == 0 || (index > 0 && step <= 0) {
                return Err(from.malformed());
            }
            sketch.put(bucket, count);
            (before, all) = (bucket, sum);
        }
        Ok(sketch)
    }

    /// Puts all of another sketch in.
    pub fn merge(&mut self, other: &Self) {
        self.zero += other.zero;
        for (bucket, count) in other.buckets() {
            self.put(bucket, count);
        }
    }

    /// About the `rank`-th smallest value, from 1. `None` when there are fewer.
    #[must_use]
    pub fn at_rank(&self, rank: u64) -> Option<f64> {
        let mut left = rank;
        let positive = self.pages.partition_point(|page| page.number < 0);
        let (below, above) = self.pages.split_at(positive);
        if let Some(x) = at_rank(below, &mut left) {
            return Some(x);
        }
        if left <= self.zero {
            return Some(0.0);
        }
        left -= self.zero;
        at_rank(above, &mut left)
    }
}

/// The `left`-th value of some pages, or how many are left beyond them.
fn at_rank(pages: &[Page], left: &mut u64) -> Option<f64> {
    let page = pages.iter().find(|page| {
        let inside = *left <= page.total;
        *left -= if inside { 0 } else { page.total };
        inside
    })?;
    let mut seen = 0;
    let place = page.counts.iter().position(|count| {
        seen += count;
        seen >= *left
    });
    place.map(|place| middle((page.number << BUCKET_BITS) + place as i64))
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
