//! What the engine does by the gateway's clock: idleness as it is due, and a clock that did
//! not hold.

use super::super::config::Source;
use super::*;

const YEAR: i64 = 1_000_000;

fn kinds() -> Vec<(&'static str, WindowKind)> {
    vec![
        ("tumbling", tumbling(10, 0)),
        ("hopping", hopping(10, 5, 0)),
        ("sliding", sliding(10, Bounds::HalfOpen)),
    ]
}

fn next_idle(engine: &mut Engine, now: i64) -> Option<i64> {
    engine.next_idle(EventTime(now)).map(|at| at.0)
}

#[test]
fn the_next_idle_time_is_exact_when_it_has_come_and_never_too_late() {
    let mut engine = Engine::new(&config(0, 0, vec![window("w", tumbling(10, 0))]));
    let mut out = Vec::new();
    assert_eq!(next_idle(&mut engine, 0), None, "nobody there");
    give(&mut engine, &[("a", "x", 1, Some(1))], &mut out);
    assert_eq!(
        next_idle(&mut engine, 0),
        Some(i64::MIN),
        "any clock will do"
    );
    clock(&mut engine, 100, &mut out);
    assert_eq!(next_idle(&mut engine, 100), Some(160));
    clock(&mut engine, 130, &mut out);
    give(&mut engine, &[("a", "x", 2, Some(1))], &mut out);
    assert_eq!(
        next_idle(&mut engine, 159),
        Some(160),
        "too early, and cheap"
    );
    assert_eq!(next_idle(&mut engine, 160), Some(190), "looked at");
    clock(&mut engine, 189, &mut out);
    assert_eq!(out.len(), 0, "{out:?}");
    clock(&mut engine, 190, &mut out);
    assert_eq!(out.len(), 1, "{out:?}");
    assert_eq!(next_idle(&mut engine, 190), None, "all are silent");
}

#[test]
fn by_default_a_device_is_idle_after_three_of_its_intervals_and_at_least_a_minute() {
    const SECOND: i64 = 1_000_000;
    for (name, every, want) in [
        ("each second", SECOND, 60 * SECOND),
        ("each 20 s", 20 * SECOND, 60 * SECOND),
        ("each 21 s", 21 * SECOND, 63 * SECOND),
        ("each 15 min", 900 * SECOND, 2700 * SECOND),
    ] {
        let mut config = config(0, 0, vec![window("w", tumbling(10, 0))]);
        config.time.idle_after = IdleAfter::Auto;
        config.time.future_guard = Span(i64::MAX);
        let mut engine = Engine::new(&config);
        let mut out = Vec::new();
        clock(&mut engine, 0, &mut out);
        // Eight steady intervals after one that was not.
        let times = (0..9).map(|n| 7 * 86_400 * SECOND + n * every);
        for time in std::iter::once(0).chain(times) {
            give(&mut engine, &[("a", "x", time, Some(1))], &mut out);
        }
        assert_eq!(next_idle(&mut engine, i64::MAX), Some(want), "{name}");
    }
}

/// Lines of a device that sent in a year to come while the clock said so, and in this one
/// after that did not hold.
fn after_a_wrong_year(spec: WindowSpec, restarts: bool) -> Vec<String> {
    let config = config(3, 0, vec![spec]);
    let mut engine = Engine::new(&config);
    let (mut out, mut kept) = (Vec::new(), std::collections::BTreeMap::new());
    let mut step = |engine: &mut Engine| {
        if restarts {
            for entry in engine.take_changes() {
                match entry.value {
                    Some(value) => kept.insert(entry.key, value),
                    None => kept.remove(&entry.key),
                };
            }
            *engine = Engine::restore(&config, kept.clone()).expect("its own state");
        }
    };
    for n in 0..30 {
        give(&mut engine, &[("a", "x", YEAR + n, Some(1))], &mut out);
        clock(&mut engine, YEAR + n, &mut out);
    }
    step(&mut engine);
    engine.on_clock_lost();
    step(&mut engine);
    clock(&mut engine, 1000, &mut out);
    out.clear();
    step(&mut engine);
    for n in 0..40 {
        clock(&mut engine, 1000 + n, &mut out);
        give(&mut engine, &[("a", "x", 1000 + n, Some(1))], &mut out);
        if n % 7 == 0 {
            step(&mut engine);
        }
    }
    out
}

#[test]
fn a_clock_that_did_not_hold_locks_no_device_out() {
    for (name, kind) in kinds() {
        let spec = window(name, kind);
        let got = after_a_wrong_year(spec.clone(), false);
        let mut fresh = Vec::new();
        let mut engine = Engine::new(&config(3, 0, vec![spec.clone()]));
        let readings: Vec<Given> = (0..40).map(|n| ("a", "x", 1000 + n, Some(1))).collect();
        give(&mut engine, &readings, &mut fresh);
        assert!(fresh.len() > 2, "{name}");
        assert_eq!(got, fresh, "{name}");
    }
}

#[test]
fn nor_does_it_after_restarts() {
    let spec = window("tumbling", tumbling(10, 0));
    let got = after_a_wrong_year(spec.clone(), false);
    assert_eq!(after_a_wrong_year(spec, true), got);
}

#[test]
fn windows_across_devices_are_not_locked_out_either() {
    let mut spec = window("all", tumbling(10, 0));
    spec.key = KeySpec {
        device: false,
        channel: true,
    };
    assert_eq!(spec.from, Source::Readings);
    let got = after_a_wrong_year(spec, false);
    assert_eq!(got.len(), 3, "{got:?}");
}

#[test]
fn a_clock_that_did_not_hold_leaves_what_is_plausible_as_it_is() {
    let mut engine = Engine::new(&config(3, 0, vec![window("w", tumbling(10, 0))]));
    let mut out = Vec::new();
    clock(&mut engine, 100, &mut out);
    give(
        &mut engine,
        &[("a", "x", 108, Some(1)), ("b", "x", 100, Some(1))],
        &mut out,
    );
    give(&mut engine, &[("a", "x", 105, Some(1))], &mut out);
    engine.on_clock_lost();
    assert_eq!(engine.clock(), None);
    // Nothing is judged meanwhile.
    give(&mut engine, &[("b", "x", 500, Some(1))], &mut out);
    assert_eq!(
        out.len(),
        2,
        "the quarantined one, and a window of b: {out:?}"
    );
    clock(&mut engine, 102, &mut out);
    let watermark = |engine: &Engine, device| engine.watermark(device).map(|at| at.0);
    assert_eq!(watermark(&engine, "a"), Some(102));
    assert_eq!(watermark(&engine, "b"), None, "it starts anew");
}
