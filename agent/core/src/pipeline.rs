//! The wiring of the gateway: one reading's way from a port to the forwarder, and
//! the acks' way back. Decides nothing that a stage could decide.
//!
//! Holds always: effects leave in the order in which they arose, and ports are
//! heard only after the accounts have been rebuilt from the log.

mod alarms;
mod asked;
mod build;
mod device_view;
mod devices;
mod followers;
mod forwarding;
mod planned;
mod space;
mod start;
mod status;
mod tables;
mod turns;
mod views;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use self::build::{Build, Live};
use self::forwarding::Marks;
pub use self::start::Pipelines;
use crate::accounts::Accounts;
use crate::alarms::Alarms;
use crate::changes::{Changes, ChangesSay};
use crate::clock::GatewayClock;
use crate::commit::{CommitToken, Durable, GroupCommit};
use crate::devices::Devices;
use crate::effect::{Effect, FetchToken, GatewayConfig, Input, Note, QueryId};
use crate::exchange::{Exchange, ExchangeRead};
use crate::follow::Follow;
use crate::forward::{DestinationId, Forward};
use crate::import::{ImportSink, Imports};
use crate::ingest::Router;
use crate::ledger::Ledger;
use crate::limits::{DERIVE_FETCH_BYTES_MAX, FETCH_BYTES_MAX, PORT_BYTES_AT_ONCE};
use crate::link::clocks::Clocks;
use crate::link::session::{LinkSink, Room, Session};
use crate::log::key::{StoredBlock, TopicPartition};
use crate::log::topic::READINGS;
use crate::losses::Losses;
use crate::meta::Entry;
use crate::query::tables::TableJob;
use crate::query::{Asks as _, Job};
use crate::readers::{DeriveRead, Readers};
use crate::record::{GapRecord, ReadingRecord, Series, UNSYNCED_US};
use crate::retention::Retention;
use crate::topics::TopicTable;
use crate::units::{Baud, Mono, Now, Offset, PartitionId, PortId, TopicId};
use crate::views::{Moved, into_slot};

/// Who asked for a read of the log.
#[derive(Debug, Clone, Copy)]
enum Reader {
    Accounts(PartitionId),
    Changes,
    /// For the base of tables.
    Base,
    Derive(DeriveRead, TopicPartition),
    /// For the readers beside the live ones that have this slot.
    Build(u32, DeriveRead),
    Exchange(ExchangeRead, TopicPartition),
    Forward(DestinationId, TopicPartition),
    Query(QueryId),
    Table(QueryId),
    Follow(QueryId, TopicPartition),
}

/// What a start writes before anything else: a record must never stand in a layout or a
/// topic of which a crash takes the entry.
#[derive(Debug, PartialEq, Eq)]
enum Founding {
    /// It goes with the next batch.
    Given,
    Written(CommitToken),
    Durable,
}

/// A port's session; `None` while the accounts are being rebuilt.
type PortSession = Option<Session>;

/// The gateway's core.
#[derive(Debug)]
pub struct Gateway {
    pub(crate) config: GatewayConfig,
    pub(crate) opened: crate::store::StoreInfo,
    pub(crate) ledger: Ledger,
    accounts: Accounts,
    founding: Founding,
    pub(crate) ports: BTreeMap<PortId, PortSession>,
    pub(crate) devices: Devices,
    clocks: Clocks,
    /// Open ports whose bytes go at a known rate.
    bauds: BTreeMap<PortId, Baud>,
    pub(crate) commit: GroupCommit,
    pub(crate) topics: TopicTable,
    pub(crate) clock: GatewayClock,
    pub(crate) changes: Changes,
    pub(crate) readers: Readers,
    /// What the readers run, and where their state stands.
    pub(crate) live: Live,
    /// Readers that build what is new beside them.
    pub(crate) build: Option<Build>,
    /// Topics whose names stand for others by now, and topics whose rows go.
    pub(crate) moved: BTreeMap<TopicId, Moved>,
    pub(crate) dropped: BTreeSet<TopicId>,
    /// Where some window crosses devices, and these lie in several partitions.
    pub(crate) exchange: Option<Exchange>,
    /// One per destination, in the order of the config.
    pub(crate) forward: Vec<Forward>,
    pub(crate) retention: Retention,
    removals: space::Removals,
    losses: Losses,
    pub(crate) alarms: Alarms,
    tallies: alarms::Tallies,
    queries: BTreeMap<QueryId, Job>,
    followers: BTreeMap<QueryId, Follow>,
    table_jobs: BTreeMap<QueryId, TableJob>,
    imports: Imports,
    fetches: BTreeMap<FetchToken, Reader>,
    turns: turns::Turns,
    statuses: VecDeque<status::Begun>,
    marks: BTreeMap<DestinationId, Marks>,
    last_fetch: u64,
    draining: bool,
    stopped: bool,
    effects: VecDeque<Effect>,
}

