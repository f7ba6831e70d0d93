//! kill -9 while a child appends and syncs: everything it was told is durable
//! comes back, and what comes back is a prefix of what it wrote.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use forebay_core::log::key::{BlockKey, TopicPartition};
use forebay_core::store::{Store, StoredBlock, WriteBatch};
use forebay_core::units::{Offset, PartitionId, TopicId};
use forebay_node::store::LogStore;

const DIR_VAR: &str = "FOREBAY_TEST_KILL_DIR";
const ROUNDS: u64 = 12;
/// Batches per sync in the child.
const GROUP: u64 = 3;

fn place(partition: u16) -> TopicPartition {
    TopicPartition {
        topic: TopicId(1),
        partition: PartitionId(partition),
    }
}

/// Batch `n`: a block in each of two partitions and the count in meta.
pub(super) fn batch(n: u64) -> WriteBatch {
    let block = |partition| StoredBlock {
        key: BlockKey {
            at: place(partition),
            base: Offset(n),
            chunk: 0,
        },
        bytes: vec![n as u8; 100 + (n % 5) as usize * 1400],
    };
    WriteBatch {
        blocks: vec![block(0), block(1)],
        meta: vec![(b"count".to_vec(), (n + 1).to_be_bytes().to_vec())],
    }
}

/// Batches in the store, checked to be a whole prefix.
pub(super) fn recovered(store: &LogStore) -> u64 {
    let count = store
        .meta(b"count")
        .unwrap()
        .map_or(0, |bytes| u64::from_be_bytes(bytes.try_into().unwrap()));
    for partition in [0, 1] {
        let blocks = store.read(place(partition), Offset(0), usize::MAX).unwrap();
        let bases: Vec<_> = blocks.iter().map(|block| block.key.base.0).collect();
        assert_eq!(
            bases,
            (0..count).collect::<Vec<_>>(),
            "partition {partition}"
        );
        for (n, block) in (0..).zip(&blocks) {
            let want = &batch(n).blocks[usize::from(partition)];
            assert_eq!(block, want, "batch {n}");
        }
    }
    count
}

/// The child: runs only when the parent set the variable.
#[test]
fn child_appends_until_it_is_killed() {
    let Some(dir) = std::env::var_os(DIR_VAR) else {
        return;
    };
    println!("\nopening");
    let mut store = LogStore::open(Path::new(&dir)).unwrap();
    println!("\nepoch {}", store.info().epoch.0);
    let first = recovered(&store);
    for n in first..u64::MAX {
        store.append(&batch(n)).unwrap();
        if n % GROUP == 0 {
            store.sync().unwrap();
            println!("acked {}", n + 1);
        }
    }
}

fn start_child(dir: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "kill::child_appends_until_it_is_killed",
            "--nocapture",
        ])
        .env(DIR_VAR, dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Runs a child until it has acked `acks` times, kills it, and returns the last
/// count that it said was durable (0 for none).
fn run_and_kill(dir: &Path, acks: u64) -> u64 {
    let mut child = start_child(dir);
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut last = 0;
    let mut seen = 0;
    for line in lines {
        let line = line.unwrap();
        if let Some(count) = line.strip_prefix("acked ") {
            last = count.parse().unwrap();
            seen += 1;
            // Killed once and at once; lines still in the pipe count as acked.
            if seen == acks {
                child.kill().unwrap();
            }
        } else if acks == 0 && line.starts_with("epoch ") {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(seen >= acks, "the child ended by itself after {seen} acks");
    last
}

/// Runs a child and kills it somewhere in its opening, a little later each round.
fn kill_while_opening(dir: &Path, round: u32) {
    let mut child = start_child(dir);
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for line in lines {
        if line.unwrap() == "opening" {
            // No clock is read and none is waited for: it is some way in.
            for _ in 0..round * 20_000 {
                std::hint::spin_loop();
            }
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
}

#[test]
fn an_opening_that_is_killed_can_be_repeated() {
    let existing = tempfile::tempdir().unwrap();
    let mut last = 0;
    for round in 0..30 {
        // Here the log is being created.
        let fresh = tempfile::tempdir().unwrap();
        kill_while_opening(fresh.path(), round);
        recovered(&LogStore::open(fresh.path()).unwrap());
        kill_while_opening(existing.path(), round);
        let mut store = LogStore::open(existing.path()).unwrap();
        assert_eq!(store.losses(), []);
        assert!(store.info().epoch.0 > last);
        last = store.info().epoch.0;
        let count = recovered(&store);
        store.append(&batch(count)).unwrap();
        store.sync().unwrap();
    }
}

#[test]
fn acked_is_recovered_and_what_is_recovered_is_a_prefix() {
    let dir = tempfile::tempdir().unwrap();
    let mut before = 0;
    for round in 0..ROUNDS {
        // From right after the open to a good way into the next segments.
        let acks = round * round % 97;
        let acked = run_and_kill(dir.path(), acks);
        let store = LogStore::open(dir.path()).unwrap();
        assert_eq!(u64::from(store.info().epoch.0), 2 * round + 2);
        let now = recovered(&store);
        assert!(
            now >= acked,
            "round {round}: {acked} were acked, {now} came back"
        );
        assert!(now >= before, "round {round}: the head went back");
        before = now;
    }
    assert!(before > 0);
}
