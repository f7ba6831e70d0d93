//! Joins against a slow obvious model, line by line, with restarts at any place and in
//! batches of any size; and their rules by name.

mod keyed;
mod model;
mod named;
mod order;
mod over_tables;
mod over_windows;

use std::sync::Arc;

use proptest::prelude::*;

use self::model::{Model, Reading};
use super::state::{Kept, keep, restart};
use super::{clock, config, finish, lines, watermark};
use crate::change::ChangeOp;
use crate::engine::config::{
    EngineConfig, JoinColumn, JoinKind, JoinSource, JoinSpec, JoinType, TableSpec,
};
use crate::engine::filter::Filter;
use crate::engine::row::Rows;
use crate::engine::{Batch, Engine};
use crate::units::{EventTime, Span};

/// A change of a table.
#[derive(Debug, Clone)]
struct Change {
    table: usize,
    key: &'static str,
    time: i64,
    /// `None`: deleted.
    row: Option<&'static str>,
    is_heartbeat: bool,
}

#[derive(Debug, Clone)]
enum Step {
    Reading(Reading),
    Change(Change),
    Clock(i64),
    Watermark(Option<&'static str>, i64),
}

/// Gives an engine a step in words: `a x 5` a reading, `W 5` or `W a 5` a watermark, `clock 5`,
/// `p 5` a heartbeat of table `p`, `end`.
fn give(engine: &mut Engine, step: &str, rows: &mut Rows) {
    let parts: Vec<&str> = step.split(' ').collect();
    let number = |text: &str| EventTime(text.parse().expect("a number"));
    match parts[..] {
        ["end"] => engine.finish(rows),
        ["clock", time] => engine.on_clock(number(time), rows),
        ["W", time] => engine.on_watermark(None, number(time), rows),
        ["W", device, time] => engine.on_watermark(Some(device), number(time), rows),
        ["p", time] => {
            let heartbeat = Change {
                table: 0,
                key: "",
                time: number(time).0,
                row: None,
                is_heartbeat: true,
            };
            engine.on_change(&heartbeat.as_written("p"), rows);
        }
        [device, channel, time] => {
            let series = engine.series(device, channel).expect("a short name");
            let mut batch = Batch::new();
            batch.push(series, number(time), Some(1.0), None);
            engine.on_batch(&batch, rows);
        }
        _ => panic!("{step}"),
    }
}

/// A config without windows.
fn joins(out_of_order: i64, joins: Vec<JoinSpec>) -> EngineConfig {
    let table = |name| TableSpec {
        out_of_order: Span(out_of_order),
        ..TableSpec::new(name, &["id"])
    };
    EngineConfig {
        tables: vec![table("p"), table("m"), {
            TableSpec {
                is_static: true,
                ..table("s")
            }
        }],
        joins,
        ..config(out_of_order, 0, Vec::new())
    }
}

fn interval(name: &str, (lower, upper): (i64, i64), join_type: JoinType) -> JoinSpec {
    let kind = JoinKind::Interval {
        lower: Span(lower),
        upper: Span(upper),
    };
    JoinSpec {
        join_type,
        ..JoinSpec::new(name, kind, JoinSource::Readings, JoinSource::Readings)
    }
}

fn lookup(name: &str, table: u16, wait: Option<i64>) -> JoinSpec {
    let kind = JoinKind::Lookup {
        wait: wait.map(Span),
    };
    JoinSpec::new(name, kind, JoinSource::Readings, JoinSource::Table(table))
}

fn table_join(name: &str, (left, right): (u16, u16), on: &str, join_type: JoinType) -> JoinSpec {
    let (left, right) = (JoinSource::Table(left), JoinSource::Table(right));
    JoinSpec {
        on: vec![JoinColumn::Column(on.to_owned())],
        join_type,
        ..JoinSpec::new(name, JoinKind::Table, left, right)
    }
}

fn where_(text: &str) -> Option<Filter> {
    Some(Filter::parse(text).expect("a condition"))
}

/// An engine that is given steps, with all that it has written.
struct Run<'a> {
    config: &'a EngineConfig,
    engine: Engine,
    batch: Batch,
    batch_max: usize,
    kept: Kept,
    out: Vec<String>,
}

