//! Blocks of readings: what was pushed comes back, limits, damage.

use std::sync::Arc;

use forebay_wire::ids::{BootId, ChannelNo, DeviceUid, Ordinal, Tick};
use forebay_wire::message::Quality;
use proptest::prelude::*;

use super::super::block::{BLOCK_MAGIC, BLOCK_VERSION, BlockFault, Body};
use super::super::decode::{Scratch, decode, decode_all, decode_head};
use super::super::head::block_crc;
use super::super::key::BlockKey;
use super::*;
use crate::limits::SERIES_PER_BLOCK_MAX;
use crate::record::{Figure, GAPS, QUALITIES, SCALED_VALUE_MAX, TablesRecord};
use crate::units::{PartitionId, Span, TopicId};

const AT: TopicPartition = TopicPartition {
    topic: TopicId(0),
    partition: PartitionId(3),
};

/// Devices below 3 have scaled values, others doubles.
fn series(device: u8, channel: u8) -> Series {
    Series {
        uid: DeviceUid([device; 8]),
        boot: BootId(u32::from(device)),
        channel: ChannelNo(channel),
        kind: if device < 3 {
            ValueKind::Scaled { scale: 2 }
        } else {
            ValueKind::Double
        },
        name: Arc::from("temperature"),
        unit: Arc::from("degC"),
    }
}

fn reading(ordinal: u64, time: i64, value: i64) -> ReadingRecord {
    ReadingRecord {
        series: 0,
        ordinal: Ordinal(ordinal),
        tick: Tick(ordinal.wrapping_mul(1000)),
        time: EventTime(time),
        uncertainty_us: 50,
        value,
        quality: Quality::Ok,
    }
}

fn key(base: u64) -> BlockKey {
    BlockKey {
        at: AT,
        base: Offset(base),
        chunk: 0,
    }
}

#[test]
fn a_perfectly_steady_series_costs_almost_nothing() {
    let mut builder = ReadingsBuilder::new();
    for n in 0..BLOCK_RECORDS_MAX as u64 {
        let time = 1_700_000_000_000_000 + n as i64 * 1000;
        let pushed = builder.push_reading(&series(1, 0), &reading(n, time, 2100));
        assert_eq!(pushed, Ok(()), "{n}");
    }
    let pushed = builder.push_reading(&series(1, 0), &reading(512, 0, 2100));
    assert_eq!(pushed, Err(Full));
    let bytes = builder.seal(AT, Offset(0), Epoch(1));
    assert!(bytes.len() < 150, "{}", bytes.len());
}

#[test]
fn records_at_the_limit() {
    for (count, fits) in [
        (BLOCK_RECORDS_MAX - 1, true),
        (BLOCK_RECORDS_MAX, true),
        (BLOCK_RECORDS_MAX + 1, false),
    ] {
        let mut builder = ReadingsBuilder::new();
        let pushed = (0..count as u64).map(|n| {
            let gap = GapRecord {
                uid: DeviceUid([1; 8]),
                boot: BootId(1),
                first: Ordinal(0),
                count: 1,
                reason: GAPS[0].0,
                time: EventTime(0),
            };
            if n.is_multiple_of(50) {
                builder.push_gap(&gap)
            } else {
                builder.push_reading(&series(1, 0), &reading(n, 0, 0))
            }
        });
        assert_eq!(pushed.collect::<Result<(), _>>().is_ok(), fits, "{count}");
        assert_eq!(builder.len(), count.min(BLOCK_RECORDS_MAX));
    }
}

#[test]
fn series_at_the_limit() {
    let mut builder = ReadingsBuilder::new();
    for n in 0..=SERIES_PER_BLOCK_MAX {
        let mut series = series(1, n as u8);
        (series.name, series.unit) = (Arc::from("a"), Arc::from(""));
        let pushed = builder.push_reading(&series, &reading(0, 0, 0));
        assert_eq!(pushed.is_ok(), n < SERIES_PER_BLOCK_MAX, "{n}");
    }
    assert_eq!(builder.len(), SERIES_PER_BLOCK_MAX);
    let known = builder.push_reading(
        &Series {
            name: Arc::from("a"),
            unit: Arc::from(""),
            ..series(1, 5)
        },
        &reading(1, 0, 0),
    );
    assert_eq!(known, Ok(()), "one that is there already");
}

