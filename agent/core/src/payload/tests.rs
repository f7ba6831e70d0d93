//! Tests of data and control messages: golden bytes, reading back, refusals.

use std::sync::Arc;

use forebay_wire::ids::{BootId, ChannelNo, DeviceUid, Ordinal, Tick};
use forebay_wire::limits::{QUANTITY_BYTES_MAX, UNIT_BYTES_MAX};
use forebay_wire::message::Quality;
use proptest::prelude::*;

use super::*;
use crate::limits::{
    ACK_MARKS_MAX, BLOCK_RECORDS_MAX, CHANNEL_NAME_BYTES_MAX, CONTROL_BYTES_MAX,
    ENVELOPE_JSON_BYTES_MAX, MESSAGE_BYTES_MAX, NAME_BYTES_MAX, RECORD_JSON_BYTES_MAX,
    UNIT_NAME_BYTES_MAX,
};
use crate::log::block::{Block, Body, GapRecord, ReadingRecord, Record, Row, Series, ValueKind};
use crate::log::key::TopicPartition;
use crate::record::{
    ClockRecord, ClockTrust, GAPS, GapReason, MISSING, SCALED_VALUE_MAX, UNSYNCED_US,
};
use crate::units::{Epoch, EventTime, LogId, Offset, PartitionId, Span, TopicId};

fn gateway() -> GatewayName {
    GatewayName::new("g1").unwrap()
}

fn stream() -> StreamName {
    StreamName::new("readings").unwrap()
}

const LOG: LogId = LogId([0xab; 16]);

fn series(scale: u8) -> Series {
    Series {
        uid: DeviceUid([1, 2, 3, 4, 5, 6, 7, 0xff]),
        boot: BootId(7),
        channel: ChannelNo(0),
        kind: ValueKind::Scaled { scale },
        name: Arc::from("temperature"),
        unit: Arc::from("degC"),
    }
}

fn reading(ordinal: u64, value: i64, quality: Quality) -> Record {
    Record::Reading(ReadingRecord {
        series: 0,
        ordinal: Ordinal(ordinal),
        tick: Tick(ordinal * 1000),
        time: EventTime(1_772_323_200_000_000 + i64::try_from(ordinal).unwrap_or(0) * 250_000),
        uncertainty_us: 50,
        value,
        quality,
    })
}

fn block_of(body: Body) -> Block {
    Block {
        at: TopicPartition {
            topic: TopicId(0),
            partition: PartitionId(3),
        },
        base: Offset(100),
        epoch: Epoch(2),
        body,
    }
}

fn render(block: &Block) -> (MessageId, Vec<u8>) {
    let id = MessageId::of(&gateway(), LOG, &stream(), block);
    let bytes = DataMessage::render(&id, block);
    (id, bytes)
}

fn golden_block() -> Block {
    block_of(Body::Readings {
        series: vec![series(3)],
        records: vec![
            reading(0, 21_500, Quality::Ok),
            reading(1, -5, Quality::Ok),
            reading(2, 0, Quality::BusError),
            Record::Gap(GapRecord {
                uid: DeviceUid([1, 2, 3, 4, 5, 6, 7, 0xff]),
                boot: BootId(7),
                first: Ordinal(3),
                count: 4,
                reason: GapReason::RingFull,
                time: EventTime(1_772_323_201_000_000),
            }),
        ],
    })
}

const GOLDEN: &str = concat!(
    r#"{"v":1,"gateway":"g1","log_id":"abababababababababababababababab","epoch":2,"#,
    r#""stream":"readings","partition":3,"first_offset":100,"last_offset":103,"#,
    r#""kind":"readings","records":["#,
    r#"{"device":"01020304050607ff","boot":7,"ordinal":0,"channel":"temperature","#,
    r#""time":"2026-03-01T00:00:00Z","value":21.500,"unit":"degC"},"#,
    r#"{"device":"01020304050607ff","boot":7,"ordinal":1,"channel":"temperature","#,
    r#""time":"2026-03-01T00:00:00.250000Z","value":-0.005,"unit":"degC"},"#,
    r#"{"device":"01020304050607ff","boot":7,"ordinal":2,"channel":"temperature","#,
    r#""time":"2026-03-01T00:00:00.500000Z","value":null,"unit":"degC","quality":"bus_error"},"#,
    r#"{"gap":"ring_full","device":"01020304050607ff","boot":7,"first_ordinal":3,"count":4,"#,
    r#""time":"2026-03-01T00:00:01Z"}]}"#,
);

