//! What a broker refuses, and how the one record of it is found that it does not take.
//!
//! A refused message is tried again after a wait, twice as long each time. Then it is
//! halved, at once and again, down to one record, which is parked; in its place the
//! broker gets the word that it is missing. Where it refuses that too, all of the topic
//! is refused: nothing is parked then, and it is tried for ever.
//!
//! Holds always: a wait is between FORWARD_RETRY_MIN_US and FORWARD_RETRY_MAX_US. Bound:
//! FORWARD_REFUSALS_MAX tries of a whole message. Knows no broker and no clock.

use super::ids::Refusal;
use super::parked::Why;
use crate::limits::{FORWARD_REFUSALS_MAX, FORWARD_RETRY_MAX_US, FORWARD_RETRY_MIN_US};
use crate::units::{Mono, Offset};

/// A message that was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Refused {
    pub first: Offset,
    pub end: Offset,
    /// It says that records are missing, and holds none.
    pub declares: bool,
    pub why: Refusal,
}

impl Refused {
    fn records(&self) -> u64 {
        self.end.0.saturating_sub(self.first.0)
    }
}

/// What is to be done about it, beside waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    TryAgain,
    /// The record is passed over.
    Park(Why),
    /// All of the topic is refused: the record that was passed over is not to blame.
    Unpark,
}

/// Messages that go out in parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Narrow {
    until: Offset,
    records: u64,
}

/// See the module.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Trouble {
    /// The message that was refused last, and how often in a row.
    message: Option<(Offset, Offset)>,
    refusals: u32,
    /// Refusals of any kind since something was taken: each waits longer.
    pub tries: u32,
    /// Not tried again before; `None` once that has passed.
    until: Option<Mono>,
    narrow: Option<Narrow>,
    /// All of the topic is refused.
    topic: bool,
}

impl Trouble {
    pub(super) fn waits_until(&self) -> Option<Mono> {
        self.until
    }

    /// Ends a wait that is over.
    pub(super) fn handle_deadline(&mut self, now: Mono) {
        self.until = self.until.filter(|until| *until > now);
    }

    /// A new connection: what was waited for may be over.
    pub(super) fn on_connected(&mut self) {
        self.until = None;
    }

    /// The most records of a message that begins at `first`.
    pub(super) fn records_max(&self, first: Offset) -> Option<u64> {
        let narrow = self.narrow.filter(|narrow| first < narrow.until);
        narrow.map(|narrow| narrow.records)
    }

    pub(super) fn on_refused(&mut self, refused: Refused, now: Mono) -> Then {
        let message = Some((refused.first, refused.end));
        self.refusals = if self.message == message {
            self.refusals.saturating_add(1)
        } else {
            1
        };
        self.message = message;
        let narrow = self.records_max(refused.first).is_some();
        let then = self.judge(refused, narrow);
        let halved = self.records_max(refused.first) < Some(refused.records());
        let at_once = match then {
            Then::Park(_) => true,
            Then::TryAgain => narrow && halved || matches!(refused.why, Refusal::TooLarge { .. }),
            Then::Unpark => false,
        };
        if !at_once || refused.declares {
            self.wait(now);
        }
        then
    }

    fn judge(&mut self, refused: Refused, narrow: bool) -> Then {
        let Some(why) = Why::of(refused.why) else {
            return Then::TryAgain;
        };
        if refused.declares {
            self.topic = true;
            return Then::Unpark;
        }
        let sure = narrow || why == Why::TooLarge || self.refusals >= FORWARD_REFUSALS_MAX;
        if !sure || self.topic {
            return Then::TryAgain;
        }
        if refused.records() <= 1 {
            return Then::Park(why);
        }
        self.halve(refused.end, refused.records());
        Then::TryAgain
    }

    /// Messages up to `end` get at most half of `records`.
    fn halve(&mut self, end: Offset, records: u64) {
        let until = self.narrow.map_or(end, |narrow| narrow.until.max(end));
        self.narrow = Some(Narrow {
            until,
            records: (records / 2).max(1),
        });
    }

    fn wait(&mut self, now: Mono) {
        let doubled = FORWARD_RETRY_MIN_US.saturating_mul(1 << self.tries.min(32));
        self.tries = self.tries.saturating_add(1);
        let wait = doubled.min(FORWARD_RETRY_MAX_US);
        self.until = Some(Mono(now.0.saturating_add(wait)));
    }

    /// A message of `records` up to `end` has `bytes` and may have `bytes_max`: what
    /// goes out instead has so many records.
    pub(super) fn on_too_large(&mut self, end: Offset, records: u64, (bytes, max): (usize, usize)) {
        let fits = u128::from(records) * max as u128 / (bytes.max(1) as u128);
        let fits = u64::try_from(fits).unwrap_or(records);
        let until = self.narrow.map_or(end, |narrow| narrow.until.max(end));
        self.narrow = Some(Narrow {
            until,
            records: fits.clamp(1, (records / 2).max(1)),
        });
    }

