//! The engine of a gateway, one step of its store at a time: a crash before any step,
//! other partitions, other batches, another order of arrival. All rows stay what a fresh
//! engine makes of the readings in the log, byte for byte.

use std::collections::BTreeMap;

use forebay_core::changes::{SourceEvent, SourcePosition};
use forebay_core::engine::config::{
    Aggregate, Bounds, Emit, EngineConfig, Grid, IdleAfter, JoinColumn, JoinInput, JoinKind,
    JoinSource, JoinSpec, JoinType, KeySpec, Source, TableSpec, TimeRules, WindowKind, WindowSpec,
};
use forebay_core::engine::filter::Filter;
use forebay_core::import::ImportRecord;
use forebay_core::units::{EventTime, Span};
use forebay_tests::world::dice::Dice;
use forebay_tests::world::steps::{self, CrashAt, Done, Script};
use forebay_wire::message::Quality;

const SECOND: i64 = 1_000_000;
/// 2020-09-13T12:26:40Z.
const FIRST: i64 = 1_600_000_000 * SECOND;
const BOUND: i64 = 5 * SECOND;
/// In every run of the tests.
const CRASH_SEEDS: u64 = 60;
/// Batches of the script in which each step crashes.
const BATCHES: usize = 10;

/// What may be left of a batch that is not synced: blocks, and its meta entries.
const KEEPS: [(bool, bool); 3] = [(false, false), (true, false), (true, true)];

fn windows() -> Vec<WindowSpec> {
    let grid = |size| {
        WindowKind::Tumbling(Grid::Fixed {
            size: Span(size),
            offset: Span(0),
        })
    };
    let rolling = WindowKind::Sliding {
        size: Span(10 * SECOND),
        bounds: Bounds::HalfOpen,
    };
    let hops = WindowKind::Hopping {
        size: Span(12 * SECOND),
        hop: Span(5 * SECOND),
        offset: Span(SECOND),
    };
    let ranks = vec![Aggregate::Count, Aggregate::Mean, Aggregate::Percentile(95)];
    vec![
        WindowSpec::new("tumbling", grid(10 * SECOND)),
        WindowSpec {
            aggregates: ranks,
            ..WindowSpec::new("rolling", rolling)
        },
        WindowSpec {
            finalize: true,
            ..WindowSpec::new("hops", hops)
        },
        WindowSpec {
            key: KeySpec::DEVICE,
            ..WindowSpec::new("last", WindowKind::Rows { n: 7 })
        },
        WindowSpec::new(
            "session",
            WindowKind::Session {
                gap: Span(4 * SECOND),
            },
        ),
        WindowSpec {
            from: Source::Window(0),
            merge: true,
            ..WindowSpec::new("chain", grid(60 * SECOND))
        },
        WindowSpec {
            emit: Emit::FinalOnly,
            ..WindowSpec::new("final", grid(15 * SECOND))
        },
        WindowSpec {
            emit: Emit::EveryUpdate,
            ..WindowSpec::new("eager", grid(7 * SECOND))
        },
    ]
}

/// Without idleness: when the gateway's clock is written depends on how it is run.
fn engine(lateness: i64) -> EngineConfig {
    EngineConfig {
        time: TimeRules {
            out_of_order: Span(BOUND),
            allowed_lateness: Span(lateness),
            idle_after: IdleAfter::After(Span(i64::MAX / 4)),
            ..TimeRules::default()
        },
        windows: windows(),
        ..EngineConfig::default()
    }
}

/// Readings of some devices, out of order inside the bound; one in `late` beyond it.
fn readings(seed: u64, count: i64, late: u64) -> Vec<ImportRecord> {
    let mut dice = Dice::new(seed);
    (0..count)
        .map(|n| {
            let device = dice.below(6);
            let behind = match dice.below(late) {
                0 => BOUND + 1 + dice.below(20 * SECOND as u64) as i64,
                _ => dice.below(BOUND as u64 / 2) as i64,
            };
            let time = FIRST + n * SECOND / 4 - behind;
            let (value, quality) = match dice.below(20) {
                0 => (None, Quality::BusError),
                1 => (Some(1e16), Quality::Ok),
                _ => (Some(dice.below(10_000) as f64 / 100.0), Quality::Ok),
            };
            record(device, dice.below(2), time, value, quality)
        })
        .collect()
}