const GOLDEN_CLOCK: &str = concat!(
    r#"{"v":1,"gateway":"g1","log_id":"abababababababababababababababab","epoch":2,"#,
    r#""stream":"readings","partition":3,"first_offset":100,"last_offset":103,"#,
    r#""kind":"readings","records":["#,
    r#"{"clock":"untrusted","time":"1970-01-01T00:00:07Z"},"#,
    r#"{"device":"01020304050607ff","boot":7,"ordinal":0,"channel":"temperature","#,
    r#""time":"2026-03-01T00:00:00Z","value":21.500,"unit":"degC","unsynced":true},"#,
    r#"{"clock":"corrected","step_us":-5,"time":"2026-03-01T00:00:01Z"},"#,
    r#"{"clock":"trusted","time":"2026-03-01T00:00:02Z"}]}"#,
);

#[test]
fn clocks_and_readings_of_unknown_time_have_these_bytes() {
    let clock = |now, trust| {
        let now = EventTime(now);
        Record::Clock(ClockRecord { now, trust })
    };
    let Record::Reading(mut unsynced) = reading(0, 21_500, Quality::Ok) else {
        panic!("a reading")
    };
    unsynced.uncertainty_us = UNSYNCED_US;
    let block = block_of(Body::Readings {
        series: vec![series(3)],
        records: vec![
            clock(7_000_000, ClockTrust::No),
            Record::Reading(unsynced),
            clock(1_772_323_201_000_000, ClockTrust::Since(Span(-5))),
            clock(1_772_323_202_000_000, ClockTrust::Yes),
        ],
    });
    let (_, bytes) = render(&block);
    let text = String::from_utf8(bytes).unwrap();
    assert_eq!(text, GOLDEN_CLOCK);
    let DataBody::Readings(records) = DataMessage::parse(text.as_bytes()).unwrap().body else {
        panic!("readings expected")
    };
    let mut again = Vec::new();
    for record in &records {
        let mut out = String::new();
        record.push_json(&mut out);
        again.push(out);
    }
    assert!(text.contains(&again.join(",")), "{again:?}");
    let bare = text.replace("\"step_us\":-5,", "");
    assert!(DataMessage::parse(bare.as_bytes()).is_err(), "no step");
}

#[test]
fn readings_have_these_bytes() {
    let (_, bytes) = render(&golden_block());
    assert_eq!(String::from_utf8(bytes).unwrap(), GOLDEN);
}

#[test]
fn rows_stand_in_the_message_as_the_engine_wrote_them() {
    let lines = [
        r#"{"stream":"w","mean":21.5}"#,
        r#"{"stream":"w","key":null}"#,
    ];
    let rows = lines.map(|line| Row {
        time: EventTime(0),
        line: line.as_bytes().to_vec(),
    });
    let (id, bytes) = render(&block_of(Body::Rows(rows.to_vec())));
    let text = String::from_utf8(bytes.clone()).unwrap();
    assert!(text.ends_with(&format!(
        r#""kind":"rows","records":[{},{}]}}"#,
        lines[0], lines[1]
    )));
    let body = DataBody::Rows(lines.map(|line| line.as_bytes().to_vec()).to_vec());
    assert_eq!(DataMessage::parse(&bytes), Ok(DataMessage { id, body }));
}

