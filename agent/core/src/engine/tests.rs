//! The engine against a slow obvious model, step by step, and its rules by name.

mod batches;
mod clock;
mod held;
mod joins;
mod keyed;
mod kinds;
mod model;
mod state;
mod times;

use proptest::prelude::*;

use self::model::{Model, in_words};
use super::config::{
    Aggregate, Bounds, Emit, EngineConfig, Grid, IdleAfter, KeySpec, TimeRules, WindowKind,
    WindowSpec,
};
use crate::engine::identity::ReadingId;
use crate::limits::EVENT_TIME_MAX;

use super::*;

const AGGREGATES: [Aggregate; 6] = [
    Aggregate::Count,
    Aggregate::Sum,
    Aggregate::Min,
    Aggregate::Max,
    Aggregate::First,
    Aggregate::Last,
];

fn tumbling(size: i64, offset: i64) -> WindowKind {
    WindowKind::Tumbling(Grid::Fixed {
        size: Span(size),
        offset: Span(offset),
    })
}

fn hopping(size: i64, hop: i64, offset: i64) -> WindowKind {
    WindowKind::Hopping {
        size: Span(size),
        hop: Span(hop),
        offset: Span(offset),
    }
}

fn sliding(size: i64, bounds: Bounds) -> WindowKind {
    WindowKind::Sliding {
        size: Span(size),
        bounds,
    }
}

fn window(name: &str, kind: WindowKind) -> WindowSpec {
    WindowSpec {
        aggregates: AGGREGATES.to_vec(),
        ..WindowSpec::new(name, kind)
    }
}

fn config(out_of_order: i64, lateness: i64, windows: Vec<WindowSpec>) -> EngineConfig {
    EngineConfig {
        time: TimeRules {
            out_of_order: Span(out_of_order),
            allowed_lateness: Span(lateness),
            idle_after: IdleAfter::After(Span(60)),
            future_guard: Span(5),
        },
        windows,
        ..EngineConfig::default()
    }
}

/// device, channel, time, value
type Given = (&'static str, &'static str, i64, Option<i32>);

/// Gives readings in batches of so many; the lines that come out.
fn give_in(engine: &mut Engine, readings: &[Given], batch_max: usize, out: &mut Vec<String>) {
    let (mut batch, mut rows) = (Batch::new(), Rows::new());
    for chunk in readings.chunks(batch_max) {
        for (device, channel, time, value) in chunk {
            let series = engine.series(device, channel).expect("a short name");
            batch.push(series, EventTime(*time), value.map(f64::from), None);
        }
        engine.on_batch(&batch, &mut rows);
        batch.clear();
    }
    out.extend(lines(engine, &rows));
}

/// All rows of these readings, to the end of time.
fn rows_of(engine: &mut Engine, readings: &[Given]) -> Rows {
    let (mut batch, mut rows) = (Batch::new(), Rows::new());
    for (device, channel, time, value) in readings {
        let series = engine.series(device, channel).expect("a short name");
        batch.push(series, EventTime(*time), value.map(f64::from), None);
    }
    engine.on_batch(&batch, &mut rows);
    engine.finish(&mut rows);
    rows
}

fn give(engine: &mut Engine, readings: &[Given], out: &mut Vec<String>) {
    give_in(engine, readings, 1, out);
}

fn lines(engine: &Engine, rows: &Rows) -> Vec<String> {
    let line = |row: RowView<'_>| {
        let mut text = Vec::new();
        row.write_json(&mut text);
        String::from_utf8(text).expect("JSON is UTF-8")
    };
    engine.views(rows).map(line).collect()
}

fn clock(engine: &mut Engine, time: i64, out: &mut Vec<String>) {
    let mut rows = Rows::new();
    engine.on_clock(EventTime(time), &mut rows);
    out.extend(lines(engine, &rows));
}

fn watermark(engine: &mut Engine, device: Option<&str>, time: i64, out: &mut Vec<String>) {
    let mut rows = Rows::new();
    engine.on_watermark(device, EventTime(time), &mut rows);
    out.extend(lines(engine, &rows));
}

fn finish(engine: &mut Engine, out: &mut Vec<String>) {
    watermark(engine, None, i64::MAX, out);
}

fn run(config: &EngineConfig, readings: &[Given]) -> (Vec<String>, Engine) {
    let mut engine = Engine::new(config);
    let mut out = Vec::new();
    give(&mut engine, readings, &mut out);
    finish(&mut engine, &mut out);
    (out, engine)
}

