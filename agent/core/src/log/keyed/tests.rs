//! Rows by key: what was given comes back, and nothing else does.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::build::GROUP_BYTES_MORE;
use super::*;

type Got = Vec<(u64, i64, Vec<u8>)>;

/// The parts of it: buckets, table.
fn open(bytes: &[u8]) -> Result<KeyedTable, SegmentFault> {
    let index_at = (bytes.len() + SEGMENT_HEAD_BYTES) as u64;
    let trailer = decode_keyed_trailer(bytes, index_at)?;
    let end = bytes.len() - KEYED_TRAILER_BYTES;
    let start = end.checked_sub(trailer.table_bytes());
    let table = start.and_then(|start| bytes.get(start..end));
    let table = decode_keyed_table(table.ok_or(SegmentFault::Keyed)?, &trailer)?;
    let holds = trailer.bytes() <= bytes.len();
    holds.then_some(table).ok_or(SegmentFault::Keyed)
}

fn rows_of(bytes: &[u8], partition: u16, key: &[u8]) -> Result<Got, SegmentFault> {
    let table = open(bytes)?;
    let Range { start, end } = table.bucket(key);
    let mut got = Got::new();
    let bucket = &bytes[start as usize..end as usize];
    each_of_key(
        bucket,
        (PartitionId(partition), key),
        |offset, time, row| {
            got.push((offset.0, time.0, row.to_vec()));
        },
    )?;
    Ok(got)
}

/// Partition, key, offset, time and line.
type Row<'a> = (u16, &'a [u8], u64, i64, &'a [u8]);

