//! How forwarding is doing, for operators. Decides nothing.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::connection::Connection;
use super::counters::Counters;
use super::machine::Forward;
use super::place::Place;
use crate::log::topic::READINGS;
use crate::units::{Mono, TopicId};

/// What a record takes, bytes, while none was sent.
const RECORD_BYTES_GUESS: u64 = 16;

/// How a destination is doing, for whoever judges it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Standing {
    pub name: String,
    pub connected: bool,
    pub last_disconnect: Option<String>,
    /// The broker does not let us in, or does not take or give a topic: who must do what.
    pub denied: Option<String>,
    pub receiver_known: bool,
    pub receiver_online: bool,
    /// Records that are parked now.
    pub parked: u64,
    /// Acks of the receiver about openings of the log that are not ours.
    pub foreign: u64,
    pub eta_s: Option<u64>,
    /// Why a backlog does not move.
    pub stall: Option<&'static str>,
}

impl Forward {
    /// How the destination is doing.
    #[must_use]
    pub fn standing(&self, now: Mono) -> Standing {
        let places = self.places.iter();
        let parked = places.map(|place| place.marks.parked.records());
        Standing {
            name: self.config.name.clone(),
            connected: self.connection.is_some() && !self.resetting,
            last_disconnect: self.last_disconnect.clone(),
            denied: self.denied(),
            receiver_known: self.receiver.is_known(),
            receiver_online: self.receiver.is_online(),
            parked: parked.sum(),
            foreign: self.counters.acks_foreign,
            eta_s: self.eta_s(now),
            stall: self.stall(now),
        }
    }

    fn denied(&self) -> Option<String> {
        let refused = self.places.iter().any(|p| p.waits_until().is_some());
        let topic = || {
            let why = self.counters.last_refusal?;
            Some(format!("a topic is refused: {why}"))
        };
        self.denied.clone().or_else(|| topic().filter(|_| refused))
    }

    fn eta_s(&self, now: Mono) -> Option<u64> {
        let rate = self.acked.per_s(now);
        let readings = self.places.iter().filter(|p| p.at.topic == READINGS);
        let readings = readings.map(unsent).sum::<u64>();
        (rate > 0).then(|| readings.div_ceil(rate))
    }

    /// Bytes that wait of each topic, as far as they can be told.
    #[must_use]
    pub fn unsent_by_topic(&self) -> BTreeMap<TopicId, u64> {
        let mut bytes = BTreeMap::new();
        for place in &self.places {
            *bytes.entry(place.at.topic).or_default() += unsent_bytes(place);
        }
        bytes
    }

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
            "eta_s": self.eta_s(now),
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
