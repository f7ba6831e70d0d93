//! A gateway's log, a broker that may lose what it likes, and a receiver that
//! applies each offset once, around a real [`Forward`]. Nothing here is clever:
//! sets of offsets, queues, and a clock that the test moves.
//!
//! Checked at every step: nothing at or above a durable head leaves; marks are in
//! order and never past what a broker has acked; a window is kept.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::super::{ConnNo, Forward, ForwardAction, ForwardConfig, Order, Refusal, SendNo};
use crate::limits::FORWARD_RANGES_MAX;
use crate::log::appender::Appender;
use crate::log::block::Row;
use crate::log::key::{StoredBlock, TopicPartition};
use crate::log::topic::{LATE, READINGS};
use crate::payload::{
    AckMark, AckMessage, Command, DataBody, DataMessage, GatewayName, SessionNonce, StreamName,
    UPSTREAM_TOPIC, UpstreamHello, parse_data_topic,
};
use crate::record::Missing;
use crate::store::{Opening, StoreInfo};
use crate::topics::TopicTable;
use crate::units::{Epoch, EpochNonce, EventTime, LogId, Mono, Offset, PartitionId, Span};

pub(super) const LOG: LogId = LogId([7; 16]);
pub(super) const WINDOW: u16 = 8;
pub(super) const ACK_TIMEOUT_US: u64 = 5_000_000;
const PARTITIONS: [PartitionId; 2] = [PartitionId(0), PartitionId(1)];

pub(super) fn at(stream: usize) -> TopicPartition {
    let topic = [READINGS, LATE][stream / 2];
    TopicPartition {
        topic,
        partition: PARTITIONS[stream % 2],
    }
}

pub(super) fn stream_name(at: TopicPartition) -> StreamName {
    let name = if at.topic == READINGS {
        "readings"
    } else {
        "late"
    };
    StreamName::new(name).unwrap()
}

pub(super) fn gateway() -> GatewayName {
    GatewayName::new("g1").unwrap()
}

/// One partition as the test knows it.
#[derive(Default)]
pub(super) struct Truth {
    pub(super) blocks: Vec<StoredBlock>,
    pub(super) next: u64,
    pub(super) durable: u64,
    /// Offsets that some broker has taken, whatever it did with them.
    pub(super) taken: BTreeSet<u64>,
    /// Of these, the ones whose records a receiver has.
    pub(super) received: BTreeSet<u64>,
    /// Offsets that some broker has refused.
    pub(super) refused: BTreeSet<u64>,
    pub(super) applied: BTreeSet<u64>,
    /// What was said of offsets that cannot be read.
    pub(super) declared: BTreeMap<u64, Missing>,
    /// Whether it was flagged so when it was handed over last.
    pub(super) replayed: BTreeMap<u64, bool>,
    /// How often each offset was handed over.
    pub(super) sends: BTreeMap<u64, u32>,
}

#[derive(Default)]
pub(super) struct Broker {
    pub(super) link: Option<ConnNo>,
    /// On the way to the broker.
    pub(super) inbound: VecDeque<(SendNo, String, Vec<u8>)>,
    /// On the way to the gateway.
    pub(super) answers: VecDeque<(SendNo, Option<Refusal>)>,
    pub(super) to_gateway: VecDeque<(String, Vec<u8>)>,
    /// Kept for the receiver, while it has a session here.
    pub(super) queue: VecDeque<Vec<u8>>,
    pub(super) receiver_session: bool,
    pub(super) retained: BTreeMap<String, Vec<u8>>,
}

pub(super) struct World {
    pub(super) forward: Forward,
    pub(super) now: Mono,
    pub(super) truth: BTreeMap<TopicPartition, Truth>,
    pub(super) broker: Broker,
    /// What the disk has.
    pub(super) meta: BTreeMap<Vec<u8>, Vec<u8>>,
    unwritten: Option<Vec<(Vec<u8>, Vec<u8>)>>,
    fetches: Vec<(TopicPartition, Offset)>,
    pub(super) epoch: u32,
    pub(super) conns: u64,
    pub(super) resets: u64,
    /// The receiver: its session, whether it is connected.
    pub(super) nonce: u8,
    pub(super) receiver_online: bool,
    /// Acks of the receiver so far.
    acks: u64,
    pub(super) window: u16,
    config: ForwardConfig,
}

