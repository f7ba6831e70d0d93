//! What holds for any content, in each format: it reads back, and bytes of any kind
//! never panic.

use proptest::prelude::*;

use super::readable::GOLDEN;
use super::*;
use crate::limits::MESSAGE_BYTES_MAX;
use crate::record::{GAPS, QUALITIES, SCALED_VALUE_MAX, TablesRecord};

fn any_figure() -> impl Strategy<Value = (i64, u8)> {
    const MOST: i64 = SCALED_VALUE_MAX as i64;
    let value = prop_oneof![-MOST..=MOST, any::<i32>().prop_map(i64::from)];
    (value, 0u8..=9)
}

fn rows_of(series: &[Series], records: &[Record]) -> Vec<String> {
    let row = |record| {
        let mut out = Vec::new();
        push_row(series, record, &mut out);
        String::from_utf8(out).unwrap()
    };
    records.iter().map(row).collect()
}

fn one(kind: ValueKind, value: i64) -> Block {
    block_of(Body::Readings {
        series: vec![Series { kind, ..series(0) }],
        records: vec![reading(0, value, Quality::Ok)],
    })
}

/// The first value as another JSON reader sees it.
fn number(bytes: &[u8]) -> f64 {
    let json: serde_json::Value = serde_json::from_slice(bytes).unwrap();
    json["records"][0]["v"].as_f64().unwrap()
}

fn any_series() -> impl Strategy<Value = Series> {
    let kind = prop_oneof![
        (0u8..=9).prop_map(|scale| ValueKind::Scaled { scale }),
        Just(ValueKind::Double),
    ];
    (
        any::<[u8; 8]>(),
        any::<u32>(),
        any::<u8>(),
        kind,
        ".{0,9}",
        ".{0,4}",
    )
        .prop_map(|(uid, boot, channel, kind, name, unit)| Series {
            uid: DeviceUid(uid),
            boot: BootId(boot),
            channel: ChannelNo(channel),
            kind,
            name: name.into(),
            unit: unit.into(),
        })
}

/// A reading of any of `kinds`; its value is cut to what the kind can say.
fn any_reading(kinds: Vec<ValueKind>) -> impl Strategy<Value = Record> {
    let uncertainty = prop_oneof![Just(UNSYNCED_US), any::<u32>(), 40..44u32];
    let quality = (0..QUALITIES.len()).prop_map(|code| QUALITIES[code].0);
    let ids = (0..kinds.len() as u16, any::<u64>(), any::<i64>());
    (ids, uncertainty, any::<i64>(), quality).prop_map(
        move |((series, ordinal, time), uncertainty_us, value, quality)| {
            let value = match kinds[usize::from(series)] {
                _ if quality != Quality::Ok => 0,
                ValueKind::Scaled { .. } => value % SCALED_VALUE_MAX as i64,
                ValueKind::Double if f64::from_bits(value as u64).is_finite() => value,
                ValueKind::Double => 0,
            };
            Record::Reading(ReadingRecord {
                series,
                ordinal: Ordinal(ordinal),
                tick: Tick(0),
                time: EventTime(time),
                uncertainty_us,
                value,
                quality,
            })
        },
    )
}

fn any_other() -> impl Strategy<Value = Record> {
    let reason = (0..GAPS.len()).prop_map(|code| GAPS[code].0);
    let gap = (any::<[u8; 8]>(), any::<[u64; 2]>(), reason, any::<i64>()).prop_map(
        |(uid, [first, count], reason, time)| {
            Record::Gap(GapRecord {
                uid: DeviceUid(uid),
                boot: BootId(first as u32),
                first: Ordinal(first),
                count,
                reason,
                time: EventTime(time),
            })
        },
    );
    let clock = (any::<[i64; 2]>(), 0..3u8).prop_map(|([now, step], trust)| {
        let trust = match trust {
            0 => ClockTrust::No,
            1 => ClockTrust::Yes,
            _ => ClockTrust::Since(Span(step)),
        };
        let now = EventTime(now);
        Record::Clock(ClockRecord { now, trust })
    });
    let tables = (any::<u64>(), any::<i64>()).prop_map(|(upto, time)| {
        let (upto, time) = (Offset(upto), EventTime(time));
        Record::Tables(TablesRecord { upto, time })
    });
    prop_oneof![gap, clock, tables]
}

fn any_block() -> impl Strategy<Value = Block> {
    prop::collection::vec(any_series(), 1..4).prop_flat_map(|series| {
        let kinds = series.iter().map(|series| series.kind).collect();
        let record = prop_oneof![4 => any_reading(kinds), 1 => any_other()];
        prop::collection::vec(record, 1..40).prop_map(move |records| {
            let series = series.clone();
            block_of(Body::Readings { series, records })
        })
    })
}

