//! Maps device ticks to event time from four-stamp probes, as NTP does (RFC 5905,
//! section 8), keeping the probe with the smallest round trip of the last
//! [`PROBES_KEPT`]. The device's clock is never steered.
//!
//! Holds always: within one boot, a later tick gets no earlier time unless the
//! gateway's own clock was set back by more than [`SMOOTHED_US_MAX`].

use std::collections::VecDeque;

use forebay_wire::ids::Tick;

use crate::limits::{PROBES_KEPT, PROBES_OUTSTANDING_MAX};
use crate::units::{EventTime, Mono, Now};

/// Steps back of the mapping up to this many us are flattened: they come from a
/// better probe, not from a clock that was set.
const SMOOTHED_US_MAX: i64 = 1_000_000;

/// One answered probe.
#[derive(Debug, Clone, Copy)]
struct Sample {
    round_trip_us: u64,
    /// Gateway's monotonic time less the device's tick, us.
    offset_us: i64,
}

/// The clock model of one device boot.
#[derive(Debug, Clone, Default)]
pub struct DeviceClock {
    outstanding: VecDeque<(u32, Mono)>,
    next_id: u32,
    samples: VecDeque<Sample>,
    last: Option<(Tick, EventTime)>,
}

impl DeviceClock {
    /// Starts a probe; returns its id.
    pub fn probe(&mut self, now: Mono) -> u32 {
        if self.outstanding.len() == PROBES_OUTSTANDING_MAX {
            self.outstanding.pop_front();
        }
        let id = self.next_id;
        self.next_id = self.next_id.wrapping_add(1);
        self.outstanding.push_back((id, now));
        id
    }

    /// Takes the answer to a probe; one that was never asked, or whose stamps
    /// contradict each other, changes nothing.
    pub fn reply(&mut self, id: u32, received: Tick, sent: Tick, now: Mono) {
        let Some(index) = self.outstanding.iter().position(|(known, _)| *known == id) else {
            return;
        };
        let Some((_, asked)) = self.outstanding.remove(index) else {
            return;
        };
        let (Some(total), Some(held)) =
            (now.0.checked_sub(asked.0), sent.0.checked_sub(received.0))
        else {
            return;
        };
        let Some(round_trip_us) = total.checked_sub(held) else {
            return;
        };
        let gateway_mid = asked.0 + total / 2;
        let device_mid = received.0 + held / 2;
        if self.samples.len() == PROBES_KEPT {
            self.samples.pop_front();
        }
        self.samples.push_back(Sample {
            round_trip_us,
            offset_us: gateway_mid.wrapping_sub(device_mid) as i64,
        });
    }

    /// Answered probes at hand, up to [`PROBES_KEPT`].
    #[must_use]
    pub fn samples(&self) -> usize {
        self.samples.len()
    }

    /// Event time of `tick` and the half width of its uncertainty in us; `None`
    /// before the first answered probe.
    pub fn map(&mut self, tick: Tick, now: Now) -> Option<(EventTime, u32)> {
        let best = self.samples.iter().min_by_key(|s| s.round_trip_us)?;
        let mono = (tick.0 as i64).wrapping_add(best.offset_us);
        let since = mono.wrapping_sub(now.mono.0 as i64);
        let time = EventTime(now.utc.0.saturating_add(since));
        let uncertainty = u32::try_from(best.round_trip_us.div_ceil(2)).unwrap_or(u32::MAX);
        Some((self.smoothed(tick, time), uncertainty))
    }

    fn smoothed(&mut self, tick: Tick, time: EventTime) -> EventTime {
        let mut time = time;
        if let Some((last_tick, last_time)) = self.last {
            let back = last_time.0.saturating_sub(time.0);
            if tick >= last_tick && back > 0 && back <= SMOOTHED_US_MAX {
                time = last_time;
            }
        }
        self.last = Some((tick, time));
        time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UTC: i64 = 1_700_000_000_000_000;

    fn now(mono: u64) -> Now {
        Now {
            mono: Mono(mono),
            utc: EventTime(UTC + mono as i64),
        }
    }

    fn probe(clock: &mut DeviceClock, asked: u64, received: u64, sent: u64, back: u64) {
        let id = clock.probe(Mono(asked));
        clock.reply(id, Tick(received), Tick(sent), Mono(back));
    }

    #[test]
    fn the_shortest_round_trip_decides() {
        let mut clock = DeviceClock::default();
        assert_eq!(clock.map(Tick(0), now(0)), None);
        // True offset 1,000,000; the first probe's way back took 8 ms longer.
        probe(&mut clock, 1_001_000, 1_500, 1_600, 1_010_100);
        probe(&mut clock, 2_000_000, 1_000_100, 1_000_200, 2_000_300);
        assert_eq!(
            clock.map(Tick(1_000_200), now(2_000_300)),
            Some((EventTime(UTC + 2_000_200), 100))
        );
    }

    #[test]
    fn a_bad_answer_changes_nothing() {
        let mut clock = DeviceClock::default();
        clock.reply(7, Tick(0), Tick(1), Mono(5));
        probe(&mut clock, 10, 5, 4, 20);
        probe(&mut clock, 10, 5, 500, 20);
        assert_eq!(clock.samples(), 0);
    }

    #[test]
    fn an_old_good_probe_is_forgotten_after_as_many_as_are_kept() {
        let mut clock = DeviceClock::default();
        probe(&mut clock, 0, 0, 0, 2);
        for n in 1..=PROBES_KEPT as u64 {
            probe(&mut clock, n * 1000, n * 1000, n * 1000, n * 1000 + 50);
            let want = if n < PROBES_KEPT as u64 { 1 } else { 25 };
            let got = clock.map(Tick(n * 1000), now(n * 1000 + 50));
            assert_eq!(got.map(|(_, uncertainty)| uncertainty), Some(want), "{n}");
        }
    }

    #[test]
    fn a_better_probe_never_turns_time_back_but_a_set_clock_does() {
        let mut clock = DeviceClock::default();
        probe(&mut clock, 0, 0, 0, 1000);
        let (first, _) = clock.map(Tick(100), now(1000)).expect("a fit");
        probe(&mut clock, 2000, 1990, 1990, 2000);
        let (second, _) = clock.map(Tick(101), now(2000)).expect("a fit");
        assert_eq!(second, first);
        let set_back = Now {
            mono: Mono(3000),
            utc: EventTime(UTC - 3_600_000_000),
        };
        let (third, _) = clock.map(Tick(102), set_back).expect("a fit");
        assert!(third < first);
    }
}
