//! What a killed or careless predecessor may leave in a data directory.

use std::fs;
use std::path::PathBuf;

use forebay_core::log::key::{BlockKey, TopicPartition};
use forebay_core::store::{Store, StoredBlock, WriteBatch};
use forebay_core::units::{Offset, PartitionId, TopicId};
use forebay_node::store::{LogStore, OpenError};

const AT: TopicPartition = TopicPartition {
    topic: TopicId(1),
    partition: PartitionId(1),
};

fn batch(base: u64) -> WriteBatch {
    let key = BlockKey {
        at: AT,
        base: Offset(base),
        chunk: 0,
    };
    let bytes = vec![3; 1000];
    WriteBatch {
        blocks: vec![StoredBlock { key, bytes }],
        meta: Vec::new(),
    }
}

/// A closed log with one block, and the directory of its generation.
fn closed_log() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let mut store = LogStore::open(dir.path()).unwrap();
    store.append(&batch(0)).unwrap();
    store.sync().unwrap();
    drop(store);
    let generation = dir.path().join("log/g-00000001");
    assert!(generation.join("db").exists());
    (dir, generation)
}

#[test]
fn a_leftover_snapshot_does_not_stop_the_open() {
    let (dir, generation) = closed_log();
    fs::write(generation.join("snap.00FF.generating"), b"half").unwrap();
    let store = LogStore::open(dir.path()).unwrap();
    assert_eq!(store.read(AT, Offset(0), 1).unwrap().len(), 1);
}

#[test]
fn a_creation_that_was_cut_short_is_begun_again() {
    for (name, files) in [
        ("no files", &[][..]),
        ("empty db", &["db"][..]),
        ("empty conf", &["db", "conf"][..]),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let creating = dir.path().join("log/g-00000001.creating");
        fs::create_dir_all(creating.join("blobs")).unwrap();
        for file in files {
            fs::write(creating.join(file), b"").unwrap();
        }
        let mut store = LogStore::open(dir.path()).unwrap();
        store.append(&batch(0)).unwrap();
        store.sync().unwrap();
        assert!(!creating.exists(), "{name}");
    }
}

#[test]
fn damage_is_an_error_that_names_the_directory_and_what_to_do() {
    for (name, file, bytes) in [
        ("rubbish in conf", "conf", &b"segment_size: -1"[..]),
        ("empty db", "db", &b""[..]),
        ("a spilled page", "blobs/17", &b"x"[..]),
    ] {
        let (dir, generation) = closed_log();
        fs::write(generation.join(file), bytes).unwrap();
        let error = LogStore::open(dir.path()).unwrap_err();
        assert!(
            matches!(error, OpenError::Damaged { .. }),
            "{name}: {error}"
        );
        let text = error.to_string();
        assert!(text.contains(&generation.display().to_string()), "{text}");
        assert!(text.contains("Nothing in it was deleted"), "{text}");
        assert!(text.contains("mv "), "{text}");
        assert!(generation.join("db").exists(), "{name}");
    }
}

/// sled checks each page as it loads it: truncation of the file either shows as
/// an error or costs the unsynced end, but never a panic of ours.
#[test]
fn a_truncated_database_opens_or_says_why() {
    for keep in [0, 1, 4096, 512 * 1024] {
        let (dir, generation) = closed_log();
        let file = fs::File::options()
            .write(true)
            .open(generation.join("db"))
            .unwrap();
        file.set_len(keep).unwrap();
        match LogStore::open(dir.path()) {
            Ok(store) => drop(store.read(AT, Offset(0), 1)),
            Err(error) => assert!(matches!(error, OpenError::Damaged { .. }), "{error}"),
        }
    }
}

#[test]
fn a_second_opening_is_refused_and_a_later_one_is_not() {
    let (dir, _) = closed_log();
    let first = LogStore::open(dir.path()).unwrap();
    let error = LogStore::open(dir.path()).unwrap_err();
    let pid = std::process::id().to_string();
    assert!(error.to_string().contains(&pid), "{error}");
    drop(first);
    LogStore::open(dir.path()).unwrap();
}

#[test]
fn a_log_of_a_later_version_is_left_alone() {
    let (dir, _) = closed_log();
    fs::create_dir(dir.path().join("log/g-00000002")).unwrap();
    let error = LogStore::open(dir.path()).unwrap_err();
    assert!(error.to_string().contains("2 generations"), "{error}");
}
