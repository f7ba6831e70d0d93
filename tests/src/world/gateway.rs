//! The gateway of the world: the real core over the store's twin in memory. The
//! storage thread takes its time; a crash loses what was not synced.

use std::collections::VecDeque;

use forebay_core::commit::CommitToken;
use forebay_core::effect::FetchToken;
use forebay_core::effect::{Effect, GatewayConfig, Input, Opened};
use forebay_core::log::key::TopicPartition;
use forebay_core::pipeline::Gateway;
use forebay_core::store::memory::MemoryStore;
use forebay_core::store::{Store as _, StoredBlock};
use forebay_core::units::{EventTime, LogId, Mono, Now, PortId};

use super::broker::{Broker, ToGateway};
use super::device::WorldDevice;
use super::dice::Dice;
use super::line::LineFaults;

/// World time 0 in event time, us.
pub const UTC_0: i64 = 1_772_323_200_000_000;
/// Longest time of a commit, us.
const COMMIT_US: u64 = 12_000;
/// Messages that the broker takes unacked.
const WINDOW: u16 = 16;

#[derive(Debug)]
enum Job {
    Commit(CommitToken),
    Fetch(FetchToken, Vec<StoredBlock>),
}

/// A gateway with its store.
#[derive(Debug)]
pub struct WorldGateway {
    config: GatewayConfig,
    core: Gateway,
    store: MemoryStore,
    /// What the storage thread is doing, and when each is done.
    jobs: VecDeque<(u64, Job)>,
}

fn now_of(now: u64) -> Now {
    Now {
        mono: Mono(now),
        utc: EventTime(UTC_0 + now as i64),
    }
}

fn opened(store: &MemoryStore) -> Opened {
    Opened {
        store: store.opened(),
        meta: store.meta_with_prefix(b"").expect("the twin reads"),
    }
}

impl WorldGateway {
    #[must_use]
    pub fn start(config: GatewayConfig, now: u64, dice: &mut Dice) -> Self {
        let mut log_id = [0; 16];
        log_id[..8].copy_from_slice(&dice.below(u64::MAX).to_le_bytes());
        let store = MemoryStore::create(LogId(log_id), dice.below(u64::MAX));
        let core = Gateway::new(config.clone(), &opened(&store), now_of(now)).expect("it grows");
        Self {
            config,
            core,
            store,
            jobs: VecDeque::new(),
        }
    }

    /// When the gateway wants to run, us.
    #[must_use]
    pub fn next(&self, now: u64) -> Option<u64> {
        let job = self.jobs.front().map(|(at, _)| *at);
        let deadline = self.core.next_deadline().map(|mono| mono.0.max(now));
        job.into_iter().chain(deadline).min()
    }

    #[must_use]
    pub fn core(&self) -> &Gateway {
        &self.core
    }

    /// All blocks of one partition, for the model.
    #[must_use]
    pub fn blocks(&self, at: TopicPartition) -> Vec<StoredBlock> {
        self.store.blocks(at).collect()
    }

    /// Opens the ports of all devices.
    pub fn open_ports(&mut self, now: u64, devices: usize) {
        for port in 0..devices as u32 {
            self.core
                .handle(Input::PortOpened(PortId(port)), now_of(now));
        }
    }

    /// A port goes away and comes back.
    pub fn replug(&mut self, now: u64, port: usize) {
        let port = PortId(port as u32);
        self.core.handle(Input::PortClosed(port), now_of(now));
        self.core.handle(Input::PortOpened(port), now_of(now));
    }

    /// Hears a device.
    pub fn hear(&mut self, now: u64, port: usize, bytes: &[u8]) {
        let port = PortId(port as u32);
        self.core.handle(Input::PortBytes(port, bytes), now_of(now));
    }

    /// Hears the broker.
    pub fn hear_broker(&mut self, now: u64, event: &ToGateway) {
        let now = now_of(now);
        let input = match event {
            ToGateway::Connected(conn) => Input::BrokerConnected {
                conn: *conn,
                window: WINDOW,
            },
            ToGateway::Acked(conn, send) => Input::BrokerAcked(*conn, *send),
            ToGateway::Disconnected(conn) => Input::BrokerDisconnected {
                conn: *conn,
                reason: "the world's broker".into(),
            },
            ToGateway::Message(topic, payload) => Input::BrokerMessage { topic, payload },
        };
        self.core.handle(input, now);
    }

    /// Does what is due, and all that follows from it.
    pub fn step(
        &mut self,
        now: u64,
        (devices, faults): (&mut [WorldDevice], LineFaults),
        broker: &mut Broker,
        dice: &mut Dice,
    ) {
        while self.jobs.front().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, job)) = self.jobs.pop_front() {
                self.finish(now, job);
            }
        }
        if self.core.next_deadline().is_some_and(|mono| mono.0 <= now) {
            self.core.handle(Input::Deadline, now_of(now));
        }
        while let Some(effect) = self.core.poll_effect() {
            self.act(now, effect, (&mut *devices, faults), broker, dice);
        }
    }

    fn finish(&mut self, now: u64, job: Job) {
        match job {
            Job::Commit(token) => {
                self.store.sync().expect("the twin syncs");
                self.core.handle(Input::Committed(token), now_of(now));
            }
            Job::Fetch(token, blocks) => {
                self.core.handle(Input::Fetched(token, blocks), now_of(now));
            }
        }
    }

    fn act(
        &mut self,
        now: u64,
        effect: Effect,
        (devices, faults): (&mut [WorldDevice], LineFaults),
        broker: &mut Broker,
        dice: &mut Dice,
    ) {
        match effect {
            Effect::PortWrite(port, bytes) => {
                if let Some(device) = devices.get_mut(port.0 as usize) {
                    device.down.send(now, bytes, faults, dice);
                }
            }
            Effect::Commit(token, batch) => {
                self.store.append(&batch).expect("the twin takes it");
                let time = 500 + dice.below(COMMIT_US);
                self.work(now, time, Job::Commit(token));
            }
            Effect::Fetch {
                token,
                at,
                from,
                bytes_max,
            } => {
                let blocks = self.store.read(at, from, bytes_max);
                let job = Job::Fetch(token, blocks.expect("the twin reads"));
                self.work(now, 50, job);
            }
            Effect::Remove(segments) => self.store.remove(&segments).expect("the twin removes"),
            Effect::Publish {
                conn,
                send,
                topic,
                payload,
                ..
            } => broker.publish(now, (conn, send, topic, payload), dice),
            Effect::BrokerReset(conn, _) => broker.reset_gateway(now, conn, dice),
            Effect::Answer(..) | Effect::Imported(..) => panic!("nobody asked"),
            Effect::Note(note) => panic!("nothing to note in this world: {note}"),
            Effect::Stop(error) => panic!("the twin failed: {error}"),
        }
    }

    fn work(&mut self, now: u64, time: u64, job: Job) {
        let last = self.jobs.back().map_or(0, |(at, _)| *at);
        self.jobs.push_back((last.max(now) + time, job));
    }

    /// Killed with the power: a part of the unsynced batches is lost; started again.
    pub fn crash(&mut self, now: u64, broker: &mut Broker, dice: &mut Dice) {
        let keep = dice.below(self.store.unsynced() as u64 + 1) as usize;
        self.store.crash(keep, dice.below(u64::MAX));
        self.jobs.clear();
        self.core =
            Gateway::new(self.config.clone(), &opened(&self.store), now_of(now)).expect("it grows");
        broker.drop_gateway(now, dice);
    }
}
