//! Where hopping windows and their panes start. Knows nothing of what is in them.

use crate::units::Span;

/// The grid of the windows. All arithmetic stays in i64, see
/// [`crate::limits::EVENT_TIME_MAX`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Grid {
    pub(super) size: i64,
    pub(super) hop: i64,
    offset: i64,
    pane: i64,
}

impl Grid {
    pub(super) fn new(size: Span, hop: Span, offset: Span) -> Self {
        Self {
            size: size.0,
            hop: hop.0,
            offset: offset.0,
            pane: common_divisor(size.0, hop.0),
        }
    }

    /// Start of the pane that holds a time. The hop is a multiple of the pane, so
    /// every window starts and ends with one.
    pub(super) fn pane_of(self, time: i64) -> i64 {
        time - (time - self.offset).rem_euclid(self.pane)
    }

    /// Start of the last window that starts at or before a time.
    pub(super) fn last_start(self, time: i64) -> i64 {
        time - (time - self.offset).rem_euclid(self.hop)
    }

    /// Starts of the windows over a pane, ascending; none between long hops.
    pub(super) fn starts_over(self, pane: i64) -> impl Iterator<Item = i64> {
        self.starts_from(pane, i64::MIN)
    }

    /// The same from a start on.
    pub(super) fn starts_from(self, pane: i64, from: i64) -> impl Iterator<Item = i64> {
        let last = self.last_start(pane);
        // The first window that ends after the pane's start.
        let first = self.last_start(pane - self.size) + self.hop;
        let step = usize::try_from(self.hop).unwrap_or(usize::MAX);
        (first.max(from)..=last).step_by(step)
    }
}

fn common_divisor(mut a: i64, mut b: i64) -> i64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_over_a_time() {
        for (name, (size, hop, offset), time, want) in [
            ("tumble", (10, 10, 0), -1, vec![-10]),
            ("twice", (20, 10, 0), 10, vec![0, 10]),
            ("no multiple", (5, 2, 0), 4, vec![0, 2, 4]),
            ("offset", (10, 5, 1), 0, vec![-9, -4]),
            ("long hop, inside", (5, 20, 0), 24, vec![20]),
            ("long hop, between", (5, 20, 0), 25, vec![]),
        ] {
            let grid = Grid::new(Span(size), Span(hop), Span(offset));
            let starts: Vec<i64> = grid.starts_over(grid.pane_of(time)).collect();
            assert_eq!(starts, want, "{name}");
        }
    }
}
