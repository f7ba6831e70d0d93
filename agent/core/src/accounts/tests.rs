//! Restarts at random points of random histories: with a snapshot, without one, with
//! one that is damaged, and with what a snapshot covers trimmed away.

use std::sync::Arc;

use forebay_wire::ids::{BootId, ChannelNo, Ordinal, Tick};
use forebay_wire::message::Quality;
use proptest::prelude::*;

use super::*;
use crate::commit::GroupCommit;
use crate::record::{GapReason, GapRecord, ReadingRecord, Series, ValueKind};
use crate::store::memory::MemoryStore;
use crate::store::{Store as _, WriteBatch};
use crate::units::{Epoch, EventTime, LogId, Span};

fn at(partition: u16) -> TopicPartition {
    TopicPartition {
        topic: READINGS,
        partition: PartitionId(partition),
    }
}

fn source(device: u64, boot: u32) -> Source {
    Source {
        uid: DeviceUid(device.to_be_bytes()),
        boot: BootId(boot),
    }
}

/// A gateway without its links: what is taken goes to ledger and log alike.
struct Writer {
    ledger: Ledger,
    accounts: Accounts,
    commit: GroupCommit,
    now: Mono,
    /// All batches, of which a crash keeps a part.
    batches: Vec<WriteBatch>,
}

impl Writer {
    fn new() -> Self {
        let (mut accounts, mut ledger, _) = Accounts::load(&[], &BTreeMap::new(), Mono(0));
        assert_eq!(accounts.next_fetch(&mut ledger), None);
        Self {
            ledger,
            accounts,
            commit: GroupCommit::new(Epoch(1), Span(0), BTreeMap::new()),
            now: Mono(0),
            batches: Vec::new(),
        }
    }

    /// `gap` of them will never come.
    fn take(&mut self, device: u64, boot: u32, count: u64, gap: bool) {
        let source = source(device, boot);
        let account = self.ledger.open(source).expect("few devices");
        let first = account.taken;
        let to = at((device % 2) as u16);
        if gap {
            account.take_gap(GapReason::IsrFull, count);
            let record = GapRecord {
                uid: source.uid,
                boot: source.boot,
                first: Ordinal(first),
                count,
                reason: GapReason::IsrFull,
                time: EventTime(0),
            };
            return self.commit.gap(to, &record, self.now);
        }
        account.take_readings(count);
        for ordinal in first..first + count {
            let (_, record) = reading(source, ordinal);
            account.note_time(record.time);
        }
        for ordinal in first..first + count {
            let (series, record) = reading(source, ordinal);
            self.commit.reading(to, &series, &record, self.now);
        }
    }

    /// Cuts a batch, with a snapshot when one is due.
    fn cut(&mut self, wait_us: u64) {
        self.now.0 += wait_us;
        if !self.commit.is_due(self.now) {
            return;
        }
        let heads = [0, 1].map(|p| (PartitionId(p), self.commit.next(at(p))));
        let entries =
            self.accounts
                .take_due(&mut self.ledger, heads.into_iter(), (false, self.now));
        for (key, value) in entries {
            self.commit.meta(key, value, self.now);
        }
        let (token, batch) = self.commit.poll(self.now).expect("due");
        self.commit.committed(token);
        self.batches.push(batch);
    }

    /// What stands on the disk when the blocks of the first `blocks` batches and the
    /// meta entries of the first `meta` are there.
    fn disk(&self, blocks: usize, meta: usize) -> MemoryStore {
        let mut store = MemoryStore::create(LogId([1; 16]), 1);
        for (n, batch) in self.batches[..blocks].iter().enumerate() {
            let mut batch = batch.clone();
            if n >= meta {
                batch.meta.clear();
            }
            store.append(&batch).expect("the twin takes it");
        }
        store.sync().expect("the twin syncs");
        store
    }
}

fn reading(source: Source, ordinal: u64) -> (Series, ReadingRecord) {
    let series = Series {
        uid: source.uid,
        boot: source.boot,
        channel: ChannelNo(0),
        kind: ValueKind::Scaled { scale: 0 },
        name: Arc::from("a"),
        unit: Arc::from(""),
    };
    let (time, tick) = (EventTime(ordinal as i64), Tick(ordinal));
    let record = ReadingRecord {
        series: 0,
        ordinal: Ordinal(ordinal),
        tick,
        time,
        uncertainty_us: 0,
        value: 1,
        quality: Quality::Ok,
    };
    (series, record)
}

