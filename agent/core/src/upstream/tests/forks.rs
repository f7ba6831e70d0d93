//! Disks of one log that went separate ways: restored from an old backup, cloned and
//! both running, wiped. Nothing new is dropped as old.

use proptest::prelude::*;

use super::*;

/// A disk of the log: what it holds of each offset, and its openings.
#[derive(Debug, Clone, Default)]
struct Disk {
    /// By offset: the opening that wrote it.
    records: Vec<(u32, u64)>,
    epoch: u32,
    nonce: u64,
}

impl Disk {
    fn open(&mut self, nonce: u64) {
        self.epoch += 1;
        self.nonce = nonce;
    }

    fn write(&mut self, count: usize) {
        let record = (self.epoch, self.nonce);
        self.records.extend(std::iter::repeat_n(record, count));
    }

    /// Blocks of all from an offset on, each of one opening.
    fn blocks(&self, from: usize) -> Vec<(Block, EpochNonce)> {
        let mut out = Vec::new();
        let mut at = from;
        while let Some((epoch, nonce)) = self.records.get(at).copied() {
            let same = self.records[at..].iter();
            let count = same.take_while(|of| **of == (epoch, nonce)).count().min(7);
            let block = block(epoch, at as u64, count as u64);
            out.push((block, EpochNonce(nonce)));
            at += count;
        }
        out
    }
}

fn deliver(applier: &mut Applier, (block, nonce): &(Block, EpochNonce)) {
    let id = MessageId::of(&gateway(), LOG, *nonce, &stream(), block);
    let payload = Encoding::default().render_block(&id, block).unwrap();
    let outcome = applier.handle(TOPIC, payload.into());
    assert_eq!(outcome, Outcome::Taken { gateway: gateway() });
}

/// Rows by opening and offset, from the keys.
fn applied(sink: &Sink) -> BTreeSet<(u32, u64, u64)> {
    let mut reader = RowReader::default();
    let mut out = BTreeSet::new();
    for (key, value) in sink.table(Table::Rows) {
        for row in reader.push(&key, &value).unwrap() {
            let new = out.insert((row.epoch.0, row.nonce.0, row.offset.0));
            assert!(new, "applied twice: {row:?}");
        }
    }
    out
}

#[derive(Debug, Clone)]
enum Act {
    Write {
        disk: usize,
        count: usize,
    },
    /// Opens again, as after a restart.
    Open {
        disk: usize,
    },
    /// The other disk becomes a copy of this one, as it is now.
    Copy {
        disk: usize,
    },
    /// Sends from an offset on.
    Send {
        disk: usize,
        from: usize,
    },
    Commit,
    Crash,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        4 => (0..2usize, 1..12usize).prop_map(|(disk, count)| Act::Write { disk, count }),
        2 => (0..2usize).prop_map(|disk| Act::Open { disk }),
        1 => (0..2usize).prop_map(|disk| Act::Copy { disk }),
        4 => (0..2usize, 0..60usize).prop_map(|(disk, from)| Act::Send { disk, from }),
        2 => Just(Act::Commit),
        1 => Just(Act::Crash),
    ];
    prop::collection::vec(act, 0..40)
}

proptest! {
    /// A model that knows what each disk ever sent.
    #[test]
    fn what_each_disk_sends_is_applied_once(acts in acts()) {
        let mut sink = Sink::default();
        let mut applier = sink.load();
        applier.renew_session(SessionNonce([1; 16]));
        let mut disks = [Disk::default(), Disk::default()];
        disks[0].open(1);
        disks[1] = disks[0].clone();
        disks[1].open(2);
        let mut nonce = 2;
        let mut sent = BTreeSet::new();
        let mut uncommitted = Vec::new();
        for act in acts {
            match act {
                Act::Write { disk, count } => disks[disk].write(count),
                Act::Open { disk } => {
                    nonce += 1;
                    disks[disk].open(nonce);
                }
                Act::Copy { disk } => {
                    disks[1 - disk] = disks[disk].clone();
                    nonce += 1;
                    disks[1 - disk].open(nonce);
                }
                Act::Send { disk, from } => {
                    for sending in disks[disk].blocks(from) {
                        deliver(&mut applier, &sending);
                        let (block, nonce) = &sending;
                        let offsets = block.base.0..block.end().0;
                        sent.extend(offsets.map(|offset| (block.epoch.0, nonce.0, offset)));
                        uncommitted.push(sending);
                    }
                }
                Act::Commit => {
                    sink.commit(&mut applier);
                    applier.committed(Mono(0));
                    uncommitted.clear();
                }
                Act::Crash => {
                    applier = sink.load();
                    for sending in &uncommitted {
                        deliver(&mut applier, sending);
                    }
                }
            }
        }
        applier.keep_counters();
        sink.commit(&mut applier);
        applier.committed(Mono(0));
        prop_assert_eq!(applied(&sink), sent.clone());
        let loaded = sink.load();
        prop_assert_eq!(loaded.counters(), applier.counters());
        prop_assert_eq!(loaded.counters().readings + loaded.counters().gap_records, sent.len() as u64);
        // Who has copies is told so, and told nothing that it did not send.
        let mut numbers: BTreeMap<u32, BTreeSet<u64>> = BTreeMap::new();
        for (epoch, nonce, _) in &sent {
            numbers.entry(*epoch).or_default().insert(*nonce);
        }
        let is_forked = numbers.values().any(|nonces| nonces.len() > 1);
        prop_assert_eq!(loaded.forked().count(), usize::from(is_forked));
        prop_assert_eq!(loaded.counters().clones > 0, is_forked);
        for mark in applier.ack_message(&gateway()).iter().flat_map(|ack| &ack.marks) {
            prop_assert_eq!(mark.runs.is_empty(), !is_forked);
            for run in &mark.runs {
                for offset in run.first.0..run.next.0 {
                    prop_assert!(sent.contains(&(run.epoch.0, run.nonce.0, offset)));
                }
            }
        }
    }
}

#[test]
fn a_clone_is_told_once_and_a_wiped_disk_is_another_log() {
    let mut sink = Sink::default();
    let mut applier = sink.load();
    let mut disk = Disk::default();
    disk.open(1);
    disk.write(20);
    let mut backup = disk.clone();
    disk.open(2);
    disk.write(20);
    backup.open(3);
    backup.write(5);
    for sending in disk.blocks(0).iter().chain(&backup.blocks(0)) {
        deliver(&mut applier, sending);
    }
    let clones = applier.take_clones();
    assert_eq!(clones.len(), 1);
    let opening = clones[0].opening;
    assert_eq!((opening.epoch, opening.nonce), (Epoch(2), EpochNonce(3)));
    sink.commit(&mut applier);
    assert_eq!(applied(&sink).len(), 45);
    let mut again = sink.load();
    deliver(&mut again, &backup.blocks(20)[0]);
    assert_eq!((again.take_clones(), again.counters().clones), (vec![], 1));
    // Wiped: another log id, the same offsets.
    let wiped = block(1, 0, 5);
    let id = MessageId::of(&gateway(), LogId([3; 16]), EpochNonce(9), &stream(), &wiped);
    let payload = Encoding::default().render_block(&id, &wiped).unwrap();
    again.handle(TOPIC, payload.into());
    again.renew_session(SessionNonce([1; 16]));
    let ack = again.ack_message(&gateway()).expect("something came");
    assert_eq!((ack.log_id, ack.marks[0].next), (LogId([3; 16]), Offset(5)));
    assert!(ack.marks[0].runs.is_empty());
}
