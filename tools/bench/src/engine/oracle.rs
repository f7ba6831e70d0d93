//! Whether means of a rolling window stay exact, however long it rolls and whatever
//! passes through it: readings of two decimals, with a glitch of 1e16 and the largest
//! float beside 1e20 now and then. Judged by fractions of big integers, which know
//! nothing of the engine's sums.

use std::collections::VecDeque;

use forebay_core::engine::config::Aggregate;
use forebay_core::engine::row::{Cell, Rows};
use forebay_core::engine::{Batch, Engine};
use forebay_core::units::EventTime;
use num_bigint::BigInt;

use super::feed::{BATCH, SECOND, pipeline, sliding};
use crate::data::Dice;

/// Readings in the window.
const INSIDE: usize = 1_000;
/// A mean is judged at each multiple of it.
const JUDGED_EACH: u64 = 100_000;
/// Glitches come once in so many readings, each so that the window holds them when it
/// is judged.
const GLITCH_EACH: u64 = 1_000_000;
/// All doubles are multiples of 2^-1074.
const FINEST: i32 = 1074;

/// What came of it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Judged {
    pub(super) slides: u64,
    pub(super) judged: u64,
    pub(super) with_glitch: u64,
    pub(super) wrong: u64,
}

/// Slides a window over so many readings.
pub(super) fn run(slides: u64) -> Result<Judged, String> {
    let interval = SECOND / INSIDE as i64;
    let window = sliding(SECOND, &[Aggregate::Mean]);
    let mut engine = Engine::new(&pipeline(vec![window]));
    let series = engine.series("device", "channel");
    let series = series.map_err(|error| error.to_string())?;
    let mut rows = Rows::new();
    let mut inside = Inside::default();
    let (mut dice, mut sent, mut judged) = (Dice(4), 0_u64, Judged::default());
    while judged.slides < slides {
        let mut batch = Batch::new();
        for _ in 0..BATCH {
            let x = value(sent, &mut dice);
            inside.pending.push_back(x);
            batch.push(series, EventTime(sent as i64 * interval), Some(x), None);
            sent += 1;
        }
        rows.clear();
        engine.on_batch(&batch, &mut rows);
        for at in 0..rows.len() {
            inside.slide();
            judged.slides += 1;
            if judged.slides % JUDGED_EACH == 0 {
                let Some((_, Cell::Number(mean))) = engine.view(&rows, at).cells().next() else {
                    return Err("a line without a mean".into());
                };
                judged.judged += 1;
                judged.with_glitch += u64::from(inside.held.iter().any(|x| x.abs() > 1e15));
                judged.wrong += u64::from(!inside.is_mean(mean));
            }
        }
    }
    Ok(judged)
}

fn value(at: u64, dice: &mut Dice) -> f64 {
    match at % GLITCH_EACH {
        199_500 => 1e16,
        499_500 => f64::from(f32::MAX),
        499_501 => 1e20,
        699_500 => -f64::from(f32::MAX),
        _ => (dice.next() >> 16) as f64 % 10_000.0 / 100.0 - 20.0,
    }
}

/// The readings of the window that the next line tells of.
#[derive(Debug, Default)]
struct Inside {
    held: VecDeque<f64>,
    pending: VecDeque<f64>,
}

impl Inside {
    fn slide(&mut self) {
        self.held.extend(self.pending.pop_front());
        if self.held.len() > INSIDE {
            self.held.pop_front();
        }
    }

    /// Whether a double is the nearest one to the mean, ties to even.
    fn is_mean(&self, mean: f64) -> bool {
        let sum: BigInt = self.held.iter().map(|x| exact(*x)).sum();
        let off = |x: f64| (exact(x) * self.held.len() - &sum).magnitude().clone();
        let mine = off(mean);
        [mean.next_up(), mean.next_down()].into_iter().all(|other| {
            let theirs = off(other);
            mine < theirs || (mine == theirs && mean.to_bits() & 1 == 0)
        })
    }
}

/// A finite double in units of 2^-1074.
fn exact(x: f64) -> BigInt {
    let bits = x.to_bits();
    let exponent = (bits >> 52 & 0x7ff) as i32;
    let fraction = bits & ((1 << 52) - 1);
    let mantissa = if exponent == 0 {
        fraction
    } else {
        fraction | 1 << 52
    };
    let size = BigInt::from(mantissa) << (exponent.max(1) - 1075 + FINEST);
    if x.is_sign_negative() { -size } else { size }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_run_is_right() {
        let judged = run(1_000_000).expect("it runs");
        assert_eq!((judged.wrong, judged.judged >= 10), (0, true), "{judged:?}");
        assert!(judged.with_glitch >= 3, "{judged:?}");
    }

    #[test]
    fn a_mean_that_is_off_by_one_is_seen() {
        let mut inside = Inside::default();
        for n in 0..10 {
            inside.pending.push_back(f64::from(n) / 100.0);
            inside.slide();
        }
        for (name, mean, right) in [
            ("right", 0.045, true),
            ("next", 0.045_f64.next_up(), false),
            ("before", 0.045_f64.next_down(), false),
        ] {
            assert_eq!(inside.is_mean(mean), right, "{name}");
        }
    }
}
