//! What a place gives out next: blocks, parts of blocks, and the word that records are
//! missing.
//!
//! Holds always: per lane in order and without a hole; what is parked, trimmed, damaged
//! or too old is declared in its place. Bound: as its lanes'.

use super::lane::{LaneId, Stored, Waiting};
use super::place::Place;
use crate::log::decode::decode_head;
use crate::log::key::StoredBlock;
use crate::record::Missing;
use crate::units::{EventTime, Offset};

/// What goes out next, and the offset after it.
#[derive(Debug)]
pub(super) struct Next {
    pub first: Offset,
    pub end: Offset,
    pub what: What,
}

#[derive(Debug)]
pub(super) enum What {
    /// A block that holds these records, and may hold more on both sides.
    Block(StoredBlock),
    Missing(Missing),
}

/// Event times before which records are too old, by the clock of the gateway; those
/// before the first are of a clock that was never set, and are not judged.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ages {
    pub set_from: EventTime,
    pub now: EventTime,
}

impl Place {
    /// Takes what a read of the log brought: whole blocks in order, the first of
    /// which may begin before the offset asked for.
    pub(super) fn on_fetched(&mut self, blocks: Vec<StoredBlock>) {
        let Some(fetch) = self.fetch.take().filter(|fetch| !fetch.stale) else {
            return;
        };
        let id = fetch.lane;
        let limit = self.limit(id);
        let mut next = fetch.from;
        let last = blocks.last().map_or(Offset(0), |stored| stored.key.base);
        for block in blocks {
            if block.key.base >= limit {
                break;
            }
            match decode_head(block.key, &block.bytes) {
                Ok(head) if head.end() <= next => {}
                // Not all durable: it comes with the next head.
                Ok(head) if head.end() > self.head => {
                    let durable = self.head;
                    self.lane_mut(id).starved_at = Some(durable);
                    return;
                }
                Ok(head) => {
                    self.push_hole(id, next, head.base);
                    next = head.end();
                    let newest = head.time_max;
                    self.push(id, head.base, next, Some(Stored { block, newest }));
                }
                // How far it reaches shows with the next one.
                Err(_) => {}
            }
        }
        if next == fetch.from {
            // Nothing of it reads; past it the log is asked again, at its end it is not.
            let behind = Offset(last.0.saturating_add(1)).min(limit);
            let end = if behind > next { behind } else { limit };
            self.push_hole(id, next, end);
        }
    }

    /// What is acked already is no hole.
    fn push_hole(&mut self, id: LaneId, first: Offset, end: Offset) {
        let mut first = first;
        while first < end {
            let acked = &self.marks.acked;
            let skipped = acked.skip(first);
            if skipped > first && id != LaneId::Retry {
                first = skipped;
                continue;
            }
            let until = acked.next_from(first).map_or(end, |next| next.min(end));
            self.push(id, first, until, None);
            first = until;
        }
    }

    fn push(&mut self, id: LaneId, first: Offset, end: Offset, stored: Option<Stored>) {
        let from = first.max(self.lane(id).cursor);
        let again = matches!(id, LaneId::Probe | LaneId::Retry);
        if again || !self.marks.acked.covers(from, end) {
            let waiting = Waiting { first, end, stored };
            self.lane_mut(id).waiting.push_back(waiting);
        }
    }

    /// What a lane gives out next; it stays there until [`Place::handed_over`]. `None`
    /// when there is nothing, or what stood there does not count any more.
    pub(super) fn peek(&mut self, id: LaneId, ages: Option<Ages>) -> Option<Next> {
        let cursor = self.lane(id).cursor;
        self.lane_mut(id).pass(cursor);
        let limit = self.limit(id);
        let lane = self.lane(id);
        let waiting = lane.waiting.front()?;
        let first = waiting.first.max(lane.cursor);
        // The end of a block that was merged may lie past the limit: it goes whole.
        let end = match id {
            LaneId::Retry => waiting.end.min(limit.max(first)),
            LaneId::Backlog | LaneId::Live | LaneId::Probe => waiting.end,
        };
        if first >= end {
            self.lane_mut(id).pass(end.max(limit));
            return None;
        }
        let missing = |end, reason| {
            let what = What::Missing(reason);
            Some(Next { first, end, what })
        };
        let parked = &self.marks.parked;
        if let Some(until) = parked.end_at(first).filter(|_| id != LaneId::Retry) {
            return missing(until.min(self.head), Missing::Refused);
        }
        let Some(stored) = &waiting.stored else {
            return missing(end, self.why_missing(first));
        };
        if self.is_expired(stored, ages) {
            return missing(self.expired_to(id, ages), Missing::Expired);
        }
        let end = match parked.next_from(first).filter(|_| id != LaneId::Retry) {
            Some(letter) => end.min(letter),
            None => end,
        };
        let most = lane.trouble.records_max(first);
        let end = most.map_or(end, |most| end.min(Offset(first.0.saturating_add(most))));
        Some(Next {
            first,
            end,
            what: What::Block(stored.block.clone()),
        })
    }

    fn why_missing(&self, first: Offset) -> Missing {
        if first < self.trimmed_below {
            Missing::Trimmed
        } else {
            Missing::Lost
        }
    }

    fn is_expired(&self, stored: &Stored, ages: Option<Ages>) -> bool {
        let Some((within, ages)) = self.within.zip(ages) else {
            return false;
        };
        let oldest = EventTime(ages.now.0.saturating_sub(within.0));
        stored.newest >= ages.set_from && stored.newest < oldest
    }

    /// Up to where all that waits is too old.
    fn expired_to(&self, id: LaneId, ages: Option<Ages>) -> Offset {
        let mut end = None;
        for waiting in &self.lane(id).waiting {
            let old = waiting
                .stored
                .as_ref()
                .is_some_and(|s| self.is_expired(s, ages));
            let follows = end.is_none_or(|end| end == waiting.first);
            let letter = self.marks.parked.next_from(waiting.first);
            let free = letter.is_none_or(|first| first >= waiting.end);
            if !old || !follows || (end.is_some() && !free) {
                break;
            }
            end = Some(waiting.end);
        }
        end.unwrap_or(self.lane(id).cursor)
    }

    /// What [`Place::peek`] gave is on its way; whether it went out before.
    pub(super) fn handed_over(&mut self, id: LaneId, next: &Next) -> bool {
        let (first, end) = (next.first, next.end);
        let again = matches!(id, LaneId::Probe | LaneId::Retry);
        let reached = self.lane(id).reached;
        let new = end.0.saturating_sub(first.0.max(reached.0));
        match &next.what {
            What::Missing(Missing::Trimmed) if !again => self.declared.trimmed += new,
            What::Missing(Missing::Lost) if !again => self.declared.unreadable += new,
            What::Missing(Missing::Expired) if !again => self.declared.expired += new,
            What::Missing(_) => {}
            What::Block(block) => {
                let (bytes, records) = self.measured;
                let (bytes, records) = (
                    bytes + block.bytes.len() as u64,
                    records + (end.0 - first.0),
                );
                // Of the newest blocks more than of those long ago.
                let far = records > 1 << 20;
                self.measured = if far {
                    (bytes / 2, records / 2)
                } else {
                    (bytes, records)
                };
            }
        }
        let lane = self.lane_mut(id);
        lane.reached = lane.reached.max(end);
        lane.pass(end);
        self.close_done(id);
        again || first < reached
    }
}
