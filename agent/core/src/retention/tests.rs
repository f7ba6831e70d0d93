//! Retention against a disk that does what it is asked: what goes, what stays,
//! who has to wait.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::limits::SEGMENTS_PER_TOPIC_MAX;
use crate::link::session::Room;
use crate::log::key::TopicPartition;
use crate::log::topic::{LATE, READINGS};
use crate::store::{
    SegmentId, SegmentInfo, SegmentRange, StoreError, StoreEvent, StoreInfo, StoreOpened,
};
use crate::units::{
    Epoch, EventTime, GenerationNo, LogId, Mono, Now, Offset, PartitionId, Span, TopicId,
};

const AT: TopicPartition = TopicPartition {
    topic: READINGS,
    partition: PartitionId(0),
};
/// Configured in all of these tests.
const RESERVE: u64 = 100;
const HOUR_US: i64 = 3_600_000_000;
/// Records in each segment of these tests.
const RECORDS: u64 = 100;

fn policy(quota_bytes: u64, when_full: WhenFull) -> TopicPolicy {
    TopicPolicy {
        quota_bytes,
        age: None,
        when_full,
    }
}

fn config(readings: TopicPolicy) -> SpaceConfig {
    SpaceConfig {
        reserve_bytes: RESERVE,
        topics: BTreeMap::from([("readings".to_owned(), readings)]),
    }
}

fn opened(segments: Vec<SegmentInfo>, head: u64) -> StoreOpened {
    StoreOpened {
        info: StoreInfo {
            log_id: LogId([1; 16]),
            epoch: Epoch(1),
            nonce: 1,
        },
        openings: Vec::new(),
        heads: BTreeMap::from([(AT, Offset(head))]),
        segments,
        losses: Vec::new(),
        notes: Vec::new(),
    }
}

/// Segment number `n` from 0 of a topic, sealed at hour `n`.
fn segment_of(topic: TopicId, n: u64, bytes: u64) -> SegmentInfo {
    SegmentInfo {
        id: SegmentId {
            generation: GenerationNo(n as u32 + 1),
            topic,
        },
        bytes,
        sealed_at: EventTime(n as i64 * HOUR_US),
        ranges: vec![SegmentRange {
            partition: PartitionId(0),
            first: Offset(n * RECORDS),
            end: Offset((n + 1) * RECORDS),
            records: RECORDS,
            time_min: EventTime(n as i64),
            time_max: EventTime(n as i64 + 1),
        }],
    }
}

fn segment(n: u64, bytes: u64) -> SegmentInfo {
    segment_of(READINGS, n, bytes)
}

fn now(utc: i64) -> Now {
    Now {
        mono: Mono(0),
        utc: EventTime(utc),
    }
}

/// A log of `count` segments of `bytes` each, opened when the last was sealed.
fn start(config: SpaceConfig, count: u64, bytes: u64) -> Retention {
    let segments: Vec<_> = (0..count).map(|n| segment(n, bytes)).collect();
    let utc = now(count.saturating_sub(1) as i64 * HOUR_US);
    let opened = opened(segments, count * RECORDS);
    let names = [(READINGS, "readings".into()), (LATE, "late".into())];
    Retention::new(config, names, (&opened, &[]), |_| None, utc)
}

fn progress(sent: u64, done: u64) -> impl Fn(TopicPartition) -> Progress {
    move |_| Progress {
        came: Some(Came {
            sent: Offset(sent),
            arrived: Offset(done),
        }),
        done: Offset(done),
        accounted: Offset(u64::MAX),
        taken: Offset(0),
        kept: Offset(0),
    }
}

fn generations(removed: &[SegmentId]) -> Vec<u32> {
    removed.iter().map(|id| id.generation.0).collect()
}

fn disk(free_bytes: u64) -> StoreEvent {
    StoreEvent::Disk {
        free_bytes,
        live_bytes: 0,
    }
}

