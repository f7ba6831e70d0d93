//! The rules of joins by name, one row per edge. Readings are `device channel time`.

use super::*;
use crate::engine::config::KeyColumn;
use crate::engine::identity::ReadingId;
use crate::engine::joined::{JoinKey, Mark, Side};
use crate::engine::row::RowView;
use crate::engine::tests::{tumbling, window};

/// A row in few words: time, key, mark, left and right.
fn words(view: &RowView<'_>) -> String {
    let Some(joined) = view.joined else {
        return format!("{} {}", view.stream_name(), view.time().0);
    };
    let side = |side: &Side| match side {
        Side::Null => "-".to_owned(),
        Side::Reading { series, time, .. } => {
            let names = &view.series[series.index()].names;
            format!("{}{time}", names.channel)
        }
        Side::Window(of) => format!("[{},{})={}", of.start, of.end, f64::from_bits(of.value)),
        Side::Row(row) => row.to_string(),
    };
    let key = match &joined.key {
        JoinKey::Device(of) => view.series[of.index()].names.device.to_string(),
        JoinKey::Text(text) => text.to_string(),
        JoinKey::Null => "null".to_owned(),
    };
    let mark = match joined.mark {
        Mark::None => "",
        Mark::Stale => "stale ",
        Mark::Idle => "idle ",
        Mark::Added => "+ ",
        Mark::Removed => "- ",
    };
    let (left, right) = (side(&joined.left), side(&joined.right));
    format!("{} {key} {mark}{left} {right}", view.time().0)
}

/// Steps in words, as [`give`] takes them.
fn told_by(engine: &mut Engine, steps: &str) -> Vec<String> {
    let mut rows = Rows::new();
    for step in steps.split(", ") {
        give(engine, step, &mut rows);
    }
    engine.views(&rows).map(|view| words(&view)).collect()
}

fn told(spec: &JoinSpec, steps: &str) -> String {
    let config = joins(0, vec![spec.clone()]);
    let mut engine = Engine::new(&config);
    told_by(&mut engine, steps).join("; ")
}

/// Left is channel `x`, right is channel `y`.
fn x_and_y(reach: (i64, i64), join_type: JoinType) -> JoinSpec {
    let mut spec = interval("j", reach, join_type);
    spec.left.filter = where_("channel = 'x'");
    spec.right.filter = where_("channel = 'y'");
    spec
}

#[test]
fn bounds_are_inclusive_and_nothing_is_told_early() {
    use JoinType::{Full, Inner, Left};
    for (name, reach, join_type, steps, want) in [
        (
            "lower bound",
            (-5, 10),
            Inner,
            "W 0, a y 95, a x 100, end",
            "100 a x100 y95",
        ),
        (
            "before it",
            (-5, 10),
            Inner,
            "W 0, a y 94, a x 100, end",
            "",
        ),
        (
            "upper bound",
            (-5, 10),
            Inner,
            "a x 100, a y 110, end",
            "110 a x100 y110",
        ),
        ("behind it", (-5, 10), Inner, "a x 100, a y 111, end", ""),
        (
            "right before left only",
            (-9, -5),
            Inner,
            "a y 1, a y 5, a y 6, a x 10",
            "10 a x10 y1; 10 a x10 y5",
        ),
        (
            "negative times",
            (0, 3),
            Inner,
            "a x -7, a y -4, end",
            "-4 a x-7 y-4",
        ),
        (
            "left waits for W at its reach",
            (-1, 1),
            Left,
            "a x 17, W 18",
            "",
        ),
        (
            "and is told past it",
            (-1, 1),
            Left,
            "a x 17, W 18, W 19",
            "17 a x17 -",
        ),
        (
            "a partner at W still comes",
            (-1, 1),
            Left,
            "a x 17, W 18, a y 18, end",
            "18 a x17 y18",
        ),
        (
            "right waits for W at its reach",
            (-3, 1),
            Full,
            "a y 17, W 20",
            "",
        ),
        (
            "and is told past it",
            (-3, 1),
            Full,
            "a y 17, W 21",
            "17 a - y17",
        ),
        (
            "a left one at W still comes",
            (-3, 1),
            Full,
            "a y 17, W 20, a x 20",
            "20 a x20 y17",
        ),
        (
            "no reach ahead: at once",
            (-9, -5),
            Left,
            "a x 20",
            "20 a x20 -",
        ),
        ("reach to itself: not at once", (0, 0), Left, "a x 20", ""),
        (
            "unmatched right ones of a left join",
            (0, 0),
            Left,
            "a y 20, end",
            "",
        ),
        (
            "its own reading moves W",
            (0, 0),
            Left,
            "a x 20, a x 21",
            "20 a x20 -",
        ),
        (
            "another device does not",
            (0, 0),
            Left,
            "a x 20, b x 99",
            "",
        ),
    ] {
        assert_eq!(told(&x_and_y(reach, join_type), steps), want, "{name}");
    }
}