fn reading() -> impl Strategy<Value = Given> {
    (
        prop_oneof![Just("a"), Just("b")],
        prop_oneof![Just("x"), Just("y")],
        -60_i64..60,
        prop_oneof![4 => (-9_i32..9).prop_map(Some), 1 => Just(None)],
    )
}

fn kind() -> impl Strategy<Value = WindowKind> {
    prop_oneof![
        (1_i64..20, -5_i64..5).prop_map(|(size, offset)| tumbling(size, offset)),
        (1_i64..20, 1_i64..20, -5_i64..5)
            .prop_map(|(size, hop, offset)| hopping(size, hop, offset)),
        (
            1_i64..20,
            prop_oneof![Just(Bounds::HalfOpen), Just(Bounds::Closed)]
        )
            .prop_map(|(size, bounds)| sliding(size, bounds)),
        (1_u32..6).prop_map(|n| WindowKind::Rows { n }),
        (1_i64..12).prop_map(|gap| WindowKind::Session { gap: Span(gap) }),
    ]
}

/// Whether lines of this kind are revised.
fn is_revised(kind: &WindowKind) -> bool {
    match kind {
        WindowKind::Tumbling(_) | WindowKind::Hopping { .. } | WindowKind::Session { .. } => true,
        WindowKind::Sliding { .. } | WindowKind::Rows { .. } => false,
    }
}

/// A window of any kind over readings, with any settings.
fn base() -> impl Strategy<Value = WindowSpec> {
    let key = prop_oneof![
        3 => Just(KeySpec::DEVICE_CHANNEL),
        1 => Just(KeySpec::DEVICE),
        2 => Just(KeySpec::CHANNEL)
    ];
    let emit = prop_oneof![
        3 => Just(Emit::OnClose),
        1 => Just(Emit::EveryUpdate),
        1 => Just(Emit::FinalOnly)
    ];
    let only_x = prop_oneof![3 => Just(None), 1 => Just(Some(vec!["x".to_owned()]))];
    let aggregates = prop_oneof![
        2 => Just(AGGREGATES.to_vec()),
        1 => Just(vec![Aggregate::Count]),
        1 => Just(vec![Aggregate::Max, Aggregate::Percentile(50)]),
    ];
    let settings = (kind(), key, emit, any::<bool>(), only_x, aggregates);
    settings.prop_map(|(kind, key, emit, finalize, channels, aggregates)| {
        let emit = match emit {
            Emit::FinalOnly if !is_revised(&kind) => Emit::OnClose,
            Emit::OnClose | Emit::EveryUpdate | Emit::FinalOnly | Emit::Never => emit,
        };
        let finalize = finalize && emit == Emit::OnClose && is_revised(&kind);
        WindowSpec {
            key,
            emit,
            finalize,
            channels,
            aggregates,
            ..window("w", kind)
        }
    })
}

/// Windows over readings and, of those with a place, over an earlier one.
fn pipeline(len: usize, chained: bool) -> impl Strategy<Value = Vec<WindowSpec>> {
    let value = prop_oneof![
        Just(Aggregate::Sum),
        Just(Aggregate::Count),
        Just(Aggregate::Max),
        Just(Aggregate::Last),
        Just(Aggregate::Percentile(50)),
    ];
    let one = (base(), any::<prop::sample::Index>(), value, any::<bool>());
    prop::collection::vec(one, 1..=len).prop_map(move |all| {
        let mut windows: Vec<WindowSpec> = Vec::new();
        for (mut spec, from, value, merge) in all {
            if chained && !windows.is_empty() {
                let from = from.index(windows.len());
                let inner = &windows[from];
                spec.from = Source::Window(u16::try_from(from).expect("few windows"));
                (spec.value, spec.merge) = (value, merge && can_merge(&inner.kind));
                // A session that has moved may bring rows back that were forgotten.
                let moves = matches!(inner.kind, WindowKind::Session { .. });
                if moves && matches!(spec.kind, WindowKind::Rows { .. }) {
                    spec.kind = sliding(7, Bounds::HalfOpen);
                }
                spec.key.device &= inner.key.device;
                spec.key.channel &= inner.key.channel;
                if !inner.key.channel {
                    spec.channels = None;
                }
            }
            windows.push(spec);
        }
        windows
    })
}

