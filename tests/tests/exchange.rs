//! Windows that cross devices, by hand: the same lines in one partition and in many, over
//! power cuts, while partitions grow, and when the past is read at once.

use forebay_core::clock::ClockRules;
use forebay_core::engine::config::{
    Aggregate, EngineConfig, Grid, IdleAfter, KeySpec, Source, TimeRules, WindowKind, WindowSpec,
};
use forebay_core::log::topic::{DERIVED_FIRST, EXCHANGE, LATE};
use forebay_core::units::{Span, TopicId};
use forebay_tests::world::hand::Hand;

const SECOND: u64 = 1_000_000;
/// 2026-03-01T00:00:00Z.
const UTC: i64 = 1_772_323_200_000_000;
const NAMES: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];

fn tumbling(name: &str, seconds: i64) -> WindowSpec {
    let grid = Grid::Fixed {
        size: Span(seconds * SECOND as i64),
        offset: Span(0),
    };
    let mut window = WindowSpec::new(name, WindowKind::Tumbling(grid));
    window.aggregates = vec![Aggregate::Count, Aggregate::Sum, Aggregate::Max];
    window
}

/// By device; over all devices; over all devices' windows.
fn engine(across: bool) -> EngineConfig {
    let key = KeySpec {
        device: false,
        channel: true,
    };
    let mut windows = vec![tumbling("each", 1)];
    if across {
        let mut all = tumbling("all", 2);
        all.key = key;
        let mut of_each = tumbling("of_each", 4);
        of_each.key = key;
        of_each.from = Source::Window(0);
        of_each.value = Aggregate::Max;
        windows.extend([all, of_each]);
    }
    EngineConfig {
        time: TimeRules {
            out_of_order: Span(SECOND as i64 / 2),
            idle_after: IdleAfter::After(Span(3 * SECOND as i64)),
            ..TimeRules::default()
        },
        windows,
        ..EngineConfig::default()
    }
}

fn hand(partitions: u16) -> Hand {
    let mut hand = Hand::new(partitions, engine(true), ClockRules::default(), UTC);
    hand.run_until(SECOND / 2);
    hand
}

/// The second `n`: each device four times, some of them silent from a time on.
fn second(hand: &mut Hand, n: u64) {
    for quarter in 0..4 {
        let now = hand.utc();
        let active = NAMES
            .iter()
            .zip(0..)
            .filter(|(_, m)| n < 8 + 2 * *m || n > 30);
        let readings: Vec<_> = active
            .map(|(name, m)| (*name, now, (n * 4 + quarter + 100 * m) as f64))
            .collect();
        hand.import(&readings);
        let next = n * SECOND + quarter * SECOND / 4 + SECOND * 3 / 4;
        hand.run_until(next);
    }
}

fn lines_of(hand: &Hand) -> Vec<Vec<String>> {
    let topics = (0..3).map(|n| TopicId(DERIVED_FIRST.0 + n));
    topics
        .map(|topic| {
            let mut lines = hand.lines(topic);
            lines.sort_unstable();
            lines
        })
        .collect()
}

/// Says which lines differ.
fn compare(name: &str, got: &[Vec<String>], want: &[Vec<String>]) {
    for (got, want) in got.iter().zip(want) {
        let more: Vec<_> = got.iter().filter(|line| !want.contains(line)).collect();
        let less: Vec<_> = want.iter().filter(|line| !got.contains(line)).collect();
        assert!(
            more.is_empty() && less.is_empty(),
            "{name}: {more:#?} for {less:#?}"
        );
        let twice: Vec<_> = got.windows(2).filter(|pair| pair[0] == pair[1]).collect();
        assert!(twice.is_empty(), "{name}: a line twice: {twice:#?}");
    }
}

