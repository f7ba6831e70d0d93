//! The folds by their limits, and the engine's rolling figures against those of readings.

use std::sync::Arc;

use forebay_wire::ids::{BootId, ChannelNo, DeviceUid, Ordinal, Tick};
use forebay_wire::message::Quality;
use proptest::prelude::*;

use super::*;
use crate::engine::config::{Bounds, Emit, EngineConfig, WindowKind, WindowSpec};
use crate::engine::row::Rows;
use crate::engine::{Batch, Engine};
use crate::limits::{GAPS_SHOWN_MAX, READ_KEYS_MAX, SAME_TIME_ROWS_MAX};
use crate::live::ChannelKey;
use crate::log::appender::Appender;
use crate::log::key::{StoredBlock, TopicPartition};
use crate::log::topic::READINGS;
use crate::query::plan::check_keys;
use crate::record::{GapReason, GapRecord, ReadingRecord, Series, UNSYNCED_US, ValueKind};
use crate::units::{Epoch, EventTime, Mono, Offset, PartitionId, Span};

const AT: TopicPartition = TopicPartition {
    topic: READINGS,
    partition: PartitionId(0),
};

fn key(device: u8) -> ChannelKey {
    ChannelKey {
        uid: DeviceUid([device; 8]),
        channel: "t".into(),
    }
}

fn series(device: u8) -> Series {
    Series {
        uid: DeviceUid([device; 8]),
        boot: BootId(1),
        channel: ChannelNo(0),
        kind: ValueKind::Scaled { scale: 0 },
        name: "t".into(),
        unit: "K".into(),
    }
}

fn record(time: i64, value: i64) -> ReadingRecord {
    ReadingRecord {
        series: 0,
        ordinal: Ordinal(time.unsigned_abs()),
        tick: Tick(0),
        time: EventTime(time),
        uncertainty_us: 0,
        value,
        quality: Quality::Ok,
    }
}

fn want(start: i64, end: i64, rows_max: usize, newest_first: bool) -> ColumnsWant {
    ColumnsWant {
        range: EventTime(start)..EventTime(end),
        detail: true,
        gaps: true,
        rows_max,
        newest_first,
    }
}

fn give(fold: &mut impl Fold, device: u8, time: i64, value: i64) {
    let (start, end) = fold.range();
    if EventTime(time) >= start && EventTime(time) < end {
        let record = record(time, value);
        let value = Some(value as f64);
        fold.take(usize::from(device), &series(device), &record, value);
    }
}

/// Blocks of readings and gaps from offset 0 on.
fn blocks(fill: impl FnOnce(&mut Appender)) -> Vec<StoredBlock> {
    let mut appender = Appender::readings(AT, Epoch(1), Offset(0));
    fill(&mut appender);
    appender.seal();
    appender.take_sealed().collect()
}

fn whole(end: u64) -> PlanRead {
    PlanRead {
        at: AT,
        first: Offset(0),
        end: Offset(end),
        times: (EventTime(i64::MIN), EventTime(i64::MAX)),
    }
}

#[test]
fn columns_leave_whole_times_out_at_the_limit() {
    // Two channels with a reading each at 0 to 9: 20 rows.
    for (name, rows_max, newest_first, covered, rows) in [
        ("one more than fit", 19, false, (0, 9), 18),
        ("all fit", 20, false, (0, 100), 20),
        ("room for one more", 21, false, (0, 100), 20),
        ("the newest", 19, true, (1, 100), 18),
        ("the newest, all fit", 20, true, (0, 100), 20),
        ("one time is never parted", 1, false, (0, 1), 2),
        ("nor the last one", 1, true, (9, 100), 2),
    ] {
        // Not in order, and far more often trimmed than once.
        for order in [
            [3, 1, 4, 0, 5, 9, 2, 6, 8, 7],
            [9, 8, 7, 6, 5, 4, 3, 2, 1, 0],
        ] {
            let mut fold = ColumnsFold::new([key(0), key(1)], want(0, 100, rows_max, newest_first));
            for time in order {
                give(&mut fold, 0, time, time);
                give(&mut fold, 1, time, -time);
            }
            let got = fold.finish().unwrap();
            let (start, end) = covered;
            let sum: usize = got.columns.iter().map(|c| c.times.len()).sum();
            assert_eq!(sum, rows, "{name}");
            assert_eq!(got.left_out, rows < 20, "{name}");
            let times: Vec<i64> = (start..end.min(10)).collect();
            for columns in &got.columns {
                assert_eq!(columns.times, times, "{name}");
                let detail = columns.detail.as_ref().unwrap();
                let ordinals: Vec<_> = times.iter().map(|t| Ordinal(t.unsigned_abs())).collect();
                assert_eq!(detail.ordinal, ordinals, "{name}");
            }
            let values = times.iter().map(|time| -*time as f64);
            assert!(got.columns[1].values.iter().copied().eq(values), "{name}");
            if rows < 20 {
                assert_eq!(got.covered, EventTime(start)..EventTime(end), "{name}");
            }
        }
    }
}

