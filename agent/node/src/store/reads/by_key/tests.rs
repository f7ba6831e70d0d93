//! Rows by key say what the blocks say, whatever is damaged, missing, older or elsewhere.

use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_core::log::appender::Appender;
use forebay_core::log::block::Row;
use forebay_core::log::pick::each_row;
use forebay_core::query::{Packer, row_key};
use forebay_core::store::{Store as _, WriteBatch};
use forebay_core::units::{Mono, PartitionId, TopicId};

use super::super::super::segment_file::SegmentFile;
use super::super::super::{LogStore, StoreSettings};
use super::super::ReadWhat;
use super::*;

const AT: TopicPartition = TopicPartition {
    topic: TopicId(16),
    partition: PartitionId(1),
};
const NOTE: &[u8] = b",\"count\":,\"mean\":";
const KEYS: u64 = 3;

/// A row of a window of a second that ends with `time`, of one of the keys.
fn row(offset: u64) -> Row {
    let (key, second) = (offset % KEYS, offset / KEYS % 60);
    let mean = offset as f64 / 7.0;
    let line = format!(
        "{{\"stream\":\"m\",\"device\":\"{key}\",\"channel\":\"t\",\
         \"start\":\"1970-01-01T00:00:{second:02}Z\",\"end\":\"1970-01-01T00:01:00Z\",\
         \"revision\":{offset},\"final\":true,\"count\":{offset},\"mean\":{mean}}}"
    );
    Row {
        time: EventTime(offset as i64),
        line: line.into_bytes(),
    }
}

fn key(nth: u64) -> Vec<u8> {
    row_key(&row(nth).line).unwrap().to_vec()
}

fn open(dir: &Path) -> LogStore {
    let settings = StoreSettings {
        generation_bytes: 4 << 20,
        generation_age: Duration::from_secs(3600),
        ballast_bytes: 0,
    };
    LogStore::open(dir, settings).unwrap().0
}

/// Writes so many rows from `base` on.
fn write(store: &mut LogStore, base: u64, count: u64) {
    let mut appender = Appender::rows(AT, store.info().epoch, Offset(base));
    (base..base + count).for_each(|offset| appender.push_row(&row(offset), Mono(0)));
    appender.seal();
    let blocks = appender.take_sealed().collect();
    let batch = WriteBatch {
        blocks,
        meta: Vec::new(),
    };
    store.append(&batch).unwrap();
    store.sync().unwrap();
}

/// Offsets shown of each key, from their figures; and what is left.
type Got = (Vec<Vec<u64>>, Vec<(u64, u64)>);

/// Reads all of a range, by as many reads as it takes.
fn read(reads: &LogReads, range: Range<u64>, times: Range<i64>, note: &[u8]) -> Got {
    let keys: Vec<_> = (0..KEYS).map(key).collect();
    let keys: Vec<_> = keys.iter().map(Vec::as_slice).collect();
    let mut shown = vec![Vec::new(); keys.len()];
    let (mut rest, mut next) = (Vec::new(), range.start);
    while next < range.end {
        let what = RowsOf {
            at: AT,
            range: Offset(next)..Offset(range.end),
            times: EventTime(times.start)..EventTime(times.end),
            keys: &keys,
            note,
        };
        let mut packer = Packer::default();
        let part = reads.read_keyed(&what, &mut |place, time, packed| {
            // The time says which row it is; it must be that one to the last bit.
            let offset = time.0 as u64;
            let whole = row(offset);
            let (of, want) = packer.pack(time, &whole.line).unwrap();
            assert_eq!((of, packed), (keys[place], want), "{offset}");
            shown[place].push(offset);
        });
        let part = part.unwrap();
        assert!(part.next > Offset(next), "it goes on");
        rest.extend(part.rest.iter().map(|left| (left.start.0, left.end.0)));
        next = part.next.0;
    }
    (shown, rest)
}

fn all(reads: &LogReads, end: u64) -> Got {
    read(reads, 0..end, i64::MIN..i64::MAX, NOTE)
}

/// What each key has in these offsets.
fn of_keys(offsets: Range<u64>) -> Vec<Vec<u64>> {
    let of = |key| offsets.clone().filter(|n| n % KEYS == key).collect();
    (0..KEYS).map(of).collect()
}

#[test]
fn rows_are_shown_from_sealed_segments_and_the_rest_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    let reads = store.reads();
    write(&mut store, 0, 100);
    store.seal_all().unwrap();
    write(&mut store, 100, 50);
    store.seal_all().unwrap();
    // Offsets 150 to 159 are nowhere.
    write(&mut store, 160, 40);
    let always = i64::MIN..i64::MAX;
    for (name, range, times, note, shown, rest) in [
        (
            "all",
            0..200,
            always.clone(),
            NOTE,
            0..150,
            vec![(150, 200)],
        ),
        ("inside", 30..120, always.clone(), NOTE, 30..120, vec![]),
        (
            "one segment",
            100..150,
            always.clone(),
            NOTE,
            100..150,
            vec![],
        ),
        ("the end", 149..150, always.clone(), NOTE, 149..150, vec![]),
        (
            "not sealed",
            170..180,
            always.clone(),
            NOTE,
            0..0,
            vec![(170, 180)],
        ),
        ("nothing", 5..5, always.clone(), NOTE, 0..0, vec![]),
        (
            "times of the second",
            0..150,
            120..121,
            NOTE,
            100..150,
            vec![],
        ),
        ("times of none", 0..150, 500..501, NOTE, 0..0, vec![]),
        (
            "other figures",
            0..150,
            always,
            b",\"count\":",
            0..0,
            vec![(0, 150)],
        ),
    ] {
        let got = read(&reads, range, times, note);
        assert_eq!(got, (of_keys(shown), rest), "{name}");
    }
}

