//! How far the broker is ahead of the receiver: messages that were handed over and that
//! the receiver has not confirmed yet.
//!
//! A broker keeps what waits for a receiver in memory, and many drop it silently above a
//! thousand messages: the place of a backlog is the log. Holds always: a receiver that
//! confirms nothing, because a record before is missing say, delays a full round of
//! messages by [`FORWARD_AHEAD_WAIT_US`] and stops nothing. Bound:
//! [`FORWARD_AHEAD_MAX`] messages. Knows no marks.

use std::collections::VecDeque;

use crate::limits::{FORWARD_AHEAD_MAX, FORWARD_AHEAD_WAIT_US};
use crate::units::{Mono, Offset};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// Place and end of each.
    messages: VecDeque<(usize, Offset)>,
    /// Waited for until then.
    until: Option<Mono>,
}

impl Ahead {
    pub(super) fn has_room(&self) -> bool {
        self.messages.len() < FORWARD_AHEAD_MAX
    }

    /// A message is on its way.
    pub(super) fn handed_over(&mut self, place: usize, end: Offset, now: Mono) {
        if self.has_room() {
            self.messages.push_back((place, end));
        }
        if !self.has_room() {
            self.until = Some(Mono(now.0.saturating_add(FORWARD_AHEAD_WAIT_US)));
        }
    }

    /// The receiver has confirmed something.
    pub(super) fn on_confirmed(&mut self, is_confirmed: impl Fn(usize, Offset) -> bool) {
        self.messages
            .retain(|(place, end)| !is_confirmed(*place, *end));
        if self.has_room() {
            self.until = None;
        }
    }

    /// What was handed over before is not waited for.
    pub(super) fn forget(&mut self) {
        self.messages.clear();
        self.until = None;
    }

    /// When the wait ends.
    pub(super) fn due(&self) -> Option<Mono> {
        self.until
    }

    /// Ends a wait that is over.
    pub(super) fn handle_deadline(&mut self, now: Mono) {
        if self.until.is_some_and(|until| until <= now) {
            self.forget();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full(now: Mono) -> Ahead {
        let mut ahead = Ahead::default();
        for n in 0..FORWARD_AHEAD_MAX {
            assert_eq!((ahead.has_room(), ahead.due()), (true, None), "{n}");
            ahead.handed_over(n % 2, Offset(n as u64), now);
        }
        ahead
    }

    #[test]
    fn it_is_full_at_its_limit_and_has_room_below() {
        let mut ahead = full(Mono(5));
        assert!(!ahead.has_room());
        assert_eq!(ahead.due(), Some(Mono(5 + FORWARD_AHEAD_WAIT_US)));
        ahead.on_confirmed(|place, end| (place, end) == (1, Offset(1)));
        assert_eq!((ahead.has_room(), ahead.due()), (true, None));
    }

    #[test]
    fn one_partition_that_stands_holds_no_room_of_the_others() {
        let mut ahead = full(Mono(0));
        ahead.on_confirmed(|place, _| place == 1);
        assert_eq!(ahead.messages.len(), FORWARD_AHEAD_MAX / 2);
    }

    #[test]
    fn a_silent_receiver_is_waited_for_so_long_and_no_longer() {
        for (now, has_room) in [
            (FORWARD_AHEAD_WAIT_US - 1, false),
            (FORWARD_AHEAD_WAIT_US, true),
            (FORWARD_AHEAD_WAIT_US + 1, true),
        ] {
            let mut ahead = full(Mono(0));
            ahead.handle_deadline(Mono(now));
            assert_eq!(ahead.has_room(), has_room, "{now}");
        }
    }
}
