//! When the clock is trusted, and what is written of it, by hand.

use std::collections::BTreeMap;

use super::*;
use crate::engine::config::{Bounds, TimeRules, WindowKind, WindowSpec};
use crate::log::block::{Body, Record};
use crate::log::decode::decode;
use crate::units::Epoch;

const SECOND: i64 = 1_000_000;
const GUARD: i64 = 300 * SECOND;
/// What is not before.
const FLOOR: i64 = 1_735_689_600 * SECOND;
const P0: PartitionId = PartitionId(0);
const P1: PartitionId = PartitionId(1);

fn auto() -> ClockRules {
    ClockRules {
        trust: TrustRule::Auto,
        not_before: EventTime(FLOOR),
    }
}

fn engine(windows: usize, idle_after: IdleAfter) -> EngineConfig {
    let kind = WindowKind::Sliding {
        size: Span(1),
        bounds: Bounds::HalfOpen,
    };
    EngineConfig {
        time: TimeRules {
            idle_after,
            ..TimeRules::default()
        },
        windows: vec![WindowSpec::new("w", kind); windows],
        ..EngineConfig::default()
    }
}

/// `mono` us after the start, with a clock that says `utc`.
fn at(mono: i64, utc: i64) -> Now {
    Now {
        mono: Mono(mono as u64),
        utc: EventTime(utc),
    }
}

struct Rig {
    clock: GatewayClock,
    commit: GroupCommit,
}

impl Rig {
    fn new(rules: ClockRules, engine: &EngineConfig, utc: i64) -> Self {
        Self {
            clock: GatewayClock::new(rules, engine, &[], at(0, utc)),
            commit: GroupCommit::new(Epoch(1), Span(0), BTreeMap::new()),
        }
    }

    /// One that is trusted.
    fn trusted(engine: &EngineConfig) -> Self {
        let mut rig = Self::new(auto(), engine, FLOOR);
        assert_eq!(rig.clock.judge(at(0, FLOOR), &mut rig.commit), None);
        assert!(rig.clock.is_trusted());
        rig
    }

    /// What was written since the last call, and the kept time.
    fn written(&mut self) -> (Vec<(u16, i64, ClockTrust)>, Option<i64>) {
        let Some((token, batch)) = self.commit.poll(Mono(u64::MAX)) else {
            return (Vec::new(), None);
        };
        self.commit.committed(token);
        let mut out = Vec::new();
        for block in &batch.blocks {
            let Body::Readings { records, .. } = decode(block.key, &block.bytes).unwrap().body
            else {
                panic!("a block of readings")
            };
            for record in records {
                let Record::Clock(ClockRecord { now, trust }) = record else {
                    panic!("a clock expected")
                };
                out.push((block.key.at.partition.0, now.0, trust));
            }
        }
        let kept = batch.meta.first().and_then(|(_, value)| parse(value));
        (out, kept.map(|time| time.0))
    }

    fn reading(&mut self, partition: PartitionId, ahead: i64, now: Now) {
        let time = EventTime(now.utc.0 + ahead);
        self.clock
            .before_reading(partition, time, now, &mut self.commit);
    }
}

