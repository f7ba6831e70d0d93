//! JSON messages: golden bytes, what is refused, and the rows that records become.

use forebay_wire::limits::{QUANTITY_BYTES_MAX, UNIT_BYTES_MAX};

use super::*;
use crate::limits::{
    BLOCK_RECORDS_MAX, CHANNEL_NAME_BYTES_MAX, ENVELOPE_JSON_BYTES_MAX, MESSAGE_BYTES_MAX,
    RECORD_JSON_BYTES_MAX, ROW_BYTES_MAX, ROW_JSON_BYTES_MAX, SERIES_JSON_BYTES_MAX,
    SERIES_PER_BLOCK_MAX, UNIT_NAME_BYTES_MAX,
};
use crate::record::{GAPS, MISSING, QUALITIES};

pub(super) const GOLDEN: &str = concat!(
    r#"{"v":2,"gateway":"g1","log_id":"abababababababababababababababab","epoch":2,"#,
    r#""nonce":"00000000000000fe","stream":"readings","partition":3,"#,
    r#""first_offset":100,"last_offset":103,"kind":"readings","series":["#,
    r#"{"device":"01020304050607ff","boot":7,"number":0,"channel":"temperature","#,
    r#""unit":"degC","scale":3,"uncertainty_us":50}],"records":["#,
    r#"{"s":0,"n":0,"t":1772323200000000,"v":21.500},"#,
    r#"{"s":0,"n":1,"t":1772323200250000,"v":-0.005},"#,
    r#"{"s":0,"n":2,"t":1772323200500000,"v":null,"q":"bus_error"},"#,
    r#"{"gap":"ring_full","device":"01020304050607ff","boot":7,"first_ordinal":3,"count":4,"#,
    r#""time":"2026-03-01T00:00:01Z"}]}"#,
);

const GOLDEN_CLOCK: &str = concat!(
    r#""kind":"readings","series":["#,
    r#"{"device":"01020304050607ff","boot":7,"number":0,"channel":"temperature","#,
    r#""unit":"degC","scale":3,"uncertainty_us":50}],"records":["#,
    r#"{"clock":"untrusted","time":"1970-01-01T00:00:07Z"},"#,
    r#"{"s":0,"n":0,"t":1772323200000000,"v":21.500,"unsynced":true},"#,
    r#"{"clock":"corrected","step_us":-5,"time":"2026-03-01T00:00:01Z"},"#,
    r#"{"clock":"trusted","time":"2026-03-01T00:00:02Z"},"#,
    r#"{"s":0,"n":1,"t":1772323200250000,"v":0.000},"#,
    r#"{"s":0,"n":0,"t":1772323200000000,"v":21.500,"u":51},"#,
    r#"{"s":0,"n":2,"t":1772323200500000,"v":0.000,"u":50}]}"#,
);

fn text_of(block: &Block) -> String {
    String::from_utf8(render(block).1).unwrap()
}

#[test]
fn readings_have_these_bytes_and_read_back() {
    let block = golden_block();
    assert_eq!(text_of(&block), GOLDEN);
    assert_eq!(DataMessage::parse(GOLDEN.as_bytes()), Ok(said(&block)));
}

#[test]
fn clocks_and_readings_of_unknown_time_have_these_bytes_and_read_back() {
    let block = clock_block();
    let text = text_of(&block);
    assert!(text.ends_with(GOLDEN_CLOCK), "{text}");
    assert_eq!(DataMessage::parse(text.as_bytes()), Ok(said(&block)));
    let bare = text.replace("\"step_us\":-5,", "");
    assert!(DataMessage::parse(bare.as_bytes()).is_err(), "no step");
}