fn can_merge(kind: &WindowKind) -> bool {
    match kind {
        WindowKind::Tumbling(_) | WindowKind::Session { .. } => true,
        WindowKind::Hopping { size, hop, .. } => hop >= size,
        WindowKind::Sliding { .. } | WindowKind::Rows { .. } => false,
    }
}

/// Runs both in step; the engine takes readings in batches of this size.
fn compare(config: &EngineConfig, steps: &[Step], batch_max: usize) {
    let (mut engine, mut model) = (Engine::new(config), Model::new(config));
    let (mut batch, mut rows) = (Batch::new(), Rows::new());
    let mut got: Vec<String> = Vec::new();
    for step in steps {
        if batch.len() == batch_max || !matches!(step, Step::Reading(_)) {
            engine.on_batch(&batch, &mut rows);
            batch.clear();
        }
        match step {
            Step::Reading((device, channel, time, value)) => {
                let series = engine.series(device, channel).expect("a short name");
                batch.push(series, EventTime(*time), value.map(f64::from), None);
                model.reading((device, channel, *time, *value));
            }
            Step::Clock(time) => {
                engine.on_clock(EventTime(*time), &mut rows);
                model.clock(*time);
            }
            Step::Watermark(device, time) => {
                engine.on_watermark(*device, EventTime(*time), &mut rows);
                model.watermark_line(*device, *time);
            }
        }
    }
    engine.on_batch(&batch, &mut rows);
    engine.finish(&mut rows);
    model.finish();
    got.extend(engine.views(&rows).map(in_words));
    assert_eq!(got, model.out);
    assert_eq!(engine.counters().late_partial, model.late_partial);
    assert!(engine.counters().closes());
    let late_derived: u64 = engine.late_derived().map(|(_, count)| count).sum();
    assert_eq!(late_derived, model.late_derived());
    assert_eq!(engine.state_rows(), 0);
}

fn batch_max() -> impl Strategy<Value = usize> {
    prop_oneof![Just(1_usize), 2_usize..9, Just(1000)]
}

proptest! {
    #[test]
    fn every_line_is_what_the_model_says(
        steps in prop::collection::vec(step(), 0..80),
        windows in pipeline(3, false),
        out_of_order in 0_i64..30,
        lateness in prop_oneof![Just(0_i64), 0_i64..40],
        batch_max in batch_max(),
    ) {
        compare(&config(out_of_order, lateness, windows), &steps, batch_max);
    }

    #[test]
    fn every_line_over_other_windows_is_what_the_model_says(
        steps in prop::collection::vec(step(), 0..60),
        windows in pipeline(4, true),
        out_of_order in 0_i64..30,
        lateness in prop_oneof![Just(0_i64), 0_i64..40],
        batch_max in batch_max(),
    ) {
        compare(&config(out_of_order, lateness, windows), &steps, batch_max);
    }

    #[test]
    fn the_order_of_arrival_inside_the_bound_does_not_matter(
        times in prop::collection::btree_set(-1000_i64..1000, 0..60),
        delays in prop::collection::vec(0_i64..=25, 60),
        windows in prop_oneof![pipeline(3, false), pipeline(4, true)],
    ) {
        let windows = windows.into_iter().map(without_order).collect();
        let config = config(25, 0, windows);
        // Each time once: of equal times the order of arrival decides.
        let given = |t: &i64| {
            let device = if t % 3 == 0 { "b" } else { "a" };
            let channel = if t % 2 == 0 { "x" } else { "y" };
            (device, channel, *t, Some((*t % 7) as i32))
        };
        let in_order: Vec<Given> = times.iter().map(given).collect();
        let mut arrivals: Vec<(i64, Given)> = in_order.iter().zip(&delays).map(|(g, d)| (g.2 + d, *g)).collect();
        arrivals.sort_by_key(|(at, _)| *at);
        let mixed: Vec<Given> = arrivals.into_iter().map(|(_, g)| g).collect();
        let sorted = |readings: &[Given]| {
            let (mut lines, engine) = run(&config, readings);
            lines.sort();
            (lines, engine.counters())
        };
        prop_assert_eq!(sorted(&in_order), sorted(&mixed));
    }
}