/// Where a session's records go: to the partition of their device.
struct Ingest<'a> {
    router: &'a Router,
    commit: &'a mut GroupCommit,
    clock: &'a mut GatewayClock,
    clocks: &'a mut Clocks,
    /// What the readings topic has room for.
    room: Room,
    now: Now,
}

impl Ingest<'_> {
    fn at(&self, uid: forebay_wire::ids::DeviceUid) -> TopicPartition {
        TopicPartition {
            topic: READINGS,
            partition: self.router.partition(uid),
        }
    }
}

impl LinkSink for Ingest<'_> {
    fn reading(&mut self, series: &Series, record: &ReadingRecord) {
        let at = self.at(series.uid);
        let mut record = *record;
        if !self.clock.is_trusted() {
            record.uncertainty_us = UNSYNCED_US;
        }
        self.clock
            .before_reading(at.partition, record.time, self.now, self.commit);
        self.commit.reading(at, series, &record, self.now.mono);
    }

    fn gap(&mut self, gap: &GapRecord) {
        let at = self.at(gap.uid);
        self.commit.gap(at, gap, self.now.mono);
    }

    fn reject(&mut self, gap: &GapRecord) {
        let at = self.at(gap.uid);
        self.commit.reject(at, gap, self.now.mono);
    }

    fn room(&self) -> Room {
        if self.commit.has_room() {
            self.room
        } else {
            Room::Wait
        }
    }

    fn knows_time(&self) -> bool {
        self.clock.is_trusted()
    }

    fn clocks(&mut self) -> &mut Clocks {
        self.clocks
    }
}

impl Gateway {
    /// Takes one input; its effects wait in [`Gateway::poll_effect`].
    pub fn handle(&mut self, input: Input<'_>, now: Now) {
        if self.stopped {
            return;
        }
        match input {
            Input::PortOpened { port, baud } => self.on_port_opened(port, baud, now.mono),
            Input::PortBytes(port, bytes) => self.on_port_bytes(port, bytes, now),
            Input::PortClosed(port) => self.on_port_closed(port),
            Input::Committed(token) => self.on_committed(token, now.mono),
            Input::Fetched(token, blocks) => self.on_fetched(token, blocks, now.mono),
            Input::Store(event) => self.on_store_event(&event, now),
            Input::StoreFailed(error) => {
                self.stopped = true;
                self.effects.push_back(Effect::Stop(error));
            }
            Input::BrokerConnected { dest, conn, window } => {
                self.on_forward(dest, |f| f.on_connected(conn, window, now.mono));
            }
            Input::BrokerAcked(dest, conn, send) => {
                self.on_forward(dest, |f| f.on_acked(conn, send, now.mono));
            }
            Input::BrokerRefused(dest, conn, send, why) => {
                self.on_forward(dest, |f| f.on_refused(conn, send, why, now.mono));
            }
            Input::BrokerDisconnected { dest, conn, reason } => {
                self.on_forward(dest, |f| f.on_disconnected(conn, &reason));
            }
            Input::BrokerDenied { dest, why } => self.on_forward(dest, |f| f.on_denied(&why)),
            Input::BrokerMessage {
                dest,
                topic,
                payload,
            } => self.on_forward(dest, |f| f.on_message(topic, payload, now.mono)),
            Input::Query(id, query) => self.on_query(id, &query, now.mono),
            // It changes nothing: there is nothing to go on with.
            Input::Plan(id, request) => return self.on_plan(id, request, now.utc),
            Input::Device(id, request) => self.on_device_request(id, &request, now.mono),
            Input::Import(id, request) => self.imports.on_request(id, request, now.mono),
            Input::Changes(source, batch) => self.changes.on_batch(source, batch),
            Input::SourceState {
                source,
                state,
                lag_bytes,
            } => self.changes.on_state(source, state, lag_bytes),
            Input::ClockSynchronised => self.clock.set_synchronised(),
            Input::Deadline => self.take_turn(now.mono),
            Input::Drain => self.on_drain(now.mono),
            Input::Hold => self.forward.iter_mut().for_each(Forward::hold),
        }
        self.on_deadlines(now);
        self.advance(now);
    }

