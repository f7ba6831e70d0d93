//! The gateway of the world: the real core over the store's twin in memory. The
//! storage thread takes its time; a crash loses what was not synced.

use std::collections::{BTreeMap, VecDeque};

use forebay_core::commit::CommitToken;
use forebay_core::devices::DeviceRequest;
use forebay_core::effect::{Effect, FetchToken, GatewayConfig, Input, Opened, QueryId};
use forebay_core::engine::config::EngineConfig;
use forebay_core::forward::DestinationId;
use forebay_core::ingest::Router;
use forebay_core::log::key::TopicPartition;
use forebay_core::log::topic::{DERIVED_FIRST, READINGS};
use forebay_core::pipeline::Gateway;
use forebay_core::query::{Answer, Query};
use forebay_core::retention::WhenFull;
use forebay_core::store::memory::{Crash, MemoryDisk, MemoryStore};
use forebay_core::store::{SegmentId, Store as _, StoreEvent, StoredBlock, WriteBatch};
use forebay_core::units::{EventTime, LogId, Mono, Now, Offset, PortId, TopicId};
use serde_json::Value;

use super::archive::Archive;
use super::broker::{Broker, ToGateway};
use super::device::{WorldDevice, log_frame};
use super::dice::Dice;
use super::line::LineFaults;

/// World time 0 in event time, us.
pub const UTC_0: i64 = 1_772_323_200_000_000;
/// Longest time of a commit, us.
const COMMIT_US: u64 = 12_000;
/// Messages that the broker takes unacked.
const WINDOW: u16 = 16;
/// The only destination of a world.
const BROKER: DestinationId = DestinationId(0);

/// A full disk is tried again after so long, us.
const RETRY_US: u64 = 200_000;

#[derive(Debug)]
enum Job {
    Commit(CommitToken),
    Fetch(FetchToken, Vec<StoredBlock>),
    Remove(Vec<SegmentId>),
}

/// A batch for which the disk has no room, and when it is tried again.
#[derive(Debug)]
struct Stuck {
    token: CommitToken,
    batch: WriteBatch,
    again_at: u64,
}

/// A gateway with its store.
#[derive(Debug)]
pub struct WorldGateway {
    config: GatewayConfig,
    core: Gateway,
    store: MemoryStore,
    /// What the storage thread is doing, and when each is done.
    jobs: VecDeque<(u64, Job)>,
    stuck: Option<Stuck>,
    /// The batch that is not synced yet.
    unsynced: Option<WriteBatch>,
    /// Bytes of the last three batches, by topic: what a quota may be exceeded by. The
    /// removal that the first asks for may wait for the accounts, which go with the
    /// second, and for its counts, which go with the third.
    last_batches: [BTreeMap<TopicId, u64>; 3],
    archive: Archive,
    /// What the operator was told.
    pub notes: Vec<String>,
    /// Answers to questions about devices.
    pub answers: Vec<(QueryId, Answer)>,
    /// Frames of the devices' logs.
    pub logs: u64,
    /// What came while an answer was waited for.
    held: VecDeque<Effect>,
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
    pub fn start(config: GatewayConfig, disk: MemoryDisk, now: u64, dice: &mut Dice) -> Self {
        let mut log_id = [0; 16];
        log_id[..8].copy_from_slice(&dice.below(u64::MAX).to_le_bytes());
        let store = MemoryStore::create(LogId(log_id), dice.below(u64::MAX)).on_disk(disk);
        let core = Gateway::new(config.clone(), &opened(&store), now_of(now)).expect("it grows");
        Self {
            config,
            core,
            store,
            jobs: VecDeque::new(),
            stuck: None,
            unsynced: None,
            last_batches: Default::default(),
            archive: Archive::default(),
            notes: Vec::new(),
            answers: Vec::new(),
            logs: 0,
            held: VecDeque::new(),
        }
    }

    /// The windows.
    #[must_use]
    pub fn engine(&self) -> &EngineConfig {
        &self.config.engine
    }

    /// Everything that was ever durable.
    #[must_use]
    pub fn archive(&self) -> &Archive {
        &self.archive
    }

    /// Whether the storage thread has nothing to do.
    #[must_use]
    pub fn is_calm(&self) -> bool {
        self.jobs.is_empty() && self.stuck.is_none()
    }

    /// First offset that the log still holds of a partition; its head when none.
    #[must_use]
    pub fn first_kept(&self, at: TopicPartition) -> u64 {
        let blocks = self.store.read(at, Offset(0), 0).expect("the twin reads");
        let head = self.store.head(at).0;
        blocks.first().map_or(head, |block| block.key.base.0)
    }

    /// What `forebay status --json` says.
    pub fn status(&mut self, now: u64) -> Value {
        self.at_once(now, Input::Query(QueryId(1), Query::Status))
    }

    /// What `forebay device ls --json` says.
    pub fn devices(&mut self, now: u64) -> Value {
        self.at_once(now, Input::Device(QueryId(1), DeviceRequest::List))
    }

