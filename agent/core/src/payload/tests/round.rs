//! What holds for any content, in each format: it reads back, and bytes of any kind
//! never panic.

use proptest::prelude::*;

use super::readable::GOLDEN;
use super::*;
use crate::limits::MESSAGE_BYTES_MAX;
use crate::record::SCALED_VALUE_MAX;

fn any_figure() -> impl Strategy<Value = (i64, u8)> {
    const MOST: i64 = SCALED_VALUE_MAX as i64;
    let value = prop_oneof![-MOST..=MOST, any::<i32>().prop_map(i64::from)];
    (value, 0u8..=9)
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

proptest! {
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