#[test]
fn a_clock_is_trusted_when_it_is_said_or_plausible() {
    let patience = CLOCK_PATIENCE_US as i64;
    let kept = FLOOR + 1_000 * SECOND;
    // Name; rule; kept in the log; synchronised; at start; time since; the clock then.
    for (name, trust, recorded, synchronised, start, since, now, want) in [
        ("always", TrustRule::Always, None, false, 0, 0, 0, true),
        (
            "before the floor",
            TrustRule::Auto,
            None,
            false,
            FLOOR - 1,
            0,
            FLOOR - 1,
            false,
        ),
        (
            "at the floor",
            TrustRule::Auto,
            None,
            false,
            FLOOR,
            0,
            FLOOR,
            true,
        ),
        (
            "after it",
            TrustRule::Auto,
            None,
            false,
            FLOOR + 1,
            0,
            FLOOR + 1,
            true,
        ),
        (
            "before it, synchronised",
            TrustRule::Auto,
            None,
            true,
            5,
            0,
            5,
            true,
        ),
        (
            "1970 for long",
            TrustRule::Auto,
            None,
            false,
            0,
            9 * patience,
            9 * patience,
            false,
        ),
        (
            "set later",
            TrustRule::Auto,
            None,
            false,
            0,
            SECOND,
            FLOOR + 5,
            true,
        ),
        (
            "plausible, asked for more",
            TrustRule::Synchronised,
            None,
            false,
            FLOOR,
            0,
            FLOOR,
            false,
        ),
        (
            "and got it",
            TrustRule::Synchronised,
            None,
            true,
            FLOOR,
            0,
            FLOOR,
            true,
        ),
        (
            "as the log",
            TrustRule::Auto,
            Some(kept),
            false,
            kept,
            0,
            kept,
            true,
        ),
        (
            "behind, guard",
            TrustRule::Auto,
            Some(kept),
            false,
            kept - GUARD,
            0,
            kept - GUARD,
            true,
        ),
        (
            "behind, more",
            TrustRule::Auto,
            Some(kept),
            false,
            kept - GUARD - 1,
            0,
            kept - GUARD - 1,
            false,
        ),
        (
            "behind, caught up",
            TrustRule::Auto,
            Some(kept),
            false,
            kept - GUARD - 9,
            9,
            kept - GUARD,
            true,
        ),
        (
            "behind, almost set",
            TrustRule::Auto,
            Some(kept),
            false,
            FLOOR,
            0,
            FLOOR + SET_US - 1,
            false,
        ),
        (
            "behind, set",
            TrustRule::Auto,
            Some(kept),
            false,
            FLOOR,
            0,
            FLOOR + SET_US,
            true,
        ),
        (
            "behind, synchronised",
            TrustRule::Auto,
            Some(kept),
            true,
            FLOOR,
            0,
            FLOOR,
            true,
        ),
        (
            "patience - 1",
            TrustRule::Auto,
            Some(i64::MAX),
            false,
            FLOOR,
            patience - 1,
            FLOOR + patience - 1,
            false,
        ),
        (
            "patience",
            TrustRule::Auto,
            Some(i64::MAX),
            false,
            FLOOR,
            patience,
            FLOOR + patience,
            true,
        ),
        (
            "patience + 1",
            TrustRule::Auto,
            Some(i64::MAX),
            false,
            FLOOR,
            patience + 1,
            FLOOR + patience + 1,
            true,
        ),
    ] {
        let rules = ClockRules {
            trust,
            not_before: EventTime(FLOOR),
        };
        let engine = engine(1, IdleAfter::Auto);
        let mut rig = Rig::new(rules, &engine, start);
        rig.clock.recorded = recorded.map(EventTime);
        if synchronised {
            rig.clock.set_synchronised();
        }
        let note = rig.clock.judge(at(since, now), &mut rig.commit);
        assert_eq!(rig.clock.is_trusted(), want, "{name}");
        assert_eq!(note.is_some(), !want, "{name}: {note:?}");
        assert_eq!(
            rig.clock.judge(at(since, now), &mut rig.commit),
            None,
            "{name}: said once"
        );
        assert_eq!(rig.clock.next_deadline().is_some(), !want, "{name}");
    }
}

#[test]
fn until_it_is_trusted_one_time_goes_on_and_one_step_puts_it_right() {
    let mut rig = Rig::new(auto(), &engine(1, IdleAfter::Auto), 7 * SECOND);
    assert!(
        rig.clock
            .judge(at(0, 7 * SECOND), &mut rig.commit)
            .is_some()
    );
    rig.reading(P1, 0, at(SECOND, 8 * SECOND));
    rig.reading(P1, 900 * SECOND, at(2 * SECOND, 9 * SECOND));
    let no = (1, 8 * SECOND, ClockTrust::No);
    assert_eq!(rig.written(), (vec![no], None), "once, and it is not kept");
    // Set, and set again before anybody looked: times went on by themselves.
    let now = at(3 * SECOND, FLOOR + 3 * SECOND);
    assert_eq!(rig.clock.stamp(now).utc, EventTime(10 * SECOND));
    let note = rig.clock.judge(now, &mut rig.commit);
    assert!(note.is_some_and(|note| note.contains("trusted now")));
    let step = Span(FLOOR - 7 * SECOND);
    let said = (1, now.utc.0, ClockTrust::Since(step));
    assert_eq!(
        rig.written(),
        (vec![said], Some(now.utc.0)),
        "where any wait"
    );
    assert_eq!(rig.clock.stamp(now), now);
    rig.reading(P0, 0, now);
    let first = (0, now.utc.0, ClockTrust::Yes);
    assert_eq!(rig.written().0, [first]);
}