#[test]
fn all_of_a_dropped_topic_goes_and_is_counted() {
    // Nobody has it, and it may lose nothing.
    let mut retention = start(config(policy(1 << 20, WhenFull::Block)), 3, 100);
    assert_eq!(retention.poll(progress(0, 0), Mono(0)), []);
    retention.drop_topic(READINGS);
    let removed = retention.poll(progress(0, 0), Mono(0));
    assert_eq!(generations(&removed), [1, 2, 3]);
    assert_eq!(retention.counts(AT).dropped, 3 * RECORDS);
    let sealed = StoreEvent::Sealed(vec![segment(3, 100)]);
    retention.on_event(&sealed, |_| None, Mono(0));
    let removed = retention.poll(progress(0, 0), Mono(0));
    assert_eq!(generations(&removed), [4], "what was not sealed yet");
    retention.drop_topic(TopicId(99));
}

#[test]
fn a_topic_that_is_new_has_the_policy_of_its_name() {
    let mut space = config(policy(1 << 20, WhenFull::Block));
    space
        .topics
        .insert("w".into(), policy(77, WhenFull::DropOldest));
    let mut retention = start(space, 0, 0);
    retention.add_topic(TopicId(17), "w");
    retention.add_topic(READINGS, "w");
    let quotas = retention
        .topics()
        .map(|topic| (topic.topic, topic.policy.quota_bytes));
    let quotas: BTreeMap<_, _> = quotas.collect();
    assert_eq!((quotas[&TopicId(17)], quotas[&READINGS]), (77, 1 << 20));
}

#[test]
fn what_goes_for_the_quota() {
    use WhenFull::{Block, DropOldest, RejectNew};
    // Ten segments of 100 bytes; the quota, what was delivered, and what goes.
    for (name, when_full, quota, done, want, room) in [
        ("at the quota", DropOldest, 1000, 0, 0, Room::Take),
        ("a byte over", DropOldest, 999, 0, 1, Room::Take),
        ("far over", DropOldest, 350, 0, 7, Room::Take),
        (
            "nobody is delivered to",
            RejectNew,
            1000,
            0,
            0,
            Room::Reject,
        ),
        ("the first half was", RejectNew, 640, 500, 4, Room::Take),
        ("too little was", RejectNew, 640, 399, 3, Room::Wait),
        ("a gap's room is left", RejectNew, 960, 0, 0, Room::Reject),
        ("devices wait", Block, 1000, 0, 0, Room::Wait),
        ("delivered in time", Block, 1000, 200, 1, Room::Take),
        ("room enough", Block, 2000, 0, 0, Room::Take),
    ] {
        let mut retention = start(config(policy(quota, when_full)), 10, 100);
        let removed = retention.poll(progress(0, done), Mono(0));
        assert_eq!(
            generations(&removed),
            (1..=want).collect::<Vec<u32>>(),
            "{name}"
        );
        assert_eq!(retention.room(READINGS), room, "{name}");
        let dropped = retention.counts(AT).dropped;
        assert_eq!(dropped, u64::from(want) * RECORDS, "{name}");
        let again = retention.poll(progress(0, done), Mono(0));
        assert_eq!(again, [], "{name}: asked once");
    }
}

#[test]
fn live_bytes_count_and_a_seal_takes_their_place() {
    let mut retention = start(config(policy(1000, WhenFull::DropOldest)), 9, 100);
    assert_eq!(retention.poll(progress(0, 0), Mono(0)), []);
    retention.on_written(AT, Offset(1000), 101);
    let removed = retention.poll(progress(0, 0), Mono(0));
    assert_eq!(generations(&removed), [1]);
    let sealed = StoreEvent::Sealed(vec![segment(9, 50)]);
    retention.on_event(&sealed, |_| None, Mono(0));
    let used: Vec<u64> = retention.topics().map(|topic| topic.used_bytes).collect();
    assert_eq!(used, [850, 0]);
}

#[test]
fn what_the_store_takes_beside_the_blocks_counts_too() {
    let mut retention = start(config(policy(1000, WhenFull::DropOldest)), 5, 100);
    retention.on_written(AT, Offset(600), 100);
    let event = StoreEvent::Disk {
        free_bytes: u64::MAX,
        live_bytes: 501,
    };
    retention.on_event(&event, |_| None, Mono(0));
    let removed = retention.poll(progress(0, 0), Mono(0));
    assert_eq!(generations(&removed), [1]);
}