#[test]
fn what_is_missing_has_these_bytes_and_reads_back() {
    let mut id = MessageId::of(&gateway(), LOG, &stream(), &golden_block());
    (id.first, id.last) = (Offset(0), Offset(u64::MAX - 1));
    for (reason, name) in MISSING {
        let bytes = DataMessage::render_missing(&id, reason);
        let log = "ab".repeat(16);
        let want = format!(
            "{{\"v\":1,\"gateway\":\"g1\",\"log_id\":\"{log}\",\"epoch\":2,\"stream\":\"readings\",\
             \"partition\":3,\"first_offset\":0,\"last_offset\":18446744073709551614,\
             \"kind\":\"missing\",\"reason\":\"{name}\"}}"
        );
        assert_eq!(String::from_utf8_lossy(&bytes), want);
        let body = DataBody::Missing(reason);
        let message = DataMessage {
            id: id.clone(),
            body,
        };
        assert_eq!(DataMessage::parse(&bytes), Ok(message));
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
    for quality in [
        Quality::Ok,
        Quality::Stale,
        Quality::Saturated,
        Quality::BusError,
        Quality::CrcError,
        Quality::Implausible,
        Quality::WarmingUp,
    ] {
        let records = vec![reading(0, 1, quality)];
        let (_, bytes) = render(&block_of(Body::Readings {
            series: vec![series(0)],
            records,
        }));
        let DataBody::Readings(records) = DataMessage::parse(&bytes).unwrap().body else {
            panic!("readings expected")
        };
        let DataRecord::Reading(back) = &records[0] else {
            panic!("a reading expected")
        };
        assert_eq!(back.quality, quality);
        assert_eq!(back.value.is_some(), quality == Quality::Ok);
    }
    for (reason, _) in GAPS {
        let gap = GapRecord {
            uid: DeviceUid([0; 8]),
            boot: BootId(u32::MAX),
            first: Ordinal(u64::MAX),
            count: u64::MAX,
            reason,
            time: EventTime(i64::MIN),
        };
        let records = vec![Record::Gap(gap)];
        let (_, bytes) = render(&block_of(Body::Readings {
            series: vec![],
            records,
        }));
        let DataBody::Readings(records) = DataMessage::parse(&bytes).unwrap().body else {
            panic!("readings expected")
        };
        let DataRecord::Gap(back) = &records[0] else {
            panic!("a gap expected")
        };
        assert_eq!(
            (back.reason, back.time, back.count),
            (reason, gap.time, gap.count)
        );
    }
}

#[test]
fn the_worst_block_fits_one_message() {
    // What a device may say, and what an import, whose names are escaped less badly.
    let of_device = (
        ValueKind::Scaled { scale: 9 },
        i64::MIN,
        "\u{1}".repeat(QUANTITY_BYTES_MAX),
        "\u{1}".repeat(UNIT_BYTES_MAX),
    );
    let of_import = (
        ValueKind::Double,
        (-f64::MAX).to_bits().cast_signed(),
        "\"".repeat(CHANNEL_NAME_BYTES_MAX),
        "\"".repeat(UNIT_NAME_BYTES_MAX),
    );
    for (kind, value, name, unit) in [of_device, of_import] {
        let worst = Series {
            uid: DeviceUid([0xff; 8]),
            boot: BootId(u32::MAX),
            channel: ChannelNo(31),
            kind,
            name: name.into(),
            unit: unit.into(),
        };
        worst_fits(&worst, value);
    }
}

fn worst_fits(worst: &Series, value: i64) {
    let record = |quality| {
        Record::Reading(ReadingRecord {
            series: 0,
            ordinal: Ordinal(u64::MAX),
            tick: Tick(0),
            time: EventTime(1),
            uncertainty_us: 0,
            value,
            quality,
        })
    };
    let body = |records| {
        block_of(Body::Readings {
            series: vec![worst.clone()],
            records,
        })
    };
    for quality in [Quality::Ok, Quality::Implausible] {
        let one = render(&body(vec![record(quality)])).1.len();
        let two = render(&body(vec![record(quality); 2])).1.len();
        assert!(two - one <= RECORD_JSON_BYTES_MAX, "{}", two - one);
        assert!(one <= RECORD_JSON_BYTES_MAX + ENVELOPE_JSON_BYTES_MAX);
        let all = render(&body(vec![record(quality); BLOCK_RECORDS_MAX])).1;
        assert!(all.len() <= MESSAGE_BYTES_MAX);
        assert!(DataMessage::parse(&all).is_ok());
    }
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
        let records = vec!["{}"; count].join(",");
        let last = (100 + count).saturating_sub(1);
        let text = format!(
            "{{\"v\":1,\"gateway\":\"g\",\"log_id\":\"{LOG}\",\"epoch\":1,\"stream\":\"s\",\
             \"partition\":0,\"first_offset\":100,\"last_offset\":{last},\"kind\":\"rows\",\
             \"records\":[{records}]}}"
        );
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
        ("newer version", "\"v\":1", "\"v\":2"),
        ("version missing", "\"v\":1,", ""),
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
        ("unknown quality", "bus_error", "bus_errors"),
        ("unknown gap", "ring_full", "ring"),
        ("kind after records", "\"kind\":\"readings\",", ""),
        ("key twice", "\"boot\":7", "\"boot\":7,\"boot\":7"),
        ("time of no day", "2026-03-01", "2026-02-30"),
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
        .replacen("\"v\":1", "\"new\":{\"a\":[1,null,\"x\"]},\"v\":1", 1)
        .replacen("\"boot\":7", "\"boot\":7,\"uncertainty_us\":50", 1);
    assert_eq!(
        DataMessage::parse(text.as_bytes()),
        DataMessage::parse(GOLDEN.as_bytes())
    );
}

#[test]
fn user_properties_name_the_message() {
    let (id, _) = render(&golden_block());
    let properties = id.user_properties(true);
    let of = |key: &str| {
        properties
            .iter()
            .find(|(k, _)| k == key)
            .map(|(_, v)| v.as_str())
    };
    assert_eq!(of("gateway"), Some("g1"));
    assert_eq!(of("epoch"), Some("2"));
    assert_eq!(
        (of("first_offset"), of("last_offset")),
        (Some("100"), Some("103"))
    );
    assert_eq!(of("replayed"), Some("true"));
}

#[test]
fn control_messages_have_these_bytes_and_read_back() {
    let hello = UpstreamHello {
        session: SessionNonce([1; 16]),
        online: true,
    };
    let text = r#"{"v":1,"session":"01010101010101010101010101010101","online":true}"#;
    assert_eq!(String::from_utf8(hello.render()).unwrap(), text);
    assert_eq!(UpstreamHello::parse(text.as_bytes()), Ok(hello));

    let ack = AckMessage {
        gateway: gateway(),
        session: SessionNonce([1; 16]),
        log_id: LOG,
        marks: vec![AckMark {
            stream: stream(),
            partition: PartitionId(3),
            epoch: Epoch(2),
            next: Offset(104),
        }],
    };
    let text = concat!(
        r#"{"v":1,"gateway":"g1","session":"01010101010101010101010101010101","#,
        r#""log_id":"abababababababababababababababab","#,
        r#""marks":[{"stream":"readings","partition":3,"epoch":2,"next":104}]}"#,
    );
    assert_eq!(String::from_utf8(ack.render()).unwrap(), text);
    assert_eq!(AckMessage::parse(text.as_bytes()), Ok(ack));

    let command = Command::Resend {
        log_id: LOG,
        stream: stream(),
        partition: PartitionId(3),
        from: Offset(50),
    };
    let text = concat!(
        r#"{"v":1,"cmd":"resend","log_id":"abababababababababababababababab","#,
        r#""stream":"readings","partition":3,"from":50}"#,
    );
    assert_eq!(String::from_utf8(command.render()).unwrap(), text);
    assert_eq!(Command::parse(text.as_bytes()), Ok(command));

    let status = GatewayStatus {
        gateway: gateway(),
        online: false,
        version: "0.1.0".to_owned(),
    };
    let text = r#"{"v":1,"gateway":"g1","online":false,"version":"0.1.0"}"#;
    assert_eq!(String::from_utf8(status.render()).unwrap(), text);
    assert_eq!(GatewayStatus::parse(text.as_bytes()), Ok(status));
}

#[test]
fn ack_marks_at_their_limit() {
    for (count, fits) in [
        (ACK_MARKS_MAX - 1, true),
        (ACK_MARKS_MAX, true),
        (ACK_MARKS_MAX + 1, false),
    ] {
        let mark = AckMark {
            stream: StreamName::new(&"s".repeat(NAME_BYTES_MAX)).unwrap(),
            partition: PartitionId(u16::MAX),
            epoch: Epoch(u32::MAX),
            next: Offset(u64::MAX),
        };
        let ack = AckMessage {
            gateway: GatewayName::new(&"g".repeat(NAME_BYTES_MAX)).unwrap(),
            session: SessionNonce([0; 16]),
            log_id: LOG,
            marks: vec![mark; count],
        };
        let bytes = ack.render();
        assert_eq!(AckMessage::parse(&bytes).is_ok(), fits, "{count}");
        assert!(!fits || bytes.len() <= CONTROL_BYTES_MAX);
    }
}

fn any_figure() -> impl Strategy<Value = (i64, u8)> {
    const MOST: i64 = SCALED_VALUE_MAX as i64;
    let value = prop_oneof![-MOST..=MOST, any::<i32>().prop_map(i64::from)];
    (value, 0u8..=9)
}

/// The first reading of a message as it reads back, and its text.
fn read_back(kind: ValueKind, value: i64) -> (DataReading, String) {
    let one = Series { kind, ..series(0) };
    let records = vec![reading(0, value, Quality::Ok)];
    let (_, bytes) = render(&block_of(Body::Readings {
        series: vec![one],
        records,
    }));
    let DataBody::Readings(mut back) = DataMessage::parse(&bytes).unwrap().body else {
        panic!("readings expected")
    };
    let DataRecord::Reading(back) = back.remove(0) else {
        panic!("a reading expected")
    };
    (back, String::from_utf8(bytes).unwrap())
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
        let figure = Figure::double(value).unwrap();
        let (back, json) = read_back(figure.kind, figure.value);
        assert!(
            json.contains(&format!("\"value\":{text},")),
            "{name}: {json}"
        );
        let number = back.value.and_then(Figure::to_f64);
        assert_eq!(number.map(f64::to_bits), Some(value.to_bits()), "{name}");
    }
}