/// A start on this disk, and how many blocks it read.
fn start(store: &MemoryStore, meta: &[Entry]) -> (Ledger, Option<String>, usize) {
    let heads = store.opened().heads;
    let (mut accounts, mut ledger, note) = Accounts::load(meta, &heads, Mono(0));
    let mut read = 0;
    while let Some((at, from)) = accounts.next_fetch(&mut ledger) {
        let blocks = store.read(at, from, 1000).expect("the twin reads");
        read += blocks.len();
        accounts.on_fetched(at.partition, &blocks, &mut ledger);
    }
    assert!(accounts.is_recovered());
    (ledger, note, read)
}

fn meta_of(store: &MemoryStore) -> Vec<Entry> {
    store.meta_with_prefix(b"").expect("the twin reads")
}

/// All that a ledger says, and that each account closes.
fn said(ledger: &mut Ledger) -> Vec<(DeviceUid, DeviceAccounts)> {
    let uids: Vec<_> = ledger.devices().map(|(uid, _)| uid).collect();
    for uid in uids {
        ledger
            .open(Source {
                uid,
                boot: BootId(0),
            })
            .expect("known");
    }
    let mut all: Vec<_> = ledger
        .take_changed()
        .map(|(uid, accounts)| (uid, accounts.clone()))
        .collect();
    for (uid, accounts) in &mut all {
        // Made by the question itself, where the device had no such boot.
        accounts.boots.retain(|_, account| account.taken > 0);
        for (boot, account) in &accounts.boots {
            assert_eq!(account.taken, account.counts.ordinals(), "{uid} {boot:?}");
            assert_eq!(account.taken, account.durable, "{uid} {boot:?}");
        }
    }
    all.retain(|(_, accounts)| !accounts.boots.is_empty());
    all
}

type Script = Vec<(u64, u32, u64, bool, u64)>;

fn script() -> impl Strategy<Value = Script> {
    let wait = prop_oneof![Just(0_u64), Just(1), Just(SNAPSHOT_EVERY_US / 3)];
    let step = (0..4_u64, 0..3_u32, 1..400_u64, any::<bool>(), wait);
    prop::collection::vec(step, 1..40)
}

fn written(script: &Script) -> Writer {
    let mut writer = Writer::new();
    for (device, boot, count, gap, wait) in script {
        writer.take(*device, *boot, *count, *gap && *count < 20);
        writer.cut(*wait);
    }
    writer
}

proptest! {
    #[test]
    fn a_start_with_and_without_a_snapshot_says_the_same(
        script in script(), blocks in 0.0..1.0, meta in 0.0..1.0
    ) {
        let writer = written(&script);
        let all = writer.batches.len();
        let blocks = (blocks * (all + 1) as f64) as usize;
        let store = writer.disk(blocks, (meta * (blocks + 1) as f64) as usize);
        let (mut with, note, few) = start(&store, &meta_of(&store));
        prop_assert_eq!(note, None);
        let (mut without, _, many) = start(&store, &[]);
        prop_assert!(few <= many);
        prop_assert_eq!(said(&mut with), said(&mut without));
        if blocks == all {
            let mut written = writer.ledger.clone();
            let sum = |ledger: &Ledger| (ledger.total().readings, ledger.total().gap_total());
            prop_assert_eq!(sum(&with), sum(&written));
            prop_assert_eq!(written.total().lost, 0);
            written.close_replay();
            prop_assert_eq!(written.total().lost, 0);
        }
    }

    #[test]
    fn a_damaged_snapshot_costs_a_read_of_the_log_and_the_next_one_reads(
        script in script(), pick in any::<prop::sample::Index>(), byte in any::<prop::sample::Index>()
    ) {
        let mut writer = written(&script);
        writer.take(0, 0, 1, false);
        writer.cut(SNAPSHOT_EVERY_US);
        let store = writer.disk(writer.batches.len(), writer.batches.len());
        let mut meta = meta_of(&store);
        let entry = pick.index(meta.len());
        let at = byte.index(meta[entry].1.len());
        meta[entry].1[at] ^= 0x10;
        let (mut ledger, note, _) = start(&store, &meta);
        prop_assert!(note.is_some());
        let (mut whole, ..) = start(&store, &[]);
        prop_assert_eq!(said(&mut ledger), said(&mut whole));
    }

    #[test]
    fn what_a_snapshot_covers_may_be_trimmed(script in script()) {
        let mut writer = written(&script);
        writer.take(0, 0, 1, false);
        writer.cut(SNAPSHOT_EVERY_US);
        writer.take(1, 0, 30, false);
        writer.cut(0);
        let whole = writer.disk(writer.batches.len(), writer.batches.len());
        let meta = meta_of(&whole);
        // Only the last batch is kept.
        let mut store = MemoryStore::create(LogId([1; 16]), 1);
        store.append(writer.batches.last().expect("two")).expect("the twin takes it");
        let mut heads = whole.opened().heads;
        heads.extend(store.opened().heads);
        let (mut accounts, mut ledger, note) = Accounts::load(&meta, &heads, Mono(0));
        prop_assert_eq!(note, None);
        while let Some((at, from)) = accounts.next_fetch(&mut ledger) {
            let blocks = store.read(at, from, 1000).expect("the twin reads");
            accounts.on_fetched(at.partition, &blocks, &mut ledger);
        }
        prop_assert_eq!(said(&mut ledger), said(&mut start(&whole, &[]).0));
    }
}

