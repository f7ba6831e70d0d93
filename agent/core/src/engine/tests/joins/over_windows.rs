//! Interval joins over rows of windows: the pairs are those of the final rows, however
//! often the windows wrote before.

use super::*;
use crate::engine::config::{
    Aggregate, Bounds, Emit, KeyColumn, KeySpec, Source, WindowKind, WindowSpec,
};
use crate::engine::row::{Cell, RowView};
use crate::engine::tests::{hopping, sliding, tumbling};

/// A row of a window, or a line, as a join sees it.
#[derive(Debug, Clone, PartialEq)]
struct Row {
    device: Option<String>,
    channel: Option<String>,
    time: i64,
    shown: String,
}

fn row(view: &RowView<'_>) -> Row {
    let (device, channel) = (
        view.device().map(str::to_owned),
        view.channel().map(str::to_owned),
    );
    let names = [("device", &device), ("channel", &channel)];
    let names = names.into_iter().filter_map(|(what, name)| {
        let name = name.as_ref()?;
        Some(format!("\"{what}\":\"{name}\","))
    });
    let columns = view.columns.iter().map(|column| &column[1..]);
    let columns: String = columns.map(|column| format!("{column},")).collect();
    let times = match view.window() {
        Some((start, end)) => format!("\"start\":{},\"end\":{}", json(start), json(end)),
        None => format!("\"time\":{}", json(view.time())),
    };
    let cell = view
        .cells()
        .next()
        .expect("the figure that the join takes")
        .1;
    let mut value = Vec::new();
    match cell {
        Cell::Null => value.extend_from_slice(b"null"),
        Cell::Count(n) => crate::json::write_unsigned(n, &mut value),
        Cell::Number(x) => crate::json::write_number(x, &mut value),
    }
    let value = String::from_utf8(value).expect("JSON is UTF-8");
    Row {
        shown: format!(
            "{{{}{columns}{times},\"value\":{value}}}",
            names.collect::<String>()
        ),
        time: view.time().0,
        device,
        channel,
    }
}

fn json(time: EventTime) -> String {
    let mut out = Vec::new();
    crate::utc::write_json(time, &mut out);
    String::from_utf8(out).expect("JSON is UTF-8")
}

fn any_kind() -> impl Strategy<Value = WindowKind> {
    prop_oneof![
        3 => (1_i64..20, -5_i64..5).prop_map(|(size, offset)| tumbling(size, offset)),
        1 => (1_i64..20, 1_i64..20).prop_map(|(size, hop)| hopping(size, hop, 0)),
        1 => (1_i64..12).prop_map(|gap| WindowKind::Session { gap: Span(gap) }),
        1 => (1_i64..20).prop_map(|size| sliding(size, Bounds::HalfOpen)),
    ]
}

fn any_window(channel: &'static str) -> impl Strategy<Value = WindowSpec> {
    let emit = prop_oneof![
        2 => Just(Emit::OnClose),
        1 => Just(Emit::EveryUpdate),
        1 => Just(Emit::FinalOnly)
    ];
    let value = prop_oneof![Just(Aggregate::Mean), Just(Aggregate::Count)];
    (any_kind(), emit, any::<bool>(), value).prop_map(move |(kind, emit, finalize, value)| {
        let is_line = matches!(kind, WindowKind::Sliding { .. });
        WindowSpec {
            channels: Some(vec![channel.to_owned()]),
            emit: if is_line { Emit::OnClose } else { emit },
            finalize: finalize && emit == Emit::OnClose && !is_line,
            aggregates: vec![value],
            ..WindowSpec::new(channel, kind)
        }
    })
}

