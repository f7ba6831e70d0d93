//! The rules of each kind of window by name, one row per edge.

use super::*;
use crate::engine::config::{CalendarUnit, Zone};

/// Of a window's lines: start, end, revision, final, idle, count and sum.
fn told(spec: WindowSpec, lateness: i64, readings: &[Given]) -> String {
    let spec = WindowSpec {
        aggregates: vec![Aggregate::Count, Aggregate::Sum],
        ..spec
    };
    told_by(&config(0, lateness, vec![spec]), 0, readings)
}

/// The lines of one operator.
fn told_by(config: &EngineConfig, at: usize, readings: &[Given]) -> String {
    let mut engine = Engine::new(config);
    let rows = rows_of(&mut engine, readings);
    assert_eq!(engine.state_rows(), 0);
    let words = engine.views(&rows).map(in_words);
    let prefix = format!("{at} ");
    let mine = words.filter_map(|w| Some(w.strip_prefix(&prefix)?.to_owned()));
    mine.collect::<Vec<_>>().join("|")
}

fn at(times: &[i64]) -> Vec<Given> {
    let one = |time: &i64| ("a", "x", *time, Some(1));
    times.iter().map(one).collect()
}

#[test]
fn sessions() {
    let session = || window("w", WindowKind::Session { gap: Span(10) });
    for (name, lateness, times, want) in [
        (
            "one microsecond less than the gap",
            0,
            &[0, 9][..],
            "a x 0 19 r0 true false 2 2.0",
        ),
        (
            "exactly the gap",
            0,
            &[0, 10],
            "a x 0 10 r0 true false 1 1.0|a x 10 20 r0 true false 1 1.0",
        ),
        (
            "one that was out grows to the front under a new name",
            100,
            &[5, 50, 0],
            "a x 5 15 r0 false false 1 1.0|a x 0 15 r0 false false 2 2.0\
             |a x 5 15 r1 false false 0 null|a x 50 60 r0 true false 1 1.0",
        ),
        (
            "two that were out become one",
            100,
            &[0, 15, 50, 8],
            "a x 0 10 r0 false false 1 1.0|a x 15 25 r0 false false 1 1.0\
             |a x 0 25 r1 false false 3 3.0|a x 15 25 r1 false false 0 null\
             |a x 50 60 r0 true false 1 1.0",
        ),
        (
            "one that was out grows past the watermark: it is told when it closes",
            100,
            &[0, 12, 9],
            "a x 0 10 r0 false false 1 1.0|a x 0 22 r1 true false 3 3.0",
        ),
        (
            "too late for the one that is gone, not for its own",
            3,
            &[0, 14, 9],
            "a x 0 10 r0 true false 1 1.0|a x 9 24 r0 true false 2 2.0",
        ),
        (
            "too late at all",
            0,
            &[0, 30, 9],
            "a x 0 10 r0 true false 1 1.0|a x 30 40 r0 true false 1 1.0",
        ),
    ] {
        assert_eq!(told(session(), lateness, &at(times)), want, "{name}");
    }
}

#[test]
fn idleness_tells_a_session_and_its_return_merges_it() {
    let spec = window("w", WindowKind::Session { gap: Span(10) });
    let config = config(100, 0, vec![spec]);
    let (mut engine, mut out) = (Engine::new(&config), Vec::new());
    clock(&mut engine, 1000, &mut out);
    give(&mut engine, &at(&[0, 15]), &mut out);
    clock(&mut engine, 1060, &mut out);
    give(&mut engine, &at(&[8]), &mut out);
    finish(&mut engine, &mut out);
    let short = |line: &String| {
        let from = line.find("\"revision\"").expect("a window's line");
        let to = line.find(",\"min\"").expect("all aggregates");
        line[from..to].to_owned()
    };
    assert_eq!(
        out.iter().map(short).collect::<Vec<_>>(),
        [
            r#""revision":0,"final":false,"reason":"idle","count":1,"sum":1.0"#,
            r#""revision":0,"final":false,"reason":"idle","count":1,"sum":1.0"#,
            r#""revision":1,"final":true,"count":3,"sum":3.0"#,
            r#""revision":1,"final":true,"count":0,"sum":null"#,
        ]
    );
}

