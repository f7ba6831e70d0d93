//! Rows that stood in derived topics after their kept places when the log was opened:
//! read before anything is fed, to be known again.
//!
//! Bound: [`STORED_ROWS_MAX`] rows of a topic and [`STORED_BYTES_MAX`] of all; rows beyond
//! are counted off.

use std::collections::{BTreeMap, VecDeque};

use super::{Derive, StoredLine};
use crate::limits::{STORED_BYTES_MAX, STORED_ROWS_MAX};
use crate::log::block::Body;
use crate::log::key::{StoredBlock, TopicPartition};
use crate::log::walk::{Met, Walk};
use crate::units::Offset;

/// Rows that stand in a topic after its kept place.
#[derive(Debug, Clone, Default)]
struct Rows {
    lines: VecDeque<StoredLine>,
    bytes: usize,
    /// Some are lost.
    has_hole: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    rows: BTreeMap<TopicPartition, Rows>,
    bytes: usize,
    /// What is still to be read, each up to where.
    loading: VecDeque<(Walk, Offset)>,
}

impl Standing {
    /// Lists the rows of `at` from `first` on, below `head`, to be read; `compared`: what is
    /// compared begins here, also where there are none.
    pub(crate) fn list(
        &mut self,
        at: TopicPartition,
        (first, head): (Offset, Offset),
        compared: bool,
    ) {
        let rows = head.0.saturating_sub(first.0);
        if rows == 0 && compared {
            self.rows.insert(at, Rows::default());
        } else if (1..=STORED_ROWS_MAX).contains(&rows) {
            self.loading.push_back((Walk::new(at, first), head));
        }
    }

    /// Whether some are still to be read.
    pub(crate) fn is_loading(&self) -> bool {
        !self.loading.is_empty()
    }

    /// The next read of the log.
    pub(crate) fn next_fetch(&mut self) -> Option<(TopicPartition, Offset)> {
        let (walk, end) = self.loading.front_mut()?;
        walk.next_fetch(*end)
    }

    /// Takes what it brought; gives the place of which all has been read.
    pub(crate) fn on_fetched(&mut self, blocks: &[StoredBlock]) -> Option<TopicPartition> {
        let (walk, end) = self.loading.front_mut()?;
        let at = walk.at();
        let stored = self.rows.entry(at).or_default();
        let mut bytes = 0;
        walk.on_fetched(blocks, *end, |met| match met {
            Met::Block { block, records, .. } => match &block.body {
                Body::Rows(rows) => {
                    let offsets = block.base.0 + records.start as u64..;
                    let lines = rows[records].iter().zip(offsets);
                    stored.lines.extend(lines.map(|(row, offset)| {
                        bytes += row.line.len();
                        StoredLine {
                            offset: Offset(offset),
                            line: row.line.clone(),
                        }
                    }));
                }
                Body::Readings { .. } => {}
            },
            // Rows that are lost are written again.
            Met::Hole { .. } => stored.has_hole = true,
        });
        stored.bytes += bytes;
        self.bytes += bytes;
        if self.bytes > STORED_BYTES_MAX {
            // They are counted off.
            self.loading.pop_front();
            let dropped = self.rows.remove(&at).unwrap_or_default();
            self.bytes -= dropped.bytes;
            return None;
        }
        let whole = walk.cursor() >= *end;
        if whole {
            self.loading.pop_front();
        }
        whole.then_some(at)
    }

    /// Tells an engine what stands in one of its topics.
    pub(crate) fn tell(&self, at: TopicPartition, stage: &mut Derive) {
        if let Some(stored) = self.rows.get(&at) {
            stage.set_stored(at.topic, &stored.lines, !stored.has_hole);
        }
    }

    /// Places of which all has been read.
    pub(crate) fn places(&self) -> impl Iterator<Item = TopicPartition> + '_ {
        self.rows.keys().copied()
    }

    /// What stands there is of readings that are not fed again.
    pub(crate) fn forget(&mut self, at: TopicPartition) {
        self.rows.remove(&at);
    }

    /// What stood there has been met again.
    pub(crate) fn clear(&mut self) {
        self.rows.clear();
        self.bytes = 0;
    }
}
