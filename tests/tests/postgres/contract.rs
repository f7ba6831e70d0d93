//! The sink shows what the embedded one shows, whatever is committed.

use forebay_core::payload::DataBody;
use forebay_core::record::{
    ClockRecord, ClockTrust, GAPS, GapRecord, Missing, QUALITIES, Record, Series, TablesRecord,
    UNSYNCED_US, ValueKind,
};
use forebay_core::units::{Epoch, EpochNonce, EventTime, LogId, Offset, PartitionId, Span};
use forebay_core::upstream::batch::{Applied, Batch, EntryWrite, Table};
use forebay_node::upstream::{EmbeddedSink, PostgresSink, RowFilter, Sink};
use forebay_tests::postgres::Postgres;
use forebay_wire::ids::{BootId, Ordinal};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::made::{
    applied, commit, config, extents, gateway, id, reading as reading_of, rows, scaled, series,
};

const DAY_US: i64 = 86_400_000_000;

fn any_record(series: u16) -> impl Strategy<Value = Record> {
    let time = prop_oneof![
        8 => (0..40 * DAY_US).prop_map(|us| 1_764_482_400_000_000 + us),
        1 => any::<i64>(),
    ];
    let value = prop_oneof![
        8 => -1_000_000..1_000_000_i64,
        1 => -(1_i64 << 53)..=(1_i64 << 53),
    ];
    let uncertainty = prop_oneof![0..1000_u32, any::<u32>(), Just(UNSYNCED_US)];
    let reading = (
        0..series,
        any::<u64>(),
        time,
        value,
        uncertainty,
        0..QUALITIES.len(),
    );
    let reading = reading.prop_map(|(series, ordinal, time, value, uncertainty_us, quality)| {
        let mut made = reading_of(ordinal, time, value);
        made.series = series;
        made.uncertainty_us = uncertainty_us;
        made.quality = QUALITIES[quality].0;
        if quality != 0 {
            made.value = 0;
        }
        Record::Reading(made)
    });
    let gap = (any::<u64>(), any::<u64>(), any::<i64>(), 0..GAPS.len());
    let gap = gap.prop_map(|(first, count, time, reason)| {
        Record::Gap(GapRecord {
            uid: scaled("t").uid,
            boot: BootId(u32::MAX),
            first: Ordinal(first),
            count,
            reason: GAPS[reason].0,
            time: EventTime(time),
        })
    });
    let clock = (any::<i64>(), 0..3, any::<i64>()).prop_map(|(now, trust, step)| {
        Record::Clock(ClockRecord {
            now: EventTime(now),
            trust: match trust {
                0 => ClockTrust::No,
                1 => ClockTrust::Yes,
                _ => ClockTrust::Since(Span(step)),
            },
        })
    });
    let tables = (any::<i64>(), any::<u64>()).prop_map(|(time, upto)| {
        Record::Tables(TablesRecord {
            upto: Offset(upto),
            time: EventTime(time),
        })
    });
    prop_oneof![6 => reading, 1 => gap, 1 => clock, 1 => tables]
}

