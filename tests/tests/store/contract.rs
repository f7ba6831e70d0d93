//! A store is what its contract says: the same script runs on a store and on an
//! obvious model, records by partition, and every read must agree. The log on disk
//! rolls, seals, merges and removes all the while; the twin in memory passes the
//! same scripts.

use std::collections::BTreeMap;

use forebay_core::limits::BLOCK_BYTES_MAX;
use forebay_core::log::appender::Appender;
use forebay_core::log::block::{Body, Row};
use forebay_core::log::decode::decode;
use forebay_core::log::key::TopicPartition;
use forebay_core::store::memory::MemoryStore;
use forebay_core::store::{SegmentId, Store, StoreEvent, StoreInfo, StoredBlock, WriteBatch};
use forebay_core::units::{Epoch, EventTime, LogId, Mono, Offset, PartitionId, TopicId};
use forebay_node::store::{LogStore, StoreSettings};
use proptest::prelude::*;

/// Small, so that a script of some steps rolls some times.
const SETTINGS: StoreSettings = StoreSettings {
    generation_bytes: 4096,
    generation_age: std::time::Duration::from_secs(3600),
    ballast_bytes: 0,
};

/// One step of a script.
#[derive(Debug, Clone)]
enum Step {
    /// Rows of the given lengths to one partition, and some meta entries.
    Append(TopicPartition, Vec<usize>, Vec<(Vec<u8>, Vec<u8>)>),
    Sync,
    /// Close cleanly and open again.
    Reopen,
    Read {
        at: TopicPartition,
        from: u64,
        bytes_max: usize,
    },
    /// Remove the oldest segment that the store has told of.
    Remove,
}

