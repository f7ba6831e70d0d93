//! Windows with columns of tables in their key: against the as-of walk over all changes,
//! with restarts at any place and in batches of any size, and their rules by name.

use std::collections::BTreeMap;

use super::state::{Kept, restart};
use super::*;
use crate::change::{Change, ChangeOp};
use crate::engine::config::{KeyColumn, TableSpec};

#[derive(Debug, Clone)]
enum Given {
    Reading(super::Given),
    /// table, key, time, row; no row: deleted.
    Change(u16, &'static str, i64, Option<&'static str>),
    Heartbeat(u16, i64),
    Clock(i64),
    ClockLost,
    Watermark(Option<&'static str>, i64),
}

fn column(table: u16, column: &str) -> KeyColumn {
    KeyColumn {
        table,
        column: column.into(),
    }
}

fn keyed(name: &str, kind: WindowKind, key: KeySpec, columns: &[KeyColumn]) -> WindowSpec {
    WindowSpec {
        key,
        key_columns: columns.to_vec(),
        aggregates: vec![Aggregate::Count, Aggregate::Sum],
        ..WindowSpec::new(name, kind)
    }
}

fn with_tables(windows: Vec<WindowSpec>, (bound, lateness): (i64, i64)) -> EngineConfig {
    let table = |name: &str, key: &[&str]| TableSpec {
        out_of_order: Span(bound),
        ..TableSpec::new(name, key)
    };
    EngineConfig {
        tables: vec![table("sites", &["device"]), table("kinds", &["channel"])],
        ..config(bound, lateness, windows)
    }
}

struct Run<'a> {
    config: &'a EngineConfig,
    engine: Engine,
    batch: Batch,
    out: Vec<String>,
}

impl<'a> Run<'a> {
    fn new(config: &'a EngineConfig) -> Self {
        Self {
            config,
            engine: Engine::new(config),
            batch: Batch::new(),
            out: Vec::new(),
        }
    }

    fn flush(&mut self) {
        let mut rows = Rows::new();
        self.engine.on_batch(&self.batch, &mut rows);
        self.batch.clear();
        self.out.extend(lines(&self.engine, &rows));
    }

    fn change(&mut self, table: u16, op: ChangeOp, (key, time): (&str, i64), row: Option<&str>) {
        self.flush();
        let mut rows = Rows::new();
        let change = Change {
            table: self.config.tables[usize::from(table)].name.as_str().into(),
            op,
            key: key.into(),
            time: EventTime(time),
            before: None,
            after: row.map(Into::into),
            position: None,
        };
        self.engine.on_change(&change, &mut rows);
        self.out.extend(lines(&self.engine, &rows));
    }

    fn give(&mut self, given: &Given, batch_max: usize) {
        match given {
            Given::Reading((device, channel, time, value)) => {
                let series = self.engine.series(device, channel).expect("a short name");
                let value = value.map(f64::from);
                self.batch.push(series, EventTime(*time), value, None);
                if self.batch.len() >= batch_max {
                    self.flush();
                }
            }
            Given::Change(table, key, time, row) => {
                let op = match row {
                    Some(_) => ChangeOp::Update,
                    None => ChangeOp::Delete,
                };
                self.change(*table, op, (key, *time), *row);
            }
            Given::Heartbeat(table, time) => {
                self.change(*table, ChangeOp::Heartbeat, ("", *time), None);
            }
            Given::Clock(time) => {
                self.flush();
                clock(&mut self.engine, *time, &mut self.out);
            }
            Given::ClockLost => {
                self.flush();
                self.engine.on_clock_lost();
            }
            Given::Watermark(device, time) => {
                self.flush();
                watermark(&mut self.engine, *device, *time, &mut self.out);
            }
        }
    }

    fn restart(&mut self, kept: &mut Kept) {
        self.flush();
        self.engine = restart(&mut self.engine, self.config, kept);
    }

