//! The rules of versions by name, against a map, and at the limits.

use proptest::prelude::*;

use super::*;
use crate::engine::state::{Parts, StateEntry};
use crate::units::Span;

fn spec(out_of_order: i64, history: i64) -> TableSpec {
    TableSpec {
        out_of_order: Span(out_of_order),
        history: Span(history),
        ..TableSpec::new("t", &["device"])
    }
}

fn tables(out_of_order: i64, history: i64) -> Tables {
    Tables::new(&[spec(out_of_order, history)])
}

fn change(op: ChangeOp, key: &str, time: i64, row: Option<&str>) -> Change {
    Change {
        table: "t".into(),
        op,
        key: key.into(),
        time: EventTime(time),
        before: None,
        after: row.map(Into::into),
        position: None,
    }
}

fn put(tables: &mut Tables, key: &str, time: i64, row: Option<&str>) -> Option<Changed> {
    let op = match row {
        Some(_) => ChangeOp::Update,
        None => ChangeOp::Delete,
    };
    let changed = tables.apply(&change(op, key, time, row), i64::MAX);
    tables.prune();
    changed
}

fn find(tables: &mut Tables, key: &str, time: i64) -> Option<String> {
    let no = tables.watch(0, key);
    tables.as_of(0, no, time).map(ToString::to_string)
}

fn counters(tables: &Tables) -> TableCounters {
    tables.summaries().next().expect("one table").counters
}

const FOREVER: i64 = i64::MAX;

#[test]
fn a_row_holds_from_its_time_until_the_next() {
    let mut t = tables(0, FOREVER);
    for (time, row) in [
        (10, Some("one")),
        (20, Some("two")),
        (30, None),
        (40, Some("four")),
    ] {
        put(&mut t, "k", time, row);
    }
    for (time, want) in [
        (9, None),
        (10, Some("one")),
        (19, Some("one")),
        (20, Some("two")),
        (29, Some("two")),
        (30, None),
        (39, None),
        (40, Some("four")),
        (i64::MAX, Some("four")),
    ] {
        assert_eq!(find(&mut t, "k", time).as_deref(), want, "{time}");
    }
    assert_eq!(find(&mut t, "other", 15), None);
}

#[test]
fn what_comes_late_stands_in_its_place() {
    for (name, changes, time, want) in [
        (
            "before a tombstone it counts",
            &[(4, Some("a")), (13, None), (7, Some("d"))][..],
            8,
            Some("d"),
        ),
        (
            "behind it the dead stay dead",
            &[(4, Some("a")), (13, None), (7, Some("d"))],
            14,
            None,
        ),
        (
            "even when it is all there is before",
            &[(13, None), (7, Some("d"))],
            14,
            None,
        ),
        (
            "the same time twice: the later",
            &[(5, Some("a")), (5, Some("b"))],
            5,
            Some("b"),
        ),
        (
            "a delete of the same time",
            &[(5, Some("a")), (5, None)],
            5,
            None,
        ),
        (
            "an insert of the same time",
            &[(5, None), (5, Some("a"))],
            5,
            Some("a"),
        ),
        (
            "from the beginning of time",
            &[(i64::MIN, Some("a"))],
            i64::MIN,
            Some("a"),
        ),
    ] {
        let mut t = tables(0, FOREVER);
        for (time, row) in changes {
            put(&mut t, "k", *time, *row);
        }
        assert_eq!(find(&mut t, "k", time).as_deref(), want, "{name}");
    }
}

#[test]
fn a_change_tells_the_newest_before_and_after() {
    let mut t = tables(0, FOREVER);
    let row = |version: &Option<Version>| {
        version
            .as_ref()
            .and_then(|v| v.row.as_deref().map(String::from))
    };
    for (name, time, given, want) in [
        ("first", 10, Some("a"), (None, Some("a"))),
        ("newer", 20, Some("b"), (Some("a"), Some("b"))),
        ("older", 15, Some("x"), (Some("b"), Some("b"))),
        ("gone", 30, None, (Some("b"), None)),
        ("older than gone", 25, Some("y"), (None, None)),
        ("again", 40, Some("c"), (None, Some("c"))),
    ] {
        let changed = put(&mut t, "k", time, given).expect("there is room");
        let got = (row(&changed.before), row(&changed.after));
        assert_eq!((got.0.as_deref(), got.1.as_deref()), want, "{name}");
    }
    assert!(put(&mut t, "k", 50, Some("c")).is_some());
    let of_other = Change {
        table: "u".into(),
        ..change(ChangeOp::Delete, "k", 1, None)
    };
    assert!(t.apply(&of_other, i64::MAX).is_none());
}