#[test]
fn the_worst_records_fill_a_block_and_never_overflow_it() {
    let mut builder = ReadingsBuilder::new();
    let mut count = 0;
    let flip = |n: u64, value: u64| if n.is_multiple_of(2) { value } else { !value };
    loop {
        let n = count as u64;
        let mut worst = reading(
            flip(n, 1 << 62),
            flip(n, 1 << 61) as i64,
            flip(n, 1 << 51) as i64,
        );
        (worst.tick, worst.uncertainty_us) = (Tick(flip(n, 1 << 59)), flip(n, 1) as u32);
        worst.quality = QUALITIES[count % QUALITIES.len()].0;
        let channel = (count * 7 % 32) as u8;
        if builder.push_reading(&series(1, channel), &worst).is_err() {
            break;
        }
        count += 1;
    }
    let bytes = builder.seal(AT, Offset(0), Epoch(1));
    assert!(bytes.len() <= BLOCK_BYTES_MAX);
    assert!(bytes.len() > BLOCK_BYTES_MAX - 200, "{}", bytes.len());
    assert!(decode(key(0), &bytes).is_ok());
}

#[test]
#[should_panic(expected = "no number")]
fn a_double_that_is_no_number_is_our_bug() {
    let infinite = f64::INFINITY.to_bits().cast_signed();
    let _ = ReadingsBuilder::new().push_reading(&series(3, 0), &reading(0, 0, infinite));
}

#[test]
fn a_double_that_is_no_number_is_not_read() {
    let value = Figure::double(1e300).expect("a number").value;
    let mut builder = ReadingsBuilder::new();
    assert_eq!(
        builder.push_reading(&series(3, 0), &reading(0, 0, value)),
        Ok(())
    );
    let good = builder.seal(AT, Offset(7), Epoch(2));
    // The value is the last word: ten bytes of it are the zigzag of the bits.
    let mut wrong = good.clone();
    let at = good.len() - 10;
    let infinite = zigzag(f64::INFINITY.to_bits().cast_signed());
    let mut word = Vec::new();
    put_varint(&mut word, infinite);
    assert_eq!(word.len(), 10);
    wrong[at..].copy_from_slice(&word);
    let crc = block_crc(&wrong);
    wrong[4..8].copy_from_slice(&crc.to_le_bytes());
    assert!(decode(key(7), &good).is_ok());
    let fault = decode(key(7), &wrong).map_err(|error| error.fault);
    assert_eq!(fault, Err(BlockFault::Malformed { position: at }));
}

#[test]
fn every_flipped_bit_and_every_cut_is_found() {
    for pack in [false, true] {
        let mut builder = ReadingsBuilder::new();
        for n in 0..200 {
            let value = (n * n % 1013) as i64;
            let pushed = builder.push_reading(&series(1, 0), &reading(n, n as i64, value));
            assert_eq!(pushed, Ok(()));
        }
        let bytes = if pack {
            builder.pack(AT, Offset(7), Epoch(2)).expect("short")
        } else {
            builder.seal(AT, Offset(7), Epoch(2))
        };
        assert!(decode(key(7), &bytes).is_ok());
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(key(7), &bad).is_err(), "bit {bit}");
        }
        for len in 0..bytes.len() {
            assert!(decode(key(7), &bytes[..len]).is_err(), "cut at {len}");
        }
        let moved = decode(key(8), &bytes).map_err(|error| error.fault);
        assert_eq!(moved, Err(BlockFault::OtherPlace { found: key(7) }));
    }
}

/// A record of a device and channel.
type Given = (u8, u8, Record);