#[test]
fn segments_are_bounded_in_number() {
    let max = SEGMENTS_PER_TOPIC_MAX as u64;
    for (count, want) in [(max - 1, 0), (max, 0), (max + 1, 1)] {
        let quota = policy(u64::MAX / 100, WhenFull::DropOldest);
        let mut retention = start(config(quota), count, 1);
        let removed = retention.poll(progress(0, 0), Mono(0));
        assert_eq!(removed.len(), want, "{count}");
    }
}

#[test]
fn age_is_measured_from_the_newest_segment_on() {
    // Ten segments of hours 0 to 9, kept for three hours.
    let aged = TopicPolicy {
        age: Some(Span(3 * HOUR_US)),
        ..policy(1 << 40, WhenFull::Block)
    };
    let hours = |n: u64| Mono(n * HOUR_US as u64);
    for (name, opened_at, later, want) in [
        ("at the newest", 9, hours(0), 7),
        ("an hour later", 9, hours(1), 8),
        ("a microsecond before", 9, Mono(hours(1).0 - 1), 7),
        ("opened much later", 100, hours(0), 10),
        ("a clock that is behind", -1000, hours(0), 7),
        ("and goes on from there", -1000, hours(2), 9),
    ] {
        let segments: Vec<_> = (0..10).map(|n| segment(n, 1)).collect();
        let mut retention = Retention::new(
            config(aged),
            [(READINGS, "readings".into())],
            (&opened(segments, 1000), &[]),
            |_| None,
            now(opened_at * HOUR_US),
        );
        let removed = retention.poll(progress(0, 0), later);
        assert_eq!(removed.len(), want, "{name}");
    }
}

#[test]
fn the_next_deadline_is_when_the_oldest_is_too_old() {
    let aged = TopicPolicy {
        age: Some(Span(30 * HOUR_US)),
        ..policy(1 << 40, WhenFull::DropOldest)
    };
    let mut retention = start(config(aged), 10, 1);
    assert_eq!(retention.next_deadline(), Some(Mono(0)), "not yet looked");
    assert_eq!(retention.poll(progress(0, 0), Mono(0)), []);
    let due = retention.next_deadline().expect("one becomes too old");
    assert_eq!(due, Mono(21 * HOUR_US as u64));
    assert_eq!(retention.poll(progress(0, 0), Mono(due.0 - 1)), []);
    assert_eq!(generations(&retention.poll(progress(0, 0), due)), [1]);
}

#[test]
fn the_reserve_takes_the_oldest_of_all_topics() {
    use WhenFull::{Block, DropOldest};
    for (name, when_full, free, want) in [
        ("as much as it wants", DropOldest, RESERVE, vec![]),
        ("a byte less", DropOldest, RESERVE - 1, vec![(1, READINGS)]),
        (
            "two segments less",
            DropOldest,
            0,
            vec![(1, READINGS), (1, LATE)],
        ),
        (
            "what was not delivered stays",
            Block,
            0,
            vec![(1, LATE), (2, LATE)],
        ),
    ] {
        let mut retention = start(config(policy(1 << 40, when_full)), 10, 60);
        let late = (0..10).map(|n| segment_of(LATE, n, 60)).collect();
        retention.on_event(&StoreEvent::Sealed(late), |_| None, Mono(0));
        retention.on_event(&disk(free), |_| None, Mono(0));
        let removed = retention.poll(progress(0, 0), Mono(0));
        let got: Vec<_> = removed
            .iter()
            .map(|id| (id.generation.0, id.topic))
            .collect();
        assert_eq!(got, want, "{name}");
        assert_eq!(retention.poll(progress(0, 0), Mono(0)), [], "{name}");
    }
}

#[test]
fn the_reserve_is_at_most_a_quarter_of_what_the_log_could_have() {
    for (name, used, free, want) in [
        ("an empty log", 0, 400, 100),
        ("on a small disk", 0, 399, 99),
        ("a log on a full disk", 400, 0, 100),
        ("and a smaller one", 396, 0, 99),
        ("a large disk", 1 << 40, 1 << 40, RESERVE),
    ] {
        let mut retention = start(config(policy(1 << 50, WhenFull::DropOldest)), 1, used);
        retention.on_event(&disk(free), |_| None, Mono(0));
        assert_eq!(retention.reserve_bytes(), want, "{name}");
    }
}

