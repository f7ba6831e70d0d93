//! How forwarding is doing, for operators. Decides nothing.

use serde_json::{Value, json};

use super::connection::Connection;
use super::counters::Counters;
use super::machine::Forward;
use super::place::Place;
use crate::log::topic::READINGS;

impl Forward {
    /// How forwarding is doing, as JSON.
    #[must_use]
    pub fn status(&self) -> Value {
        let sum = |of: fn(&Place) -> u64| self.places.iter().map(of).sum::<u64>();
        let readings = self.places.iter().filter(|p| p.at.topic == READINGS);
        let parked: Vec<Value> = self.places.iter().flat_map(parked_ranges).collect();
        let Counters {
            published,
            resent,
            refused,
            parked: parked_now,
            disconnects,
            rewinds,
            probes,
            messages_bad,
            last_refusal,
        } = self.counters;
        json!({
            "name": self.config.name,
            "connected": self.connection.is_some() && !self.resetting,
            "receiver_known": self.receiver.is_known(),
            "receiver_online": self.receiver.is_online(),
            "backlog": sum(unsent),
            "backlog_readings": readings.map(unsent).sum::<u64>(),
            "unconfirmed": sum(|place| place.head.0.saturating_sub(place.marks.confirmed.0)),
            "in_flight": self.connection.as_ref().map_or(0, Connection::len),
            "published": published,
            "resent": resent,
            "refused": refused,
            "parked": parked_now,
            "parked_ever": sum(|place| place.marks.parked),
            "parked_ranges": parked,
            "records_trimmed": sum(|place| place.trimmed),
            "records_unreadable": sum(|place| place.unreadable),
            "disconnects": disconnects,
            "rewinds": rewinds,
            "probes": probes,
            "messages_bad": messages_bad,
            "last_refusal": last_refusal.map(|why| why.to_string()),
            "last_disconnect": self.last_disconnect,
        })
    }
}

/// Records that were not acked by the broker yet.
fn unsent(place: &Place) -> u64 {
    place.head.0.saturating_sub(place.marks.sent.0)
}

fn parked_ranges(place: &Place) -> impl Iterator<Item = Value> + '_ {
    place.marks.ranges.iter().map(|(first, end)| {
        json!({
            "stream": place.stream.as_str(),
            "partition": place.at.partition.0,
            "first_offset": first.0,
            "last_offset": end.0 - 1,
        })
    })
}