#[test]
fn known_until_is_moved_by_changes_heartbeats_the_clock_and_the_floor() {
    let mut t = tables(5, FOREVER);
    assert_eq!(t.known_until(0), i64::MIN);
    put(&mut t, "k", 100, Some("a"));
    assert_eq!(t.known_until(0), 95);
    put(&mut t, "k", 50, Some("b"));
    assert_eq!((t.known_until(0), counters(&t).late), (95, 1));
    t.apply(&change(ChangeOp::Heartbeat, "", 110, None), i64::MAX);
    assert_eq!((t.known_until(0), counters(&t).changes), (105, 2));
    t.on_clock(Some(EventTime(200)));
    assert_eq!(t.known_until(0), 195);
    t.on_clock(None);
    assert_eq!(t.known_until(0), 105);
    t.raise_floor(EventTime(300));
    assert_eq!(t.known_until(0), 300);
    // A time that cannot be right yet moves nothing.
    t.apply(&change(ChangeOp::Insert, "l", 1_000, Some("c")), 999);
    assert_eq!(t.known_until(0), 300);
    t.apply(&change(ChangeOp::Insert, "l", 999, Some("c")), 999);
    assert_eq!(t.known_until(0), 994);
    let mut of_config = Tables::new(&[TableSpec {
        is_static: true,
        ..spec(5, 1)
    }]);
    assert_eq!(of_config.known_until(0), i64::MAX);
    put(&mut of_config, "k", 10, Some("a"));
    assert_eq!(counters(&of_config).late, 0);
}

#[test]
fn versions_that_ended_before_the_history_leave() {
    let mut t = tables(0, 10);
    put(&mut t, "k", 0, Some("a"));
    put(&mut t, "k", 10, Some("b"));
    put(&mut t, "k", 19, Some("c"));
    assert_eq!(
        find(&mut t, "k", 9).as_deref(),
        Some("a"),
        "it ended less than 10 ago"
    );
    put(&mut t, "k", 20, Some("d"));
    assert_eq!(find(&mut t, "k", 9), None, "it ended 10 ago");
    assert_eq!(find(&mut t, "k", 10).as_deref(), Some("b"));
    // The newest stays, however old.
    t.on_clock(Some(EventTime(1_000)));
    t.prune();
    assert_eq!(find(&mut t, "k", 19), None);
    assert_eq!(find(&mut t, "k", 20).as_deref(), Some("d"));
}

#[test]
fn a_row_that_is_gone_leaves_nothing_but_its_watch() {
    let mut t = tables(0, 10);
    put(&mut t, "watched", 0, Some("a"));
    let no = t.watch(0, "watched");
    put(&mut t, "free", 0, Some("a"));
    put(&mut t, "watched", 1, None);
    put(&mut t, "free", 1, None);
    let table = &t.tables[0];
    assert_eq!((table.keys, table.rows, table.by_key.len()), (2, 0, 2));
    put(&mut t, "new", 11, Some("n"));
    let table = &t.tables[0];
    assert_eq!((table.keys, table.rows, table.by_key.len()), (1, 1, 2));
    assert_eq!(
        table.bytes,
        bytes(
            table
                .entries
                .iter()
                .flatten()
                .find(|e| &*e.key == "new")
                .expect("it is there")
        )
    );
    put(&mut t, "watched", 12, Some("again"));
    assert_eq!(t.as_of(0, no, 12).map(|row| &**row), Some("again"));
    // The number of the free one is given again.
    put(&mut t, "newer", 12, Some("n"));
    assert_eq!(t.tables[0].entries.len(), 3);
}

#[test]
fn versions_of_a_row_are_bounded() {
    for (name, count, first, forgotten) in [
        ("limit - 1", TABLE_VERSIONS_MAX - 1, true, 0),
        ("limit", TABLE_VERSIONS_MAX, true, 0),
        ("limit + 1", TABLE_VERSIONS_MAX + 1, false, 1),
    ] {
        let mut t = tables(0, FOREVER);
        for time in 0..count as i64 {
            put(&mut t, "k", time, Some("row"));
        }
        assert_eq!(find(&mut t, "k", 0).is_some(), first, "{name}");
        assert_eq!(counters(&t).forgotten, forgotten, "{name}");
        assert!(find(&mut t, "k", 1).is_some(), "{name}");
    }
}

