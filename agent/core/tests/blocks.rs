//! Golden byte vectors of blocks of version 2, and how many bytes a reading costs.
//! What was written once must always be read, and be written the same again:
//! `golden/blocks_v2.txt` has each block as `name:` and its bytes in hex.
// Helpers of a test are tests too.
#![allow(clippy::unwrap_used)]

use forebay_core::limits::BLOCK_RECORDS_MAX;
use forebay_core::log::block::{Body, GapRecord, ReadingRecord, Record, Row};
use forebay_core::log::builder::{ReadingsBuilder, RowsBuilder};
use forebay_core::log::decode::{decode, self_key};
use forebay_core::log::key::StoredBlock;
use forebay_core::record::{ClockRecord, ClockTrust, Figure, GapReason, TablesRecord, ValueKind};
use forebay_core::units::{EventTime, Offset, Span};
use forebay_wire::ids::{BootId, DeviceUid, Ordinal, Tick};
use forebay_wire::message::Quality;

use board::{Dice, EPOCH, Given, START, board, golden, live, place, sealed, series, text};

mod board;

const GOLDEN: &str = include_str!("golden/blocks_v2.txt");
/// An import like the temperature of a machine: each five minutes, eight decimals.
fn machine(count: usize, dice: &mut Dice) -> Vec<Given> {
    let series = series(0, ValueKind::Double, "temp", "");
    let mut value = 8_000_000_000_i64;
    (0..count)
        .map(|n| {
            value += dice.around(150_000_000);
            let value = Figure::double(value as f64 / 1e8).unwrap().value;
            let reading = ReadingRecord {
                series: 0,
                ordinal: Ordinal(n as u64),
                tick: Tick(0),
                time: EventTime(START + n as i64 * 300_000_000),
                uncertainty_us: 0,
                value,
                quality: Quality::Ok,
            };
            (series.clone(), reading)
        })
        .collect()
}

fn gap(n: u64) -> GapRecord {
    GapRecord {
        uid: DeviceUid([1, 2, 3, 4, 5, 6, 7, 8]),
        boot: BootId(9),
        first: Ordinal(n),
        count: 5,
        reason: GapReason::RingFull,
        time: EventTime(START + 2_000_000),
    }
}

fn bytes_of(blocks: &[StoredBlock]) -> usize {
    blocks.iter().map(|block| block.bytes.len()).sum()
}

/// Two channels, a fault, a gap between readings, an ordinal left out.
fn small_block() -> Vec<u8> {
    let mut given = board(2, 9, &mut Dice(1));
    given[4].1.quality = Quality::BusError;
    given[4].1.value = 0;
    given[7].1.ordinal.0 += 5;
    let mut builder = ReadingsBuilder::new();
    for (n, (series, reading)) in given.iter().enumerate() {
        if n == 7 {
            assert_eq!(builder.push_gap(&gap(70_007)), Ok(()));
        }
        assert_eq!(builder.push_reading(series, reading), Ok(()));
    }
    builder.seal(place(0), Offset(1000), EPOCH)
}

/// What the clock said before and between readings: trusted, not, corrected.
fn clock_block() -> Vec<u8> {
    let mut builder = ReadingsBuilder::new();
    for (n, (series, reading)) in board(2, 9, &mut Dice(1)).iter().enumerate() {
        if let Some(clock) = clock(n) {
            assert_eq!(builder.push_clock(&clock), Ok(()));
        }
        assert_eq!(builder.push_reading(series, reading), Ok(()));
    }
    builder.seal(place(0), Offset(1000), EPOCH)
}

fn clock(n: usize) -> Option<ClockRecord> {
    let (now, trust) = match n {
        0 => (START, ClockTrust::Yes),
        4 => (7_000_000, ClockTrust::No),
        7 => (START + 400_000, ClockTrust::Since(Span(START - 6_600_000))),
        _ => return None,
    };
    Some(ClockRecord {
        now: EventTime(now),
        trust,
    })
}

/// What is said of tables before and between readings, and alone at the end.
fn tables_block() -> Vec<u8> {
    let mut builder = ReadingsBuilder::new();
    for (n, (series, reading)) in board(2, 9, &mut Dice(1)).iter().enumerate() {
        if let Some(tables) = tables(n) {
            assert_eq!(builder.push_tables(&tables), Ok(()));
        }
        assert_eq!(builder.push_reading(series, reading), Ok(()));
    }
    builder.seal(place(0), Offset(1000), EPOCH)
}

fn tables(n: usize) -> Option<TablesRecord> {
    let (upto, time) = match n {
        0 => (0, START),
        4 => (300, START + 400_000),
        7 => (u64::MAX, 7_000_000),
        _ => return None,
    };
    Some(TablesRecord {
        upto: Offset(upto),
        time: EventTime(time),
    })
}

fn rows_block() -> Vec<u8> {
    let mut builder = RowsBuilder::default();
    for n in 0..3_i64 {
        let row = Row {
            time: EventTime(START + (n ^ 1) * 60_000_000),
            line: format!("{{\"n\":{n}}}").into_bytes(),
        };
        assert_eq!(builder.push(&row), Ok(()));
    }
    builder.seal(place(16), Offset(5), EPOCH)
}