impl<'a> Run<'a> {
    fn new(config: &'a EngineConfig, batch_max: usize) -> Self {
        Self {
            config,
            engine: Engine::new(config),
            batch: Batch::new(),
            batch_max,
            kept: Kept::new(),
            out: Vec::new(),
        }
    }

    fn flush(&mut self) {
        let mut rows = Rows::new();
        self.engine.on_batch(&self.batch, &mut rows);
        self.batch.clear();
        self.out.extend(lines(&self.engine, &rows));
    }

    fn step(&mut self, step: &Step) {
        if let Step::Reading(of) = step {
            let series = self.engine.series(of.device, of.channel);
            let value = of.value.map(f64::from);
            let series = series.expect("a short name");
            self.batch.push(series, EventTime(of.time), value, None);
            if self.batch.len() == self.batch_max {
                self.flush();
            }
            return;
        }
        self.flush();
        match step {
            Step::Reading(_) => {}
            Step::Change(change) => {
                let mut rows = Rows::new();
                let name = &self.config.tables[change.table].name;
                self.engine.on_change(&change.as_written(name), &mut rows);
                self.out.extend(lines(&self.engine, &rows));
            }
            Step::Clock(time) => clock(&mut self.engine, *time, &mut self.out),
            Step::Watermark(device, time) => {
                watermark(&mut self.engine, *device, *time, &mut self.out);
            }
        }
    }

    fn restart(&mut self) {
        self.flush();
        self.engine = restart(&mut self.engine, self.config, &mut self.kept);
    }

    /// All lines to the end of time.
    fn end(mut self) -> (Vec<String>, Engine) {
        self.flush();
        finish(&mut self.engine, &mut self.out);
        (self.out, self.engine)
    }
}

impl Change {
    fn as_written(&self, table: &str) -> crate::change::Change {
        let op = match (self.is_heartbeat, self.row) {
            (true, _) => ChangeOp::Heartbeat,
            (false, Some(_)) => ChangeOp::Update,
            (false, None) => ChangeOp::Delete,
        };
        crate::change::Change {
            table: table.into(),
            op,
            key: self.key.into(),
            time: EventTime(self.time),
            before: None,
            after: self.row.map(Arc::from),
            position: None,
        }
    }
}

const DEVICES: [&str; 3] = ["a", "b", "c"];
const CHANNELS: [&str; 2] = ["x", "y"];
const KEYS: [&str; 4] = ["a", "b", "x", "k"];
/// Of any table; a reference may be null, missing or to nothing that is there.
const ROWS: [&str; 6] = [
    r#"{"id":"1","to":"a","v":1}"#,
    r#"{"id":"1","to":"a","v":2}"#,
    r#"{"to":"b"}"#,
    r#"{"to":null,"v":3}"#,
    r#"{"v":4}"#,
    r#"{"to":"k"}"#,
];

fn reading() -> impl Strategy<Value = Reading> {
    let value = prop_oneof![4 => (-9_i32..9).prop_map(Some), 1 => Just(None)];
    (0..DEVICES.len(), 0..CHANNELS.len(), -60_i64..60, value).prop_map(|(d, c, time, value)| {
        Reading {
            device: DEVICES[d],
            channel: CHANNELS[c],
            time,
            value,
        }
    })
}

