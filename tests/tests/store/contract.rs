//! One script of random steps runs on a store and on an obvious model; every
//! read must agree. Both stores pass the same scripts.

use std::collections::BTreeMap;

use forebay_core::limits::BLOCK_BYTES_MAX;
use forebay_core::log::key::{BlockKey, TopicPartition};
use forebay_core::store::memory::MemoryStore;
use forebay_core::store::{Store, StoredBlock, WriteBatch};
use forebay_core::units::{Epoch, LogId, Offset, PartitionId, TopicId};
use forebay_node::store::LogStore;
use proptest::prelude::*;

/// One step of a script.
#[derive(Debug, Clone)]
enum Step {
    Append(WriteBatch),
    Sync,
    /// Close cleanly and open again.
    Reopen,
    Read {
        at: TopicPartition,
        from: u64,
        bytes_max: usize,
    },
}

/// What a store must show.
#[derive(Debug, Default)]
struct Model {
    blocks: BTreeMap<BlockKey, Vec<u8>>,
    meta: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Model {
    fn read(&self, at: TopicPartition, from: u64, bytes_max: usize) -> Vec<StoredBlock> {
        let mine: Vec<_> = self.blocks.iter().filter(|(key, _)| key.at == at).collect();
        let start = mine
            .iter()
            .filter(|(key, _)| key.base.0 <= from)
            .map(|(key, _)| key.base.0)
            .max()
            .unwrap_or(from);
        let mut out: Vec<StoredBlock> = Vec::new();
        for (key, bytes) in mine.into_iter().filter(|(key, _)| key.base.0 >= start) {
            let so_far: usize = out.iter().map(|block| block.bytes.len()).sum();
            if !out.is_empty() && so_far + bytes.len() > bytes_max {
                break;
            }
            let bytes = bytes.clone();
            out.push(StoredBlock { key: *key, bytes });
        }
        out
    }
}

/// Runs a script; `reopen` closes the store (when there is one) and opens it.
fn agrees(script: &[Step], mut reopen: impl FnMut(Option<Box<dyn Store>>) -> Box<dyn Store>) {
    let mut store = reopen(None);
    let mut model = Model::default();
    for step in script {
        match step {
            Step::Append(batch) => {
                store.append(batch).unwrap();
                for block in &batch.blocks {
                    model.blocks.insert(block.key, block.bytes.clone());
                }
                model.meta.extend(batch.meta.iter().cloned());
            }
            Step::Sync => store.sync().unwrap(),
            Step::Reopen => {
                store.sync().unwrap();
                store = reopen(Some(store));
            }
            Step::Read {
                at,
                from,
                bytes_max,
            } => {
                let read = store.read(*at, Offset(*from), *bytes_max).unwrap();
                assert_eq!(read, model.read(*at, *from, *bytes_max), "{step:?}");
            }
        }
    }
    for prefix in [&b""[..], b"k", b"k1", b"zz"] {
        let mut seen = store.meta_with_prefix(prefix).unwrap();
        seen.retain(|(key, _)| !key.starts_with(b"store."));
        let want = model.meta.clone().into_iter();
        let want: Vec<_> = want.filter(|(key, _)| key.starts_with(prefix)).collect();
        assert_eq!(seen, want);
    }
    for (key, value) in &model.meta {
        assert_eq!(store.meta(key).unwrap().as_ref(), Some(value));
    }
    assert_eq!(store.meta(b"absent").unwrap(), None);
}

fn place() -> impl Strategy<Value = TopicPartition> {
    (0..3u16, 0..3u16).prop_map(|(topic, partition)| TopicPartition {
        topic: TopicId(topic),
        partition: PartitionId(partition),
    })
}

fn offset() -> impl Strategy<Value = u64> {
    prop_oneof![0..40u64, Just(u64::MAX), Just(u64::MAX - 1), any::<u64>()]
}

fn size() -> impl Strategy<Value = usize> {
    prop_oneof![
        0..300usize,
        Just(BLOCK_BYTES_MAX - 1),
        Just(BLOCK_BYTES_MAX)
    ]
}

fn block() -> impl Strategy<Value = StoredBlock> {
    let chunk = prop_oneof![4 => Just(0u16), 1 => 0..3u16, 1 => Just(u16::MAX)];
    (place(), offset(), chunk, size(), any::<u8>()).prop_map(|(at, base, chunk, size, fill)| {
        StoredBlock {
            key: BlockKey {
                at,
                base: Offset(base),
                chunk,
            },
            bytes: vec![fill; size],
        }
    })
}

fn step() -> impl Strategy<Value = Step> {
    let meta =
        ("k[0-3]{0,2}", size()).prop_map(|(key, size)| (key.into_bytes(), vec![size as u8; size]));
    let batch = (
        prop::collection::vec(block(), 0..4),
        prop::collection::vec(meta, 0..3),
    )
        .prop_map(|(blocks, meta)| Step::Append(WriteBatch { blocks, meta }));
    let read = (place(), offset(), 0..20_000usize).prop_map(|(at, from, bytes_max)| Step::Read {
        at,
        from,
        bytes_max,
    });
    prop_oneof![6 => batch, 1 => Just(Step::Sync), 6 => read]
}

fn script() -> impl Strategy<Value = Vec<Step>> {
    let part = || prop::collection::vec(step(), 0..40);
    (part(), part()).prop_map(|(mut first, second)| {
        first.push(Step::Reopen);
        first.extend(second);
        first
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]
    #[test]
    fn the_twin_in_memory_keeps_the_contract(script in script()) {
        let mut info = None;
        agrees(&script, |store| {
            // A clean close loses nothing; the twin has no closing of its own.
            let twin = MemoryStore::create(LogId([1; 16]), 1);
            info.get_or_insert(twin.info());
            store.unwrap_or(Box::new(twin))
        });
    }
}

proptest! {
    // Each case opens a database twice.
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn the_log_on_disk_keeps_the_contract(script in script()) {
        let dir = tempfile::tempdir().unwrap();
        let mut openings: Vec<forebay_core::store::StoreInfo> = Vec::new();
        agrees(&script, |store| {
            drop(store);
            let store = LogStore::open(dir.path()).unwrap();
            let info = store.info();
            assert_eq!(info.epoch, Epoch(openings.len() as u32 + 1));
            for before in &openings {
                assert_eq!(before.log_id, info.log_id);
                assert_ne!(before.nonce, info.nonce);
            }
            openings.push(info);
            Box::new(store)
        });
    }
}

#[test]
fn a_block_over_the_bound_is_refused_before_it_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = LogStore::open(dir.path()).unwrap();
    let batch = |bytes| WriteBatch {
        blocks: vec![StoredBlock {
            key: BlockKey {
                at: TopicPartition {
                    topic: TopicId(0),
                    partition: PartitionId(0),
                },
                base: Offset(0),
                chunk: 0,
            },
            bytes: vec![0; bytes],
        }],
        meta: Vec::new(),
    };
    store.append(&batch(BLOCK_BYTES_MAX - 1)).unwrap();
    store.append(&batch(BLOCK_BYTES_MAX)).unwrap();
    let over = std::panic::AssertUnwindSafe(|| store.append(&batch(BLOCK_BYTES_MAX + 1)));
    assert!(std::panic::catch_unwind(over).is_err());
}

/// Leaves full of the largest values stay below the size at which sled spills.
#[test]
fn full_leaves_do_not_spill() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = LogStore::open(dir.path()).unwrap();
    for base in 0..400u64 {
        let key = BlockKey {
            at: TopicPartition {
                topic: TopicId(7),
                partition: PartitionId((base % 3) as u16),
            },
            base: Offset(base * 7919 % 1000),
            chunk: 0,
        };
        let bytes = vec![base as u8; BLOCK_BYTES_MAX];
        let blocks = vec![StoredBlock { key, bytes }];
        store
            .append(&WriteBatch {
                blocks,
                meta: Vec::new(),
            })
            .unwrap();
    }
    store.sync().unwrap();
    let blobs = dir.path().join("log/g-00000001/blobs");
    assert_eq!(std::fs::read_dir(blobs).unwrap().count(), 0);
}
