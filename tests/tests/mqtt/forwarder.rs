//! The real forwarder and the real client around a made-up log in memory, as the
//! agent wires them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use forebay_core::forward::{Forward, ForwardAction, ForwardConfig};
use forebay_core::log::appender::Appender;
use forebay_core::log::key::{StoredBlock, TopicPartition};
use forebay_core::log::topic::LATE;
use forebay_core::payload::{GatewayName, UPSTREAM_TOPIC};
use forebay_core::record::Row;
use forebay_core::store::StoreInfo;
use forebay_core::topics::TopicTable;
use forebay_core::units::{Epoch, EventTime, LogId, Mono, Offset, PartitionId, Span};
use forebay_node::config::Protocol;
use forebay_node::mqtt::client::{MqttConfig, Status};
use forebay_node::mqtt::publisher::{LinkEvent, MqttPublisher, OutMessage, PublisherConfig};
use serde_json::Value;
use tokio::select;
use tokio::sync::mpsc;
use tokio::time::sleep_until;

use super::support::{WAIT_MAX, mqtt};

pub(super) const WINDOW: u16 = 64;
/// Short, so that a frozen link is given up within a test.
pub(super) const ACK_TIMEOUT: Duration = Duration::from_millis(700);
pub(super) const PARTITIONS: u16 = 4;
const RECORDS_PER_BLOCK: u64 = 4;

pub(super) struct Forwarder {
    forward: Forward,
    publisher: MqttPublisher,
    events: mpsc::Receiver<LinkEvent>,
    log: BTreeMap<TopicPartition, (Appender, Vec<StoredBlock>)>,
    start: Instant,
}

fn name() -> GatewayName {
    GatewayName::new("gw-1").unwrap()
}

fn client(port: u16, protocol: Protocol) -> PublisherConfig {
    let gateway = name();
    PublisherConfig {
        mqtt: MqttConfig {
            protocol,
            connect_timeout: Duration::from_secs(1),
            ..mqtt(port, "gw-1")
        },
        sparkplug: None,
        status: Some(Status {
            topic: gateway.status_topic(),
            online: b"{}".to_vec(),
            offline: b"{}".to_vec(),
        }),
        filters: vec![
            gateway.ack_topic(),
            gateway.cmd_topic(),
            UPSTREAM_TOPIC.to_owned(),
        ],
        window: WINDOW,
    }
}

impl Forwarder {
    pub(super) fn start(port: u16) -> Self {
        Self::by(Protocol::V5, port)
    }

    /// By this version of MQTT.
    pub(super) fn by(protocol: Protocol, port: u16) -> Self {
        let partitions: Vec<_> = (0..PARTITIONS).map(PartitionId).collect();
        let info = StoreInfo {
            log_id: LogId([3; 16]),
            epoch: Epoch(1),
            nonce: 1,
        };
        let ack_timeout = Span(i64::try_from(ACK_TIMEOUT.as_micros()).unwrap());
        let config = ForwardConfig::new(WINDOW, ack_timeout);
        let topics = TopicTable::restore(&[], &BTreeMap::new());
        let forward = Forward::new(
            config,
            &name(),
            (&info, &[]),
            &[],
            (&topics, &partitions),
            &BTreeMap::new(),
        );
        let (sender, events) = mpsc::channel(usize::from(WINDOW));
        let log = partitions.iter().map(|partition| {
            let at = TopicPartition {
                topic: LATE,
                partition: *partition,
            };
            (at, (Appender::rows(at, Epoch(1), Offset(0)), Vec::new()))
        });
        Self {
            forward,
            publisher: MqttPublisher::spawn(client(port, protocol), sender),
            events,
            log: log.collect(),
            start: Instant::now(),
        }
    }

    /// Makes so many blocks per partition durable; gives the number of records.
    pub(super) fn append(&mut self, blocks: u64) -> u64 {
        let mut records = 0;
        for (at, (appender, stored)) in &mut self.log {
            for _ in 0..blocks {
                for _ in 0..RECORDS_PER_BLOCK {
                    let line = format!("{{\"n\":{}}}", appender.next().0).into_bytes();
                    appender.push_row(
                        &Row {
                            time: EventTime(0),
                            line,
                        },
                        Mono(0),
                    );
                    records += 1;
                }
                appender.seal();
            }
            stored.extend(appender.take_sealed());
            self.forward.on_durable(*at, appender.next());
        }
        records
    }

    fn now(&self) -> Mono {
        Mono(u64::try_from(self.start.elapsed().as_micros()).unwrap())
    }

    pub(super) fn status(&self) -> Value {
        self.forward.status(self.now())
    }

    pub(super) fn count(&self, key: &str) -> u64 {
        self.status()[key].as_u64().unwrap()
    }

    /// Works until `done` says so; `done` sees the forwarder after each event.
    pub(super) async fn work_until(&mut self, mut done: impl FnMut(&Self) -> bool) {
        let end = Instant::now() + WAIT_MAX;
        while !done(self) {
            assert!(Instant::now() < end, "it takes too long: {}", self.status());
            self.act();
            let wake = self.forward.next_deadline().map_or(end, |at| {
                (self.start + Duration::from_micros(at.0)).min(end)
            });
            select! {
                event = self.events.recv() => self.on_event(event.unwrap()),
                // tidy: allow(sleep): the machine's own deadline, as the agent keeps it
                () = sleep_until(wake.into()) => {}
                // tidy: allow(sleep): the rest of the test, say the receiver, is asked again
                () = sleep_until((Instant::now() + Duration::from_millis(20)).into()) => {}
            }
            let now = self.now();
            self.forward.handle_deadline(now);
        }
    }

    fn act(&mut self) {
        while let Some(action) = self.forward.poll(self.now()) {
            match action {
                ForwardAction::Fetch { at, from } => {
                    let blocks = &self.log[&at].1;
                    let first = blocks.iter().rposition(|block| block.key.base <= from);
                    let some = blocks[first.unwrap_or(0)..]
                        .iter()
                        .take(16)
                        .cloned()
                        .collect();
                    self.forward.on_fetched(at, some);
                }
                ForwardAction::Publish {
                    conn,
                    send,
                    topic,
                    payload,
                    user_properties,
                } => {
                    let message = OutMessage {
                        conn,
                        send,
                        topic,
                        payload,
                        user_properties,
                    };
                    self.publisher.publish(message).expect("the window is kept");
                }
                ForwardAction::Reset { conn, .. } => {
                    self.publisher
                        .reset(conn)
                        .expect("there is room beside the window");
                }
                ForwardAction::SaveMarks(_) => self.forward.on_saved(),
            }
        }
    }

    fn on_event(&mut self, event: LinkEvent) {
        let now = self.now();
        match event {
            LinkEvent::Connected { conn, window, .. } => {
                self.forward.on_connected(conn, window, now);
            }
            LinkEvent::Acked { conn, send } => self.forward.on_acked(conn, send, now),
            LinkEvent::Refused { conn, send, reason } => {
                self.forward.on_refused(conn, send, reason, now);
            }
            LinkEvent::Disconnected { conn, reason } => {
                self.forward.on_disconnected(conn, &reason);
            }
            LinkEvent::SubscriptionRefused { filter } => panic!("{filter} is refused"),
            LinkEvent::Denied(text) | LinkEvent::Note(text) => panic!("{text}"),
            LinkEvent::Message { topic, payload } => {
                self.forward.on_message(&topic, &payload, now);
            }
        }
    }
}
