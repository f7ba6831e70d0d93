//! When marks are kept, and what a kill may send again.
//!
//! Holds always: one set of marks is on its way to the disk at a time; messages that
//! are handed over and not under a kept mark are at most FORWARD_UNKEPT_WINDOWS.

use super::connection::Connection;
use super::machine::{Forward, ForwardAction};
use super::place::Place;
use crate::limits::FORWARD_UNKEPT_WINDOWS;
use crate::units::Mono;

/// Marks are kept at most so long after they moved.
pub(super) const SAVE_AFTER_US: u64 = 200_000;

/// Marks on their way to the disk.
#[derive(Debug, Default)]
pub(super) struct Saving {
    /// When marks that moved are to be kept.
    pub(super) due: Option<Mono>,
    /// Messages acked since the marks were last given out to be kept.
    moved: usize,
    /// Messages under the marks that are being written.
    pub(super) under_way: Option<usize>,
}

impl Saving {
    /// The marks moved over one more message.
    pub(super) fn moved(&mut self, now: Mono) {
        self.moved += 1;
        self.is_due(now);
    }

    /// Something else than an ack changed what is kept.
    pub(super) fn is_due(&mut self, now: Mono) {
        self.due.get_or_insert(Mono(now.0 + SAVE_AFTER_US));
    }

    /// Messages that are acked and would be sent again by the next start.
    pub(super) fn unkept(&self) -> usize {
        self.moved + self.under_way.unwrap_or(0)
    }
}

impl Forward {
    /// The marks of the last [`ForwardAction::SaveMarks`] are durable.
    pub fn on_saved(&mut self) {
        self.saving.under_way = None;
    }

    /// Marks that are to be kept now.
    pub(super) fn save(&mut self, now: Mono) -> Option<ForwardAction> {
        if !self.is_save_due(now) {
            return None;
        }
        let entries = self.take_marks();
        (!entries.is_empty()).then_some(ForwardAction::SaveMarks(entries))
    }

    fn is_save_due(&self, now: Mono) -> bool {
        // Early enough that the next messages need not wait for the disk.
        let many = self.saving.moved >= self.unkept_max().div_ceil(4);
        let due = self
            .saving
            .due
            .is_some_and(|due| due <= now || self.draining);
        self.saving.under_way.is_none() && (many || due)
    }

    /// Messages that may be handed over and not be under a kept mark.
    pub(super) fn unkept_max(&self) -> usize {
        usize::from(self.config.window.max(1)) * FORWARD_UNKEPT_WINDOWS
    }

    fn take_marks(&mut self) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.saving.due = None;
        let moved = std::mem::take(&mut self.saving.moved);
        let mut entries = Vec::new();
        for place in self.places.iter_mut().filter(|place| place.dirty) {
            place.dirty = false;
            entries.push(place.entry(&self.config.name));
        }
        if std::mem::take(&mut self.receiver.dirty) {
            entries.extend(self.receiver.entry(&self.config.name));
        }
        if !entries.is_empty() {
            self.saving.under_way = Some(moved);
        }
        entries
    }

    /// The gateway is to stop: from here on marks are kept as soon as they move,
    /// so that the next start sends nothing again.
    pub fn drain(&mut self) {
        self.draining = true;
    }

    /// Nothing more is handed over: what is on its way may still be answered, and
    /// the marks kept, so that the next start sends nothing again.
    pub fn hold(&mut self) {
        (self.held, self.draining) = (true, true);
    }

    /// Whether nothing is on its way and the marks are kept.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        let up = self.connection.as_ref().filter(|_| !self.resetting);
        up.map_or(0, Connection::len) == 0 && self.is_kept()
    }

    /// Whether the broker has acked everything that is durable, and the marks that
    /// say so are kept.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        let sent = |place: &Place| place.marks.sent >= place.head;
        self.places.iter().all(sent) && self.is_kept()
    }

    fn is_kept(&self) -> bool {
        self.places.iter().all(|place| !place.dirty) && self.saving.under_way.is_none()
    }
}