    /// Connections ended again and again without a word about this message: smaller ones
    /// do no harm, and may get through.
    pub(super) fn on_silence(&mut self, first: Offset, end: Offset) {
        let records = end.0.saturating_sub(first.0);
        if records > 1 {
            self.halve(end, records);
        }
    }

    /// The broker has taken a message.
    pub(super) fn on_acked(&mut self, first: Offset, end: Offset) {
        if self.message.is_some_and(|(refused, _)| refused <= first) {
            (self.message, self.refusals, self.tries) = (None, 0, 0);
            (self.until, self.topic) = (None, false);
        }
        if let Some(narrow) = self.narrow.as_mut() {
            narrow.records = narrow.records.saturating_mul(2);
        }
        self.narrow = self.narrow.filter(|narrow| end < narrow.until);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(first: u64, end: u64, why: Refusal) -> Refused {
        Refused {
            first: Offset(first),
            end: Offset(end),
            declares: false,
            why,
        }
    }

    #[test]
    fn a_message_is_tried_then_halved_down_to_the_record() {
        let mut trouble = Trouble::default();
        let mut now = Mono(0);
        for n in 1..FORWARD_REFUSALS_MAX {
            let then = trouble.on_refused(refused(0, 8, Refusal::Unspecified), now);
            assert_eq!(
                (then, trouble.records_max(Offset(0))),
                (Then::TryAgain, None)
            );
            let until = trouble.waits_until().expect("it waits");
            assert_eq!(until.0 - now.0, FORWARD_RETRY_MIN_US << (n - 1), "{n}");
            now = until;
            trouble.handle_deadline(now);
        }
        for (first, end, left) in [(0, 8, 4), (0, 4, 2), (0, 2, 1)] {
            let then = trouble.on_refused(refused(first, end, Refusal::Unspecified), now);
            assert_eq!(then, Then::TryAgain);
            assert_eq!(trouble.records_max(Offset(first)), Some(left), "{end}");
            trouble.handle_deadline(Mono(now.0 + FORWARD_RETRY_MAX_US));
        }
        let then = trouble.on_refused(refused(0, 1, Refusal::Unspecified), now);
        assert_eq!(then, Then::Park(Why::Unspecified));
        assert_eq!(trouble.waits_until(), None);
        for (end, left) in [(1, Some(2)), (3, Some(4)), (7, Some(8)), (8, None)] {
            trouble.on_acked(Offset(0), Offset(end));
            assert_eq!(trouble.records_max(Offset(end - 1)), left, "{end}");
        }
    }

    #[test]
    fn where_the_word_about_it_is_refused_too_nothing_is_parked() {
        let mut trouble = Trouble::default();
        let one = refused(5, 6, Refusal::NotAuthorized);
        for _ in 1..FORWARD_REFUSALS_MAX {
            assert_eq!(trouble.on_refused(one, Mono(0)), Then::TryAgain);
        }
        assert_eq!(
            trouble.on_refused(one, Mono(0)),
            Then::Park(Why::NotAuthorized)
        );
        let word = Refused {
            declares: true,
            ..one
        };
        assert_eq!(trouble.on_refused(word, Mono(0)), Then::Unpark);
        for _ in 0..40 {
            assert_eq!(trouble.on_refused(one, Mono(0)), Then::TryAgain);
        }
        assert_eq!(trouble.waits_until(), Some(Mono(FORWARD_RETRY_MAX_US)));
        trouble.on_acked(Offset(5), Offset(6));
        assert_eq!((trouble.waits_until(), trouble.tries), (None, 0));
    }

    #[test]
    fn what_is_too_large_is_split_at_once() {
        let mut trouble = Trouble::default();
        let why = Refusal::TooLarge {
            packet_bytes: 9,
            bytes_max: 5,
        };
        assert_eq!(
            trouble.on_refused(refused(0, 9, why), Mono(0)),
            Then::TryAgain
        );
        assert_eq!(trouble.records_max(Offset(0)), Some(4));
        assert_eq!(trouble.waits_until(), None);
        assert_eq!(
            trouble.on_refused(refused(0, 1, why), Mono(0)),
            Then::Park(Why::TooLarge)
        );
        for (name, records, bytes, max, want) in [
            ("a third", 300, 3000, 1000, 100),
            ("one byte", 300, 1001, 1000, 150),
            ("far too much", 2, 9000, 10, 1),
        ] {
            let mut trouble = Trouble::default();
            trouble.on_too_large(Offset(1000), records, (bytes, max));
            assert_eq!(trouble.records_max(Offset(0)), Some(want), "{name}");
        }
    }
}