#[test]
fn equal_times_and_readings_on_both_sides() {
    use JoinType::{Full, Inner};
    let both = |reach, join_type| interval("j", reach, join_type);
    let two_by_two = "5 a x5 y5; 5 a x5 y5; 5 a x5 y5; 5 a x5 y5";
    for (name, spec, steps, want) in [
        (
            "equal ones are different ones",
            x_and_y((0, 0), Inner),
            "a x 5, a x 5, a y 5, a y 5",
            two_by_two,
        ),
        (
            "one on both sides",
            both((0, 0), Inner),
            "a x 5",
            "5 a x5 x5",
        ),
        (
            "one on both sides, but not at the same time",
            both((1, 2), Inner),
            "a x 5, end",
            "",
        ),
        (
            "that one, told from both: nothing can come before it",
            both((1, 2), Full),
            "a x 5, end",
            "5 a - x5; 5 a x5 -",
        ),
        (
            "two on both sides",
            both((-1, 1), Inner),
            "a x 5, a x 6, end",
            "5 a x5 x5; 6 a x5 x6; 6 a x6 x5; 6 a x6 x6",
        ),
    ] {
        assert_eq!(told(&spec, steps), want, "{name}");
    }
}

#[test]
fn late_readings_are_in_no_pair() {
    let spec = x_and_y((-10, 10), JoinType::Left);
    for (name, steps, want) in [
        ("at W", "a y 20, W a 20, a x 20, end", "20 a x20 y20"),
        ("before W", "a y 20, W a 20, a x 19, end", "late 19"),
        (
            "on one side only",
            "a x 20, a y 19, end",
            "late 19; 20 a x20 -",
        ),
        (
            "of its own device",
            "a x 20, b y 9, b x 9, end",
            "9 b x9 y9; 20 a x20 -",
        ),
        (
            "a floor is also that of devices to come",
            "W 20, c x 19",
            "late 19",
        ),
    ] {
        assert_eq!(told(&spec, steps), want, "{name}");
    }
    let across = JoinSpec {
        on: vec![JoinColumn::Channel],
        ..interval("k", (-10, 10), JoinType::Inner)
    };
    let config = joins(0, vec![spec, across]);
    let mut engine = Engine::new(&config);
    // Late where devices are judged together, not where each has its own watermark: by then
    // two devices are known, and the slower of them is at 30.
    let out = told_by(&mut engine, "a x 20, b x 30, a x 40, c x 25");
    assert_eq!(
        out,
        [
            "20 x x20 x20",
            "30 x x20 x30",
            "30 x x30 x20",
            "30 x x30 x30",
            "20 a x20 -",
            "40 x x30 x40",
            "40 x x40 x30",
            "40 x x40 x40"
        ]
    );
    let counters = engine.counters();
    assert_eq!(
        (counters.late_all, counters.late_partial, counters.accepted),
        (0, 1, 4)
    );
}

#[test]
fn what_is_set_aside_is_in_no_pair() {
    let config = joins(0, vec![interval("j", (0, 0), JoinType::Inner)]);
    let mut engine = Engine::new(&config);
    assert_eq!(told_by(&mut engine, "clock 10, a x 16"), ["quarantine 16"]);
    assert_eq!(told_by(&mut engine, "a x 15"), ["15 a x15 x15"]);
    let series = engine.series("a", "x").expect("known");
    let (mut batch, mut rows) = (Batch::new(), Rows::new());
    for _ in 0..2 {
        let id = Some(ReadingId { boot: 1, seq: 1 });
        batch.push(series, EventTime(16), None, id);
    }
    engine.on_clock(EventTime(20), &mut rows);
    engine.on_batch(&batch, &mut rows);
    let out: Vec<_> = engine.views(&rows).map(|view| words(&view)).collect();
    assert_eq!(out, ["16 a x16 x16"]);
}

