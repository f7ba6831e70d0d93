//! What windows need that cross devices, where devices lie in several partitions: their
//! readings go through one topic, in one order, and one engine reads it.
//!
//! Holds always: every reading that its partition's engine takes is in the exchange once,
//! with the order of its partition; while partitions are behind, theirs are merged by
//! when they came, so that none is late because another was read first. Which readings stand
//! there already after a restart, their ordinals say. Bound: [`EXCHANGE_WAITING_MAX`](crate::limits::EXCHANGE_WAITING_MAX)
//! readings of a partition wait for those of others, beside one read of the log. Knows
//! no store. How and why: `agent/core/docs/exchange.md`.

mod across;
mod feed;
mod keep;
mod places;
mod split;

use std::sync::Arc;

use crate::changes::Base;
use crate::clock::Heard;
use crate::commit::GroupCommit;
use crate::derive::Derive;
pub use crate::exchange::across::Across;
use crate::exchange::feed::Feed;
pub use crate::exchange::split::Split;
use crate::layout::Layouts;
use crate::limits::DERIVE_KEPT_EVERY_US;
use crate::log::key::{StoredBlock, TopicPartition};
use crate::log::topic::EXCHANGE;
use crate::meta::Entry;
use crate::units::{EventTime, Mono, Offset, PartitionId, TopicId};

/// Meta keys of it: this and what is meant.
pub const EXCHANGE_META_PREFIX: &[u8] = b"exchange/";

/// The one partition of the exchange.
pub const EXCHANGE_AT: TopicPartition = TopicPartition {
    topic: EXCHANGE,
    partition: PartitionId(0),
};

pub use crate::layout::CROSSING_PARTITION;

/// A read of the log for the exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExchangeRead {
    /// Of what stood in it, or in a topic of rows, when the log was opened.
    Standing,
    /// Of readings that go into it.
    Readings(PartitionId),
    /// Of what is in it.
    Own,
}

/// What an operator should hear of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExchangeCounters {
    /// Readings written into it since the start.
    pub readings: u64,
    /// Rows written since the start.
    pub rows: u64,
    /// Records that were gone before they were read.
    pub records_missing: u64,
    /// Rows that were made again since the start and are what stands in their topic, and
    /// those that are not.
    pub rows_same: u64,
    pub rows_different: u64,
    /// Changes of tables that were gone before its engine applied them.
    pub changes_missing: u64,
}

/// See the module.
#[derive(Debug)]
pub struct Exchange {
    feed: Feed,
    across: Across,
    kept_at: Mono,
}

impl Exchange {
    /// The exchange of a log that was just opened; `topics` of all windows.
    #[must_use]
    pub fn new(
        split: &Split,
        topics: &[Option<TopicId>],
        layouts: &Layouts,
        meta: &[Entry],
        (commit, now): (&GroupCommit, Mono),
    ) -> Self {
        let guard = split.across.time.future_guard;
        Self {
            feed: Feed::new(layouts.clone(), guard, meta, commit),
            across: Across::new(split, topics, meta, (commit, now)),
            kept_at: now,
        }
    }

    /// The next read of the log.
    pub fn next_fetch(
        &mut self,
        commit: &GroupCommit,
    ) -> Option<(ExchangeRead, TopicPartition, Offset)> {
        let standing = self
            .feed
            .next_standing()
            .or_else(|| self.across.next_standing());
        if let Some((at, from)) = standing {
            return Some((ExchangeRead::Standing, at, from));
        }
        if self.feed.is_loading() || self.across.is_loading() {
            return None;
        }
        if let Some((at, from)) = self.feed.next_fetch(commit) {
            return Some((ExchangeRead::Readings(at.partition), at, from));
        }
        let (at, from) = self.across.next_fetch(commit)?;
        Some((ExchangeRead::Own, at, from))
    }

    /// Takes what a read brought.
    pub fn on_fetched(
        &mut self,
        (read, at): (ExchangeRead, TopicPartition),
        blocks: &[StoredBlock],
        now: Mono,
        commit: &mut GroupCommit,
    ) {
        match read {
            ExchangeRead::Standing if at == EXCHANGE_AT => self.feed.on_standing(blocks),
            ExchangeRead::Standing => self.across.on_standing(blocks),
            ExchangeRead::Readings(partition) => {
                self.feed.on_fetched(partition, blocks, commit);
                let across = &mut self.across;
                self.feed.flush(now, commit, |partition, offset, next| {
                    across.on_source(partition, offset, next);
                });
            }
            ExchangeRead::Own => self.across.on_fetched(blocks, now, commit),
        }
    }

    /// What the engine here knows of the clock, which says `now`, when it has read all.
    pub fn heard(&mut self, now: EventTime, commit: &GroupCommit) -> Option<Heard> {
        let settled = self.is_settled(commit);
        settled.then(|| self.across.heard(now))
    }

    /// Whether places are to be kept also where nothing is new.
    fn is_time_to_keep(&mut self, now: Mono) -> bool {
        let is_time = now.0.saturating_sub(self.kept_at.0) >= DERIVE_KEPT_EVERY_US;
        if is_time {
            self.kept_at = now;
        }
        is_time
    }

    /// Whether all durable readings are in it, and read from it.
    #[must_use]
    pub fn is_settled(&self, commit: &GroupCommit) -> bool {
        self.feed.is_settled(commit) && self.across.is_settled(commit)
    }

    #[must_use]
    pub fn counters(&self) -> ExchangeCounters {
        let of_engine = self.across.counters();
        ExchangeCounters {
            readings: self.feed.readings,
            rows: of_engine.rows,
            records_missing: self.feed.missing + of_engine.records_missing,
            rows_same: of_engine.rows_same,
            rows_different: of_engine.rows_different,
            changes_missing: of_engine.changes_missing,
        }
    }

    /// The engine.
    #[must_use]
    pub fn stage(&self) -> &Derive {
        self.across.stage()
    }

    /// What the changes of tables say that were removed.
    pub fn set_base(&mut self, base: &Arc<Base>) {
        self.across.set_base(base);
    }

    /// Whether it went on from a checkpoint.
    #[must_use]
    pub fn is_restored(&self) -> bool {
        self.across.is_restored
    }

    /// Sentences for the operator that were not given before.
    pub fn take_notes(&mut self) -> Vec<String> {
        self.across.take_notes()
    }
}

#[cfg(test)]
mod tests;