#[test]
fn a_disk_at_its_reserve_stops_who_may_not_drop_and_lets_go_with_a_margin() {
    for (when_full, stopped) in [
        (WhenFull::Block, Room::Wait),
        (WhenFull::RejectNew, Room::Reject),
        (WhenFull::DropOldest, Room::Take),
    ] {
        let mut retention = start(config(policy(1 << 40, when_full)), 10, 100);
        for (free, room) in [
            (RESERVE, Room::Take),
            (RESERVE - 1, stopped),
            (RESERVE, stopped),
            (RESERVE + 5, stopped),
            (RESERVE + 6, Room::Take),
            (RESERVE, Room::Take),
        ] {
            retention.on_event(&disk(free), |_| None, Mono(0));
            let removed = retention.poll(progress(0, 0), Mono(0));
            assert!(removed.is_empty() || when_full == WhenFull::DropOldest);
            assert_eq!(retention.room(READINGS), room, "{when_full:?} {free}");
        }
    }
}

#[test]
fn gaps_too_wait_when_the_disk_has_no_room_for_them() {
    let mut retention = start(config(policy(1 << 40, WhenFull::RejectNew)), 10, 100);
    let half = RESERVE / 2;
    for (free, room) in [(half, Room::Reject), (half - 1, Room::Wait)] {
        retention.on_event(&disk(free), |_| None, Mono(0));
        retention.poll(progress(0, 0), Mono(0));
        assert_eq!(retention.room(READINGS), room, "{free}");
    }
}

#[test]
fn a_disk_at_its_reserve_is_told_once_in_a_while() {
    let mut retention = start(config(policy(1 << 40, WhenFull::DropOldest)), 0, 0);
    retention.on_written(AT, Offset(10), 1 << 20);
    for (at, free, said) in [
        (0, RESERVE, 0),
        (1, RESERVE - 1, 1),
        (2, RESERVE, 0),
        (3, 10, 0),
        (600_000_001, 10, 1),
    ] {
        retention.on_event(&disk(free), |_| None, Mono(at));
        retention.poll(progress(0, 0), Mono(at));
        let notes: Vec<_> = std::iter::from_fn(|| retention.poll_note(Mono(at))).collect();
        assert_eq!(notes.len(), said, "{at}: {notes:?}");
        assert_eq!(retention.health().is_some(), free < RESERVE, "{at}");
    }
}

#[test]
fn a_full_disk_makes_room_once_however_often_it_is_told() {
    let mut retention = start(config(policy(1 << 40, WhenFull::DropOldest)), 30, 100);
    let trouble = StoreEvent::Trouble(StoreError {
        doing: "append",
        said: "no space".into(),
        no_space: true,
    });
    retention.on_event(&trouble, |_| None, Mono(0));
    let removed = retention.poll(progress(0, 0), Mono(0));
    assert_eq!(removed.len(), 1, "as much as the reserve");
    assert!(
        retention
            .health()
            .expect("trouble")
            .contains("disk is full")
    );
    retention.on_event(&StoreEvent::Removed(removed), |_| None, Mono(0));
    retention.on_event(&trouble, |_| None, Mono(0));
    assert_eq!(retention.poll(progress(0, 0), Mono(0)), []);
    retention.on_event(&StoreEvent::Recovered, |_| None, Mono(0));
    assert_eq!(retention.health(), None);
}

#[test]
fn a_removal_that_is_not_confirmed_is_asked_for_again() {
    let mut retention = start(config(policy(950, WhenFull::DropOldest)), 10, 100);
    let first = retention.poll(progress(0, 0), Mono(0));
    assert_eq!(generations(&first), [1]);
    assert_eq!(retention.next_deadline(), Some(Mono(30_000_000)));
    for (at, want) in [(29_999_999, 0), (30_000_000, 1), (30_000_001, 0)] {
        let again = retention.poll(progress(0, 0), Mono(at));
        assert_eq!(again.len(), want, "{at}");
    }
    assert_eq!(retention.counts(AT).dropped, RECORDS, "counted once");
    retention.on_event(&StoreEvent::Removed(first), |_| None, Mono(0));
    assert_eq!(retention.poll(progress(0, 0), Mono(90_000_000)), []);
    assert_eq!(retention.next_deadline(), None);
}

