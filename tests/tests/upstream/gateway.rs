//! A gateway for tests: sends blocks of a made-up log in a contiguous window, from
//! its last acked one again after each lost connection, and listens to the
//! upstream.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use forebay_core::forward::{ConnNo, SendNo};
use forebay_core::log::block::{Block, Body, GapRecord, ReadingRecord, Record, Series, ValueKind};
use forebay_core::log::key::TopicPartition;
use forebay_core::payload::{
    AckMessage, Command, Encoding, GatewayName, MessageId, SessionNonce, StreamName,
    UPSTREAM_TOPIC, UpstreamHello,
};
use forebay_core::record::GapReason;
use forebay_core::units::{Epoch, EpochNonce, EventTime, LogId, Offset, PartitionId, TopicId};
use forebay_node::mqtt::backoff::BackoffConfig;
use forebay_node::mqtt::client::MqttConfig;
use forebay_node::mqtt::publisher::{LinkEvent, MqttPublisher, OutMessage, PublisherConfig};
use forebay_wire::ids::{BootId, ChannelNo, DeviceUid, Ordinal, Tick};
use forebay_wire::message::Quality;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Longest wait for one event.
const WAIT_MAX: Duration = Duration::from_secs(30);
pub(super) const NAME: &str = "gw-1";
/// Every so many offsets a record is a gap.
const GAP_EVERY: u64 = 50;
/// Readings that each of these gaps names.
const GAP_READINGS: u64 = 3;

/// What a log of this many offsets must come to.
pub(super) struct Expected {
    pub(super) readings: u64,
    pub(super) gap_records: u64,
    pub(super) gap_readings: u64,
}

pub(super) fn expected(offsets: u64, partitions: u64) -> Expected {
    let gaps = offsets.div_ceil(GAP_EVERY) * partitions;
    Expected {
        readings: offsets * partitions - gaps,
        gap_records: gaps,
        gap_readings: gaps * GAP_READINGS,
    }
}

/// A block of a partition. Ordinals are unique over all partitions.
fn block(partition: u16, epoch: u32, first: u64, count: u64) -> Block {
    let uid = DeviceUid([7; 8]);
    let boot = BootId(1);
    let series = Series {
        uid,
        boot,
        channel: ChannelNo(0),
        kind: ValueKind::Scaled { scale: 2 },
        name: Arc::from("temperature"),
        unit: Arc::from("degC"),
    };
    let record = |offset: u64| {
        let ordinal = Ordinal(u64::from(partition) << 32 | offset);
        let time = EventTime(offset as i64);
        if offset.is_multiple_of(GAP_EVERY) {
            return Record::Gap(GapRecord {
                uid,
                boot,
                first: ordinal,
                count: GAP_READINGS,
                reason: GapReason::RingFull,
                time,
            });
        }
        Record::Reading(ReadingRecord {
            series: 0,
            ordinal,
            tick: Tick(offset),
            time,
            uncertainty_us: 1,
            value: offset as i64,
            quality: Quality::Ok,
        })
    };
    Block {
        at: TopicPartition {
            topic: TopicId(1),
            partition: PartitionId(partition),
        },
        base: Offset(first),
        epoch: Epoch(epoch),
        body: Body::Readings {
            series: vec![series],
            records: (first..first + count).map(record).collect(),
        },
    }
}

/// Messages of a log: partitions by turns, blocks of `per_block` offsets, a new
/// epoch every ten blocks.
pub(super) fn messages(offsets: u64, per_block: u64, partitions: u16) -> Vec<(String, Vec<u8>)> {
    let gateway = GatewayName::new(NAME).unwrap();
    let stream = StreamName::new("readings").unwrap();
    let mut out = Vec::new();
    for (number, first) in (0..).zip((0..offsets).step_by(per_block as usize)) {
        for partition in 0..partitions {
            let count = per_block.min(offsets - first);
            let block = block(partition, 1 + number / 10, first, count);
            let id = MessageId::of(&gateway, LogId([5; 16]), EpochNonce(1), &stream, &block);
            let topic = gateway.data_topic(&stream, PartitionId(partition));
            out.push((
                topic,
                Encoding::default().render_block(&id, &block).unwrap(),
            ));
        }
    }
    out
}

pub(super) struct Gateway {
    publisher: MqttPublisher,
    events: mpsc::Receiver<LinkEvent>,
    conn: Option<(ConnNo, usize)>,
    /// The last one of the upstream.
    pub(super) ack: Option<AckMessage>,
    /// Each session of the upstream when it changes.
    pub(super) sessions: Vec<SessionNonce>,
    /// The upstream wants this offset and what comes after it again.
    pub(super) resend: Option<u64>,
}

