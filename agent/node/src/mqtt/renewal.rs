//! Whether the files of TLS have changed since a connection was made with them, and
//! whether our certificate ends soon.
//!
//! Always holds: a connection is left only for files that can be used; what is said
//! is said once. Knows no connection.

use super::client::{self, MqttConfig};
use super::limits::CERTIFICATE_DAYS_LEFT;
use super::security::{LocalClock, Material, Validity, own_times, time_text};

const DAY_S: u64 = 24 * 3600;

/// What a look at the files came to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// The files are others, and can be used.
    pub(super) renew: bool,
    /// For the operator.
    pub(super) notes: Vec<String>,
}

/// Remembers what was said.
#[derive(Debug)]
pub(super) struct Renewal {
    config: MqttConfig,
    days_left: Option<u64>,
    unfit: Option<String>,
}

impl Renewal {
    pub(super) fn new(config: MqttConfig) -> Self {
        Self {
            config,
            days_left: None,
            unfit: None,
        }
    }

    /// Reads all that a connection needs, on a thread that may wait for a disk.
    pub(super) async fn load(&self) -> Result<Material, String> {
        let config = self.config.clone();
        let loaded = tokio::task::spawn_blocking(move || Material::load(&config)).await;
        match loaded {
            Ok(material) => material.map_err(|error| error.to_string()),
            Err(error) => Err(format!("reading the files of TLS broke: {error}")),
        }
    }

    /// Looks at the files that a standing connection was made with.
    pub(super) async fn look(&mut self, material: &Material) -> Seen {
        let mut seen = Seen::default();
        let validity = material.validity();
        let note = validity.and_then(|v| self.on_validity(v, client::local_clock()));
        seen.notes.extend(note);
        if !material.is_outdated() {
            return seen;
        }
        match self.load().await {
            Ok(_) => seen.renew = true,
            // Perhaps half of a change; the connection stands as it is.
            Err(reason) if self.unfit.as_ref() == Some(&reason) => {}
            Err(reason) => {
                let text = format!("files of TLS have changed and cannot be used: {reason}");
                seen.notes.push(text);
                self.unfit = Some(reason);
            }
        }
        seen
    }

    /// What is to be said of our certificate now: once a day when it ends soon.
    fn on_validity(&mut self, validity: Validity, clock: LocalClock) -> Option<String> {
        let end = validity.not_after.as_secs();
        let days = end.saturating_sub(clock.now.as_secs()) / DAY_S;
        if days >= CERTIFICATE_DAYS_LEFT || self.days_left == Some(days) {
            return None;
        }
        self.days_left = Some(days);
        Some(own_times(validity, clock).unwrap_or_else(|| {
            let until = time_text(validity.not_after);
            format!("our certificate (cert_file) ends at {until}, in {days} days: renew it")
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustls::pki_types::UnixTime;

    use super::*;

    fn at(seconds: u64) -> UnixTime {
        UnixTime::since_unix_epoch(Duration::from_secs(seconds))
    }

    #[test]
    fn a_certificate_that_ends_is_spoken_of_once_a_day() {
        let end = 1_800_000_000;
        let validity = Validity {
            not_before: at(0),
            not_after: at(end),
        };
        let mut renewal = Renewal::new(MqttConfig::new("h", 1, "c"));
        for (name, left, want) in [
            ("in time", 14 * DAY_S, None),
            ("a second later", 14 * DAY_S - 1, Some("in 13 days")),
            ("the same day", 13 * DAY_S + 5, None),
            ("the next day", 13 * DAY_S - 1, Some("in 12 days")),
            ("the last second", 0, Some("in 0 days")),
        ] {
            let clock = LocalClock {
                now: at(end - left),
                synchronised: true,
            };
            let said = renewal.on_validity(validity, clock);
            assert_eq!(
                said.as_deref()
                    .map(|said| said.contains(want.unwrap_or("?"))),
                want.map(|_| true),
                "{name}: {said:?}"
            );
        }
        renewal.days_left = None;
        let late = LocalClock {
            now: at(end + 1),
            synchronised: true,
        };
        let said = renewal.on_validity(validity, late).expect("said");
        assert!(said.contains("ended at 2027-01-15T08:00:00Z"), "{said}");
    }
}
