//! What queries must reach, and how much they are given to see whether they do.

use std::time::Duration;

/// From the moment at which a query was due to its answer.
pub(super) const ROLLING_P99_MS_MAX: f64 = 5.0;
pub(super) const ROLLUPS_MS_MAX: f64 = 50.0;
pub(super) const RAW_MS_MAX: f64 = 200.0;
pub(super) const OVERTIME_MS_MAX: f64 = 500.0;
/// From exec to the first 200 of `/readyz`, with an empty log.
pub(super) const START_MS_MAX: f64 = 300.0;
pub(super) const RSS_MB_MAX: f64 = 40.0;

/// Devices of the fleet, as many channels as a device can have, and readings per second
/// of each channel: 10,016 series with 100,160 readings per second in all.
pub(super) const DEVICES: usize = 313;
pub(super) const CHANNELS: usize = 32;
pub(super) const HZ: f64 = 10.0;
/// What of that must come in for the figure to count.
pub(super) const READINGS_PER_S_MIN: f64 = 100_000.0;
/// Rolling queries that are due per second, on so many connections.
pub(super) const QUERIES_PER_S: f64 = 200.0;
pub(super) const CONNECTIONS: usize = 4;
/// How late devices get a processor, as `nice` counts: they stand for other computers.
pub(super) const FLEET_NICE: i32 = 5;

/// Series that are asked for together, of rollups and of PromQL.
pub(super) const ROLLUP_SERIES: usize = 10;
/// Processes whose first question finds nothing in the system's cache.
pub(super) const COLD_REPEATS: usize = 5;
pub(super) const OVERTIME_SERIES: usize = 100;
/// Devices of the wide log, ten channels each.
pub(super) const WIDE_DEVICES: usize = 1_000;
pub(super) const WIDE_CHANNELS: usize = 10;
pub(super) const RAW_HZ: u64 = 100;

/// Devices whose page is looked at, and readings per second of all of them; how much faster
/// than the clock their hour goes.
pub(super) const PAGE_DEVICES: usize = 200;
pub(super) const PAGE_READINGS_PER_S: f64 = 100.0;
pub(super) const SPEED: f64 = 10.0;

/// Of a start, of a drain, of a log that is read to its end.
pub(super) const PATIENCE: Duration = Duration::from_secs(600);

/// How much is given.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    /// How long the fleet runs before anything is asked, and while it is.
    pub(super) warm_up: Duration,
    pub(super) measured: Duration,
    /// The same question, one after another; the slowest counts.
    pub(super) repeats: usize,
    pub(super) starts: usize,
    /// Hours of data in the prepared logs.
    pub(super) hours: u64,
    /// Of the page.
    pub(super) hour: Duration,
}

impl Sizes {
    pub(super) const FULL: Self = Self {
        warm_up: Duration::from_secs(70),
        measured: Duration::from_secs(60),
        repeats: 20,
        starts: 10,
        hours: 24,
        hour: Duration::from_secs(3_600),
    };
    /// To see that it runs: its figures say little.
    pub(super) const QUICK: Self = Self {
        warm_up: Duration::from_secs(10),
        measured: Duration::from_secs(10),
        repeats: 5,
        starts: 3,
        hours: 2,
        hour: Duration::from_secs(300),
    };
}
