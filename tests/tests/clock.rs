//! The gateway's clock, by hand: silence and return, a device that is ahead, a start in
//! 1970, a power cut, a clock that was far ahead; the same in one partition and in many.

use std::collections::BTreeMap;

use forebay_core::clock::{ClockRules, TrustRule};
use forebay_core::engine::config::{
    EngineConfig, Grid, IdleAfter, TimeRules, WindowKind, WindowSpec,
};
use forebay_core::log::topic::{DERIVED_FIRST, LATE, QUARANTINE};
use forebay_core::query::{ChannelName, ChannelQuery, Query, TimeRange};
use forebay_core::record::{ClockTrust, Record};
use forebay_core::units::{EventTime, Span};
use forebay_tests::world::hand::Hand;
use serde_json::{Value, json};

const SECOND: u64 = 1_000_000;
/// 2026-03-01T00:00:00Z.
const UTC: i64 = 1_772_323_200_000_000;
const HOUR: i64 = 3_600_000_000;

fn engine(idle_after: IdleAfter) -> EngineConfig {
    let grid = Grid::Fixed {
        size: Span(SECOND as i64),
        offset: Span(0),
    };
    EngineConfig {
        time: TimeRules {
            out_of_order: Span(300_000),
            idle_after,
            ..TimeRules::default()
        },
        windows: vec![WindowSpec::new("w", WindowKind::Tumbling(grid))],
        ..EngineConfig::default()
    }
}

fn auto() -> ClockRules {
    ClockRules {
        trust: TrustRule::Auto,
        not_before: EventTime(UTC - 24 * HOUR),
    }
}

fn idle_1s() -> EngineConfig {
    engine(IdleAfter::After(Span(SECOND as i64)))
}

fn parsed(lines: &[String]) -> Vec<Value> {
    let value = |line: &String| serde_json::from_str(line).expect("JSON");
    lines.iter().map(value).collect()
}

fn clocks(hand: &Hand) -> Vec<(i64, ClockTrust)> {
    let records = hand.records().into_iter();
    let clocks = records.filter_map(|record| match record {
        Record::Clock(clock) => Some((clock.now.0, clock.trust)),
        Record::Reading(_) | Record::Gap(_) | Record::Tables(_) => None,
    });
    clocks.collect()
}

fn readings(hand: &Hand) -> usize {
    let is_reading = |record: &Record| matches!(record, Record::Reading(_));
    hand.records().iter().filter(|r| is_reading(r)).count()
}

/// Sum of the counts of the last revisions.
fn counted(lines: &[String]) -> u64 {
    let mut last = BTreeMap::new();
    for line in parsed(lines) {
        let key = ["device", "channel", "start"].map(|key| line[key].to_string());
        last.insert(key, line["count"].as_u64().expect("a count"));
    }
    last.values().sum()
}

