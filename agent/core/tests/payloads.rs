//! Golden vectors of data messages, made of the golden blocks, and what messages of real
//! blocks cost on the wire, in each format: the table stands in `docs/payload.md` as this
//! test measures it.
// Helpers of a test are tests too.
#![allow(clippy::unwrap_used)]

use board::{Dice, Given, START, board, golden, live, place, sealed, text};
use forebay_core::limits::BLOCK_RECORDS_MAX;
use forebay_core::log::block::Row;
use forebay_core::log::builder::RowsBuilder;
use forebay_core::log::decode::{decode_head, self_key};
use forebay_core::log::key::{BlockKey, StoredBlock};
use forebay_core::payload::{
    DataBody, DataMessage, Encoding, Format, GatewayName, MessageId, Origin, StreamName, plain,
    push_row,
};
use forebay_core::record::{Missing, missing_name};
use forebay_core::units::{Epoch, EpochNonce, EventTime, LogId, Offset, PartitionId};

mod board;

/// Blocks of the log as version 2 writes them.
const BLOCKS: &str = include_str!("golden/blocks_v2.txt");
/// Messages of some of them, by the name of the block; JSON as text.
const COMPACT_V1: &str = include_str!("golden/compact_v1.txt");
const JSON_V2: &str = include_str!("golden/json_v2.txt");
/// Frames of zstd: what was written once reads back, whatever a later zstd writes.
const ZSTD: &str = include_str!("golden/zstd.txt");
const IN_GOLDEN: [&str; 5] = [
    "live_with_gap",
    "live_doubles",
    "rows",
    "live_with_clock",
    "live_with_tables",
];
const DOC: &str = include_str!("../docs/payload.md");
/// Ordinals of a device that has run for weeks.
const ORDINALS_FROM: u64 = 12_000_000;
const ENCODINGS: [(Format, bool); 4] = [
    (Format::Json, false),
    (Format::Json, true),
    (Format::Compact, false),
    (Format::Compact, true),
];

/// Seven channels at 10 Hz.
fn given(count: usize) -> Vec<Given> {
    let mut given = board(7, count, &mut Dice(4));
    for (_, reading) in &mut given {
        reading.ordinal.0 += ORDINALS_FROM;
    }
    given
}

/// Blocks of `each` readings.
fn blocks_of(each: usize, count: usize) -> Vec<StoredBlock> {
    given(each * count).chunks(each).flat_map(live).collect()
}

/// Results of one minute each, as a window writes them.
fn rows(count: usize) -> StoredBlock {
    let mut builder = RowsBuilder::default();
    let mut dice = Dice(6);
    for n in 0..count as i64 {
        let minute = n / 7;
        let channel = n % 7;
        let mean = 2_150 + dice.around(900);
        let line = format!(
            "{{\"stream\":\"temperature_1m\",\"device\":\"0102030405060708\",\
             \"channel\":\"temperature_{channel}\",\"unit\":\"degC\",\
             \"start\":\"2026-03-01T00:{minute:02}:00Z\",\
             \"end\":\"2026-03-01T00:{:02}:00Z\",\"revision\":0,\"final\":true,\
             \"count\":600,\"mean\":{}.{:02},\"min\":{}.{:02},\"max\":{}.{:02}}}",
            minute + 1,
            mean / 100,
            mean % 100,
            (mean - 40) / 100,
            (mean - 40) % 100,
            (mean + 38) / 100,
            (mean + 38) % 100,
        );
        let row = Row {
            time: EventTime(START + minute * 60_000_000),
            line: line.into_bytes(),
        };
        builder.push(&row).unwrap();
    }
    let key = BlockKey {
        at: place(16),
        base: Offset(0),
        chunk: 0,
    };
    let bytes = builder.seal(key.at, key.base, Epoch(2));
    StoredBlock { key, bytes }
}

fn origin<'a>(gateway: &'a GatewayName, stream: &'a StreamName, at: PartitionId) -> Origin<'a> {
    Origin {
        gateway,
        log_id: LogId(*b"\x1d\xc8\x0f\xb2\x77\x4a\xe3\x95\x60\xd1\x2b\x8c\xf4\x36\x09\xee"),
        stream,
        partition: at,
    }
}

fn render(stored: &StoredBlock, encoding: &Encoding) -> (MessageId, Vec<u8>) {
    let gateway = GatewayName::new("plant-7").unwrap();
    let stream = StreamName::new("readings").unwrap();
    let head = decode_head(stored.key, &stored.bytes).unwrap();
    let origin = origin(&gateway, &stream, stored.key.at.partition);
    let id = origin.of_head(&head, EpochNonce(0x9e37_79b9_7f4a_7c15));
    let payload = encoding.render(&id, stored).unwrap();
    (id, payload)
}

