//! Small logs, damaged byte by byte: whatever is damaged, a check names all that is
//! gone, a repair keeps all that is not, and what it leaves is whole.

use std::path::PathBuf;

use forebay_core::log::block::{Block, Body};
use forebay_core::store::{Store as _, WriteBatch};
use forebay_core::units::{PartitionId, TopicId};

use super::super::samples::rows_block;
use super::*;

type Records = BTreeMap<(TopicPartition, Offset), Vec<u8>>;

/// Flips per file.
const FLIPS: u64 = 5;

fn at(topic: u16, partition: u16) -> TopicPartition {
    TopicPartition {
        topic: TopicId(topic),
        partition: PartitionId(partition),
    }
}

fn settings() -> StoreSettings {
    StoreSettings {
        generation_bytes: 4_000,
        ballast_bytes: 0,
        ..StoreSettings::default()
    }
}

/// A log of two topics in segments and in a database; gives its records.
fn fill(dir: &Path) -> Records {
    let (mut store, opened) = LogStore::open(dir, settings()).expect("an empty folder");
    let epoch = opened.info.epoch.0;
    let mut batch = |base: u64| {
        let places = [at(16, 0), at(16, 1), at(17, 0)];
        let blocks = places.map(|at| rows_block(at, base, 3, epoch, 200));
        let meta = vec![(b"name/x".to_vec(), base.to_be_bytes().to_vec())];
        let blocks = blocks.to_vec();
        store.append(&WriteBatch { blocks, meta }).expect("room");
        store.sync().expect("room");
    };
    (0..8).for_each(|nth| batch(nth * 3));
    store.seal_all().expect("room");
    let mut batch = |base: u64| {
        let blocks = vec![rows_block(at(16, 0), base, 3, epoch, 200)];
        let meta = Vec::new();
        store.append(&WriteBatch { blocks, meta }).expect("room");
        store.sync().expect("room");
    };
    (8..12).for_each(|nth| batch(nth * 3));
    drop(store);
    records(&mut LogReader::open(dir).expect("a log"))
}

fn records(reader: &mut LogReader) -> Records {
    let mut out = Records::new();
    for (at, place) in reader.places() {
        let mut from = place.first;
        while from < place.head {
            let blocks = reader.read(at, from, 100_000, |_| {}).expect("it reads");
            let ends = blocks.iter().filter_map(|stored| {
                let block = decode(stored.key, &stored.bytes).ok()?;
                add(&block, &mut out);
                Some(block.end())
            });
            match ends.max().filter(|end| *end > from) {
                Some(end) => from = end,
                None => break,
            }
        }
    }
    out
}

fn add(block: &Block, to: &mut Records) {
    let Body::Rows(rows) = &block.body else {
        panic!("a block of rows");
    };
    for (row, nth) in rows.iter().zip(block.base.0..) {
        to.insert((block.at, Offset(nth)), row.line.clone());
    }
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    list_files(dir, &mut out);
    out.retain(|path| !path.ends_with("lock") && !path.ends_with("ballast"));
    out.sort();
    out
}

fn copy(from: &Path, to: &Path) {
    let mut all = Vec::new();
    list_files(from, &mut all);
    for path in all {
        let target = to.join(path.strip_prefix(from).expect("in it"));
        std::fs::create_dir_all(target.parent().expect("a folder")).expect("made");
        std::fs::copy(&path, target).expect("copied");
    }
}

/// Checks, repairs and checks again; all of `whole` has to be there or be named.
fn judge(name: &str, dir: &Path, whole: &Records) {
    let mut reader = LogReader::open(dir).unwrap_or_else(|error| panic!("{name}: {error}"));
    let report = reader.check(&mut |_| {}).expect("it reads");
    let before = records(&mut reader);
    let damages = report.damages.iter().flat_map(|damage| &damage.lost);
    let lost: Vec<Loss> = damages.chain(&report.holes).copied().collect();
    let is_named = |at: TopicPartition, offset: Offset| {
        let mut lost = lost.iter();
        lost.any(|loss| loss.at == at && loss.first <= offset && offset < loss.end)
    };
    for ((at, offset), line) in whole {
        match before.get(&(*at, *offset)) {
            Some(read) => assert_eq!(read, line, "{name}: {at:?} {offset:?}"),
            None => assert!(
                is_named(*at, *offset),
                "{name}: {at:?} {offset:?}: {report:?}"
            ),
        }
    }
    let done = repair(dir, reader, &report, settings());
    done.unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut reader = LogReader::open(dir).unwrap_or_else(|error| panic!("{name}: {error}"));
    let after = reader.check(&mut |_| {}).expect("it reads");
    assert_eq!(after.damages, [], "{name}");
    assert_eq!(reader.notes, Vec::<String>::new(), "{name}");
    let kept = records(&mut reader);
    for (place, line) in &before {
        assert_eq!(kept.get(place), Some(line), "{name}: {place:?}");
    }
    assert!(
        kept.iter()
            .all(|(place, line)| whole.get(place) == Some(line))
    );
}

#[test]
fn whatever_bit_flips_nothing_else_is_lost_and_all_that_is_is_named() {
    let made = tempfile::tempdir().expect("a folder");
    let whole = fill(made.path());
    assert_eq!(whole.len(), 8 * 3 * 3 + 4 * 3);
    for path in files(made.path()) {
        let name = path.strip_prefix(made.path()).expect("in it").to_owned();
        let len = std::fs::metadata(&path).expect("a file").len();
        for nth in 0..FLIPS.min(len) {
            let dir = tempfile::tempdir().expect("a folder");
            copy(made.path(), dir.path());
            let position = len * nth / FLIPS.min(len) + len / (3 * FLIPS);
            let position = position.min(len - 1);
            let mut bytes = std::fs::read(&path).expect("a file");
            bytes[position as usize] ^= 0x04;
            std::fs::write(dir.path().join(&name), bytes).expect("written");
            let name = format!("bit at {position} of {}", name.display());
            judge(&name, dir.path(), &whole);
        }
    }
}

#[test]
fn whatever_is_cut_off_nothing_else_is_lost_and_all_that_is_is_named() {
    let made = tempfile::tempdir().expect("a folder");
    let whole = fill(made.path());
    for path in files(made.path()) {
        let name = path.strip_prefix(made.path()).expect("in it").to_owned();
        let len = std::fs::metadata(&path).expect("a file").len();
        for keep in [0, 1, len / 2, len - 1] {
            let dir = tempfile::tempdir().expect("a folder");
            copy(made.path(), dir.path());
            let bytes = std::fs::read(&path).expect("a file");
            let cut = dir.path().join(&name);
            std::fs::write(cut, &bytes[..keep as usize]).expect("written");
            let name = format!("{keep} bytes of {}", name.display());
            judge(&name, dir.path(), &whole);
        }
    }
}
