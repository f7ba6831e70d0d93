//! One partition's place in forwarding: what is durable, what the broker has, what
//! the receiver has applied, and what goes out next.
//!
//! Holds always: `confirmed <= sent <= head`; nothing at or above `head` is given
//! out; `sent` moves back only when the receiver's side has lost something. Bound:
//! one read of the log and READ_AHEAD_BLOCKS. Knows no connection and no clock.

use std::collections::VecDeque;

use super::marks::{Marks, mark_key};
use super::patience::Patience;
use crate::limits::{FORWARD_REFUSALS_MAX, FORWARD_RETRY_MAX_US, FORWARD_RETRY_MIN_US};
use crate::log::decode::decode_head;
use crate::log::key::{StoredBlock, TopicPartition};
use crate::payload::StreamName;
use crate::record::Missing;
use crate::units::{Mono, Offset};

/// The log is read on while no more blocks than this wait.
const READ_AHEAD_BLOCKS: usize = 4;

/// A read of the log on its way.
#[derive(Debug, Clone, Copy)]
struct Fetch {
    from: Offset,
    /// The place was rewound meanwhile: the answer is of no use.
    stale: bool,
}

/// What waits to go out, and the offset after its last record.
#[derive(Debug)]
struct Waiting {
    first: Offset,
    end: Offset,
    /// `None`: no record of these offsets can be read.
    stored: Option<StoredBlock>,
}

/// A block that the broker does not take.
#[derive(Debug, Clone, Copy)]
struct Trouble {
    first: Offset,
    /// Refusals in a row for a reason of the message's own.
    refusals: u32,
    /// Refusals in a row of any kind: each waits longer.
    tries: u32,
    /// Not tried again before; `None` once that has passed.
    until: Option<Mono>,
}

/// What a place gives out.
#[derive(Debug)]
pub(super) enum Next {
    /// A block, the offset from which on it is wanted, and where it ends.
    Block(StoredBlock, Offset, Offset),
    /// What is said in place of records that nobody can read any more: from, up to.
    Missing(Offset, Offset, Missing),
    /// A block has been refused too often and was passed over.
    Parked,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Place {
    pub at: TopicPartition,
    pub stream: StreamName,
    pub head: Offset,
    /// Head when the log was opened: what a receiver has of earlier openings
    /// says nothing about offsets from here on.
    opened_at: Offset,
    pub marks: Marks,
    /// Next offset to give out.
    cursor: Offset,
    /// Up to here the cursor moved without giving anything out.
    skipped_to: Offset,
    /// A probe: after one block the cursor goes on from here.
    resume_at: Option<Offset>,
    /// Highest offset ever handed over by this process: below it is a resend.
    pub reached: Offset,
    /// What lies below was there before the connection: flagged as replayed.
    pub replay_below: Offset,
    blocks: VecDeque<Waiting>,
    fetch: Option<Fetch>,
    /// With this head the log had nothing whole to give.
    starved_at: Option<Offset>,
    /// Counts the times that the place went back.
    pub rewinds: u64,
    /// Messages handed over since the last rewind without an answer.
    in_flight: usize,
    trouble: Option<Trouble>,
    pub dirty: bool,
    /// Records that the log could not give: trimmed before they were sent, and damaged.
    pub trimmed: u64,
    pub unreadable: u64,
    /// Nothing from here on goes out yet: other partitions have older readings of the
    /// same devices.
    barrier: Option<Offset>,
    /// What is missing below was trimmed.
    trimmed_below: Offset,
    pub patience: Patience,
}

impl Place {
    pub(super) fn new(at: TopicPartition, stream: StreamName, head: Offset) -> Self {
        Self {
            at,
            stream,
            head,
            opened_at: head,
            marks: Marks::none(),
            cursor: Offset(0),
            skipped_to: Offset(0),
            resume_at: None,
            reached: Offset(0),
            replay_below: head,
            blocks: VecDeque::new(),
            fetch: None,
            starved_at: None,
            rewinds: 0,
            in_flight: 0,
            trouble: None,
            dirty: false,
            trimmed: 0,
            unreadable: 0,
            barrier: None,
            trimmed_below: Offset(0),
            patience: Patience::default(),
        }
    }

    /// Takes the marks of an earlier run. A mark past the durable head belongs to
    /// records that a power cut took: it is clamped, which costs duplicates.
    pub(super) fn restore(&mut self, value: &[u8]) {
        if let Some(marks) = Marks::parse(value) {
            self.marks = marks.clamped(self.head);
            self.reached = self.marks.sent;
            self.rewind();
        }
    }

    /// The meta entry that keeps the marks.
    pub(super) fn entry(&self, destination: &str) -> (Vec<u8>, Vec<u8>) {
        (mark_key(destination, self.at), self.marks.to_bytes())
    }

    /// More is durable.
    pub(super) fn on_durable(&mut self, head: Offset) {
        self.head = self.head.max(head);
    }

    /// Nothing from `barrier` on goes out for now.
    pub(super) fn set_barrier(&mut self, barrier: Option<Offset>) {
        self.barrier = barrier;
    }