#[test]
fn pages_by_what_is_covered_give_every_reading_once() {
    let times: Vec<i64> = (0..57).map(|n| n * 7 % 23).collect();
    for newest_first in [false, true] {
        let (mut range, mut seen) = ((0, 100), Vec::new());
        loop {
            let mut fold = ColumnsFold::new([key(0)], want(range.0, range.1, 5, newest_first));
            times.iter().for_each(|time| give(&mut fold, 0, *time, 0));
            let got = fold.finish().unwrap();
            seen.extend(got.columns[0].times.iter().copied());
            if !got.left_out {
                break;
            }
            if newest_first {
                range.1 = got.covered.start.0;
            } else {
                range.0 = got.covered.end.0;
            }
        }
        seen.sort_unstable();
        let mut all = times.clone();
        all.sort_unstable();
        assert_eq!(seen, all, "{newest_first}");
    }
}

#[test]
fn too_many_readings_of_one_time_are_told() {
    for (extra, fits) in [(-1, true), (0, true), (1, false)] {
        let mut fold = ColumnsFold::new([key(0)], want(0, 10, 1, false));
        let count = SAME_TIME_ROWS_MAX as i64 + 1 + extra;
        (0..count).for_each(|n| give(&mut fold, 0, 5, n));
        assert_eq!(fold.finish().is_ok(), fits, "{extra}");
    }
}

#[test]
fn so_many_gaps_are_shown() {
    for (count, shown) in [
        (GAPS_SHOWN_MAX - 1, GAPS_SHOWN_MAX - 1),
        (GAPS_SHOWN_MAX, GAPS_SHOWN_MAX),
        (GAPS_SHOWN_MAX + 1, GAPS_SHOWN_MAX),
    ] {
        let mut fold = ColumnsFold::new([key(0)], want(0, 10, 1, false));
        let gap = gap(0, 5);
        (0..count).for_each(|_| fold.gap(&gap));
        assert_eq!(fold.finish().unwrap().gaps.len(), shown, "{count}");
    }
}

fn gap(device: u8, time: i64) -> GapRecord {
    GapRecord {
        uid: DeviceUid([device; 8]),
        boot: BootId(1),
        first: Ordinal(3),
        count: 2,
        reason: GapReason::RingFull,
        time: EventTime(time),
    }
}

#[test]
fn so_many_channels_are_asked_for() {
    for (count, fits) in [
        (0, false),
        (1, true),
        (READ_KEYS_MAX - 1, true),
        (READ_KEYS_MAX, true),
        (READ_KEYS_MAX + 1, false),
    ] {
        assert_eq!(check_keys(count).is_ok(), fits, "{count}");
    }
}

#[test]
fn windows_leave_whole_ones_out_at_the_limit() {
    let all = |newest_first, windows_max| {
        let mut fold = WindowsFold::new(
            1,
            WindowsWant {
                size: Span(10),
                range: EventTime(0)..EventTime(100),
                windows_max,
                newest_first,
            },
        );
        for time in [95, 5, 55, 15, 6, 25, 99] {
            give(&mut fold, 0, time, time);
        }
        let got = fold.finish();
        let counts = got.windows[0]
            .iter()
            .map(|(start, figures)| (start.0, figures.values().count));
        (
            counts.collect::<Vec<_>>(),
            (got.covered.start.0, got.covered.end.0),
            got.left_out,
        )
    };
    let whole = vec![(0, 2), (10, 1), (20, 1), (50, 1), (90, 2)];
    for windows_max in [5, 6] {
        assert_eq!(all(false, windows_max), (whole.clone(), (0, 100), false));
        assert_eq!(all(true, windows_max), (whole.clone(), (0, 100), false));
    }
    assert_eq!(all(false, 4), (whole[..4].to_vec(), (0, 90), true));
    assert_eq!(all(true, 4), (whole[1..].to_vec(), (10, 100), true));
}