/// As many openings as crashes: the nonce of each is its number.
pub(super) fn opening(epoch: u32) -> Opening {
    Opening {
        epoch: Epoch(epoch),
        nonce: u64::from(epoch),
    }
}

pub(super) fn config(window: u16) -> ForwardConfig {
    ForwardConfig::new(window, Span(i64::try_from(ACK_TIMEOUT_US).unwrap()))
}

fn open(
    epoch: u32,
    config: &ForwardConfig,
    meta: &BTreeMap<Vec<u8>, Vec<u8>>,
    heads: &BTreeMap<TopicPartition, Offset>,
) -> Forward {
    let info = StoreInfo {
        log_id: LOG,
        epoch: Epoch(epoch),
        nonce: u64::from(epoch),
    };
    let openings: Vec<_> = (1..=epoch).map(opening).collect();
    let meta: Vec<_> = meta.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
    let topics = TopicTable::restore(&[], &BTreeMap::new());
    Forward::new(
        config.clone(),
        &gateway(),
        (&info, &openings),
        &meta,
        (&topics, &PARTITIONS),
        heads,
    )
}

impl World {
    pub(super) fn new() -> Self {
        Self::with_window(WINDOW)
    }

    pub(super) fn with_window(window: u16) -> Self {
        Self::with(config(window))
    }

    pub(super) fn with(config: ForwardConfig) -> Self {
        let meta = BTreeMap::new();
        Self {
            forward: open(1, &config, &meta, &BTreeMap::new()),
            now: Mono(1),
            truth: (0..4).map(|n| (at(n), Truth::default())).collect(),
            broker: Broker::default(),
            meta,
            unwritten: None,
            fetches: Vec::new(),
            epoch: 1,
            conns: 0,
            resets: 0,
            nonce: 0,
            receiver_online: false,
            acks: 0,
            window: config.window,
            config,
        }
    }

    /// Appends one block of `records`, not durable yet.
    pub(super) fn append(&mut self, at: TopicPartition, records: u64) {
        let next = self.truth[&at].next;
        let lines = (0..records).map(|n| format!("{{\"n\":{}}}", next + n));
        self.append_lines(at, EventTime(0), lines.collect());
    }

    /// Appends one block of rows.
    pub(super) fn append_lines(&mut self, at: TopicPartition, time: EventTime, lines: Vec<String>) {
        let truth = self.truth.get_mut(&at).unwrap();
        let mut appender = Appender::rows(at, Epoch(self.epoch), Offset(truth.next));
        truth.next += lines.len() as u64;
        for line in lines {
            let line = line.into_bytes();
            appender.push_row(&Row { time, line }, Mono(0));
        }
        appender.seal();
        truth.blocks.extend(appender.take_sealed());
    }

    /// Everything appended becomes durable, and marks given to be kept are kept.
    pub(super) fn commit(&mut self) {
        for (at, truth) in &mut self.truth {
            if truth.durable < truth.next {
                truth.durable = truth.next;
                self.forward.on_durable(*at, Offset(truth.next));
            }
        }
        if let Some(entries) = self.unwritten.take() {
            self.meta.extend(entries);
            self.forward.on_saved();
        }
        self.pump();
    }

    /// Removes the oldest durable blocks of a partition.
    pub(super) fn trim(&mut self, at: TopicPartition, blocks: usize) {
        let truth = self.truth.get_mut(&at).unwrap();
        let durable = |block: &&StoredBlock| block.key.base.0 < truth.durable;
        let count = truth.blocks.iter().filter(durable).count().min(blocks);
        truth.blocks.drain(..count);
        let first = truth.blocks.first();
        let below = first.map_or(truth.next, |block| block.key.base.0);
        let below = below.min(truth.durable);
        self.forward.on_trimmed(|other| {
            let here = other == at;
            Offset(if here { below } else { 0 })
        });
    }

    pub(super) fn connect(&mut self) {
        if self.broker.link.is_some() {
            return;
        }
        self.conns += 1;
        let conn = ConnNo(self.conns);
        self.broker.link = Some(conn);
        self.broker.to_gateway = self.broker.retained.clone().into_iter().collect();
        self.forward.on_connected(conn, self.window, self.now);
        self.pump();
    }

