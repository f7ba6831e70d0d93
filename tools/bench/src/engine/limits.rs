//! What the engine must reach, and how much it is given to see whether it does.

/// Readings per second in memory.
pub(crate) const TUMBLING_PER_S_MIN: f64 = 5e6;
pub(crate) const SLIDING_PER_S_MIN: f64 = 2e6;
pub(crate) const RANKED_PER_S_MIN: f64 = 1e6;
/// Cost of a reading over that of the cheapest, over series and over windows.
pub(crate) const FLAT_MAX: f64 = 1.5;
/// Slowest of a thousand updates over the median.
pub(crate) const PAUSE_RATIO_MAX: f64 = 5.0;
/// Readings in the windows whose updates are timed.
pub(crate) const PAUSE_READINGS: [u64; 2] = [1_000, 1_000_000];
/// Per series and window, beyond the tail.
pub(crate) const STATE_BYTES_MAX: f64 = 128.0;
/// Of the time per reading.
pub(crate) const CHECKPOINT_SHARE_MAX: f64 = 0.05;
/// Rows per second of `forebay try` on one core.
pub(crate) const TRY_ROWS_PER_S_MIN: f64 = 2e6;
/// Other engines add doubles one after another: this far their mean may be off.
pub(crate) const PEER_MEAN_ERROR_MAX: f64 = 1e-9;
/// Devices of the file that `forebay try` reads.
pub(crate) const TRY_DEVICES: u64 = 100;

/// How much is given.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    /// Rounds of half a million readings; the median counts.
    pub(crate) rounds: usize,
    /// Readings that DuckDB is given.
    pub(crate) peer_readings: usize,
    /// Windows are filled this far before they count, s.
    pub(crate) window_s_max: i64,
    /// Updates that are timed.
    pub(crate) updates: usize,
    /// Readings that a window may hold in this run.
    pub(crate) pause_readings_max: u64,
    /// How long the engine runs with checkpoints.
    pub(crate) checkpoint_s: f64,
    /// Slides of the window whose means are judged.
    pub(crate) slides: u64,
    pub(crate) try_rows: u64,
    /// Runs of `forebay try` and of DuckDB; the fastest counts.
    pub(crate) try_rounds: usize,
    /// Whether the engines that take minutes are run.
    pub(crate) slow_peers: bool,
}

impl Sizes {
    pub(crate) const FULL: Self = Self {
        rounds: 9,
        peer_readings: 5_000_000,
        window_s_max: 86_400,
        updates: 1_000_000,
        pause_readings_max: 1_000_000,
        checkpoint_s: 10.0,
        slides: 100_000_000,
        try_rows: 5_000_000,
        try_rounds: 3,
        slow_peers: true,
    };
    /// To see that it runs: its figures say little.
    pub(crate) const QUICK: Self = Self {
        rounds: 1,
        peer_readings: 300_000,
        window_s_max: 3_600,
        updates: 50_000,
        pause_readings_max: 1_000,
        checkpoint_s: 0.5,
        slides: 1_000_000,
        try_rows: 300_000,
        try_rounds: 1,
        slow_peers: false,
    };
}
