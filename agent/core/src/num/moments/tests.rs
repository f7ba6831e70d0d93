//! Moments against the same sums in big integers.

use num_bigint::{BigInt, BigUint, Sign};
use proptest::prelude::*;

use super::*;
use crate::log::bytes::Reader;

/// All doubles are multiples of 2^-1074.
const FINEST: u32 = 1074;

/// A double in units of 2^-1074, infinity as the double after the largest.
fn exact(x: f64) -> BigInt {
    if x.is_infinite() {
        return BigInt::from(1) << (1024 + FINEST);
    }
    let bits = x.to_bits();
    let exponent = (bits >> 52 & 0x7ff) as u32;
    let hidden = u64::from(exponent > 0) << 52;
    let n = BigInt::from(bits & ((1 << 52) - 1) | hidden) << (exponent.max(1) - 1);
    if x.is_sign_negative() { -n } else { n }
}

/// Whether `got` is the double nearest to `n / by` in units of 2^-1074, ties to even.
fn is_nearest(got: f64, n: &BigInt, by: &BigInt) -> bool {
    let limit = (BigInt::from((1_u64 << 54) - 1) << (970 + FINEST)) * by;
    if n.magnitude() >= limit.magnitude() {
        return got.is_infinite() && (got > 0.0) == (n.sign() == Sign::Plus);
    }
    if got.is_infinite() {
        return false;
    }
    let off = |x: f64| -> BigUint { (exact(x) * by - n).magnitude().clone() };
    let mine = off(got);
    [got.next_up(), got.next_down()].iter().all(|other| {
        if other.is_infinite() {
            return true;
        }
        let theirs = off(*other);
        mine < theirs || (mine == theirs && got.to_bits() & 1 == 0)
    })
}

/// Whether `got` is the double nearest to the root of `n / by`, n in units of 2^-2148.
fn is_nearest_root(got: f64, n: &BigInt, by: &BigInt) -> bool {
    // The middle between got and a neighbour, in half units, squared, against 4 n / by.
    let four = n * 4;
    let below = exact(got) + exact(got.next_down());
    let above = exact(got) + exact(got.next_up());
    let square = |m: &BigInt| m * m * by;
    let even = got.to_bits() & 1 == 0;
    if got.is_infinite() {
        return square(&below) <= four;
    }
    let above_low = got == 0.0 || square(&below) < four || (even && square(&below) == four);
    // Infinity stands for all that is too large for a double.
    let below_high = got.is_infinite() || square(&above) > four || (even && square(&above) == four);
    above_low && below_high
}

#[test]
fn a_deviation_beyond_the_largest_double_is_infinite() {
    let values = [f64::MAX, -f64::MAX];
    let mut moments = Moments::new(true);
    values.iter().for_each(|x| moments.add(*x));
    assert_eq!(moments.stddev(true), Some(f64::INFINITY));
    assert_eq!(moments.stddev(false), Some(f64::MAX));
    check(&values, &moments);
}

fn check(values: &[f64], moments: &Moments) {
    let n = BigInt::from(values.len());
    let sum: BigInt = values.iter().map(|x| exact(*x)).sum();
    let squares: BigInt = values.iter().map(|x| exact(*x).pow(2)).sum();
    assert_eq!(moments.count(), values.len() as u64);
    if values.is_empty() {
        assert_eq!((moments.sum(), moments.mean()), (None, None));
        return;
    }
    let one = BigInt::from(1);
    assert!(
        is_nearest(moments.sum().expect("a sum"), &sum, &one),
        "sum of {values:?}"
    );
    assert!(
        is_nearest(moments.mean().expect("a mean"), &sum, &n),
        "mean of {values:?}"
    );
    for (of_sample, by) in [(true, &n * (&n - &one)), (false, &n * &n)] {
        if values.len() < 2 && of_sample {
            assert_eq!(moments.variance(of_sample), None);
            continue;
        }
        let over = &n * &squares - &sum * &sum;
        let variance = moments.variance(of_sample).expect("a variance");
        // Units of 2^-2148: the divisor takes 2^1074 more.
        let in_units = &by << FINEST;
        assert!(
            is_nearest(variance, &over, &in_units),
            "variance of {values:?}: {variance}"
        );
        let stddev = moments.stddev(of_sample).expect("a deviation");
        assert!(
            is_nearest_root(stddev, &over, &by),
            "stddev of {values:?}: {stddev}"
        );
    }
}