fn run(
    config: &EngineConfig,
    steps: &[Step],
    batch_max: usize,
    restarts: &[bool],
) -> (Rows, Engine) {
    let mut engine = Engine::new(config);
    let (mut batch, mut rows, mut kept) = (Batch::new(), Rows::new(), Kept::new());
    for (nth, step) in steps.iter().enumerate() {
        if batch.len() == batch_max || !matches!(step, Step::Reading(_)) {
            engine.on_batch(&batch, &mut rows);
            batch.clear();
        }
        match step {
            Step::Reading(of) => {
                let series = engine.series(of.device, of.channel);
                let (series, value) = (series.expect("a short name"), of.value.map(f64::from));
                batch.push(series, EventTime(of.time), value, None);
            }
            Step::Change(change) => {
                let name = &config.tables[change.table].name;
                engine.on_change(&change.as_written(name), &mut rows);
            }
            Step::Clock(_) | Step::Watermark(..) => panic!("time moves by itself"),
        }
        if restarts.get(nth).is_some_and(|restarts| *restarts) {
            engine.on_batch(&batch, &mut rows);
            batch.clear();
            engine = restart(&mut engine, config, &mut kept);
        }
    }
    engine.on_batch(&batch, &mut rows);
    engine.finish(&mut rows);
    (rows, engine)
}

/// The final rows of a window alone.
fn final_rows(config: &EngineConfig, spec: &WindowSpec, steps: &[Step]) -> Vec<Row> {
    let is_line = matches!(spec.kind, WindowKind::Sliding { .. });
    let alone = WindowSpec {
        from: Source::Readings,
        emit: if is_line {
            Emit::OnClose
        } else {
            Emit::FinalOnly
        },
        finalize: false,
        ..spec.clone()
    };
    let config = EngineConfig {
        windows: vec![alone],
        joins: Vec::new(),
        ..config.clone()
    };
    let (rows, engine) = run(&config, steps, 1, &[]);
    let of_window = engine
        .views(&rows)
        .filter(|view| view.stream_name() == spec.name);
    of_window.map(|view| row(&view)).collect()
}

/// Every pair of two lists, and what is in none.
fn pairs(spec: &JoinSpec, (lefts, rights): (&[Row], &[Row])) -> Vec<String> {
    let JoinKind::Interval { lower, upper } = spec.kind else {
        panic!("an interval join");
    };
    let by_device = spec.on == [JoinColumn::Device];
    let key = |row: &Row| {
        if by_device {
            row.device.clone()
        } else {
            row.channel.clone()
        }
    };
    let is_pair = |l: &Row, r: &Row| {
        key(l) == key(r) && l.time + lower.0 <= r.time && r.time <= l.time + upper.0
    };
    let line = |l: Option<&Row>, r: Option<&Row>| {
        let both = || l.into_iter().chain(r);
        let time = both().map(|row| row.time).max().expect("one of them");
        let key = both().find_map(&key).expect("a key");
        let shown = |row: Option<&Row>| row.map_or("null".to_owned(), |row| row.shown.clone());
        format!(
            "{{\"stream\":\"i\",\"time\":{},\"key\":\"{key}\",\"left\":{},\"right\":{}}}",
            json(EventTime(time)),
            shown(l),
            shown(r)
        )
    };
    let mut out = Vec::new();
    for l in lefts {
        out.extend(
            rights
                .iter()
                .filter(|r| is_pair(l, r))
                .map(|r| line(Some(l), Some(r))),
        );
        if spec.join_type != JoinType::Inner && !rights.iter().any(|r| is_pair(l, r)) {
            out.push(line(Some(l), None));
        }
    }
    if spec.join_type == JoinType::Full {
        let alone = rights
            .iter()
            .filter(|r| !lefts.iter().any(|l| is_pair(l, r)));
        out.extend(alone.map(|r| line(None, Some(r))));
    }
    out.sort();
    out
}

