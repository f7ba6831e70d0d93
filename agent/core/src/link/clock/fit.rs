//! A line through answered probes: how far the gateway's monotonic clock is ahead of
//! the device's ticks, and how fast that changes.
//!
//! Weighted least squares over the newest points. Of the windows in [`WINDOWS`] it takes
//! the longest that agrees with all shorter ones (Lepski's rule): a steady clock is
//! averaged over minutes, one that wanders with its temperature only over as long as it
//! ran straight. Plain IEEE arithmetic and its square root, so the same everywhere.
//! Bound: the points that it is given. Knows no probes and no UTC.

use super::lean::Lean;

/// Lengths that are tried, in points; all points are the last.
const WINDOWS: [usize; 8] = [4, 6, 8, 12, 16, 24, 32, 48];
/// A longer window agrees with a shorter one within so many of its standard errors, and
/// so many us of rounding.
const AGREES_SIGMAS: f64 = 2.5;
const AGREES_US: f64 = 1.0;
/// What is known of a clock before it is measured: crystals are within so much of their
/// rate (one sigma, 50 ppm). A rate that is measured to be further off is believed.
const CRYSTAL: f64 = 50e-6;
const BELIEVED_SIGMAS: f64 = 3.0;
/// The windows are compared where readings will be mapped: a probe's pause ahead, us.
const AHEAD_US: f64 = 1_000_000.0;

/// One answered probe, relative to some reference point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    /// Device time, us.
    pub(super) at: f64,
    /// Gateway's time less the device's, us.
    pub(super) offset: f64,
    /// Round trip without the time on the wire, us.
    pub(super) round_trip: f64,
}

/// The line through the points of one window.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Line {
    /// Where the points lie in the mean.
    centre: f64,
    offset: f64,
    slope: f64,
    /// Standard errors of `offset` and `slope`.
    offset_sigma: f64,
    slope_sigma: f64,
    /// What held the points up, in the mean: it adds to an error where noise cancels.
    delays: f64,
}

/// See the module. All figures in us, `slope` in us per us of the device's clock.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Fit {
    line: Line,
    /// The next shorter window: more noise, less of what the clock did before.
    shorter: Option<Line>,
    lean: Lean,
    /// The oldest and the newest point of the window.
    pub(super) from: f64,
    pub(super) to: f64,
}

impl Fit {
    /// The fit through `points`, oldest first; `None` when there are none. The way that
    /// holds probes up is told from the newest `recent`.
    pub(super) fn through(points: &[Point], recent: usize) -> Option<Self> {
        let newest = points.last()?;
        let lean = Lean::of(points, recent);
        let ahead = newest.at + AHEAD_US;
        let whole = [points.len()];
        let lengths = WINDOWS.iter().filter(|n| **n < points.len()).chain(&whole);
        let mut chosen: Option<Fit> = None;
        // What all windows so far agree on.
        let (mut low, mut high) = (f64::MIN, f64::MAX);
        for length in lengths {
            let window = &points[points.len() - length..];
            let line = Line::through(window, &lean);
            let there = line.offset_at(ahead);
            if chosen.is_some() && !(low..=high).contains(&there) {
                break;
            }
            let margin = line.doubt_at(ahead) + AGREES_US;
            low = low.max(there - margin);
            high = high.min(there + margin);
            chosen = Some(Fit {
                line,
                shorter: chosen.map(|shorter| shorter.line),
                lean,
                from: window.first().map_or(newest.at, |point| point.at),
                to: newest.at,
            });
        }
        chosen
    }

    pub(super) fn slope(&self) -> f64 {
        self.line.slope
    }

    /// The gateway's time less the device's when that is `at`.
    pub(super) fn offset_at(&self, at: f64) -> f64 {
        self.line.offset_at(at)
    }

    /// How far [`Fit::offset_at`] may be off by noise and by what the clock does.
    pub(super) fn doubt_at(&self, at: f64) -> f64 {
        match &self.shorter {
            None => self.line.doubt_at(at),
            Some(shorter) => {
                let apart = self.line.offset_at(at) - shorter.offset_at(at);
                apart.abs() + shorter.doubt_at(at)
            }
        }
    }

    /// A point's offset, rid of what held it up, and its own uncertainty.
    pub(super) fn judge(&self, point: &Point) -> (f64, f64) {
        (self.lean.offset(point), self.lean.sigma(point))
    }

    /// The least round trip of all points. Half of it may be the error of all, however
    /// many they are: the way out may be shorter than the way back.
    pub(super) fn round_trip(&self) -> f64 {
        self.lean.floor
    }
}

impl Line {
    fn through(points: &[Point], lean: &Lean) -> Self {
        let weight = |point: &Point| {
            let sigma = lean.sigma(point);
            1.0 / (sigma * sigma)
        };
        let mut sums = [0.0; 4];
        for point in points {
            let terms = [1.0, point.at, lean.offset(point), lean.delay(point)];
            for (sum, term) in sums.iter_mut().zip(terms) {
                *sum += weight(point) * term;
            }
        }
        let [weights, ..] = sums;
        let [_, centre, offset, delays] = sums.map(|sum| sum / weights);
        let (mut across, mut along) = (0.0, 0.0);
        for point in points {
            let x = point.at - centre;
            along += weight(point) * x * x;
            across += weight(point) * x * (lean.offset(point) - offset);
        }
        let spread = along > 0.0;
        let slope = if spread { across / along } else { 0.0 };
        let residuals = points.iter().map(|point| {
            let residual = lean.offset(point) - offset - slope * (point.at - centre);
            weight(point) * residual * residual
        });
        let freedom = points.len().saturating_sub(2).max(1) as f64;
        // Points that lie better than their weights say prove nothing.
        let scale = (residuals.sum::<f64>() / freedom).max(1.0);
        let slope_sigma = spread.then(|| (scale / along).sqrt());
        let (slope, slope_sigma) = with_crystal(slope, slope_sigma);
        Self {
            centre,
            offset,
            slope,
            offset_sigma: (scale / weights).sqrt(),
            slope_sigma,
            delays,
        }
    }

    fn offset_at(&self, at: f64) -> f64 {
        self.offset + self.slope * (at - self.centre)
    }

    fn doubt_at(&self, at: f64) -> f64 {
        let of_slope = self.slope_sigma * (at - self.centre);
        let sigma = (self.offset_sigma * self.offset_sigma + of_slope * of_slope).sqrt();
        AGREES_SIGMAS * sigma + self.delays
    }
}

/// The measured slope together with what is known of crystals, unless it is none.
fn with_crystal(slope: f64, sigma: Option<f64>) -> (f64, f64) {
    let Some(sigma) = sigma else {
        return (0.0, CRYSTAL);
    };
    let (measured, known) = (sigma * sigma, CRYSTAL * CRYSTAL);
    if slope * slope > BELIEVED_SIGMAS * BELIEVED_SIGMAS * (measured + known) {
        return (slope, sigma);
    }
    let share = known / (known + measured);
    (slope * share, sigma * share.sqrt())
}
