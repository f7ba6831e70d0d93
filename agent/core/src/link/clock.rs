//! Maps device ticks to event time from four-stamp probes, as NTP does (RFC 5905,
//! section 8). The device's clock is never steered. How, and why:
//! `agent/core/docs/clock.md`.
//!
//! Holds always: within one boot, readings whose ticks ascend get times that ascend
//! strictly, unless the gateway's own clock was set back by more than
//! [`CLOCK_SET_US`]; and a time's uncertainty covers what is known of its error.
//! Bound: [`PROBES_RECENT_MAX`] + [`PROBES_BEST_MAX`] points.

mod fit;
mod lean;

use std::cmp::Ordering;
use std::collections::VecDeque;

use forebay_wire::ids::Tick;
use forebay_wire::limits::FRAME_OVERHEAD_BYTES;
use forebay_wire::varint::len_u64;

use self::fit::{Fit, Point};
use crate::limits::{PROBES_BEST_MAX, PROBES_KEPT, PROBES_OUTSTANDING_MAX, PROBES_RECENT_MAX};
use crate::units::{Baud, EventTime, Mono, Now};

/// A gateway's clock that goes back by more than this was set, us; by less it is only
/// slewed, or read a moment late.
pub const CLOCK_SET_US: i64 = 100_000;
/// Residuals beyond so many sigmas are no noise.
const OUTLIER_SIGMAS: f64 = 5.0;
/// So many outliers in a row are a clock that jumped (a device that slept, a gateway that
/// was suspended): what was measured before says nothing any more.
const JUMP_PROBES: usize = 4;
/// Pause between the probes of an open session, us: no divisor of a second, so that
/// probes do not always meet the same periodic work on the device; and 61 times the 16 ms
/// of a USB latency timer and its golden part, so that they meet it evenly.
pub const PROBE_PAUSE_US: u64 = 982_112;
/// How fast the rate of a clock may change with its temperature: a crystal by 0.02 ppm
/// per s and 20 ppm in all, an RC oscillator by 6 ppm per s and 4,000 ppm. Far from any
/// probe the uncertainty grows by that.
const CRYSTAL_WANDER: Wander = Wander {
    per_us: 0.02e-12,
    most: 20e-6,
};
const RC_WANDER: Wander = Wander {
    per_us: 6e-12,
    most: 4_000e-6,
};
/// No crystal is further off its rate.
const CRYSTAL_MOST: f64 = 300e-6;
/// What is said of noise is more than what is computed: it is not normal.
const MARGIN: f64 = 1.25;
/// Part of a surprise that is left after the next probe.
const SURPRISE_KEPT: f64 = 0.9;
/// Delimiter and COBS code byte around a frame.
const LINE_OVERHEAD_BYTES: usize = FRAME_OVERHEAD_BYTES + 2;
/// Bits on the line for a byte: start, eight, stop.
const BITS_PER_BYTE: f64 = 10.0;
/// `u32::MAX` stands for a time that is not known at all.
const UNCERTAINTY_MAX: f64 = (u32::MAX - 1) as f64;

#[derive(Debug, Clone, Copy)]
struct Wander {
    /// Change of the rate in each us.
    per_us: f64,
    most: f64,
}

impl Wander {
    fn over(self, us: f64) -> f64 {
        us * (us * self.per_us / 2.0).min(self.most)
    }
}

/// What the clock of a device is like, for operators.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClockStats {
    /// Answered probes of this boot.
    pub samples: u64,
    /// Of the best probes, without the time on the wire.
    pub round_trip_us: u32,
    /// Of a reading that is taken now.
    pub uncertainty_us: u32,
    /// By how much the device's clock is fast.
    pub drift_ppm: f64,
}

/// The clock model of one device boot.
#[derive(Debug, Clone, Default)]
pub struct DeviceClock {
    baud: Option<Baud>,
    outstanding: VecDeque<(u32, Mono)>,
    next_id: u32,
    answered: u64,
    /// The first answered probe: points are relative to it, so that they are exact.
    origin: Option<(Tick, Mono)>,
    /// The best of each [`PROBES_KEPT`] that left `recent`.
    best: VecDeque<Point>,
    recent: VecDeque<Point>,
    /// The newest of `recent` that did not fit.
    outliers: usize,
    fit: Option<Fit>,
    /// By how much the fit was lately found to be wrong when a probe came, us; and by
    /// how much if an outlier was right.
    surprise: f64,
    suspected: f64,
    last: Option<Mapped>,
}

/// The largest tick that was mapped.
#[derive(Debug, Clone, Copy)]
struct Mapped {
    tick: Tick,
    /// Gateway's monotonic time since the origin, us.
    mono: i64,
    time: EventTime,
}

impl DeviceClock {
    /// The clock of a device that nothing is known of; `baud` paces its line.
    #[must_use]
    pub fn new(baud: Option<Baud>) -> Self {
        Self {
            baud,
            ..Self::default()
        }
    }