    /// Connects to a broker that already has the receiver's word.
    pub(super) fn greet(&mut self) {
        self.receiver_connects();
        self.connect();
        while !self.broker.to_gateway.is_empty() {
            self.deliver_message();
        }
    }

    /// The connection breaks; the broker may still take `taken` of what was on
    /// its way, whose acks are then lost.
    pub(super) fn disconnect(&mut self, taken: usize) {
        for _ in 0..taken {
            self.broker_takes();
        }
        self.broker.inbound.clear();
        self.broker.answers.clear();
        self.broker.to_gateway.clear();
        if let Some(conn) = self.broker.link.take() {
            self.forward.on_disconnected(conn, "cut");
        }
        self.pump();
    }

    /// The gateway dies and starts again with what its disk has. Appended but not
    /// durable blocks are gone.
    pub(super) fn crash(&mut self, taken: usize) {
        self.disconnect(taken);
        self.unwritten = None;
        self.fetches.clear();
        self.epoch += 1;
        let mut heads = BTreeMap::new();
        for (at, truth) in &mut self.truth {
            truth.next = truth.durable;
            truth
                .blocks
                .retain(|block| block.key.base.0 < truth.durable);
            heads.insert(*at, Offset(truth.durable));
        }
        self.forward = open(self.epoch, &self.config, &self.meta, &heads);
    }

    /// The broker takes the next message on its way.
    pub(super) fn broker_takes(&mut self) {
        let Some((send, topic, payload)) = self.broker.inbound.pop_front() else {
            return;
        };
        let (_, stream, partition) = parse_data_topic(&topic).unwrap();
        let message = DataMessage::parse(&payload).unwrap();
        assert_eq!(
            (&message.id.stream, message.id.partition),
            (&stream, partition)
        );
        let in_order = self.config.order == Order::OldestFirst;
        let truth = self.truth_of(&message);
        let (first, last) = (message.id.first.0, message.id.last.0);
        for before in (0..first).filter(|_| in_order) {
            assert!(
                truth.taken.contains(&before) || truth.refused.contains(&before),
                "offset {first} went out before {before}"
            );
        }
        truth.taken.extend(first..=last);
        if self.broker.receiver_session {
            self.broker.queue.push_back(payload);
        }
        self.broker.answers.push_back((send, None));
    }

    pub(super) fn broker_refuses(&mut self, why: Refusal) {
        let Some((send, _, payload)) = self.broker.inbound.pop_front() else {
            return;
        };
        let message = DataMessage::parse(&payload).unwrap();
        let truth = self.truth_of(&message);
        truth.refused.extend(message.id.first.0..=message.id.last.0);
        self.broker.answers.push_back((send, Some(why)));
    }

    fn truth_of(&mut self, message: &DataMessage) -> &mut Truth {
        let of = |at: &&TopicPartition| {
            stream_name(**at) == message.id.stream && at.partition == message.id.partition
        };
        let at = *self.truth.keys().find(of).unwrap();
        self.truth.get_mut(&at).unwrap()
    }

    /// The next answer reaches the gateway.
    pub(super) fn deliver_answer(&mut self) {
        let Some(conn) = self.broker.link else { return };
        if let Some((send, refused)) = self.broker.answers.pop_front() {
            match refused {
                None => self.forward.on_acked(conn, send, self.now),
                Some(why) => self.forward.on_refused(conn, send, why, self.now),
            }
        }
        self.pump();
    }

    pub(super) fn deliver_message(&mut self) {
        if let Some((topic, payload)) = self.broker.to_gateway.pop_front() {
            self.forward.on_message(&topic, &payload, self.now);
        }
        self.pump();
    }

    fn publish_to_gateway(&mut self, topic: &str, payload: Vec<u8>, retain: bool) {
        if self.broker.link.is_some() {
            self.broker
                .to_gateway
                .push_back((topic.to_owned(), payload.clone()));
        }
        if retain {
            self.broker.retained.insert(topic.to_owned(), payload);
        }
    }