#[test]
fn a_reading_is_judged_by_a_clock_that_is_fresh_enough() {
    let every = CLOCK_EVERY_US as i64;
    let spacing = CLOCK_SPACING_US as i64;
    let auto = IdleAfter::Auto;
    let after = |us| IdleAfter::After(Span(us));
    // Name; windows; idle_after; since the last clock; ahead of the clock by; written.
    for (name, windows, idle, since, ahead, want) in [
        ("age - 1", 1, auto, every - 1, 0, false),
        ("age", 1, auto, every, 0, true),
        ("age + 1", 1, auto, every + 1, 0, true),
        ("nothing falls idle", 0, auto, 9 * every, 0, false),
        (
            "a quarter - 1",
            1,
            after(8 * SECOND),
            2 * SECOND - 1,
            0,
            false,
        ),
        ("a quarter", 1, after(8 * SECOND), 2 * SECOND, 0, true),
        ("a long one", 1, after(900 * SECOND), every, 0, true),
        ("a very short one", 1, after(4), spacing - 1, 0, false),
        ("a very short one, spaced", 1, after(4), spacing, 0, true),
        ("guard", 1, auto, SECOND, GUARD - SECOND, false),
        ("guard + 1", 1, auto, SECOND, GUARD - SECOND + 1, true),
        (
            "no windows, guard + 1",
            0,
            auto,
            SECOND,
            GUARD - SECOND + 1,
            true,
        ),
        ("ahead, too soon", 1, auto, spacing - 1, 9 * GUARD, false),
        ("ahead, spaced", 1, auto, spacing, 9 * GUARD, true),
        ("long past", 1, auto, SECOND, -9 * GUARD, false),
    ] {
        let mut rig = Rig::trusted(&engine(windows, idle));
        rig.reading(P0, 0, at(0, FLOOR));
        assert_eq!(rig.written().0.len(), 1, "{name}: the first of a run");
        rig.reading(P0, ahead, at(since, FLOOR + since));
        let want: &[_] = if want {
            &[(0, FLOOR + since, ClockTrust::Yes)]
        } else {
            &[]
        };
        assert_eq!(rig.written().0, want, "{name}");
    }
    let mut rig = Rig::trusted(&engine(1, auto));
    rig.reading(P0, 0, at(0, FLOOR));
    rig.reading(P0, 0, at(2 * every, FLOOR));
    assert_eq!(
        rig.written().0.len(),
        1,
        "a clock that stands still says nothing new"
    );
}

fn heard(now: i64, next_idle: Option<i64>) -> Heard {
    Heard {
        now: Some(EventTime(now)),
        next_idle: next_idle.map(EventTime),
        waits: false,
        parks: false,
    }
}

#[test]
fn the_clock_at_which_a_device_falls_idle_is_written_once_and_in_time() {
    let mut rig = Rig::trusted(&engine(1, IdleAfter::Auto));
    let due = FLOOR + 60 * SECOND;
    let state = heard(FLOOR, Some(due));
    rig.reading(P0, 0, at(0, FLOOR));
    rig.written();
    for (since, written) in [(0, false), (60 * SECOND - 1, false), (60 * SECOND, true)] {
        let now = at(since, FLOOR + since);
        rig.clock.rest();
        rig.clock.on_heard(P0, state, now, &mut rig.commit);
        let again = (!written).then_some(Mono(60 * SECOND as u64));
        assert_eq!(rig.clock.next_deadline(), again, "{since}");
        assert_eq!(!rig.written().0.is_empty(), written, "{since}");
    }
    // Not read back yet.
    let now = at(61 * SECOND, FLOOR + 61 * SECOND);
    rig.clock.on_heard(P0, state, now, &mut rig.commit);
    assert_eq!((rig.written().0, rig.clock.next_deadline()), (vec![], None));
    let silent = heard(FLOOR + 60 * SECOND, None);
    rig.clock.on_heard(P0, silent, now, &mut rig.commit);
    assert_eq!((rig.written().0, rig.clock.next_deadline()), (vec![], None));
}

