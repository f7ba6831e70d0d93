//! A batch as writes of a store that has keys and values: what the embedded sink, and
//! every stand-in for it in tests, makes of one. Byte tables:
//! `agent/core/docs/upstream.md`.
//!
//! Always holds: a row's key must be new, so a second application fails. A message that
//! came compact is kept as it came, no record of it is touched. Bound: the batch's.
//! Knows no disk.

use super::apply::range;
use super::batch::{Applied, Batch, Table};
use super::keys::{RowKey, Source};
use super::ranges::OffsetRange;
use super::rows::compact_pieces;
use super::run::Opening;
use crate::payload::{Compact, is_compact};
use crate::units::Offset;

/// One write of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SinkWrite {
    pub table: Table,
    pub key: Vec<u8>,
    /// `None` removes the key.
    pub value: Option<Vec<u8>>,
    /// The key must not exist: a row that does was applied before, and then the
    /// transaction must fail whole.
    pub must_be_new: bool,
}

/// All writes of a batch but for the versions.
#[must_use]
pub fn writes(batch: &Batch) -> Vec<SinkWrite> {
    let mut out = Vec::with_capacity(batch.applied.len() + batch.entries.len());
    for applied in &batch.applied {
        for part in &applied.fresh {
            push_rows(&mut out, applied, *part);
        }
    }
    out.extend(batch.entries.iter().map(|entry| SinkWrite {
        table: entry.table,
        key: entry.key.clone(),
        value: entry.value.clone(),
        must_be_new: false,
    }));
    out
}

/// The rows of the message whose offsets are in `part`.
fn push_rows(out: &mut Vec<SinkWrite>, applied: &Applied, part: OffsetRange) {
    let message = &applied.message;
    if part == range(message) && is_compact(&applied.payload) {
        push_group(out, applied, part.start(), &applied.payload);
        return;
    }
    let last = Offset(part.end().0 - 1);
    for payload in message.to_compact(part.start(), last) {
        let compact = Compact::open(&payload);
        let first = compact.expect("it was made just now").id.first;
        push_group(out, applied, first, &payload);
    }
}

fn push_group(out: &mut Vec<SinkWrite>, applied: &Applied, first: Offset, payload: &[u8]) {
    let id = &applied.message.id;
    for (chunk, value) in (0..).zip(compact_pieces(payload)) {
        let key = RowKey {
            source: Source::of(id),
            opening: Opening {
                epoch: id.epoch,
                nonce: id.nonce,
            },
            first,
            chunk,
        };
        out.push(SinkWrite {
            table: Table::Rows,
            key: key.to_bytes(),
            value: Some(value),
            must_be_new: true,
        });
    }
}