/// The window without what shows the order of arrival: lines at every update, and the
/// order of rows of one time, which those of other windows may have.
fn without_order(spec: WindowSpec) -> WindowSpec {
    let chained = spec.from != Source::Readings;
    let kind = if chained && matches!(spec.kind, WindowKind::Rows { .. }) {
        sliding(9, Bounds::Closed)
    } else {
        spec.kind.clone()
    };
    let ordered = |a: &Aggregate| matches!(a, Aggregate::First | Aggregate::Last);
    let value = if ordered(&spec.value) {
        Aggregate::Sum
    } else {
        spec.value
    };
    let aggregates = spec.aggregates.iter().copied();
    WindowSpec {
        kind,
        value,
        emit: match spec.emit {
            Emit::EveryUpdate => Emit::OnClose,
            Emit::OnClose | Emit::FinalOnly | Emit::Never => spec.emit,
        },
        aggregates: aggregates.filter(|a| !(chained && ordered(a))).collect(),
        ..spec
    }
}

/// A reading or a word of the gateway.
#[derive(Debug, Clone)]
enum Step {
    Reading(Given),
    Clock(i64),
    Watermark(Option<&'static str>, i64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => reading().prop_map(Step::Reading),
        1 => (-60_i64..300).prop_map(Step::Clock),
        1 => (prop_oneof![Just(None), Just(Some("a"))], -60_i64..60).prop_map(|(d, t)| Step::Watermark(d, t)),
    ]
}

proptest! {
    #[test]
    fn a_hop_of_the_size_is_a_tumble(
        steps in prop::collection::vec(step(), 0..60),
        (size, offset) in (1_i64..20, -5_i64..5),
        emit in prop_oneof![Just(Emit::OnClose), Just(Emit::EveryUpdate), Just(Emit::FinalOnly)],
        finalize: bool,
        (out_of_order, lateness) in (0_i64..30, 0_i64..40),
    ) {
        let run = |kind| {
            let mut spec = window("w", kind);
            (spec.emit, spec.finalize) = (emit, finalize && emit == Emit::OnClose);
            let mut engine = Engine::new(&config(out_of_order, lateness, vec![spec]));
            let mut out = Vec::new();
            for step in &steps {
                match step {
                    Step::Reading(given) => give(&mut engine, &[*given], &mut out),
                    Step::Clock(time) => clock(&mut engine, *time, &mut out),
                    Step::Watermark(device, time) => watermark(&mut engine, *device, *time, &mut out),
                }
            }
            finish(&mut engine, &mut out);
            (out, engine.state_rows(), engine.counters())
        };
        prop_assert_eq!(run(tumbling(size, offset)), run(hopping(size, size, offset)));
    }
}

#[test]
fn batches_change_no_byte() {
    let config = config(
        5,
        10,
        vec![
            window("t", tumbling(10, 0)),
            window("s", sliding(7, Bounds::HalfOpen)),
        ],
    );
    let given: Vec<Given> = (0..500)
        .map(|n| ("a", "x", n - (n * 7) % 13, Some(n as i32 % 50)))
        .collect();
    let (want, _) = run(&config, &given);
    for batch in [1, 3, 32, 1000] {
        let mut engine = Engine::new(&config);
        let mut out = Vec::new();
        give_in(&mut engine, &given, batch, &mut out);
        finish(&mut engine, &mut out);
        assert_eq!(out, want, "batches of {batch}");
    }
}

#[test]
fn a_line_has_its_keys_in_order() {
    let mut spec = window("temp_1m", tumbling(60_000_000, 0));
    spec.aggregates = vec![Aggregate::Mean, Aggregate::Count, Aggregate::Percentile(5)];
    let rolling = window("roll", sliding(60_000_000, Bounds::HalfOpen));
    let (lines, _) = run(
        &config(0, 0, vec![spec, rolling]),
        &[("d\"1", "temp", 1_500_000, Some(2))],
    );
    assert_eq!(
        lines,
        [
            r#"{"stream":"temp_1m","device":"d\"1","channel":"temp","start":"1970-01-01T00:00:00Z","end":"1970-01-01T00:01:00Z","revision":0,"final":true,"mean":2.0,"count":1,"p05":2.0}"#,
            r#"{"stream":"roll","device":"d\"1","channel":"temp","time":"1970-01-01T00:00:01.500000Z","count":1,"sum":2.0,"min":2.0,"max":2.0,"first":2.0,"last":2.0}"#,
        ]
    );
}

#[test]
fn a_device_does_not_make_another_late() {
    let config = config(0, 0, vec![window("w", tumbling(10, 0))]);
    let given = [
        ("a", "x", 1000, Some(1)),
        ("b", "x", 1, Some(1)),
        ("b", "x", 20, Some(2)),
    ];
    let (_, engine) = run(&config, &given);
    assert_eq!(engine.counters().late_all, 0);
}