#[test]
fn an_opening_that_is_not_known_is_not_named() {
    let block = golden_block();
    let mut id = id_of(&block);
    id.nonce = EpochNonce::UNKNOWN;
    let text = String::from_utf8(JSON.render_block(&id, &block).unwrap()).unwrap();
    assert_eq!(text, GOLDEN.replace(r#""nonce":"00000000000000fe","#, ""));
    assert_eq!(DataMessage::parse(text.as_bytes()).unwrap().id, id);
}

#[test]
fn rows_stand_in_the_message_as_the_engine_wrote_them() {
    let block = rows_block();
    let text = text_of(&block);
    let want = concat!(
        r#","kind":"rows","records":[{"stream":"w","mean":21.5},"#,
        r#"{"stream":"w","key":null}]}"#,
    );
    assert!(text.ends_with(want), "{text}");
    assert_eq!(DataMessage::parse(text.as_bytes()), Ok(said(&block)));
}

#[test]
fn what_is_missing_has_these_bytes_and_reads_back() {
    let mut id = id_of(&golden_block());
    (id.first, id.last) = (Offset(0), Offset(u64::MAX - 1));
    for (reason, name) in MISSING {
        let bytes = JSON.render_missing(&id, reason);
        let log = "ab".repeat(16);
        let want = format!(
            "{{\"v\":2,\"gateway\":\"g1\",\"log_id\":\"{log}\",\"epoch\":2,\
             \"nonce\":\"00000000000000fe\",\"stream\":\"readings\",\
             \"partition\":3,\"first_offset\":0,\"last_offset\":18446744073709551614,\
             \"kind\":\"missing\",\"reason\":\"{name}\"}}"
        );
        assert_eq!(String::from_utf8_lossy(&bytes), want);
        let id = id.clone();
        let body = DataBody::Missing(reason);
        assert_eq!(DataMessage::parse(&bytes), Ok(DataMessage { id, body }));
        let text = String::from_utf8(bytes).expect("JSON is text");
        for (name, from, to) in [
            ("an unknown reason", "\"reason\":\"", "\"reason\":\"x"),
            ("no reason", "\"reason\"", "\"because\""),
            (
                "records beside it",
                "\"reason\"",
                "\"records\":[],\"reason\"",
            ),
            (
                "an end before the start",
                "\"first_offset\":0,",
                "\"first_offset\":18446744073709551615,",
            ),
        ] {
            let other = text.replace(from, to);
            assert!(DataMessage::parse(other.as_bytes()).is_err(), "{name}");
        }
    }
}

#[test]
fn every_quality_and_gap_reason_reads_back() {
    let mut records = Vec::new();
    for (quality, _) in QUALITIES {
        let value = if quality == Quality::Ok { 1 } else { 0 };
        records.push(reading(0, value, quality));
    }
    for (reason, _) in GAPS {
        records.push(Record::Gap(GapRecord {
            uid: DeviceUid([0; 8]),
            boot: BootId(u32::MAX),
            first: Ordinal(u64::MAX),
            count: u64::MAX,
            reason,
            time: EventTime(i64::MIN),
        }));
    }
    let block = block_of(Body::Readings {
        series: vec![series(0)],
        records,
    });
    let (_, bytes) = render(&block);
    assert_eq!(DataMessage::parse(&bytes), Ok(said(&block)));
}

/// What a device may say, and what an import, whose names are escaped less badly.
fn worst() -> [(Series, i64); 2] {
    let of = |kind, name: String, unit: String| Series {
        uid: DeviceUid([0xff; 8]),
        boot: BootId(u32::MAX),
        channel: ChannelNo(u8::MAX),
        kind,
        name: name.into(),
        unit: unit.into(),
    };
    let device = of(
        ValueKind::Scaled { scale: 9 },
        "\u{1}".repeat(QUANTITY_BYTES_MAX),
        "\u{1}".repeat(UNIT_BYTES_MAX),
    );
    let import = of(
        ValueKind::Double,
        "\"".repeat(CHANNEL_NAME_BYTES_MAX),
        "\"".repeat(UNIT_NAME_BYTES_MAX),
    );
    [
        (device, -(1 << 53)),
        (import, (-f64::MIN_POSITIVE).to_bits().cast_signed()),
    ]
}

#[test]
fn the_worst_block_fits_one_message() {
    for (worst, value) in worst() {
        for quality in [Quality::Ok, Quality::Implausible] {
            worst_fits(&worst, value, quality);
        }
    }
}

fn worst_fits(worst: &Series, value: i64, quality: Quality) {
    let one = ReadingRecord {
        series: SERIES_PER_BLOCK_MAX as u16 - 1,
        ordinal: Ordinal(u64::MAX),
        tick: Tick(0),
        time: EventTime(i64::MIN),
        uncertainty_us: UNSYNCED_US - 1,
        value,
        quality,
    };
    let body = |series: usize, count: usize| {
        // None has the uncertainty of the one before.
        let other = |n| ReadingRecord {
            uncertainty_us: one.uncertainty_us - n as u32 % 2,
            ..one
        };
        let mut records: Vec<_> = (0..count).map(|n| Record::Reading(other(n))).collect();
        records.push(Record::Reading(ReadingRecord { series: 0, ..one }));
        block_of(Body::Readings {
            series: vec![worst.clone(); series],
            records,
        })
    };
    let size = |series, count| render(&body(series, count)).1.len();
    let most = SERIES_PER_BLOCK_MAX;
    let record = size(most, 3) - size(most, 2);
    assert!(record <= RECORD_JSON_BYTES_MAX, "{record}");
    let table = size(most, 0) - size(most - 1, 0);
    assert!(table <= SERIES_JSON_BYTES_MAX, "{table}");
    let all = render(&body(most, BLOCK_RECORDS_MAX - 1)).1;
    assert!(all.len() <= MESSAGE_BYTES_MAX);
    assert!(DataMessage::parse(&all).is_ok());
    let mut row = Vec::new();
    push_row(&vec![worst.clone(); most], &Record::Reading(one), &mut row);
    assert!(row.len() <= ROW_JSON_BYTES_MAX, "{}", row.len());
}

#[test]
fn the_worst_gap_and_envelope_are_within_their_limits() {
    let gap = Record::Gap(GapRecord {
        uid: DeviceUid([0xff; 8]),
        boot: BootId(u32::MAX),
        first: Ordinal(u64::MAX),
        count: u64::MAX,
        reason: GapReason::SensorOff,
        time: EventTime(1),
    });
    let mut out = Vec::new();
    push_row(&[], &gap, &mut out);
    assert!(out.len() < RECORD_JSON_BYTES_MAX, "{}", out.len());
    let name = "n".repeat(crate::limits::NAME_BYTES_MAX);
    let id = MessageId {
        gateway: GatewayName::new(&name).unwrap(),
        log_id: LOG,
        epoch: Epoch(u32::MAX),
        nonce: EpochNonce(u64::MAX),
        stream: StreamName::new(&name).unwrap(),
        partition: PartitionId(u16::MAX),
        first: Offset(u64::MAX - 1),
        last: Offset(u64::MAX - 1),
    };
    let envelope = JSON.render_missing(&id, MISSING[0].0).len();
    assert!(envelope <= ENVELOPE_JSON_BYTES_MAX, "{envelope}");
}

fn rows_of(count: usize, row: &str) -> String {
    let records = vec![row; count].join(",");
    let last = (100 + count).saturating_sub(1);
    format!(
        "{{\"v\":2,\"gateway\":\"g\",\"log_id\":\"{LOG}\",\"epoch\":1,\"stream\":\"s\",\
         \"partition\":0,\"first_offset\":100,\"last_offset\":{last},\"kind\":\"rows\",\
         \"records\":[{records}]}}"
    )
}

#[test]
fn record_counts_at_the_limit() {
    for (count, fits) in [
        (0, false),
        (1, true),
        (BLOCK_RECORDS_MAX - 1, true),
        (BLOCK_RECORDS_MAX, true),
        (BLOCK_RECORDS_MAX + 1, false),
    ] {
        let text = rows_of(count, "{}");
        assert_eq!(DataMessage::parse(text.as_bytes()).is_ok(), fits, "{count}");
    }
}

#[test]
fn rows_at_their_size_limit() {
    for (bytes, fits) in [
        (ROW_BYTES_MAX - 1, true),
        (ROW_BYTES_MAX, true),
        (ROW_BYTES_MAX + 1, false),
    ] {
        let text = rows_of(1, &format!("{{{}}}", " ".repeat(bytes - 2)));
        assert_eq!(DataMessage::parse(text.as_bytes()).is_ok(), fits, "{bytes}");
    }
}

#[test]
fn series_at_their_limit() {
    let one = GOLDEN.split_once("\"series\":[").unwrap().1;
    let one = one.split_once("],\"records\"").unwrap().0;
    for (count, fits) in [
        (SERIES_PER_BLOCK_MAX - 1, true),
        (SERIES_PER_BLOCK_MAX, true),
        (SERIES_PER_BLOCK_MAX + 1, false),
    ] {
        let text = GOLDEN.replace(one, &vec![one; count].join(","));
        assert_eq!(DataMessage::parse(text.as_bytes()).is_ok(), fits, "{count}");
    }
}

#[test]
fn payloads_at_their_size_limit() {
    let pad = |bytes: usize| format!("{GOLDEN}{}", " ".repeat(bytes - GOLDEN.len()));
    for (bytes, fits) in [
        (MESSAGE_BYTES_MAX - 1, true),
        (MESSAGE_BYTES_MAX, true),
        (MESSAGE_BYTES_MAX + 1, false),
    ] {
        assert_eq!(
            DataMessage::parse(pad(bytes).as_bytes()).is_ok(),
            fits,
            "{bytes}"
        );
    }
}

#[test]
fn what_does_not_agree_is_refused() {
    for (name, from, to) in [
        ("newer version", "\"v\":2", "\"v\":3"),
        ("version 1", "\"v\":2", "\"v\":1"),
        ("version missing", "\"v\":2,", ""),
        (
            "offsets too far apart",
            "\"last_offset\":103",
            "\"last_offset\":104",
        ),
        (
            "offsets too near",
            "\"last_offset\":103",
            "\"last_offset\":102",
        ),
        (
            "offsets swapped",
            "\"first_offset\":100",
            "\"first_offset\":200",
        ),
        ("bad log id", "abab", "ABAB"),
        ("short log id", "\"log_id\":\"abab", "\"log_id\":\"ab"),
        ("bad nonce", "00fe", "00fg"),
        ("short nonce", "\"nonce\":\"0000", "\"nonce\":\"00"),
        ("bad gateway", "\"g1\"", "\"g/1\""),
        (
            "partition too large",
            "\"partition\":3",
            "\"partition\":65536",
        ),
        ("epoch too large", "\"epoch\":2", "\"epoch\":4294967296"),
        ("value with quality", "null,", "1.5,"),
        ("no value without quality", "21.500", "null"),
        ("value too large", "21.500", "2e308"),
        ("more decimals than the scale", "21.500", "21.5001"),
        ("unknown quality", "bus_error", "bus_errors"),
        ("unknown gap", "ring_full", "ring"),
        ("kind after records", "\"kind\":\"readings\",", ""),
        ("no series", "\"series\"", "\"serials\""),
        ("a series that is not there", "\"s\":0", "\"s\":1"),
        ("a scale too large", "\"scale\":3", "\"scale\":10"),
        ("no scale", "\"scale\":3,", ""),
        ("channel number too large", "\"number\":0", "\"number\":256"),
        (
            "an uncertainty that is none",
            "\"uncertainty_us\":50",
            "\"uncertainty_us\":4294967295",
        ),
        (
            "an uncertainty that is none, of a reading",
            "\"v\":21.500",
            "\"v\":21.500,\"u\":4294967295",
        ),
        ("key twice", "\"n\":1", "\"n\":1,\"n\":1"),
        ("time of no day", "2026-03-01", "2026-02-30"),
        ("neither reading nor gap", "\"gap\"", "\"pag\""),
        ("cut", "}]}", "}]"),
        ("more", "}]}", "}]}x"),
    ] {
        let text = GOLDEN.replacen(from, to, 1);
        assert_ne!(text, GOLDEN, "{name}");
        assert!(DataMessage::parse(text.as_bytes()).is_err(), "{name}");
    }
}

#[test]
fn unknown_keys_are_passed_over() {
    let text = GOLDEN
        .replacen("\"v\":2", "\"new\":{\"a\":[1,null,\"x\"]},\"v\":2", 1)
        .replacen("\"boot\":7", "\"boot\":7,\"firmware\":\"x\"", 1)
        .replacen("\"n\":1", "\"n\":1,\"why\":[]", 1);
    assert_eq!(
        DataMessage::parse(text.as_bytes()),
        DataMessage::parse(GOLDEN.as_bytes())
    );
}

#[test]
fn user_properties_name_the_message() {
    let (id, _) = render(&golden_block());
    let beside = |format, replayed| {
        let encoding = Encoding {
            format,
            zstd: false,
        };
        encoding.user_properties(&id, replayed)
    };
    let compact = beside(Format::Compact, false);
    assert_eq!(compact, [("replayed".to_owned(), "false".to_owned())]);
    let properties = beside(Format::Json, true);
    let of = |key: &str| {
        properties
            .iter()
            .find(|(k, _)| k == key)
            .map(|(_, v)| v.as_str())
    };
    assert_eq!(of("gateway"), Some("g1"));
    assert_eq!(of("epoch"), Some("2"));
    assert_eq!(of("nonce"), Some("00000000000000fe"));
    assert_eq!(
        (of("first_offset"), of("last_offset")),
        (Some("100"), Some("103"))
    );
    assert_eq!(of("replayed"), Some("true"));
}

#[test]
fn records_become_these_rows() {
    let Body::Readings { series, records } = golden_block().body else {
        panic!("readings")
    };
    let mut unsynced = records[0];
    if let Record::Reading(reading) = &mut unsynced {
        reading.uncertainty_us = UNSYNCED_US;
    }
    let all = [records[0], records[2], unsynced];
    let rows = all.map(|record| {
        let mut out = Vec::new();
        push_row(&series, &record, &mut out);
        String::from_utf8(out).unwrap()
    });
    let head = r#"{"device":"01020304050607ff","boot":7,"ordinal":"#;
    assert_eq!(
        rows,
        [
            format!(
                "{head}{}",
                r#"0,"channel":"temperature","time":"2026-03-01T00:00:00Z","value":21.500,"unit":"degC","uncertainty_us":50}"#
            ),
            format!(
                "{head}{}",
                r#"2,"channel":"temperature","time":"2026-03-01T00:00:00.500000Z","value":null,"unit":"degC","quality":"bus_error","uncertainty_us":50}"#
            ),
            format!(
                "{head}{}",
                r#"0,"channel":"temperature","time":"2026-03-01T00:00:00Z","value":21.500,"unit":"degC","unsynced":true}"#
            ),
        ]
    );
}

#[test]
fn doubles_are_written_as_short_as_they_read_back() {
    for (name, value, text) in [
        ("whole", 21.0, "21.0"),
        ("tenth", 0.1, "0.1"),
        ("minus zero", -0.0, "-0.0"),
        ("many digits", 73.967_322_07, "73.96732207"),
        ("all digits", 0.1 + 0.2, "0.30000000000000004"),
        ("large", 1e300, "1e300"),
        ("largest", f64::MAX, "1.7976931348623157e308"),
        ("smallest", f64::from_bits(1), "5e-324"),
        ("longest", -f64::MIN_POSITIVE, "-2.2250738585072014e-308"),
    ] {
        let bits = f64::to_bits(value).cast_signed();
        let block = block_of(Body::Readings {
            series: vec![Series {
                kind: ValueKind::Double,
                ..series(0)
            }],
            records: vec![reading(0, bits, Quality::Ok)],
        });
        let json = text_of(&block);
        assert!(json.contains(&format!("\"v\":{text}}}")), "{name}: {json}");
        assert_eq!(DataMessage::parse(json.as_bytes()), Ok(said(&block)));
    }
}
