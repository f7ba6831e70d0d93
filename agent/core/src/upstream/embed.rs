//! A batch as writes of a store that has keys and values: what the embedded sink, and
//! every stand-in for it in tests, makes of one. Byte tables:
//! `agent/core/docs/upstream.md`.
//!
//! Always holds: a row's key must be new, so a second application fails. Bound: the
//! batch's. Knows no disk.

use super::batch::{Applied, Batch, Table};
use super::keys::{RowKey, Source};
use super::ranges::OffsetRange;
use super::rows::pieces;
use crate::payload::{DataBody, push_row};
use crate::record::{Missing, Record, missing_name};
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
    let index = |offset: Offset| {
        let index = usize::try_from(offset.0 - message.id.first.0);
        index.expect("a part lies inside of its message")
    };
    let indices = || index(part.start())..index(part.end());
    let texts: Vec<Vec<u8>>;
    let rows: Vec<&[u8]> = match &message.body {
        DataBody::Missing(reason) => {
            texts = vec![missing_row(*reason, part).into_bytes()];
            texts.iter().map(Vec::as_slice).collect()
        }
        DataBody::Readings { series, records } => {
            let text = |record: &Record| {
                let mut out = Vec::new();
                push_row(series, record, &mut out);
                out
            };
            texts = records[indices()].iter().map(text).collect();
            texts.iter().map(Vec::as_slice).collect()
        }
        DataBody::Rows(rows) => rows[indices()].iter().map(Vec::as_slice).collect(),
    };
    for (chunk, value) in (0..).zip(pieces(&rows)) {
        let key = RowKey {
            source: Source::of(&message.id),
            epoch: message.id.epoch,
            first: part.start(),
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

/// One row stands for all offsets that will never come, at the first of them.
fn missing_row(reason: Missing, part: OffsetRange) -> String {
    format!(
        "{{\"missing\":\"{}\",\"first_offset\":{},\"last_offset\":{}}}",
        missing_name(reason),
        part.start().0,
        part.end().0 - 1
    )
}
