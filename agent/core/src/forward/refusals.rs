//! What the forwarder does about refusals.
//!
//! Holds always: a refusal holds up at most its own partition, unless the broker is
//! full. Bound: FORWARD_REFUSALS_MAX tries of a message, waits from
//! FORWARD_RETRY_MIN_US to FORWARD_RETRY_MAX_US.

use super::connection::Answer;
use super::ids::{ConnNo, Refusal, SendNo};
use super::machine::Forward;
use crate::limits::{FORWARD_RETRY_MAX_US, FORWARD_RETRY_MIN_US};
use crate::units::Mono;

/// What to do about a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Policy {
    /// Another try of the same message can only fail again: park it after some.
    Message,
    /// All of the topic is refused until somebody changes the broker's rules:
    /// wait and try for ever, the data stays in the log.
    Topic,
    /// The broker is full: all wait.
    Pause,
    /// A new connection clears it.
    Reset,
}

fn policy(why: Refusal) -> Policy {
    match why {
        Refusal::PayloadInvalid
        | Refusal::TooLarge { .. }
        | Refusal::Unspecified
        | Refusal::Implementation => Policy::Message,
        Refusal::NotAuthorized | Refusal::TopicInvalid => Policy::Topic,
        Refusal::Quota => Policy::Pause,
        Refusal::PacketIdInUse => Policy::Reset,
    }
}

impl Forward {
    /// The broker does not take a message. Its partition goes back to the mark and
    /// tries again later, in order; the others go on. What can only fail again is
    /// parked in the end, so that it holds up nothing.
    pub fn on_refused(&mut self, conn: ConnNo, send: SendNo, why: Refusal, now: Mono) {
        let connection = self.connection.as_mut().filter(|c| c.conn == conn);
        let Some(message) = connection.and_then(|c| c.answer(send, Answer::Refused)) else {
            return;
        };
        self.counters.refused += 1;
        self.counters.last_refusal = Some(why);
        let place = &mut self.places[message.place];
        let current = place.rewinds == message.rewinds;
        match policy(why) {
            Policy::Message if current => place.on_refused(message.first, true, now),
            Policy::Topic if current => place.on_refused(message.first, false, now),
            Policy::Pause => {
                if current {
                    place.rewind();
                }
                self.pause(now);
            }
            Policy::Reset => self.reset = Some(format!("a message was refused: {why}")),
            Policy::Message | Policy::Topic => {}
        }
        self.pop_answered(now);
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