#[test]
fn silence_decides_what_found_nobody() {
    use JoinType::{Full, Inner, Left};
    for (name, join_type, steps, want) in [
        ("left", Left, "clock 0, a x 1, clock 60", "1 a idle x1 -"),
        ("not yet", Left, "clock 0, a x 1, clock 59", ""),
        (
            "right of a left join stays",
            Left,
            "clock 0, a y 1, clock 60, a x 1",
            "1 a x1 y1",
        ),
        (
            "both of a full one",
            Full,
            "clock 0, a y 1, a x 5, clock 60",
            "1 a - y1; 5 a idle x5 -",
        ),
        (
            "it matches nothing later",
            Left,
            "clock 0, a x 1, clock 60, a y 1, end",
            "1 a idle x1 -",
        ),
        (
            "nor is it told again",
            Full,
            "clock 0, a x 1, clock 60, clock 200, end",
            "1 a idle x1 -",
        ),
        (
            "what was in a pair still matches",
            Left,
            "clock 0, a x 1, a y 1, clock 60, a y 1, end",
            "1 a x1 y1; 1 a x1 y1",
        ),
        (
            "an inner one says nothing and keeps",
            Inner,
            "clock 0, a x 1, clock 60, a y 1",
            "1 a x1 y1",
        ),
        (
            "another device is not silent",
            Left,
            "clock 0, a x 1, clock 30, b x 1, clock 60",
            "1 a idle x1 -",
        ),
    ] {
        assert_eq!(told(&x_and_y((0, 10), join_type), steps), want, "{name}");
    }
    let across = JoinSpec {
        on: vec![JoinColumn::Channel],
        ..interval("j", (5, 10), Left)
    };
    for (name, steps, want) in [
        (
            "one of two",
            "clock 0, a x 1, clock 30, b x 1, clock 60",
            "",
        ),
        (
            "all",
            "clock 0, a x 1, clock 30, b x 1, clock 60, clock 90",
            "1 x idle x1 -; 1 x idle x1 -",
        ),
        (
            "who is silent holds nobody back",
            "clock 0, a x 1, clock 30, b x 12, clock 60",
            "1 x x1 -",
        ),
    ] {
        assert_eq!(told(&across, steps), want, "{name}");
    }
}

#[test]
fn a_window_comes_in_when_it_is_final() {
    let mut spec = interval("j", (-10, 0), JoinType::Left);
    spec.left.from = JoinSource::Window(0);
    spec.right.filter = where_("channel = 'y'");
    let mut x = window("w", tumbling(10, 0));
    x.channels = Some(vec!["x".to_owned()]);
    for (name, lateness, steps, want) in [
        ("at its close", 0, "a y 5, a x 6, a y 10", "9 a [0,10)=1 y5"),
        ("behind what may be late", 5, "a y 5, a x 6, a y 14", ""),
        ("then", 5, "a y 5, a x 6, a y 15", "9 a [0,10)=1 y5"),
        (
            "once",
            5,
            "a y 5, a x 6, a y 10, a x 7, a y 15, end",
            "9 a [0,10)=1 y5",
        ),
        ("at the end of time", 5, "a x 6, end", "9 a [0,10)=1 -"),
        (
            "as it stands, in silence",
            5,
            "clock 5, a x 6, clock 70",
            "9 a idle [0,10)=1 -",
        ),
        (
            "what comes later does not count",
            5,
            "clock 5, a x 6, clock 70, a x 7, a y 9, end",
            "9 a idle [0,10)=1 -",
        ),
    ] {
        let config = EngineConfig {
            windows: vec![x.clone()],
            joins: vec![spec.clone()],
            ..config(0, lateness, Vec::new())
        };
        let mut engine = Engine::new(&config);
        let mut out = told_by(&mut engine, steps);
        out.retain(|line| line.contains(" a "));
        assert_eq!(out.join("; "), want, "{name}");
    }
}

/// Changes in words: `p a 5 {..}` a row, `p a 5` a delete.
fn diffs(spec: &JoinSpec, changes: &[&str], restarts: bool) -> String {
    let config = joins(0, vec![spec.clone()]);
    let (mut engine, mut kept) = (Engine::new(&config), Kept::new());
    let mut out = Vec::new();
    for words_of in changes {
        let mut parts = words_of.splitn(4, ' ');
        let mut next = || parts.next().expect("table, key and time");
        let (table, key, time) = (next(), next(), next());
        let row = parts.next().map(Arc::from);
        let change = crate::change::Change {
            table: table.into(),
            op: if row.is_some() {
                ChangeOp::Update
            } else {
                ChangeOp::Delete
            },
            key: key.into(),
            time: EventTime(time.parse().expect("a number")),
            before: None,
            after: row,
            position: None,
        };
        let mut rows = Rows::new();
        engine.on_change(&change, &mut rows);
        out.extend(engine.views(&rows).map(|view| words(&view)));
        if restarts {
            engine = restart(&mut engine, &config, &mut kept);
        }
    }
    finish(&mut engine, &mut Vec::new());
    assert_eq!(engine.state_rows(), 0);
    out.join("; ")
}