fn any_record() -> impl Strategy<Value = Given> {
    let small = (0..5_u64, 0..2000_i64, 0..3_u32, -50..50_i64);
    let large = (any::<u64>(), any::<i64>(), any::<u32>(), any::<i64>());
    let parts = prop_oneof![4 => small, 1 => large];
    let place = (0..5_u8, 0..3_u8, 0..8_u8, 0..QUALITIES.len() * 4);
    (place, parts).prop_map(|((device, channel, gap, quality), parts)| {
        let (ordinal, time, uncertainty_us, value) = parts;
        let time = EventTime(time);
        if gap == 1 {
            let trust = [
                ClockTrust::No,
                ClockTrust::Yes,
                ClockTrust::Since(Span(value)),
            ][quality % 3];
            if quality % 4 == 3 {
                let upto = Offset(ordinal);
                return (device, channel, Record::Tables(TablesRecord { upto, time }));
            }
            let clock = ClockRecord { now: time, trust };
            return (device, channel, Record::Clock(clock));
        }
        if gap == 0 {
            let gap = GapRecord {
                uid: DeviceUid([device; 8]),
                boot: BootId(uncertainty_us),
                first: Ordinal(ordinal),
                count: value as u64,
                reason: GAPS[quality % GAPS.len()].0,
                time,
            };
            return (device, channel, Record::Gap(gap));
        }
        let value = match series(device, channel).kind {
            ValueKind::Scaled { .. } => value % (SCALED_VALUE_MAX as i64 + 1),
            ValueKind::Double => {
                let double = f64::from_bits(value as u64);
                let double = if double.is_finite() { double } else { 0.25 };
                double.to_bits().cast_signed()
            }
        };
        let reading = ReadingRecord {
            series: 0,
            ordinal: Ordinal(ordinal),
            tick: Tick(ordinal.wrapping_mul(7) ^ value as u64),
            time,
            uncertainty_us,
            value,
            // Mostly ok.
            quality: QUALITIES.get(quality).map_or(Quality::Ok, |(q, _)| *q),
        };
        (device, channel, Record::Reading(reading))
    })
}

fn push(builder: &mut ReadingsBuilder, (device, channel, record): &Given) -> Result<(), Full> {
    match record {
        Record::Reading(r) => builder.push_reading(&series(*device, *channel), r),
        Record::Gap(gap) => builder.push_gap(gap),
        Record::Clock(clock) => builder.push_clock(clock),
        Record::Tables(tables) => builder.push_tables(tables),
    }
}

fn check_same(body: Body, taken: &[Given]) -> Result<(), TestCaseError> {
    let Body::Readings {
        series: names,
        records,
    } = body
    else {
        return Err(TestCaseError::fail("rows"));
    };
    prop_assert_eq!(records.len(), taken.len());
    for (got, (device, channel, want)) in records.into_iter().zip(taken) {
        match (got, *want) {
            (Record::Reading(got), Record::Reading(mut want)) => {
                prop_assert_eq!(&names[usize::from(got.series)], &series(*device, *channel));
                want.series = got.series;
                prop_assert_eq!(got, want);
            }
            (got, want) => prop_assert_eq!(got, want),
        }
    }
    Ok(())
}

#[test]
fn a_clock_costs_few_bytes_among_readings_and_stretches_no_span() {
    let block = |clock: Option<i64>| {
        let mut builder = ReadingsBuilder::new();
        for n in 0..100 {
            let record = reading(n, 1_000_000 * n as i64, 2100);
            assert_eq!(builder.push_reading(&series(1, 0), &record), Ok(()));
            if let (Some(now), 50) = (clock, n) {
                let now = EventTime(now);
                let trust = ClockTrust::Yes;
                assert_eq!(builder.push_clock(&ClockRecord { now, trust }), Ok(()));
            }
        }
        let bytes = builder.seal(AT, Offset(0), Epoch(1));
        let head = decode_head(key(0), &bytes).expect("a block");
        (bytes.len(), head.time_min, head.time_max)
    };
    let (without, min, max) = block(None);
    let (with, ..) = block(Some(51_000_000));
    assert!(with <= without + 16, "{with} and {without}");
    for now in [i64::MIN, 0, i64::MAX] {
        let (_, low, high) = block(Some(now));
        assert_eq!((low, high), (min, max), "{now}");
    }
}

