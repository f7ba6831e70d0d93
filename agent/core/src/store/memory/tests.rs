//! The twin's promises: what a crash leaves, what a full disk refuses, what goes
//! when it is removed.

use super::*;
use crate::log::block::Row;
use crate::log::builder::RowsBuilder;
use crate::store::SegmentInfo;
use crate::units::{PartitionId, TopicId};

const AT: TopicPartition = TopicPartition {
    topic: TopicId(1),
    partition: PartitionId(2),
};

fn batch(base: u64) -> WriteBatch {
    WriteBatch {
        blocks: vec![StoredBlock {
            key: BlockKey {
                at: AT,
                base: Offset(base),
                chunk: 0,
            },
            bytes: vec![base as u8; 10],
        }],
        meta: vec![(b"head".to_vec(), base.to_be_bytes().to_vec())],
    }
}

fn bases(store: &MemoryStore) -> Vec<u64> {
    let blocks = store.read(AT, Offset(0), usize::MAX).unwrap();
    blocks.iter().map(|block| block.key.base.0).collect()
}

#[test]
fn a_crash_keeps_what_was_synced_and_a_prefix_of_the_rest() {
    for (keep, want) in [
        (0, vec![0]),
        (1, vec![0, 10]),
        (2, vec![0, 10, 20]),
        (9, vec![0, 10, 20]),
    ] {
        let mut store = MemoryStore::create(LogId([7; 16]), 1);
        store.append(&batch(0)).unwrap();
        store.sync().unwrap();
        store.append(&batch(10)).unwrap();
        store.append(&batch(20)).unwrap();
        assert_eq!(store.unsynced(), 2);
        let info = store.crash(keep, 99);
        assert_eq!((info.epoch, info.nonce), (Epoch(2), 99));
        assert_eq!(bases(&store), want, "keep {keep}");
        let head = want.last().unwrap().to_be_bytes().to_vec();
        assert_eq!(store.meta(b"head").unwrap(), Some(head), "keep {keep}");
    }
}

#[test]
fn fails_on_demand_and_stays_failed_until_reopened() {
    let faults = |append, sync| Faults {
        append,
        sync,
        no_space: true,
    };
    for (name, faults, appends_ok, syncs_ok) in [
        ("first append", faults(Some(0), None), 0, 0),
        ("second append", faults(Some(1), None), 1, 1),
        ("first sync", faults(None, Some(0)), 1, 0),
        ("third sync", faults(None, Some(2)), 3, 2),
    ] {
        let mut store = MemoryStore::create(LogId([7; 16]), 1);
        store.set_faults(faults);
        let (mut appends, mut syncs) = (0, 0);
        for base in 0..5 {
            appends += u64::from(store.append(&batch(base)).is_ok());
            syncs += u64::from(store.sync().is_ok());
        }
        assert_eq!((appends, syncs), (appends_ok, syncs_ok), "{name}");
        assert!(store.sync().unwrap_err().no_space, "{name}");
        store.crash(0, 2);
        assert_eq!(bases(&store).len() as u64, syncs_ok, "{name}");
        store.append(&batch(50)).unwrap();
        store.sync().unwrap();
    }
}

/// One batch with one row of `bytes` bytes at `base`.
fn row_batch(base: u64, bytes: usize) -> WriteBatch {
    let mut builder = RowsBuilder::default();
    let row = Row {
        time: EventTime(base as i64),
        line: vec![b'x'; bytes],
    };
    builder.push(&row).expect("it fits");
    WriteBatch {
        blocks: vec![StoredBlock {
            key: BlockKey {
                at: AT,
                base: Offset(base),
                chunk: 0,
            },
            bytes: builder.seal(AT, Offset(base), Epoch(1)),
        }],
        meta: vec![(b"head".to_vec(), base.to_be_bytes().to_vec())],
    }
}

fn on_disk(generation_bytes: u64, capacity_bytes: u64) -> MemoryStore {
    MemoryStore::create(LogId([7; 16]), 1).on_disk(MemoryDisk {
        generation_bytes,
        capacity_bytes,
        foreign_bytes: 0,
    })
}

fn write(store: &mut MemoryStore, base: u64, bytes: usize) -> Result<(), StoreError> {
    store.append(&row_batch(base, bytes))?;
    store.sync()
}

