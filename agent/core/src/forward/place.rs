//! One partition's place in forwarding: what is durable, what the broker has, what
//! the receiver has applied, and where the connection reads.
//!
//! Holds always: `confirmed <= sent <= head` once clamped, and `sent` moves back
//! only when the receiver's side asks for it.

use std::collections::VecDeque;

use crate::log::key::{StoredBlock, TopicPartition};
use crate::payload::StreamName;
use crate::units::Offset;

/// Meta keys of marks: this, topic u16 and partition u16 big-endian.
pub(super) const MARK_META_PREFIX: &[u8] = b"forward/mark/";
/// Marks as stored: sent u64, confirmed u64, little-endian.
const MARK_BYTES: usize = 16;

/// See the module.
#[derive(Debug)]
pub(super) struct Place {
    pub at: TopicPartition,
    pub stream: StreamName,
    pub head: Offset,
    /// All below are acked by the broker.
    pub sent: Offset,
    /// All below are applied by the receiver, as far as it said.
    pub confirmed: Offset,
    /// Next offset to hand over on this connection.
    pub cursor: Offset,
    /// Highest offset ever handed over by this process: below it is a resend.
    pub reached: Offset,
    pub blocks: VecDeque<StoredBlock>,
    /// Refusals in a row of the block at `sent`.
    pub refusals: u32,
    pub dirty: bool,
}

impl Place {
    pub(super) fn new(at: TopicPartition, stream: StreamName, head: Offset) -> Self {
        Self {
            at,
            stream,
            head,
            sent: Offset(0),
            confirmed: Offset(0),
            cursor: Offset(0),
            reached: Offset(0),
            blocks: VecDeque::new(),
            refusals: 0,
            dirty: false,
        }
    }

    /// Takes the marks of an earlier run. A mark past the durable head belongs to
    /// records that a power cut took: it is clamped, which costs duplicates.
    pub(super) fn restore(&mut self, value: &[u8]) {
        let (halves, []) = value.as_chunks::<8>() else {
            return;
        };
        if let [sent, confirmed] = halves {
            self.sent = Offset(u64::from_le_bytes(*sent)).min(self.head);
            self.confirmed = Offset(u64::from_le_bytes(*confirmed)).min(self.sent);
            self.rewind_cursor();
        }
    }

    /// The meta entry that keeps the marks.
    pub(super) fn entry(&self) -> (Vec<u8>, Vec<u8>) {
        let mut value = Vec::with_capacity(MARK_BYTES);
        value.extend_from_slice(&self.sent.0.to_le_bytes());
        value.extend_from_slice(&self.confirmed.0.to_le_bytes());
        (mark_key(self.at), value)
    }

    /// Starts to read again from the mark.
    pub(super) fn rewind_cursor(&mut self) {
        self.cursor = self.sent;
        self.blocks.clear();
    }

    /// Takes the mark back to `to`, when it is past it.
    pub(super) fn rewind_mark(&mut self, to: Offset) {
        if to < self.sent {
            (self.sent, self.dirty) = (to, true);
            self.confirmed = self.confirmed.min(to);
        }
    }

    pub(super) fn confirm(&mut self, next: Offset) {
        let next = next.min(self.head);
        if next != self.confirmed {
            (self.confirmed, self.dirty) = (next, true);
            // What is applied need not be sent, whatever the broker acked.
            self.sent = self.sent.max(next);
        }
    }

    pub(super) fn wants_blocks(&self) -> bool {
        self.blocks.is_empty() && self.cursor < self.head
    }
}

pub(super) fn mark_key(at: TopicPartition) -> Vec<u8> {
    let mut key = MARK_META_PREFIX.to_vec();
    key.extend_from_slice(&at.topic.0.to_be_bytes());
    key.extend_from_slice(&at.partition.0.to_be_bytes());
    key
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{PartitionId, TopicId};

    fn place() -> Place {
        let at = TopicPartition {
            topic: TopicId(16),
            partition: PartitionId(1),
        };
        Place::new(at, StreamName::new("a").expect("a name"), Offset(100))
    }

    fn marks(place: &Place) -> (u64, u64, u64) {
        (place.sent.0, place.confirmed.0, place.cursor.0)
    }

    #[test]
    fn marks_come_back_and_are_clamped_to_the_durable_head() {
        for (name, sent, confirmed, want) in [
            ("as they were", 50, 40, (50, 40, 50)),
            ("up to the head", 100, 100, (100, 100, 100)),
            ("past the head", 101, 101, (100, 100, 100)),
            ("confirmed past sent", 50, 60, (50, 50, 50)),
        ] {
            let mut before = place();
            (before.sent, before.confirmed) = (Offset(sent), Offset(confirmed));
            let mut after = place();
            after.restore(&before.entry().1);
            assert_eq!(marks(&after), want, "{name}");
        }
        let mut bad = place();
        bad.restore(b"short");
        assert_eq!(marks(&bad), (0, 0, 0));
    }

    #[test]
    fn rewinding_never_goes_forward() {
        let mut place = place();
        (place.sent, place.confirmed) = (Offset(50), Offset(40));
        place.rewind_mark(Offset(60));
        assert_eq!(marks(&place), (50, 40, 0));
        place.rewind_mark(Offset(30));
        assert_eq!(marks(&place), (30, 30, 0));
        place.confirm(Offset(45));
        assert_eq!(marks(&place), (45, 45, 0));
    }
}
