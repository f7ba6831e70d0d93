//! Made-up sensors: a slow sine with noise on it. The value is a function of
//! the seed and the tick alone, so a run can be repeated and checked.

use forebay_wire::ids::Tick;

use super::dice::{fraction, hash};
use super::source::{Source, SourceInfo};

/// Figures have two decimals.
const SCALE: u8 = 2;

/// A sine with noise, in scaled integers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Wave {
    middle: f64,
    swing: f64,
    noise: f64,
    period_us: f64,
    /// Part of a period that it starts with.
    phase: f64,
    seed: u64,
}

impl Wave {
    pub(super) fn at(&self, tick: Tick) -> i32 {
        let turn = self.phase + tick.0 as f64 / self.period_us;
        let noise = fraction(hash(self.seed, tick.0)) * 2.0 - 1.0;
        let sine = (turn * std::f64::consts::TAU).sin();
        (self.middle + self.swing * sine + self.noise * noise).round() as i32
    }
}

/// The channels of one made-up device.
pub(super) fn sources(seed: u64) -> Vec<Source> {
    let rows = [
        (
            ("temperature", "degC", (-40, 85)),
            (2_100.0, 400.0, 15.0, 60e6),
        ),
        (
            ("humidity", "percent", (0, 100)),
            (4_500.0, 1_200.0, 40.0, 95e6),
        ),
    ];
    (0_u64..)
        .zip(rows)
        .map(
            |(n, ((quantity, unit, range), (middle, swing, noise, period_us)))| {
                let seed = hash(seed, n);
                let phase = fraction(hash(seed, u64::MAX));
                let wave = Wave {
                    middle,
                    swing,
                    noise,
                    period_us,
                    phase,
                    seed,
                };
                Source::wave(SourceInfo::new(quantity, unit, SCALE, range), wave)
            },
        )
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::source::Figure;

    fn values(seed: u64) -> Vec<Vec<Figure>> {
        sources(seed)
            .iter()
            .map(|source| (0..5000).map(|n| source.read(Tick(n * 100_000))).collect())
            .collect()
    }

    #[test]
    fn a_seed_repeats_and_another_differs() {
        assert_eq!(values(1), values(1));
        assert_ne!(values(1), values(2));
    }

    #[test]
    fn values_move_and_stay_within_the_range_of_their_channel() {
        for (source, figures) in sources(3).iter().zip(values(3)) {
            let (low, high) = source.info.range;
            let mut seen = std::collections::BTreeSet::new();
            for figure in figures {
                let Figure::Value(value) = figure else {
                    panic!("made-up sensors are never stale")
                };
                assert!(
                    (low..=high).contains(&value),
                    "{}: {value}",
                    source.info.quantity
                );
                seen.insert(value);
            }
            assert!(seen.len() > 500, "{} hardly moves", source.info.quantity);
        }
    }
}
