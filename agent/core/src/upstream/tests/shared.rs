//! Several workers on one sink, each with a state of its own: who comes second is
//! refused, loads anew and judges again; each offset counts once.

use proptest::prelude::*;

use super::*;
use crate::payload::Command;

/// A sink that others write to as well.
#[derive(Default)]
struct Shared {
    sink: Sink,
    versions: BTreeMap<GatewayName, u64>,
}

impl Shared {
    /// All or nothing; gateways that another worker has changed are named.
    fn commit(&mut self, batch: &Batch) -> Vec<GatewayName> {
        let held = |name| self.versions.get(name).copied().unwrap_or(0);
        let changed = batch.gateways.iter();
        let changed = changed.filter(|(name, version)| held(name) != *version);
        let changed: Vec<_> = changed.map(|(name, _)| name.clone()).collect();
        if changed.is_empty() {
            self.sink.write(batch);
            for (name, version) in &batch.gateways {
                self.versions.insert(name.clone(), version + 1);
            }
        }
        changed
    }

    fn load(&self, gateway: Option<&GatewayName>) -> Loaded {
        let of = |table| {
            let entries = self.sink.table(table).into_iter();
            let own = |key: &[u8]| gateway.is_none_or(|name| owner(table, key) == *name);
            entries.filter(|(key, _)| own(key)).collect()
        };
        let versions = self.versions.iter();
        let versions = versions.filter(|(name, _)| gateway.is_none_or(|of| of == *name));
        Loaded {
            marks: of(Table::Marks),
            meta: of(Table::Meta),
            versions: versions.map(|(name, n)| (name.clone(), *n)).collect(),
        }
    }

    fn worker(&self) -> Applier {
        Applier::load(self.load(None)).expect("what was stored reads back")
    }

    /// As the worker of the node does it; `spurious`: gateways of which the sink says
    /// once that they changed though they did not.
    fn write(&mut self, applier: &mut Applier, spurious: usize) {
        let mut batch = applier.take_batch();
        let names = batch.gateways.iter().map(|(name, _)| name.clone());
        let mut refused: Vec<_> = names.take(spurious).collect();
        while !batch.is_empty() {
            if refused.is_empty() {
                refused = self.commit(&batch);
            }
            if refused.is_empty() {
                break;
            }
            let loaded = refused.drain(..).map(|name| {
                let loaded = self.load(Some(&name));
                (name, loaded)
            });
            let loaded = loaded.collect();
            batch = applier.conflict(batch, loaded).expect("it reads back");
        }
        applier.committed(Mono(0));
    }
}

fn name(number: usize) -> GatewayName {
    GatewayName::new(&format!("gw-{number}")).unwrap()
}

fn deliver(applier: &mut Applier, gateway: usize, block: &Block) {
    let gateway = name(gateway);
    let topic = gateway.data_topic(&stream(), PartitionId(0));
    let id = MessageId::of(&gateway, LOG, nonce_of(block), &stream(), block);
    let payload = Encoding::default().render_block(&id, block).unwrap();
    let outcome = applier.handle(&topic, payload.into());
    assert_eq!(outcome, Outcome::Taken { gateway });
}

#[derive(Debug, Clone)]
enum Act {
    Deliver { gateway: usize, block: usize },
    Rubbish,
    Session(u8),
    Commit { spurious: usize },
    Crash,
}

fn acts() -> impl Strategy<Value = Vec<(usize, Act)>> {
    let act = prop_oneof![
        8 => (0..2usize, any::<usize>()).prop_map(|(gateway, block)| Act::Deliver { gateway, block }),
        1 => Just(Act::Rubbish),
        1 => any::<u8>().prop_map(Act::Session),
        4 => (0..4usize).prop_map(|spurious| Act::Commit { spurious }),
        1 => Just(Act::Crash),
    ];
    prop::collection::vec((0..3usize, act), 0..80)
}