    /// The next thing to do.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// When [`Input::Deadline`] is wanted.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Mono> {
        let sessions = self.ports.values().flatten();
        let exchange = self.exchange.as_ref();
        // Before, a step of theirs does nothing.
        let changes = self.changes.next_deadline(&self.commit);
        let changes = changes.filter(|_| self.is_recovered());
        sessions
            .filter_map(Session::next_deadline)
            .chain(self.devices.next_deadline())
            .chain(self.commit.next_deadline())
            .chain(self.forward.iter().filter_map(Forward::next_deadline))
            .chain(self.retention.next_deadline())
            .chain(self.has_turn().then_some(Mono(0)))
            .chain(self.clock.next_deadline())
            .chain(self.alarms_deadline())
            .chain(changes)
            .chain(self.readers.next_deadline(&self.commit))
            .chain(self.build_deadline())
            .chain(self.followers.values().filter_map(Follow::deadline))
            .chain(exchange.and_then(|e| e.next_deadline(&self.commit)))
            .min()
    }

    /// Whether the accounts say what all of the log says, and what the start had to
    /// write is durable.
    #[must_use]
    pub fn is_recovered(&self) -> bool {
        self.accounts.is_recovered() && self.founding == Founding::Durable
    }

    /// Whether everything taken from devices is durable, derived and, where a
    /// broker is configured, acked by it.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.is_settled() && self.forward.iter().all(Forward::is_drained)
    }

    /// Whether, after [`Input::Hold`], nothing is on its way any more and the marks
    /// that say so are durable: the next start then sends nothing again.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.is_settled() && self.forward.iter().all(Forward::is_quiet)
    }

    /// Whether everything taken from devices is durable and derived.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let exchange = self.exchange.as_ref();
        self.readers.is_settled(&self.commit)
            && self.build.is_none()
            && self.changes.is_settled(&self.commit)
            && exchange.is_none_or(|exchange| exchange.is_settled(&self.commit))
            && self.commit.is_idle()
    }

    /// Whether the gateway's clock is trusted; see [`Input::ClockSynchronised`].
    #[must_use]
    pub fn is_clock_trusted(&self) -> bool {
        self.clock.is_trusted()
    }

    /// Records that are durable, over all topics.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.commit.heads().map(|(_, head)| head.0).sum()
    }

    /// Partitions of every topic.
    pub fn partitions(&self) -> impl Iterator<Item = PartitionId> + use<> {
        self.config.router.partitions()
    }

    fn on_port_opened(&mut self, port: PortId, baud: Option<u32>, now: Mono) {
        let baud = baud.map(Baud);
        match baud {
            Some(baud) => self.bauds.insert(port, baud),
            None => self.bauds.remove(&port),
        };
        let session = self
            .is_recovered()
            .then(|| Session::start(self.config.device_log, baud, now));
        self.ports.insert(port, session);
    }

    fn on_port_closed(&mut self, port: PortId) {
        let mut session = self.ports.remove(&port).flatten();
        if let Some((source, clock)) = session.as_mut().and_then(Session::dismiss) {
            self.clocks.keep(source, clock);
        }
        self.devices.on_port_closed(port);
        self.bauds.remove(&port);
    }

    fn on_port_bytes(&mut self, port: PortId, bytes: &[u8], now: Now) {
        if self.draining {
            return;
        }
        let stamp = self.clock.stamp(now);
        for bytes in bytes.chunks(PORT_BYTES_AT_ONCE) {
            let mut sink = Ingest {
                router: &self.config.router,
                commit: &mut self.commit,
                clock: &mut self.clock,
                clocks: &mut self.clocks,
                room: self.retention.room(READINGS),
                now,
            };
            if let Some(Some(session)) = self.ports.get_mut(&port) {
                session.on_bytes(bytes, stamp, &mut self.ledger, &mut sink);
            }
            self.hand_on_heard(port, now.mono);
        }
    }

    fn on_committed(&mut self, token: CommitToken, now: Mono) {
        let Durable { heads, sources } = self.commit.committed(token);
        self.accounts.on_committed();
        self.readers.on_committed();
        if self.changes.on_committed() {
            self.share_base();
        }
        self.exchange.iter_mut().for_each(Exchange::on_committed);
        self.on_build_committed(token);
        self.devices.on_committed(now);
        self.remove_counted();
        if self.founding == Founding::Written(token) {
            self.founding = Founding::Durable;
        }
        for (source, next) in sources {
            self.ledger.set_durable(source, next);
        }
        for session in self.ports.values_mut().flatten() {
            session.on_durable(now, &self.ledger);
        }
        for (at, head) in heads {
            for forward in &mut self.forward {
                forward.on_durable(at, head);
            }
        }
        self.imports.on_durable(&self.ledger);
        self.on_marks_durable(token);
        self.step_followers(now);
    }

    fn on_fetched(&mut self, token: FetchToken, blocks: Vec<StoredBlock>, now: Mono) {
        let Some(reader) = self.fetches.remove(&token) else {
            return;
        };
        match reader {
            Reader::Accounts(partition) => {
                self.accounts
                    .on_fetched(partition, &blocks, &mut self.ledger);
            }
            Reader::Changes => self.changes.on_fetched(&blocks),
            Reader::Base => self.on_base_fetched(&blocks, now),
            Reader::Derive(read, at) => {
                let is_first = self.turns.is_empty();
                self.turns.push(read, at, blocks);
                if is_first && !self.readers.is_keeping() {
                    self.take_turn(now);
                }
            }
            Reader::Build(slot, read) => self.on_build_fetched(slot, read, &blocks, now),
            Reader::Exchange(read, at) => {
                if let Some(exchange) = &mut self.exchange {
                    exchange.on_fetched((read, at), &blocks, now, &mut self.commit);
                }
            }
            Reader::Forward(dest, at) => self.on_forward(dest, |f| f.on_fetched(at, blocks)),
            Reader::Query(id) => {
                if let Some(job) = self.queries.get_mut(&id) {
                    job.on_blocks(&blocks);
                    self.step_query(id);
                }
            }
            Reader::Table(id) => self.on_changes_for(id, &blocks),
            Reader::Follow(id, at) => self.on_followed(id, at, &blocks, now),
        }
    }

    fn on_drain(&mut self, now: Mono) {
        self.draining = true;
        self.keep_wear(now);
        self.imports.close();
        self.forward.iter_mut().for_each(Forward::drain);
    }

    fn fetch(&mut self, at: TopicPartition, from: Offset, reader: Reader) {
        self.last_fetch += 1;
        let token = FetchToken(self.last_fetch);
        let bytes_max = match reader {
            Reader::Derive(..) => DERIVE_FETCH_BYTES_MAX,
            Reader::Accounts(_)
            | Reader::Changes
            | Reader::Base
            | Reader::Build(..)
            | Reader::Exchange(..)
            | Reader::Forward(..)
            | Reader::Query(..)
            | Reader::Table(_)
            | Reader::Follow(..) => FETCH_BYTES_MAX,
        };
        self.fetches.insert(token, reader);
        self.effects.push_back(Effect::Fetch {
            token,
            at,
            from,
            bytes_max,
        });
    }

    fn on_deadlines(&mut self, now: Now) {
        let stamp = self.clock.stamp(now);
        let mut sink = Ingest {
            router: &self.config.router,
            commit: &mut self.commit,
            clock: &mut self.clock,
            clocks: &mut self.clocks,
            room: self.retention.room(READINGS),
            now,
        };
        let mut heard = Vec::new();
        for (port, session) in &mut self.ports {
            let due = |session: &&mut Session| session.next_deadline() <= Some(now.mono);
            if let Some(session) = session.as_mut().filter(due) {
                session.on_deadline(stamp, &mut self.ledger, &mut sink);
                heard.push(*port);
            }
        }
        for port in heard {
            self.hand_on_heard(port, now.mono);
        }
        self.devices.on_deadline(now.mono);
        if self
            .followers
            .values()
            .any(|f| f.deadline() <= Some(now.mono))
        {
            self.step_followers(now.mono);
        }
        for forward in &mut self.forward {
            forward.handle_deadline(now.mono);
        }
    }

    /// Lets every stage say what it wants next, in flow order.
    fn advance(&mut self, now: Now) {
        let counted = self.accounts.is_recovered();
        while let Some((at, from)) = self.accounts.next_fetch(&mut self.ledger) {
            self.fetch(at, from, Reader::Accounts(at.partition));
        }
        if !counted && self.accounts.is_recovered() {
            for (source, cause) in self.devices.causes() {
                self.ledger.fill_cause(source, cause);
            }
        }
        if self.is_recovered() {
            for (port, session) in self.ports.iter_mut().filter(|(_, port)| port.is_none()) {
                let baud = self.bauds.get(port).copied();
                *session = Some(Session::start(self.config.device_log, baud, now.mono));
            }
        }
        self.advance_devices(now.mono);
        for (port, session) in &mut self.ports {
            let lines = session
                .iter_mut()
                .flat_map(|session| session.take_output(now.mono));
            let writes = lines.map(|line| Effect::PortWrite(*port, line));
            self.effects.extend(writes);
        }
        self.advance_clock(now);
        self.advance_changes(now);
        self.advance_readers(now.mono);
        self.advance_forward(now);
        self.advance_space(now.mono);
        self.advance_imports(now);
        self.advance_alarms(now);
        self.keep_state(now.mono);
        if let Some((token, batch)) = self.commit.poll(now.mono) {
            self.accounts.on_cut();
            self.on_written(&batch);
            let readings = batch.blocks.iter().filter(|b| b.key.at.topic == READINGS);
            self.accounts
                .wrote(readings.map(|b| b.bytes.len() as u64).sum());
            self.readers.on_cut();
            self.changes.on_cut();
            self.exchange.iter_mut().for_each(Exchange::on_cut);
            self.on_build_cut(token);
            self.devices.on_cut();
            if self.founding == Founding::Given {
                self.founding = Founding::Written(token);
            }
            self.on_marks_cut(token);
            self.effects.push_back(Effect::Commit(token, batch));
        }
    }

    /// Judges the clock, and writes it where an engine waits for it.
    fn advance_clock(&mut self, now: Now) {
        self.clock.rest();
        let note = self.clock.judge(now, &mut self.commit);
        self.effects.extend(note.map(Note).map(Effect::Note));
        let takes = self.commit.has_room() && self.retention.room(READINGS) != Room::Wait;
        if self.draining || !self.is_recovered() || !takes {
            return;
        }
        for (partition, heard) in self.readers.heard(now.utc, &self.commit) {
            self.clock.on_heard(partition, heard, now, &mut self.commit);
        }
        let exchange = self.exchange.as_mut();
        let across = exchange.and_then(|exchange| exchange.heard(now.utc, &self.commit));
        if let Some(heard) = across {
            // It goes on from there.
            let first = PartitionId(0);
            self.clock.on_heard(first, heard, now, &mut self.commit);
        }
    }

    /// Takes what sources have read, and tells engines of what is durable of it.
    fn advance_changes(&mut self, now: Now) {
        while self.accounts.is_recovered()
            && let Some((at, from)) = self.changes.next_fetch()
        {
            self.fetch(at, from, Reader::Changes);
        }
        if self.is_recovered() {
            self.changes.step(self.clock.stamp(now), &mut self.commit);
        }
        let said = self.changes.take_says().into_iter();
        self.effects.extend(said.map(|say| match say {
            ChangesSay::Start(source, position) => Effect::SourceStart { source, position },
            ChangesSay::Durable(source, position) => Effect::ChangesDurable { source, position },
            ChangesSay::Note(text) => Effect::Note(Note(text)),
        }));
    }

    fn advance_readers(&mut self, now: Mono) {
        // The ports come first: until then nobody else reads the log.
        let meets = self.is_meeting();
        while !meets && self.is_recovered() && self.commit.has_room_for_rows() {
            let Some((read, at, from)) = self.readers.next_fetch(&self.commit) else {
                break;
            };
            if !self.turns.answers(read, at, from) {
                self.fetch(at, from, Reader::Derive(read, at));
            }
        }
        while self.is_recovered() && self.commit.has_room_for_rows() {
            let next = self
                .exchange
                .as_mut()
                .and_then(|e| e.next_fetch(&self.commit));
            let Some((read, at, from)) = next else {
                break;
            };
            self.fetch(at, from, Reader::Exchange(read, at));
        }
        if let Some(entries) = self.readers.next_layout(&self.commit, now) {
            self.keep(entries, now);
        }
        self.advance_build(now);
        if self.readers.wakes(&self.commit, now) {
            self.commit.wake(now);
        }
        let mut notes = self.readers.take_notes();
        if let Some(exchange) = &mut self.exchange {
            if exchange.wakes(&self.commit, now) {
                self.commit.wake(now);
            }
            notes.extend(exchange.take_notes());
        }
        let notes = notes.into_iter().map(Note).map(Effect::Note);
        self.effects.extend(notes);
    }

    fn keep(&mut self, entries: Vec<Entry>, now: Mono) {
        for (key, value) in entries {
            self.commit.meta(key, value, now);
        }
    }

    /// Gives the batch that is about to be cut what the next start needs: all that was
    /// counted so far is in it or in an earlier one.
    fn keep_state(&mut self, now: Mono) {
        let last = self.draining && self.readers.is_settled(&self.commit);
        if !last && !self.commit.is_due(now) {
            return;
        }
        // Counted already: the accounts may say so only of what is in the batch.
        self.commit.release_all(now);
        let heads = self.config.router.partitions();
        let heads = heads.map(|partition| (partition, self.commit.next(readings_of(partition))));
        let accounts = self.accounts.take_due(&mut self.ledger, heads, (last, now));
        self.keep(accounts, now);
        let changes = self.changes.take_entries(&self.commit);
        self.keep(changes, now);
        let rows = self.readers.take_entries(last, &self.commit, now);
        self.keep(into_slot(self.live.slot, rows), now);
        self.keep_build(last, now);
        if let Some(exchange) = &mut self.exchange {
            let last = last && exchange.is_settled(&self.commit);
            let entries = exchange.take_entries(last, &self.commit, now);
            self.keep(into_slot(self.live.slot, entries), now);
        }
    }

    fn advance_imports(&mut self, now: Now) {
        // An import is not worth a gap: its file is still there.
        let room = self.retention.room(READINGS);
        if room == Room::Reject
            && let Some(why) = self.retention.health()
        {
            self.imports.refuse(&why);
        }
        if self.is_recovered() && room == Room::Take {
            self.imports.step(&mut ImportSink {
                router: &self.config.router,
                ledger: &mut self.ledger,
                commit: &mut self.commit,
                names: &mut self.config.names,
                clock: &mut self.clock,
                now,
            });
        }
        while let Some((id, answer)) = self.imports.poll_answer() {
            self.effects.push_back(Effect::Imported(id, answer));
        }
    }
}

fn readings_of(partition: PartitionId) -> TopicPartition {
    TopicPartition {
        topic: READINGS,
        partition,
    }
}
