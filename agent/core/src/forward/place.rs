//! One partition's place in forwarding: what is durable, what the broker has, what
//! the receiver has applied, and which ways lead through what is left.
//!
//! Holds always: `confirmed <= sent <= head`; nothing at or above `head` is given
//! out; `sent` moves back only when the receiver's side has lost something. Bound:
//! one read of the log and the lanes' read-ahead; FORWARD_RANGES_MAX ranges above the
//! mark. Knows no connection and no clock.

use std::collections::VecDeque;

use super::config::Order;
use super::lane::{LANES, Lane, LaneId, READ_AHEAD_BLOCKS};
use super::marks::{Marks, mark_key};
use super::patience::Patience;
use super::trouble::{Refused, Then};
use crate::limits::{FORWARD_RANGES_MAX, FORWARD_REFUSALS_MAX};
use crate::log::key::TopicPartition;
use crate::payload::StreamName;
use crate::units::{Mono, Offset, Span};

/// A read of the log on its way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fetch {
    pub lane: LaneId,
    pub from: Offset,
    /// The lane was rewound meanwhile: the answer is of no use.
    pub stale: bool,
}

/// Records that a place counts once each.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Declared {
    /// That the log could not give: trimmed before they were sent, and damaged.
    pub trimmed: u64,
    pub unreadable: u64,
    pub expired: u64,
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
    order: Order,
    /// Records older than this are not sent.
    pub within: Option<Span>,
    lanes: [Lane; 4],
    pub fetch: Option<Fetch>,
    /// What lies below was there before the connection: flagged as replayed.
    pub replay_below: Offset,
    pub dirty: bool,
    pub declared: Declared,
    /// Nothing from here on goes out yet: other partitions have older readings of the
    /// same devices.
    barrier: Option<Offset>,
    /// What is missing below was trimmed.
    pub trimmed_below: Offset,
    pub patience: Patience,
    /// Dead letters that are to be tried again.
    pub retries: VecDeque<(Offset, Offset)>,
    /// Bytes and records of the blocks that were handed over: what a record takes.
    pub measured: (u64, u64),
    /// Connections in a row that ended without a word about this message.
    silent: (Offset, u32),
}

/// So many connections have to end without a word before messages are halved.
const SILENT_MAX: u32 = 3;

impl Place {
    pub(super) fn new(
        at: TopicPartition,
        stream: StreamName,
        (order, within): (Order, Option<Span>),
        head: Offset,
    ) -> Self {
        let mut place = Self {
            at,
            stream,
            head,
            opened_at: head,
            marks: Marks::default(),
            order,
            within,
            lanes: LANES.map(|_| Lane::closed()),
            fetch: None,
            replay_below: head,
            dirty: false,
            declared: Declared::default(),
            barrier: None,
            trimmed_below: Offset(0),
            patience: Patience::default(),
            retries: VecDeque::new(),
            measured: (0, 0),
            silent: (Offset(0), 0),
        };
        place.begin();
        place
    }

    pub(super) fn lane(&self, id: LaneId) -> &Lane {
        &self.lanes[id as usize]
    }

    pub(super) fn lane_mut(&mut self, id: LaneId) -> &mut Lane {
        &mut self.lanes[id as usize]
    }

    /// Takes the marks of an earlier run. A mark past the durable head belongs to
    /// records that a power cut took: it is clamped, which costs duplicates.
    pub(super) fn restore(&mut self, value: &[u8]) {
        if let Some(marks) = Marks::parse(value) {
            self.marks = marks.clamped(self.head);
            self.lane_mut(LaneId::Backlog).reached = self.marks.sent;
            self.begin();
        }
    }

    /// The meta entry that keeps the marks.
    pub(super) fn entry(&self, destination: &str) -> (Vec<u8>, Vec<u8>) {
        (mark_key(destination, self.at), self.marks.to_bytes())
    }

    /// Lays the ways anew: what is on its way moves no mark any more.
    pub(super) fn begin(&mut self) {
        if let Some(fetch) = self.fetch.as_mut() {
            fetch.stale = true;
        }
        let retry = self.lane(LaneId::Retry);
        if let Some(until) = retry.until.filter(|_| retry.open) {
            self.retries.push_front((retry.start, until));
        }
        for lane in &mut self.lanes {
            lane.rewinds += 1;
            lane.close();
        }
        let sent = self.marks.sent;
        let live_from = self.live_from();
        self.lane_mut(LaneId::Backlog).open(sent, live_from);
        if let Some(start) = live_from {
            let lane = self.lane_mut(LaneId::Live);
            lane.open(start, None);
            lane.reached = lane.reached.max(start);
            self.rewind(LaneId::Live);
        }
    }

    /// Where what goes first begins, when there is a backlog and a choice. With as many
    /// ranges above the mark as may be kept, the last of them is made longer.
    fn live_from(&self) -> Option<Offset> {
        if self.order == Order::OldestFirst || self.marks.sent >= self.head {
            return None;
        }
        let top = self.marks.acked.top();
        let full = self.marks.acked.len() >= FORWARD_RANGES_MAX;
        Some(top.filter(|_| full).unwrap_or(self.head))
    }