#[test]
fn rows_leave_whole_times_out_at_the_limit() {
    for (rows_max, left, end) in [(4, 4, 4), (5, 5, 100), (6, 5, 100), (3, 2, 2)] {
        let mut fold = RowsFold::new(EventTime(0)..EventTime(100), rows_max);
        for (time, line) in [(4, "e"), (2, "b"), (0, "a"), (2, "c"), (1, "d")] {
            RowFold::take(&mut fold, EventTime(time), line.as_bytes());
        }
        let got = fold.finish().unwrap();
        let lines: Vec<&[u8]> = got.lines.iter().map(|line| &**line).collect();
        let want: [&[u8]; 5] = [b"a", b"d", b"b", b"c", b"e"];
        assert_eq!(lines, want[..left], "{rows_max}");
        assert_eq!(got.covered.end, EventTime(end), "{rows_max}");
        assert_eq!(got.left_out, left < 5, "{rows_max}");
    }
}

#[test]
fn a_scan_hands_over_what_is_wanted_and_nothing_twice() {
    let stored = blocks(|appender| {
        for n in 0..10 {
            appender.push_reading(&series(1), &record(n, n), Mono(0));
            appender.push_reading(&series(2), &record(n, n), Mono(0));
        }
        appender.push_gap(&gap(1, 5), Mono(0));
        appender.push_gap(&gap(9, 5), Mono(0));
        let unsynced = ReadingRecord {
            uncertainty_us: UNSYNCED_US,
            ..record(3, 77)
        };
        appender.push_reading(&series(1), &unsynced, Mono(0));
    });
    for from_the_end in [false, true] {
        let fold = ColumnsFold::new([key(1)], want(2, 9, 100, false));
        // Two runs, and a block that each read brings again.
        let reads = [(0, 8), (8, 23)].map(|(first, end)| PlanRead {
            first: Offset(first),
            end: Offset(end),
            ..whole(0)
        });
        let mut scan = Scan::new([key(1)], reads, from_the_end, fold);
        let mut reads = 0;
        while let Some((at, _, _)) = scan.next_fetch() {
            assert_eq!(at, AT);
            scan.on_blocks(&stored);
            reads += 1;
        }
        assert_eq!(reads, 2);
        let got = scan.finish().finish().unwrap();
        let mut times = got.columns[0].times.clone();
        times.sort_unstable();
        assert_eq!(times, (2..9).collect::<Vec<_>>(), "{from_the_end}");
        assert_eq!(got.gaps.len(), 1, "of its device alone");
    }
}

#[test]
fn a_scan_passes_over_what_cannot_matter_any_more() {
    let reads = (0..10).map(|n| PlanRead {
        first: Offset(n),
        end: Offset(n + 1),
        times: (EventTime(n as i64), EventTime(n as i64)),
        ..whole(0)
    });
    let fold = ColumnsFold::new([key(1)], want(0, 10, 2, true));
    let mut scan = Scan::new([key(1)], reads, true, fold);
    let mut asked = Vec::new();
    while let Some((_, first, _)) = scan.next_fetch() {
        asked.push(first.0);
        let mut appender = Appender::readings(AT, Epoch(1), first);
        appender.push_reading(&series(1), &record(first.0 as i64, 0), Mono(0));
        appender.seal();
        let block: Vec<_> = appender.take_sealed().collect();
        scan.on_blocks(&block);
    }
    assert_eq!(asked[..3], [9, 8, 7]);
    assert!(asked.len() < 7, "{asked:?}");
    let got = scan.finish().finish().unwrap();
    assert_eq!(got.columns[0].times, [8, 9]);
}

fn engine(out_of_order: i64) -> Engine {
    engine_that(out_of_order, Emit::OnClose)
}