fn record(
    device: u64,
    channel: u64,
    time: i64,
    value: Option<f64>,
    quality: Quality,
) -> ImportRecord {
    let device = format!("f02eba110000000{device}");
    let channel = ["temperature", "current"][channel as usize];
    ImportRecord::new(&device, channel, "", EventTime(time), value, quality).expect("it is one")
}

fn script(engine: EngineConfig, partitions: u16, batches: Vec<Vec<ImportRecord>>) -> Script {
    Script {
        engine,
        partitions,
        linger: Span(20_000),
        batches: batches.into_iter().map(|batch| (70_000, batch)).collect(),
        changes: Vec::new(),
    }
}

fn has_tail(kind: &WindowKind) -> bool {
    matches!(kind, WindowKind::Sliding { .. } | WindowKind::Rows { .. })
}

/// A script in which windows close and checkpoints are written.
fn crashed(seed: u64, partitions: u16, lateness: i64) -> Script {
    let readings = readings(seed, 400, 30);
    let batches = readings.chunks(readings.len() / BATCHES);
    let batches = batches.map(<[ImportRecord]>::to_vec).collect();
    script(engine(lateness), partitions, batches)
}

#[test]
fn a_crash_before_any_step_changes_no_row() {
    let mut restored = 0;
    for (partitions, lateness) in [(1, 0), (4, 20 * SECOND)] {
        let mut script = crashed(1, partitions, lateness);
        if partitions > 1 {
            script
                .engine
                .windows
                .retain(|window| !has_tail(&window.kind));
        }
        let whole = steps::run(&script, &[]);
        steps::judge(&script, &whole, "without a crash");
        let mut came = 0;
        for step in 0..whole.steps {
            for keeps in KEEPS {
                let crash = CrashAt { step, keeps };
                let done = steps::run(&script, &[crash]);
                steps::judge(
                    &script,
                    &done,
                    &format!("{partitions} partitions, {crash:?}"),
                );
                came += done.crashes;
                restored += done.restored;
            }
        }
        assert_eq!(came as u64, whole.steps * KEEPS.len() as u64);
    }
    assert!(restored > 0, "no start went on from a checkpoint");
}

/// What windows over all devices, and over other windows of all devices, read; those with
/// the device first, as their topics are counted.
fn crossing(lateness: i64) -> EngineConfig {
    let mut engine = engine(lateness);
    engine.windows.truncate(1);
    let key = KeySpec {
        device: false,
        channel: true,
    };
    let across = |name: &str, of: usize| WindowSpec {
        name: String::from(name),
        key,
        ..windows()[of].clone()
    };
    let of_each = WindowSpec {
        from: Source::Window(0),
        value: Aggregate::Mean,
        ..across("of_each", 0)
    };
    engine.windows.extend([
        across("all", 0),
        across("hops", 2),
        WindowSpec {
            finalize: true,
            ..of_each
        },
    ]);
    // What stands in two partitions meets in one.
    let near = JoinKind::Interval {
        lower: Span(-SECOND / 2),
        upper: Span(SECOND / 2),
    };
    let side = |condition: &str| JoinInput {
        filter: Some(Filter::parse(condition).expect("it reads")),
        ..JoinInput::from(JoinSource::Readings)
    };
    let pairs = JoinSpec {
        left: side("device = 'f02eba1100000001'"),
        right: side("device != 'f02eba1100000001'"),
        on: vec![JoinColumn::Channel],
        join_type: JoinType::Full,
        ..JoinSpec::new("pairs", near, JoinSource::Readings, JoinSource::Readings)
    };
    let own = JoinSpec {
        left: side("channel = 'current'"),
        right: side("channel = 'temperature'"),
        ..JoinSpec::new("own", near, JoinSource::Readings, JoinSource::Readings)
    };
    engine.joins = vec![pairs, own];
    engine
}

#[test]
fn a_crash_before_any_step_changes_no_row_of_what_crosses_devices() {
    for (partitions, lateness) in [(2, 0), (4, 20 * SECOND)] {
        let mut script = crashed(1, partitions, lateness);
        script.engine = crossing(lateness);
        let whole = steps::run(&script, &[]);
        steps::judge(&script, &whole, "without a crash");
        let rows: Vec<usize> = steps::rows_of_streams(&script, &whole);
        assert!(
            rows.iter().all(|rows| *rows > 10),
            "each stream has rows: {rows:?}"
        );
        let (mut came, mut restored) = (0, 0);
        for step in 0..whole.steps {
            for keeps in KEEPS {
                let crash = CrashAt { step, keeps };
                let done = steps::run(&script, &[crash]);
                let what = format!("{partitions} partitions, {crash:?}");
                steps::judge(&script, &done, &what);
                assert_eq!(done.different, 0, "{what}");
                came += done.crashes;
                restored += done.crossing_restored;
            }
        }
        assert_eq!(came as u64, whole.steps * KEEPS.len() as u64);
        assert!(
            restored as u64 > whole.steps,
            "{restored} starts went on from a checkpoint"
        );
    }
}

