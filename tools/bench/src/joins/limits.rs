//! What joins must reach, and how much they are given to see whether they do.

/// Readings per second on one core.
pub(super) const LOOKUPS_PER_S_MIN: f64 = 1e6;
pub(super) const INTERVALS_PER_S_MIN: f64 = 5e5;
/// Rows of the table that is looked up.
pub(super) const TABLE_ROWS: usize = 100_000;
/// Keys of the interval join.
pub(super) const KEYS: usize = 10_000;
/// From the commit of a change to the row of the join that a local reader is given.
pub(super) const CHANGE_P99_MS_MAX: f64 = 250.0;
/// Changes of a database per second, to rows of a join.
pub(super) const CHANGES_PER_S_MIN: f64 = 20_000.0;

/// How much is given.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    /// Rounds of half a million readings; the median counts.
    pub(super) rounds: usize,
    /// Single changes whose way is timed.
    pub(super) single_changes: usize,
    /// Changes that are written at once.
    pub(super) changes: u64,
}

impl Sizes {
    pub(super) const FULL: Self = Self {
        rounds: 9,
        single_changes: 500,
        changes: 400_000,
    };
    /// To see that it runs: its figures say little.
    pub(super) const QUICK: Self = Self {
        rounds: 1,
        single_changes: 50,
        changes: 20_000,
    };
}