    /// The receiver connects; it draws a nonce when the broker does not know it.
    pub(super) fn receiver_connects(&mut self) {
        if !self.broker.receiver_session || self.nonce == 0 {
            self.nonce += 1;
            self.broker.receiver_session = true;
        }
        self.receiver_online = true;
        self.hello();
        self.receiver_acks();
    }

    pub(super) fn receiver_leaves(&mut self) {
        if self.receiver_online {
            self.receiver_online = false;
            self.hello();
        }
    }

    fn hello(&mut self) {
        let session = SessionNonce([self.nonce; 16]);
        let hello = UpstreamHello {
            session,
            online: self.receiver_online,
        };
        self.publish_to_gateway(UPSTREAM_TOPIC, hello.render(), true);
    }

    /// The receiver applies the next message; asks again when it sees a hole.
    pub(super) fn receiver_takes(&mut self) {
        if !self.receiver_online {
            return;
        }
        let Some(payload) = self.broker.queue.pop_front() else {
            return;
        };
        let message = DataMessage::parse(&payload).unwrap();
        let truth = self.truth_of(&message);
        let offsets = message.id.first.0..=message.id.last.0;
        if message.body.records().is_some() {
            truth.received.extend(offsets.clone());
        }
        truth.applied.extend(offsets);
        let next = contiguous(&truth.applied);
        if next < message.id.first.0 {
            let id = message.id;
            let command = Command::Resend {
                log_id: LOG,
                stream: id.stream,
                partition: id.partition,
                from: Offset(next),
            };
            self.publish_to_gateway(&gateway().cmd_topic(), command.render(), false);
        }
    }

    /// The receiver says up to where it has come.
    pub(super) fn receiver_acks(&mut self) {
        if !self.receiver_online {
            return;
        }
        let marks = self
            .truth
            .iter()
            .filter(|(_, truth)| !truth.applied.is_empty());
        let marks = marks
            .map(|(at, truth)| AckMark {
                stream: stream_name(*at),
                partition: at.partition,
                epoch: Epoch(self.epoch),
                nonce: EpochNonce(u64::from(self.epoch)),
                next: Offset(contiguous(&truth.applied)),
                runs: Vec::new(),
            })
            .collect();
        self.acks += 1;
        let session = SessionNonce([self.nonce; 16]);
        let ack = AckMessage {
            gateway: gateway(),
            session,
            seq: self.acks,
            log_id: LOG,
            marks,
        };
        self.publish_to_gateway(&gateway().ack_topic(), ack.render(), true);
    }

    /// The broker stops and starts with an empty disk.
    pub(super) fn broker_loses_all(&mut self) {
        self.disconnect(0);
        self.broker = Broker::default();
        // The receiver sees its connection break.
        self.receiver_online = false;
    }

    pub(super) fn deadline(&mut self) {
        self.forward.handle_deadline(self.now);
        self.pump();
    }

    pub(super) fn wait(&mut self, us: u64) {
        self.now = Mono(self.now.0 + us);
        self.deadline();
    }

    /// Does what the forwarder wants; reads of the log are answered one step late.
    pub(super) fn pump(&mut self) {
        for (at, from) in std::mem::take(&mut self.fetches) {
            let blocks = self.read(at, from);
            self.forward.on_fetched(at, blocks);
        }
        let mut left = 10_000;
        while let Some(action) = self.forward.poll(self.now) {
            left -= 1;
            assert!(left > 0, "polls for ever: {action:?}");
            self.act(action);
        }
        self.check();
    }

    /// As the store reads: from the block that holds `from`, some blocks.
    fn read(&self, at: TopicPartition, from: Offset) -> Vec<StoredBlock> {
        let blocks = &self.truth[&at].blocks;
        let first = blocks
            .iter()
            .rposition(|block| block.key.base <= from)
            .unwrap_or(0);
        blocks[first..].iter().take(3).cloned().collect()
    }