    fn at_once(&mut self, now: u64, question: Input<'_>) -> Value {
        self.core.handle(question, now_of(now));
        let mut said = None;
        while let Some(effect) = self.core.poll_effect() {
            if let Effect::Answer(QueryId(1), answer) = effect {
                said = Some(answer);
            } else {
                self.held.push_back(effect);
            }
        }
        let answer = said.expect("it is answered at once");
        answer.expect("it is no error").into_value()
    }

    /// Asks about a device; the answer comes among [`WorldGateway::answers`].
    pub fn ask(&mut self, now: u64, id: QueryId, request: DeviceRequest) {
        self.core.handle(Input::Device(id, request), now_of(now));
    }

    /// The next start has `more` partitions, as far as a log takes them.
    pub fn grow(&mut self, more: u16) {
        let count = (self.config.router.count() + more).min(16);
        self.config.router = Router::new(count);
    }

    /// Others take nearly all of the disk.
    pub fn fill_disk(&mut self, dice: &mut Dice) {
        self.store.set_foreign_bytes(0);
        let left = dice.below(12_000);
        let free = self.store.free_bytes();
        self.store.set_foreign_bytes(free.saturating_sub(left));
    }

    /// Others leave the disk.
    pub fn empty_disk(&mut self) {
        self.store.set_foreign_bytes(0);
    }

    /// Started again after all was durable: what is kept is all there is.
    ///
    /// # Panics
    /// When something is on its way.
    pub fn restart(&mut self, now: u64) {
        assert!(self.is_calm(), "nothing is on its way");
        self.store.crash(0, 7);
        self.core =
            Gateway::new(self.config.clone(), &opened(&self.store), now_of(now)).expect("it grows");
    }

    /// When the gateway wants to run, us.
    #[must_use]
    pub fn next(&self, now: u64) -> Option<u64> {
        let job = self.jobs.front().map(|(at, _)| *at);
        let deadline = self.core.next_deadline().map(|mono| mono.0.max(now));
        let again = self.stuck.as_ref().map(|stuck| stuck.again_at);
        job.into_iter().chain(deadline).chain(again).min()
    }

    #[must_use]
    pub fn core(&self) -> &Gateway {
        &self.core
    }

    /// Opens the ports of all devices.
    pub fn open_ports(&mut self, now: u64, devices: usize) {
        for port in 0..devices as u32 {
            let port = PortId(port);
            self.core
                .handle(Input::PortOpened { port, baud: None }, now_of(now));
        }
    }

    /// A port goes away and comes back.
    pub fn replug(&mut self, now: u64, port: usize) {
        let port = PortId(port as u32);
        self.core.handle(Input::PortClosed(port), now_of(now));
        self.core
            .handle(Input::PortOpened { port, baud: None }, now_of(now));
    }

    /// A port goes away.
    pub fn unplug(&mut self, now: u64, port: usize) {
        let port = PortId(port as u32);
        self.core.handle(Input::PortClosed(port), now_of(now));
    }

