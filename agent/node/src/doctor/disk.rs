//! How long the disk below a folder takes to make a write durable, measured.
//!
//! Always holds: the file that is written has no name, so nothing is left behind. Bound:
//! SYNCS_MAX writes, or the time that is given.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::limits::{SYNC_BYTES, SYNCS_MAX};

/// Times of some writes with a sync each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SyncTimes {
    pub count: usize,
    pub median: Duration,
    pub p99: Duration,
    pub max: Duration,
}

impl SyncTimes {
    /// Of some times; `None` of none.
    #[must_use]
    pub fn of(mut times: Vec<Duration>) -> Option<Self> {
        times.sort_unstable();
        let last = times.len().checked_sub(1)?;
        Some(Self {
            count: times.len(),
            median: times[last / 2],
            p99: times[(last * 99).div_ceil(100)],
            max: times[last],
        })
    }

    /// In microseconds.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        json!({
            "count": self.count,
            "median": us(self.median),
            "p99": us(self.p99),
            "max": us(self.max),
        })
    }
}

/// Writes a page at the end of a file and syncs it, again and again, as the log does,
/// for at most `limit`.
///
/// # Errors
/// When the system refuses.
pub fn measure(folder: &Path, limit: Duration) -> io::Result<SyncTimes> {
    let mut file: File = tempfile::tempfile_in(folder)?;
    let page = [0x5a_u8; SYNC_BYTES];
    let started = Instant::now();
    let mut times = Vec::new();
    while times.is_empty() || (times.len() < SYNCS_MAX && started.elapsed() < limit) {
        file.write_all(&page)?;
        let since = Instant::now();
        file.sync_data()?;
        times.push(since.elapsed());
    }
    SyncTimes::of(times).ok_or_else(|| io::Error::other("no write was timed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_some_times() {
        assert_eq!(SyncTimes::of(Vec::new()), None);
        for (name, count, median, p99) in [
            ("one", 1, 1, 1),
            ("two", 2, 1, 2),
            ("a hundred", 100, 50, 100),
            ("a thousand", 1000, 500, 991),
        ] {
            let times = (1..=count).rev().map(Duration::from_micros).collect();
            let figures = SyncTimes::of(times).unwrap();
            let us = Duration::from_micros;
            assert_eq!(
                (figures.median, figures.p99),
                (us(median), us(p99)),
                "{name}"
            );
            assert_eq!(figures.max, us(count), "{name}");
        }
    }

    #[test]
    fn a_measurement_leaves_nothing_and_takes_no_longer_than_it_may() {
        let dir = tempfile::tempdir().unwrap();
        let figures = measure(dir.path(), Duration::ZERO).unwrap();
        assert_eq!(figures.count, 1, "at least one, however short the time");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        assert!(measure(&dir.path().join("no"), Duration::ZERO).is_err());
    }
}
