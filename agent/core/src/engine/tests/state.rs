//! State that was taken and restored goes on as if nothing had happened, whenever that
//! is, and damaged state is refused.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

pub(super) type Kept = BTreeMap<Vec<u8>, Vec<u8>>;

/// A checkpoint.
pub(super) fn keep(engine: &mut Engine, kept: &mut Kept) {
    let mut changes = Vec::new();
    // Page by page: together they are what one step gives.
    while !engine.take_some_changes(1, &mut changes) {}
    assert_eq!(engine.take_changes(), []);
    for entry in changes {
        match entry.value {
            Some(value) => drop(kept.insert(entry.key, value)),
            None => drop(kept.remove(&entry.key)),
        }
    }
}

/// A checkpoint, and the engine that a start makes of it and of those before.
pub(super) fn restart(engine: &mut Engine, config: &EngineConfig, kept: &mut Kept) -> Engine {
    keep(engine, kept);
    let restored = Engine::restore(config, kept.clone()).expect("it was written so");
    assert_eq!(restored.state_rows(), engine.state_rows());
    assert_eq!(restored.counters(), engine.counters());
    restored
}

fn take(engine: &mut Engine, step: &Step, out: &mut Vec<String>) {
    match step {
        Step::Reading(given) => give(engine, &[*given], out),
        Step::Clock(time) => clock(engine, *time, out),
        Step::Watermark(device, time) => watermark(engine, *device, *time, out),
    }
}

fn all_aggregates() -> Vec<Aggregate> {
    let mut all = AGGREGATES.to_vec();
    all.extend([
        Aggregate::Mean,
        Aggregate::Stddev,
        Aggregate::Percentile(50),
    ]);
    all
}

proptest! {
    #[test]
    fn a_restart_anywhere_changes_no_byte(
        steps in prop::collection::vec((step(), 0_u8..3), 0..80),
        windows in prop_oneof![pipeline(3, false), pipeline(3, true)],
        (out_of_order, lateness) in (0_i64..30, 0_i64..40),
    ) {
        let windows = (0..).zip(windows).map(|(at, spec)| WindowSpec {
            aggregates: match at % 2 {
                0 => spec.aggregates.clone(),
                _ => all_aggregates(),
            },
            ..spec
        });
        let config = config(out_of_order, lateness, windows.collect());
        let (mut whole, mut broken) = (Engine::new(&config), Engine::new(&config));
        let (mut want, mut got) = (Vec::new(), Vec::new());
        let mut kept = Kept::new();
        for (step, restarts) in &steps {
            take(&mut whole, step, &mut want);
            take(&mut broken, step, &mut got);
            match restarts {
                0 => broken = restart(&mut broken, &config, &mut kept),
                // It goes on, and a later checkpoint writes only what changed.
                1 => keep(&mut broken, &mut kept),
                _ => {}
            }
        }
        finish(&mut whole, &mut want);
        finish(&mut broken, &mut got);
        prop_assert_eq!(got, want);
        prop_assert_eq!(broken.state_rows(), whole.state_rows());
    }
}

#[test]
fn what_is_held_goes_at_the_end_of_time_also_after_a_restart() {
    for kind in [sliding(10, Bounds::HalfOpen), WindowKind::Rows { n: 5 }] {
        let config = config(0, 0, vec![window("w", kind.clone())]);
        let mut engine = Engine::new(&config);
        let mut out = Vec::new();
        give(&mut engine, &[("a", "x", 1, Some(1))], &mut out);
        // No line waits any more.
        watermark(&mut engine, None, 5, &mut out);
        let mut engine = restart(&mut engine, &config, &mut Kept::new());
        finish(&mut engine, &mut out);
        assert_eq!((out.len(), engine.state_rows()), (1, 0), "{kind:?}");
    }
}