#[test]
fn tables_are_told_as_differences() {
    use JoinType::{Full, Inner, Left};
    const TO_A: &str = r#"{"to":"a"}"#;
    const TO_B: &str = r#"{"to":"b"}"#;
    const NULL: &str = r#"{"to":null}"#;
    for (name, join_type, changes, want) in [
        (
            "right first",
            Inner,
            vec!["m a 1 {}", "p k 2 A"],
            "2 k + A {}",
        ),
        (
            "left first",
            Inner,
            vec!["p k 1 A", "m a 2 {}"],
            "2 k + A {}",
        ),
        (
            "the later of both times",
            Inner,
            vec!["m a 5 {}", "p k 2 A", "p k 3"],
            "5 k + A {}; 5 k - A {}",
        ),
        (
            "nothing to take back",
            Inner,
            vec!["p k 1 A", "p k 2", "m a 3 {}"],
            "",
        ),
        (
            "it moves away and comes back",
            Inner,
            vec!["m a 1 {}", "p k 2 A", "p k 3 B", "p k 4 A"],
            "2 k + A {}; 3 k - A {}; 4 k + A {}",
        ),
        (
            "it moves between two",
            Inner,
            vec!["m a 1 {}", "m b 1 {\"v\":1}", "p k 2 A", "p k 3 B"],
            "2 k + A {}; 3 k - A {}; 3 k + B {\"v\":1}",
        ),
        (
            "a null names nobody",
            Left,
            vec!["p k 1 N", "m null 2 {}", "p k 3"],
            "1 k + N -; 3 k - N -",
        ),
        (
            "a left row alone",
            Left,
            vec!["p k 1 A", "m a 2 {}", "m a 3"],
            "1 k + A -; 2 k - A -; 2 k + A {}; 3 k - A {}; 3 k + A -",
        ),
        (
            "a right row alone",
            Full,
            vec!["m a 1 {}", "p k 2 A", "p k 3"],
            "1 a + - {}; 2 a - - {}; 2 k + A {}; 3 a + - {}; 3 k - A {}",
        ),
        (
            "two name one",
            Full,
            vec!["m a 1 {}", "p k 2 A", "p l 3 A", "p k 4"],
            "1 a + - {}; 2 a - - {}; 2 k + A {}; 3 l + A {}; 4 k - A {}",
        ),
        (
            "the row that is named changes",
            Inner,
            vec!["m a 1 {}", "p k 2 A", "p l 2 A", "m a 3 {\"v\":1}"],
            "2 k + A {}; 2 l + A {}; 3 k - A {}; 3 k + A {\"v\":1}; 3 l - A {}; 3 l + A {\"v\":1}",
        ),
        (
            "a change that changes nothing",
            Left,
            vec!["p k 1 A", "p k 2 A", "m a 3 {}", "m a 4 {}"],
            "1 k + A -; 3 k - A -; 3 k + A {}",
        ),
        (
            "an older change",
            Left,
            vec!["p k 5 A", "p k 4 B", "p k 3"],
            "5 k + A -",
        ),
        (
            "of equal times the later",
            Left,
            vec!["p k 5 A", "p k 5 B"],
            "5 k + A -; 5 k - A -; 5 k + B -",
        ),
        (
            "an older row after its delete",
            Left,
            vec!["p k 3 A", "p k 5", "p k 4 B", "p k 6 B"],
            "3 k + A -; 5 k - A -; 6 k + B -",
        ),
        ("another table", Left, vec!["s k 1 A"], ""),
    ] {
        let shown = |text: &str| {
            text.replace('A', TO_A)
                .replace('B', TO_B)
                .replace('N', NULL)
        };
        let changes: Vec<String> = changes.into_iter().map(shown).collect();
        let changes: Vec<&str> = changes.iter().map(String::as_str).collect();
        let spec = table_join("t", (0, 1), "to", join_type);
        for restarts in [false, true] {
            assert_eq!(diffs(&spec, &changes, restarts), shown(want), "{name}");
        }
    }
}