    fn finish(mut self) -> (Vec<String>, Engine) {
        self.flush();
        finish(&mut self.engine, &mut self.out);
        (self.out, self.engine)
    }
}

fn run_all(config: &EngineConfig, given: &[Given]) -> (Vec<String>, Engine) {
    let mut run = Run::new(config);
    given.iter().for_each(|given| run.give(given, 1));
    run.finish()
}

fn rows_of_tables() -> impl Strategy<Value = Option<&'static str>> {
    prop_oneof![
        Just(Some(r#"{"building":"north","floor":1}"#)),
        Just(Some(r#"{"building":"south"}"#)),
        Just(Some(r#"{"building":null,"floor":2}"#)),
        Just(None),
    ]
}

fn given() -> impl Strategy<Value = Given> {
    let change = (
        0_u16..2,
        prop_oneof![Just("a"), Just("b"), Just("x"), Just("y")],
        -40_i64..60,
        rows_of_tables(),
    );
    let device = prop_oneof![Just(None), Just(Some("a"))];
    prop_oneof![
        8 => super::reading().prop_map(Given::Reading),
        4 => change.prop_map(|(table, key, time, row)| Given::Change(table, key, time, row)),
        1 => (0_u16..2, -40_i64..60).prop_map(|(table, time)| Given::Heartbeat(table, time)),
        1 => (-40_i64..90).prop_map(Given::Clock),
        1 => Just(Given::ClockLost),
        1 => (device, -40_i64..60).prop_map(|(device, time)| Given::Watermark(device, time)),
    ]
}

fn any_keyed() -> impl Strategy<Value = WindowSpec> {
    let columns = prop_oneof![
        Just(vec![column(0, "building")]),
        Just(vec![column(1, "floor"), column(0, "building")]),
        Just(vec![column(0, "floor"), column(0, "building")]),
    ];
    let key = prop_oneof![
        Just(KeySpec::NONE),
        Just(KeySpec::DEVICE),
        Just(KeySpec::CHANNEL),
        Just(KeySpec::DEVICE_CHANNEL),
    ];
    (super::base(), key, columns).prop_map(|(spec, key, key_columns)| WindowSpec {
        key,
        key_columns,
        ..spec
    })
}

proptest! {
    #[test]
    fn neither_restarts_nor_batches_change_a_byte(
        given in prop::collection::vec((given(), 0_u8..4), 0..80),
        mut first in any_keyed(),
        chained in kind(),
        (by, batch_max) in (0_usize..3, 1_usize..40),
        bounds in (0_i64..20, 0_i64..20),
    ) {
        first.name = "w0".into();
        // Its own columns, some of them, or none.
        let mut second = keyed("w1", chained, KeySpec::NONE, &[]);
        second.from = Source::Window(0);
        second.value = first.aggregates[0];
        second.key_columns = first.key_columns.iter().skip(by).cloned().collect();
        let config = with_tables(vec![first, second], bounds);
        // A clock that was wrong sets watermarks back behind sessions that are out.
        let is_session = |spec: &WindowSpec| matches!(spec.kind, WindowKind::Session { .. });
        let (lost, sessions) = (Given::ClockLost, config.windows.iter().any(is_session));
        let is_taken = |given: &Given| !sessions || std::mem::discriminant(given) != std::mem::discriminant(&lost);
        let given: Vec<(Given, u8)> = given.into_iter().filter(|(given, _)| is_taken(given)).collect();
        let steps: Vec<Given> = given.iter().map(|(given, _)| given.clone()).collect();
        let (want, engine) = run_all(&config, &steps);
        prop_assert_eq!(engine.state_rows(), 0);

        let mut batched = Run::new(&config);
        steps.iter().for_each(|given| batched.give(given, batch_max));
        prop_assert_eq!(&batched.finish().0, &want, "batches");

        let (mut restarted, mut kept) = (Run::new(&config), Kept::new());
        for (given, stop) in &given {
            restarted.give(given, 1);
            if *stop == 0 {
                restarted.restart(&mut kept);
            }
        }
        prop_assert_eq!(&restarted.finish().0, &want, "restarts");
    }

    /// Inside the bounds each reading counts where the table said at its time, whatever
    /// came first.
    #[test]
    fn each_reading_counts_where_its_table_says(
        readings in prop::collection::vec(super::reading(), 0..40),
        changes in prop::collection::vec((prop_oneof![Just("a"), Just("b")], -60_i64..60, rows_of_tables()), 0..20),
        order in any::<u64>(),
    ) {
        let spec = keyed("w", tumbling(10, 0), KeySpec::NONE, &[column(0, "building")]);
        let config = with_tables(vec![spec], (200, 0));
        let mut steps: Vec<Given> = readings.iter().copied().map(Given::Reading).collect();
        for (nth, (key, time, row)) in changes.iter().enumerate() {
            let at = order.rotate_left(nth as u32 * 7) as usize % (steps.len() + 1);
            steps.insert(at, Given::Change(0, key, *time, *row));
        }
        let mut counts: BTreeMap<(String, i64), u64> = BTreeMap::new();
        for (device, _, time, value) in &readings {
            // Of equal times the later: as they were put in.
            let in_order = steps.iter().filter_map(|step| {
                let Given::Change(_, key, from, row) = step else {
                    return None;
                };
                (key == device && from <= time).then_some((*from, *row))
            });
            let last = in_order.max_by_key(|(from, _)| *from).and_then(|(_, row)| row);
            let building = match last {
                Some(row) if row.contains("north") => "\"north\"",
                Some(row) if row.contains("south") => "\"south\"",
                Some(_) | None => "null",
            };
            *counts.entry((building.into(), time.div_euclid(10) * 10)).or_default() += u64::from(value.is_some());
        }
        let mut want: Vec<String> = counts.iter().map(|((building, start), count)| {
            format!("\"sites.building\":{building} {} {count}", EventTime(*start).0)
        }).collect();
        want.sort();
        let mut run = Run::new(&config);
        steps.iter().for_each(|given| run.give(given, 3));
        run.flush();
        let mut rows = Rows::new();
        run.engine.finish(&mut rows);
        prop_assert!(run.out.is_empty(), "nothing closes inside the bound");
        let mut got: Vec<String> = run.engine.views(&rows).map(|row| {
            let (start, _) = row.window().expect("a window");
            let count = row.cells().find_map(|(_, cell)| match cell {
                crate::engine::row::Cell::Count(n) => Some(n),
                crate::engine::row::Cell::Null | crate::engine::row::Cell::Number(_) => None,
            });
            format!("{} {} {}", row.columns[0].trim_start_matches(','), start.0, count.expect("asked for"))
        }).collect();
        got.sort();
        prop_assert_eq!(got, want);
    }
}

fn reading(device: &'static str, time: i64) -> Given {
    Given::Reading((device, "x", time, Some(1)))
}

const NORTH: Option<&str> = Some(r#"{"building":"north"}"#);
const SOUTH: Option<&str> = Some(r#"{"building":"south"}"#);

fn head(line: &str) -> &str {
    line.split(",\"revision\"").next().expect("a line")
}

#[test]
fn a_window_waits_for_its_table() {
    let spec = keyed(
        "w",
        tumbling(10, 0),
        KeySpec::DEVICE,
        &[column(0, "building")],
    );
    let config = with_tables(vec![spec], (0, 0));
    let mut run = Run::new(&config);
    run.give(&Given::Change(0, "a", 0, NORTH), 1);
    run.give(&reading("a", 5), 1);
    run.give(&reading("a", 15), 1);
    assert_eq!(run.engine.state_rows(), 2, "the table is known up to 0");
    run.give(&Given::Change(0, "a", 3, SOUTH), 1);
    assert_eq!(run.out, Vec::<String>::new());
    run.give(&Given::Heartbeat(0, 9), 1);
    assert_eq!(run.out, Vec::<String>::new());
    run.give(&Given::Heartbeat(0, 10), 1);
    assert_eq!(run.out.len(), 1);
    let want = concat!(
        r#"{"stream":"w","device":"a","sites.building":"south","#,
        r#""start":"1970-01-01T00:00:00Z","end":"1970-01-01T00:00:00.000010Z""#,
    );
    assert_eq!(head(&run.out[0]), want);
    run.give(&Given::Heartbeat(0, 15), 1);
    assert_eq!(run.engine.state_rows(), 1, "a change at 15 may still come");
}

#[test]
fn a_reading_without_a_row_or_a_value_goes_under_null() {
    let spec = keyed(
        "w",
        tumbling(10, 0),
        KeySpec::NONE,
        &[column(0, "building")],
    );
    let mut config = with_tables(vec![spec], (0, 0));
    config.tables[0].is_static = true;
    let given = [
        Given::Change(0, "a", i64::MIN, Some(r#"{"building":null}"#)),
        Given::Change(0, "b", i64::MIN, Some(r#"{"floor":1}"#)),
        Given::Change(0, "d", i64::MIN, Some(r#"{"building":{"name": "n"}}"#)),
        reading("a", 1),
        reading("b", 2),
        reading("c", 3),
        reading("d", 4),
    ];
    let (out, _) = run_all(&config, &given);
    let keys: Vec<(bool, bool)> = out
        .iter()
        .map(|line| {
            (
                line.contains(r#""sites.building":null,"#),
                line.contains(r#""count":3"#),
            )
        })
        .collect();
    assert_eq!(keys, [(true, true), (false, false)], "{out:?}");
    assert!(
        out[1].contains(r#""sites.building":{"name": "n"},"#),
        "{out:?}"
    );
}

#[test]
fn a_table_of_the_config_holds_nothing_back() {
    let spec = keyed(
        "w",
        tumbling(10, 0),
        KeySpec::DEVICE,
        &[column(0, "building")],
    );
    let mut config = with_tables(vec![spec], (0, 0));
    config.tables[0].is_static = true;
    let mut run = Run::new(&config);
    for given in [
        Given::Change(0, "a", i64::MIN, NORTH),
        reading("a", 5),
        reading("a", 10),
    ] {
        run.give(&given, 1);
    }
    assert_eq!(run.out.len(), 1);
    // One that is late is so as in any other window.
    run.give(&reading("a", 9), 1);
    assert!(run.out[1].contains("late_all"), "{:?}", run.out);
}

#[test]
fn a_device_that_moves_counts_in_both_places() {
    let spec = keyed(
        "w",
        tumbling(10, 0),
        KeySpec::NONE,
        &[column(0, "building")],
    );
    let config = with_tables(vec![spec], (0, 0));
    let given = [
        Given::Change(0, "a", 0, NORTH),
        Given::Change(0, "a", 5, SOUTH),
        reading("a", 4),
        reading("a", 5),
    ];
    let (out, _) = run_all(&config, &given);
    assert_eq!(out.len(), 2);
    assert!(
        out[0].contains("north") && out[0].contains(r#""count":1"#),
        "{out:?}"
    );
    assert!(
        out[1].contains("south") && out[1].contains(r#""count":1"#),
        "{out:?}"
    );
}

#[test]
fn a_window_over_it_takes_columns_of_its_key() {
    let inner = keyed(
        "inner",
        tumbling(10, 0),
        KeySpec::DEVICE,
        &[column(0, "building")],
    );
    let mut outer = keyed(
        "outer",
        tumbling(20, 0),
        KeySpec::NONE,
        &[column(0, "building")],
    );
    outer.from = Source::Window(0);
    outer.value = Aggregate::Sum;
    let mut config = with_tables(vec![inner, outer], (0, 0));
    config.tables[0].is_static = true;
    let given = [
        Given::Change(0, "a", i64::MIN, NORTH),
        Given::Change(0, "b", i64::MIN, NORTH),
        reading("a", 1),
        reading("b", 2),
        reading("a", 11),
    ];
    let (out, _) = run_all(&config, &given);
    let outer: Vec<&String> = out.iter().filter(|line| line.contains("outer")).collect();
    assert_eq!(outer.len(), 1);
    let want = concat!(
        r#"{"stream":"outer","sites.building":"north","start":"1970-01-01T00:00:00Z","#,
        r#""end":"1970-01-01T00:00:00.000020Z""#,
    );
    assert_eq!(head(outer[0]), want);
    assert!(outer[0].ends_with(r#""count":3,"sum":3.0}"#), "{outer:?}");
}

/// What reads a window waits for the tables of its key as the window does.
#[test]
fn a_window_over_it_waits_for_its_table() {
    let columns = [column(0, "building")];
    let inner = keyed("inner", tumbling(10, 0), KeySpec::DEVICE, &columns);
    for key in [KeySpec::NONE, KeySpec::DEVICE] {
        let mut outer = keyed("outer", tumbling(20, 0), key, &columns);
        outer.from = Source::Window(0);
        outer.value = Aggregate::Sum;
        let config = with_tables(vec![inner.clone(), outer], (0, 0));
        let mut run = Run::new(&config);
        run.give(&Given::Change(0, "a", 0, NORTH), 1);
        for time in [1, 11, 25] {
            run.give(&reading("a", time), 1);
        }
        assert_eq!(run.out, Vec::<String>::new());
        let mut kept = Kept::new();
        run.restart(&mut kept);
        run.give(&Given::Heartbeat(0, 15), 1);
        assert_eq!(run.out.len(), 1, "{:?}", run.out);
        run.give(&Given::Heartbeat(0, 30), 1);
        let outer: Vec<&String> = run
            .out
            .iter()
            .filter(|line| line.contains("outer"))
            .collect();
        assert_eq!(outer.len(), 1, "{:?}", run.out);
        assert!(outer[0].ends_with(r#""count":2,"sum":2.0}"#), "{outer:?}");
        assert_eq!(run.engine.late_derived().count(), 0);
    }
}

#[test]
fn between_two_windows_no_reading_waits() {
    let long_hop = keyed(
        "w",
        hopping(2, 10, 0),
        KeySpec::DEVICE_CHANNEL,
        &[column(0, "to")],
    );
    // Without windows at its time, only the other window speaks for a reading.
    let windows = vec![long_hop, window("v", tumbling(10, 0))];
    let config = with_tables(windows, (0, 0));
    for (name, time, want) in [("inside", 11, 0), ("between", 12, 1), ("before", 9, 1)] {
        let (_, engine) = run_all(&config, &[reading("a", 30), reading("a", time)]);
        assert_eq!(engine.counters().late_all, want, "{name}");
    }
}

/// Windows that had left before the clock went back leave again, with no restart as with
/// one.
#[test]
fn windows_that_had_left_before_the_clock_went_back_leave_again() {
    let columns = [column(0, "floor"), column(0, "building")];
    let mut hops = keyed("w0", hopping(13, 1, 0), KeySpec::NONE, &columns);
    hops.emit = Emit::FinalOnly;
    let config = with_tables(vec![hops], (7, 6));
    let row = Some(r#"{"building":"north","floor":1}"#);
    let given = [
        Given::ClockLost,
        Given::Change(0, "a", 37, row),
        Given::Reading(("a", "x", 42, Some(0))),
        Given::Reading(("a", "x", 12, Some(0))),
        Given::Clock(12),
        Given::Reading(("a", "x", 17, Some(0))),
        Given::Watermark(None, 23),
    ];
    let told = |restarts: bool| {
        let (mut run, mut kept) = (Run::new(&config), Kept::new());
        for given in &given {
            run.give(given, 1);
            if restarts {
                run.restart(&mut kept);
            }
        }
        run.out
    };
    let rows = told(false);
    assert_eq!(rows.len(), 5, "[0, 13) to [4, 17): {rows:?}");
    assert_eq!(told(true), rows);
}