#[test]
fn so_many_segments_are_read_side_by_side() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    let reads = store.reads();
    let keys: Vec<_> = (0..KEYS).map(key).collect();
    let keys: Vec<_> = keys.iter().map(Vec::as_slice).collect();
    let most = SEGMENTS_AT_ONCE as u64;
    for segments in 1..=most + 1 {
        write(&mut store, (segments - 1) * 9, 9);
        store.seal_all().unwrap();
        let end = segments * 9;
        let what = RowsOf {
            at: AT,
            range: Offset(0)..Offset(end),
            times: EventTime(i64::MIN)..EventTime(i64::MAX),
            keys: &keys,
            note: NOTE,
        };
        let part = reads.read_keyed(&what, &mut |_, _, _| {}).unwrap();
        let next = Offset(end.min(most * 9));
        assert_eq!((part.rest, part.next), (vec![], next), "{segments}");
        assert_eq!(all(&reads, end), (of_keys(0..end), vec![]), "{segments}");
    }
}

#[test]
fn what_was_removed_since_is_rest() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    let reads = store.reads();
    write(&mut store, 0, 60);
    store.seal_all().unwrap();
    write(&mut store, 60, 60);
    store.seal_all().unwrap();
    let first = segment(dir.path(), 0);
    std::fs::remove_file(first).unwrap();
    assert_eq!(all(&reads, 120), (of_keys(60..120), vec![(0, 60)]));
}

/// The nth segment file.
fn segment(dir: &Path, nth: usize) -> PathBuf {
    let files = std::fs::read_dir(dir.join("log")).unwrap();
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|end| end == "seg"));
    files.sort();
    files.swap_remove(nth)
}

/// A sealed segment of 40 rows, and its bytes.
fn sealed(dir: &Path) -> (LogStore, LogReads, PathBuf, Vec<u8>) {
    let mut store = open(dir);
    let reads = store.reads();
    write(&mut store, 0, 40);
    store.seal_all().unwrap();
    let path = segment(dir, 0);
    let bytes = std::fs::read(&path).unwrap();
    (store, reads, path, bytes)
}

#[test]
fn a_segment_without_rows_by_key_is_read_by_its_blocks() {
    let dir = tempfile::tempdir().unwrap();
    let (store, reads, path, bytes) = sealed(dir.path());
    let file = SegmentFile::open(&path, AT.topic).unwrap();
    assert_eq!((file.fault, file.check_keyed().unwrap()), (None, Ok(())));
    let between = file.between();
    assert!(!between.is_empty(), "rows by key stand there");
    // As segments were before there were any.
    let mut old = bytes[..between.start as usize].to_vec();
    old.extend(file.index.encode(between.start));
    std::fs::write(&path, &old).unwrap();
    let file = SegmentFile::open(&path, AT.topic).unwrap();
    assert_eq!((file.fault, file.check_keyed().unwrap()), (None, Ok(())));
    assert!(file.between().is_empty());
    assert_eq!(all(&reads, 40), (of_keys(0..0), vec![(0, 40)]));
    drop(store);
}

#[test]
fn whatever_byte_is_damaged_rows_are_right_or_left() {
    let dir = tempfile::tempdir().unwrap();
    let (store, reads, path, good) = sealed(dir.path());
    let between = SegmentFile::open(&path, AT.topic).unwrap().between();
    for at in between.start as usize..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x04;
        std::fs::write(&path, &bad).unwrap();
        // Rows that are shown are compared there.
        let (shown, rest) = all(&reads, 40);
        let missing = shown != of_keys(0..40);
        assert!(!missing || rest == [(0, 40)], "byte {at}: {rest:?}");
        let file = SegmentFile::open(&path, AT.topic).unwrap();
        let found = file.fault.is_some() || file.check_keyed().unwrap().is_err();
        assert!(found, "a check finds byte {at}");
    }
    for len in (0..good.len()).step_by(7) {
        std::fs::write(&path, &good[..len]).unwrap();
        assert_eq!(all(&reads, 40).1, [(0, 40)], "cut at {len}");
    }
    drop(store);
}

#[test]
fn rows_are_those_of_the_blocks() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    let reads = store.reads();
    write(&mut store, 0, 2_000);
    store.seal_all().unwrap();
    let (shown, rest) = all(&reads, 2_000);
    assert_eq!(rest, []);
    let part = reads.read(&ReadWhat {
        at: AT,
        range: Offset(0)..Offset(2_000),
        times: EventTime(i64::MIN)..EventTime(i64::MAX),
        keys: None,
        bytes_max: usize::MAX,
    });
    let mut want = vec![Vec::new(); KEYS as usize];
    for block in &part.unwrap().blocks {
        each_row(block, |_, time, line| {
            let place = (0..KEYS).find(|nth| row_key(line) == Some(&*key(*nth)));
            want[place.unwrap() as usize].push(time.0 as u64);
        })
        .unwrap();
    }
    assert_eq!(shown, want);
}
