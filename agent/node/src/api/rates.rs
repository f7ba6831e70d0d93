//! How many requests a client makes: a bucket of tokens per address, refilled at the
//! rate of the config.
//!
//! Always holds: a client gets at most [`BURST_S`] seconds' worth at once and the rate
//! after that. Bound: [`CLIENTS_MAX`] buckets; beyond, those that are full again go
//! first, then the one that was used longest ago. Knows no clock.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use super::limits::{BURST_S, CLIENTS_MAX};

/// Who asks, as far as requests are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Client {
    /// Over the Unix socket.
    Local,
    /// Of an IPv6 address its first half: the rest a client chooses itself.
    Ip(IpAddr),
}

impl Client {
    pub(super) fn of(ip: IpAddr) -> Self {
        match ip.to_canonical() {
            IpAddr::V6(v6) if !v6.is_loopback() => {
                let half = u128::from(v6) & !u128::from(u64::MAX);
                Self::Ip(IpAddr::V6(half.into()))
            }
            ip @ (IpAddr::V4(_) | IpAddr::V6(_)) => Self::Ip(ip),
        }
    }
}

/// Parts of a request: the refill of one nanosecond at a rate of one per second.
const PARTS: u64 = 1_000_000_000;

#[derive(Debug)]
struct Bucket {
    parts: u64,
    at: Duration,
}

/// The buckets of all clients.
#[derive(Debug)]
pub(super) struct Rates {
    per_s: u64,
    buckets: BTreeMap<Client, Bucket>,
}

impl Rates {
    pub(super) fn new(per_s: u32) -> Self {
        Self {
            per_s: u64::from(per_s.max(1)),
            buckets: BTreeMap::new(),
        }
    }

    fn full(&self) -> u64 {
        self.per_s * u64::from(BURST_S) * PARTS
    }

    /// Takes one request of `client` at a time that never goes back.
    ///
    /// # Errors
    /// How long until there is one.
    pub(super) fn take(&mut self, client: Client, now: Duration) -> Result<(), Duration> {
        let (full, per_s) = (self.full(), self.per_s);
        if self.buckets.len() >= CLIENTS_MAX && !self.buckets.contains_key(&client) {
            self.make_room(now);
        }
        let fresh = Bucket {
            parts: full,
            at: now,
        };
        let bucket = self.buckets.entry(client).or_insert(fresh);
        bucket.refill(now, per_s, full);
        if let Some(left) = bucket.parts.checked_sub(PARTS) {
            bucket.parts = left;
            return Ok(());
        }
        Err(Duration::from_nanos((PARTS - bucket.parts).div_ceil(per_s)))
    }

    fn make_room(&mut self, now: Duration) {
        let (full, per_s) = (self.full(), self.per_s);
        self.buckets.retain(|_, bucket| {
            bucket.refill(now, per_s, full);
            bucket.parts < full
        });
        if self.buckets.len() >= CLIENTS_MAX {
            // All were used a moment ago: the one nearest to full loses least.
            let most = self.buckets.iter().max_by_key(|(_, bucket)| bucket.parts);
            if let Some(client) = most.map(|(client, _)| *client) {
                self.buckets.remove(&client);
            }
        }
    }
}

impl Bucket {
    fn refill(&mut self, now: Duration, per_s: u64, full: u64) {
        let passed = now.saturating_sub(self.at).as_nanos();
        let passed = u64::try_from(passed).unwrap_or(u64::MAX);
        self.parts = passed
            .saturating_mul(per_s)
            .saturating_add(self.parts)
            .min(full);
        self.at = self.at.max(now);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn v4(n: u32) -> Client {
        Client::of(IpAddr::V4(Ipv4Addr::from(n)))
    }

    #[test]
    fn a_burst_and_then_the_rate() {
        let mut rates = Rates::new(10);
        let burst = 10 * BURST_S;
        for n in 0..burst {
            assert_eq!(rates.take(Client::Local, SECOND), Ok(()), "{n}");
        }
        let wait = rates.take(Client::Local, SECOND).expect_err("one more");
        assert_eq!(wait, Duration::from_millis(100));
        let nearly = SECOND + wait - Duration::from_nanos(1);
        assert!(rates.take(Client::Local, nearly).is_err());
        assert_eq!(rates.take(Client::Local, SECOND + wait), Ok(()));
        assert!(rates.take(Client::Local, SECOND + wait).is_err());
        assert_eq!(rates.take(v4(1), SECOND), Ok(()), "others have their own");
    }

    #[test]
    fn a_bucket_fills_up_to_its_burst_only() {
        let mut rates = Rates::new(1);
        rates.take(v4(1), Duration::ZERO).unwrap();
        let later = Duration::from_secs(1_000_000_000);
        for _ in 0..BURST_S {
            assert_eq!(rates.take(v4(1), later), Ok(()));
        }
        assert_eq!(rates.take(v4(1), later), Err(SECOND));
    }

    #[test]
    fn clients_are_counted_up_to_the_limit() {
        let mut rates = Rates::new(1);
        for (n, want) in [
            (CLIENTS_MAX - 1, CLIENTS_MAX - 1),
            (CLIENTS_MAX, CLIENTS_MAX),
            (CLIENTS_MAX + 1, CLIENTS_MAX),
        ] {
            for client in 0..u32::try_from(n).unwrap() {
                let _ = rates.take(v4(client), SECOND);
            }
            assert_eq!(rates.buckets.len(), want, "{n}");
        }
        rates.take(v4(9_999_999), 10 * SECOND).unwrap();
        assert_eq!(rates.buckets.len(), 1, "all others were full again");
    }

    #[test]
    fn one_client_has_one_bucket_for_all_its_addresses() {
        let of = |text: &str| Client::of(text.parse::<IpAddr>().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
        assert_eq!(of("::1"), Client::Ip(IpAddr::V6(Ipv6Addr::LOCALHOST)));
    }
}