    /// Takes a lane back to the first offset of it that is not acked.
    pub(super) fn rewind(&mut self, id: LaneId) {
        let start = self.lane(id).start.max(self.marks.sent);
        let to = self.marks.acked.skip(start);
        self.lane_mut(id).rewind(to);
        self.drop_fetch(id);
    }

    fn drop_fetch(&mut self, id: LaneId) {
        if let Some(fetch) = self.fetch.as_mut().filter(|fetch| fetch.lane == id) {
            fetch.stale = true;
        }
    }

    /// A connection is there.
    pub(super) fn on_connected(&mut self, now: Mono) {
        self.replay_below = self.head;
        self.begin();
        for lane in &mut self.lanes {
            lane.trouble.on_connected();
        }
        self.note(now);
        self.patience.restart(now);
    }

    /// The connection ended, and with it what was on its way.
    pub(super) fn on_disconnected(&mut self) {
        self.begin();
    }

    /// It ended without a word about anything, and this was the first message.
    pub(super) fn on_silence(&mut self, id: LaneId, first: Offset, end: Offset) {
        let (before, times) = self.silent;
        self.silent = (first, if before == first { times + 1 } else { 1 });
        if self.silent.1 >= SILENT_MAX {
            self.lane_mut(id).trouble.on_silence(first, end);
        }
    }

    /// Notes whether the receiver's word is waited for.
    pub(super) fn note(&mut self, now: Mono) {
        let waits = self.marks.confirmed < self.marks.sent;
        self.patience.note(waits, now);
    }

    /// More is durable.
    pub(super) fn on_durable(&mut self, head: Offset) {
        self.head = self.head.max(head);
    }

    /// Nothing from `barrier` on goes out for now. Where what is new goes first, nobody
    /// waits for the order of partitions.
    pub(super) fn set_barrier(&mut self, barrier: Option<Offset>) {
        self.barrier = barrier.filter(|_| self.order == Order::OldestFirst);
    }

    /// Whether all that is left lies behind the barrier.
    pub(super) fn is_barred(&self) -> bool {
        let sent = self.marks.sent;
        self.barrier
            .is_some_and(|barrier| barrier <= sent && sent < self.head)
    }

    /// Whether something below `barrier` is still to be acked by the broker. One that
    /// it refuses again and again holds nobody up.
    pub(super) fn is_before(&self, barrier: Offset) -> bool {
        let tries = self.lane(LaneId::Backlog).trouble.tries;
        self.marks.sent < barrier && tries <= FORWARD_REFUSALS_MAX
    }

    /// Up to where a lane reads the log for now.
    pub(super) fn limit(&self, id: LaneId) -> Offset {
        let until = self.lane(id).until.unwrap_or(self.head);
        let barrier = self.barrier.unwrap_or(self.head);
        until.min(barrier).min(self.head)
    }

    /// All below `below` was removed to make room.
    pub(super) fn on_trimmed(&mut self, below: Offset) {
        self.trimmed_below = self.trimmed_below.max(below);
    }

    /// Takes the marks back to `to`, when they are past it: the receiver's side has lost
    /// what lies above.
    pub(super) fn lose(&mut self, to: Offset) {
        if to < self.marks.sent {
            self.marks.lose(to);
            self.dirty = true;
            self.replay_below = self.head;
            self.begin();
        }
    }

    /// The receiver's side may have lost all that it has not confirmed, also what
    /// is on its way and acked already.
    pub(super) fn lose_unconfirmed(&mut self) {
        let to = self.marks.confirmed;
        if to < self.marks.sent || self.marks.acked.len() > 0 {
            self.dirty = true;
            self.replay_below = self.head;
        }
        self.marks.lose(to);
        self.begin();
    }

    /// Sends the block at `confirmed` once more: cheap when nobody listens, and an answer
    /// when somebody does.
    pub(super) fn probe(&mut self) {
        let from = self.marks.confirmed;
        if !self.lane(LaneId::Probe).open && from < self.marks.sent {
            self.lane_mut(LaneId::Probe).open(from, None);
        }
    }