fn value() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => (-4000_i32..4000).prop_map(|n| f64::from(n) / 100.0),
        2 => -1.0e-3..1.0e-3_f64,
        1 => prop_oneof![Just(1e16), Just(1e20), Just(f64::from(f32::MAX))],
        1 => Just(0.0),
        1 => prop_oneof![Just(f64::MAX), Just(-f64::MAX), Just(5e-324), Just(-0.0)],
        1 => any::<f64>().prop_filter("finite", |x| x.is_finite()),
    ]
}

fn any_value() -> impl Strategy<Value = f64> {
    prop_oneof![
        8 => value(),
        1 => prop_oneof![Just(f64::NAN), Just(f64::INFINITY), Just(f64::NEG_INFINITY)],
    ]
}

proptest! {
    #[test]
    fn every_figure_is_the_exact_one_rounded_once(values in prop::collection::vec(value(), 0..12)) {
        let mut moments = Moments::new(true);
        for x in &values {
            moments.add(*x);
        }
        check(&values, &moments);
    }

    #[test]
    fn what_was_taken_out_leaves_no_trace(values in prop::collection::vec(value(), 1..40), width in 1_usize..8) {
        let mut moments = Moments::new(true);
        for (at, x) in values.iter().enumerate() {
            moments.add(*x);
            if let Some(gone) = at.checked_sub(width) {
                moments.sub(values[gone]);
            }
            let from = (at + 1).saturating_sub(width);
            check(&values[from..=at], &moments);
        }
    }

    #[test]
    fn bytes_are_a_function_of_the_bag(values in prop::collection::vec(any_value(), 0..20), more in prop::collection::vec(any_value(), 0..8), squares: bool) {
        let bytes = |moments: &Moments| {
            let mut out = Vec::new();
            moments.encode(&mut out);
            out
        };
        let mut there = Moments::new(squares);
        values.iter().for_each(|x| there.add(*x));
        // By another way, over other units and the wide path.
        let mut other = Moments::new(squares);
        more.iter().for_each(|x| other.add(*x));
        values.iter().rev().for_each(|x| other.add(*x));
        more.iter().for_each(|x| other.sub(*x));
        prop_assert_eq!(bytes(&there), bytes(&other));
        let written = bytes(&there);
        let mut reader = Reader::new(&written);
        let mut back = Moments::decode(squares, &mut reader).expect("its own bytes");
        prop_assert!(reader.is_at_end());
        prop_assert_eq!(bytes(&back), written);
        // And it goes on in the same way.
        for x in &more {
            there.add(*x);
            back.add(*x);
        }
        values.iter().for_each(|x| back.sub(*x));
        let mut rest = Moments::new(squares);
        more.iter().for_each(|x| rest.add(*x));
        prop_assert_eq!(bytes(&back), bytes(&rest));
    }

    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..60), squares: bool) {
        if let Ok(moments) = Moments::decode(squares, &mut Reader::new(&bytes)) {
            let _ = (moments.sum(), moments.mean());
            if squares {
                let _ = (moments.variance(true), moments.stddev(false));
            }
        }
    }

    #[test]
    fn changed_bytes_are_survived(values in prop::collection::vec(any_value(), 1..9), at: usize, to: u8) {
        let mut moments = Moments::new(true);
        values.iter().for_each(|x| moments.add(*x));
        let mut bytes = Vec::new();
        moments.encode(&mut bytes);
        let at = at % bytes.len();
        bytes[at] = to;
        if let Ok(moments) = Moments::decode(true, &mut Reader::new(&bytes)) {
            let _ = (moments.sum(), moments.mean(), moments.variance(true), moments.stddev(false));
            let mut again = Vec::new();
            moments.encode(&mut again);
            prop_assert!(bytes.starts_with(&again));
        }
    }

    #[test]
    fn merged_bags_are_one(a in prop::collection::vec(value(), 0..8), b in prop::collection::vec(value(), 0..8)) {
        let of = |values: &[f64]| {
            let mut moments = Moments::new(true);
            values.iter().for_each(|x| moments.add(*x));
            moments
        };
        let mut merged = of(&a);
        merged.merge(&of(&b));
        check(&[a.clone(), b.clone()].concat(), &merged);
        for x in &a {
            merged.sub(*x);
        }
        check(&b, &merged);
    }

    #[test]
    fn the_order_does_not_matter(values in prop::collection::vec(value(), 1..12)) {
        let (mut there, mut back) = (Moments::new(true), Moments::new(true));
        for (a, b) in values.iter().zip(values.iter().rev()) {
            there.add(*a);
            back.add(*b);
        }
        let figures = |m: &Moments| [m.sum(), m.mean(), m.variance(true), m.stddev(false)].map(|f| f.map(f64::to_bits));
        prop_assert_eq!(figures(&there), figures(&back));
    }
}