#[test]
fn without_a_snapshot_what_is_trimmed_counts_as_lost() {
    let mut writer = Writer::new();
    writer.take(0, 7, 10, false);
    writer.cut(0);
    writer.take(0, 7, 5, false);
    writer.cut(0);
    let mut store = MemoryStore::create(LogId([1; 16]), 1);
    store.append(&writer.batches[1]).expect("the twin takes it");
    let (ledger, ..) = start(&store, &[]);
    let account = ledger.get(source(0, 7)).expect("an account");
    assert_eq!((account.taken, account.durable), (15, 15));
    assert_eq!((account.counts.readings, account.counts.lost), (5, 10));
}

#[test]
fn a_snapshot_newer_than_the_log_is_not_believed() {
    let mut writer = Writer::new();
    writer.take(0, 1, 10, false);
    writer.cut(SNAPSHOT_EVERY_US);
    let meta = meta_of(&writer.disk(1, 1));
    let (ledger, note, _) = start(&writer.disk(0, 0), &meta);
    assert!(note.expect("a note").contains("newer than the log"));
    assert!(ledger.is_empty());
}

#[test]
fn a_snapshot_is_due_by_time_or_by_bytes_and_only_when_something_changed() {
    for (name, wait, bytes, changed, due) in [
        (
            "early",
            SNAPSHOT_EVERY_US - 1,
            SNAPSHOT_BYTES - 1,
            true,
            false,
        ),
        ("time", SNAPSHOT_EVERY_US, 0, true, true),
        ("bytes", 0, SNAPSHOT_BYTES, true, true),
        (
            "nothing new",
            SNAPSHOT_EVERY_US,
            SNAPSHOT_BYTES,
            false,
            false,
        ),
    ] {
        let mut writer = Writer::new();
        if changed {
            writer.take(0, 1, 1, false);
        }
        writer.accounts.wrote(bytes);
        let heads = std::iter::empty();
        let entries = writer
            .accounts
            .take_due(&mut writer.ledger, heads, (false, Mono(wait)));
        assert_eq!(!entries.is_empty(), due, "{name}");
    }
}

#[test]
fn a_snapshot_that_is_wanted_comes_with_the_next_batch_and_counts_once_it_is_durable() {
    let (mut accounts, mut ledger, _) = Accounts::load(&[], &BTreeMap::new(), Mono(0));
    assert!(!accounts.want(), "not before the accounts are known");
    assert_eq!(accounts.next_fetch(&mut ledger), None);
    let account = ledger.open(source(0, 1)).expect("room");
    account.take_readings(5);
    assert!(accounts.want());
    assert!(!accounts.want(), "once");
    let heads = || [(PartitionId(0), Offset(5))].into_iter();
    let entries = accounts.take_due(&mut ledger, heads(), (false, Mono(1)));
    assert_eq!(entries.len(), 2, "an account and a head");
    let mut kept = Vec::new();
    // An earlier batch is under way, then the one with the snapshot.
    accounts.on_committed();
    kept.push(accounts.kept(PartitionId(0)).0);
    accounts.on_cut();
    kept.push(accounts.kept(PartitionId(0)).0);
    assert!(!accounts.want(), "one is on its way");
    accounts.on_committed();
    kept.push(accounts.kept(PartitionId(0)).0);
    assert_eq!(kept, [0, 0, 5]);
    assert!(accounts.want());
}