    fn act(&mut self, action: ForwardAction) {
        match action {
            ForwardAction::Fetch { at, from } => {
                assert!(
                    self.fetches.iter().all(|(other, _)| *other != at),
                    "two reads at once"
                );
                self.fetches.push((at, from));
            }
            ForwardAction::Publish {
                conn,
                send,
                topic,
                payload,
                user_properties,
            } => {
                assert_eq!(Some(conn), self.broker.link);
                let message = DataMessage::parse(&payload).unwrap();
                let truth = self.truth_of(&message);
                assert!(
                    message.id.last.0 < truth.durable,
                    "left before it was durable"
                );
                let replayed = (String::from("replayed"), String::from("true"));
                let replayed = user_properties.contains(&replayed);
                for offset in message.id.first.0..=message.id.last.0 {
                    truth.replayed.insert(offset, replayed);
                    if let DataBody::Missing(reason) = message.body {
                        truth.declared.insert(offset, reason);
                    } else {
                        assert_eq!(message.id.nonce.0, u64::from(message.id.epoch.0));
                    }
                    *truth.sends.entry(offset).or_default() += 1;
                }
                self.broker.inbound.push_back((send, topic, payload));
            }
            ForwardAction::Reset { conn, .. } => {
                self.resets += 1;
                assert_eq!(Some(conn), self.broker.link);
                self.disconnect(0);
            }
            ForwardAction::SaveMarks(entries) => {
                assert!(self.unwritten.is_none(), "two saves at once");
                assert!(!entries.is_empty());
                self.unwritten = Some(entries);
            }
        }
    }

    fn check(&self) {
        for place in &self.forward.places {
            // The world fills two streams.
            let Some(truth) = self.truth.get(&place.at) else {
                continue;
            };
            let marks = &place.marks;
            assert!(
                marks.confirmed <= marks.sent && marks.sent <= place.head,
                "{marks:?}"
            );
            assert_eq!(place.head.0, truth.durable);
            assert!(marks.acked.len() <= FORWARD_RANGES_MAX, "{marks:?}");
            let above = marks.acked.as_slice().iter();
            let above = above.flat_map(|(first, end)| first.0..end.0);
            for offset in (0..marks.sent.0).chain(above) {
                let known = truth.taken.contains(&offset) || truth.refused.contains(&offset);
                assert!(known, "{:?}: the mark passed {offset}", place.at);
            }
        }
        let on_the_way = self.broker.inbound.len() + self.broker.answers.len();
        assert!(
            on_the_way <= usize::from(self.window),
            "{on_the_way} on the way"
        );
    }

    /// No more faults: everything goes on until nothing is left to do.
    pub(super) fn settle(&mut self) {
        self.commit();
        for _ in 0..20_000 {
            if self.is_done() {
                return;
            }
            self.connect();
            if !self.receiver_online {
                self.receiver_connects();
            }
            if !self.step() {
                let deadline = self
                    .forward
                    .next_deadline()
                    .expect("nothing will happen any more");
                self.now = self.now.max(deadline);
                self.deadline();
            }
        }
        panic!(
            "it does not come to an end: {}",
            self.forward.status(self.now)
        );
    }

    /// One round without faults; false when nothing moved.
    fn step(&mut self) -> bool {
        let mut moved = !self.broker.inbound.is_empty()
            || !self.broker.answers.is_empty()
            || !self.broker.to_gateway.is_empty()
            || !self.broker.queue.is_empty()
            || self.unwritten.is_some()
            || !self.fetches.is_empty();
        while !self.broker.inbound.is_empty() {
            self.broker_takes();
        }
        while !self.broker.answers.is_empty() {
            self.deliver_answer();
        }
        let news = !self.broker.queue.is_empty();
        while !self.broker.queue.is_empty() {
            self.receiver_takes();
        }
        if news {
            self.receiver_acks();
            moved = true;
        }
        while !self.broker.to_gateway.is_empty() {
            self.deliver_message();
        }
        self.commit();
        moved
    }

    /// So many rounds without faults.
    pub(super) fn run_for(&mut self, rounds: usize) {
        for _ in 0..rounds {
            self.connect();
            self.pump();
            self.step();
        }
    }

    fn is_done(&self) -> bool {
        let applied = self
            .truth
            .values()
            .all(|truth| contiguous(&truth.applied) == truth.durable);
        applied && self.forward.is_drained()
    }

    pub(super) fn count(&self, key: &str) -> u64 {
        self.forward.status(self.now)[key].as_u64().unwrap()
    }
}

fn contiguous(set: &BTreeSet<u64>) -> u64 {
    set.iter()
        .zip(0..)
        .take_while(|(offset, n)| **offset == *n)
        .count() as u64
}