#[test]
fn keys_of_a_table_are_bounded() {
    let mut t = tables(0, FOREVER);
    for n in 0..TABLE_ROWS_MAX as i64 - 1 {
        put(&mut t, &n.to_string(), n, Some(""));
    }
    assert_eq!(counters(&t).refused, 0, "limit - 1");
    assert!(put(&mut t, "limit", 0, Some("a")).is_some());
    assert_eq!(counters(&t).refused, 0, "limit");
    assert!(put(&mut t, "limit + 1", 0, Some("a")).is_none());
    assert_eq!(counters(&t).refused, 1, "limit + 1");
    // A key that is there changes, and one that is gone makes room.
    assert!(put(&mut t, "7", 10_000_000, None).is_some());
    assert!(put(&mut t, "another", 0, Some("a")).is_some());
    let after = counters(&t);
    assert_eq!((after.refused, after.forgotten), (1, 1));
    assert_eq!(t.tables[0].keys, TABLE_ROWS_MAX);
}

/// What a checkpoint keeps, after some changes.
fn keep(t: &mut Tables, parts: &mut Parts, kept: &mut BTreeMap<Vec<u8>, Vec<u8>>) {
    let mut out: Vec<StateEntry> = Vec::new();
    t.encode(&mut StateWriter {
        parts,
        out: &mut out,
        room: usize::MAX,
    });
    for entry in out {
        match entry.value {
            Some(value) => drop(kept.insert(entry.key, value)),
            None => drop(kept.remove(&entry.key)),
        }
    }
}

proptest! {
    /// Against all changes so far, looked through from the first to the last.
    #[test]
    fn finds_what_a_walk_over_all_changes_finds(
        changes in prop::collection::vec((0_usize..4, 0_i64..30, prop::option::of("[a-c]"), any::<bool>()), 0..60),
        history in prop_oneof![Just(FOREVER), 0_i64..20],
    ) {
        let keys = ["a", "b", "c", "d"];
        let mut t = tables(3, history);
        let (mut parts, mut kept) = (Parts::default(), BTreeMap::new());
        let mut all: Vec<(&str, i64, Option<&str>)> = Vec::new();
        for (key, time, row, restarts) in &changes {
            put(&mut t, keys[*key], *time, row.as_deref());
            all.push((keys[*key], *time, row.as_deref()));
            if *restarts {
                keep(&mut t, &mut parts, &mut kept);
                let mut restored = tables(3, history);
                restored.decode(&StateReader::new(kept.clone()).expect("whole")).expect("whole");
                let summary = |t: &Tables| t.summaries().map(|s| (s.rows, s.bytes, s.watermark, s.counters)).collect::<Vec<_>>();
                prop_assert_eq!(summary(&restored), summary(&t));
                t = restored;
            }
        }
        let newest = all.iter().map(|(_, time, _)| *time).max().unwrap_or(i64::MIN);
        let horizon = newest.saturating_sub(history);
        for key in keys {
            // The history is whole only if nothing came that is older.
            let is_whole = history == FOREVER;
            for time in horizon.max(-1)..32 {
                let of_key = all.iter().filter(|(of, from, _)| *of == key && *from <= time);
                let last = of_key.max_by_key(|(_, from, _)| *from);
                let want = last.and_then(|(_, _, row)| *row).map(String::from);
                if is_whole {
                    prop_assert_eq!(find(&mut t, key, time), want, "{} at {}", key, time);
                }
            }
        }
        let table = &t.tables[0];
        let entries = || table.entries.iter().flatten();
        prop_assert_eq!(table.bytes, entries().filter(|e| !e.versions.is_empty()).map(bytes).sum::<usize>());
        prop_assert_eq!(table.keys, entries().filter(|e| !e.versions.is_empty()).count());
        prop_assert_eq!(table.by_key.len(), entries().count());
        prop_assert_eq!(table.ends.len(), entries().filter(|e| first_end(e).is_some()).count());
    }
}

#[test]
fn damaged_state_is_refused() {
    let mut t = tables(0, FOREVER);
    put(&mut t, "k", 1, Some("a"));
    put(&mut t, "k", 2, None);
    put(&mut t, "l", 1, Some("a"));
    let mut kept = BTreeMap::new();
    keep(&mut t, &mut Parts::default(), &mut kept);
    for (key, value) in &kept {
        for cut in 1..value.len() {
            let mut damaged = kept.clone();
            damaged.insert(key.clone(), value[..cut].to_vec());
            let mut restored = tables(0, FOREVER);
            let read = restored.decode(&StateReader::new(damaged).expect("one part each"));
            // A row cut behind a version is a row with fewer.
            let is_same = restored.tables[0].bytes == t.tables[0].bytes;
            assert!(read.is_err() || !is_same, "{key:?} {cut}");
        }
    }
}