#[test]
fn special_values_count_and_leave() {
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    for (name, values, sum) in [
        ("a NaN", vec![1.0, nan], nan),
        ("plus", vec![1.0, inf], inf),
        ("minus", vec![1.0, -inf], -inf),
        ("both", vec![inf, -inf], nan),
        ("NaN and plus", vec![nan, inf], nan),
    ] {
        let mut moments = Moments::new(true);
        moments.add(2.5);
        for x in &values {
            moments.add(*x);
        }
        for got in [moments.sum(), moments.mean()] {
            assert!(
                got.is_some_and(|g| g == sum || (g.is_nan() && sum.is_nan())),
                "{name}"
            );
        }
        assert!(moments.variance(true).is_some_and(f64::is_nan), "{name}");
        assert_eq!(moments.count(), 3, "{name}");
        for x in &values {
            moments.sub(*x);
        }
        assert_eq!((moments.sum(), moments.count()), (Some(2.5), 1), "{name}");
    }
}

#[test]
fn a_glitch_takes_the_short_path_back() {
    for glitch in [1e16, 1e300, -f64::MAX, 5e-324] {
        let mut moments = Moments::new(true);
        for n in 0..100 {
            moments.add(20.0 + f64::from(n) / 100.0);
        }
        moments.add(glitch);
        moments.sub(20.0);
        moments.sub(glitch);
        assert!(moments.rare.is_none(), "after {glitch}");
        moments.add(20.0);
        assert_eq!(moments.sum(), Some(2049.5));
    }
}

#[test]
fn ordinary_series_stay_on_the_short_path() {
    // Amperes, bars, degrees, counts, with two to six decimals.
    for (name, scale, offset) in [
        ("microamperes", 1e-6, 0.0),
        ("bar", 1e-5, 1.013),
        ("degrees", 1e-2, 21.0),
        ("pascals", 1.0, 101_325.0),
        ("lifetime count", 1.0, 1e12),
    ] {
        let mut moments = Moments::new(true);
        for n in 0..100_000 {
            moments.add(offset + f64::from(n % 997) * scale);
        }
        assert!(moments.rare.is_none(), "{name}");
    }
}

#[test]
fn flat_data_has_no_variance() {
    for x in [0.1, 21.3, 1e-9, 1e15] {
        let mut moments = Moments::new(true);
        for _ in 0..1000 {
            moments.add(x);
        }
        assert_eq!(
            (moments.variance(true), moments.mean()),
            (Some(0.0), Some(x))
        );
    }
}

#[test]
fn sums_beyond_the_largest_double_have_a_finite_mean() {
    let mut moments = Moments::new(false);
    moments.add(f64::MAX);
    moments.add(f64::MAX);
    assert_eq!(
        (moments.sum(), moments.mean()),
        (Some(f64::INFINITY), Some(f64::MAX))
    );
}
