//! A block of result rows: times and the lines as the engine wrote them.
//! Bounds: [`BLOCK_RECORDS_MAX`] and [`BLOCK_BYTES_MAX`].

use super::block::{BLOCK_HEAD_BYTES, Body, CODEC_ROWS, Row};
use super::builder::Full;
use super::bytes::{Malformed, Reader, put_varint, put_zigzag};
use super::head::{Stamp, finish_block};
use super::key::TopicPartition;
use crate::limits::{BLOCK_BYTES_MAX, BLOCK_RECORDS_MAX, ROW_BYTES_MAX};
use crate::units::{Epoch, EventTime, Offset};

const _: () = assert!(
    BLOCK_HEAD_BYTES + 10 + 2 + ROW_BYTES_MAX <= BLOCK_BYTES_MAX,
    "the longest row fits an empty block"
);

/// A rows block under construction.
#[derive(Debug, Clone, Default)]
pub struct RowsBuilder {
    payload: Vec<u8>,
    count: u16,
    time: i64,
    times: Option<(EventTime, EventTime)>,
}

impl RowsBuilder {
    #[must_use]
    pub fn len(&self) -> usize {
        usize::from(self.count)
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds a row.
    ///
    /// # Errors
    /// [`Full`] when it does not fit; the builder is then unchanged.
    pub fn push(&mut self, row: &Row) -> Result<(), Full> {
        if self.len() == BLOCK_RECORDS_MAX {
            return Err(Full);
        }
        let before = self.payload.len();
        put_zigzag(&mut self.payload, row.time.0.wrapping_sub(self.time));
        put_varint(&mut self.payload, row.line.len() as u64);
        self.payload.extend_from_slice(&row.line);
        if BLOCK_HEAD_BYTES + self.payload.len() > BLOCK_BYTES_MAX {
            self.payload.truncate(before);
            return Err(Full);
        }
        self.time = row.time.0;
        self.count += 1;
        let (min, max) = self.times.unwrap_or((row.time, row.time));
        self.times = Some((min.min(row.time), max.max(row.time)));
        Ok(())
    }

    /// Turns what was built into bytes and leaves an empty builder.
    ///
    /// # Panics
    /// When nothing was pushed: a block holds at least one record.
    pub fn seal(&mut self, at: TopicPartition, base: Offset, epoch: Epoch) -> Vec<u8> {
        let done = std::mem::take(self);
        let times = done
            .times
            .expect("a block is sealed only with records in it");
        let mut out = Vec::with_capacity(BLOCK_HEAD_BYTES + done.payload.len());
        out.resize(BLOCK_HEAD_BYTES, 0);
        out.extend_from_slice(&done.payload);
        let stamp = Stamp {
            at,
            base,
            epoch,
            codec: CODEC_ROWS,
            count: done.count,
            times,
        };
        finish_block(&mut out, &stamp);
        out
    }
}

/// Reads the payload of a rows block.
///
/// # Errors
/// When the bytes are not exactly `count` rows.
pub(super) fn read(reader: &mut Reader<'_>, count: usize) -> Result<Body, Malformed> {
    let mut rows = Vec::with_capacity(count);
    let mut time = 0_i64;
    for _ in 0..count {
        time = time.wrapping_add(reader.zigzag()?);
        let len = usize::try_from(reader.varint()?).map_err(|_| reader.malformed())?;
        rows.push(Row {
            time: EventTime(time),
            line: reader.take(len)?.to_vec(),
        });
    }
    if reader.is_at_end() {
        Ok(Body::Rows(rows))
    } else {
        Err(reader.malformed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{PartitionId, TopicId};

    #[test]
    fn the_record_limit_is_exact() {
        let mut rows = RowsBuilder::default();
        let row = Row {
            time: EventTime(0),
            line: b"{}".to_vec(),
        };
        for _ in 0..BLOCK_RECORDS_MAX {
            assert_eq!(rows.push(&row), Ok(()));
        }
        assert_eq!(rows.push(&row), Err(Full));
        assert_eq!(rows.len(), BLOCK_RECORDS_MAX);
    }

    #[test]
    fn a_row_fits_up_to_the_last_byte() {
        let room = BLOCK_BYTES_MAX - BLOCK_HEAD_BYTES - 1 - 2;
        for (len, fits) in [(room - 1, true), (room, true), (room + 1, false)] {
            let mut rows = RowsBuilder::default();
            let line = vec![b'x'; len];
            let pushed = rows.push(&Row {
                time: EventTime(0),
                line,
            });
            assert_eq!(pushed.is_ok(), fits, "{len}");
            assert_eq!(rows.is_empty(), !fits);
            if fits {
                let at = TopicPartition {
                    topic: TopicId(16),
                    partition: PartitionId(0),
                };
                let bytes = rows.seal(at, Offset(0), Epoch(1));
                assert_eq!(bytes.len(), BLOCK_BYTES_MAX + len - room);
            }
        }
    }
}