#[test]
fn a_device_that_falls_silent_and_returns_with_its_backlog_loses_nothing() {
    let mut hand = Hand::new(1, idle_1s(), auto(), UTC);
    hand.add_device(0xd0);
    hand.run_until(5 * SECOND + 300_000);
    let before = hand.lines(DERIVED_FIRST).len();
    assert!(before >= 6, "{before}");
    hand.unplug(0);
    hand.run_until(7 * SECOND + 300_000);
    let silent = parsed(&hand.lines(DERIVED_FIRST));
    let idle: Vec<_> = silent.iter().filter(|l| l["reason"] == "idle").collect();
    assert!((2..=4).contains(&idle.len()), "what was open: {idle:?}");
    assert!(idle.iter().all(|line| line["final"] == false), "{idle:?}");
    hand.power_cut(hand.utc());
    hand.plug(0);
    hand.run_until(12 * SECOND);
    hand.stop_sampling();
    hand.run_until(30 * SECOND);
    assert_eq!(hand.lines(LATE), [""; 0], "the backlog is not late");
    let lines = hand.lines(DERIVED_FIRST);
    let again = parsed(&lines);
    // What came in the silence is in the windows that it had left open.
    let revised = again.iter().filter(|line| line["revision"] == 1);
    let revised: Vec<_> = revised.collect();
    assert!((1..=idle.len()).contains(&revised.len()), "{revised:?}");
    for line in revised {
        assert_eq!(
            (&line["final"], &line["reason"]),
            (&json!(true), &Value::Null)
        );
        let key = |line: &Value| (line["channel"].clone(), line["start"].clone());
        let before = idle.iter().find(|idle| key(idle) == key(line));
        let before = before.expect("it was written in the silence");
        assert!(
            line["count"].as_u64() > before["count"].as_u64(),
            "{before} {line}"
        );
    }
    let unique: std::collections::BTreeSet<_> = lines.iter().collect();
    assert_eq!(unique.len(), lines.len(), "a line twice");
    let faults = again.iter().filter(|line| line["count"] == 0).count();
    let counted = counted(&lines) as usize;
    // Faults of the sensor are readings without a value.
    let all = readings(&hand);
    assert!(
        counted <= all && counted * 100 >= all * 90,
        "{counted} of {all}, {faults}"
    );
    // All silent: nobody waits for a clock any more.
    let written = clocks(&hand).len();
    hand.run_until(500 * SECOND);
    assert_eq!(clocks(&hand).len(), written);
    assert!(hand.is_settled());
}

#[test]
fn clocks_are_few() {
    let mut hand = Hand::new(1, engine(IdleAfter::Auto), auto(), UTC);
    hand.add_device(0xd0);
    hand.run_until(60 * SECOND);
    let while_sending = clocks(&hand);
    assert!((6..=7).contains(&while_sending.len()), "{while_sending:?}");
    hand.stop_sampling();
    hand.run_until(1000 * SECOND);
    let after = clocks(&hand).len() - while_sending.len();
    assert_eq!(after, 1, "the one at which the device falls idle");
    let idle = parsed(&hand.lines(DERIVED_FIRST));
    assert!(idle.iter().any(|line| line["reason"] == "idle"));
}

/// Readings of healthy devices each second, and of one that is an hour ahead.
fn beside_one_that_is_ahead(partitions: u16, ahead: bool) -> Hand {
    let mut hand = Hand::new(partitions, idle_1s(), auto(), UTC);
    hand.run_until(SECOND / 2);
    for n in 0..20_u64 {
        let now = hand.utc();
        let mut readings: Vec<(&str, i64, f64)> = ["h1", "h2", "h3", "h4", "h5"]
            .iter()
            .map(|device| (*device, now, n as f64))
            .collect();
        if ahead {
            readings.insert(0, ("fast", now + HOUR, 1.0));
            // Exactly as far as is allowed, by the clock of now.
            readings.push(("edge", now + 300_000_000, 1.0));
            readings.push(("past", now + 300_000_001, 1.0));
        }
        hand.import(&readings);
        hand.run_until((n + 1) * SECOND + SECOND / 2);
    }
    hand.run_until(60 * SECOND);
    hand
}

#[test]
fn a_device_an_hour_ahead_is_set_aside_and_spoils_nobody() {
    let healthy = |hand: &Hand| {
        let mut lines = hand.lines(DERIVED_FIRST);
        lines.retain(|line| line.contains("\"device\":\"") && !line.contains("300"));
        lines.sort_unstable();
        lines
    };
    let alone = beside_one_that_is_ahead(1, false);
    assert_eq!(alone.lines(QUARANTINE), [""; 0]);
    let want = alone.lines(DERIVED_FIRST);
    assert!(want.len() >= 5 * 20, "{}", want.len());
    for partitions in [1, 4, 16] {
        let hand = beside_one_that_is_ahead(partitions, true);
        let aside = parsed(&hand.lines(QUARANTINE));
        assert_eq!(aside.len(), 40, "{partitions}: {aside:?}");
        assert!(aside.iter().all(|line| line["reason"] == "future"));
        let names: std::collections::BTreeSet<String> = aside
            .iter()
            .map(|line| line["device"].to_string())
            .collect();
        assert_eq!(names.len(), 2, "{names:?}");
        assert_eq!(hand.lines(LATE), [""; 0]);
        let got = healthy(&hand);
        for line in &want {
            assert!(got.contains(line), "{partitions}: {line}");
        }
        // And the one at the edge.
        assert!(hand.lines(DERIVED_FIRST).len() > want.len());
    }
}