proptest! {
    #[test]
    fn figures_keep_value_and_scale((value, scale) in any_figure()) {
        let kind = ValueKind::Scaled { scale };
        let (back, text) = read_back(kind, value);
        prop_assert_eq!(back.value, Some(Figure { value, kind }));
        // Any other JSON reader gets the number that was meant.
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        let number = json["records"][0]["value"].as_f64().unwrap();
        let meant = value as f64 / 10f64.powi(i32::from(scale));
        prop_assert!((number - meant).abs() <= meant.abs() * 1e-15);
    }

    #[test]
    fn doubles_keep_every_bit_and_their_text(bits: i64) {
        prop_assume!(f64::from_bits(bits as u64).is_finite());
        let (back, text) = read_back(ValueKind::Double, bits);
        let number = back.value.and_then(Figure::to_f64).map(f64::to_bits);
        prop_assert_eq!(number, Some(bits as u64));
        // What an upstream stores is what the gateway sent.
        let mut again = String::new();
        DataRecord::Reading(back).push_json(&mut again);
        prop_assert!(text.contains(&again), "{} in {}", again, text);
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        let number = json["records"][0]["value"].as_f64().map(f64::to_bits);
        prop_assert_eq!(number, Some(bits as u64));
    }

    #[test]
    fn names_of_any_text_read_back(name in ".{0,6}", unit in ".{0,3}", ordinal: u64) {
        let mut one = series(2);
        one.name = name.as_str().into();
        one.unit = unit.as_str().into();
        let record = ReadingRecord {
            series: 0,
            ordinal: Ordinal(ordinal),
            tick: Tick(0),
            time: EventTime(0),
            uncertainty_us: 0,
            value: 5,
            quality: Quality::Ok,
        };
        let records = vec![Record::Reading(record)];
        let (_, bytes) = render(&block_of(Body::Readings { series: vec![one], records }));
        let DataBody::Readings(back) = DataMessage::parse(&bytes).unwrap().body else {
            panic!("readings expected")
        };
        let DataRecord::Reading(back) = &back[0] else { panic!("a reading expected") };
        prop_assert_eq!((&back.channel, &back.unit, back.ordinal.0), (&name, &unit, ordinal));
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