#[test]
fn a_floor_also_holds_for_devices_heard_later() {
    let config = config(0, 0, vec![window("w", tumbling(10, 0))]);
    for (name, floor_of, late) in [
        ("all", None, [1, 1]),
        ("one", Some("b"), [0, 1]),
        ("another", Some("c"), [0, 0]),
    ] {
        let mut engine = Engine::new(&config);
        let mut out = Vec::new();
        watermark(&mut engine, floor_of, 20, &mut out);
        give(
            &mut engine,
            &[("a", "x", 1, Some(1)), ("b", "x", 1, Some(1))],
            &mut out,
        );
        let got: Vec<u64> = engine.device_counters().map(|(_, c)| c.late_all).collect();
        assert_eq!(got, late, "{name}");
    }
}

#[test]
fn idleness_by_itself_waits_three_usual_intervals() {
    let mut config = config(0, 0, vec![window("w", tumbling(1_000_000_000, 0))]);
    config.time.idle_after = IdleAfter::Auto;
    for (name, interval, silence, idle) in [
        ("a minute at least, not yet", 1, 59_999_999, false),
        ("a minute at least", 1, 60_000_000, true),
        (
            "three quarters of an hour, not yet",
            900_000_000,
            2_699_999_999,
            false,
        ),
        (
            "three quarters of an hour",
            900_000_000,
            2_700_000_000,
            true,
        ),
    ] {
        let mut engine = Engine::new(&config);
        let mut out = Vec::new();
        for n in 0..10 {
            clock(&mut engine, n * interval, &mut out);
            give(&mut engine, &[("a", "x", n * interval, Some(1))], &mut out);
        }
        out.clear();
        clock(&mut engine, 9 * interval + silence, &mut out);
        assert_eq!(!out.is_empty(), idle, "{name}");
    }
}

#[test]
fn a_key_of_the_device_takes_all_its_channels() {
    let mut spec = window("w", tumbling(10, 0));
    spec.key = KeySpec::DEVICE;
    spec.aggregates = vec![Aggregate::Count];
    let given = [
        ("a", "y", 1, Some(1)),
        ("a", "x", 2, Some(1)),
        ("b", "x", 3, Some(1)),
    ];
    let (lines, _) = run(&config(0, 0, vec![spec]), &given);
    let ends = |line: &str, count: u8| {
        line.ends_with(&format!("\"count\":{count}}}")) && !line.contains("channel")
    };
    assert!(
        ends(&lines[0], 2) && ends(&lines[1], 1) && lines.len() == 2,
        "{lines:?}"
    );
}

#[test]
fn duplicates_are_counted_and_change_nothing() {
    let config = config(0, 0, vec![window("w", tumbling(10, 0))]);
    let mut engine = Engine::new(&config);
    let series = engine.series("a", "x").expect("a short name");
    let mut batch = Batch::new();
    for (time, seq) in [(1, 0), (2, 1), (3, 1), (2, 0)] {
        let id = Some(ReadingId { boot: 7, seq });
        batch.push(series, EventTime(time), Some(1.0), id);
    }
    engine.on_batch(&batch, &mut Rows::new());
    let counters = engine.counters();
    assert_eq!((counters.accepted, counters.duplicate), (2, 2));
    assert_eq!(engine.watermark("a"), Some(EventTime(2)));
}

