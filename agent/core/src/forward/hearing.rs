//! What the forwarder does about messages of the receiver's side.
//!
//! Holds always: marks go back only when the receiver's side says that something is
//! lost, and forward only as far as it can mean. Bound: as the payloads'. Hands
//! nothing over itself.

use super::lineage::Lineage;
use super::machine::Forward;
use super::place::Place;
use super::receiver::Session;
use crate::limits::FORWARD_RESEND_EACH_US;
use crate::payload::{AckMark, AckMessage, AckRun, Command, UPSTREAM_TOPIC, UpstreamHello};
use crate::units::{Epoch, Mono, Offset};

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
            let edge = self.edge.as_mut();
            edge.is_some_and(|edge| edge.on_message(topic, payload))
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
        self.saving.is_due(now);
    }

    fn on_ack_message(&mut self, ack: &AckMessage, now: Mono) {
        let new = match self.receiver.on_ack(ack.session, ack.seq) {
            Session::Old => return,
            Session::Late => {
                self.counters.acks_late += 1;
                return;
            }
            Session::Same => false,
            Session::New => true,
        };
        if new {
            self.on_new_session(now);
        }
        if ack.log_id != self.lineage.log_id {
            return;
        }
        for mark in &ack.marks {
            let of_mark = |place: &&mut Place| {
                place.stream == mark.stream && place.at.partition == mark.partition
            };
            let Some(place) = self.places.iter_mut().find(of_mark) else {
                continue;
            };
            let Some(next) = confirmed_by(mark, place, &self.lineage) else {
                self.counters.acks_foreign += 1;
                self.say_foreign(mark);
                continue;
            };
            self.on_confirmed(mark, next, (new, now));
        }
        let places = &self.places;
        self.ahead
            .on_confirmed(|place, end| places[place].marks.confirmed >= end);
    }

    fn on_confirmed(&mut self, mark: &AckMark, next: Offset, (new, now): (bool, Mono)) {
        let of_mark = |place: &&mut Place| {
            place.stream == mark.stream && place.at.partition == mark.partition
        };
        let Some(place) = self.places.iter_mut().find(of_mark) else {
            return;
        };
        if next > place.marks.confirmed {
            place.confirm(next);
            if place.patience.on_progress(now) {
                // A probe was news to it: what lay between is lost.
                place.lose(next);
                self.counters.rewinds += 1;
            }
            place.note(now);
        } else if new {
            // A receiver that lost its own state says less than before.
            place.confirm_less(next);
        }
        if place.dirty {
            self.saving.is_due(now);
        }
    }

    /// Said once: what it has is of a copy of this log, and nothing of ours is lost by it.
    fn say_foreign(&mut self, mark: &AckMark) {
        if self.counters.acks_foreign == 1 {
            self.note = Some(format!(
                "forward {}: the receiver has records of {} that another opening of this log has \
                 sent (epoch {}, nonce {}): the disk was restored from a backup, or copied. What \
                 it says of them counts for nothing here; records may be sent twice, none is lost",
                self.config.name, mark.stream, mark.epoch.0, mark.nonce,
            ));
        }
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
        if *log_id != self.lineage.log_id {
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
            self.saving.is_due(now);
            let after = Mono(now.0.saturating_add(FORWARD_RESEND_EACH_US));
            self.resend_after.insert(index, after);
        }
    }
}

/// Up to where a mark of the receiver confirms our own records; `None` when what it has is
/// of an opening that is not ours.
fn confirmed_by(mark: &AckMark, place: &Place, lineage: &Lineage) -> Option<Offset> {
    let current = lineage.current().epoch;
    let confirmable = |epoch: Epoch, next: Offset| next.min(place.confirmable(epoch == current));
    if mark.runs.is_empty() {
        let own = lineage.is_own(mark.epoch, mark.nonce.0);
        return own.then(|| confirmable(mark.epoch, mark.next));
    }
    let own = |run: &&AckRun| lineage.is_own(run.epoch, run.nonce.0);
    let mut at = place.marks.confirmed;
    loop {
        let on = |run: &&AckRun| run.first <= at && at < confirmable(run.epoch, run.next);
        let Some(run) = mark.runs.iter().filter(own).find(on) else {
            return Some(at);
        };
        at = confirmable(run.epoch, run.next);
    }
}
