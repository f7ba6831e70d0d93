//! One connection's window: what was handed over and is not acked yet.
//!
//! Holds always: at most `window` messages from the first unacked one on, so a
//! client's packet-id slot is free when its turn comes again; and acks count only
//! as far as they are contiguous. Knows no broker.

use std::collections::VecDeque;

use super::ids::{ConnNo, SendNo};
use crate::units::{Mono, Offset};

/// A message on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InFlight {
    /// Index of the place that it came from.
    pub place: usize,
    /// Offset after its last record.
    pub end: Offset,
    pub bytes: usize,
    pub sent_at: Mono,
    acked: bool,
}

/// A connection and its window.
#[derive(Debug)]
pub(super) struct Connection {
    pub conn: ConnNo,
    window: usize,
    /// Send number of the first message in `unacked`.
    first: u64,
    unacked: VecDeque<InFlight>,
    bytes: usize,
}

impl Connection {
    pub(super) fn new(conn: ConnNo, window: u16) -> Self {
        Self {
            conn,
            window: usize::from(window.max(1)),
            first: 0,
            unacked: VecDeque::new(),
            bytes: 0,
        }
    }

    pub(super) fn has_room(&self, bytes_max: usize) -> bool {
        self.unacked.len() < self.window && (self.unacked.is_empty() || self.bytes < bytes_max)
    }

    pub(super) fn len(&self) -> usize {
        self.unacked.len()
    }

    /// Hands a message over; returns its number.
    pub(super) fn push(&mut self, place: usize, end: Offset, bytes: usize, now: Mono) -> SendNo {
        let send = SendNo(self.first + self.unacked.len() as u64);
        self.bytes += bytes;
        self.unacked.push_back(InFlight {
            place,
            end,
            bytes,
            sent_at: now,
            acked: false,
        });
        send
    }

    /// Notes an ack; an unknown number changes nothing.
    pub(super) fn ack(&mut self, send: SendNo) {
        let index = send.0.checked_sub(self.first);
        let index = index.and_then(|index| usize::try_from(index).ok());
        if let Some(message) = index.and_then(|index| self.unacked.get_mut(index)) {
            message.acked = true;
        }
    }

    /// The message with this number, while it is on its way.
    pub(super) fn get(&self, send: SendNo) -> Option<&InFlight> {
        let index = usize::try_from(send.0.checked_sub(self.first)?).ok()?;
        self.unacked.get(index)
    }

    /// The next message that is acked with all before it.
    pub(super) fn pop_acked(&mut self) -> Option<InFlight> {
        let done = self.unacked.front().is_some_and(|message| message.acked);
        let message = done.then(|| self.unacked.pop_front())??;
        self.first += 1;
        self.bytes -= message.bytes;
        Some(message)
    }

    /// When the oldest message was handed over.
    pub(super) fn oldest(&self) -> Option<Mono> {
        self.unacked.front().map(|message| message.sent_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(connection: &mut Connection, end: u64) -> SendNo {
        connection.push(0, Offset(end), 10, Mono(end))
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
    fn acks_count_as_far_as_they_are_contiguous() {
        let mut connection = Connection::new(ConnNo(1), 3);
        let sends: Vec<_> = (0..3).map(|end| push(&mut connection, end)).collect();
        connection.ack(sends[1]);
        connection.ack(SendNo(99));
        assert_eq!(connection.pop_acked(), None);
        connection.ack(sends[0]);
        let popped = std::iter::from_fn(|| connection.pop_acked());
        assert_eq!(popped.map(|m| m.end.0).collect::<Vec<_>>(), [0, 1]);
        connection.ack(sends[0]);
        assert_eq!((connection.pop_acked(), connection.len()), (None, 1));
        assert_eq!(push(&mut connection, 9), SendNo(3));
        assert_eq!(connection.oldest(), Some(Mono(2)));
    }
}