/// Tables whose rows change while readings come, and what meets them: lookups, a key, and
/// two tables.
fn with_tables(mut script: Script) -> Script {
    let lookup = JoinKind::Lookup { wait: None };
    let (readings, table) = (JoinSource::Readings, JoinSource::Table);
    let sites = TableSpec {
        out_of_order: Span(SECOND),
        ..TableSpec::new("sites", &["device"])
    };
    let engine = &mut script.engine;
    engine.tables = vec![sites, TableSpec::new("owners", &["building"])];
    let placed = JoinSpec::new("placed", lookup, readings, table(0));
    let owned = JoinSpec {
        on: vec![JoinColumn::Column(String::from("building"))],
        join_type: JoinType::Left,
        ..JoinSpec::new("owned", JoinKind::Table, table(0), table(1))
    };
    engine.joins.extend([placed, owned]);
    let mut dice = Dice::new(7);
    let changes = (0..script.batches.len()).map(|n| {
        let time = EventTime(FIRST + n as i64 * 10 * SECOND);
        let position = |m: u64| SourcePosition(format!("{n:08}-{m}").into());
        let row = |text: String| std::sync::Arc::from(text);
        let mut event = |m: u64| {
            let (device, building) = (dice.below(6), dice.below(3));
            let (table, after) = if m % 3 == 2 {
                (
                    "owners",
                    format!("{{\"building\":\"b{building}\",\"name\":\"n{n}\"}}"),
                )
            } else {
                let device = format!("f02eba110000000{device}");
                (
                    "sites",
                    format!("{{\"device\":\"{device}\",\"building\":\"b{building}\"}}"),
                )
            };
            SourceEvent::Upsert {
                table: table.into(),
                key: None,
                time: EventTime(time.0 + m as i64),
                before: None,
                after: row(after),
                position: position(m),
                is_insert: None,
                unchanged: Vec::new(),
            }
        };
        let mut events: Vec<SourceEvent> = (0..9).map(&mut event).collect();
        events.push(SourceEvent::Heartbeat {
            time: EventTime(time.0 + 9 * SECOND),
            position: position(9),
        });
        events
    });
    script.changes = changes.collect();
    script
}

#[test]
fn a_crash_before_any_step_changes_no_row_of_joins_with_tables() {
    for partitions in [1, 2] {
        let mut script = crashed(1, partitions, 0);
        script.engine = crossing(0);
        let script = with_tables(script);
        let whole = steps::run(&script, &[]);
        steps::judge(&script, &whole, "without a crash");
        let rows: Vec<usize> = steps::rows_of_streams(&script, &whole);
        assert!(
            rows.iter().all(|rows| *rows > 5),
            "each stream has rows: {rows:?}"
        );
        for step in 0..whole.steps {
            let crash = CrashAt {
                step,
                keeps: KEEPS[step as usize % KEEPS.len()],
            };
            let done = steps::run(&script, &[crash]);
            let what = format!("{partitions} partitions, {crash:?}");
            steps::judge(&script, &done, &what);
            assert_eq!(done.different, 0, "{what}");
        }
    }
}

#[test]
fn crashes_while_what_crosses_devices_recovers_change_no_row() {
    let mut came = 0;
    for seed in 0..CRASH_SEEDS {
        let mut dice = Dice::new(seed ^ 0xcc);
        let partitions = [2, 3, 16][dice.below(3) as usize];
        let lateness = [0, 20 * SECOND][dice.below(2) as usize];
        let mut script = crashed(seed, partitions, lateness);
        script.engine = crossing(lateness);
        let crashes: Vec<CrashAt> = (0..4)
            .map(|_| CrashAt {
                step: [dice.below(8), dice.below(80)][dice.below(2) as usize],
                keeps: KEEPS[dice.below(3) as usize],
            })
            .collect();
        let done = steps::run(&script, &crashes);
        let what = format!("seed {seed}, {crashes:?}");
        steps::judge(&script, &done, &what);
        assert_eq!(done.different, 0, "{what}");
        came += done.crashes;
    }
    assert!(came > CRASH_SEEDS as usize, "{came} crashes came");
}