    /// Whether something below `barrier` is still to be acked by the broker. One that
    /// it refuses again and again holds nobody up.
    pub(super) fn is_before(&self, barrier: Offset) -> bool {
        let stuck = |trouble: Trouble| trouble.tries > FORWARD_REFUSALS_MAX;
        self.marks.sent < barrier && !self.trouble.is_some_and(stuck)
    }

    /// Up to where the log is read for now.
    fn limit(&self) -> Offset {
        self.barrier
            .map_or(self.head, |barrier| barrier.min(self.head))
    }

    /// All below `below` was removed to make room.
    pub(super) fn on_trimmed(&mut self, below: Offset) {
        self.trimmed_below = self.trimmed_below.max(below);
    }

    /// Goes back to the mark: what is on its way moves no mark any more.
    pub(super) fn rewind(&mut self) {
        self.cursor = self.marks.sent;
        self.skipped_to = self.cursor;
        self.resume_at = None;
        self.blocks.clear();
        self.rewinds += 1;
        self.in_flight = 0;
        if let Some(fetch) = self.fetch.as_mut() {
            fetch.stale = true;
        }
    }

    /// Takes the marks back to `to`, when they are past it, and the cursor with
    /// them: the receiver's side has lost what lies above.
    pub(super) fn lose(&mut self, to: Offset) {
        if to < self.marks.sent {
            self.marks.sent = to;
            self.marks.confirmed = self.marks.confirmed.min(to);
            self.dirty = true;
            self.replay_below = self.head;
            self.rewind();
        }
    }

    /// The receiver's side may have lost all that it has not confirmed, also what
    /// is on its way and acked already.
    pub(super) fn lose_unconfirmed(&mut self) {
        self.lose(self.marks.confirmed);
        self.rewind();
    }

    /// Sends the block at `confirmed` once more and goes on where it was: cheap
    /// when nobody listens, and an answer when somebody does.
    pub(super) fn probe(&mut self) {
        if self.resume_at.is_none() && self.marks.confirmed < self.cursor {
            self.resume_at = Some(self.cursor);
            self.cursor = self.marks.confirmed;
            self.blocks.clear();
            if let Some(fetch) = self.fetch.as_mut() {
                fetch.stale = true;
            }
        }
    }

    /// Largest offset that a mark of the receiver can mean, when what it has
    /// applied is of this opening of the log or only of earlier ones.
    pub(super) fn confirmable(&self, of_this_opening: bool) -> Offset {
        if of_this_opening {
            self.head
        } else {
            self.opened_at.min(self.head)
        }
    }

    /// The receiver has applied all below `next`, which is confirmable. What is
    /// applied need not be sent, whatever the broker acked.
    pub(super) fn confirm(&mut self, next: Offset) {
        if next <= self.marks.confirmed {
            return;
        }
        self.marks.confirmed = next;
        self.marks.sent = self.marks.sent.max(next);
        self.dirty = true;
        self.resume_at = self.resume_at.map(|at| at.max(next));
        if self.cursor < next {
            self.cursor = next;
            while self.blocks.front().is_some_and(|block| block.end <= next) {
                self.blocks.pop_front();
            }
        }
    }

    /// The receiver says less than before: its own state is lost.
    pub(super) fn confirm_less(&mut self, next: Offset) {
        self.lose(next);
        if next < self.marks.confirmed {
            (self.marks.confirmed, self.dirty) = (next, true);
        }
    }

    /// Where to read the log on, when that is wanted.
    pub(super) fn next_fetch(&self) -> Option<Offset> {
        let from = self.blocks.back().map_or(self.cursor, |block| block.end);
        let wanted = self.fetch.is_none()
            && self.blocks.len() <= READ_AHEAD_BLOCKS
            && from < self.limit()
            && self.starved_at != Some(self.head)
            && self.waits_until().is_none();
        wanted.then_some(from)
    }

    /// The read that [`Place::next_fetch`] wanted is on its way.
    pub(super) fn fetching(&mut self, from: Offset) {
        self.fetch = Some(Fetch { from, stale: false });
    }

    pub(super) fn is_fetching(&self) -> bool {
        self.fetch.is_some()
    }

    /// Whether blocks wait to go out.
    pub(super) fn is_loaded(&self) -> bool {
        !self.blocks.is_empty()
    }

    /// Takes what a read of the log brought: whole blocks in order, the first of
    /// which may begin before the offset asked for.
    pub(super) fn on_fetched(&mut self, blocks: Vec<StoredBlock>) {
        let Some(fetch) = self.fetch.take().filter(|fetch| !fetch.stale) else {
            return;
        };
        let limit = self.limit();
        let mut next = fetch.from;
        let last = blocks.last().map_or(Offset(0), |stored| stored.key.base);
        for stored in blocks {
            if stored.key.base >= limit {
                break;
            }
            match decode_head(stored.key, &stored.bytes) {
                Ok(head) if head.end() <= next => {}
                // Not all durable: it comes with the next head.
                Ok(head) if head.end() > self.head => {
                    self.starved_at = Some(self.head);
                    return;
                }
                Ok(head) => {
                    self.push_hole(next, head.base);
                    next = head.end();
                    self.blocks.push_back(Waiting {
                        first: head.base,
                        end: next,
                        stored: Some(stored),
                    });
                }
                // How far it reaches shows with the next one.
                Err(_) => {}
            }
        }
        if next == fetch.from {
            // Nothing of it reads; past it the log is asked again, at its end it is not.
            let behind = Offset(last.0.saturating_add(1)).min(limit);
            let end = if behind > next { behind } else { limit };
            self.push_hole(next, end);
        }
    }