fn change() -> impl Strategy<Value = Change> {
    let row = prop_oneof![
        4 => (0..ROWS.len()).prop_map(|at| Some(ROWS[at])),
        1 => Just(None)
    ];
    let times = prop_oneof![9 => -60_i64..60, 1 => Just(i64::MIN)];
    let of = (0_usize..3, 0..KEYS.len(), times, row);
    (of, prop::bool::weighted(0.1)).prop_map(|((table, key, time, row), is_heartbeat)| Change {
        table,
        key: KEYS[key],
        time,
        row: row.filter(|_| !is_heartbeat),
        is_heartbeat,
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => reading().prop_map(Step::Reading),
        10 => change().prop_map(Step::Change),
        3 => (-60_i64..200).prop_map(Step::Clock),
        2 => (prop::option::of(0..DEVICES.len()), -80_i64..60)
            .prop_map(|(device, time)| Step::Watermark(device.map(|at| DEVICES[at]), time)),
    ]
}

fn join_type() -> impl Strategy<Value = JoinType> {
    prop_oneof![
        Just(JoinType::Inner),
        Just(JoinType::Left),
        Just(JoinType::Full)
    ]
}

fn on() -> impl Strategy<Value = Vec<JoinColumn>> {
    prop_oneof![
        2 => Just(vec![JoinColumn::Device]),
        2 => Just(vec![JoinColumn::Channel]),
        1 => Just(vec![JoinColumn::Device, JoinColumn::Channel]),
        1 => Just(vec![JoinColumn::Channel, JoinColumn::Device]),
    ]
}

fn filter() -> impl Strategy<Value = Option<Filter>> {
    prop_oneof![
        2 => Just(None),
        2 => Just(where_("channel = 'x'")),
        2 => Just(where_("channel = 'y'")),
        1 => Just(where_("value >= 0")),
        1 => Just(where_("device != 'a' and value < 3")),
    ]
}

fn any_interval() -> impl Strategy<Value = JoinSpec> {
    let reach = (-25_i64..25, 0_i64..30);
    (reach, join_type(), on(), filter(), filter()).prop_map(
        |((lower, width), join_type, on, left, right)| {
            let mut spec = interval("i", (lower, lower + width), join_type);
            (spec.left.filter, spec.right.filter, spec.on) = (left, right, on);
            spec
        },
    )
}

fn any_lookup() -> impl Strategy<Value = JoinSpec> {
    let wait = prop::option::of(prop_oneof![1 => Just(0_i64), 4 => 1_i64..80]);
    let on = prop_oneof![Just(JoinColumn::Device), Just(JoinColumn::Channel)];
    (0_u16..3, wait, on, filter(), any::<bool>()).prop_map(|(table, wait, on, left, is_inner)| {
        let mut spec = lookup("l", table, wait);
        (spec.left.filter, spec.on) = (left, vec![on]);
        if !is_inner {
            spec.join_type = JoinType::Left;
        }
        spec
    })
}

fn any_table_join() -> impl Strategy<Value = JoinSpec> {
    let on = prop_oneof![3 => Just("to"), 1 => Just("id")];
    (0_u16..3, 0_u16..3, on, join_type())
        .prop_map(|(left, right, on, join_type)| table_join("t", (left, right), on, join_type))
}

fn any_joins() -> impl Strategy<Value = Vec<JoinSpec>> {
    let one = prop_oneof![3 => any_interval(), 2 => any_lookup(), 2 => any_table_join()];
    prop::collection::vec(one, 1..4)
}

proptest! {
    #[test]
    fn every_line_is_what_the_model_says(
        steps in prop::collection::vec((step(), 0_u8..8), 0..80),
        specs in any_joins(),
        out_of_order in 0_i64..30,
        batch_max in prop_oneof![Just(1_usize), 2_usize..9, Just(1000)],
    ) {
        let config = joins(out_of_order, specs);
        let (mut run, mut model) = (Run::new(&config, batch_max), Model::new(&config));
        for (step, restarts) in &steps {
            run.step(step);
            model.step(step);
            match restarts {
                0 => run.restart(),
                // It goes on, and a later checkpoint writes only what changed.
                1 => {
                    run.flush();
                    keep(&mut run.engine, &mut run.kept);
                    prop_assert_eq!(run.engine.state_rows(), model.state_rows());
                }
                _ => {}
            }
        }
        model.step(&Step::Watermark(None, i64::MAX));
        let (out, engine) = run.end();
        prop_assert_eq!(out, model.out);
        let counters = engine.counters();
        prop_assert!(counters.closes());
        prop_assert_eq!((counters.late_all, counters.late_partial), (model.late_all, model.late_partial));
        prop_assert_eq!(engine.state_rows(), 0);
    }
}