#[test]
fn crashes_while_it_recovers_change_no_row() {
    let mut came = 0;
    for seed in 0..CRASH_SEEDS {
        let mut dice = Dice::new(seed);
        let partitions = [1, 2, 16][dice.below(3) as usize];
        let mut script = crashed(seed, partitions, [0, 20 * SECOND][dice.below(2) as usize]);
        if seed % 2 == 0 {
            script
                .engine
                .windows
                .retain(|window| !has_tail(&window.kind));
        }
        let crashes: Vec<CrashAt> = (0..4)
            .map(|_| CrashAt {
                step: [dice.below(8), dice.below(60)][dice.below(2) as usize],
                keeps: KEEPS[dice.below(3) as usize],
            })
            .collect();
        let done = steps::run(&script, &crashes);
        steps::judge(&script, &done, &format!("seed {seed}, {crashes:?}"));
        came += done.crashes;
    }
    assert!(came > CRASH_SEEDS as usize, "{came} crashes came");
}

#[test]
fn partitions_batches_and_linger_change_no_row_of_a_device() {
    let readings = readings(3, 1_200, 25);
    let run = |partitions, batch, linger| {
        let batches = readings.chunks(batch).map(<[ImportRecord]>::to_vec);
        let mut script = script(engine(0), partitions, batches.collect());
        script.linger = Span(linger);
        let done = steps::run(&script, &[]);
        let what = format!("{partitions} partitions, batches of {batch}, linger {linger}");
        steps::judge(&script, &done, &what);
        (steps::rows_by_device(&done), what)
    };
    let (want, _) = run(1, 1000, 20_000);
    assert!(want.len() > 30, "each device has rows of most windows");
    for (partitions, batch, linger) in [
        (1, 1, 5_000),
        (1, 32, 50_000),
        (4, 1000, 20_000),
        (4, 32, 5_000),
        (16, 1000, 50_000),
        (16, 32, 20_000),
    ] {
        let (got, what) = run(partitions, batch, linger);
        assert!(got == want, "{what}: {}", first_difference(&got, &want));
    }
}

type Rows = BTreeMap<(u16, String), Vec<String>>;

fn first_difference(got: &Rows, want: &Rows) -> String {
    for (key, want) in want {
        let got = got.get(key).map_or(&[][..], Vec::as_slice);
        let place = got.iter().zip(want).position(|(got, want)| got != want);
        let place = place.unwrap_or(got.len().min(want.len()));
        if got.len() != want.len() || place < got.len() {
            let (got, want) = (got.get(place), want.get(place));
            return format!("{key:?}, row {place}: {got:?} is not {want:?}");
        }
    }
    String::from("there are more rows")
}

#[test]
fn the_order_of_arrival_inside_the_bound_changes_no_result() {
    let mut in_order = readings(5, 600, u64::MAX);
    // One reading of each device and time: else the order of arrival is a result.
    in_order.sort_by(|a, b| (a.time, &a.device).cmp(&(b.time, &b.device)));
    in_order.dedup_by(|a, b| a.time == b.time && a.device == b.device);
    let mut config = engine(0);
    config
        .windows
        .retain(|window| window.emit != Emit::EveryUpdate);
    let run = |readings: &[ImportRecord]| {
        let batches = readings.chunks(50).map(<[ImportRecord]>::to_vec);
        let script = script(config.clone(), 4, batches.collect());
        let done = steps::run(&script, &[]);
        steps::judge(&script, &done, "some order");
        sorted(&done)
    };
    let want = run(&in_order);
    assert!(want.len() > 30, "each device has rows of most windows");
    for seed in 0..4 {
        let mut dice = Dice::new(seed);
        let mut mixed = in_order.clone();
        mixed.sort_by_cached_key(|record| record.time.0 + dice.below(BOUND as u64 + 1) as i64);
        let got = run(&mixed);
        assert!(
            got == want,
            "seed {seed}: {}",
            first_difference(&got, &want)
        );
    }
}

fn sorted(done: &Done) -> Rows {
    let mut rows = steps::rows_by_device(done);
    rows.values_mut().for_each(|rows| rows.sort_unstable());
    rows
}
