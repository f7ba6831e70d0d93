//! What the forwarder does about refusals.
//!
//! Holds always: a refusal holds up at most its own partition, unless the broker is
//! full. Bound: as `trouble`'s, and waits from FORWARD_RETRY_MIN_US to
//! FORWARD_RETRY_MAX_US.

use super::connection::{Answer, InFlight};
use super::ids::{ConnNo, Refusal, SendNo};
use super::machine::Forward;
use super::trouble::Refused;
use crate::limits::{FORWARD_RETRY_MAX_US, FORWARD_RETRY_MIN_US};
use crate::units::Mono;

impl Forward {
    /// The broker does not take a message. Its partition goes back to the mark and
    /// tries again later, in order; the others go on. A record that can only fail again
    /// is parked in the end, so that it holds up nothing.
    pub fn on_refused(&mut self, conn: ConnNo, send: SendNo, why: Refusal, now: Mono) {
        let connection = self.connection.as_mut().filter(|c| c.conn == conn);
        let Some(connection) = connection else {
            return;
        };
        let Some(message) = connection.answer(send, Answer::Refused) else {
            return;
        };
        if let Refusal::TooLarge {
            packet_bytes,
            bytes_max,
        } = why
        {
            let beside = packet_bytes.saturating_sub(message.bytes);
            connection.payload_bytes_max = bytes_max.saturating_sub(beside);
        }
        self.counters.refused += 1;
        self.counters.last_refusal = Some(why);
        self.still_since = None;
        if let Some(edge) = self.edge.as_mut()
            && !edge.on_refused(&message)
        {
            self.reset = Some(format!("a birth was refused: {why}"));
            self.pop_answered(now);
            return;
        }
        match why {
            Refusal::Quota => {
                if self.is_current(&message) {
                    self.places[message.place].rewind(message.lane);
                }
                self.pause(now);
            }
            Refusal::PacketIdInUse => self.reset = Some(format!("a message was refused: {why}")),
            Refusal::NotAuthorized
            | Refusal::TopicInvalid
            | Refusal::PayloadInvalid
            | Refusal::Unspecified
            | Refusal::Implementation
            | Refusal::TooLarge { .. } => self.refuse(&message, why, now),
        }
        self.pop_answered(now);
    }

    /// Whether nothing was sent again since this was handed over.
    fn is_current(&self, message: &InFlight) -> bool {
        let place = &self.places[message.place];
        place.lane(message.lane).rewinds == message.rewinds
    }

    fn refuse(&mut self, message: &InFlight, why: Refusal, now: Mono) {
        if !self.is_current(message) {
            return;
        }
        let refused = Refused {
            first: message.first,
            end: message.end,
            declares: message.declares,
            why,
        };
        let place = &mut self.places[message.place];
        let parked = place.on_refused(message.lane, refused, now);
        self.count_parked(parked, now);
    }

    /// So many records more are parked, or fewer.
    pub(super) fn count_parked(&mut self, records: i64, now: Mono) {
        if records != 0 {
            self.counters.parked = self.counters.parked.saturating_add_signed(records);
            self.saving.is_due(now);
        }
    }

    /// Refusals of one window come together: they are one pause.
    fn pause(&mut self, now: Mono) {
        if self.paused_until.is_none() {
            let doubled = FORWARD_RETRY_MIN_US.saturating_mul(1 << self.pauses.min(32));
            let wait = doubled.min(FORWARD_RETRY_MAX_US);
            self.paused_until = Some(Mono(now.0.saturating_add(wait)));
            self.pauses += 1;
        }
    }
}