proptest! {
    /// Also with readings that revise what was written already.
    #[test]
    fn pairs_are_those_of_final_rows(
        given in prop::collection::vec((reading(), 0_i64..60), 0..60),
        restarts in prop::collection::vec(prop::bool::weighted(0.1), 90),
        (left, right) in (any_window("x"), any_window("y")),
        (right_reads, reach, join_type) in (0_u8..3, (-25_i64..25, 0_i64..30), join_type()),
        lateness in prop_oneof![Just(0_i64), 0_i64..40],
        batch_max in prop_oneof![Just(1_usize), 2_usize..9, Just(1000)],
        changes in prop::collection::vec((change(), 0_i64..60), 0..30),
        keyed in prop::option::of(0_usize..2),
    ) {
        let mut spec = interval("i", (reach.0, reach.0 + reach.1), join_type);
        spec.left.from = JoinSource::Window(0);
        spec.left.value = left.aggregates[0];
        let mut windows = vec![left, right];
        // The right side reads a window, the same one, or readings.
        match right_reads {
            0 => {
                spec.right.from = JoinSource::Window(1);
                spec.right.value = windows[1].aggregates[0];
            }
            1 => {
                spec.right.from = JoinSource::Window(0);
                spec.right.value = windows[0].aggregates[0];
            }
            _ => spec.right.filter = where_("channel = 'y'"),
        }
        // Across devices one that is first seen late comes late with all that it has, as far
        // as readings go: only their own devices are waited for here.
        for window in &mut windows {
            window.key = KeySpec::DEVICE_CHANNEL;
            // One that a late reading makes longer says so when it closes again, which may be
            // after it would have been final.
            let grows = matches!(window.kind, WindowKind::Session { .. }) && lateness > 0;
            if grows && window.emit == Emit::OnClose {
                (window.emit, window.finalize) = (Emit::FinalOnly, false);
            }
        }
        // Rows of such a window come no sooner than its table is known.
        if let Some(keyed) = keyed {
            windows[keyed].key_columns = vec![KeyColumn { table: 0, column: "to".to_owned() }];
        }
        let mut config = EngineConfig {
            windows,
            ..joins(25, vec![spec])
        };
        config.time.allowed_lateness = Span(lateness);
        let readings = given.into_iter().map(|(of, delay)| (of.time + delay, Step::Reading(of)));
        let changes = changes.into_iter().filter(|(of, _)| of.time > i64::MIN);
        let changes = changes.map(|(of, delay)| (of.time + delay, Step::Change(of)));
        let mut steps: Vec<_> = readings.chain(changes).collect();
        steps.sort_by_key(|(arrival, _)| *arrival);
        let steps: Vec<Step> = steps.into_iter().map(|(_, step)| step).collect();
        let (rows, engine) = run(&config, &steps, batch_max, &restarts);
        let joined = engine.views(&rows).filter(|view| view.stream_name() == "i");
        let mut got: Vec<String> = joined.map(|view| {
            let mut text = Vec::new();
            view.write_json(&mut text);
            String::from_utf8(text).expect("JSON is UTF-8")
        }).collect();
        got.sort();
        let lefts = final_rows(&config, &config.windows[0], &steps);
        let rights = match right_reads {
            0 => final_rows(&config, &config.windows[1], &steps),
            1 => lefts.clone(),
            _ => accepted(&steps),
        };
        prop_assert_eq!(got, pairs(&config.joins[0], (&lefts, &rights)));
        prop_assert_eq!(engine.state_rows(), 0);
        prop_assert_eq!(engine.late_derived().count(), 0);
    }
}

/// The readings of `y` that are not late.
fn accepted(steps: &[Step]) -> Vec<Row> {
    let mut newest = std::collections::BTreeMap::new();
    let mut out = Vec::new();
    for step in steps {
        let Step::Reading(of) = step else {
            continue;
        };
        let largest: &mut i64 = newest.entry(of.device).or_insert(i64::MIN);
        if of.time >= largest.saturating_sub(25) && of.channel == "y" {
            let value = of
                .value
                .map_or("null".to_owned(), |x| format!("{:?}", f64::from(x)));
            let names = format!(
                "\"device\":\"{}\",\"channel\":\"{}\"",
                of.device, of.channel
            );
            out.push(Row {
                device: Some(of.device.to_owned()),
                channel: Some(of.channel.to_owned()),
                time: of.time,
                shown: format!(
                    "{{{names},\"time\":{},\"value\":{value}}}",
                    json(EventTime(of.time))
                ),
            });
        }
        *largest = of.time.max(*largest);
    }
    out
}
