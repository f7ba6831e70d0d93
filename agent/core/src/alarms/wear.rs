//! What is written to the card: in all the life of the log, and per day of late. The
//! system's own count is taken where there is one: it has what the file system adds for
//! this process. Without it, what core gave to the store and what was sealed.
//!
//! Bound: [`HOURS_KEPT`] sums of an hour. Knows no disk.
//!
//! | meta key | value |
//! |---|---|
//! | `wear` | version u8 = 1; bytes written so far, varint; CRC-32C |

use std::collections::VecDeque;

use crate::log::bytes::put_varint;
use crate::meta::{Entry, checked, with_crc};
use crate::units::Mono;

/// Meta key of what was written.
const WEAR_META_KEY: &[u8] = b"wear";
const VERSION: u8 = 1;
/// Sums of an hour that the rate per day is made of, beside the one that runs.
const HOURS_KEPT: usize = 23;
const HOUR_US: u64 = 3_600_000_000;
const DAY_US: u64 = 24 * HOUR_US;
/// A year, as a card's life is counted.
const DAYS_PER_YEAR: u64 = 365;

/// See the module.
#[derive(Debug, Clone)]
pub struct Wear {
    /// In the life of the log.
    total: u64,
    /// Of this run, by the system's count.
    measured: Option<u64>,
    hours: VecDeque<u64>,
    this_hour: u64,
    began: Mono,
    kept: u64,
}

impl Wear {
    /// As the log keeps it.
    #[must_use]
    pub fn restore(meta: &[Entry], now: Mono) -> Self {
        let entry = meta.iter().find(|(key, _)| key == WEAR_META_KEY);
        let total = entry.and_then(|(_, value)| checked(VERSION, value)?.varint().ok());
        let total = total.unwrap_or(0);
        Self {
            total,
            measured: None,
            hours: VecDeque::new(),
            this_hour: 0,
            began: now,
            kept: total,
        }
    }

    /// The store was given, or has written anew, so much.
    pub fn on_written(&mut self, bytes: u64) {
        if self.measured.is_none() {
            self.add(bytes);
        }
    }

    /// So much this process has had written since its start, by the system's count.
    pub fn on_measured(&mut self, bytes: u64) {
        let before = self.measured.replace(bytes).unwrap_or(0);
        self.add(bytes.saturating_sub(before));
    }

    fn add(&mut self, bytes: u64) {
        self.total = self.total.saturating_add(bytes);
        self.this_hour = self.this_hour.saturating_add(bytes);
    }

    /// Lets hours pass; the entry to keep where one has.
    pub fn on_time(&mut self, now: Mono) -> Option<Entry> {
        let mut passed = false;
        while now.0.saturating_sub(self.began.0) >= HOUR_US {
            if self.hours.len() == HOURS_KEPT {
                self.hours.pop_front();
            }
            self.hours.push_back(std::mem::take(&mut self.this_hour));
            self.began = Mono(self.began.0 + HOUR_US);
            passed = true;
        }
        if passed { self.entry() } else { None }
    }

    /// The entry to keep, where something was written since.
    pub fn entry(&mut self) -> Option<Entry> {
        if self.total == self.kept {
            return None;
        }
        self.kept = self.total;
        let mut value = vec![VERSION];
        put_varint(&mut value, self.total);
        Some((WEAR_META_KEY.to_vec(), with_crc(value)))
    }

    /// In the life of the log.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.total
    }

    /// Whether the system counts.
    #[must_use]
    pub fn is_measured(&self) -> bool {
        self.measured.is_some()
    }

    /// What a day of the last 24 hours takes; `None` in the first hour.
    #[must_use]
    pub fn per_day(&self, now: Mono) -> Option<u64> {
        if self.hours.is_empty() {
            return None;
        }
        let sum: u64 = self.hours.iter().sum::<u64>() + self.this_hour;
        let running = now.0.saturating_sub(self.began.0);
        let elapsed = self.hours.len() as u64 * HOUR_US + running;
        let day = u128::from(sum) * u128::from(DAY_US) / u128::from(elapsed.max(1));
        Some(u64::try_from(day).unwrap_or(u64::MAX))
    }

    /// Days that a card of this endurance lasts at that rate; `None` while the rate is not
    /// known, or nothing is written.
    #[must_use]
    pub fn days_left(&self, endurance_bytes: u64, now: Mono) -> Option<u64> {
        let left = endurance_bytes.saturating_sub(self.total);
        left.checked_div(self.per_day(now)?)
    }
}

/// Years of so many days, to a tenth.
#[must_use]
pub(super) fn years(days: u64) -> f64 {
    (days as f64 * 10.0 / DAYS_PER_YEAR as f64).round() / 10.0
}

/// Days of so many years.
#[must_use]
pub(super) fn days(years: u64) -> u64 {
    years.saturating_mul(DAYS_PER_YEAR)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hour(n: u64) -> Mono {
        Mono(n * HOUR_US)
    }

    #[test]
    fn a_day_is_known_after_the_first_hour() {
        let mut wear = Wear::restore(&[], hour(0));
        wear.on_written(1000);
        assert_eq!(wear.on_time(Mono(HOUR_US - 1)), None);
        assert_eq!(wear.per_day(Mono(HOUR_US - 1)), None);
        assert!(wear.on_time(hour(1)).is_some(), "to keep");
        assert_eq!(wear.per_day(hour(1)), Some(24_000));
        wear.on_written(1000);
        assert_eq!(wear.per_day(hour(2)), Some(24_000));
        assert_eq!(wear.on_time(hour(1)), None, "no hour has passed since");
    }

    #[test]
    fn the_last_day_counts() {
        let mut wear = Wear::restore(&[], hour(0));
        for n in 1..=(HOURS_KEPT as u64 + 30) {
            wear.on_written(if n < 20 { 1_000_000 } else { 100 });
            wear.on_time(hour(n));
        }
        let now = hour(HOURS_KEPT as u64 + 30);
        assert_eq!(wear.hours.len(), HOURS_KEPT);
        assert_eq!(wear.per_day(now), Some(2400));
        assert_eq!(wear.total_bytes(), 19 * 1_000_000 + 34 * 100);
    }

    #[test]
    fn the_count_of_the_system_takes_the_place_of_our_own() {
        let mut wear = Wear::restore(&[], hour(0));
        wear.on_written(10);
        wear.on_measured(500);
        wear.on_written(10);
        wear.on_measured(700);
        assert_eq!((wear.total_bytes(), wear.is_measured()), (710, true));
    }

    #[test]
    fn what_was_written_outlives_a_restart() {
        let mut wear = Wear::restore(&[], hour(0));
        wear.on_written(12_345);
        let entry = wear.entry().expect("something was written");
        assert_eq!(wear.entry(), None, "kept already");
        let again = Wear::restore(std::slice::from_ref(&entry), hour(9));
        assert_eq!(again.total_bytes(), 12_345);
        let damaged = (entry.0, entry.1[1..].to_vec());
        assert_eq!(Wear::restore(&[damaged], hour(9)).total_bytes(), 0);
    }

    #[test]
    fn a_card_lasts_as_long_as_what_is_left_of_it() {
        let mut wear = Wear::restore(&[], hour(0));
        wear.on_written(1000);
        wear.on_time(hour(1));
        assert_eq!(wear.days_left(1000 + 24_000 * 365, hour(1)), Some(365));
        assert_eq!(wear.days_left(999, hour(1)), Some(0));
        assert_eq!((years(365), years(912), days(5)), (1.0, 2.5, 1825));
    }
}
