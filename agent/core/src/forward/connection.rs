//! One connection's window: what was handed over and has no answer yet.
//!
//! Holds always: at most `window` messages from the first unanswered one on, so a
//! client's packet-id slot is free when its turn comes again; and answers count
//! only as far as they are contiguous. Knows no broker.

use std::collections::VecDeque;

use super::ids::{ConnNo, SendNo};
use super::lane::LaneId;
use crate::units::{Mono, Offset};

/// A message on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InFlight {
    /// Index of the place that it came from.
    pub place: usize,
    pub lane: LaneId,
    /// The lane's count of rewinds when it was handed over: an answer from
    /// before a rewind moves no mark.
    pub rewinds: u64,
    /// Offset of its first record.
    pub first: Offset,
    /// Offset after its last record.
    pub end: Offset,
    /// It says that records are missing.
    pub declares: bool,
    /// An ack of it moves the mark: it is the last message of what it is of.
    pub moves: bool,
    pub bytes: usize,
    pub sent_at: Mono,
}

/// What the broker said of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Acked,
    Refused,
}

/// A connection and its window.
#[derive(Debug)]
pub(super) struct Connection {
    pub conn: ConnNo,
    window: usize,
    /// Send number of the first message in `unanswered`.
    first: u64,
    unanswered: VecDeque<(InFlight, Option<Answer>)>,
    bytes: usize,
    /// When the first unanswered message last was answered.
    moved_at: Option<Mono>,
    /// Longest payload that the broker takes, as far as it said.
    pub payload_bytes_max: usize,
    /// Messages that the broker has answered.
    pub answers: u64,
}

impl Connection {
    pub(super) fn new(conn: ConnNo, window: u16) -> Self {
        Self {
            conn,
            window: usize::from(window.max(1)),
            first: 0,
            unanswered: VecDeque::new(),
            bytes: 0,
            moved_at: None,
            payload_bytes_max: usize::MAX,
            answers: 0,
        }
    }

    /// Whether one more message may leave.
    pub(super) fn has_room(&self, bytes_max: usize) -> bool {
        self.unanswered.len() < self.window
            && (self.unanswered.is_empty() || self.bytes < bytes_max)
    }

    pub(super) fn len(&self) -> usize {
        self.unanswered.len()
    }

    /// Hands a message over; returns its number.
    pub(super) fn push(&mut self, message: InFlight) -> SendNo {
        let send = SendNo(self.first + self.unanswered.len() as u64);
        self.bytes += message.bytes;
        self.unanswered.push_back((message, None));
        send
    }

    /// Notes the first answer to a message and gives the message; `None` for an
    /// unknown number and for a second answer.
    pub(super) fn answer(&mut self, send: SendNo, answer: Answer) -> Option<InFlight> {
        let index = usize::try_from(send.0.checked_sub(self.first)?).ok()?;
        let (message, slot) = self.unanswered.get_mut(index)?;
        slot.is_none().then(|| {
            self.answers += 1;
            *slot = Some(answer);
            *message
        })
    }

    /// The next message that is answered with all before it.
    pub(super) fn pop_answered(&mut self, now: Mono) -> Option<(InFlight, Answer)> {
        let (message, answer) = *self.unanswered.front()?;
        let answer = answer?;
        self.unanswered.pop_front();
        self.moved_at = Some(now);
        self.first += 1;
        self.bytes -= message.bytes;
        Some((message, answer))
    }

    /// Since when the oldest message waits for its answer: on a slow line it first waits
    /// for those before it.
    pub(super) fn waits_since(&self) -> Option<Mono> {
        let (oldest, _) = self.unanswered.front()?;
        self.moved_at.max(Some(oldest.sent_at))
    }

    /// The oldest message that is not answered with all before it.
    pub(super) fn oldest(&self) -> Option<&InFlight> {
        self.unanswered.front().map(|(message, _)| message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(connection: &mut Connection, end: u64) -> SendNo {
        connection.push(InFlight {
            place: 0,
            lane: LaneId::Backlog,
            rewinds: 0,
            first: Offset(end),
            end: Offset(end),
            declares: false,
            moves: true,
            bytes: 10,
            sent_at: Mono(end),
        })
    }

    #[test]
    fn the_window_is_exact_in_messages_and_in_bytes() {
        let mut connection = Connection::new(ConnNo(1), 3);
        for (sent, room) in [(0, true), (1, true), (2, true), (3, false)] {
            assert_eq!(connection.has_room(1000), room, "{sent} of 3");
            push(&mut connection, sent);
        }
        let mut connection = Connection::new(ConnNo(1), 100);
        for (sent, room) in [(0, true), (1, true), (2, false)] {
            assert_eq!(connection.has_room(20), room, "{sent} of 10 bytes");
            push(&mut connection, sent);
        }
    }

    #[test]
    fn answers_count_as_far_as_they_are_contiguous() {
        let mut connection = Connection::new(ConnNo(1), 3);
        let sends: Vec<_> = (0..3).map(|end| push(&mut connection, end)).collect();
        assert!(connection.answer(sends[1], Answer::Refused).is_some());
        assert!(
            connection.answer(sends[1], Answer::Acked).is_none(),
            "twice"
        );
        assert!(connection.answer(SendNo(99), Answer::Acked).is_none());
        assert_eq!(connection.pop_answered(Mono(1)), None);
        connection.answer(sends[0], Answer::Acked);
        let popped = std::iter::from_fn(|| connection.pop_answered(Mono(1)));
        let popped: Vec<_> = popped.map(|(m, answer)| (m.end.0, answer)).collect();
        assert_eq!(popped, [(0, Answer::Acked), (1, Answer::Refused)]);
        assert!(connection.answer(sends[0], Answer::Acked).is_none(), "late");
        assert_eq!(
            (connection.pop_answered(Mono(9)), connection.len()),
            (None, 1)
        );
        assert_eq!(push(&mut connection, 9), SendNo(3));
        assert_eq!(connection.waits_since(), Some(Mono(2)));
    }
}
