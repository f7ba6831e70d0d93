//! Group commit driven by hand.

use forebay_wire::ids::{BootId, DeviceUid};

use super::*;
use crate::log::block::{Body, Record};
use crate::log::decode::{decode, decode_head};
use crate::log::key::StoredBlock;
use crate::record::GapReason;
use crate::units::{EventTime, PartitionId, TopicId};

const AT: TopicPartition = TopicPartition {
    topic: TopicId(16),
    partition: PartitionId(0),
};

fn row() -> Row {
    Row {
        time: EventTime(1),
        line: b"{}".to_vec(),
    }
}

fn commit() -> GroupCommit {
    GroupCommit::new(Epoch(1), Span(20), BTreeMap::from([(AT, Offset(5))]))
}

fn durable_below(block: &StoredBlock) -> Offset {
    let head = decode_head(block.key, &block.bytes).expect("a block");
    head.durable_below()
}

#[test]
fn a_batch_is_due_when_the_linger_is_over_and_not_before() {
    let mut commit = commit();
    assert_eq!(commit.next_deadline(), None);
    commit.row(AT, &row(), Mono(100));
    assert_eq!(commit.next_deadline(), Some(Mono(120)));
    for (now, due) in [(119, false), (120, true)] {
        assert_eq!(commit.poll(Mono(now)).is_some(), due, "{now}");
    }
}

#[test]
fn a_full_block_does_not_wait() {
    let mut commit = commit();
    let line = vec![b'x'; 4000];
    let big = Row {
        time: EventTime(1),
        line,
    };
    commit.row(AT, &big, Mono(100));
    assert_eq!(commit.next_deadline(), Some(Mono(120)));
    commit.row(AT, &big, Mono(100));
    assert!(commit.poll(Mono(100)).is_some());
}

#[test]
fn what_is_said_of_tables_waits_for_no_others() {
    let mut commit = commit();
    commit.row(AT, &row(), Mono(100));
    let readings = TopicPartition {
        topic: READINGS,
        partition: PartitionId(0),
    };
    let tables = TablesRecord {
        upto: Offset(5),
        time: EventTime(1),
    };
    commit.tables(readings, &tables, Mono(101));
    let (token, batch) = commit.poll(Mono(101)).expect("a batch at once");
    assert_eq!(batch.blocks.len(), 2, "with what waited");
    commit.row(AT, &row(), Mono(102));
    commit.committed(token);
    assert_eq!(
        commit.next_deadline(),
        Some(Mono(122)),
        "the next one waits again"
    );
}

#[test]
fn what_is_hurried_is_due_when_it_was_said_or_after_the_linger() {
    for (name, until, want) in [
        ("sooner", 105, 105),
        ("at the same time", 120, 120),
        ("later", 121, 120),
    ] {
        let mut commit = commit();
        commit.row(AT, &row(), Mono(100));
        commit.hurry(Mono(until));
        commit.hurry(Mono(until + 3));
        assert_eq!(commit.next_deadline(), Some(Mono(want)), "{name}");
    }
}

#[test]
fn the_head_moves_only_when_the_store_confirms_and_one_batch_is_under_way() {
    let mut commit = commit();
    commit.row(AT, &row(), Mono(0));
    let (token, batch) = commit.poll(Mono(20)).expect("due");
    assert_eq!(batch.blocks[0].key.base, Offset(5));
    assert_eq!(durable_below(&batch.blocks[0]), Offset(5));
    commit.row(AT, &row(), Mono(20));
    assert!(commit.poll(Mono(1000)).is_none(), "one at a time");
    assert_eq!((commit.head(AT), commit.next(AT)), (Offset(5), Offset(7)));
    assert_eq!(commit.committed(token).heads, [(AT, Offset(6))]);
    assert_eq!(commit.head(AT), Offset(6));
    assert!(!commit.is_idle());
    let (token, batch) = commit.poll(Mono(1000)).expect("the second");
    assert_eq!(durable_below(&batch.blocks[0]), Offset(6));
    commit.committed(token);
    assert!(commit.is_idle());
}

#[test]
fn pending_records_are_bounded() {
    let mut commit = commit();
    for n in 0..PENDING_RECORDS_MAX {
        assert!(commit.has_room(), "{n}");
        commit.row(AT, &row(), Mono(0));
    }
    assert!(!commit.has_room());
    let (token, _) = commit.poll(Mono(20)).expect("due");
    assert!(!commit.has_room(), "under way still counts");
    commit.committed(token);
    assert!(commit.has_room());
}

fn gap(first: u64, count: u64) -> GapRecord {
    GapRecord {
        uid: DeviceUid([7; 8]),
        boot: BootId(1),
        first: Ordinal(first),
        count,
        reason: GapReason::LogFull,
        time: EventTime(first as i64),
    }
}

fn gaps_of(batch: &WriteBatch) -> Vec<(u64, u64)> {
    let blocks = batch.blocks.iter();
    let bodies = blocks.map(|b| decode(b.key, &b.bytes).expect("a block").body);
    let records = bodies.flat_map(|body| match body {
        Body::Readings { records, .. } => records,
        Body::Rows(_) => Vec::new(),
    });
    let gaps = records.filter_map(|record| match record {
        Record::Gap(gap) => Some((gap.first.0, gap.count)),
        Record::Reading(_) | Record::Clock(_) | Record::Tables(_) => None,
    });
    gaps.collect()
}

#[test]
fn rejected_readings_become_few_gaps_in_the_order_of_ordinals() {
    const READINGS_AT: TopicPartition = TopicPartition {
        topic: READINGS,
        partition: PartitionId(0),
    };
    let mut commit = commit();
    commit.reject(READINGS_AT, &gap(0, 5), Mono(0));
    commit.reject(READINGS_AT, &gap(5, 5), Mono(400_000));
    assert_eq!(commit.next_deadline(), Some(Mono(1_000_000)), "they wait");
    assert!(!commit.is_idle());
    assert!(commit.poll(Mono(999_999)).is_none());
    let (token, batch) = commit.poll(Mono(1_000_000)).expect("due");
    assert_eq!(gaps_of(&batch), [(0, 10)]);
    let source = Source {
        uid: DeviceUid([7; 8]),
        boot: BootId(1),
    };
    let durable = commit.committed(token);
    assert_eq!(durable.sources, BTreeMap::from([(source, Ordinal(10))]));
    // A hole in between, and a gap that the device declares.
    commit.reject(READINGS_AT, &gap(10, 1), Mono(0));
    commit.reject(READINGS_AT, &gap(12, 1), Mono(0));
    commit.gap(READINGS_AT, &gap(13, 2), Mono(0));
    commit.reject(READINGS_AT, &gap(15, 1), Mono(0));
    let (_, batch) = commit.poll(Mono(20)).expect("a gap is due");
    assert_eq!(gaps_of(&batch), [(10, 1), (12, 1), (13, 2), (15, 1)]);
}

#[test]
fn rows_of_a_full_topic_are_counted_and_left_out() {
    let mut commit = commit();
    commit.set_full(BTreeSet::from([AT.topic]));
    assert!(!commit.row(AT, &row(), Mono(0)));
    assert!(!commit.row(AT, &row(), Mono(0)));
    assert_eq!(commit.next(AT), Offset(5));
    assert_eq!(commit.take_refused(), BTreeMap::from([(AT, 2)]));
    commit.set_full(BTreeSet::new());
    assert!(commit.row(AT, &row(), Mono(0)));
    assert_eq!(commit.take_refused(), BTreeMap::new());
}
