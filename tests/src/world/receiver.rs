//! The receiver of the world: the real apply rules over tables that a crash takes
//! back to the last transaction.

use std::collections::BTreeMap;

use forebay_core::payload::{GatewayName, SessionNonce, UPSTREAM_TOPIC, UpstreamHello};
use forebay_core::units::Mono;
use forebay_core::upstream::apply::{Applier, Outcome};
use forebay_core::upstream::batch::{Loaded, Table};
use forebay_core::upstream::embed;
use forebay_core::upstream::ledger::UpstreamLedger;

use super::broker::{Broker, ToReceiver};
use super::dice::Dice;

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// A receiver with its tables.
#[derive(Debug, Default)]
pub struct Receiver {
    applier: Applier,
    tables: BTreeMap<Table, Rows>,
    versions: BTreeMap<GatewayName, u64>,
    /// Messages of the batch that is not written yet.
    unwritten: Vec<u64>,
    touched: Vec<GatewayName>,
    commit_at: Option<u64>,
}

/// Time from the first message of a batch to its transaction, us.
const COMMIT_US: u64 = 5_000;

impl Receiver {
    /// When the batch is written, us.
    #[must_use]
    pub fn next(&self) -> Option<u64> {
        self.commit_at
    }

    /// Rows of the sink, in key order.
    #[must_use]
    pub fn rows(&self) -> Rows {
        self.tables.get(&Table::Rows).cloned().unwrap_or_default()
    }

    /// What it counted of each device.
    #[must_use]
    pub fn ledger(&self) -> &UpstreamLedger {
        self.applier.ledger()
    }

    /// Hears the broker.
    pub fn hear(&mut self, now: u64, event: ToReceiver, broker: &mut Broker, dice: &mut Dice) {
        match event {
            ToReceiver::Connected { session_present } => {
                if !session_present || self.applier.session().is_none() {
                    let mut nonce = [0; 16];
                    nonce[..8].copy_from_slice(&dice.below(u64::MAX).to_le_bytes());
                    self.applier.renew_session(SessionNonce(nonce));
                    self.write();
                    self.applier.committed(Mono(now));
                }
                self.say_hello(now, broker, dice);
            }
            ToReceiver::Disconnected => {}
            ToReceiver::Message { id, topic, payload } => {
                match self.applier.handle(&topic, payload.into()) {
                    Outcome::Taken { gateway } => {
                        self.unwritten.push(id);
                        self.touched.push(gateway);
                    }
                    Outcome::Beyond { gateway } => {
                        self.unwritten.push(id);
                        self.touched.push(gateway);
                    }
                    Outcome::Rejected { reason } => panic!("our own message: {reason}"),
                }
                self.commit_at.get_or_insert(now + COMMIT_US);
            }
        }
    }

    fn say_hello(&mut self, now: u64, broker: &mut Broker, dice: &mut Dice) {
        let Some(session) = self.applier.session() else {
            return;
        };
        let hello = UpstreamHello {
            session,
            online: true,
        };
        broker.retain(now, UPSTREAM_TOPIC.into(), hello.render(), dice);
        self.touched = self.applier.gateways().cloned().collect();
        self.publish_marks(now, broker, dice);
    }

    /// Writes the batch when it is due, then acks and tells the marks.
    pub fn step(&mut self, now: u64, broker: &mut Broker, dice: &mut Dice) {
        if self.commit_at.is_some_and(|at| at <= now) {
            self.commit_at = None;
            self.write();
            self.applier.committed(Mono(now));
            for id in self.unwritten.drain(..) {
                broker.ack(id);
            }
            self.publish_marks(now, broker, dice);
        }
        while let Some((gateway, command)) = self.applier.poll_resend(Mono(now)) {
            broker.command(now, gateway.cmd_topic(), command.render(), dice);
        }
    }

    fn write(&mut self) {
        let batch = self.applier.take_batch();
        for (gateway, version) in &batch.gateways {
            let held = self.versions.insert(gateway.clone(), version + 1);
            assert_eq!(held.unwrap_or(0), *version, "it is the only worker");
        }
        for write in embed::writes(&batch) {
            let table = self.tables.entry(write.table).or_default();
            match write.value {
                Some(value) => {
                    let before = table.insert(write.key, value);
                    assert!(
                        !(write.must_be_new && before.is_some()),
                        "a row was applied twice"
                    );
                }
                None => drop(table.remove(&write.key)),
            }
        }
    }

    fn publish_marks(&mut self, now: u64, broker: &mut Broker, dice: &mut Dice) {
        // What is in the batch is not durable: no marks of it.
        if self.commit_at.is_some() {
            return;
        }
        let mut touched = std::mem::take(&mut self.touched);
        touched.sort();
        touched.dedup();
        for gateway in touched {
            if let Some(ack) = self.applier.ack_message(&gateway) {
                broker.retain(now, gateway.ack_topic(), ack.render(), dice);
            }
        }
    }

    /// Killed: the batch is gone, the tables stay; started again at once.
    pub fn crash(&mut self, now: u64, broker: &mut Broker, dice: &mut Dice) {
        let table = |table| {
            let table = self.tables.get(&table).cloned().unwrap_or_default();
            table.into_iter().collect()
        };
        let loaded = Loaded {
            marks: table(Table::Marks),
            meta: table(Table::Meta),
            versions: self.versions.clone(),
        };
        self.applier = Applier::load(loaded).expect("the tables read back");
        self.unwritten.clear();
        self.touched.clear();
        self.commit_at = None;
        broker.drop_receiver(now, dice);
    }
}
