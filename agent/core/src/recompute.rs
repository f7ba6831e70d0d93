//! Derived rows computed anew from the readings of a log, beside what stands in it: by
//! the same readers as an agent's, from nothing.
//!
//! Holds always: what comes out for a topic is what an agent would have written to it,
//! in order and with the same offsets, from the places that were given on. Bound: the
//! engines' state, and the rows of one read. Knows no store: whoever drives it reads the
//! log and keeps the rows or compares them.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::changes::Base;
use crate::changes::CHANGES_AT;
use crate::commit::GroupCommit;
use crate::derive::Since;
use crate::engine::config::EngineConfig;
use crate::exchange::{Across, EXCHANGE_AT, Split};
use crate::layout::Layouts;
use crate::log::key::{StoredBlock, TopicPartition};
use crate::log::topic::READINGS;
use crate::meta::Entry;
use crate::readers::places::entries;
use crate::readers::{DeriveRead, Readers};
use crate::units::{Epoch, Mono, Offset, PartitionId, Span, TopicId};

/// Nothing here goes by time.
const NOW: Mono = Mono(0);

/// See the module.
#[derive(Debug)]
pub struct Recompute {
    readers: Readers,
    /// Windows that cross devices, where these lie in several partitions.
    across: Option<Across>,
    commit: GroupCommit,
}

impl Recompute {
    /// Windows and joins of `config` into `topics`, over the readings below `ends`. Topics in
    /// `since` begin there, all others with the first reading. Blocks are of `epoch`.
    #[must_use]
    pub fn new(
        (config, topics): (&EngineConfig, Vec<Option<TopicId>>),
        layouts: Layouts,
        ends: &BTreeMap<PartitionId, Offset>,
        since: &BTreeMap<TopicPartition, Since>,
        epoch: Epoch,
    ) -> Self {
        let readings = |partition: &PartitionId| TopicPartition {
            topic: READINGS,
            partition: *partition,
        };
        let ends = ends
            .iter()
            .map(|(partition, end)| (readings(partition), *end));
        let heads = since.iter().map(|(at, since)| (*at, since.next));
        let commit = GroupCommit::new(epoch, Span(0), ends.chain(heads).collect());
        let meta = entries(since);
        let divides = layouts.current().router.count() > 1;
        let split = Split::of(config).filter(|_| divides);
        let across = split
            .as_ref()
            .map(|split| Across::new(split, &topics, &[], (&commit, NOW)));
        let (config, topics) = match &split {
            None => (config, topics),
            Some(split) => {
                let topics = split.by_device_of.iter().map(|at| topics[*at]).collect();
                (&split.by_device, topics)
            }
        };
        let readers = Readers::new(config, topics, (layouts, false), &meta, (&commit, NOW));
        Self {
            readers,
            across,
            commit,
        }
    }

    /// The end of the exchange, of which windows that cross devices are computed.
    #[must_use]
    pub fn with_exchange(mut self, end: Offset) -> Self {
        self.commit.set_head(EXCHANGE_AT, end);
        self
    }

    /// The end of the changes of tables.
    #[must_use]
    pub fn with_changes(mut self, end: Offset) -> Self {
        self.commit.set_head(CHANGES_AT, end);
        self
    }

    /// What the changes of tables say that were removed, as `meta` keeps it.
    #[must_use]
    pub fn with_base(mut self, meta: &[Entry]) -> Self {
        let base = Arc::new(Base::restore(meta));
        self.readers.set_base(&base);
        if let Some(across) = &mut self.across {
            across.set_base(&base);
        }
        self
    }

    /// The next read of the log; `None` when all is computed.
    pub fn next_fetch(&mut self) -> Option<(DeriveRead, TopicPartition, Offset)> {
        loop {
            if let Some(next) = self.readers.next_fetch(&self.commit) {
                return Some(next);
            }
            if self.readers.next_layout(&self.commit, NOW).is_none() {
                let across = self.across.as_mut()?;
                let (at, from) = across.next_fetch(&self.commit)?;
                return Some((DeriveRead::Exchange, at, from));
            }
            self.readers.on_cut();
        }
    }

    /// Takes what the read brought; gives the rows that it made, in blocks.
    pub fn on_fetched(&mut self, read: DeriveRead, blocks: &[StoredBlock]) -> Vec<StoredBlock> {
        let across = self.across.as_mut();
        if let Some(across) = across.filter(|_| read == DeriveRead::Exchange) {
            across.on_fetched(blocks, NOW, &mut self.commit);
        } else {
            self.readers.on_fetched(read, blocks, NOW, &mut self.commit);
        }
        let Some((token, batch)) = self.commit.poll(NOW) else {
            return Vec::new();
        };
        self.commit.committed(token);
        batch.blocks
    }

    /// Offset of the next row of a topic.
    #[must_use]
    pub fn next(&self, at: TopicPartition) -> Offset {
        self.commit.next(at)
    }

    /// Runs of readings, `[first, end)`, that were not there, since the last call.
    pub fn take_holes(&mut self) -> Vec<(PartitionId, Offset, Offset)> {
        self.readers.take_holes()
    }

    /// Up to where a partition has been read under the last layout.
    #[must_use]
    pub fn cursor(&self, partition: PartitionId) -> Offset {
        self.readers.cursor(partition)
    }
}
