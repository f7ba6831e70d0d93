//! What waits for a table is bounded: beyond, the oldest does not wait any longer.

use super::*;
use crate::change::{Change, ChangeOp};
use crate::engine::config::{JoinKind, JoinSource, JoinSpec, JoinType, KeyColumn, TableSpec};
use crate::limits::JOIN_HELD_MAX;

fn both() -> EngineConfig {
    let lookup = JoinKind::Lookup { wait: None };
    let window = WindowSpec {
        key_columns: vec![KeyColumn {
            table: 0,
            column: "b".into(),
        }],
        ..window("w", tumbling(10, 0))
    };
    EngineConfig {
        tables: vec![TableSpec::new("t", &["device"])],
        joins: vec![JoinSpec {
            join_type: JoinType::Left,
            ..JoinSpec::new("j", lookup, JoinSource::Readings, JoinSource::Table(0))
        }],
        ..config(1 << 40, 0, vec![window])
    }
}

fn change(op: ChangeOp, time: i64) -> Change {
    Change {
        table: "t".into(),
        op,
        key: "a".into(),
        time: EventTime(time),
        before: None,
        after: (op == ChangeOp::Insert).then(|| r#"{"b":1}"#.into()),
        position: None,
    }
}

#[test]
fn the_oldest_of_too_many_does_not_wait() {
    let mut engine = Engine::new(&both());
    let (mut rows, mut batch) = (Rows::new(), Batch::new());
    let series = engine.series("a", "x").expect("a short name");
    let mut give = |engine: &mut Engine, times: std::ops::Range<i64>| {
        times.for_each(|n| batch.push(series, EventTime(1_000 - n), Some(1.0), None));
        rows.clear();
        engine.on_batch(&batch, &mut rows);
        batch.clear();
        lines(engine, &rows)
    };
    let max = JOIN_HELD_MAX as i64;
    for (name, times, held, forced) in [
        ("limit - 1", 0..max - 1, 2 * max - 2, 0),
        ("limit", max - 1..max, 2 * max, 0),
        // The window holds it from now on.
        ("limit + 1", max..max + 1, 2 * max + 1, 1),
    ] {
        let out = give(&mut engine, times);
        assert_eq!(engine.state_rows() as i64, held, "{name}");
        assert_eq!(out.len(), forced, "{name}");
        let counts: Vec<(&str, u64)> = engine.forced().collect();
        let want = [("w", 1), ("j", 1)];
        assert_eq!(counts, want[..2 * forced], "{name}");
        if let [line] = &out[..] {
            assert!(line.starts_with(r#"{"stream":"j""#), "{line}");
            assert!(line.contains(r#""key":"a","stale":true,"left""#), "{line}");
        }
    }
    let mut rows = Rows::new();
    engine.on_change(&change(ChangeOp::Insert, 2_000_000), &mut rows);
    assert_eq!(rows.len(), 0, "as much is still expected");
    engine.finish(&mut rows);
    assert_eq!(engine.state_rows(), 0);
}

/// With `wait`, the gateway's clock decides; without one nothing expires.
#[test]
fn a_reading_waits_no_longer_than_it_is_told() {
    let mut config = both();
    config.joins[0].kind = JoinKind::Lookup {
        wait: Some(Span(10)),
    };
    config.tables[0].out_of_order = Span(1_000);
    let mut engine = Engine::new(&config);
    let mut out = Vec::new();
    let mut rows = Rows::new();
    engine.on_change(&change(ChangeOp::Insert, 1), &mut rows);
    give(&mut engine, &[("a", "x", 5, Some(1))], &mut out);
    clock(&mut engine, 100, &mut out);
    clock(&mut engine, 109, &mut out);
    give(&mut engine, &[("a", "x", 6, Some(1))], &mut out);
    assert_eq!(
        out,
        Vec::<String>::new(),
        "the clock says since 100 that it is there"
    );
    clock(&mut engine, 110, &mut out);
    assert_eq!(out.len(), 1);
    let want = concat!(
        r#""key":"a","stale":true,"left":{"device":"a","channel":"x","#,
        r#""time":"1970-01-01T00:00:00.000005Z","value":1.0},"right":{"b":1}}"#,
    );
    assert!(out[0].ends_with(want), "{out:?}");
    clock(&mut engine, 118, &mut out);
    assert_eq!(out.len(), 1);
    clock(&mut engine, 119, &mut out);
    assert_eq!(out.len(), 2);
}
