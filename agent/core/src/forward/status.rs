//! How forwarding is doing, for operators. Decides nothing.

use serde_json::{Value, json};

use super::connection::Connection;
use super::counters::Counters;
use super::machine::Forward;
use super::place::Place;
use crate::log::topic::READINGS;
use crate::units::Mono;

/// What a record takes, bytes, while none was sent.
const RECORD_BYTES_GUESS: u64 = 16;

impl Forward {
    /// How forwarding is doing, as JSON.
    #[must_use]
    pub fn status(&self, now: Mono) -> Value {
        let sum = |of: fn(&Place) -> u64| self.places.iter().map(of).sum::<u64>();
        let readings = self.places.iter().filter(|p| p.at.topic == READINGS);
        let backlog_readings = readings.map(unsent).sum::<u64>();
        let rate = self.acked.per_s(now);
        let Counters {
            published,
            resent,
            refused,
            parked,
            disconnects,
            rewinds,
            probes,
            messages_bad,
            acks_foreign,
            acks_late,
            stalls,
            last_refusal,
        } = self.counters;
        let mut status = json!({
            "name": self.config.name,
            "connected": self.connection.is_some() && !self.resetting,
            "receiver_known": self.receiver.is_known(),
            "receiver_online": self.receiver.is_online(),
            "backlog": sum(unsent),
            "backlog_readings": backlog_readings,
            "backlog_bytes": sum(unsent_bytes),
            "rate": rate,
            "eta_s": (rate > 0).then(|| backlog_readings.div_ceil(rate)),
            "unconfirmed": sum(|place| place.head.0.saturating_sub(place.marks.confirmed.0)),
            "in_flight": self.connection.as_ref().map_or(0, Connection::len),
            "published": published,
            "resent": resent,
            "refused": refused,
            "parked": parked,
            "parked_ever": sum(|place| place.marks.parked.count),
            "parked_ranges": self.dead_letters(),
        });
        let more = json!({
            "records_trimmed": sum(|place| place.declared.trimmed),
            "records_unreadable": sum(|place| place.declared.unreadable),
            "expired": sum(|place| place.declared.expired),
            "disconnects": disconnects,
            "rewinds": rewinds,
            "probes": probes,
            "messages_bad": messages_bad,
            "acks_foreign": acks_foreign,
            "acks_late": acks_late,
            "stalls": stalls,
            "stall": self.stall(now),
            "last_refusal": last_refusal.map(|why| why.to_string()),
            "last_disconnect": self.last_disconnect,
        });
        if let (Some(status), Value::Object(more)) = (status.as_object_mut(), more) {
            status.extend(more);
        }
        status
    }

    /// Why a backlog does not move; null when it does, or there is none.
    fn stall(&self, now: Mono) -> Option<&'static str> {
        let waits = self.places.iter().any(|place| unsent(place) > 0);
        self.held_by(now).filter(|_| waits)
    }

    /// First offset of each partition of readings that was not acked: for whoever knows
    /// how old it is.
    pub fn unsent_from(
        &self,
    ) -> impl Iterator<Item = (crate::log::key::TopicPartition, crate::units::Offset)> + '_ {
        let behind = self.places.iter().filter(|place| unsent(place) > 0);
        behind.map(|place| (place.at, place.marks.sent))
    }
}

/// Records that were not acked by the broker yet.
fn unsent(place: &Place) -> u64 {
    place.marks.unsent(place.head)
}

/// Bytes that these take in the log, by what the blocks took that were sent.
fn unsent_bytes(place: &Place) -> u64 {
    let (bytes, records) = place.measured;
    let all = u128::from(unsent(place)) * u128::from(bytes);
    let measured = all.checked_div(u128::from(records));
    let guess = unsent(place).saturating_mul(RECORD_BYTES_GUESS);
    measured.map_or(guess, |bytes| u64::try_from(bytes).unwrap_or(u64::MAX))
}