    fn push_hole(&mut self, first: Offset, end: Offset) {
        if first < end {
            self.blocks.push_back(Waiting {
                first,
                end,
                stored: None,
            });
        }
    }

    fn pass_to(&mut self, to: Offset) {
        self.cursor = self.cursor.max(to);
        self.skipped_to = self.skipped_to.max(to);
        self.settle();
    }

    /// What was passed over counts as done once all before it is answered.
    fn settle(&mut self) {
        if self.in_flight == 0 && self.resume_at.is_none() && self.skipped_to > self.marks.sent {
            self.marks.sent = self.skipped_to;
            self.dirty = true;
        }
    }

    /// Until when the place waits before it tries again what was refused.
    pub(super) fn waits_until(&self) -> Option<Mono> {
        self.trouble.and_then(|trouble| trouble.until)
    }

    /// Ends a wait that is over.
    pub(super) fn handle_deadline(&mut self, now: Mono) {
        if let Some(trouble) = self.trouble.as_mut() {
            trouble.until = trouble.until.filter(|until| *until > now);
        }
    }

    /// Whether [`Place::take`] has something.
    pub(super) fn is_ready(&self) -> bool {
        self.is_loaded() && self.waits_until().is_none()
    }

    /// The next thing to hand over.
    pub(super) fn take(&mut self) -> Option<Next> {
        // Of a hole, part or all may have been confirmed meanwhile.
        let (cursor, resumes) = (self.cursor, self.resume_at.is_some());
        let over = |waiting: &Waiting| waiting.stored.is_none() && waiting.end <= cursor;
        while !resumes && self.blocks.front().is_some_and(over) {
            self.blocks.pop_front();
        }
        let Waiting { first, end, stored } = self.blocks.pop_front()?;
        let hole = stored.is_none() && !resumes;
        let first = if hole { first.max(cursor) } else { first };
        let parked =
            |trouble: &Trouble| trouble.first == first && trouble.refusals >= FORWARD_REFUSALS_MAX;
        if self.trouble.as_ref().is_some_and(parked) {
            self.trouble = None;
            self.marks.park(first, end);
            self.dirty = true;
            self.pass_to(end);
            return Some(Next::Parked);
        }
        self.cursor = end;
        if let Some(resume_at) = self.resume_at.take() {
            self.cursor = resume_at.max(end);
            self.blocks.clear();
        }
        Some(match stored {
            // A block may have been merged with one before it that was sent already.
            Some(stored) if !resumes => Next::Block(stored, cursor, end),
            Some(stored) => Next::Block(stored, first, end),
            None => Next::Missing(first, end, self.count_missing(first, end)),
        })
    }

    /// Counts offsets that cannot be read, each once; why that is.
    pub(super) fn count_missing(&mut self, first: Offset, end: Offset) -> Missing {
        let new = end.0.saturating_sub(first.0.max(self.reached.0));
        if first < self.trimmed_below {
            self.trimmed += new;
            return Missing::Trimmed;
        }
        self.unreadable += new;
        Missing::Lost
    }

    /// The block that [`Place::take`] gave out is on its way.
    pub(super) fn handed_over(&mut self, end: Offset) {
        self.in_flight += 1;
        self.reached = self.reached.max(end);
    }

    /// The broker has acked a block handed over since the last rewind.
    pub(super) fn on_acked(&mut self, first: Offset, end: Offset) {
        self.in_flight -= 1;
        if end > self.marks.sent {
            self.marks.sent = end;
            self.dirty = true;
        }
        if self.trouble.is_some_and(|trouble| trouble.first <= first) {
            self.trouble = None;
        }
        self.settle();
    }

    /// The broker refused a block: goes back to the mark and tries again later,
    /// in order. `counts` when the reason is the message's own.
    pub(super) fn on_refused(&mut self, first: Offset, counts: bool, now: Mono) {
        let before = self.trouble.filter(|trouble| trouble.first == first);
        let (refusals, tries) = before.map_or((0, 0), |t| (t.refusals, t.tries));
        let doubled = FORWARD_RETRY_MIN_US.saturating_mul(1 << tries.min(32));
        self.trouble = Some(Trouble {
            first,
            refusals: refusals + u32::from(counts),
            tries: tries + 1,
            until: Some(Mono(
                now.0.saturating_add(doubled.min(FORWARD_RETRY_MAX_US)),
            )),
        });
        self.rewind();
    }
}