proptest! {
    #[test]
    fn each_offset_is_applied_once_by_whoever_comes_first(blocks in log(), acts in acts()) {
        let mut shared = Shared::default();
        let mut workers = [shared.worker(), shared.worker(), shared.worker()];
        let mut delivered = [BTreeSet::new(), BTreeSet::new()];
        let (mut messages, mut rubbish, mut crashes) = (0, 0, 0);
        for (worker, act) in acts {
            let applier = &mut workers[worker];
            match act {
                Act::Deliver { gateway, block } => {
                    let block = block % blocks.len();
                    deliver(applier, gateway, &blocks[block]);
                    delivered[gateway].insert(block);
                    messages += 1;
                }
                Act::Rubbish => {
                    applier.handle(TOPIC, b"rubbish"[..].into());
                    rubbish += 1;
                    messages += 1;
                }
                Act::Session(byte) => applier.renew_session(SessionNonce([byte; 16])),
                Act::Commit { spurious } => shared.write(applier, spurious),
                Act::Crash => {
                    // What it had not written comes again, to anyone.
                    *applier = shared.worker();
                    crashes += 1;
                }
            }
        }
        if crashes > 0 {
            for (gateway, of) in delivered.iter().enumerate() {
                for block in of {
                    deliver(&mut workers[block % 3], gateway, &blocks[*block]);
                }
            }
        }
        for applier in &mut workers {
            applier.keep_counters();
            shared.write(applier, 0);
        }
        let mut want = Vec::new();
        let (mut readings, mut gaps) = (0, 0);
        for of in &delivered {
            let of: Vec<_> = of.iter().map(|block| blocks[*block].clone()).collect();
            let (offsets, r, g) = expected(&of);
            want.extend(offsets);
            readings += r;
            gaps += g;
        }
        let rows = shared.sink.rows();
        let seen: Vec<_> = rows.iter().map(|(epoch, offset, _)| (*epoch, *offset)).collect();
        prop_assert_eq!(seen, want, "rows stand in the order of gateways");
        let again = shared.worker();
        let counters = again.counters();
        prop_assert_eq!((counters.readings, counters.gap_records), (readings, gaps));
        prop_assert_eq!(counters.clones, 0);
        let mut sum = Tally::default();
        again.ledger().devices().for_each(|(_, _, tally)| sum.add(&tally.total()));
        prop_assert_eq!((sum.readings, sum.gap_total()), (readings, 3 * gaps));
        if crashes == 0 {
            prop_assert_eq!((counters.messages, counters.rejected), (messages, rubbish));
            prop_assert_eq!(shared.sink.table(Table::Rejected).len() as u64, rubbish);
        }
    }
}

#[test]
fn an_ack_says_which_is_newer() {
    let mut shared = Shared::default();
    let (mut a, mut b) = (shared.worker(), shared.worker());
    a.renew_session(SessionNonce([1; 16]));
    shared.write(&mut a, 0);
    let ack = |applier: &Applier| {
        let ack = applier.ack_message(&name(0)).expect("something came");
        (ack.session.0[0], ack.seq, ack.marks[0].next.0)
    };
    deliver(&mut a, 0, &block(1, 0, 5));
    shared.write(&mut a, 0);
    assert_eq!(ack(&a), (1, 1, 5));
    // The other knows neither the session nor the first block.
    deliver(&mut b, 0, &block(1, 5, 5));
    b.renew_session(SessionNonce([2; 16]));
    shared.write(&mut b, 0);
    assert_eq!((ack(&b), ack(&a)), ((2, 2, 10), (1, 1, 5)));
    // Told by the hello of the other.
    let loaded = shared.load(Some(&crate::upstream::batch::shared()));
    let of = vec![(crate::upstream::batch::shared(), loaded)];
    let batch = a.conflict(Batch::default(), of).unwrap();
    assert!(batch.is_empty());
    assert_eq!(ack(&a), (2, 1, 5));
    deliver(&mut a, 0, &block(1, 10, 5));
    shared.write(&mut a, 0);
    assert_eq!(ack(&a), (2, 3, 15));
}

/// A hole that the other worker has filled is not asked for.
#[test]
fn holes_close_when_another_has_what_was_missing() {
    let mut shared = Shared::default();
    let (mut a, mut b) = (shared.worker(), shared.worker());
    deliver(&mut a, 0, &block(1, 5, 5));
    shared.write(&mut a, 0);
    assert_eq!((a.holes(), b.holes()), (1, 0));
    deliver(&mut b, 0, &block(1, 0, 5));
    shared.write(&mut b, 0);
    assert_eq!(b.holes(), 0);
    deliver(&mut a, 0, &block(1, 12, 5));
    shared.write(&mut a, 0);
    let (_, Command::Resend { from, .. }) = a.poll_resend(Mono(u64::MAX)).expect("a new one");
    assert_eq!(from, Offset(10));
}