#[test]
fn what_is_said_of_tables_stretches_no_span_and_stands_alone() {
    let tables = |time| TablesRecord {
        upto: Offset(u64::MAX),
        time: EventTime(time),
    };
    let mut builder = ReadingsBuilder::new();
    assert_eq!(builder.push_tables(&tables(5)), Ok(()));
    let read = reading(0, 1_000_000, 2100);
    assert_eq!(builder.push_reading(&series(1, 0), &read), Ok(()));
    let bytes = builder.seal(AT, Offset(7), Epoch(1));
    let head = decode_head(key(7), &bytes).expect("a block");
    assert_eq!((head.time_min, head.time_max), (read.time, read.time));

    assert_eq!(builder.push_tables(&tables(9)), Ok(()));
    let bytes = builder.seal(AT, Offset(7), Epoch(1));
    let head = decode_head(key(7), &bytes).expect("a block");
    assert_eq!((head.time_min, head.time_max), (EventTime(9), EventTime(9)));
    let block = decode(key(7), &bytes).expect("a block");
    let records = vec![Record::Tables(tables(9))];
    let series = Vec::new();
    assert_eq!(block.body, Body::Readings { series, records });
    // The offset ends the block: one byte less is a block cut short.
    let mut cut = bytes.clone();
    let last = cut.len() - 1;
    cut[last] = 0xff;
    let crc = block_crc(&cut);
    cut[4..8].copy_from_slice(&crc.to_le_bytes());
    let fault = decode(key(7), &cut).map_err(|error| error.fault);
    assert!(
        matches!(fault, Err(BlockFault::Malformed { .. })),
        "{fault:?}"
    );
}

#[test]
fn a_clock_of_unknown_worth_is_an_error_with_its_place() {
    let mut builder = ReadingsBuilder::new();
    let now = EventTime(5);
    for trust in [ClockTrust::No, ClockTrust::Since(Span(-1))] {
        assert_eq!(builder.push_clock(&ClockRecord { now, trust }), Ok(()));
    }
    let bytes = builder.seal(AT, Offset(7), Epoch(1));
    // The last three: not trusted; corrected by -1 us.
    let at = bytes.len() - 3;
    assert_eq!(bytes[at..], [0, 2, 1]);
    let (mut unknown, mut cut) = (bytes.clone(), bytes.clone());
    unknown[at] = 3;
    cut[at + 2] = 0x81;
    for (name, mut bytes) in [("unknown", unknown), ("cut", cut)] {
        let crc = block_crc(&bytes).to_le_bytes();
        bytes[4..8].copy_from_slice(&crc);
        let fault = decode(key(7), &bytes).map_err(|error| error.fault);
        assert!(
            matches!(fault, Err(BlockFault::Malformed { position }) if position > at),
            "{name}: {fault:?}"
        );
    }
}

