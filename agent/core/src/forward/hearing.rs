//! What the forwarder does about messages of the receiver's side.
//!
//! Holds always: marks go back only when the receiver's side says that something is
//! lost, and forward only as far as it can mean. Bound: as the payloads'. Hands
//! nothing over itself.

use super::machine::{Forward, SAVE_AFTER_US};
use super::place::Place;
use super::receiver::Session;
use crate::limits::FORWARD_RESEND_EACH_US;
use crate::payload::{AckMessage, Command, UPSTREAM_TOPIC, UpstreamHello};
use crate::units::Mono;

impl Forward {
    /// A message from the receiver's side; what does not read is counted and
    /// changes nothing.
    pub fn on_message(&mut self, topic: &str, payload: &[u8], now: Mono) {
        let read = if topic == UPSTREAM_TOPIC {
            UpstreamHello::parse(payload)
                .map(|hello| self.on_hello(hello, now))
                .is_ok()
        } else if topic == self.gateway.ack_topic() {
            AckMessage::parse(payload)
                .map(|ack| self.on_ack_message(&ack, now))
                .is_ok()
        } else if topic == self.gateway.cmd_topic() {
            Command::parse(payload)
                .map(|command| self.on_command(&command, now))
                .is_ok()
        } else {
            false
        };
        self.counters.messages_bad += u64::from(!read);
    }

    fn on_hello(&mut self, hello: UpstreamHello, now: Mono) {
        let was_online = self.receiver.is_online();
        if self.receiver.on_hello(hello.session, hello.online) == Session::New {
            self.on_new_session(now);
        }
        if !was_online && self.receiver.is_online() {
            self.places
                .iter_mut()
                .for_each(|place| place.patience.restart(now));
        }
    }

    fn on_new_session(&mut self, now: Mono) {
        for place in &mut self.places {
            place.lose_unconfirmed();
            place.patience.note(false, now);
        }
        self.counters.rewinds += 1;
        self.saving.due.get_or_insert(Mono(now.0 + SAVE_AFTER_US));
    }

    fn on_ack_message(&mut self, ack: &AckMessage, now: Mono) {
        let new = match self.receiver.on_ack(ack.session) {
            Session::Old => return,
            Session::Same => false,
            Session::New => true,
        };
        if new {
            self.on_new_session(now);
        }
        if ack.log_id != self.info.log_id {
            return;
        }
        for mark in &ack.marks {
            let of_mark = |place: &&mut Place| {
                place.stream == mark.stream && place.at.partition == mark.partition
            };
            let Some(place) = self.places.iter_mut().find(of_mark) else {
                continue;
            };
            if mark.epoch > self.info.epoch {
                continue;
            }
            let next = mark
                .next
                .min(place.confirmable(mark.epoch == self.info.epoch));
            if next > place.marks.confirmed {
                place.confirm(next);
                if place.patience.on_progress(now) {
                    // A probe was news to it: what lay between is lost.
                    place.lose(next);
                    self.counters.rewinds += 1;
                }
                place
                    .patience
                    .note(place.marks.confirmed < place.marks.sent, now);
            } else if new {
                // A receiver that lost its own state says less than before.
                place.confirm_less(next);
            }
            if place.dirty {
                self.saving.due.get_or_insert(Mono(now.0 + SAVE_AFTER_US));
            }
        }
        let places = &self.places;
        self.ahead
            .on_confirmed(|place, end| places[place].marks.confirmed >= end);
    }

    /// The receiver repeats a command as long as it misses something; one in
    /// FORWARD_RESEND_EACH_US is enough, or each message that was on its way
    /// before would start everything anew.
    fn on_command(&mut self, command: &Command, now: Mono) {
        let Command::Resend {
            log_id,
            stream,
            partition,
            from,
        } = command;
        if *log_id != self.info.log_id {
            return;
        }
        let asked = |place: &Place| place.stream == *stream && place.at.partition == *partition;
        let Some(index) = self.places.iter().position(asked) else {
            return;
        };
        if self
            .resend_after
            .get(&index)
            .is_some_and(|after| now < *after)
        {
            return;
        }
        let place = &mut self.places[index];
        if *from < place.marks.sent {
            place.lose(*from);
            self.counters.rewinds += 1;
            self.saving.due.get_or_insert(Mono(now.0 + SAVE_AFTER_US));
            let after = Mono(now.0.saturating_add(FORWARD_RESEND_EACH_US));
            self.resend_after.insert(index, after);
        }
    }
}
