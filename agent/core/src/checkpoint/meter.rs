//! What checkpoints cost and save, for operators: from the newest of them, and from
//! how fast readings were taken when there were enough. Bound: [`KEPT`] of them.

use std::collections::VecDeque;

use crate::units::Mono;

/// Checkpoints that the figures are of.
const KEPT: usize = 32;
/// Shortest time from which a speed is told, us.
const SHORTEST_US: u64 = 1_000;
const DAY_US: f64 = 86_400e6;

/// One checkpoint as it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Written {
    at: Mono,
    bytes: u64,
    readings: u64,
}

/// See the module.
#[derive(Debug, Clone, Default)]
pub struct Meter {
    written: VecDeque<Written>,
    /// Readings taken one read after the other, and how long that took.
    replayed: (u64, u64),
}

/// What the figures say; `None` where there is nothing to tell them from.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Figures {
    /// Of the newest one.
    pub bytes: u64,
    /// Mean time between two, us.
    pub interval_us: Option<f64>,
    /// Readings a second that came, and that are taken when there are enough.
    pub ingest_per_s: Option<f64>,
    pub replay_per_s: Option<f64>,
    /// Longest time that a start takes to replay what came since the last one, us.
    pub recovery_us: Option<f64>,
    /// Bytes written in a day, before what the database and the flash add.
    pub wear_bytes_per_day: Option<f64>,
}

impl Meter {
    /// One was written, with so many readings since the one before.
    pub fn on_written(&mut self, bytes: u64, readings: u64, at: Mono) {
        if self.written.len() == KEPT {
            self.written.pop_front();
        }
        self.written.push_back(Written {
            at,
            bytes,
            readings,
        });
    }

    /// So many readings were taken in a time without waiting for more.
    pub fn on_replayed(&mut self, readings: u64, took_us: u64) {
        let (all, us) = self.replayed;
        // The newest count most: what came before halves from time to time.
        let halve = |n: u64| if us > 10_000_000 { n / 2 } else { n };
        self.replayed = (halve(all) + readings, halve(us) + took_us);
    }

    #[must_use]
    pub fn figures(&self) -> Figures {
        let (readings, us) = self.replayed;
        let replay = (us >= SHORTEST_US).then(|| readings as f64 * 1e6 / us as f64);
        let mut out = Figures {
            replay_per_s: replay,
            ..Figures::default()
        };
        let (Some(first), Some(last)) = (self.written.front(), self.written.back()) else {
            return out;
        };
        out.bytes = last.bytes;
        let took = last.at.0.saturating_sub(first.at.0);
        if self.written.len() < 2 || took == 0 {
            return out;
        }
        let after_first = || self.written.iter().skip(1);
        let sum = |of: fn(&Written) -> u64| after_first().map(of).sum::<u64>() as f64;
        let interval = took as f64 / (self.written.len() - 1) as f64;
        let ingest = sum(|w| w.readings) * 1e6 / took as f64;
        out.interval_us = Some(interval);
        out.ingest_per_s = Some(ingest);
        out.recovery_us = replay.map(|replay| interval * ingest / replay);
        out.wear_bytes_per_day = Some(sum(|w| w.bytes) * DAY_US / took as f64);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_the_formulas() {
        let mut meter = Meter::default();
        assert_eq!(meter.figures(), Figures::default(), "nothing yet");
        meter.on_written(500, 1, Mono(0));
        let one = Figures {
            bytes: 500,
            ..Figures::default()
        };
        assert_eq!(meter.figures(), one, "one says nothing of an interval");
        for n in 1..=2 * KEPT as u64 {
            meter.on_written(1000, 5_000, Mono(n * 5_000_000));
        }
        meter.on_replayed(100, SHORTEST_US - 1);
        assert_eq!(meter.figures().replay_per_s, None, "too short to tell");
        meter.on_replayed(1_999_900, 1_000_000 - (SHORTEST_US - 1));
        let figures = meter.figures();
        assert_eq!(figures.interval_us, Some(5e6));
        assert_eq!(figures.ingest_per_s, Some(1000.0));
        assert_eq!(figures.replay_per_s, Some(2e6));
        assert_eq!(figures.recovery_us, Some(5e6 * 1000.0 / 2e6));
        assert_eq!(figures.wear_bytes_per_day, Some(1000.0 * 86_400.0 / 5.0));
    }
}