fn engine_that(out_of_order: i64, emit: Emit) -> Engine {
    let kind = WindowKind::Sliding {
        size: Span(20),
        bounds: Bounds::HalfOpen,
    };
    let mut window = WindowSpec::new("rolling", kind);
    window.emit = emit;
    let mut config = EngineConfig {
        windows: vec![window],
        ..EngineConfig::default()
    };
    config.time.out_of_order = Span(out_of_order);
    Engine::new(&config)
}

fn feed(engine: &mut Engine, time: i64, value: Option<f64>) -> Vec<String> {
    let id = engine.series("d", "t").unwrap();
    let mut batch = Batch::new();
    batch.push(id, EventTime(time), value, None);
    let mut rows = Rows::new();
    engine.on_batch(&batch, &mut rows);
    lines(engine, &rows)
}

fn lines(engine: &Engine, rows: &Rows) -> Vec<String> {
    let lines = engine.views(rows).map(|row| {
        let mut line = Vec::new();
        row.write_json(&mut line);
        String::from_utf8(line).unwrap()
    });
    lines.collect()
}

proptest! {
    /// As of the newest reading, whatever came in which order; and asking shows nowhere.
    #[test]
    fn the_engines_rolling_figures_are_those_of_the_readings(
        readings in prop::collection::vec((0_i64..60, prop::option::weighted(0.9, -50_i32..50)), 1..120),
        out_of_order in 0_i64..15,
        asks in prop::collection::vec(any::<bool>(), 120),
    ) {
        let (mut asked, mut silent) = (engine(out_of_order), engine(out_of_order));
        let mut rowless = engine_that(out_of_order, Emit::Never);
        let (mut all, mut newest) = (Vec::new(), i64::MIN);
        for (n, (step, value)) in readings.iter().enumerate() {
            // Times go on by and by, back and forth.
            let (time, value) = (step + n as i64 * 3, value.map(|v| f64::from(v) / 8.0));
            prop_assert_eq!(feed(&mut asked, time, value), feed(&mut silent, time, value));
            // A reading that is late for all windows is told of as before.
            let of_window = |line: &String| line.starts_with("{\"stream\":\"rolling\"");
            prop_assert!(!feed(&mut rowless, time, value).iter().any(of_window));
            newest = newest.max(time);
            all.push((time, value));
            if asks[n] {
                let mut want = Figures::default();
                let inside = all.iter().filter(|(t, _)| *t > newest - 20);
                inside.for_each(|(_, value)| want.add(*value));
                let want = want.values();
                let bits = |v: FigureValues| {
                    let figures = [v.mean, v.min, v.max, v.sum].map(|f| f.map(f64::to_bits));
                    (v.count, figures)
                };
                for engine in [&mut asked, &mut rowless] {
                    let got = engine.rolling(("d", "t"), Span(20), EventTime(newest));
                    let got = FigureValues::from(got.expect("the window has it"));
                    prop_assert_eq!(bits(got), bits(want));
                }
            }
        }
        let (mut a, mut b) = (Rows::new(), Rows::new());
        asked.finish(&mut a);
        silent.finish(&mut b);
        prop_assert_eq!(lines(&asked, &a), lines(&silent, &b));
    }
}

#[test]
fn the_engine_answers_only_what_it_holds() {
    let mut engine = engine(5);
    feed(&mut engine, 100, Some(1.0));
    for (name, device, channel, size, time, is_there) in [
        ("it", "d", "t", 20, 100, true),
        ("another size", "d", "t", 21, 100, false),
        ("another channel", "d", "u", 20, 100, false),
        ("another device", "e", "t", 20, 100, false),
        ("before the watermark", "d", "t", 20, 94, false),
    ] {
        let got = engine.rolling((device, channel), Span(size), EventTime(time));
        assert_eq!(got.is_some(), is_there, "{name}");
    }
}