    /// It is back.
    pub fn plug(&mut self, now: u64, port: usize) {
        let port = PortId(port as u32);
        self.core
            .handle(Input::PortOpened { port, baud: None }, now_of(now));
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
                dest: BROKER,
                conn: *conn,
                window: WINDOW,
            },
            ToGateway::Acked(conn, send) => Input::BrokerAcked(BROKER, *conn, *send),
            ToGateway::Disconnected(conn) => Input::BrokerDisconnected {
                dest: BROKER,
                conn: *conn,
                reason: "the world's broker".into(),
            },
            ToGateway::Message(topic, payload) => Input::BrokerMessage {
                dest: BROKER,
                topic,
                payload,
            },
        };
        self.core.handle(input, now);
    }

    /// Does what is due, and all that follows from it.
    pub fn step<const READINGS: usize>(
        &mut self,
        now: u64,
        (devices, faults): (&mut [WorldDevice<READINGS>], LineFaults),
        broker: &mut Broker,
        dice: &mut Dice,
    ) {
        while self.jobs.front().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, job)) = self.jobs.pop_front() {
                self.finish(now, job);
            }
        }
        if self.stuck.as_ref().is_some_and(|s| s.again_at <= now)
            && let Some(stuck) = self.stuck.take()
        {
            self.store.recover().expect("the twin recovers");
            if self.append(now, stuck.token, stuck.batch, dice) {
                self.core
                    .handle(Input::Store(StoreEvent::Recovered), now_of(now));
            }
        }
        self.tell(now);
        if self.core.next_deadline().is_some_and(|mono| mono.0 <= now) {
            self.core.handle(Input::Deadline, now_of(now));
        }
        while let Some(effect) = self.held.pop_front().or_else(|| self.core.poll_effect()) {
            self.act(now, effect, (&mut *devices, faults), broker, dice);
        }
        self.check_quotas();
    }

    /// Hands on what the store says unasked.
    fn tell(&mut self, now: u64) {
        while let Some(event) = self.store.poll_event() {
            self.core.handle(Input::Store(event), now_of(now));
        }
    }

    /// No topic that may drop has more than its quota and the last batch, once what
    /// was to be removed is gone and unless nothing of it is sealed.
    fn check_quotas(&self) {
        let removing = |(_, job): &(u64, Job)| matches!(job, Job::Remove(_));
        if self.jobs.iter().any(removing) {
            return;
        }
        let topics = [(READINGS, "readings"), (DERIVED_FIRST, "two_seconds")];
        for (topic, name) in topics {
            let policy = self.config.space.policy(name);
            let is_sealed = self.store.has_segments(topic);
            if policy.when_full != WhenFull::DropOldest || !is_sealed {
                continue;
            }
            let last = self.last_batches.iter().filter_map(|b| b.get(&topic));
            let last: u64 = last.sum();
            let limit = policy.quota_bytes + policy.quota_bytes / 20 + last;
            let used = self.store.topic_bytes(topic);
            assert!(used <= limit, "{name} has {used} bytes of {limit}");
        }
    }

    /// Writes a batch; false when the disk has no room for it now.
    fn append(&mut self, now: u64, token: CommitToken, batch: WriteBatch, dice: &mut Dice) -> bool {
        self.last_batches.rotate_right(1);
        self.last_batches[0].clear();
        for block in &batch.blocks {
            let bytes = block.bytes.len() as u64;
            *self.last_batches[0].entry(block.key.at.topic).or_default() += bytes;
        }
        match self.store.append(&batch) {
            Ok(()) => {
                self.unsynced = Some(batch);
                let time = 500 + dice.below(COMMIT_US);
                self.work(now, time, Job::Commit(token));
                true
            }
            Err(error) => {
                assert!(error.no_space, "the twin fails for nothing else: {error}");
                self.core
                    .handle(Input::Store(StoreEvent::Trouble(error)), now_of(now));
                self.stuck = Some(Stuck {
                    token,
                    batch,
                    again_at: now + RETRY_US,
                });
                false
            }
        }
    }

    fn finish(&mut self, now: u64, job: Job) {
        match job {
            Job::Commit(token) => {
                self.store.set_clock(now_of(now).utc);
                self.store.sync().expect("the twin syncs");
                if let Some(batch) = self.unsynced.take() {
                    self.archive.add(&batch);
                }
                self.core.handle(Input::Committed(token), now_of(now));
            }
            Job::Fetch(token, blocks) => {
                self.core.handle(Input::Fetched(token, blocks), now_of(now));
            }
            Job::Remove(segments) => self.store.remove(&segments).expect("the twin removes"),
        }
        self.tell(now);
    }

    fn act<const READINGS: usize>(
        &mut self,
        now: u64,
        effect: Effect,
        (devices, faults): (&mut [WorldDevice<READINGS>], LineFaults),
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
                self.append(now, token, batch, dice);
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
            Effect::Remove(segments) => {
                let time = 100 + dice.below(COMMIT_US);
                self.work(now, time, Job::Remove(segments));
            }
            Effect::Publish {
                conn,
                send,
                topic,
                payload,
                ..
            } => broker.publish(now, (conn, send, topic, payload), dice),
            Effect::BrokerReset(_, conn, _) => broker.reset_gateway(now, conn, dice),
            Effect::Answer(id, answer) => self.answers.push((id, answer)),
            Effect::Planned(..) => panic!("nobody asked for a plan"),
            Effect::DeviceLog { uid, frame, .. } => {
                let uid = u64::from_be_bytes(uid.0);
                let said = frame.get(1).map(|nth| log_frame(uid, *nth));
                assert_eq!(said.as_ref().map(|s| &s[..]), Some(&frame[..]), "its log");
                self.logs += 1;
            }
            Effect::Imported(..) | Effect::SourceStart { .. } | Effect::ChangesDurable { .. } => {
                panic!("nobody asked")
            }
            Effect::Note(note) => self.notes.push(note.0),
            Effect::Stop(error) => panic!("the twin failed: {error}"),
        }
    }

    fn work(&mut self, now: u64, time: u64, job: Job) {
        let last = self.jobs.back().map_or(0, |(at, _)| *at);
        self.jobs.push_back((last.max(now) + time, job));
    }

    /// Killed with the power: a part of the unsynced batches is lost; started again.
    pub fn crash(&mut self, now: u64, broker: &mut Broker, dice: &mut Dice) {
        let keep_batches = dice.below(self.store.unsynced() as u64 + 1) as usize;
        let crash = Crash {
            keep_batches,
            keep_meta: dice.below(keep_batches as u64 + 1) as usize,
            undo_removals: dice.below(2) == 0,
        };
        self.store.crash_leaving(crash, dice.below(u64::MAX));
        if let Some(batch) = self.unsynced.take().filter(|_| keep_batches > 0) {
            self.archive.add(&batch);
        }
        self.stuck = None;
        self.jobs.clear();
        self.answers.clear();
        self.held.clear();
        self.core =
            Gateway::new(self.config.clone(), &opened(&self.store), now_of(now)).expect("it grows");
        broker.drop_gateway(now, dice);
    }
}
