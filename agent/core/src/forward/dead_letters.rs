//! What operators see of dead letters, and do about them. Knows no socket.

use serde_json::{Value, json};

use super::machine::Forward;
use super::parked::DeadLetter;
use super::place::Place;

impl Forward {
    /// The ranges that are parked, as JSON: stream, partition, first and last offset,
    /// reason.
    #[must_use]
    pub fn dead_letters(&self) -> Vec<Value> {
        self.places.iter().flat_map(letters).collect()
    }

    /// Tries all parked records once more; how many these are. What the broker takes is
    /// parked no more; the rest stays.
    pub fn retry_dead_letters(&mut self) -> u64 {
        let mut records = 0;
        for place in &mut self.places {
            let letters = place.marks.parked.ranges();
            place.retries = letters.map(|letter| (letter.first, letter.end)).collect();
            records += place.marks.parked.records();
        }
        records
    }
}

fn letters(place: &Place) -> impl Iterator<Item = Value> + '_ {
    place.marks.parked.ranges().map(|letter| {
        let DeadLetter { first, end, why } = letter;
        json!({
            "stream": place.stream.as_str(),
            "partition": place.at.partition.0,
            "first_offset": first.0,
            "last_offset": end.0 - 1,
            "reason": why.name(),
        })
    })
}
