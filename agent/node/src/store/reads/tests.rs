//! Reads beside the storage thread while the log changes under them.

use std::path::Path;
use std::time::Duration;

use forebay_core::log::appender::Appender;
use forebay_core::log::block::Row;
use forebay_core::store::{Store as _, StoreEvent, WriteBatch};
use forebay_core::units::{Mono, PartitionId, TopicId};

use super::super::samples::rows_block;
use super::super::{LogStore, StoreSettings};
use super::*;

const AT: TopicPartition = TopicPartition {
    topic: TopicId(16),
    partition: PartitionId(1),
};

fn open(dir: &Path) -> LogStore {
    let settings = StoreSettings {
        generation_bytes: 64 * 1024,
        generation_age: Duration::from_secs(3600),
        ballast_bytes: 0,
    };
    LogStore::open(dir, settings).unwrap().0
}

fn append(store: &mut LogStore, blocks: Vec<StoredBlock>) {
    store
        .append(&WriteBatch {
            blocks,
            meta: Vec::new(),
        })
        .unwrap();
    store.sync().unwrap();
}

/// Ten rows from `base` on.
fn ten(store: &mut LogStore, base: u64) {
    let epoch = store.info().epoch.0;
    append(store, vec![rows_block(AT, base, 10, epoch, 30)]);
}

fn what(first: u64, end: u64) -> ReadWhat<'static> {
    ReadWhat {
        at: AT,
        range: Offset(first)..Offset(end),
        times: EventTime(i64::MIN)..EventTime(i64::MAX),
        keys: None,
        bytes_max: usize::MAX,
    }
}

/// Bases of the blocks, missing offsets, and where to go on.
fn read(reads: &LogReads, what: &ReadWhat<'_>) -> (Vec<u64>, Vec<(u64, u64)>, u64) {
    let part = reads.read(what).unwrap();
    let bases = part.blocks.iter().map(|block| block.key.base.0).collect();
    let missing = part.missing.iter().map(|m| (m.start.0, m.end.0));
    (bases, missing.collect(), part.next.0)
}

#[test]
fn sealed_and_unsealed_blocks_are_one_log() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    let reads = store.reads();
    ten(&mut store, 0);
    store.seal_all().unwrap();
    ten(&mut store, 10);
    ten(&mut store, 20);
    for (name, first, end, want) in [
        ("all", 0, 30, (vec![0, 10, 20], vec![], 30)),
        (
            "from inside of a block",
            5,
            30,
            (vec![0, 10, 20], vec![], 30),
        ),
        ("to inside of a block", 0, 15, (vec![0, 10], vec![], 20)),
        ("one that is sealed", 0, 10, (vec![0], vec![], 10)),
        (
            "what does not stand there",
            25,
            40,
            (vec![20], vec![(30, 40)], 40),
        ),
        ("nothing", 30, 30, (vec![], vec![], 30)),
    ] {
        assert_eq!(read(&reads, &what(first, end)), want, "{name}");
    }
    let little = ReadWhat {
        bytes_max: 1,
        ..what(0, 30)
    };
    assert_eq!(
        read(&reads, &little),
        (vec![0], vec![], 10),
        "one in any case"
    );
}

#[test]
fn a_read_goes_on_while_the_log_is_sealed() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    let reads = store.reads();
    for base in [0, 10, 20] {
        ten(&mut store, base);
    }
    let before = reads.view();
    store.seal_all().unwrap();
    // The view of before is still whole, and so is that of now.
    let mut part = Part::new(&what(0, 30));
    for source in &before.unsealed {
        let Readable::Blocks(blocks) = source else {
            panic!("it was the newest");
        };
        blocks.read(AT, Offset(0), &mut |block| part.take(block));
    }
    assert_eq!(part.out.blocks.len(), 3);
    let (bases, missing, next) = read(&reads, &what(0, 30));
    assert_eq!((bases.first(), missing, next), (Some(&0), vec![], 30));
}

#[test]
fn what_is_removed_between_plan_and_read_is_told_as_missing() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    let reads = store.reads();
    let mut segments = Vec::new();
    for base in [0, 10, 20] {
        ten(&mut store, base);
        store.seal_all().unwrap();
        while let Some(event) = store.poll_event() {
            if let StoreEvent::Sealed(infos) = event {
                segments.extend(infos.into_iter().map(|info| info.id));
            }
        }
    }
    assert_eq!(segments.len(), 3);
    let before = reads.view();
    store.remove(&segments[..2]).unwrap();
    assert_eq!(read(&reads, &what(0, 30)), (vec![20], vec![(0, 20)], 30));
    // A view that was taken before names files that are gone.
    reads.show(View {
        places: before.places.clone(),
        unsealed: before.unsealed.clone(),
    });
    assert_eq!(read(&reads, &what(0, 30)), (vec![20], vec![(0, 20)], 30));
    // What stands behind a hole does not hide it.
    assert_eq!(read(&reads, &what(3, 15)), (vec![], vec![(3, 15)], 15));
    // All of it went.
    store.remove(&segments[2..]).unwrap();
    assert_eq!(read(&reads, &what(0, 30)), (vec![], vec![(0, 30)], 30));
}