#[test]
fn silence_gives_the_same_lines_in_one_partition_and_in_many() {
    let run = |partitions| {
        let mut hand = Hand::new(partitions, idle_1s(), auto(), UTC);
        for n in 0..12_u64 {
            let now = hand.utc();
            let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
            // Each falls silent at another time; the first returns.
            let active = names
                .iter()
                .zip(0_u64..)
                .filter(|(_, m)| n <= *m || (*m == 0 && n > 8));
            let readings: Vec<_> = active.map(|(name, _)| (*name, now, n as f64)).collect();
            hand.import(&readings);
            hand.run_until((n + 1) * SECOND);
        }
        hand.run_until(100 * SECOND);
        let mut lines = hand.lines(DERIVED_FIRST);
        lines.sort_unstable();
        lines
    };
    let want = run(1);
    assert!(want.iter().filter(|line| line.contains("idle")).count() >= 9);
    for partitions in [4, 16] {
        assert_eq!(run(partitions), want, "{partitions}");
    }
}

#[test]
fn a_start_in_1970_gives_the_results_of_a_clock_that_was_right() {
    let run = |partitions, right: bool| {
        let start = if right { UTC } else { 7 * SECOND as i64 };
        let mut hand = Hand::new(partitions, engine(IdleAfter::Auto), auto(), start);
        for uid in 0xd0..0xd3 {
            hand.add_device(uid);
        }
        hand.run_until(6 * SECOND);
        if !right {
            assert_eq!(hand.lines(DERIVED_FIRST), [""; 0], "they wait");
            assert!(hand.notes.iter().any(|note| note.contains("not trusted")));
        }
        hand.set_clock(UTC + 6 * SECOND as i64);
        hand.run_until(12 * SECOND);
        hand.stop_sampling();
        hand.run_until(200 * SECOND);
        assert_eq!(hand.lines(QUARANTINE), [""; 0]);
        let mut lines = hand.lines(DERIVED_FIRST);
        lines.sort_unstable();
        lines
    };
    for partitions in [1, 4, 16] {
        let want = run(partitions, true);
        assert!(want.len() > 3 * 12, "{}", want.len());
        let got = run(partitions, false);
        assert!(got.iter().all(|line| !line.contains("1970")));
        assert_eq!(got, want, "{partitions}");
    }
}

#[test]
fn a_reading_whose_time_is_not_known_is_never_shown_as_of_1970() {
    let mut hand = Hand::new(1, engine(IdleAfter::Auto), auto(), 7 * SECOND as i64);
    hand.add_device(0xd0);
    hand.run_until(6 * SECOND);
    let lines = hand.lines(DERIVED_FIRST);
    hand.set_clock(UTC + 6 * SECOND as i64);
    hand.run_until(12 * SECOND);
    let after = hand.lines(DERIVED_FIRST);
    assert!(lines.is_empty() && !after.is_empty(), "they were put right");
    let channel = |line: &Value| ChannelName {
        device: line["device"].as_str().expect("a name").to_owned(),
        channel: line["channel"].as_str().expect("a name").to_owned(),
    };
    let channel = channel(&parsed(&after)[0]);
    let range = TimeRange::default();
    let size = Span(SECOND as i64);
    for (name, query) in [
        ("readings", ChannelQuery::Readings { range }),
        ("rollup", ChannelQuery::Rollup { size, range }),
    ] {
        let said = hand
            .ask(Query::Channel(channel.clone(), query))
            .expect("an answer")
            .to_string();
        assert!(said.contains("2026-03-01"), "{name}: {said}");
        assert!(!said.contains("1970"), "{name}: {said}");
    }
}