proptest! {
    #[test]
    fn any_block_says_the_same_in_each_format(block in any_block(), cut in any::<(u8, u8)>()) {
        let count = block.body.len();
        let (a, b) = (usize::from(cut.0) % count, usize::from(cut.1) % count);
        let mut id = id_of(&block);
        let Body::Readings { series, records } = &block.body else { panic!("readings") };
        (id.first, id.last) = (Offset(100 + a.min(b) as u64), Offset(100 + a.max(b) as u64));
        let want = rows_of(series, &records[a.min(b)..=a.max(b)]);
        for (format, zstd) in [
            (Format::Json, false),
            (Format::Json, true),
            (Format::Compact, false),
            (Format::Compact, true),
        ] {
            let payload = Encoding { format, zstd }.render_block(&id, &block).unwrap();
            let message = DataMessage::parse(&payload).unwrap();
            let DataBody::Readings { series, records } = &message.body else { panic!("readings") };
            prop_assert_eq!((&message.id, rows_of(series, records)), (&id, want.clone()));
            // And as a sink keeps it.
            let [kept] = &message.to_compact(id.first, id.last)[..] else { panic!("one") };
            let kept = DataMessage::parse(kept).unwrap();
            let DataBody::Readings { series, records } = &kept.body else { panic!("readings") };
            prop_assert_eq!((&kept.id, rows_of(series, records)), (&id, want.clone()));
        }
    }

    #[test]
    fn figures_keep_value_and_scale((value, scale) in any_figure()) {
        let block = one(ValueKind::Scaled { scale }, value);
        let (_, bytes) = render(&block);
        prop_assert_eq!(DataMessage::parse(&bytes), Ok(said(&block)));
        let meant = value as f64 / 10f64.powi(i32::from(scale));
        prop_assert!((number(&bytes) - meant).abs() <= meant.abs() * 1e-15);
    }

    #[test]
    fn doubles_keep_every_bit(bits: i64) {
        prop_assume!(f64::from_bits(bits as u64).is_finite());
        let block = one(ValueKind::Double, bits);
        let (_, bytes) = render(&block);
        prop_assert_eq!(DataMessage::parse(&bytes), Ok(said(&block)));
        prop_assert_eq!(number(&bytes).to_bits(), bits as u64);
    }

    #[test]
    fn names_of_any_text_read_back(name in ".{0,6}", unit in ".{0,3}", ordinal: u64) {
        let mut series = series(2);
        (series.name, series.unit) = (name.as_str().into(), unit.as_str().into());
        let mut record = reading(0, 5, Quality::Ok);
        if let Record::Reading(reading) = &mut record {
            reading.ordinal = Ordinal(ordinal);
        }
        let block = block_of(Body::Readings { series: vec![series], records: vec![record] });
        prop_assert_eq!(DataMessage::parse(&render(&block).1), Ok(said(&block)));
    }

    #[test]
    fn damaged_payloads_never_panic(at in 0..GOLDEN.len(), byte: u8, cut in 0..GOLDEN.len()) {
        let mut bytes = GOLDEN.as_bytes().to_vec();
        bytes[at] = byte;
        let _ = DataMessage::parse(&bytes);
        let _ = DataMessage::parse(&bytes[..cut]);
        let _ = AckMessage::parse(&bytes);
        let _ = Command::parse(&bytes);
    }
}

#[test]
fn compressed_payloads_read_back_where_it_pays() {
    let line = format!("{{\"stream\":\"w\",\"note\":\"{}\"}}", "again ".repeat(40));
    let row = Row {
        time: EventTime(0),
        line: line.into_bytes(),
    };
    let long = block_of(Body::Rows(vec![row; 20]));
    for (name, block, pays) in [("long", long, true), ("short", rows_block(), false)] {
        for format in [Format::Json, Format::Compact] {
            let id = id_of(&block);
            let of = |zstd| Encoding { format, zstd }.render_block(&id, &block).unwrap();
            let (raw, short) = (of(false), of(true));
            let saved = raw.len() - short.len();
            assert!(saved == 0 || saved * 10 >= raw.len(), "{name}");
            assert!(!pays || saved > 0, "{name}");
            assert_eq!(plain(&short).unwrap(), raw, "{name}");
            assert_eq!(DataMessage::parse(&short), Ok(said(&block)), "{name}");
            for cut in 0..short.len() {
                let _ = DataMessage::parse(&short[..cut]);
            }
        }
    }
}

#[test]
fn frames_at_the_size_limit() {
    for (bytes, fits) in [
        (MESSAGE_BYTES_MAX - 1, true),
        (MESSAGE_BYTES_MAX, true),
        (MESSAGE_BYTES_MAX + 1, false),
        (1 << 30, false),
    ] {
        let frame = zstd::bulk::compress(&vec![b' '; bytes], 1).unwrap();
        assert_eq!(plain(&frame).is_ok(), fits, "{bytes}");
    }
}

#[test]
fn frames_that_say_nothing_true_are_refused() {
    let good = zstd::bulk::compress(&[b'x'; 1000], 1).unwrap();
    assert_eq!(plain(&good).unwrap().len(), 1000);
    // A frame that does not say its size.
    let mut silent = zstd::bulk::Compressor::new(1).unwrap();
    let size = zstd::zstd_safe::CParameter::ContentSizeFlag(false);
    silent.set_parameter(size).unwrap();
    let silent = silent.compress(&[b'x'; 1000]).unwrap();
    let two = [&good[..], &good[..]].concat();
    let tail = [&good[..], b"x"].concat();
    for (name, frame) in [
        ("no size", &silent[..]),
        ("two frames", &two),
        ("a tail", &tail),
        ("cut", &good[..good.len() - 1]),
        ("only the magic", &good[..4]),
    ] {
        assert!(plain(frame).is_err(), "{name}");
    }
}