#[test]
fn the_newest_revision_of_a_row_counts() {
    let window = PlanWindow {
        name: String::from("minute"),
        figures: WindowSpec::new("minute", WindowKind::Rows { n: 1 }).aggregates,
        lateness: Span(0),
    };
    let line = |minute: i64, revision: u32, mean: i64| {
        format!(
            "{{\"stream\":\"minute\",\"device\":\"{}\",\"channel\":\"t\",\
             \"start\":\"1970-01-01T00:0{minute}:00Z\",\"end\":\"1970-01-01T00:0{}:00Z\",\
             \"revision\":{revision},\"final\":true,\"count\":1,\"mean\":{mean},\"min\":1,\"max\":2}}",
            DeviceUid([1; 8]),
            minute + 1
        )
    };
    for keys in [vec![key(1)], vec![key(2), key(1)]] {
        let place = keys.len() - 1;
        let mut fold = RollupFold::new(keys, &window, (EventTime(0), EventTime(i64::MAX)));
        for (minute, revision, mean) in [(1, 0, 5), (3, 0, 7), (1, 2, 6), (1, 1, 9), (2, 0, 8)] {
            let line = line(minute, revision, mean);
            fold.take(EventTime(0), line.as_bytes());
        }
        let line: Arc<str> = line(4, 0, 1).replace("mean", "mode").into();
        fold.take(EventTime(0), line.as_bytes());
        assert_eq!(fold.unread(), 1);
        let columns = fold.finish().unwrap();
        let columns = &columns[place];
        assert_eq!(columns.starts, [60, 120, 180].map(|s| s * 1_000_000));
        assert_eq!(columns.mean, [6.0, 8.0, 7.0]);
        assert_eq!(columns.count, [1, 1, 1]);
        assert!(columns.sum.iter().all(|sum| sum.is_nan()));
    }
}

#[test]
fn packed_rows_give_the_same_columns() {
    let window = PlanWindow {
        name: String::from("minute"),
        figures: WindowSpec::new("minute", WindowKind::Rows { n: 1 }).aggregates,
        lateness: Span(0),
    };
    let line = |device: u8, minute: i64, revision: u32, mean: f64| {
        format!(
            "{{\"stream\":\"minute\",\"device\":\"{}\",\"channel\":\"t\",\
             \"start\":\"1970-01-01T00:0{minute}:00Z\",\"end\":\"1970-01-01T00:0{}:00Z\",\
             \"revision\":{revision},\"final\":true,\"count\":1,\"mean\":{mean},\"min\":1,\"max\":null}}",
            DeviceUid([device; 8]),
            minute + 1
        )
    };
    let rows = [
        (1, 1, 0, 5.5),
        (2, 1, 0, 1.0 / 3.0),
        (1, 3, 0, -7.0),
        (1, 1, 2, 0.25),
    ];
    let keys = vec![key(1), key(2)];
    let range = (EventTime(0), EventTime(i64::MAX));
    let mut plain = RollupFold::new(keys.clone(), &window, range);
    let mut packed = RollupFold::new(keys, &window, range);
    let mut packer = Packer::default();
    for (device, minute, revision, mean) in rows {
        let line = line(device, minute, revision, mean);
        let time = EventTime((minute + 1) * 60_000_000 - 1);
        plain.take(time, line.as_bytes());
        let (of, row) = packer.pack(time, line.as_bytes()).unwrap();
        let place = packed.row_keys().position(|key| key == of).unwrap();
        packed.take_packed(place, time, row);
    }
    assert_eq!(packed.note(), packer.note());
    packed.take_packed(0, EventTime(0), b"none");
    assert_eq!(packed.unread(), 1);
    packed.take_packed(7, EventTime(0), b"of no key");
    assert_eq!(packed.unread(), 1);
    let text = |fold: RollupFold| format!("{:?}", fold.finish());
    assert_eq!(text(packed), text(plain));
}

#[test]
fn windows_are_left_out_at_both_ends() {
    let windows: Vec<_> = (0..5)
        .map(|n| (EventTime(n * 10), Figures::default()))
        .collect();
    let mut columns = rollup_of(key(1), &windows, Span(10), EventTime(30));
    assert_eq!((columns.len(), columns.preliminary_from), (5, 3));
    columns.skip(2);
    assert_eq!(
        (&*columns.starts, columns.preliminary_from),
        (&[20, 30, 40][..], 1)
    );
    columns.truncate(2);
    columns.skip(9);
    assert!(columns.is_empty() && columns.mean.is_empty() && columns.ends.is_empty());
    assert_eq!(columns.preliminary_from, 0);
}
