//! Compact messages: golden bytes, parts of blocks, what is refused.

use super::*;
use crate::limits::{BLOCK_RECORDS_MAX, CHANNEL_NAME_BYTES_MAX, UNIT_NAME_BYTES_MAX};
use crate::log::builder::{ReadingsBuilder, RowsBuilder};
use crate::log::decode::{decode, decode_head};
use crate::log::key::StoredBlock;
use crate::record::MISSING;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Magic, version and kind 0, log id, epoch, nonce, partition, offsets, names.
const GOLDEN_ENVELOPE: &str = concat!(
    "4642430100",
    "abababababababababababababababab",
    "02000000",
    "fe00000000000000",
    "0300",
    "6400000000000000",
    "6700000000000000",
    "026731",
    "0872656164696e6773",
);

/// The block as the log stores it.
fn stored(block: &Block) -> StoredBlock {
    let bytes = match &block.body {
        Body::Readings { series, records } => {
            let mut builder = ReadingsBuilder::new();
            for record in records {
                match record {
                    Record::Reading(reading) => {
                        builder.push_reading(&series[usize::from(reading.series)], reading)
                    }
                    Record::Gap(gap) => builder.push_gap(gap),
                    Record::Clock(clock) => builder.push_clock(clock),
                    Record::Tables(tables) => builder.push_tables(tables),
                }
                .unwrap();
            }
            builder.seal(block.at, block.base, block.epoch)
        }
        Body::Rows(rows) => {
            let mut builder = RowsBuilder::default();
            rows.iter().for_each(|row| builder.push(row).unwrap());
            builder.seal(block.at, block.base, block.epoch)
        }
    };
    StoredBlock {
        key: block.key(),
        bytes,
    }
}

/// What a compact message says: with ticks.
fn whole(block: &Block) -> DataMessage {
    let mut message = said(block);
    if let (DataBody::Readings { records, .. }, Body::Readings { records: all, .. }) =
        (&mut message.body, &block.body)
    {
        records.clone_from(all);
    }
    message
}

#[test]
fn a_message_is_its_envelope_and_the_block_as_it_is_stored() {
    let block = golden_block();
    let stored = stored(&block);
    let bytes = COMPACT.render(&id_of(&block), &stored).unwrap();
    assert_eq!(
        hex(&bytes),
        format!("{GOLDEN_ENVELOPE}{}", hex(&stored.bytes))
    );
    assert_eq!(DataMessage::parse(&bytes), Ok(whole(&block)));
    let opened = Compact::open(&bytes).unwrap();
    assert_eq!(opened.id, id_of(&block));
    assert_eq!(opened.body, CompactBody::Block(&stored.bytes));
    assert_eq!(COMPACT.render_block(&id_of(&block), &block), Some(bytes));
}

#[test]
fn what_is_missing_reads_back() {
    for (reason, kind) in MISSING.map(|(reason, _)| reason).into_iter().zip(1_u8..) {
        let mut id = id_of(&golden_block());
        (id.first, id.last) = (Offset(0), Offset(u64::MAX - 1));
        let bytes = COMPACT.render_missing(&id, reason);
        assert_eq!(bytes[4], kind, "codes are append only");
        let body = DataBody::Missing(reason);
        assert_eq!(DataMessage::parse(&bytes), Ok(DataMessage { id, body }));
        let more = [&bytes[..], b"x"].concat();
        assert!(DataMessage::parse(&more).is_err());
    }
}

#[test]
fn each_part_of_a_block_reads_back() {
    for block in [golden_block(), clock_block(), rows_block()] {
        let stored = stored(&block);
        let count = block.body.len() as u64;
        for (first, last) in (0..count).flat_map(|a| (a..count).map(move |b| (a, b))) {
            let mut id = id_of(&block);
            id.last = Offset(id.first.0 + last);
            id.first.0 += first;
            let mut want = whole(&block);
            want.id = id.clone();
            let range = first as usize..=last as usize;
            match &mut want.body {
                DataBody::Readings { records, .. } => *records = records[range].to_vec(),
                DataBody::Rows(rows) => *rows = rows[range].to_vec(),
                DataBody::Missing(_) => panic!("records"),
            }
            let bytes = COMPACT.render(&id, &stored).unwrap();
            assert!(bytes.len() <= COMPACT.render(&id_of(&block), &stored).unwrap().len());
            let back = DataMessage::parse(&bytes).unwrap();
            assert_eq!(rows_in(&back), rows_in(&want), "{first} to {last}");
            // From a message, too, as a sink stores it.
            let message = DataMessage::parse(&COMPACT.render(&id_of(&block), &stored).unwrap());
            let parts = message.unwrap().to_compact(id.first, id.last);
            assert_eq!(parts.len(), 1);
            let back = DataMessage::parse(&parts[0]).unwrap();
            assert_eq!(rows_in(&back), rows_in(&want), "{first} to {last}");
        }
    }
}

