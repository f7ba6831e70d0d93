//! Joins of windows with columns of tables in their key, and lookups of windows: what is
//! known, and how far, is asked of each side by itself.

use super::*;
use crate::engine::config::{KeyColumn, KeySpec, WindowSpec};
use crate::engine::tests::{tumbling, window};

/// What each step brings; steps in words, as [`give`] takes them.
fn told(config: &EngineConfig, steps: &str) -> Vec<Vec<String>> {
    let mut engine = Engine::new(config);
    let brought = |step: &str| {
        let mut rows = Rows::new();
        give(&mut engine, step, &mut rows);
        engine.views(&rows).map(|view| short(&view)).collect()
    };
    steps.split(", ").map(brought).collect()
}

/// Stream, time, and what stands on both sides of a row of a join.
fn short(view: &crate::engine::row::RowView<'_>) -> String {
    use crate::engine::joined::{Mark, Side};
    let Some(joined) = view.joined else {
        return format!("{} {}", view.stream_name(), view.time().0);
    };
    let side = |side: &Side| match side {
        Side::Null => "-".to_owned(),
        Side::Reading { time, .. } => format!("{time}"),
        Side::Window(of) => format!("[{},{})", of.start, of.end),
        Side::Row(row) => row.to_string(),
    };
    let mark = if joined.mark == Mark::Stale {
        " stale"
    } else {
        ""
    };
    let (left, right) = (side(&joined.left), side(&joined.right));
    format!(
        "{} {}{mark} {left} {right}",
        view.stream_name(),
        view.time().0
    )
}

/// Windows of ten under a column of table `p`, or under none.
fn tens(name: &str, is_keyed: bool) -> WindowSpec {
    let column = KeyColumn {
        table: 0,
        column: "to".to_owned(),
    };
    WindowSpec {
        key: KeySpec::DEVICE_CHANNEL,
        key_columns: if is_keyed { vec![column] } else { Vec::new() },
        ..window(name, tumbling(10, 0))
    }
}

fn with(windows: Vec<WindowSpec>, spec: JoinSpec) -> EngineConfig {
    EngineConfig {
        windows,
        ..joins(0, vec![spec])
    }
}

/// Lines of the join `j`, by step; steps without any are left out.
fn of_join(steps: Vec<Vec<String>>) -> Vec<(usize, String)> {
    let lines = (1..).zip(steps).flat_map(|(step, lines)| {
        let of_join = lines.into_iter().filter(|line| line.starts_with("j "));
        of_join.map(move |line| (step, line[2..].to_owned()))
    });
    lines.collect()
}

#[test]
fn each_side_waits_for_its_own_tables_only() {
    let side = |is_keyed: Option<bool>, at: u16| match is_keyed {
        None => JoinSource::Readings,
        Some(_) => JoinSource::Window(at),
    };
    // Readings at 30 and 71, a late one at 42 that a window waits with, then the table.
    let steps = "a x 30, a x 71, a x 42, p 46, p 51, p 60, p 90";
    for (name, sides, reach, want) in [
        (
            "windows with tables, readings on the right: these are known past 71",
            [Some(true), None],
            (2, 4),
            vec![(4, "39 [30,40) -"), (5, "49 [40,50) -")],
        ),
        (
            "readings on the left: each waits for the tables of the windows",
            [None, Some(true)],
            (2, 4),
            vec![(4, "30 30 -")],
        ),
        (
            "windows without tables come in at their close, and wait for the right ones",
            [Some(false), Some(true)],
            (-20, -10),
            vec![(4, "39 [30,40) -")],
        ),
        (
            "both have tables",
            [Some(true), Some(true)],
            (0, 0),
            vec![(4, "39 [30,40) [30,40)"), (5, "49 [40,50) [40,50)")],
        ),
    ] {
        let mut spec = interval("j", reach, JoinType::Left);
        (spec.left.from, spec.right.from) = (side(sides[0], 0), side(sides[1], 1));
        let keyed = sides.map(|is_keyed| is_keyed == Some(true));
        let config = with(vec![tens("l", keyed[0]), tens("r", keyed[1])], spec);
        let got = of_join(told(&config, steps));
        let got: Vec<_> = got.iter().map(|(at, line)| (*at, &line[..])).collect();
        assert_eq!(got, want, "{name}");
    }
}

