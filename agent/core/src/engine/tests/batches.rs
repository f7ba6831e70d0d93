//! Whole pipelines, as a config may have them: every kind, key, mode and chain. The
//! size of the batches changes no byte, and the order of arrival inside the bound no
//! final result. Needs no model: one run is held against another one.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// One window as it is drawn; [`build`] makes what a config would take of it.
#[derive(Debug, Clone)]
struct Draw {
    kind: WindowKind,
    emit: Emit,
    finalize: bool,
    key: KeySpec,
    /// Reads the window so many places before it, if there is one.
    from: Option<usize>,
    merge: bool,
    value: Aggregate,
}

/// A window with what its readers have to know.
#[derive(Debug)]
struct Built {
    spec: WindowSpec,
    /// Its rows may be of one time and one slot: their order is that of arrival.
    ties: bool,
    /// Its rows move from one time to another, or stand for rows that do.
    moves: bool,
}

const ALL: [Aggregate; 11] = [
    Aggregate::Mean,
    Aggregate::Count,
    Aggregate::Sum,
    Aggregate::Min,
    Aggregate::Max,
    Aggregate::First,
    Aggregate::Last,
    Aggregate::Variance,
    Aggregate::StddevPop,
    Aggregate::Percentile(50),
    Aggregate::Percentile(95),
];

fn any_kind() -> impl Strategy<Value = WindowKind> {
    prop_oneof![
        3 => (1_i64..20, -5_i64..5).prop_map(|(size, offset)| tumbling(size, offset)),
        2 => (1_i64..20, 1_i64..20, -5_i64..5)
            .prop_map(|(size, hop, offset)| hopping(size, hop, offset)),
        2 => (1_i64..20, any::<bool>()).prop_map(|(size, closed)| {
            sliding(size, if closed { Bounds::Closed } else { Bounds::HalfOpen })
        }),
        1 => (1_u32..9).prop_map(|n| WindowKind::Rows { n }),
        2 => (1_i64..15).prop_map(|gap| WindowKind::Session { gap: Span(gap) }),
    ]
}

fn draw() -> impl Strategy<Value = Draw> {
    (
        any_kind(),
        prop_oneof![
            3 => Just(Emit::OnClose),
            1 => Just(Emit::EveryUpdate),
            1 => Just(Emit::FinalOnly)
        ],
        any::<bool>(),
        (prop::bool::weighted(0.7), prop::bool::weighted(0.7)),
        prop_oneof![1 => Just(None), 1 => (1_usize..4).prop_map(Some)],
        any::<bool>(),
        prop::sample::select(ALL[..5].to_vec()),
    )
        .prop_map(
            |(kind, emit, finalize, (device, channel), from, merge, value)| Draw {
                kind,
                emit,
                finalize,
                key: KeySpec { device, channel },
                from,
                merge,
                value,
            },
        )
}

fn is_revised(kind: &WindowKind) -> bool {
    match kind {
        WindowKind::Tumbling(_) | WindowKind::Hopping { .. } | WindowKind::Session { .. } => true,
        WindowKind::Sliding { .. } | WindowKind::Rows { .. } => false,
    }
}

fn can_be_merged(kind: &WindowKind) -> bool {
    match kind {
        WindowKind::Tumbling(_) | WindowKind::Session { .. } => true,
        WindowKind::Hopping { size, hop, .. } => size <= hop,
        WindowKind::Sliding { .. } | WindowKind::Rows { .. } => false,
    }
}

/// The pipeline of these draws. Without `ties` nothing in it depends on the order of
/// readings of one time, nor on what a line says before its time has come.
fn build(draws: &[Draw], ties: bool) -> Vec<WindowSpec> {
    let mut built: Vec<Built> = Vec::new();
    for (at, draw) in draws.iter().enumerate() {
        let source = draw.from.filter(|back| *back <= at).map(|back| at - back);
        let window = one(
            &format!("w{at}"),
            draw,
            source.map(|at| (at, &built[at])),
            ties,
        );
        built.push(window);
    }
    built.into_iter().map(|built| built.spec).collect()
}

