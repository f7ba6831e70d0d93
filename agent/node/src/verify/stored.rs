//! The rows that stand in one partition of a topic, one after the other. Bound: one
//! read of the log.

use std::collections::VecDeque;

use forebay_core::limits::FETCH_BYTES_MAX;
use forebay_core::log::block::Body;
use forebay_core::log::key::TopicPartition;
use forebay_core::log::walk::{Met, Walk};
use forebay_core::units::Offset;

use crate::store::LogReader;

/// See the module.
#[derive(Debug)]
pub(super) struct StoredRows {
    walk: Walk,
    end: Offset,
    rows: VecDeque<(Offset, Vec<u8>)>,
}

impl StoredRows {
    pub(super) fn new(at: TopicPartition, from: Offset, end: Offset) -> Self {
        Self {
            walk: Walk::new(at, from),
            end,
            rows: VecDeque::new(),
        }
    }

    /// The next row, which stays.
    ///
    /// # Errors
    /// When the system cannot read.
    pub(super) fn peek(
        &mut self,
        reader: &mut LogReader,
    ) -> Result<Option<&(Offset, Vec<u8>)>, String> {
        while self.rows.is_empty() {
            let Some((at, from)) = self.walk.next_fetch(self.end) else {
                break;
            };
            let blocks = reader.read(at, from, FETCH_BYTES_MAX, |_| {});
            let blocks = blocks.map_err(|error| error.to_string())?;
            let rows = &mut self.rows;
            self.walk.on_fetched(&blocks, self.end, |met| match met {
                Met::Block { block, records, .. } => {
                    if let Body::Rows(all) = &block.body {
                        let offsets = block.base.0 + records.start as u64..;
                        let lines = all[records].iter().zip(offsets);
                        rows.extend(lines.map(|(row, at)| (Offset(at), row.line.clone())));
                    }
                }
                // What is not there cannot be compared.
                Met::Hole { .. } => {}
            });
        }
        Ok(self.rows.front())
    }

    /// Takes what [`StoredRows::peek`] showed.
    pub(super) fn pop(&mut self) -> Option<(Offset, Vec<u8>)> {
        self.rows.pop_front()
    }
}