#[test]
fn what_was_not_forwarded_is_counted_apart() {
    for (name, sent, want) in [
        ("all", Some(0), 300),
        ("from the middle of a segment", Some(150), 150),
        ("none", Some(1000), 0),
        ("nothing is forwarded", None, 0),
    ] {
        let mut retention = start(config(policy(700, WhenFull::DropOldest)), 10, 100);
        let progress = |_| Progress {
            came: sent.map(|sent| Came {
                sent: Offset(sent),
                arrived: Offset(0),
            }),
            done: Offset(0),
            accounted: Offset(u64::MAX),
            taken: Offset(0),
            kept: Offset(0),
        };
        assert_eq!(retention.poll(progress, Mono(0)).len(), 3);
        assert_eq!(retention.counts(AT).unsent, want, "{name}");
    }
}

#[test]
fn readings_go_only_when_the_accounts_know_them() {
    let aged = TopicPolicy {
        age: Some(Span(3 * HOUR_US)),
        ..policy(1 << 40, WhenFull::DropOldest)
    };
    for (name, space, free) in [
        ("quota", config(policy(700, WhenFull::DropOldest)), u64::MAX),
        ("age", config(aged), u64::MAX),
        ("reserve", config(policy(1 << 40, WhenFull::DropOldest)), 0),
    ] {
        let mut space = space;
        space.reserve_bytes *= 10;
        let mut retention = start(space, 10, 100);
        retention.on_event(&disk(free), |_| None, Mono(0));
        let until = |accounted| {
            move |_| Progress {
                came: None,
                done: Offset(0),
                accounted: Offset(accounted),
                taken: Offset(0),
                kept: Offset(0),
            }
        };
        let mut gone = 0;
        for (accounted, want, waits) in [(99, 0, true), (100, 1, true), (299, 2, true)] {
            gone += retention.poll(until(accounted), Mono(0)).len();
            assert_eq!(gone, want, "{name} {accounted}");
            assert_eq!(retention.wants_accounts(), waits, "{name} {accounted}");
            assert_ne!(retention.next_deadline(), Some(Mono(0)), "{name}");
        }
        gone += retention.poll(until(1000), Mono(0)).len();
        assert!(gone >= 3, "{name}");
        assert!(!retention.wants_accounts(), "{name}");
    }
}

#[test]
fn who_waits_says_up_to_where_it_is_to_be_kept_elsewhere() {
    let mut retention = start(config(policy(700, WhenFull::DropOldest)), 10, 100);
    let other = TopicPartition { topic: LATE, ..AT };
    for (accounted, gone, waiting) in [
        (0, 0, Some(100)),
        (99, 0, Some(100)),
        (100, 1, Some(200)),
        (300, 2, None),
    ] {
        let progress = |_| Progress {
            came: None,
            done: Offset(0),
            accounted: Offset(accounted),
            taken: Offset(u64::MAX),
            kept: Offset(u64::MAX),
        };
        assert_eq!(retention.poll(progress, Mono(0)).len(), gone, "{accounted}");
        assert_eq!(retention.waiting(AT), waiting.map(Offset), "{accounted}");
        assert_eq!(retention.waiting(other), None, "{accounted}");
    }
}

#[test]
fn a_full_disk_does_not_wait_for_the_accounts() {
    let mut retention = start(config(policy(1 << 40, WhenFull::DropOldest)), 30, 100);
    let trouble = StoreEvent::Trouble(StoreError {
        doing: "append",
        said: "no space".into(),
        no_space: true,
    });
    retention.on_event(&trouble, |_| None, Mono(0));
    let unknown = |_| Progress {
        came: None,
        done: Offset(0),
        accounted: Offset(0),
        taken: Offset(0),
        kept: Offset(0),
    };
    assert_eq!(retention.poll(unknown, Mono(0)).len(), 1);
}