fn now() -> Vec<(&'static str, Vec<u8>)> {
    let one = |mut blocks: Vec<StoredBlock>| {
        assert_eq!(blocks.len(), 1);
        blocks.remove(0).bytes
    };
    let (board, machine) = (board(7, 200, &mut Dice(2)), machine(200, &mut Dice(3)));
    vec![
        ("live_with_gap", small_block()),
        ("live_doubles", one(live(&machine[..20]))),
        ("sealed", one(sealed(live(&board)))),
        ("sealed_doubles", one(sealed(live(&machine)))),
        ("rows", rows_block()),
        ("live_with_clock", clock_block()),
        ("live_with_tables", tables_block()),
    ]
}

#[test]
fn the_same_bytes_as_ever() {
    let now = text(&now());
    assert!(now == text(&golden(GOLDEN)), "this build writes:\n{now}");
}

/// The readings of a block with their series.
fn readings(bytes: &[u8]) -> Vec<Given> {
    let (key, length) = self_key(bytes).unwrap();
    assert_eq!(length, bytes.len());
    let Body::Readings { series, records } = decode(key, bytes).unwrap().body else {
        panic!("readings expected")
    };
    let reading = |record: &Record| match record {
        Record::Reading(r) => Some((
            series[usize::from(r.series)].clone(),
            ReadingRecord { series: 0, ..*r },
        )),
        Record::Gap(_) | Record::Clock(_) | Record::Tables(_) => None,
    };
    records.iter().filter_map(reading).collect()
}

#[test]
fn the_vectors_read_back() {
    let golden = golden(GOLDEN);
    let block = |wanted: &str| {
        let (_, bytes) = golden.iter().find(|(name, _)| *name == wanted).unwrap();
        bytes.as_slice()
    };
    assert_eq!(readings(block("live_doubles")), machine(20, &mut Dice(3)));
    assert_eq!(readings(block("sealed")), board(7, 200, &mut Dice(2)));
    assert_eq!(
        readings(block("sealed_doubles")),
        machine(200, &mut Dice(3))
    );

    let small = block("live_with_gap");
    let (key, _) = self_key(small).unwrap();
    let decoded = decode(key, small).unwrap();
    assert_eq!((decoded.at, decoded.base), (place(0), Offset(1000)));
    assert_eq!((decoded.epoch, decoded.end()), (EPOCH, Offset(1010)));
    let Body::Readings { records, .. } = decoded.body else {
        panic!("readings expected")
    };
    assert_eq!(records[7], Record::Gap(gap(70_007)));
    let fault =
        |record: &&Record| matches!(record, Record::Reading(r) if r.quality == Quality::BusError);
    assert_eq!(records.iter().filter(fault).count(), 1);

    let clocked = block("live_with_clock");
    let (key, _) = self_key(clocked).unwrap();
    let Body::Readings { records, .. } = decode(key, clocked).unwrap().body else {
        panic!("readings expected")
    };
    for (at, n) in [(0, 0), (5, 4), (9, 7)] {
        assert_eq!(Some(records[at]), clock(n).map(Record::Clock));
    }
    assert_eq!(readings(clocked), board(2, 9, &mut Dice(1)));

    let told = block("live_with_tables");
    let (key, _) = self_key(told).unwrap();
    let Body::Readings { records, .. } = decode(key, told).unwrap().body else {
        panic!("readings expected")
    };
    for (at, n) in [(0, 0), (5, 4), (9, 7)] {
        assert_eq!(Some(records[at]), tables(n).map(Record::Tables));
    }
    assert_eq!(readings(told), board(2, 9, &mut Dice(1)));

    let rows = block("rows");
    let (key, _) = self_key(rows).unwrap();
    let Body::Rows(rows) = decode(key, rows).unwrap().body else {
        panic!("rows expected")
    };
    assert_eq!(rows[2].line, b"{\"n\":2}");
    assert_eq!(rows[2].time, EventTime(START + 180_000_000));
}

#[test]
fn a_reading_of_a_board_with_seven_channels_costs_at_most_eight_bytes_while_it_comes() {
    let given = board(7, 4 * BLOCK_RECORDS_MAX, &mut Dice(4));
    let blocks = live(&given);
    assert_eq!(blocks.len(), 4, "blocks are full");
    let each = bytes_of(&blocks) as f64 / given.len() as f64;
    assert!(each <= 8.0, "{each:.2} bytes per reading");
    let each = bytes_of(&sealed(blocks)) as f64 / given.len() as f64;
    assert!(each <= 4.0, "{each:.2} bytes per reading, sealed");
}

#[test]
fn a_reading_of_a_machines_temperature_costs_at_most_five_bytes_in_a_sealed_block() {
    let given = machine(4 * BLOCK_RECORDS_MAX, &mut Dice(5));
    let blocks = sealed(live(&given));
    assert_eq!(blocks.len(), 4, "blocks are full");
    let each = bytes_of(&blocks) as f64 / given.len() as f64;
    assert!(each <= 5.0, "{each:.2} bytes per reading");
    let back: Vec<Given> = blocks
        .iter()
        .flat_map(|block| readings(&block.bytes))
        .collect();
    assert_eq!(back, given);
}