fn built(rows: &[Row<'_>], note: &[u8]) -> Vec<u8> {
    let mut builder = KeyedBuilder::new();
    for (partition, key, offset, time, row) in rows {
        let partition = PartitionId(*partition);
        let at = (Offset(*offset), EventTime(*time));
        assert_eq!(builder.push((partition, key), at, row), Ok(()));
        let span = builder.span(partition, Offset(*offset), Offset(offset + 1));
        assert_eq!(span, Ok(()));
    }
    builder.finish(note)
}

#[test]
fn the_bytes_are_those_of_the_table() {
    let bytes = built(
        &[(1, b"k", 300, -2, b"row"), (1, b"k", 301, 5, b"")],
        b"note",
    );
    let bucket = [
        &[1, 0, 1][..],
        b"k",
        &[10, 0xac, 2, 3, 3],
        b"row",
        &[1, 14, 0],
    ]
    .concat();
    let mut want = crc32c::crc32c(&bucket).to_le_bytes().to_vec();
    want.extend(&bucket);
    let table = [
        &19_u32.to_le_bytes()[..],
        &[1, 0],
        &300_u64.to_le_bytes(),
        &302_u64.to_le_bytes(),
        b"note",
    ]
    .concat();
    want.extend(&table);
    let mut trailer = [1_u32.to_le_bytes(), [1, 0, 4, 0], 19_u32.to_le_bytes()].concat();
    trailer.extend(crc32c::crc32c(&table).to_le_bytes());
    trailer.extend([1, 0, 0, 0]);
    trailer.extend(crc32c::crc32c(&trailer).to_le_bytes());
    trailer.extend(b"FKEY");
    want.extend(&trailer);
    assert_eq!(bytes, want);
}

#[test]
fn rows_stand_by_partition_and_key() {
    let bytes = built(
        &[
            (0, b"a", 5, 50, b"1"),
            (0, b"b", 6, 40, b"2"),
            (0, b"a", 7, 60, b"3"),
            (2, b"a", 7, 70, b"4"),
        ],
        b"",
    );
    let row = |offset, time, row: &[u8]| (offset, time, row.to_vec());
    for (name, partition, key, want) in [
        ("two", 0, "a", vec![row(5, 50, b"1"), row(7, 60, b"3")]),
        ("one", 0, "b", vec![row(6, 40, b"2")]),
        ("another partition", 2, "a", vec![row(7, 70, b"4")]),
        ("none in this partition", 2, "b", vec![]),
        ("nobody", 0, "c", vec![]),
    ] {
        assert_eq!(
            rows_of(&bytes, partition, key.as_bytes()),
            Ok(want),
            "{name}"
        );
    }
    let table = open(&bytes).unwrap();
    let span = |partition, first, end| KeyedSpan {
        partition: PartitionId(partition),
        first: Offset(first),
        end: Offset(end),
    };
    assert_eq!(table.spans, [span(0, 5, 8), span(2, 7, 8)]);
}

#[test]
fn without_a_row_there_are_no_bytes() {
    let mut builder = KeyedBuilder::new();
    builder.span(PartitionId(0), Offset(0), Offset(9)).unwrap();
    assert!(builder.is_empty());
    assert!(builder.finish(b"note").is_empty());
}

#[test]
fn whatever_byte_is_damaged_no_row_is_another() {
    let bytes = built(&[(0, b"a", 5, 50, b"11"), (0, b"b", 6, 40, b"22")], b"note");
    let whole = rows_of(&bytes, 0, b"a").unwrap();
    for at in 0..bytes.len() {
        let mut bad = bytes.clone();
        bad[at] ^= 0x20;
        assert_eq!(
            rows_of(&bad, 0, b"a").unwrap_err(),
            SegmentFault::Keyed,
            "{at}"
        );
        // A byte of another's bucket does not hide these, but a bucket is whole or not.
        assert!(check_all(&bad).is_err(), "{at}");
    }
    for len in 0..bytes.len() {
        assert!(rows_of(&bytes[..len], 0, b"a").is_err(), "cut at {len}");
        assert!(rows_of(&bytes[len + 1..], 0, b"a").is_err(), "from {len}");
    }
    assert_eq!(whole.len(), 1);
    assert_eq!(check_all(&bytes), Ok(2));
}

fn check_all(bytes: &[u8]) -> Result<u64, SegmentFault> {
    let table = open(bytes)?;
    let rows = table.buckets().map(|bucket| {
        let bucket = bytes.get(bucket.start as usize..bucket.end as usize);
        check_bucket(bucket.ok_or(SegmentFault::Keyed)?)
    });
    rows.sum()
}

#[test]
fn runs_of_offsets_are_bounded() {
    for (count, fits) in [
        (KEYED_SPANS_MAX - 1, true),
        (KEYED_SPANS_MAX, true),
        (KEYED_SPANS_MAX + 1, false),
    ] {
        let mut builder = KeyedBuilder::new();
        let at = (Offset(0), EventTime(0));
        builder.push((PartitionId(0), b"k"), at, b"r").unwrap();
        let mut spanned = Ok(());
        for n in 0..count as u64 {
            // A hole behind each.
            spanned = builder.span(PartitionId(0), Offset(n * 2), Offset(n * 2 + 1));
        }
        assert_eq!(spanned.is_ok(), fits, "{count}");
        if fits {
            let table = open(&builder.finish(b"")).unwrap();
            assert_eq!(table.spans.len(), count);
        }
    }
}

#[test]
fn bytes_are_bounded() {
    let key = [7; 100];
    let more = key.len() + GROUP_BYTES_MORE;
    let row = vec![1; 64 * 1024];
    for (less, fits) in [(1, true), (0, true), (-1, false)] {
        let mut builder = KeyedBuilder::new();
        let mut sum = more;
        let wanted = KEYED_BYTES_MAX.checked_add_signed(-less).unwrap();
        let mut pushed = Ok(());
        while sum < wanted {
            // Offset and time of one byte each, and the length of three or fewer.
            let head = |len: usize| 2 + super::super::bytes::varint_bytes(len as u64);
            let mut len = row.len().min(wanted - sum);
            while len + head(len) > wanted - sum {
                len -= 1;
            }
            let at = (Offset(0), EventTime(0));
            pushed = builder.push((PartitionId(0), &key), at, &row[..len]);
            sum += len + head(len);
            assert!(pushed.is_ok() || sum == wanted, "{sum}");
        }
        assert_eq!(pushed.is_ok(), fits, "{less}");
        if fits {
            let bytes = builder.finish(b"");
            assert!(open(&bytes).is_ok(), "{less}");
        }
    }
}

#[test]
fn a_trailer_that_names_too_much_is_none() {
    let trailer = |buckets: usize, spans: usize, note: usize, bytes: usize| {
        let mut out = (buckets as u32).to_le_bytes().to_vec();
        out.extend((spans as u16).to_le_bytes());
        out.extend((note as u16).to_le_bytes());
        out.extend((bytes as u32).to_le_bytes());
        out.extend([0; 4]);
        out.extend([VERSION, 0, 0, 0]);
        out.extend(crc32c::crc32c(&out).to_le_bytes());
        out.extend(MAGIC);
        out
    };
    let room = 1 << 40;
    for (name, bytes, reads) in [
        ("least", trailer(1, 0, 0, 0), true),
        ("no bucket", trailer(0, 0, 0, 0), false),
        ("buckets", trailer(KEYED_BUCKETS_MAX, 0, 0, 0), true),
        ("one more", trailer(KEYED_BUCKETS_MAX + 1, 0, 0, 0), false),
        ("spans", trailer(1, KEYED_SPANS_MAX, 0, 0), true),
        ("one more", trailer(1, KEYED_SPANS_MAX + 1, 0, 0), false),
        ("note", trailer(1, 0, KEYED_NOTE_BYTES_MAX, 0), true),
        (
            "one more",
            trailer(1, 0, KEYED_NOTE_BYTES_MAX + 1, 0),
            false,
        ),
        ("bytes", trailer(1, 0, 0, KEYED_BYTES_MAX), true),
        ("one more", trailer(1, 0, 0, KEYED_BYTES_MAX + 1), false),
    ] {
        let read = decode_keyed_trailer(&bytes, room);
        assert_eq!(read.is_ok(), reads, "{name}");
    }
    let one = trailer(1, 0, 0, 100);
    let least = (SEGMENT_HEAD_BYTES + 100 + 4 + KEYED_TRAILER_BYTES) as u64;
    for (room, reads) in [(least - 1, false), (least, true), (least + 1, true)] {
        assert_eq!(decode_keyed_trailer(&one, room).is_ok(), reads, "{room}");
    }
}

proptest! {
    #[test]
    fn what_was_given_comes_back(
        rows in proptest::collection::vec((0_u8..40, any::<u64>(), any::<i64>(), 0_usize..300), 1..300),
    ) {
        let mut builder = KeyedBuilder::new();
        let mut want: BTreeMap<u8, Got> = BTreeMap::new();
        for (key, offset, time, len) in rows {
            let row = vec![key; len];
            let at = (Offset(offset), EventTime(time));
            builder.push((PartitionId(1), &[key; 9]), at, &row).unwrap();
            want.entry(key).or_default().push((offset, time, row));
        }
        let bytes = builder.finish(b"x");
        let count = want.values().map(Vec::len).sum::<usize>() as u64;
        for (key, rows) in want {
            prop_assert_eq!(rows_of(&bytes, 1, &[key; 9]), Ok(rows));
        }
        prop_assert_eq!(rows_of(&bytes, 1, &[40; 9]), Ok(vec![]));
        prop_assert_eq!(check_all(&bytes), Ok(count));
    }

    #[test]
    fn bytes_of_any_kind_are_no_rows(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(open(&bytes).is_err());
        let _ = check_bucket(&bytes);
        let with_crc = [&crc32c::crc32c(&bytes).to_le_bytes()[..], &bytes].concat();
        let _ = check_bucket(&with_crc);
        let key = (PartitionId(0), &b""[..]);
        let _ = each_of_key(&with_crc, key, |_, _, _| {});
    }
}