#[test]
fn a_lookup_of_a_window_writes_by_time_whatever_waited() {
    let mut spec = lookup("j", 0, None);
    (spec.left.from, spec.join_type) = (JoinSource::Window(0), JoinType::Left);
    let config = with(vec![tens("w", false)], spec);
    // The first window is out and waits for the table; the second closes when it is known.
    let got = of_join(told(&config, "a y 5, a x 12, W 50"));
    let want = [(3, "9 [0,10) -"), (3, "19 [10,20) -")];
    let got: Vec<_> = got.iter().map(|(at, line)| (*at, &line[..])).collect();
    assert_eq!(got, want);
}

/// The device that came first under a key is not in the key: it orders nothing.
#[test]
fn rows_of_one_time_go_by_what_is_in_their_key() {
    let mut spec = lookup("j", 0, None);
    (spec.left.from, spec.join_type) = (JoinSource::Window(0), JoinType::Left);
    spec.on = vec![JoinColumn::Channel];
    let window = WindowSpec {
        key: KeySpec::CHANNEL,
        ..window("w", tumbling(10, 0))
    };
    let config = with(vec![window], spec);
    for is_known_first in [true, false] {
        let mut run = Run::new(&config, 1);
        let reading = |device, channel, time| {
            Step::Reading(Reading {
                device,
                channel,
                time,
                value: Some(1),
            })
        };
        let known = Step::Change(Change {
            table: 0,
            key: "",
            time: 46,
            row: None,
            is_heartbeat: true,
        });
        if is_known_first {
            run.step(&known);
        }
        run.step(&reading("b", "x", 1));
        run.step(&reading("a", "y", 2));
        run.step(&reading("a", "y", 30));
        run.step(&reading("b", "x", 30));
        if !is_known_first {
            run.step(&known);
        }
        let of_join = run
            .out
            .iter()
            .filter(|line| line.contains("\"stream\":\"j\""));
        let keys: Vec<bool> = of_join.map(|line| line.contains("\"key\":\"x\"")).collect();
        assert_eq!(keys, [true, false], "{:?}", run.out);
    }
}

#[test]
fn a_wait_of_nothing_is_over_at_once() {
    for (name, wait, steps, want) in [
        ("0", 0, "clock 9, a x 10", vec![(2, "10 stale 10 -")]),
        ("1", 1, "clock 9, a x 10", vec![]),
        (
            "1, then",
            1,
            "clock 9, a x 10, clock 10",
            vec![(3, "10 stale 10 -")],
        ),
        ("0, known", 0, "clock 9, a x 8", vec![(2, "8 8 -")]),
        ("0, no clock", 0, "a x 10", vec![]),
        (
            "0, a clock at last",
            0,
            "a x 10, clock 9",
            vec![(2, "10 stale 10 -")],
        ),
    ] {
        let mut spec = lookup("j", 0, Some(wait));
        spec.join_type = JoinType::Left;
        let got = of_join(told(&joins(0, vec![spec]), steps));
        let got: Vec<_> = got.iter().map(|(at, line)| (*at, &line[..])).collect();
        assert_eq!(got, want, "{name}");
    }
}

/// A state that knew of one mark only is read, and its sides part from there on.
#[test]
fn a_state_with_one_mark_for_both_sides_is_read() {
    let mut spec = interval("j", (2, 4), JoinType::Left);
    spec.left.from = JoinSource::Window(0);
    let config = with(vec![tens("l", true)], spec);
    let mut run = Run::new(&config, 1);
    let heard = |time| {
        Step::Reading(Reading {
            device: "a",
            channel: "x",
            time,
            value: Some(1),
        })
    };
    run.step(&heard(30));
    keep(&mut run.engine, &mut run.kept);
    let head = run
        .kept
        .get_mut(&b"j\0\0\0\0\0"[..])
        .expect("a join's head");
    // The mark of the right side, at the end of time, is the last ten bytes.
    head.truncate(head.len() - 10);
    run.engine = Engine::restore(&config, run.kept.clone()).expect("it was written so");
    run.step(&heard(71));
    run.step(&Step::Change(Change {
        table: 0,
        key: "",
        time: 46,
        row: None,
        is_heartbeat: true,
    }));
    let alone = run
        .out
        .iter()
        .filter(|line| line.contains("\"right\":null"));
    assert_eq!(alone.count(), 1, "{:?}", run.out);
}