#[test]
fn rows() {
    let rows = |n| window("w", WindowKind::Rows { n });
    for (name, n, readings, want) in [
        (
            "the reading itself",
            1,
            vec![("a", "x", 1, Some(1)), ("a", "x", 2, Some(2))],
            "a x @1 1 1.0|a x @2 1 2.0",
        ),
        (
            "two of one time are two rows",
            2,
            vec![
                ("a", "x", 1, Some(1)),
                ("a", "x", 1, Some(2)),
                ("a", "x", 1, Some(4)),
            ],
            "a x @1 1 1.0|a x @1 2 3.0|a x @1 2 6.0",
        ),
        (
            "one without a value has a place and a line",
            2,
            vec![
                ("a", "x", 1, Some(1)),
                ("a", "x", 2, None),
                ("a", "x", 3, Some(4)),
            ],
            "a x @1 1 1.0|a x @2 1 1.0|a x @3 1 4.0",
        ),
        (
            "a late one has no line and counts later",
            3,
            vec![
                ("a", "x", 1, Some(1)),
                ("a", "x", 5, Some(2)),
                ("a", "x", 3, Some(4)),
                ("a", "x", 6, Some(8)),
            ],
            "a x @1 1 1.0|a x @5 3 7.0|a x @6 3 14.0",
        ),
        (
            "too late for the last one",
            1,
            vec![("a", "x", 5, Some(1)), ("a", "x", 3, Some(2))],
            "a x @5 1 1.0",
        ),
    ] {
        assert_eq!(told(rows(n), 0, &readings), want, "{name}");
    }
}

#[test]
fn days_of_a_zone() {
    let zone = Zone::named("Europe/Paris").expect("there");
    let grid = Grid::Calendar {
        unit: CalendarUnit::Day,
        zone,
    };
    let hour = 3_600_000_000;
    // The clocks went forward on 29 March 2026 at 01:00 UTC.
    let midnight = 1_774_738_800_000_000;
    let times = [
        midnight - 1,
        midnight,
        midnight + 23 * hour - 1,
        midnight + 23 * hour,
    ];
    let want = [
        (midnight - 24 * hour, midnight, 1),
        (midnight, midnight + 23 * hour, 2),
        (midnight + 23 * hour, midnight + 47 * hour, 1),
    ];
    let want = want.map(|(s, e, n)| format!("a x {s} {e} r0 true false {n} {n}.0"));
    let spec = window("w", WindowKind::Tumbling(grid));
    assert_eq!(told(spec, 0, &at(&times)), want.join("|"));
}

#[test]
fn windows_over_windows() {
    let inner = |kind| WindowSpec {
        aggregates: vec![Aggregate::Count, Aggregate::Sum],
        ..window("inner", kind)
    };
    let over = |kind, value, merge| WindowSpec {
        from: Source::Window(0),
        value,
        merge,
        aggregates: vec![Aggregate::Count, Aggregate::Sum],
        ..window("outer", kind)
    };
    let ten = || inner(tumbling(10, 0));
    let (sum, count) = (Aggregate::Sum, Aggregate::Count);
    for (name, lateness, windows, times, want) in [
        (
            "a figure of each inner window",
            0,
            vec![ten(), over(tumbling(30, 0), count, false)],
            &[1, 2, 11, 40][..],
            "a x 0 30 r0 true false 2 3.0|a x 30 60 r0 true false 1 1.0",
        ),
        (
            "all of each inner window",
            0,
            vec![ten(), over(hopping(30, 20, 0), count, true)],
            &[1, 2, 11, 40],
            "a x -20 10 r0 true false 2 2.0|a x 0 30 r0 true false 3 3.0|a x 20 50 r0 true false 1 1.0\
             |a x 40 70 r0 true false 1 1.0",
        ),
        (
            "a revision replaces its row",
            100,
            vec![ten(), over(tumbling(20, 0), sum, false)],
            &[1, 35, 2],
            "a x 0 20 r0 false false 1 1.0|a x 0 20 r1 false false 1 2.0\
             |a x 20 40 r0 true false 1 1.0",
        ),
        (
            "also in a line that comes later",
            100,
            vec![ten(), over(sliding(100, Bounds::HalfOpen), sum, false)],
            &[1, 35, 2],
            "a x @9 1 1.0|a x @39 2 3.0",
        ),
        (
            "a session that grows takes its row along",
            100,
            vec![
                inner(WindowKind::Session { gap: Span(10) }),
                over(tumbling(20, 0), count, false),
            ],
            &[5, 33, 14],
            "a x 0 20 r0 false false 1 1.0|a x 0 20 r1 false false 0 null\
             |a x 20 40 r0 true false 1 2.0|a x 40 60 r0 true false 1 1.0",
        ),
    ] {
        let config = config(0, lateness, windows);
        assert_eq!(told_by(&config, 1, &at(times)), want, "{name}");
    }
}

#[test]
fn rows_that_come_late_to_a_reader_are_counted() {
    let mut outer = window("outer", tumbling(10, 0));
    (outer.from, outer.key) = (Source::Window(0), KeySpec::CHANNEL);
    outer.value = Aggregate::Sum;
    let config = config(0, 0, vec![window("inner", tumbling(10, 0)), outer]);
    let (mut engine, mut out) = (Engine::new(&config), Vec::new());
    // The second device comes when the first has moved the watermark over all on.
    give(&mut engine, &at(&[1, 25]), &mut out);
    give(
        &mut engine,
        &[("b", "x", 3, Some(1)), ("b", "x", 30, Some(1))],
        &mut out,
    );
    let late: Vec<_> = engine.late_derived().collect();
    assert_eq!(late, [("outer", 1)]);
    assert_eq!(engine.counters().late_all, 0);
}