/// A run of forty seconds; `disturb` is called after each.
fn run(partitions: u16, mut disturb: impl FnMut(&mut Hand, u64)) -> Vec<Vec<String>> {
    let mut hand = hand(partitions);
    for n in 0..40 {
        second(&mut hand, n);
        disturb(&mut hand, n);
    }
    hand.run_until(60 * SECOND);
    assert!(hand.is_settled());
    assert_eq!(hand.lines(LATE), [""; 0]);
    let lines = lines_of(&hand);
    let mut anew = hand.recomputed();
    for (topic, lines) in (DERIVED_FIRST.0..).map(TopicId).zip(&lines) {
        let mut anew = anew.remove(&topic).unwrap_or_default();
        anew.sort_unstable();
        let mut lines = lines.clone();
        lines.dedup_by(|a, b| a == b && a.contains("idle"));
        anew.dedup_by(|a, b| a == b && a.contains("idle"));
        assert_eq!(anew, lines, "{topic:?} computed anew");
    }
    lines
}

#[test]
fn lines_are_the_same_in_one_partition_and_in_many() {
    let want = run(1, |_, _| {});
    assert!(want[1].len() >= 20, "{}", want[1].len());
    assert!(want[2].len() >= 10, "{}", want[2].len());
    for partitions in [2, 4, 16] {
        compare(&partitions.to_string(), &run(partitions, |_, _| {}), &want);
    }
}

#[test]
fn power_cuts_neither_lose_nor_repeat_a_line() {
    let want = run(1, |_, _| {});
    for partitions in [4, 16] {
        let got = run(partitions, |hand, n| {
            if n % 3 == 1 {
                hand.power_cut(hand.utc());
            }
        });
        compare(&partitions.to_string(), &got, &want);
    }
}

#[test]
fn lines_stay_the_same_while_partitions_grow() {
    let want = run(1, |_, _| {});
    for (name, first, steps) in [
        ("from one", 1, &[(9, 4)][..]),
        ("from one, early", 1, &[(0, 16)]),
        ("twice", 1, &[(9, 2), (21, 16)]),
        ("from some", 4, &[(13, 16)]),
    ] {
        let got = run(first, |hand, n| {
            if let Some((_, partitions)) = steps.iter().find(|(at, _)| *at == n) {
                hand.grow(*partitions);
            } else if n % 5 == 3 {
                hand.power_cut(hand.utc());
            }
        });
        // What silence had caused in the old partitions is told in the new ones again.
        let mut got = got;
        got[0].dedup_by(|a, b| a == b && a.contains("idle"));
        compare(name, &got, &want);
    }
}

#[test]
fn a_window_that_is_added_later_is_computed_from_the_past() {
    let want = run(1, |_, _| {});
    for partitions in [1, 4, 16] {
        let mut hand = Hand::new(partitions, engine(false), ClockRules::default(), UTC);
        hand.run_until(SECOND / 2);
        for n in 0..40 {
            second(&mut hand, n);
        }
        hand.run_until(60 * SECOND);
        assert_eq!(hand.lines(EXCHANGE_ROWS), [""; 0]);
        hand.set_engine(engine(true));
        hand.run_until(80 * SECOND);
        assert!(hand.is_settled());
        compare(&partitions.to_string(), &lines_of(&hand), &want);
        assert_eq!(hand.lines(LATE), [""; 0]);
    }
}

/// Of the first window over all devices.
const EXCHANGE_ROWS: TopicId = TopicId(DERIVED_FIRST.0 + 1);

#[test]
fn one_partition_needs_no_exchange_and_each_reading_stands_in_it_once() {
    for (partitions, want) in [(1, false), (4, true)] {
        let mut hand = hand(partitions);
        for n in 0..12 {
            second(&mut hand, n);
            if n % 2 == 0 {
                hand.power_cut(hand.utc());
            }
        }
        hand.run_until(30 * SECOND);
        let (mut given, mut taken) = (Vec::new(), Vec::new());
        for (topic, list) in [
            (forebay_core::log::topic::READINGS, &mut given),
            (EXCHANGE, &mut taken),
        ] {
            list.extend(hand.identities(topic));
            list.sort_unstable();
        }
        assert!(given.len() > 12 * 4 * 8);
        if want {
            assert_eq!(taken, given);
        } else {
            assert_eq!(taken, []);
        }
    }
}