#[test]
fn while_something_waits_for_a_table_a_clock_is_written_each_second() {
    let mut rig = Rig::trusted(&engine(1, IdleAfter::Auto));
    let waits = Heard {
        waits: true,
        ..heard(FLOOR, None)
    };
    let mut written = Vec::new();
    for n in 0..=50 {
        let since = n * SECOND / 10;
        rig.clock.rest();
        let now = at(since, FLOOR + since);
        rig.clock.on_heard(P0, waits, now, &mut rig.commit);
        let wrote = rig.written().0;
        let next = rig.clock.next_deadline();
        assert!(
            !wrote.is_empty() || next.is_some_and(|next| next > now.mono),
            "{n}: it comes again by itself"
        );
        written.extend(wrote.iter().map(|(_, time, _)| time - FLOOR));
    }
    let each: Vec<i64> = (0..=5).map(|n| n * SECOND).collect();
    assert_eq!(written, each, "when it was set last, and each second");
    rig.clock.rest();
    let now = at(60 * SECOND, FLOOR + 5 * SECOND);
    rig.clock.on_heard(P0, waits, now, &mut rig.commit);
    assert_eq!(
        rig.written().0,
        [],
        "a clock that stands still says nothing new"
    );
    assert!(
        rig.clock
            .next_deadline()
            .is_some_and(|next| next > now.mono)
    );
    rig.clock.rest();
    rig.clock.on_heard(
        P0,
        heard(FLOOR, None),
        at(70 * SECOND, FLOOR + 70 * SECOND),
        &mut rig.commit,
    );
    assert_eq!(
        (rig.written().0, rig.clock.next_deadline()),
        (vec![], None),
        "nothing waits"
    );
}

#[test]
fn decisions_that_follow_each_other_closely_are_spaced() {
    let mut rig = Rig::trusted(&engine(1, IdleAfter::Auto));
    let mut count = 0;
    for n in 0..1000 {
        // One device after another, each ms.
        let now = at(n * 1000, FLOOR + n * 1000);
        rig.clock.rest();
        let state = heard(FLOOR, Some(now.utc.0));
        rig.clock.on_heard(P0, state, now, &mut rig.commit);
        count += rig.written().0.len();
        let next = rig.clock.next_deadline();
        assert!(next.is_none_or(|next| next > now.mono), "{n}");
    }
    assert_eq!(count, SECOND as usize / CLOCK_SPACING_US as usize);
}

#[test]
fn a_clock_that_was_far_ahead_is_taken_back_once_for_each_partition() {
    let mut rig = Rig::trusted(&engine(1, IdleAfter::Auto));
    for (name, ahead, want) in [("guard", GUARD, false), ("guard + 1", GUARD + 1, true)] {
        let now = at(0, FLOOR);
        let state = heard(FLOOR + ahead, None);
        rig.clock.on_heard(P0, state, now, &mut rig.commit);
        let (no, yes) = ((0, FLOOR, ClockTrust::No), (0, FLOOR, ClockTrust::Yes));
        let want: &[_] = if want { &[no, yes] } else { &[] };
        assert_eq!(rig.written().0, want, "{name}");
        rig.clock.on_heard(P0, state, now, &mut rig.commit);
        assert_eq!(rig.written().0, [], "{name}: on its way");
    }
    let state = heard(FLOOR + GUARD + 1, None);
    rig.clock.on_heard(P1, state, at(0, FLOOR), &mut rig.commit);
    assert_eq!(rig.written().0.len(), 2);
}

#[test]
fn readings_of_an_earlier_opening_that_wait_are_told_that_this_is_another() {
    let mut rig = Rig::trusted(&engine(1, IdleAfter::Auto));
    let state = Heard {
        now: None,
        next_idle: None,
        waits: false,
        parks: true,
    };
    for want in [1, 0] {
        rig.clock.on_heard(P0, state, at(0, FLOOR), &mut rig.commit);
        assert_eq!(rig.written().0.len(), want);
    }
}

#[test]
fn the_kept_time_is_read_whole_or_not_at_all() {
    for time in [0, -1, FLOOR, i64::MIN, i64::MAX] {
        let value = bytes(EventTime(time));
        assert_eq!(parse(&value), Some(EventTime(time)));
        for cut in 0..value.len() {
            assert_eq!(parse(&value[..cut]), None, "{cut}");
        }
    }
}