fn sealed(store: &mut MemoryStore) -> Vec<SegmentInfo> {
    let events = std::iter::from_fn(|| store.poll_event());
    let sealed = events.filter_map(|event| match event {
        StoreEvent::Sealed(segments) => Some(segments),
        StoreEvent::Removed(_)
        | StoreEvent::Disk { .. }
        | StoreEvent::Trouble(_)
        | StoreEvent::Recovered
        | StoreEvent::Lost(_)
        | StoreEvent::Note(_)
        | StoreEvent::Written(_)
        | StoreEvent::SetAside(_) => None,
    });
    sealed.flatten().collect()
}

#[test]
fn a_generation_is_sealed_into_segments_that_can_be_removed() {
    let mut store = on_disk(3000, u64::MAX);
    for base in 0..10 {
        write(&mut store, base, 1000).unwrap();
    }
    let segments = sealed(&mut store);
    let ranges: Vec<_> = segments
        .iter()
        .flat_map(|info| &info.ranges)
        .map(|range| (range.first.0, range.end.0, range.records))
        .collect();
    assert_eq!(ranges, [(0, 3, 3), (3, 6, 3), (6, 9, 3)]);
    assert_eq!(bases(&store), [0, 3, 6, 9], "small blocks were merged");
    store.remove(&[segments[0].id, segments[1].id]).unwrap();
    assert_eq!(bases(&store), [6, 9]);
    let opened = store.opened();
    assert_eq!(opened.segments, segments[2..]);
    assert_eq!(opened.heads[&AT], Offset(10));
    store.remove(&[segments[0].id]).unwrap();
    assert_eq!(bases(&store), [6, 9], "one that is not there");
}

#[test]
fn the_head_stays_when_all_is_removed() {
    let mut store = on_disk(1, u64::MAX);
    write(&mut store, 0, 10).unwrap();
    let segments = sealed(&mut store);
    store.remove(&[segments[0].id]).unwrap();
    store.crash(0, 2);
    assert_eq!(bases(&store), [0_u64; 0]);
    assert_eq!(store.opened().heads[&AT], Offset(1));
}

#[test]
fn a_crash_may_leave_blocks_without_meta_and_files_whose_removal_was_not_synced() {
    for (name, crash, want, meta) in [
        ("nothing", (0, 0, false), vec![1], 1),
        ("removals undone", (0, 0, true), vec![0, 1], 1),
        ("blocks only", (1, 0, false), vec![1, 2], 1),
        ("all", (1, 1, true), vec![0, 1, 2], 2),
    ] {
        let mut store = on_disk(1, u64::MAX);
        write(&mut store, 0, 10).unwrap();
        write(&mut store, 1, 10).unwrap();
        let segments = sealed(&mut store);
        store.remove(&[segments[0].id]).unwrap();
        store.append(&row_batch(2, 10)).unwrap();
        let (keep_batches, keep_meta, undo_removals) = crash;
        let crash = Crash {
            keep_batches,
            keep_meta,
            undo_removals,
        };
        store.crash_leaving(crash, 2);
        assert_eq!(bases(&store), want, "{name}");
        let head = u64::to_be_bytes(meta).to_vec();
        assert_eq!(store.meta(b"head").unwrap(), Some(head), "{name}");
        assert_eq!(
            store.opened().segments.len(),
            1 + usize::from(undo_removals)
        );
    }
}

#[test]
fn a_full_disk_takes_nothing_until_there_is_room_and_it_is_opened_again() {
    let mut store = on_disk(1, 3000);
    write(&mut store, 0, 1000).unwrap();
    write(&mut store, 1, 1000).unwrap();
    let error = write(&mut store, 2, 1000).unwrap_err();
    assert!(error.no_space);
    assert!(write(&mut store, 2, 1).is_err(), "not before a reopening");
    store.recover().unwrap();
    assert!(write(&mut store, 2, 1000).is_err(), "not without room");
    let segments = store.opened().segments;
    store
        .remove(&segments[..1].iter().map(|s| s.id).collect::<Vec<_>>())
        .unwrap();
    store.recover().unwrap();
    write(&mut store, 2, 1000).unwrap();
    assert_eq!(bases(&store), [1, 2]);
    store.set_foreign_bytes(900);
    assert!(write(&mut store, 3, 1000).unwrap_err().no_space);
    let mut disks = std::iter::from_fn(|| store.poll_event());
    let last = disks.by_ref().last();
    assert!(
        matches!(last, Some(StoreEvent::Disk { free_bytes, .. }) if free_bytes < 1000),
        "{last:?}"
    );
}