#[test]
fn a_table_may_be_on_both_sides_and_named_by_its_key() {
    let parents = table_join("t", (0, 0), "to", JoinType::Inner);
    let rows = ["p a 1 {\"to\":\"a\"}", "p b 2 {\"to\":\"a\"}", "p a 3"];
    let (a, b) = (r#"{"to":"a"}"#, r#"{"to":"a"}"#);
    assert_eq!(
        diffs(&parents, &rows, true),
        format!("1 a + {a} {a}; 2 b + {b} {a}; 3 a - {a} {a}; 3 b - {b} {a}"),
    );
    // Rows need not repeat their key.
    let by_key = table_join("t", (0, 1), "id", JoinType::Inner);
    assert_eq!(
        diffs(&by_key, &["p k 1 {}", "m k 2 {}", "m l 3 {}"], true),
        "2 k + {} {}"
    );
    let mut by_two = table_join("t", (0, 1), "to", JoinType::Inner);
    by_two.on.push(JoinColumn::Channel);
    let rows = [
        r#"p k 1 {"channel":7,"to":"a"}"#,
        r#"m ["a","7"] 2 {}"#,
        r#"m a 3 {}"#,
    ];
    assert_eq!(
        diffs(&by_two, &rows, true),
        r#"2 k + {"channel":7,"to":"a"} {}"#
    );
}

/// Rows, keys and columns of any length are kept over a restart.
#[test]
fn long_rows_keys_and_columns_are_kept() {
    let mut keyed = window("w", tumbling(10, 0));
    keyed.key_columns = vec![KeyColumn {
        table: 0,
        column: "to".to_owned(),
    }];
    for len in [254, 255, 256, 5_000, 70_000] {
        let text = "t".repeat(len);
        let row: Arc<str> = format!("{{\"to\":\"{text}\"}}").into();
        let mut over = interval("i", (0, 0), JoinType::Left);
        over.left.from = JoinSource::Window(0);
        let config = EngineConfig {
            windows: vec![keyed.clone()],
            ..joins(0, vec![table_join("t", (0, 1), "to", JoinType::Left), over])
        };
        let (mut engine, mut kept, mut rows) = (Engine::new(&config), Kept::new(), Rows::new());
        let change = |table: &str, key: &str, time| crate::change::Change {
            table: table.into(),
            op: ChangeOp::Insert,
            key: key.into(),
            time: EventTime(time),
            before: None,
            after: Some(row.clone()),
            position: None,
        };
        engine.on_change(&change("p", "a", 1), &mut rows);
        engine.on_change(&change("p", "b", 20), &mut rows);
        told_by(&mut engine, "a x 5");
        let mut engine = restart(&mut engine, &config, &mut kept);
        rows.clear();
        engine.on_change(&change("m", &text, 30), &mut rows);
        let out: Vec<_> = engine.views(&rows).map(|view| words(&view)).collect();
        assert_eq!(out.len(), 4, "{len}");
        assert!(out[1].contains("+ {"), "{len}");
        let mut engine = restart(&mut engine, &config, &mut kept);
        rows.clear();
        engine.finish(&mut rows);
        let found = lines(&engine, &rows);
        assert_eq!(found.len(), 2, "{len}");
        assert!(found.iter().all(|line| line.contains(&text)), "{len}");
    }
}

/// Every key once: nothing is held after the end of time, of any join.
#[test]
fn nothing_leaks() {
    let across = |join_type| JoinSpec {
        on: vec![JoinColumn::Channel],
        ..interval("c", (-5, 5), join_type)
    };
    let specs = vec![
        interval("i", (-5, 5), JoinType::Inner),
        interval("l", (-5, 5), JoinType::Left),
        across(JoinType::Full),
        lookup("u", 0, None),
        lookup("v", 1, Some(10)),
        table_join("t", (0, 1), "to", JoinType::Full),
    ];
    let config = joins(5, specs);
    let mut engine = Engine::new(&config);
    let (mut rows, mut kept) = (Rows::new(), Kept::new());
    for n in 0..300 {
        let series = engine.series(&format!("d{n}"), &format!("c{n}"));
        let mut batch = Batch::new();
        batch.push(series.expect("a short name"), EventTime(n), Some(0.5), None);
        engine.on_batch(&batch, &mut rows);
        rows.clear();
    }
    // Each device's own watermark is its own reading's.
    assert_eq!(engine.state_rows(), 300 * (2 + 2 + 2 + 1 + 1));
    let mut engine = restart(&mut engine, &config, &mut kept);
    engine.finish(&mut rows);
    assert_eq!(engine.state_rows(), 0);
    assert!(engine.forced().next().is_none());
    let mut engine = restart(&mut engine, &config, &mut kept);
    assert_eq!(engine.state_rows(), 0);
    let bytes: usize = kept.values().map(Vec::len).sum();
    assert!(bytes < 300 * 200, "{bytes} bytes of state for nothing");
    assert!(engine.take_changes().is_empty());
}