#[test]
fn counts_live_on_through_a_restart() {
    let mut before = start(config(policy(700, WhenFull::DropOldest)), 10, 100);
    assert_eq!(before.poll(progress(250, 0), Mono(0)).len(), 3);
    before.refuse_rows(AT, 7);
    let meta = before.take_entries();
    assert_eq!(before.take_entries(), []);
    // The store had not removed the last of the three.
    let segments: Vec<_> = (2..10).map(|n| segment(n, 100)).collect();
    let mut after = Retention::new(
        config(policy(700, WhenFull::DropOldest)),
        [(READINGS, "readings".into())],
        (&opened(segments, 1000), &meta),
        |_| {
            Some(Came {
                sent: Offset(250),
                arrived: Offset(250),
            })
        },
        now(9 * HOUR_US),
    );
    assert_eq!(after.counts(AT), before.counts(AT));
    assert_eq!(generations(&after.poll(progress(250, 0), Mono(0))), [3]);
    let counts = after.counts(AT);
    assert_eq!(
        (counts.dropped, counts.unsent, counts.refused),
        (300, 50, 7)
    );
}

#[test]
fn the_operator_hears_of_it_once_in_a_while() {
    let mut retention = start(config(policy(1000, WhenFull::Block)), 8, 100);
    let notes = |retention: &mut Retention, at: u64| {
        retention.poll(progress(0, 0), Mono(at));
        std::iter::from_fn(|| retention.poll_note(Mono(at))).collect::<Vec<_>>()
    };
    let said = notes(&mut retention, 0);
    assert!(said.len() == 1 && said[0].contains("80 %"), "{said:?}");
    for n in 0..50 {
        retention.on_written(AT, Offset(1000 + n), 200);
        let said = notes(&mut retention, 1 + 2 * n);
        let want = usize::from(n == 0);
        assert_eq!(said.len(), want, "full {n}: {said:?}");
        retention.on_event(
            &StoreEvent::Sealed(vec![segment(20 + n, 0)]),
            |_| None,
            Mono(0),
        );
        assert_eq!(retention.room(READINGS), Room::Wait);
        assert_eq!(notes(&mut retention, 2 + 2 * n), [""; 0], "free {n}");
        assert_eq!(retention.room(READINGS), Room::Take);
    }
    let said = notes(&mut retention, 700_000_000);
    assert!(
        said.len() == 1 && said[0].contains("room again"),
        "{said:?}"
    );
}

/// What happens to a log in the property test.
#[derive(Debug, Clone)]
enum Step {
    Write(u64),
    Seal,
    /// The store removes what it was asked to remove, all but so many.
    Remove(usize),
    Deliver(u64),
    Restart(bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1..60_u64).prop_map(Step::Write),
        3 => Just(Step::Seal),
        3 => (0..3_usize).prop_map(Step::Remove),
        2 => (1..400_u64).prop_map(Step::Deliver),
        1 => any::<bool>().prop_map(Step::Restart),
    ]
}

/// A slow, obvious log: four bytes per record.
struct Model {
    retention: Retention,
    policy: TopicPolicy,
    segments: Vec<SegmentInfo>,
    sealed_to: u64,
    head: u64,
    done: u64,
    asked: Vec<SegmentId>,
    /// Meta entries that are durable, and those of the next batch.
    meta: BTreeMap<Vec<u8>, Vec<u8>>,
    generation: u32,
}

impl Model {
    fn new(policy: TopicPolicy) -> Self {
        Self {
            retention: start(config(policy), 0, 0),
            policy,
            segments: Vec::new(),
            sealed_to: 0,
            head: 0,
            done: 0,
            asked: Vec::new(),
            meta: BTreeMap::new(),
            generation: 0,
        }
    }