/// Messages of golden blocks, and one that says that records are missing.
fn now(format: Format, zstd: bool) -> Vec<(&'static str, Vec<u8>)> {
    let encoding = Encoding { format, zstd };
    let blocks = golden(BLOCKS);
    let mut out: Vec<_> = IN_GOLDEN
        .into_iter()
        .map(|wanted| {
            let (_, bytes) = blocks.iter().find(|(name, _)| *name == wanted).unwrap();
            let (key, _) = self_key(bytes).unwrap();
            let bytes = bytes.clone();
            let (_, payload) = render(&StoredBlock { key, bytes }, &encoding);
            (wanted, payload)
        })
        .collect();
    let (_, bytes) = &blocks[0];
    let (key, _) = self_key(bytes).unwrap();
    let bytes = bytes.clone();
    let (id, _) = render(&StoredBlock { key, bytes }, &encoding);
    out.push(("missing", encoding.render_missing(&id, Missing::Expired)));
    out
}

#[test]
fn the_same_bytes_as_ever() {
    let compact = text(&now(Format::Compact, false));
    assert!(compact == COMPACT_V1, "this build writes:\n{compact}");
    let mut json = String::new();
    for (name, payload) in now(Format::Json, false) {
        json += &format!("{name}:\n{}\n", String::from_utf8(payload).unwrap());
    }
    assert!(json == JSON_V2, "this build writes:\n{json}");
}

#[test]
fn the_vectors_of_all_formats_say_the_same() {
    let said = |payload: &[u8]| {
        let message = DataMessage::parse(payload).unwrap();
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
            DataBody::Missing(reason) => vec![missing_name(*reason).into()],
        };
        (message.id, rows)
    };
    let compact = golden(COMPACT_V1);
    let zstd = golden(ZSTD);
    let json: Vec<_> = JSON_V2.lines().collect();
    assert_eq!(json.len(), 2 * compact.len());
    assert_eq!(zstd.len(), 2);
    for ((name, payload), json) in compact.iter().zip(json.chunks(2)) {
        let want = said(payload);
        assert_eq!(want, said(json[1].as_bytes()), "{name}");
        for (_, frame) in zstd.iter().filter(|(of, _)| of == name) {
            assert_ne!(frame, payload);
            assert_eq!(want, said(frame), "{name}");
        }
    }
}

/// Mean bytes of a record in the messages of these blocks.
fn each(blocks: &[StoredBlock], (format, zstd): (Format, bool)) -> f64 {
    let (mut bytes, mut records) = (0, 0);
    for stored in blocks {
        let (id, payload) = render(stored, &Encoding { format, zstd });
        let message = DataMessage::parse(&payload).unwrap();
        assert_eq!(message.id, id);
        let count = message.body.records().unwrap();
        assert_eq!(count as u64, id.last.0 - id.first.0 + 1);
        assert!(plain(&payload).unwrap().len() >= payload.len());
        bytes += payload.len();
        records += count;
    }
    bytes as f64 / records as f64
}

#[test]
fn the_sizes_in_the_documentation_are_those_of_today() {
    let full = live(&given(8 * BLOCK_RECORDS_MAX));
    assert_eq!(full.len(), 8, "blocks are full");
    let packed = sealed(full.clone());
    let rows = rows(21);
    let mut table = String::new();
    for (name, blocks) in [
        ("512 readings of 7 channels", full),
        ("the same, from a sealed segment", packed),
        ("70 readings: 7 channels at 10 Hz, 1 s", blocks_of(70, 20)),
        ("7 readings: 7 channels, once", blocks_of(7, 20)),
        ("1 reading", blocks_of(1, 20)),
        ("21 rows of windows", vec![rows]),
    ] {
        let sizes = ENCODINGS.map(|encoding| each(&blocks, encoding));
        let [json, json_zstd, compact, compact_zstd] = sizes;
        table += &format!(
            "| {name} | {json:.1} | {json_zstd:.1} | {compact:.1} | {compact_zstd:.1} |\n"
        );
    }
    assert!(DOC.contains(&table), "this build measures:\n{table}");
}

#[test]
fn full_blocks_of_seven_channels_cost_at_most_what_was_promised() {
    let full = live(&given(8 * BLOCK_RECORDS_MAX));
    let json = each(&full, (Format::Json, false));
    assert!(json <= 60.0, "JSON: {json:.1} bytes per reading");
    let compact = each(&full, (Format::Compact, false));
    assert!(compact <= 8.0, "compact: {compact:.1} bytes per reading");
}
