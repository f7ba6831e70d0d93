//! What the engine must reach, and how much it is given to see whether it does.

/// Rows per second of `forebay try` on one core.
pub(crate) const TRY_ROWS_PER_S_MIN: f64 = 2e6;
/// Other engines add doubles one after another: this far their mean may be off.
pub(crate) const PEER_MEAN_ERROR_MAX: f64 = 1e-9;
/// Devices of the file that `forebay try` reads.
pub(crate) const TRY_DEVICES: u64 = 100;

/// How much is given.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) try_rows: u64,
    /// Runs of `forebay try` and of DuckDB; the fastest counts.
    pub(crate) try_rounds: usize,
    /// Whether the engines that take minutes are run.
    pub(crate) slow_peers: bool,
}

impl Sizes {
    pub(crate) const FULL: Self = Self {
        try_rows: 5_000_000,
        try_rounds: 3,
        slow_peers: true,
    };
    /// To see that it runs: its figures say little.
    pub(crate) const QUICK: Self = Self {
        try_rows: 300_000,
        try_rounds: 1,
        slow_peers: false,
    };
}
