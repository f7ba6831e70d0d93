//! Which of its two ways holds a probe up. A delay on the way back makes the gateway's
//! middle of a round trip late by half of it, one on the way out early. Where it is
//! always the same way, as behind the latency timer of a USB chip, the delay is known
//! and can be taken off; else it stays what the probe may be wrong by.

use super::fit::Point;

/// Noise of any stamp, us, and of the least round trip a part.
const STAMP_US: f64 = 5.0;
const FLOOR_PART: f64 = 1.0 / 16.0;
/// Points that it takes to tell.
const POINTS_MIN: usize = 8;
/// No delay is known better than to this part.
const KNOWN: f64 = 0.03;

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Lean {
    /// The least round trip, us.
    pub(super) floor: f64,
    /// The part of its delay by which a point is late, -0.5 to 0.5.
    late: f64,
    /// And how far a point may be off that.
    unknown: f64,
}

impl Lean {
    /// Told from the newest `recent` of the points; the floor is that of all.
    pub(super) fn of(points: &[Point], recent: usize) -> Self {
        let round_trips = points.iter().map(|point| point.round_trip);
        let even = Self {
            floor: round_trips.fold(f64::MAX, f64::min),
            late: 0.0,
            unknown: 0.5,
        };
        let newest = &points[points.len() - recent.min(points.len())..];
        if newest.len() < POINTS_MIN {
            return even;
        }
        even.told_by(newest).unwrap_or(even)
    }

    /// Least squares of `offset = a + b at + late delay`, the first two taken out of
    /// the others.
    fn told_by(self, points: &[Point]) -> Option<Self> {
        let weight = |point: &Point| 1.0 / (self.sigma(point) * self.sigma(point));
        let mean = |of: &dyn Fn(&Point) -> f64| {
            let weights: f64 = points.iter().map(weight).sum();
            points.iter().map(|p| weight(p) * of(p)).sum::<f64>() / weights
        };
        let centre = mean(&|p| p.at);
        let (offset, delay) = (mean(&|p| p.offset), mean(&|p| self.excess(p)));
        let along = mean(&|p| (p.at - centre) * (p.at - centre));
        if along <= 0.0 {
            return None;
        }
        let offset_slope = mean(&|p| (p.at - centre) * (p.offset - offset)) / along;
        let delay_slope = mean(&|p| (p.at - centre) * (self.excess(p) - delay)) / along;
        let offset_left = |p: &Point| p.offset - offset - offset_slope * (p.at - centre);
        let delay_left = |p: &Point| self.excess(p) - delay - delay_slope * (p.at - centre);
        let delays = mean(&|p| delay_left(p) * delay_left(p));
        if delays <= 0.0 {
            return None;
        }
        let late = mean(&|p| delay_left(p) * offset_left(p)) / delays;
        let late = late.clamp(-0.5, 0.5);
        let unknown = mean(&|p| {
            let left = offset_left(p) - late * delay_left(p);
            left * left
        });
        let unknown = (unknown / delays).sqrt();
        Some(Self {
            late,
            unknown: unknown.clamp(KNOWN, 0.5),
            ..self
        })
    }

    fn excess(&self, point: &Point) -> f64 {
        (point.round_trip - self.floor).max(0.0)
    }

    /// A point's offset without the delay that is known.
    pub(super) fn offset(&self, point: &Point) -> f64 {
        point.offset - self.late * self.excess(point)
    }

    /// What is left of its delay, us.
    pub(super) fn delay(&self, point: &Point) -> f64 {
        self.unknown * self.excess(point)
    }

    /// How far a point may be off by itself.
    pub(super) fn sigma(&self, point: &Point) -> f64 {
        STAMP_US + self.floor * FLOOR_PART + self.delay(point)
    }
}
