//! Reads of a block only what is wanted: rows without copying them, and readings only
//! where the dictionary has a series that is wanted. Checks the CRC first, and fails on
//! bytes of any kind with a position, as [`super::decode`].

use forebay_wire::ids::DeviceUid;

use super::block::{BLOCK_HEAD_BYTES, Block, BlockError, BlockFault, BlockHead, CODEC_ROWS};
use super::bytes::{Malformed, Reader};
use super::decode::{decode, decode_head};
use super::delta::COLUMNS;
use super::key::StoredBlock;
use super::series;
use crate::units::EventTime;

/// Shows the rows of a block in order, with their place in it. One of readings shows
/// nothing.
///
/// # Errors
/// As [`decode`]; some rows may have been shown by then.
pub fn each_row(
    stored: &StoredBlock,
    mut visit: impl FnMut(usize, EventTime, &[u8]),
) -> Result<BlockHead, BlockError> {
    let head = decode_head(stored.key, &stored.bytes)?;
    if stored.bytes.get(3) != Some(&CODEC_ROWS) {
        return Ok(head);
    }
    let mut reader = Reader::new(&stored.bytes);
    let mut walk = || {
        reader.take(BLOCK_HEAD_BYTES)?;
        let mut time = 0_i64;
        for index in 0..usize::from(head.count) {
            time = time.wrapping_add(reader.zigzag()?);
            let len = usize::try_from(reader.varint()?).map_err(|_| reader.malformed())?;
            visit(index, EventTime(time), reader.take(len)?);
        }
        Ok(())
    };
    walk().map_err(|Malformed { position }| BlockError {
        key: stored.key,
        fault: BlockFault::Malformed { position },
    })?;
    Ok(head)
}

/// The block of readings, where it has a series that is wanted or, if `gaps`, may have a
/// gap; `None` where it has neither.
///
/// # Errors
/// As [`decode`]. Of a block that is not wanted only the dictionary is looked at.
pub fn pick(
    stored: &StoredBlock,
    mut wants: impl FnMut(DeviceUid, &str) -> bool,
    gaps: bool,
) -> Result<(BlockHead, Option<Block>), BlockError> {
    let head = decode_head(stored.key, &stored.bytes)?;
    if stored.bytes.get(3) == Some(&CODEC_ROWS) {
        return Ok((head, None));
    }
    let malformed = |Malformed { position }| BlockError {
        key: stored.key,
        fault: BlockFault::Malformed { position },
    };
    let mut reader = Reader::new(&stored.bytes);
    reader.take(BLOCK_HEAD_BYTES).map_err(malformed)?;
    let mut is_wanted = false;
    series::each(&mut reader, |uid, name| {
        is_wanted = is_wanted || wants(uid, name);
    })
    .map_err(malformed)?;
    if !is_wanted && gaps {
        is_wanted = has_more(&mut reader).map_err(malformed)?;
    }
    if !is_wanted {
        return Ok((head, None));
    }
    decode(stored.key, &stored.bytes).map(|block| (head, Some(block)))
}

/// Whether anything stands behind the columns.
fn has_more(reader: &mut Reader<'_>) -> Result<bool, Malformed> {
    for _ in 0..COLUMNS {
        let len = usize::try_from(reader.varint()?).map_err(|_| reader.malformed())?;
        reader.take(len)?;
    }
    Ok(!reader.is_at_end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::appender::Appender;
    use crate::log::key::TopicPartition;
    use crate::log::topic::READINGS;
    use crate::record::{GapReason, GapRecord, ReadingRecord, Row, Series, ValueKind};
    use crate::units::{Epoch, Mono, Offset, PartitionId, TopicId};
    use forebay_wire::ids::{BootId, ChannelNo, Ordinal, Tick};
    use forebay_wire::message::Quality;

    fn readings(gap: bool) -> StoredBlock {
        let at = TopicPartition {
            topic: READINGS,
            partition: PartitionId(0),
        };
        let mut appender = Appender::readings(at, Epoch(1), Offset(7));
        for n in 0..3_u8 {
            let series = Series {
                uid: DeviceUid([n; 8]),
                boot: BootId(1),
                channel: ChannelNo(0),
                kind: ValueKind::Scaled { scale: 1 },
                name: "t".into(),
                unit: "K".into(),
            };
            let record = ReadingRecord {
                series: 0,
                ordinal: Ordinal(0),
                tick: Tick(0),
                time: EventTime(10),
                uncertainty_us: 0,
                value: i64::from(n),
                quality: Quality::Ok,
            };
            appender.push_reading(&series, &record, Mono(0));
        }
        if gap {
            let gap = GapRecord {
                uid: DeviceUid([1; 8]),
                boot: BootId(1),
                first: Ordinal(0),
                count: 1,
                reason: GapReason::RingFull,
                time: EventTime(10),
            };
            appender.push_gap(&gap, Mono(0));
        }
        appender.seal();
        appender.take_sealed().next().expect("one block")
    }

    #[test]
    fn a_block_is_read_where_it_has_something_that_is_wanted() {
        for (name, device, gap, gaps, is_read) in [
            ("a series of it", 1, false, false, true),
            ("none of it", 9, false, false, false),
            ("a gap that is not asked for", 9, true, false, false),
            ("a gap that is", 9, true, true, true),
            ("no gap", 9, false, true, false),
        ] {
            let stored = readings(gap);
            let wants = |uid: DeviceUid, channel: &str| uid.0[0] == device && channel == "t";
            let (head, block) = pick(&stored, wants, gaps).unwrap();
            assert_eq!(head.base, Offset(7), "{name}");
            assert_eq!(block.is_some(), is_read, "{name}");
            if let Some(block) = block {
                assert_eq!(Ok(block), decode(stored.key, &stored.bytes), "{name}");
            }
        }
    }

    #[test]
    fn rows_are_shown_as_they_are_decoded() {
        let at = TopicPartition {
            topic: TopicId(16),
            partition: PartitionId(0),
        };
        let mut appender = Appender::rows(at, Epoch(1), Offset(0));
        let rows = [5, 3, 9].map(|n: i64| Row {
            time: EventTime(n),
            line: format!("{{\"n\":{n}}}").into_bytes(),
        });
        rows.iter().for_each(|row| appender.push_row(row, Mono(0)));
        appender.seal();
        let stored = appender.take_sealed().next().expect("one block");
        let mut seen = Vec::new();
        let head = each_row(&stored, |index, time, line| {
            assert_eq!(index, seen.len());
            seen.push(Row {
                time,
                line: line.to_vec(),
            });
        });
        assert_eq!(head.unwrap().count, 3);
        assert_eq!(seen, rows);
        let mut cut = stored;
        cut.bytes.truncate(60);
        assert!(each_row(&cut, |_, _, _| {}).is_err());
    }
}
