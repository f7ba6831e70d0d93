//! What a forwarder does as time passes: waits end, a silent broker is given up, a
//! silent receiver is asked, and a forwarder in which nothing moves starts anew.
//!
//! Holds always: whatever waits has a deadline.

use super::lane::LaneId;
use super::machine::Forward;
use super::place::Place;
use crate::units::Mono;

/// Nothing moved for so many ack timeouts while something could: start anew.
const STALL_TIMEOUTS: u64 = 3;

impl Forward {
    /// Gives up a broker that acks nothing; asks a silent receiver.
    pub fn handle_deadline(&mut self, now: Mono) {
        self.paused_until = self.paused_until.filter(|until| *until > now);
        self.ahead.handle_deadline(now);
        for place in &mut self.places {
            place.handle_deadline(now);
        }
        if self.ack_deadline().is_some_and(|deadline| deadline <= now) {
            let seconds = self.config.ack_timeout.0 as f64 / 1e6;
            self.reset = Some(format!("no ack for {seconds} s"));
        }
        if self.may_probe() {
            for place in &mut self.places {
                if place.patience.due().is_some_and(|due| due <= now) {
                    place.probe();
                    place.patience.probed(now);
                    self.counters.probes += 1;
                }
            }
        }
        self.watch(now);
    }

    /// When [`Forward::handle_deadline`] or [`Forward::poll`] wants to be called.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Mono> {
        let save = self.saving.due.filter(|_| self.saving.under_way.is_none());
        let retries = self.places.iter().filter_map(Place::waits_until);
        let probes = self.places.iter().filter(|_| self.may_probe());
        let capped = self.capped_until(Mono(0));
        let may = self.is_open() && self.paused_until.is_none() && !self.is_ahead();
        let may = may && self.has_room();
        let capped = capped.filter(|_| may);
        retries
            .chain(probes.filter_map(|place| place.patience.due()))
            .chain(self.paused_until)
            .chain(self.ahead.due())
            .chain(self.ack_deadline())
            .chain(capped)
            .chain(self.stall_deadline())
            .chain(save)
            .min()
    }

    /// Whether messages may be handed over at all.
    fn is_open(&self) -> bool {
        self.connection.is_some() && !self.resetting && !self.held
    }

    fn ack_deadline(&self) -> Option<Mono> {
        let since = self.connection.as_ref()?.waits_since()?;
        let timeout = self.config.ack_timeout.0.unsigned_abs();
        (!self.resetting).then_some(Mono(since.0.saturating_add(timeout)))
    }

    fn may_probe(&self) -> bool {
        self.is_open() && self.receiver.is_online()
    }

    /// Whether something is to be sent and nothing that is known holds it.
    fn could_move(&self) -> bool {
        let ready = |place: &Place| {
            let unsent = place.marks.unsent(place.head) > 0;
            unsent && place.waits_until().is_none() && !place.is_barred()
        };
        let kept = self.saving.under_way.is_none();
        let idle = self
            .connection
            .as_ref()
            .is_some_and(|c| c.oldest().is_none());
        self.is_open()
            && self.paused_until.is_none()
            && !self.is_ahead()
            && kept
            && idle
            && self.capped_until(Mono(0)).is_none()
            && self.places.iter().any(ready)
    }

    fn stall_deadline(&self) -> Option<Mono> {
        let timeout = self.config.ack_timeout.0.unsigned_abs();
        let wait = timeout.saturating_mul(STALL_TIMEOUTS);
        let since = self.still_since.filter(|_| self.could_move())?;
        Some(Mono(since.0.saturating_add(wait)))
    }

    /// Starts anew when nothing has moved for long though it could: a read of the log
    /// that was never answered, say.
    fn watch(&mut self, now: Mono) {
        if !self.could_move() {
            self.still_since = None;
            return;
        }
        self.still_since.get_or_insert(now);
        if self.stall_deadline().is_some_and(|due| due <= now) {
            self.counters.stalls += 1;
            self.still_since = None;
            self.reset = Some(String::from("nothing moved though there is a backlog"));
            for place in &mut self.places {
                place.fetch = None;
            }
        }
    }

    /// Why the backlog does not move now, when that is known.
    pub(super) fn held_by(&self, now: Mono) -> Option<&'static str> {
        let any = |of: fn(&Place) -> bool| self.places.iter().any(of);
        if self.connection.is_none() {
            Some("no connection")
        } else if self.held {
            Some("the gateway stops")
        } else if self.paused_until.is_some() {
            Some("the broker has no room")
        } else if any(|place| place.waits_until().is_some()) {
            Some("a topic is refused")
        } else if self.is_ahead() {
            Some("the receiver has not confirmed what the broker holds")
        } else if self.capped_until(now).is_some() {
            Some("rate")
        } else if any(|place| place.is_barred() && place.lane(LaneId::Backlog).open) {
            Some("what was written before the partitions grew goes first")
        } else {
            None
        }
    }
}