    fn act(&mut self, step: &Step) {
        match step {
            Step::Write(records) => {
                if self.retention.room(READINGS) != Room::Take {
                    return;
                }
                self.head += records;
                self.retention
                    .on_written(AT, Offset(self.head), 4 * records);
                self.meta.extend(self.retention.take_entries());
            }
            Step::Seal if self.head > self.sealed_to => {
                self.generation += 1;
                let mut sealed = segment(0, 4 * (self.head - self.sealed_to));
                sealed.id.generation = GenerationNo(self.generation);
                sealed.ranges[0].first = Offset(self.sealed_to);
                sealed.ranges[0].end = Offset(self.head);
                sealed.ranges[0].records = self.head - self.sealed_to;
                self.sealed_to = self.head;
                self.segments.push(sealed.clone());
                let event = StoreEvent::Sealed(vec![sealed]);
                self.retention.on_event(&event, |_| None, Mono(0));
            }
            Step::Seal => {}
            Step::Remove(left) => {
                let count = self.asked.len().saturating_sub(*left);
                let removed: Vec<_> = self.asked.drain(..count).collect();
                self.segments.retain(|s| !removed.contains(&s.id));
                let event = StoreEvent::Removed(removed);
                self.retention.on_event(&event, |_| None, Mono(0));
            }
            Step::Deliver(records) => {
                self.done = self.done.saturating_add(*records).min(self.head);
            }
            Step::Restart(with_meta) => {
                if *with_meta {
                    self.meta.extend(self.retention.take_entries());
                }
                self.asked.clear();
                let meta: Vec<_> = self.meta.clone().into_iter().collect();
                let opened = opened(self.segments.clone(), self.head);
                let names = [(READINGS, "readings".into())];
                let space = config(self.policy);
                self.retention = Retention::new(space, names, (&opened, &meta), |_| None, now(0));
                // Whoever reads finds nothing before what is kept.
                let counted = self.retention.counts(AT).counted_to;
                let first = self.segments.first();
                let first = first.map_or(self.sealed_to, |s| s.ranges[0].first.0);
                if counted < first {
                    let gone = (Offset(counted), Offset(first));
                    self.retention.not_found(AT, gone, None);
                }
            }
        }
    }

    fn judge(&mut self) {
        let removed = self.retention.poll(progress(self.done, self.done), Mono(0));
        for id in removed {
            let segment = self
                .segments
                .iter()
                .find(|s| s.id == id)
                .expect("it is there");
            let delivered = segment.ranges[0].end.0 <= self.done;
            assert!(
                delivered || self.policy.when_full == WhenFull::DropOldest,
                "{id:?} was not delivered"
            );
            self.asked.push(id);
        }
        let kept = |s: &&SegmentInfo| !self.asked.contains(&s.id);
        let sealed: u64 = self.segments.iter().filter(kept).map(|s| s.bytes).sum();
        let first = self.segments.iter().find(kept).map(|s| s.ranges[0].first.0);
        // What is not sealed cannot go.
        let limit = self.policy.quota_bytes;
        if self.policy.when_full == WhenFull::DropOldest && sealed > 0 {
            let used = sealed + 4 * (self.head - self.sealed_to);
            assert!(used <= limit, "{used} of {limit}");
        }
        if let Some(first) = first {
            assert_eq!(self.retention.counts(AT).dropped, first);
        }
    }
}

proptest! {
    #[test]
    fn the_cap_holds_and_every_dropped_record_is_counted_once(
        steps in prop::collection::vec(step(), 1..200),
        quota in 800..8000_u64,
        when_full in prop_oneof![
            Just(WhenFull::DropOldest), Just(WhenFull::RejectNew), Just(WhenFull::Block)
        ],
    ) {
        let mut model = Model::new(policy(quota, when_full));
        for step in &steps {
            model.act(step);
            model.judge();
        }
    }

    #[test]
    fn a_topic_that_waits_goes_on_once_all_is_delivered(
        steps in prop::collection::vec(step(), 1..100),
        quota in 800..8000_u64,
        when_full in prop_oneof![Just(WhenFull::RejectNew), Just(WhenFull::Block)],
    ) {
        let mut model = Model::new(policy(quota, when_full));
        for step in &steps {
            model.act(step);
            model.judge();
        }
        for step in [Step::Seal, Step::Deliver(u64::MAX / 2), Step::Remove(0)] {
            model.act(&step);
            model.judge();
        }
        prop_assert_eq!(model.retention.room(READINGS), Room::Take);
    }
}