fn one(name: &str, draw: &Draw, source: Option<(usize, &Built)>, ties: bool) -> Built {
    let mut spec = WindowSpec::new(name, draw.kind.clone());
    (spec.key, spec.emit) = (draw.key, draw.emit);
    let mut has_ties = false;
    if let Some((at, inner)) = source {
        spec.from = Source::Window(u16::try_from(at).expect("few windows"));
        spec.key.device &= inner.spec.key.device;
        spec.key.channel &= inner.spec.key.channel;
        spec.merge = draw.merge && can_be_merged(&inner.spec.kind);
        spec.value = draw.value;
        has_ties = inner.ties || spec.key != inner.spec.key;
    }
    let is_rows = matches!(spec.kind, WindowKind::Rows { .. });
    // A session keeps the reach that it had by rows that have moved on since, or that stand
    // for such rows.
    let is_session = |kind: &WindowKind| matches!(kind, WindowKind::Session { .. });
    let moves = source.is_some_and(|(_, inner)| {
        inner.moves || (is_session(&inner.spec.kind) && inner.spec.emit == Emit::EveryUpdate)
    });
    if !ties && ((has_ties && is_rows) || (moves && is_session(&spec.kind))) {
        spec.kind = tumbling(7, 0);
    }
    // A line at arrival says what is known by then.
    if !is_revised(&spec.kind) && (spec.emit == Emit::FinalOnly || !ties) {
        spec.emit = Emit::OnClose;
    }
    spec.finalize = draw.finalize && spec.emit == Emit::OnClose && is_revised(&spec.kind);
    let in_order = |a: &Aggregate| matches!(a, Aggregate::First | Aggregate::Last);
    let all = ALL.into_iter();
    spec.aggregates = all.filter(|a| ties || !has_ties || !in_order(a)).collect();
    Built {
        ties: has_ties,
        moves,
        spec,
    }
}

/// A reading with a figure that sums may stumble over.
fn odd(given: Given) -> (Given, Option<f64>) {
    let value = given.3.map(|value| match value {
        -9 => 1e16,
        -8 => f64::NAN,
        -7 => f64::INFINITY,
        -6 => -0.0,
        -5 => f64::from_bits(1),
        -4 => f64::MAX,
        -3 => f64::NEG_INFINITY,
        other => f64::from(other) / 100.0,
    });
    (given, value)
}

struct Run {
    engine: Engine,
    batch: Batch,
    batch_max: usize,
    rows: Rows,
    out: Vec<String>,
}

impl Run {
    fn new(config: &EngineConfig, batch_max: usize) -> Self {
        Self {
            engine: Engine::new(config),
            batch: Batch::new(),
            batch_max,
            rows: Rows::new(),
            out: Vec::new(),
        }
    }

    fn reading(&mut self, (given, value): (Given, Option<f64>)) {
        let (device, channel, time, _) = given;
        let series = self.engine.series(device, channel).expect("a short name");
        self.batch.push(series, EventTime(time), value, None);
        if self.batch.len() == self.batch_max {
            self.flush();
        }
    }

    fn flush(&mut self) {
        self.engine.on_batch(&self.batch, &mut self.rows);
        self.batch.clear();
        self.out.extend(lines(&self.engine, &self.rows));
        self.rows.clear();
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Reading(given) => return self.reading(odd(*given)),
            Step::Clock(_) | Step::Watermark(..) => self.flush(),
        }
        match step {
            Step::Reading(_) => {}
            Step::Clock(time) => clock(&mut self.engine, *time, &mut self.out),
            Step::Watermark(device, time) => {
                watermark(&mut self.engine, *device, *time, &mut self.out);
            }
        }
    }

    fn end(mut self) -> (Vec<String>, Engine) {
        self.flush();
        finish(&mut self.engine, &mut self.out);
        (self.out, self.engine)
    }
}