fn any_body() -> impl Strategy<Value = DataBody> {
    let kinds = [
        ValueKind::Scaled { scale: 0 },
        ValueKind::Scaled { scale: 9 },
        ValueKind::Scaled { scale: 2 },
    ];
    let some: Vec<Series> = (0..)
        .zip(kinds)
        .map(|(n, kind)| {
            let mut one = series(["temperature", "a\"b\\\u{1}", "°C \u{1f600}"][n % 3], kind);
            one.boot = BootId(n as u32);
            one
        })
        .collect();
    let readings = vec(any_record(3), 1..40).prop_map(move |records| DataBody::Readings {
        series: some.clone(),
        records,
    });
    let row = prop_oneof![
        Just(&br#"{"window":"t_1m", "count" : 3,"mean":1e300}"#[..]),
        Just(&br#"{"channel":"\u0000\u00b0","device":"000000000000abcd"}"#[..]),
        Just("{\"unit\":\"°C\"}".as_bytes()),
    ];
    let lines = vec(row.prop_map(<[u8]>::to_vec), 1..10).prop_map(DataBody::Rows);
    let missing = prop_oneof![Just(Missing::Trimmed), Just(Missing::Lost)];
    prop_oneof![4 => readings, 1 => lines, 1 => missing.prop_map(DataBody::Missing)]
}

/// Messages with offsets of their own, each whole or in two parts.
fn any_batches() -> impl Strategy<Value = Vec<Vec<Applied>>> {
    let place = (0..3_u8, 0..2_u16, 0..2_u32, 0..3_u64, any::<bool>());
    let message = (any_body(), place, 0..5_u64, 1..30_u64);
    vec(vec(message, 1..4), 1..4).prop_map(|batches| {
        let mut next = std::collections::BTreeMap::new();
        let one =
            |(body, (gw, partition, epoch, nonce, high), skip, span): (DataBody, _, u64, u64)| {
                let (gw, partition, epoch, nonce, high): (u8, u16, u32, u64, bool) =
                    (gw, partition, epoch, nonce, high);
                let place = (gw, partition, epoch, nonce, high);
                let start = if high { (1_u64 << 63) - 20 } else { 0 };
                let at = next.entry(place).or_insert(start);
                let count = body.records().map_or(span, |records| records as u64);
                let stream = match body {
                    DataBody::Rows(_) => "t_1m",
                    DataBody::Readings { .. } | DataBody::Missing(_) => "readings",
                };
                let first = *at + skip;
                *at = first + count;
                let mut id = id(
                    ["gw", "gw-1", "gw.1"][usize::from(gw)],
                    stream,
                    first,
                    count,
                );
                id.partition = PartitionId(partition);
                id.epoch = Epoch(epoch);
                id.nonce = EpochNonce(nonce);
                id.log_id = LogId([gw; 16]);
                let whole = count < 3 || body.records().is_none();
                let (a, b) = (first, first + count);
                match whole {
                    true => applied(id, body, &[(a, b)]),
                    // One in the middle is known already.
                    false => applied(id, body, &[(a, a + 1), (a + 2, b)]),
                }
            };
        let mut one = one;
        batches
            .into_iter()
            .map(|messages| messages.into_iter().map(&mut one).collect())
            .collect()
    })
}

fn batch_of(
    applied: Vec<Applied>,
    versions: &mut std::collections::BTreeMap<String, u64>,
) -> Batch {
    let mut names: Vec<_> = applied
        .iter()
        .map(|one| one.message.id.gateway.to_string())
        .collect();
    names.sort();
    names.dedup();
    let gateways = names.iter().map(|name| {
        let version = versions.entry(name.clone()).or_insert(0);
        *version += 1;
        (gateway(name), *version - 1)
    });
    Batch {
        gateways: gateways.collect(),
        entries: Vec::new(),
        applied,
    }
}

#[test]
fn it_shows_what_the_embedded_sink_shows() {
    let server = Postgres::start_with("fsync = off");
    let filters = [
        RowFilter::default(),
        RowFilter {
            gateway: Some(gateway("gw-1")),
            ..RowFilter::default()
        },
        RowFilter {
            device: Some(scaled("t").uid),
            channel: Some("temperature".into()),
            from: Some(EventTime(1_764_482_400_000_000)),
            to: Some(EventTime(1_764_482_400_000_000 + 20 * DAY_US)),
            ..RowFilter::default()
        },
        RowFilter {
            to: Some(EventTime(i64::MIN + 1)),
            ..RowFilter::default()
        },
    ];
    let mut runner = TestRunner::new(Config {
        cases: 24,
        ..Config::default()
    });
    let case = std::cell::Cell::new(0);
    let done = runner.run(&any_batches(), |batches| {
        case.set(case.get() + 1);
        let dir = tempfile::tempdir().unwrap();
        let mut embedded = EmbeddedSink::open(dir.path()).unwrap();
        let mut config = config(&server);
        config.schema = format!("case_{}", case.get());
        let mut postgres = PostgresSink::open(&config).unwrap();
        let mut versions = std::collections::BTreeMap::new();
        for applied in batches {
            let batch = batch_of(applied, &mut versions);
            commit(&mut embedded, &batch);
            commit(&mut postgres, &batch);
        }
        let mut again = PostgresSink::open_existing(&config).unwrap();
        for filter in &filters {
            let want = rows(&mut embedded, filter);
            prop_assert_eq!(&rows(&mut postgres, filter), &want, "{:?}", filter);
            prop_assert_eq!(&rows(&mut again, filter), &want, "{:?}", filter);
        }
        prop_assert_eq!(extents(&mut postgres), extents(&mut embedded));
        prop_assert_eq!(
            postgres.load(None).unwrap().versions,
            embedded.load(None).unwrap().versions
        );
        Ok(())
    });
    done.unwrap();
}

#[test]
fn entries_are_set_removed_and_loaded_as_in_the_embedded_sink() {
    let server = Postgres::start_with("fsync = off");
    let dir = tempfile::tempdir().unwrap();
    let mut embedded = EmbeddedSink::open(dir.path()).unwrap();
    let mut postgres = super::made::open(&server);
    let entry = |table, key: &[u8], value: Option<&[u8]>| EntryWrite {
        table,
        key: key.to_vec(),
        value: value.map(<[u8]>::to_vec),
    };
    let all = |version| vec![(gateway("."), version), (gateway("gw"), version)];
    let first = vec![
        entry(Table::Meta, b"session", Some(b"\0\x01")),
        entry(Table::Meta, b"current.gw", Some(b"1")),
        entry(Table::Meta, b"current.gw-1", Some(b"2")),
        entry(Table::Marks, b"gw\0a", Some(b"3")),
        entry(Table::Marks, b"gw\0b", Some(b"")),
        entry(Table::Rejected, b"\0\x01", Some(b"{\"n\":1}")),
        entry(Table::Rejected, b"\0\x02", Some(b"{\"n\":2}")),
    ];
    let second = vec![
        entry(Table::Meta, b"session", Some(b"new")),
        entry(Table::Meta, b"current.gw-1", None),
        entry(Table::Marks, b"gw\0a", None),
        entry(Table::Marks, b"no such", None),
        entry(Table::Rejected, b"\0\x01", None),
    ];
    for (version, entries) in [(0, first), (1, second)] {
        let batch = Batch {
            applied: Vec::new(),
            entries,
            gateways: all(version),
        };
        commit(&mut embedded, &batch);
        commit(&mut postgres, &batch);
        for name in [None, Some("gw"), Some("gw-1"), Some("."), Some("none")] {
            let name = name.map(gateway);
            let want = embedded.load(name.as_ref()).unwrap();
            assert_eq!(postgres.load(name.as_ref()).unwrap(), want, "{name:?}");
        }
        let rejected = |sink: &mut dyn Sink| {
            let mut out = Vec::new();
            sink.rejected(&mut |text| {
                out.push(text.to_vec());
                true
            })
            .unwrap();
            out
        };
        assert_eq!(rejected(&mut postgres), rejected(&mut embedded));
    }
}

#[test]
fn reading_stops_when_enough_is_seen() {
    let server = Postgres::start_with("fsync = off");
    let mut sink = super::made::open(&server);
    let body = super::made::readings(0, 10, 0);
    let batch = super::made::batch(
        "gw",
        0,
        vec![super::made::whole(id("gw", "readings", 0, 10), body)],
    );
    commit(&mut sink, &batch);
    let mut seen = 0;
    sink.rows(&RowFilter::default(), &mut |_| {
        seen += 1;
        seen < 3
    })
    .unwrap();
    assert_eq!(seen, 3);
    // And goes on with the next question.
    assert_eq!(rows(&mut sink, &RowFilter::default()).len(), 10);
}