    /// Opens the way for the next dead letter that is to be tried again.
    pub(super) fn open_retry(&mut self) {
        if !self.lane(LaneId::Retry).open
            && let Some((first, end)) = self.retries.pop_front()
        {
            let until = end.min(self.head);
            self.lane_mut(LaneId::Retry).open(first, Some(until));
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
        if !self.marks.confirm(next) {
            return;
        }
        self.dirty = true;
        let sent = self.marks.sent;
        for id in [LaneId::Backlog, LaneId::Live] {
            self.lane_mut(id).pass(sent);
        }
    }

    /// The receiver says less than before: its own state is lost.
    pub(super) fn confirm_less(&mut self, next: Offset) {
        self.lose(next);
        if next < self.marks.confirmed {
            (self.marks.confirmed, self.dirty) = (next, true);
        }
    }

    /// Which lane wants the log to be read, and from where.
    pub(super) fn next_fetch(&self, id: LaneId) -> Option<Offset> {
        let lane = self.lane(id);
        let from = self.marks.acked.skip(lane.next_read());
        let from = if matches!(id, LaneId::Probe | LaneId::Retry) {
            lane.next_read()
        } else {
            from
        };
        let wanted = lane.open
            && self.fetch.is_none()
            && lane.waiting.len() <= READ_AHEAD_BLOCKS
            && from < self.limit(id)
            && lane.starved_at != Some(self.head)
            && lane.trouble.waits_until().is_none();
        wanted.then_some(from)
    }

    /// The read that [`Place::next_fetch`] wanted is on its way.
    pub(super) fn fetching(&mut self, lane: LaneId, from: Offset) {
        let stale = false;
        self.fetch = Some(Fetch { lane, from, stale });
    }

    /// Whether blocks of a lane wait, or are being read.
    pub(super) fn is_busy(&self, id: LaneId) -> bool {
        let fetching = self.fetch.is_some_and(|fetch| fetch.lane == id);
        fetching || !self.lane(id).waiting.is_empty()
    }

    /// Until when lanes wait before they try again what was refused.
    pub(super) fn waits_until(&self) -> Option<Mono> {
        let lanes = self.lanes.iter();
        lanes.filter_map(|lane| lane.trouble.waits_until()).min()
    }

    /// Ends waits that are over.
    pub(super) fn handle_deadline(&mut self, now: Mono) {
        for lane in &mut self.lanes {
            lane.trouble.handle_deadline(now);
        }
    }

    /// The broker has acked a message that was handed over since the last rewind of its
    /// lane; records that it had not acked before.
    pub(super) fn on_acked(&mut self, id: LaneId, first: Offset, end: Offset) -> u64 {
        self.silent.1 = 0;
        self.lane_mut(id).trouble.on_acked(first, end);
        let unsent = self.marks.unsent(self.head);
        if id == LaneId::Retry {
            self.dirty |= self.marks.parked.release(first, end);
        } else if self.marks.done(first, end) {
            self.dirty = true;
        }
        unsent.saturating_sub(self.marks.unsent(self.head))
    }

    /// The broker refused a message: its lane goes back and tries again later, in order.
    /// Records that were parked for it, or the other way round.
    pub(super) fn on_refused(&mut self, id: LaneId, refused: Refused, now: Mono) -> i64 {
        self.silent.1 = 0;
        match id {
            LaneId::Backlog | LaneId::Live => {}
            // They stay where they are.
            LaneId::Probe | LaneId::Retry => {
                self.lane_mut(id).rewinds += 1;
                self.lane_mut(id).close();
                self.drop_fetch(id);
                return 0;
            }
        }
        let then = self.lane_mut(id).trouble.on_refused(refused, now);
        let parked = self.park(refused.first, refused.end, then);
        self.rewind(id);
        parked
    }

    fn park(&mut self, first: Offset, end: Offset, then: Then) -> i64 {
        let before = self.marks.parked.records().cast_signed();
        match then {
            Then::TryAgain => return 0,
            Then::Park(why) => self.marks.parked.park(first, end, why),
            Then::Unpark => drop(self.marks.parked.release(first, end)),
        }
        self.dirty = true;
        self.marks.parked.records().cast_signed() - before
    }

    /// A message that was to be handed over has `bytes.0` and may have `bytes.1`: it goes
    /// out in parts, or a single record is parked. Records that were parked.
    pub(super) fn too_large(
        &mut self,
        id: LaneId,
        (first, end): (Offset, Offset),
        bytes: (usize, usize),
    ) -> i64 {
        let records = end.0.saturating_sub(first.0);
        if records > 1 {
            let trouble = &mut self.lane_mut(id).trouble;
            trouble.on_too_large(end, records, bytes);
            return 0;
        }
        if matches!(id, LaneId::Probe | LaneId::Retry) {
            self.lane_mut(id).pass(end);
            self.close_done(id);
            return 0;
        }
        self.park(first, end, Then::Park(super::parked::Why::TooLarge))
    }

    /// A lane for one purpose is closed when that is done.
    pub(super) fn close_done(&mut self, id: LaneId) {
        let (limit, lane) = (self.limit(id), self.lane_mut(id));
        let done = match id {
            LaneId::Backlog | LaneId::Live => false,
            LaneId::Probe => lane.cursor > lane.start,
            LaneId::Retry => lane.cursor >= limit,
        };
        if done {
            lane.close();
        }
    }
}

#[cfg(test)]
impl Place {
    /// Blocks that wait in memory.
    pub(super) fn held(&self) -> usize {
        self.lanes.iter().map(|lane| lane.waiting.len()).sum()
    }
}