/// What a store must show.
#[derive(Debug, Default)]
pub(super) struct Model {
    /// Per partition: what was removed in front, and the rows after it.
    rows: BTreeMap<TopicPartition, (u64, Vec<Vec<u8>>)>,
    meta: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Model {
    pub(super) fn append(&mut self, at: TopicPartition, lengths: &[usize]) -> WriteBatch {
        let (first, rows) = self.rows.entry(at).or_default();
        let base = *first + rows.len() as u64;
        let mut appender = Appender::rows(at, Epoch(1), Offset(base));
        for (n, length) in (base..).zip(lengths) {
            let mut line = format!("{{\"n\":{n}}}").into_bytes();
            line.resize(line.len() + length, b' ');
            let time = EventTime(n as i64);
            let row = Row {
                time,
                line: line.clone(),
            };
            appender.push_row(&row, Mono(0));
            rows.push(line);
        }
        appender.seal();
        WriteBatch {
            blocks: appender.take_sealed().collect(),
            meta: Vec::new(),
        }
    }

    /// Checks what a read brought.
    fn check(&self, at: TopicPartition, from: u64, bytes_max: usize, read: &[StoredBlock]) {
        let (first, rows) = self.rows.get(&at).cloned().unwrap_or_default();
        let end = first + rows.len() as u64;
        let wanted = from.max(first);
        let Some(start) = read.first().map(|block| block.key.base.0) else {
            assert!(
                wanted >= end,
                "{at:?}: nothing from {from}, the end is {end}"
            );
            return;
        };
        assert!(start <= wanted, "{at:?}: from {from} it starts at {start}");
        let sum: usize = read.iter().map(|block| block.bytes.len()).sum();
        assert!(read.len() == 1 || sum <= bytes_max);
        let mut next = start;
        for stored in read {
            assert_eq!(stored.key.at, at);
            let block = decode(stored.key, &stored.bytes).expect("an intact block");
            assert_eq!(block.base.0, next, "{at:?}: not one behind the other");
            let Body::Rows(got) = &block.body else {
                panic!("rows were written");
            };
            for row in got {
                assert_eq!(row.line, rows[(next - first) as usize], "{at:?} {next}");
                next += 1;
            }
        }
        assert!(next > wanted, "{at:?}: {from} is not in it");
    }
}

/// A store under test: opened, closed, asked to remove.
trait Rig {
    fn store(&mut self) -> &mut dyn Store;
    fn reopen(&mut self);
}

fn agrees(script: &[Step], rig: &mut dyn Rig) {
    let mut model = Model::default();
    let mut segments: BTreeMap<SegmentId, Vec<(PartitionId, Offset)>> = BTreeMap::new();
    for step in script {
        match step {
            Step::Append(at, lengths, meta) => {
                let mut batch = model.append(*at, lengths);
                batch.meta.clone_from(meta);
                model.meta.extend(meta.iter().cloned());
                // An empty value removes its key.
                model.meta.retain(|_, value| !value.is_empty());
                rig.store().append(&batch).unwrap();
            }
            Step::Sync => rig.store().sync().unwrap(),
            Step::Reopen => {
                rig.store().sync().unwrap();
                rig.reopen();
            }
            Step::Read {
                at,
                from,
                bytes_max,
            } => {
                let read = rig.store().read(*at, Offset(*from), *bytes_max).unwrap();
                model.check(*at, *from, *bytes_max, &read);
            }
            Step::Remove => {
                if let Some((id, ends)) = segments.pop_first() {
                    rig.store().remove(&[id]).unwrap();
                    for (partition, end) in ends {
                        let topic = id.topic;
                        let at = TopicPartition { topic, partition };
                        let (first, rows) = model.rows.get_mut(&at).expect("it was written");
                        rows.drain(..(end.0 - *first) as usize);
                        *first = end.0;
                    }
                }
            }
        }
        while let Some(event) = rig.store().poll_event() {
            match event {
                StoreEvent::Sealed(infos) => segments.extend(infos.into_iter().map(|info| {
                    let ends = info.ranges.iter().map(|range| (range.partition, range.end));
                    (info.id, ends.collect())
                })),
                StoreEvent::Removed(_) | StoreEvent::Disk { .. } | StoreEvent::Written(_) => {}
                event @ (StoreEvent::Trouble(_)
                | StoreEvent::Recovered
                | StoreEvent::SetAside(_)
                | StoreEvent::Lost(_)
                | StoreEvent::Note(_)) => panic!("{event:?}"),
            }
        }
    }
    for at in model.rows.keys() {
        let read = rig.store().read(*at, Offset(0), usize::MAX).unwrap();
        model.check(*at, 0, usize::MAX, &read);
    }
    for prefix in [&b""[..], b"k", b"k1", b"zz"] {
        let mut seen = rig.store().meta_with_prefix(prefix).unwrap();
        seen.retain(|(key, _)| !key.starts_with(b"store."));
        let want = model.meta.clone().into_iter();
        let want: Vec<_> = want.filter(|(key, _)| key.starts_with(prefix)).collect();
        assert_eq!(seen, want);
    }
    for (key, value) in &model.meta {
        assert_eq!(rig.store().meta(key).unwrap().as_ref(), Some(value));
    }
    assert_eq!(rig.store().meta(b"absent").unwrap(), None);
}

struct Twin(MemoryStore);

impl Rig for Twin {
    fn store(&mut self) -> &mut dyn Store {
        &mut self.0
    }

    /// A clean close loses nothing; the twin has no closing of its own.
    fn reopen(&mut self) {}
}

struct Disk {
    dir: tempfile::TempDir,
    store: Option<LogStore>,
    openings: Vec<StoreInfo>,
}

impl Disk {
    fn new() -> Self {
        let mut rig = Self {
            dir: tempfile::tempdir().unwrap(),
            store: None,
            openings: Vec::new(),
        };
        rig.reopen();
        rig
    }
}

impl Rig for Disk {
    fn store(&mut self) -> &mut dyn Store {
        self.store.as_mut().expect("it is open")
    }