/// Identity and rows: a part names the series that it needs only.
fn rows_in(message: &DataMessage) -> (MessageId, Vec<Vec<u8>>) {
    let rows = match &message.body {
        DataBody::Readings { series, records } => {
            let row = |record| {
                let mut out = Vec::new();
                push_row(series, record, &mut out);
                out
            };
            records.iter().map(row).collect()
        }
        DataBody::Rows(rows) => rows.clone(),
        DataBody::Missing(_) => Vec::new(),
    };
    (message.id.clone(), rows)
}

#[test]
fn what_does_not_fit_one_block_becomes_several() {
    // Nothing in common between two readings: 40 bytes each.
    let records: Vec<_> = (0..BLOCK_RECORDS_MAX as u64)
        .map(|n| {
            let mixed = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (n << 40);
            Record::Reading(ReadingRecord {
                series: 0,
                ordinal: Ordinal(mixed),
                tick: Tick(0),
                time: EventTime((mixed >> 2).cast_signed()),
                uncertainty_us: mixed as u32 & 0xff_ffff,
                value: (mixed >> 12).cast_signed(),
                quality: Quality::Ok,
            })
        })
        .collect();
    let block = block_of(Body::Readings {
        series: vec![series(0)],
        records,
    });
    assert_eq!(COMPACT.render_block(&id_of(&block), &block), None);
    let (id, bytes) = render(&block);
    let message = DataMessage::parse(&bytes).unwrap();
    let parts = message.to_compact(id.first, id.last);
    assert!(parts.len() > 1);
    let (_, want) = rows_in(&message);
    let mut rows = Vec::new();
    let mut next = id.first;
    for part in parts {
        let part = DataMessage::parse(&part).unwrap();
        assert_eq!(part.id.first, next);
        next = Offset(part.id.last.0 + 1);
        rows.extend(rows_in(&part).1);
    }
    assert_eq!((next.0, rows), (id.last.0 + 1, want));
}

#[test]
fn what_does_not_agree_is_refused() {
    let block = golden_block();
    let good = COMPACT.render(&id_of(&block), &stored(&block)).unwrap();
    let at = GOLDEN_ENVELOPE.len() / 2;
    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        bytes
    };
    for (name, bytes) in [
        ("newer version", with(3, 2)),
        ("unknown kind", with(4, 99)),
        ("a reason and a block", with(4, 1)),
        ("another epoch", with(21, 3)),
        ("another partition", with(33, 4)),
        ("a first offset before the block", with(35, 99)),
        ("a last offset before the first", with(43, 99)),
        ("a last offset behind the block", with(43, 104)),
        ("no name", with(51, 0)),
        ("a damaged block", with(at + 60, 0xee)),
        ("a block without its magic", with(at, 0)),
        ("more", [&good[..], b"x"].concat()),
    ] {
        assert!(Compact::open(&bytes).is_err(), "{name}");
        assert!(DataMessage::parse(&bytes).is_err(), "{name}");
    }
    for cut in 0..good.len() {
        assert!(DataMessage::parse(&good[..cut]).is_err(), "{cut} bytes");
    }
}

#[test]
fn names_and_rows_that_no_other_format_has_are_refused() {
    let named = |name: usize, unit: usize| {
        let mut one = series(0);
        one.name = "n".repeat(name).into();
        one.unit = "u".repeat(unit).into();
        block_of(Body::Readings {
            series: vec![one],
            records: vec![reading(0, 1, Quality::Ok)],
        })
    };
    let row = |line: &[u8]| {
        let line = line.to_vec();
        let time = EventTime(0);
        block_of(Body::Rows(vec![Row { time, line }]))
    };
    let (name, unit) = (CHANNEL_NAME_BYTES_MAX, UNIT_NAME_BYTES_MAX);
    for (what, block, fits) in [
        ("names below their limits", named(name - 1, unit - 1), true),
        ("names at their limits", named(name, unit), true),
        ("a long name", named(name + 1, unit), false),
        ("a long unit", named(name, unit + 1), false),
        ("an object", row(b"{\"a\":1}"), true),
        ("no JSON", row(b"a"), false),
        ("no object", row(b"[]"), false),
        ("two objects", row(b"{}{}"), false),
        ("nothing", row(b""), false),
    ] {
        let bytes = COMPACT.render(&id_of(&block), &stored(&block)).unwrap();
        assert_eq!(DataMessage::parse(&bytes).is_ok(), fits, "{what}");
    }
}

#[test]
fn a_stored_block_that_cannot_be_read_is_an_error() {
    let block = golden_block();
    let mut stored = stored(&block);
    *stored.bytes.last_mut().unwrap() ^= 1;
    assert!(decode_head(stored.key, &stored.bytes).is_err());
    assert!(decode(stored.key, &stored.bytes).is_err());
    for encoding in [JSON, COMPACT] {
        assert!(encoding.render(&id_of(&block), &stored).is_err());
    }
}