#[test]
fn merged_windows_are_kept_as_their_reader_wants_them() {
    let inner = [
        vec![Aggregate::Percentile(90)],
        vec![Aggregate::First, Aggregate::Variance],
        vec![Aggregate::Max],
    ];
    let outer = [vec![Aggregate::Count], vec![Aggregate::Stddev]];
    for (inner, outer) in inner.iter().flat_map(|i| outer.iter().map(move |o| (i, o))) {
        let mut first = window("first", tumbling(7, 0));
        first.aggregates = inner.clone();
        let mut second = window("second", tumbling(14, 0));
        (second.from, second.merge) = (Source::Window(0), true);
        second.aggregates = outer.clone();
        let config = config(0, 0, vec![first, second]);
        let given = [0, 3, 8, 15, 30].map(|time| ("a", "x", time, Some(time as i32)));
        let (want, _) = run(&config, &given);
        let (mut engine, mut kept, mut got) = (Engine::new(&config), Kept::new(), Vec::new());
        for one in given {
            give(&mut engine, &[one], &mut got);
            engine = restart(&mut engine, &config, &mut kept);
        }
        finish(&mut engine, &mut got);
        assert_eq!(got, want, "{inner:?} {outer:?}");
    }
}

#[test]
fn nothing_is_kept_where_nothing_came() {
    let config = config(0, 0, vec![window("w", tumbling(10, 0))]);
    let mut engine = Engine::new(&config);
    assert_eq!(engine.take_changes(), []);
    give(&mut engine, &[("a", "x", 1, Some(1))], &mut Vec::new());
    assert!(engine.is_changed() && engine.changed_bytes() > 0);
    assert!(!engine.take_changes().is_empty());
    assert_eq!(engine.take_changes(), []);
    assert_eq!(engine.changed_bytes(), 0);
}

#[test]
fn only_pages_that_changed_are_written_again() {
    let config = config(0, 0, vec![window("w", tumbling(10, 0))]);
    let mut engine = Engine::new(&config);
    let names: Vec<String> = (0..1000).map(|n| format!("d{n}")).collect();
    let mut batch = Batch::new();
    for name in &names {
        let series = engine.series(name, "x").expect("room for it");
        batch.push(series, EventTime(1), Some(1.0), None);
    }
    engine.on_batch(&batch, &mut Rows::new());
    let bytes = |entries: &[state::StateEntry]| -> usize {
        let values = entries.iter().filter_map(|entry| entry.value.as_ref());
        values.map(Vec::len).sum()
    };
    let all = bytes(&engine.take_changes());
    batch.clear();
    let series = engine.series("d500", "x").expect("it is known");
    batch.push(series, EventTime(2), Some(1.0), None);
    engine.on_batch(&batch, &mut Rows::new());
    let one = bytes(&engine.take_changes());
    assert!(one * 20 < all, "{one} of {all}");
}

#[test]
fn damaged_state_is_refused_or_read_and_never_panics() {
    let config = config(
        5,
        10,
        vec![window("w", tumbling(10, 0)), window("h", hopping(10, 3, 0))],
    );
    let mut engine = Engine::new(&config);
    let given = [
        ("a", "x", 1, Some(1)),
        ("b", "y", 22, Some(2)),
        ("a", "x", 14, None),
    ];
    give(&mut engine, &given, &mut Vec::new());
    let mut kept = Kept::new();
    restart(&mut engine, &config, &mut kept);
    for key in kept.keys() {
        let mut less = kept.clone();
        less.remove(key);
        // What is not there may be of a state that never had it.
        let _ = Engine::restore(&config, less);
        for at in 0..kept[key].len() {
            for flip in [1, 0x80, 0xff] {
                let mut damaged = kept.clone();
                let value = damaged.get_mut(key).expect("it is there");
                value[at] ^= flip;
                let _ = Engine::restore(&config, damaged);
            }
            let mut cut = kept.clone();
            cut.get_mut(key).expect("it is there").truncate(at);
            assert!(
                Engine::restore(&config, cut).is_err(),
                "{key:?} cut at {at}"
            );
        }
    }
}