impl Gateway {
    pub(super) fn start(port: u16) -> Self {
        let (sender, events) = mpsc::channel(64);
        let mqtt = MqttConfig {
            backoff: BackoffConfig {
                first: Duration::from_millis(10),
                cap: Duration::from_millis(100),
            },
            ..MqttConfig::new("127.0.0.1", port, NAME)
        };
        let name = GatewayName::new(NAME).unwrap();
        let config = PublisherConfig {
            mqtt,
            sparkplug: None,
            status: None,
            filters: vec![
                name.ack_topic(),
                name.cmd_topic(),
                UPSTREAM_TOPIC.to_owned(),
            ],
            window: 20,
        };
        Self {
            publisher: MqttPublisher::spawn(config, sender),
            events,
            conn: None,
            ack: None,
            sessions: Vec::new(),
            resend: None,
        }
    }

    /// Publishes all messages until the broker has acked each, and tells how many
    /// are acked whenever that changes.
    pub(super) async fn send(
        &mut self,
        messages: &[(String, Vec<u8>)],
        mut progress: impl FnMut(usize),
    ) {
        let mut floor = 0;
        let mut next = 0;
        let mut acked = BTreeSet::new();
        while floor < messages.len() {
            if let Some((conn, window)) = self.conn {
                while next < messages.len() && next < floor + window {
                    let (topic, payload) = messages[next].clone();
                    let sent = self.publisher.publish(OutMessage {
                        conn,
                        send: SendNo(next as u64),
                        topic,
                        payload,
                        user_properties: Vec::new(),
                    });
                    if sent.is_err() {
                        break;
                    }
                    next += 1;
                }
            }
            match self.event().await {
                LinkEvent::Connected { .. } | LinkEvent::Disconnected { .. } => {
                    // Send numbers are contiguous per connection: start at the
                    // first one that is not acked.
                    acked.clear();
                    next = floor;
                }
                LinkEvent::Acked { send, .. } => {
                    acked.insert(send.0 as usize);
                    while acked.remove(&floor) {
                        floor += 1;
                        progress(floor);
                    }
                }
                LinkEvent::Refused { .. }
                | LinkEvent::SubscriptionRefused { .. }
                | LinkEvent::Denied(_)
                | LinkEvent::Note(_)
                | LinkEvent::Message { .. } => {}
            }
        }
    }

    /// Listens until an upstream has greeted: it has subscribed before it did.
    pub(super) async fn greeted(&mut self) {
        self.listen_until(|gateway| !gateway.sessions.is_empty())
            .await;
    }

    /// Listens until what was heard is as wanted.
    pub(super) async fn listen_until(&mut self, wanted: impl Fn(&Self) -> bool) {
        while !wanted(self) {
            self.event().await;
        }
    }

    /// Whether the upstream said that each partition is applied up to `next`.
    pub(super) fn is_acked(&self, partitions: usize, next: u64) -> bool {
        let marks = self.ack.as_ref().map(|ack| &ack.marks);
        marks.is_some_and(|marks| {
            marks.len() == partitions && marks.iter().all(|mark| mark.next == Offset(next))
        })
    }

    async fn event(&mut self) -> LinkEvent {
        let event = timeout(WAIT_MAX, self.events.recv()).await;
        let event = event.expect("the publisher says nothing").unwrap();
        match &event {
            LinkEvent::Connected { conn, window, .. } => {
                self.conn = Some((*conn, usize::from(*window)));
            }
            LinkEvent::Disconnected { .. } => self.conn = None,
            LinkEvent::Message { topic, payload } if topic == UPSTREAM_TOPIC => {
                let hello = UpstreamHello::parse(payload).unwrap();
                if self.sessions.last() != Some(&hello.session) {
                    self.sessions.push(hello.session);
                }
            }
            LinkEvent::Message { topic, payload } if topic.ends_with("/cmd") => {
                let Command::Resend { from, .. } = Command::parse(payload).unwrap();
                self.resend = Some(from.0);
            }
            LinkEvent::Message { payload, .. } => {
                self.ack = Some(AckMessage::parse(payload).unwrap());
            }
            LinkEvent::Acked { .. }
            | LinkEvent::Refused { .. }
            | LinkEvent::SubscriptionRefused { .. }
            | LinkEvent::Denied(_)
            | LinkEvent::Note(_) => {}
        }
        event
    }

    pub(super) async fn stop(self) {
        self.publisher.stop().await;
    }
}