    fn reopen(&mut self) {
        self.store = None;
        let (store, opened) = LogStore::open(self.dir.path(), SETTINGS).unwrap();
        assert_eq!(opened.info.epoch, Epoch(self.openings.len() as u32 + 1));
        assert_eq!((opened.losses, opened.notes), (vec![], vec![]));
        for before in &self.openings {
            assert_eq!(before.log_id, opened.info.log_id);
            assert_ne!(before.nonce, opened.info.nonce);
        }
        self.openings.push(opened.info);
        self.store = Some(store);
    }
}

pub(super) fn place_of(topic: u16, partition: u16) -> TopicPartition {
    TopicPartition {
        topic: TopicId(topic),
        partition: PartitionId(partition),
    }
}

fn place() -> impl Strategy<Value = TopicPartition> {
    (16..18u16, 0..2u16).prop_map(|(topic, partition)| place_of(topic, partition))
}

fn step() -> impl Strategy<Value = Step> {
    let value = prop_oneof![
        0..300usize,
        Just(BLOCK_BYTES_MAX - 1),
        Just(BLOCK_BYTES_MAX)
    ];
    let meta =
        ("k[0-3]{0,2}", value).prop_map(|(key, size)| (key.into_bytes(), vec![size as u8; size]));
    let length = prop_oneof![6 => 0..100usize, 1 => 1000..3000usize];
    let append = (
        place(),
        prop::collection::vec(length, 1..20),
        prop::collection::vec(meta, 0..3),
    )
        .prop_map(|(at, lengths, meta)| Step::Append(at, lengths, meta));
    let from = prop_oneof![8 => 0..300u64, 1 => Just(u64::MAX), 1 => any::<u64>()];
    let read = (place(), from, 0..20_000usize).prop_map(|(at, from, bytes_max)| Step::Read {
        at,
        from,
        bytes_max,
    });
    prop_oneof![8 => append, 4 => Just(Step::Sync), 8 => read, 1 => Just(Step::Remove)]
}

fn script() -> impl Strategy<Value = Vec<Step>> {
    let part = || prop::collection::vec(step(), 0..60);
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
        agrees(&script, &mut Twin(MemoryStore::create(LogId([1; 16]), 1)));
    }
}

proptest! {
    // Each case opens some databases.
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]
    #[test]
    fn the_log_on_disk_keeps_the_contract(script in script()) {
        agrees(&script, &mut Disk::new());
    }
}

#[test]
fn a_block_over_the_bound_is_refused_before_it_is_written() {
    let mut rig = Disk::new();
    let at = TopicPartition {
        topic: TopicId(16),
        partition: PartitionId(0),
    };
    let batch = |bytes| {
        let mut batch = Model::default().append(at, &[10]);
        batch.blocks[0].bytes.resize(bytes, 0);
        batch
    };
    let store = rig.store();
    store.append(&batch(BLOCK_BYTES_MAX - 1)).unwrap();
    store.append(&batch(BLOCK_BYTES_MAX)).unwrap();
    let over = std::panic::AssertUnwindSafe(|| store.append(&batch(BLOCK_BYTES_MAX + 1)));
    assert!(std::panic::catch_unwind(over).is_err());
}

/// Leaves full of the largest values stay below the size at which sled spills.
#[test]
fn full_leaves_do_not_spill() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = LogStore::open(dir.path(), StoreSettings::default()).unwrap();
    let mut model = Model::default();
    for n in 0..400u16 {
        let at = TopicPartition {
            topic: TopicId(16),
            partition: PartitionId(n % 3),
        };
        let batch = model.append(at, &[BLOCK_BYTES_MAX - 64]);
        assert!(batch.blocks[0].bytes.len() > BLOCK_BYTES_MAX - 10);
        store.append(&batch).unwrap();
    }
    store.sync().unwrap();
    let blobs = dir.path().join("log/g-00000001/blobs");
    assert_eq!(std::fs::read_dir(blobs).unwrap().count(), 0);
}
