//! Which messages were taken, as a text that grows: a broker sends a message again
//! when its ack did not arrive, and what is durable must not become a change twice.
//!
//! | part | what |
//! |---|---|
//! | twenty digits | messages taken so far |
//! | hex | CRC-32C of each of the last ones, eight digits each, oldest first |
//! | text | which events of the database were seen |
//!
//! with slashes between them. An event has the first, a full stop and its number in the
//! message, and behind a space what the database calls its place. Bound:
//! [`MESSAGES_MAX`] messages, since a broker has no more of them unacked.

use std::collections::VecDeque;
use std::fmt::Write as _;

use forebay_core::effect::SourcePosition;

use super::super::debezium::position::Repeats;
use super::super::limits::MESSAGES_MAX;

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Mark {
    pub(super) taken: u64,
    last: VecDeque<u32>,
}

/// By what a message is known again.
pub(super) fn digest(topic: &str, payload: &[u8]) -> u32 {
    let topic = crc32c::crc32c(topic.as_bytes());
    crc32c::crc32c_append(crc32c::crc32c_append(topic, &[0]), payload)
}

impl Mark {
    /// Takes a message and gives its number.
    pub(super) fn take(&mut self, digest: u32) -> u64 {
        self.taken += 1;
        if self.last.len() == usize::from(MESSAGES_MAX) {
            self.last.pop_front();
        }
        self.last.push_back(digest);
        self.taken
    }

    /// Whether a message that the broker sends again was taken.
    pub(super) fn has(&self, digest: u32) -> bool {
        self.last.contains(&digest)
    }

    pub(super) fn position(&self, repeats: &Repeats) -> SourcePosition {
        let mut text = format!("{}/", place(self.taken));
        for digest in &self.last {
            let _ = write!(text, "{digest:08x}");
        }
        let _ = write!(text, "/{}", repeats.write());
        SourcePosition(text.into())
    }

    /// What [`Mark::position`] wrote; `None` for anything else.
    pub(super) fn read(position: &SourcePosition) -> Option<(Self, Repeats)> {
        let mut parts = position.0.splitn(3, '/');
        let taken = parts.next()?.parse().ok()?;
        let digests = parts.next()?.as_bytes();
        let digests = digests.chunks(8).take(usize::from(MESSAGES_MAX));
        let last = digests.map(|digest| {
            let text = std::str::from_utf8(digest).ok()?;
            u32::from_str_radix(text, 16).ok()
        });
        let mark = Self {
            taken,
            last: last.collect::<Option<_>>()?,
        };
        Some((mark, Repeats::read(parts.next()?)))
    }
}

/// How many messages were taken at a position.
pub(super) fn taken_at(position: &SourcePosition) -> Option<u64> {
    position.0.split('/').next()?.parse().ok()
}

/// Where the events of a message stand, without their number.
pub(super) fn place(taken: u64) -> String {
    format!("{taken:020}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_read_back_and_grow() {
        let mut mark = Mark::default();
        let repeats = Repeats::default();
        let mut before = mark.position(&repeats);
        for n in 0..u32::from(MESSAGES_MAX) + 2 {
            let number = mark.take(digest("t", &n.to_le_bytes()));
            let position = mark.position(&repeats);
            assert!(before.0 < position.0);
            assert!(*format!("{}.1 lsn 0/1", place(number)) < *position.0);
            assert!(*place(number) > *before.0);
            assert_eq!(Mark::read(&position), Some((mark.clone(), repeats.clone())));
            assert_eq!(taken_at(&position), Some(u64::from(n) + 1));
            before = position;
        }
        assert_eq!(Mark::read(&SourcePosition("x".into())), None);
    }

    #[test]
    fn as_many_messages_are_known_as_may_be_unacked() {
        let max = u32::from(MESSAGES_MAX);
        for (taken, knows_first) in [(max - 1, true), (max, true), (max + 1, false)] {
            let mut mark = Mark::default();
            for n in 0..taken {
                mark.take(n);
            }
            assert_eq!(mark.has(0), knows_first, "{taken}");
            assert!(mark.has(taken - 1) && !mark.has(taken));
        }
    }

    #[test]
    fn topic_and_payload_do_not_run_into_each_other() {
        assert_ne!(digest("a", b"bc"), digest("ab", b"c"));
    }
}