#[test]
fn the_future_guard_is_exact_and_spoils_nobody() {
    let config = config(0, 0, vec![window("w", tumbling(10, 0))]);
    let mut engine = Engine::new(&config);
    let mut out = Vec::new();
    clock(&mut engine, 100, &mut out);
    clock(&mut engine, 50, &mut out);
    give(
        &mut engine,
        &[
            ("a", "x", 105, Some(1)),
            ("a", "x", 106, Some(2)),
            ("b", "x", 106, None),
        ],
        &mut out,
    );
    let counters = engine.counters();
    assert_eq!((counters.accepted, counters.future), (1, 2));
    assert_eq!(
        (engine.watermark("a"), engine.watermark("b")),
        (Some(EventTime(105)), None)
    );
    assert!(out[0].starts_with(r#"{"stream":"quarantine","device":"a""#));
}

#[test]
fn times_at_the_limits_are_calculated_or_set_aside() {
    let kinds = vec![
        window(
            "t",
            tumbling(
                crate::limits::WINDOW_SPAN_MAX,
                -crate::limits::WINDOW_SPAN_MAX,
            ),
        ),
        window("s", sliding(crate::limits::WINDOW_SPAN_MAX, Bounds::Closed)),
        window(
            "h",
            hopping(
                crate::limits::WINDOW_SPAN_MAX,
                crate::limits::WINDOW_SPAN_MAX,
                1,
            ),
        ),
    ];
    let config = config(i64::MAX, i64::MAX, kinds);
    for (name, time, taken) in [
        ("limit - 1", EVENT_TIME_MAX - 1, true),
        ("limit", EVENT_TIME_MAX, true),
        ("limit + 1", EVENT_TIME_MAX + 1, false),
        ("the last", i64::MAX, false),
        ("the first", i64::MIN, false),
        ("- limit", -EVENT_TIME_MAX, true),
    ] {
        let (lines, engine) = run(&config, &[("a", "x", time, Some(1))]);
        assert_eq!(engine.counters().accepted == 1, taken, "{name}");
        assert_eq!(lines.len(), if taken { 3 } else { 1 }, "{name}: {lines:?}");
    }
}

#[test]
fn every_update_final_only_and_finalize() {
    let given = [
        ("a", "x", 1, Some(1)),
        ("a", "x", 12, Some(2)),
        ("a", "x", 2, Some(3)),
        ("a", "x", 30, Some(4)),
    ];
    for (name, emit, finalize, want) in [
        // start, revision, final, count
        (
            "on close",
            Emit::OnClose,
            false,
            "0 r0 false 1|0 r1 false 2|10 r0 true 1|30 r0 true 1",
        ),
        (
            "finalize",
            Emit::OnClose,
            true,
            "0 r0 false 1|0 r1 false 2|0 r2 true 2|10 r0 true 1|30 r0 true 1",
        ),
        (
            "every update",
            Emit::EveryUpdate,
            false,
            "0 r0 false 1|10 r0 false 1|0 r1 false 2|30 r0 false 1",
        ),
        (
            "final only",
            Emit::FinalOnly,
            false,
            "0 r0 true 2|10 r0 true 1|30 r0 true 1",
        ),
    ] {
        let mut spec = window("w", tumbling(10, 0));
        (spec.emit, spec.finalize, spec.aggregates) = (emit, finalize, vec![Aggregate::Count]);
        let config = config(0, 10, vec![spec]);
        let mut engine = Engine::new(&config);
        let rows = rows_of(&mut engine, &given);
        let words: Vec<String> = engine.views(&rows).map(in_words).collect();
        let short: Vec<String> = words
            .iter()
            .map(|w| {
                let parts: Vec<&str> = w.split(' ').collect();
                format!("{} {} {} {}", parts[3], parts[5], parts[6], parts[8])
            })
            .collect();
        assert_eq!(short.join("|"), want, "{name}");
        assert_eq!(engine.state_rows(), 0, "{name}");
    }
}

#[test]
fn rolling_lines_at_every_update_do_not_wait() {
    let mut spec = window("w", sliding(10, Bounds::HalfOpen));
    (spec.emit, spec.aggregates) = (Emit::EveryUpdate, vec![Aggregate::Count, Aggregate::Max]);
    let config = config(100, 0, vec![spec]);
    let given = [
        ("a", "x", 1, Some(1)),
        ("a", "x", 9, Some(5)),
        ("a", "x", 4, Some(3)),
        ("a", "x", 12, Some(2)),
        ("a", "x", 2, Some(7)),
    ];
    let mut engine = Engine::new(&config);
    let rows = rows_of(&mut engine, &given);
    let words: Vec<String> = engine.views(&rows).map(in_words).collect();
    assert_eq!(
        words,
        [
            "0 a x @1 1 1.0",
            "0 a x @9 2 5.0",
            "0 a x @4 2 3.0",
            "0 a x @12 3 5.0",
            "0 a x @2 2 7.0"
        ]
    );
}

#[test]
fn names_and_numbers_of_series_are_bounded() {
    let mut engine = Engine::new(&config(0, 0, Vec::new()));
    for (name, len, fits) in [
        ("empty", 0, false),
        ("limit - 1", SERIES_NAME_BYTES_MAX - 1, true),
        ("limit", SERIES_NAME_BYTES_MAX, true),
        ("limit + 1", SERIES_NAME_BYTES_MAX + 1, false),
    ] {
        let text = "n".repeat(len);
        assert_eq!(engine.series(&text, "x").is_ok(), fits, "{name}");
        assert_eq!(engine.series("d", &text).is_ok(), fits, "{name}");
    }
}