#[test]
fn a_power_cut_before_the_clock_was_right_loses_no_reading_and_locks_nobody_out() {
    let mut hand = Hand::new(1, engine(IdleAfter::Auto), auto(), 0);
    hand.add_device(0xd0);
    hand.run_until(4 * SECOND);
    let unknown = readings(&hand);
    assert!(unknown > 50, "{unknown}");
    // Again without a clock, and once more; then the system says that it is right.
    hand.power_cut(0);
    hand.run_until(6 * SECOND);
    hand.power_cut(UTC);
    hand.run_until(10 * SECOND);
    hand.stop_sampling();
    hand.run_until(100 * SECOND);
    let aside = parsed(&hand.lines(QUARANTINE));
    assert!(aside.len() >= unknown, "{} of {unknown}", aside.len());
    assert!(
        aside.iter().all(|line| line["reason"] == "clock"),
        "{aside:?}"
    );
    let lines = parsed(&hand.lines(DERIVED_FIRST));
    assert!(lines.len() >= 6, "{lines:?}");
    let late = hand.lines(LATE);
    assert_eq!(late, [""; 0]);
    let seen = aside.len() + counted(&hand.lines(DERIVED_FIRST)) as usize;
    let all = readings(&hand);
    assert!(seen <= all && seen * 100 >= all * 95, "{seen} of {all}");
}

#[test]
fn a_clock_that_is_synchronised_is_trusted_whatever_the_log_knows() {
    let mut hand = Hand::new(1, engine(IdleAfter::Auto), auto(), UTC + 1000 * HOUR);
    hand.add_device(0xd0);
    hand.run_until(3 * SECOND);
    hand.power_cut(UTC);
    hand.run_until(6 * SECOND);
    let is_waiting = |hand: &Hand| matches!(clocks(hand).last(), Some((_, ClockTrust::No)));
    assert!(is_waiting(&hand), "behind what the log knows");
    hand.synchronised();
    hand.run_until(9 * SECOND);
    assert!(!is_waiting(&hand));
}

#[test]
fn a_clock_that_was_years_ahead_locks_nobody_out() {
    for partitions in [1, 4] {
        let years = 12 * 365 * 24 * HOUR;
        let mut hand = Hand::new(partitions, engine(IdleAfter::Auto), auto(), UTC + years);
        for uid in 0xd0..0xd3 {
            hand.add_device(uid);
        }
        hand.run_until(3 * SECOND);
        // A power cut, and the right time, which nobody vouches for: believed in the end.
        hand.power_cut(UTC);
        hand.run_until(4 * SECOND);
        assert!(
            hand.notes
                .iter()
                .any(|note| note.contains("the log knows of"))
        );
        // Not to measure the bound of readings that wait.
        (0..3).for_each(|device| hand.unplug(device));
        hand.run_until(605 * SECOND);
        (0..3).for_each(|device| hand.plug(device));
        hand.run_until(620 * SECOND);
        hand.stop_sampling();
        hand.run_until(900 * SECOND);
        let lines = parsed(&hand.lines(DERIVED_FIRST));
        let now = |line: &&Value| {
            line["start"]
                .as_str()
                .is_some_and(|t| t.starts_with("2026"))
        };
        let counted: u64 = lines
            .iter()
            .filter(now)
            .map(|l| l["count"].as_u64().unwrap_or(0))
            .sum();
        assert!(counted > 3 * 20 * 15, "{counted}");
        assert_eq!(hand.lines(LATE), [""; 0]);
        let idle = lines
            .iter()
            .filter(now)
            .filter(|line| line["reason"] == "idle");
        assert!(idle.count() >= 3, "they fall idle by the right clock");
    }
}