#[test]
fn an_account_of_a_device_that_the_log_forgot_is_emptied() {
    let mut writer = Writer::new();
    writer.take(0, 1, 10, false);
    writer.take(2, 1, 10, false);
    writer.cut(SNAPSHOT_EVERY_US);
    let store = writer.disk(1, 1);
    let mut meta = meta_of(&store);
    meta.retain(|(key, _)| key.starts_with(ACCOUNT_META_PREFIX));
    // One of a device that has no record any more, and no heads: nothing is believed.
    let gone = [ACCOUNT_META_PREFIX, b"00000000000000ff"].concat();
    meta.push((gone.clone(), meta[0].1.clone()));
    let (mut accounts, mut ledger, note) = Accounts::load(&meta, &store.opened().heads, Mono(0));
    assert!(note.is_some());
    while let Some((at, from)) = accounts.next_fetch(&mut ledger) {
        let blocks = store.read(at, from, 1000).expect("the twin reads");
        accounts.on_fetched(at.partition, &blocks, &mut ledger);
    }
    let heads = store.opened().heads;
    let heads = heads.into_iter().map(|(at, head)| (at.partition, head));
    let kept = accounts.take_due(&mut ledger, heads, (false, Mono(SNAPSHOT_EVERY_US)));
    let kept: BTreeMap<_, _> = meta.into_iter().chain(kept).collect();
    assert_eq!(kept[&gone], b"");
    let (_, note, read) = start(&store, &kept.into_iter().collect::<Vec<_>>());
    assert_eq!((note, read), (None, 0));
}

#[test]
fn the_bytes_of_an_account_are_the_table() {
    let mut accounts = DeviceAccounts::default();
    accounts.folded.readings = 300;
    accounts.boots.insert(
        BootId(7),
        Account {
            taken: 5,
            durable: 5,
            counts: Counts {
                readings: 2,
                gaps: [0, 1, 0, 0, 2],
                duplicates: 9,
                lost: 0,
            },
            nth: 3,
            said: 6,
            reset_cause: Some(ResetCause::Watchdog),
            times: Some((EventTime(-1), EventTime(2))),
        },
    );
    let bytes = account_bytes(&accounts);
    let (body, crc) = bytes.split_last_chunk::<4>().expect("a CRC");
    assert_eq!(
        body,
        [
            2, 5, // version, gap reasons
            0xac, 2, 0, 0, 0, 0, 0, 0, 0, // folded: readings, duplicates, lost, gaps
            1, 7, 5, // one boot: number, taken
            2, 9, 0, 0, 1, 0, 0, 2, // its counts
            3, 6, // place, ordinals that it said it gave out
            5, 1, 1, 4, // reset cause, times
        ]
    );
    assert_eq!(u32::from_le_bytes(*crc), crc32c::crc32c(body));
    assert_eq!(parse_account(&bytes), Some(accounts));
    for cut in 0..bytes.len() {
        assert_eq!(parse_account(&bytes[..cut]), None, "{cut}");
    }
    // Written by a version that knew fewer reasons, and only counts of a boot.
    let older = with_crc(vec![
        1, 1, 3, 0, 0, 4, // folded
        2, 7, 2, 2, 0, 0, 0, 9, 1, 1, 0, 0, 0, // two boots
    ]);
    let DeviceAccounts { boots, folded } = parse_account(&older).expect("reads");
    assert_eq!((folded.readings, folded.gaps), (3, [4, 0, 0, 0, 0]));
    let taken: Vec<_> = boots.values().map(|a| (a.nth, a.taken, a.times)).collect();
    assert_eq!(taken, [(0, 2, None), (1, 1, None)]);
    for version in [0, 3] {
        assert_eq!(parse_account(&with_crc(vec![version, 0, 0, 0, 0, 0])), None);
    }
}