proptest! {
    #[test]
    fn what_was_pushed_comes_back(
        records in proptest::collection::vec(any_record(), 1..300),
        base in 0..u64::MAX / 2,
        only_doubles: bool,
    ) {
        let (mut builder, mut packer) = (ReadingsBuilder::new(), ReadingsBuilder::new());
        let mut taken = Vec::new();
        for given in records {
            if only_doubles && given.0 < 3 {
                continue;
            }
            let before = builder.size_bytes();
            let pushed = push(&mut builder, &given);
            prop_assert_eq!(push(&mut packer, &given), pushed);
            if pushed.is_err() {
                prop_assert_eq!(builder.size_bytes(), before);
                break;
            }
            taken.push(given);
        }
        prop_assume!(!taken.is_empty());
        let size = builder.size_bytes();
        let live = builder.seal(AT, Offset(base), Epoch(9));
        prop_assert!(live.len() <= size && size <= BLOCK_BYTES_MAX);
        let packed = packer.pack(AT, Offset(base), Epoch(9));
        let packed = packed.ok_or_else(|| TestCaseError::fail("longer than live"))?;
        prop_assert!(packed.len() <= live.len());
        for bytes in [live, packed] {
            let fail = |e: super::super::block::BlockError| TestCaseError::fail(e.to_string());
            let block = decode(key(base), &bytes).map_err(fail)?;
            let head = decode_head(key(base), &bytes).map_err(fail)?;
            prop_assert_eq!(head.end(), block.end());
            let is_clock =
                |given: &Given| matches!(given.2, Record::Clock(_) | Record::Tables(_));
            let only_clocks = taken.iter().all(is_clock);
            let told = taken.iter().filter(|given| only_clocks || !is_clock(given));
            let times = told.map(|(_, _, record)| record.time());
            prop_assert_eq!(Some(head.time_min), times.clone().min());
            prop_assert_eq!(Some(head.time_max), times.max());
            check_same(block.body, &taken)?;
        }
        prop_assert!(builder.is_empty() && packer.is_empty());
    }

    #[test]
    fn a_builder_is_as_new_after_its_block(
        first in proptest::collection::vec(any_record(), 1..30),
        second in proptest::collection::vec(any_record(), 1..30),
    ) {
        let build = |builder: &mut ReadingsBuilder, records: &[Given]| {
            records.iter().for_each(|given| assert_eq!(push(builder, given), Ok(())));
            builder.seal(AT, Offset(0), Epoch(1))
        };
        let mut used = ReadingsBuilder::new();
        build(&mut used, &first);
        let again = build(&mut used, &second);
        prop_assert_eq!(again, build(&mut ReadingsBuilder::new(), &second));
    }

    #[test]
    fn any_bytes_are_survived(mut bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = decode(key(0), &bytes);
        // And with a CRC that holds, so that the payload reader is reached.
        if bytes.len() >= BLOCK_HEAD_BYTES {
            make_believable(&mut bytes);
            prop_assert!(decode_head(key(0), &bytes).is_ok());
            let _ = decode(key(0), &bytes);
        }
    }

    #[test]
    fn any_damage_under_a_crc_that_holds_is_survived(
        records in proptest::collection::vec(any_record(), 1..200),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        pack: bool,
        only_doubles: bool,
    ) {
        let mut builder = ReadingsBuilder::new();
        for given in records.iter().filter(|(device, ..)| !only_doubles || *device >= 3) {
            if push(&mut builder, given).is_err() {
                break;
            }
        }
        prop_assume!(!builder.is_empty());
        let mut bytes = if pack {
            builder.pack(AT, Offset(0), Epoch(1)).expect("pushed into a measured builder")
        } else {
            builder.seal(AT, Offset(0), Epoch(1))
        };
        let good = bytes.clone();
        for (at, byte) in damage {
            let payload = &mut bytes[BLOCK_HEAD_BYTES..];
            payload[at.index(payload.len())] = byte;
        }
        let crc = block_crc(&bytes);
        bytes[4..8].copy_from_slice(&crc.to_le_bytes());
        if let Ok(block) = decode(key(0), &bytes) {
            prop_assert_eq!(block.body.len(), usize::from(decode_head(key(0), &bytes).unwrap().count));
        }
        // What a reader keeps from block to block changes none, nor does one that is damaged.
        let mut used = Scratch::default();
        for bytes in [&bytes, &good, &bytes, &good] {
            let again = decode_all(key(0), bytes, &mut used).map(|(_, block)| block);
            prop_assert_eq!(again, decode(key(0), bytes));
        }
    }
}

/// Gives any bytes a head that is believed.
fn make_believable(bytes: &mut [u8]) {
    bytes[..2].copy_from_slice(&BLOCK_MAGIC);
    bytes[2] = BLOCK_VERSION;
    bytes[3] = 1 + bytes[3] % 2;
    let length = bytes.len() as u16;
    bytes[8..10].copy_from_slice(&length.to_le_bytes());
    bytes[10..26].fill(0);
    bytes[12] = AT.partition.0 as u8;
    bytes[26] = 1 + bytes[26] % 8;
    bytes[27] = 0;
    let crc = block_crc(bytes);
    bytes[4..8].copy_from_slice(&crc.to_le_bytes());
}