#[test]
fn a_file_that_was_open_is_read_on_after_its_removal() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    let reads = store.reads();
    ten(&mut store, 0);
    store.seal_all().unwrap();
    let (places, unsealed) = (reads.view().places.clone(), reads.view().unsealed.clone());
    let (_, stretch) = segment_from(&places[&AT], Offset(0)).unwrap();
    let file = reads.file(stretch.id).unwrap().unwrap();
    store.remove(&[stretch.id]).unwrap();
    let mut part = Part::new(&what(0, 10));
    let more = reads.read_segment((stretch.id, &file), Offset(0), &what(0, 10), &mut part);
    assert!(!more.unwrap());
    assert_eq!(part.out.blocks.len(), 1);
    drop((places, unsealed));
}

#[test]
fn blocks_of_other_times_are_passed_over_and_not_missing() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    let reads = store.reads();
    // Times are those of the offsets.
    for base in [0, 10] {
        ten(&mut store, base);
        store.seal_all().unwrap();
    }
    ten(&mut store, 20);
    for (times, want) in [
        ((0, 30), vec![0, 10, 20]),
        ((9, 10), vec![0]),
        ((10, 20), vec![10]),
        ((25, 99), vec![20]),
        ((30, 99), vec![]),
    ] {
        let what = ReadWhat {
            times: EventTime(times.0)..EventTime(times.1),
            ..what(0, 30)
        };
        assert_eq!(read(&reads, &what), (want, vec![], 30), "{times:?}");
    }
}

fn window_row(key: u64, time: i64) -> Row {
    let line =
        format!("{{\"stream\":\"m\",\"device\":\"{key}\",\"channel\":\"t\",\"start\":\"x\"}}");
    Row {
        time: EventTime(time),
        line: line.into_bytes(),
    }
}

#[test]
fn rows_are_found_by_their_keys() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    let reads = store.reads();
    let mut appender = Appender::rows(AT, store.info().epoch, Offset(0));
    // Each key in a run of its own, so that few blocks have it.
    let keys = 40;
    let per_key = 200;
    for key in 0..keys {
        for n in 0..per_key {
            appender.push_row(&window_row(key, n), Mono(0));
        }
    }
    appender.seal();
    let blocks: Vec<_> = appender.take_sealed().collect();
    assert!(blocks.len() > 40, "{}", blocks.len());
    for blocks in blocks.chunks(8) {
        append(&mut store, blocks.to_vec());
    }
    let end = keys * per_key as u64;
    check_keys(&reads, (keys, per_key), end);
    // All at once and by little reads; and what is known of keys already is used.
    for bytes_max in [1, 20_000] {
        let nobody = [KeyHash::of(b"nobody")];
        assert_eq!(all_of(&reads, &nobody, end, bytes_max), []);
    }
    store.seal_all().unwrap();
    check_keys(&reads, (keys, per_key), end);
}

fn check_keys(reads: &LogReads, (keys, per_key): (u64, i64), end: u64) {
    let (all, _, _) = read(reads, &what(0, end));
    for key in [0, 7, keys - 1] {
        let row = window_row(key, 0).line;
        let hash = KeyHash::of(forebay_core::query::row_key(&row).unwrap());
        let keys = [hash];
        let blocks = all_of(reads, &keys, end, 20_000);
        assert!(blocks.len() * 4 < all.len(), "{key}: {}", blocks.len());
        let mut found = 0;
        for block in &blocks {
            let of_key = |_, _, line: &[u8]| found += u64::from(line == row);
            forebay_core::log::pick::each_row(block, of_key).unwrap();
        }
        assert_eq!(found, per_key as u64, "{key}");
    }
    let nobody = KeyHash::of(b"nobody");
    assert_eq!(all_of(reads, &[nobody], end, usize::MAX), []);
}

/// All blocks that may have a row of these keys, by as many reads as it takes.
fn all_of(reads: &LogReads, keys: &[KeyHash], end: u64, bytes_max: usize) -> Vec<StoredBlock> {
    let (mut blocks, mut next) = (Vec::new(), Offset(0));
    while next < Offset(end) {
        let part = reads.read(&ReadWhat {
            range: next..Offset(end),
            keys: Some(keys),
            bytes_max,
            ..what(0, 0)
        });
        let part = part.unwrap();
        assert_eq!(part.missing, []);
        assert!(part.next > next, "it goes on");
        next = part.next;
        blocks.extend(part.blocks);
    }
    blocks
}

#[test]
fn readers_on_other_threads_see_a_whole_log_at_any_moment() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    let reads = store.reads();
    ten(&mut store, 0);
    let (head, heads) = (std::sync::atomic::AtomicU64::new(10), 200);
    std::thread::scope(|scope| {
        let reader = |reads: LogReads| {
            let head = &head;
            move || {
                let mut checked = 0;
                loop {
                    let end = head.load(std::sync::atomic::Ordering::Acquire);
                    let (mut next, mut missing) = (0, Vec::new());
                    while next < end {
                        let part = reads.read(&ReadWhat {
                            bytes_max: 4096,
                            ..what(next, end)
                        });
                        let part = part.unwrap();
                        missing.extend(part.missing);
                        next = part.next.0;
                    }
                    assert_eq!(missing, [], "{end}");
                    checked += 1;
                    if end == heads * 10 {
                        return checked;
                    }
                }
            }
        };
        let readers: Vec<_> = (0..2).map(|_| scope.spawn(reader(reads.clone()))).collect();
        for n in 1..heads {
            ten(&mut store, n * 10);
            head.store((n + 1) * 10, std::sync::atomic::Ordering::Release);
            if n % 20 == 0 {
                store.seal_all().unwrap();
            }
        }
        for reader in readers {
            assert!(reader.join().unwrap() > 0);
        }
    });
}