proptest! {
    #[test]
    fn the_size_of_batches_changes_no_byte(
        steps in prop::collection::vec(step(), 0..120),
        draws in prop::collection::vec(draw(), 1..6),
        (out_of_order, lateness) in (0_i64..30, prop_oneof![Just(0_i64), 0_i64..40]),
    ) {
        let config = config(out_of_order, lateness, build(&draws, true));
        let run = |batch_max| {
            let mut run = Run::new(&config, batch_max);
            steps.iter().for_each(|step| run.step(step));
            let (out, engine) = run.end();
            let late: Vec<_> = engine.late_derived().map(|(name, n)| (name.to_owned(), n)).collect();
            (out, engine.counters(), late, engine.state_rows())
        };
        let want = run(1);
        let windows: Vec<_> = config.windows.iter().map(short).collect();
        prop_assert!(want.1.closes());
        prop_assert_eq!(want.3, 0, "rows are held after the end by {:#?}", windows);
        for batch_max in [2, 32, 1000] {
            prop_assert_eq!(&run(batch_max), &want, "batches of {}", batch_max);
        }
    }

    #[test]
    fn the_order_of_arrival_changes_no_final_result(
        given in prop::collection::btree_map(-300_i64..300, (0_usize..3, any::<bool>(), -9_i32..9), 0..100),
        delays in prop::collection::vec(0_i64..=25, 100),
        draws in prop::collection::vec(draw(), 1..6),
        lateness in prop_oneof![Just(0_i64), 0_i64..40],
    ) {
        let config = config(25, lateness, build(&draws, false));
        let in_order: Vec<Given> = given.iter().map(|(time, (device, x, value))| {
            (["a", "b", "c"][*device], if *x { "x" } else { "y" }, *time, Some(*value))
        }).collect();
        let mut arrivals: Vec<(i64, Given)> =
            in_order.iter().zip(&delays).map(|(g, d)| (g.2 + d, *g)).collect();
        arrivals.sort_by_key(|(at, _)| *at);
        let mixed: Vec<Given> = arrivals.into_iter().map(|(_, g)| g).collect();
        let run = |given: &[Given]| {
            let mut run = Run::new(&config, 1000);
            given.iter().for_each(|given| run.reading(odd(*given)));
            let (out, engine) = run.end();
            let late: Vec<_> = engine.late_derived().map(|(name, n)| (name.to_owned(), n)).collect();
            (final_results(&out), engine.counters(), late)
        };
        let (want, got) = (run(&in_order), run(&mixed));
        let only = |a: &Results, b: &Results| -> Vec<String> {
            let differ = a.iter().filter(|(line, n)| b.get(*line) != Some(n));
            differ.map(|(line, n)| format!("{n} x {line}")).collect()
        };
        let (in_order, mixed) = (only(&want.0, &got.0), only(&got.0, &want.0));
        prop_assert!(
            in_order.is_empty() && mixed.is_empty(),
            "in order:\n{}\nmixed:\n{}\n{:#?}",
            in_order.join("\n"),
            mixed.join("\n"),
            config.windows.iter().map(short).collect::<Vec<_>>(),
        );
        prop_assert_eq!(got.1, want.1);
        prop_assert_eq!(got.2, want.2);
    }
}

/// How often each line is a result.
type Results = BTreeMap<String, usize>;

/// The last line of each window, and all rolling lines. How often it was revised is
/// no result, nor is what became of a session that another one absorbed.
fn final_results(lines: &[String]) -> Results {
    let mut last: BTreeMap<String, String> = BTreeMap::new();
    let mut out = Results::new();
    for line in lines {
        let Some((identity, rest)) = line.split_once(",\"revision\":") else {
            *out.entry(line.clone()).or_default() += 1;
            continue;
        };
        let figures = rest.split_once(",\"mean\":").expect("the first figure").1;
        let stays = !figures.contains("\"count\":0");
        // The end of a session moves with its readings.
        let (identity, end) = identity
            .split_once(",\"end\":")
            .expect("every window has it");
        match stays {
            true => last.insert(identity.to_owned(), format!("{identity} {end} {figures}")),
            false => last.remove(identity),
        };
    }
    for line in last.into_values() {
        *out.entry(line).or_default() += 1;
    }
    out
}

/// A window as a failure shows it.
fn short(spec: &WindowSpec) -> String {
    let WindowSpec {
        name,
        kind,
        from,
        value,
        merge,
        key,
        emit,
        finalize,
        ..
    } = spec;
    format!("{name} {kind:?} {from:?} {value} {merge} {key:?} {emit:?} {finalize}")
}