    /// The same device boot on another line, or on the same again.
    pub fn on_line(&mut self, baud: Option<Baud>) {
        self.baud = baud;
        self.outstanding.clear();
    }

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
        let total = now.0.checked_sub(asked.0);
        if let (Some(total), Some(held)) = (total, sent.0.checked_sub(received.0)) {
            self.answer(id, (asked, total), (received, held));
        }
    }

    fn answer(&mut self, id: u32, (asked, total): (Mono, u64), (received, held): (Tick, u64)) {
        // The device counted `held` by its own clock.
        let unpaced = total as f64 - held as f64 * (1.0 + self.slope());
        let (mut out, mut back) = self.on_the_wire(id, received, held);
        if unpaced * 2.0 < out + back {
            // Much faster than the line can be: its rate is only a number.
            self.baud = None;
            (out, back) = (0.0, 0.0);
        }
        // A us of rounding in each of two clocks.
        if unpaced < -2.0 {
            return;
        }
        let (tick0, mono0) = *self.origin.get_or_insert((received, asked));
        let since = |value: u64, origin: u64| value.wrapping_sub(origin).cast_signed() as f64;
        let device = since(received.0, tick0.0) + held as f64 / 2.0;
        let gateway = since(asked.0, mono0.0) + (total as f64 + out - back) / 2.0;
        self.answered += 1;
        self.take(Point {
            at: device,
            offset: gateway - device,
            round_trip: (unpaced - out - back).max(0.0),
        });
    }

    /// How long a probe and its answer are on a line of a known rate, us.
    fn on_the_wire(&self, id: u32, received: Tick, held: u64) -> (f64, f64) {
        let Some(Baud(baud)) = self.baud.filter(|baud| baud.0 > 0) else {
            return (0.0, 0.0);
        };
        let id = len_u64(u64::from(id));
        let us = |body: usize| {
            (LINE_OVERHEAD_BYTES + body) as f64 * BITS_PER_BYTE * 1e6 / f64::from(baud)
        };
        let sent = received.0 + held;
        (us(id), us(id + len_u64(received.0) + len_u64(sent)))
    }

    fn take(&mut self, point: Point) {
        if self.has_jumped(&point) {
            // The new point comes on top.
            self.recent.drain(..self.recent.len() + 1 - JUMP_PROBES);
            self.best.clear();
            self.outliers = 0;
            (self.surprise, self.suspected) = (0.0, 0.0);
        }
        if self.recent.len() == PROBES_RECENT_MAX {
            let oldest = self.recent.drain(..PROBES_KEPT);
            let best = oldest.min_by(|a, b| a.round_trip.total_cmp(&b.round_trip));
            self.best.extend(best);
            if self.best.len() > PROBES_BEST_MAX {
                self.best.pop_front();
            }
        }
        self.recent.push_back(point);
        self.refit();
    }

    /// Judges whether a new point lies where the fit says; true: one too many does not.
    fn has_jumped(&mut self, point: &Point) -> bool {
        let Some(fit) = self.fit else {
            return false;
        };
        let (offset, sigma) = fit.judge(point);
        let wrong = (offset - fit.offset_at(point.at)).abs();
        let doubt = fit.doubt_at(point.at) + self.wander(&fit, point.at);
        // A shorter round trip than ever shows what the longer ones were wrong by.
        let better = (fit.round_trip() - point.round_trip).max(0.0) / 2.0;
        let beyond = (wrong - 2.0 * sigma - doubt - better).max(0.0);
        self.suspected *= SURPRISE_KEPT;
        if beyond > OUTLIER_SIGMAS * (doubt + self.surprise) {
            self.outliers += 1;
            self.suspected = beyond;
        } else {
            // Those before it were mere outliers.
            self.recent.truncate(self.recent.len() - self.outliers);
            self.outliers = 0;
            self.surprise = (self.surprise * SURPRISE_KEPT).max(beyond);
        }
        self.outliers >= JUMP_PROBES
    }

    fn refit(&mut self) {
        let fits = self.recent.len() - self.outliers;
        let recent = self.recent.iter().take(fits);
        let points: Vec<Point> = self.best.iter().chain(recent).copied().collect();
        self.fit = Fit::through(&points, fits).or(self.fit);
    }

    /// Answered probes of this boot.
    #[must_use]
    pub fn samples(&self) -> usize {
        usize::try_from(self.answered).unwrap_or(usize::MAX)
    }

    /// What an operator is told; `None` before the first answered probe.
    #[must_use]
    pub fn stats(&self) -> Option<ClockStats> {
        let fit = self.fit?;
        Some(ClockStats {
            samples: self.answered,
            round_trip_us: whole(fit.round_trip()),
            uncertainty_us: whole(self.uncertainty(&fit, fit.to)),
            drift_ppm: -fit.slope() / (1.0 + fit.slope()) * 1e6,
        })
    }

    /// Event time of `tick` and the half width of its uncertainty in us; `None`
    /// before the first answered probe.
    pub fn map(&mut self, tick: Tick, now: Now) -> Option<(EventTime, u32)> {
        let fit = self.fit?;
        let (tick0, mono0) = self.origin?;
        let since = tick.0.wrapping_sub(tick0.0).cast_signed();
        let at = since as f64;
        let (offset, uncertainty) = self.place(&fit, at);
        let exact = since.saturating_add(rounded(offset));
        let mono = self.ascending(tick, exact);
        // From there to now, on the clock that both are read by.
        let ago = now.mono.0.wrapping_sub(mono0.0).cast_signed();
        let ago = ago.saturating_sub(mono);
        let there = EventTime(now.utc.0.saturating_sub(ago));
        let time = self.not_back(tick, there);
        if self.last.is_none_or(|last| tick >= last.tick) {
            self.last = Some(Mapped { tick, mono, time });
        }
        let moved = mono
            .abs_diff(exact)
            .saturating_add(time.0.abs_diff(there.0));
        Some((time, whole(uncertainty + moved as f64)))
    }

    /// The offset at a device time, and its uncertainty. Among probes from before the
    /// fit's window the nearest two say it better than a line through newer ones.
    fn place(&self, fit: &Fit, at: f64) -> (f64, f64) {
        if at < fit.from
            && let Some(next) = self.best.iter().position(|point| point.at >= at)
            && let Some(after) = self.best.get(next)
        {
            let before = next.checked_sub(1).and_then(|before| self.best.get(before));
            let (to, to_sigma) = fit.judge(after);
            let Some(before) = before else {
                let far = after.at - at;
                let doubt = 2.0 * to_sigma + fit.doubt_at(at) + self.wander_over(fit, far);
                return (to - fit.slope() * far, fit.round_trip() / 2.0 + doubt);
            };
            let (from, from_sigma) = fit.judge(before);
            let part = (at - before.at) / (after.at - before.at).max(1.0);
            let nearest = (after.at - at).min(at - before.at);
            let doubt = 2.0 * to_sigma.max(from_sigma) + self.wander_over(fit, nearest);
            return (from + (to - from) * part, fit.round_trip() / 2.0 + doubt);
        }
        (fit.offset_at(at), self.uncertainty(fit, at))
    }

    fn uncertainty(&self, fit: &Fit, at: f64) -> f64 {
        let noise = fit.doubt_at(at) + self.wander(fit, at) + self.surprise;
        fit.round_trip() / 2.0 + MARGIN * noise + self.suspected + 1.0
    }

    /// What the rate may have changed since the nearest point of the fit.
    fn wander(&self, fit: &Fit, at: f64) -> f64 {
        self.wander_over(fit, (at - fit.to).max(fit.from - at).max(0.0))
    }

    fn wander_over(&self, fit: &Fit, us: f64) -> f64 {
        if fit.slope().abs() > CRYSTAL_MOST {
            RC_WANDER.over(us)
        } else {
            CRYSTAL_WANDER.over(us)
        }
    }

    fn slope(&self) -> f64 {
        self.fit.map_or(0.0, |fit| fit.slope())
    }

    /// A later tick gets a later time: a better fit may lie behind the one before.
    fn ascending(&self, tick: Tick, mono: i64) -> i64 {
        self.last.map_or(mono, |last| match tick.cmp(&last.tick) {
            // Another channel, sampled a moment before.
            Ordering::Less => mono.min(last.mono.saturating_sub(1)),
            Ordering::Equal => last.mono,
            Ordering::Greater => mono.max(last.mono.saturating_add(1)),
        })
    }

    /// And so it stays while the gateway's clock is slewed, or read a moment late; one
    /// that was set is followed.
    fn not_back(&self, tick: Tick, time: EventTime) -> EventTime {
        let least = self.last.and_then(|last| match tick.cmp(&last.tick) {
            Ordering::Less => None,
            Ordering::Equal => Some(last.time.0),
            Ordering::Greater => Some(last.time.0.saturating_add(1)),
        });
        match least {
            Some(least) if least.saturating_sub(time.0) <= CLOCK_SET_US => {
                EventTime(time.0.max(least))
            }
            Some(_) | None => time,
        }
    }
}

/// Whole us, upwards; casts of floats saturate.
fn whole(us: f64) -> u32 {
    let cut = us.clamp(0.0, UNCERTAINTY_MAX);
    let down = cut as u32;
    if f64::from(down) < cut {
        down + 1
    } else {
        down
    }
}

/// The nearest whole number; casts of floats saturate.
fn rounded(us: f64) -> i64 {
    (if us < 0.0 { us - 0.5 } else { us + 0.5 }) as i64
}

#[cfg(test)]
mod tests;
