//! Clients with their events at hand. Every wait has an end.

use std::time::Duration;

use forebay_core::forward::{ConnNo, SendNo};
use forebay_node::config::Protocol;
use forebay_node::mqtt::backoff::BackoffConfig;
use forebay_node::mqtt::client::{MqttConfig, Status};
use forebay_node::mqtt::publisher::{LinkEvent, MqttPublisher, OutMessage, PublisherConfig};
use forebay_node::mqtt::subscriber::{AckToken, MqttSubscriber, SubscriberConfig, SubscriberEvent};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Longest wait for one event.
pub(super) const WAIT_MAX: Duration = Duration::from_secs(30);

pub(super) fn mqtt(port: u16, client_id: &str) -> MqttConfig {
    MqttConfig {
        backoff: BackoffConfig {
            first: Duration::from_millis(20),
            cap: Duration::from_millis(200),
        },
        ..MqttConfig::new("127.0.0.1", port, client_id)
    }
}

pub(super) fn status(gateway: &str) -> Status {
    Status {
        topic: format!("forebay/v1/{gateway}/status"),
        online: b"online".to_vec(),
        offline: b"offline".to_vec(),
    }
}

pub(super) struct Publisher {
    pub(super) handle: MqttPublisher,
    pub(super) events: mpsc::Receiver<LinkEvent>,
}

impl Publisher {
    pub(super) fn start(port: u16, window: u16, filters: &[&str]) -> Self {
        Self::start_as(port, "gateway-1", window, filters)
    }

    pub(super) fn start_as(port: u16, client_id: &str, window: u16, filters: &[&str]) -> Self {
        let mqtt = MqttConfig {
            connect_timeout: Duration::from_secs(1),
            ..mqtt(port, client_id)
        };
        Self::with(mqtt, window, filters)
    }

    /// By this version of MQTT.
    pub(super) fn by(protocol: Protocol, port: u16, window: u16, filters: &[&str]) -> Self {
        let mqtt = MqttConfig {
            protocol,
            connect_timeout: Duration::from_secs(1),
            ..mqtt(port, "gateway-1")
        };
        Self::with(mqtt, window, filters)
    }

    pub(super) fn with(mqtt: MqttConfig, window: u16, filters: &[&str]) -> Self {
        let (events_tx, events) = mpsc::channel(16);
        let config = PublisherConfig {
            status: Some(status(&mqtt.client_id)),
            sparkplug: None,
            mqtt,
            filters: filters.iter().map(|&f| f.to_owned()).collect(),
            window,
        };
        Self {
            handle: MqttPublisher::spawn(config, events_tx),
            events,
        }
    }

    pub(super) async fn next(&mut self) -> LinkEvent {
        let event = timeout(WAIT_MAX, self.events.recv()).await;
        event
            .expect("the publisher says nothing")
            .expect("the publisher is gone")
    }

    /// Waits for a connection; gives its number and window.
    pub(super) async fn connected(&mut self) -> (ConnNo, u16) {
        loop {
            if let LinkEvent::Connected { conn, window, .. } = self.next().await {
                return (conn, window);
            }
        }
    }

    /// Waits for the end of a connection, or of an attempt at one; gives its reason.
    pub(super) async fn disconnected(&mut self) -> String {
        loop {
            if let LinkEvent::Disconnected { reason, .. } = self.next().await {
                return reason;
            }
        }
    }

    pub(super) fn send(&self, conn: ConnNo, send: u64, topic: &str, payload: Vec<u8>) {
        let message = OutMessage {
            conn,
            send: SendNo(send),
            topic: topic.to_owned(),
            payload,
            user_properties: vec![("v".to_owned(), "1".to_owned())],
        };
        self.handle.publish(message).expect("the window is kept");
    }

    /// Sends `count` messages with their number as payload over this one
    /// connection, in a contiguous window.
    pub(super) async fn send_all(&mut self, topic: &str, count: u64) {
        let (conn, window) = self.connected().await;
        let mut acked = vec![false; usize::try_from(count).expect("a test's count fits")];
        let (mut next, mut floor) = (0, 0);
        while floor < count {
            while next < count && next < floor + u64::from(window) {
                self.send(conn, next, topic, next.to_string().into_bytes());
                next += 1;
            }
            match self.next().await {
                LinkEvent::Acked { conn: of, send } => {
                    assert_eq!(of, conn);
                    let place = usize::try_from(send.0).expect("a test's count fits");
                    assert!(!std::mem::replace(&mut acked[place], true), "acked twice");
                }
                LinkEvent::Message { .. } => {}
                event @ (LinkEvent::Connected { .. }
                | LinkEvent::Refused { .. }
                | LinkEvent::Disconnected { .. }
                | LinkEvent::Denied(_)
                | LinkEvent::Note(_)
                | LinkEvent::SubscriptionRefused { .. }) => panic!("{event:?} at {floor}"),
            }
            while floor < count && acked[usize::try_from(floor).expect("fits")] {
                floor += 1;
            }
        }
    }
}

pub(super) struct Subscriber {
    pub(super) handle: MqttSubscriber,
    pub(super) events: mpsc::Receiver<SubscriberEvent>,
}

impl Subscriber {
    pub(super) fn start(port: u16, receive_max: u16, filters: &[&str]) -> Self {
        Self::with(mqtt(port, "upstream-1"), receive_max, filters)
    }

    /// By this version of MQTT.
    pub(super) fn by(protocol: Protocol, port: u16, receive_max: u16, filters: &[&str]) -> Self {
        let mqtt = MqttConfig {
            protocol,
            ..mqtt(port, "upstream-1")
        };
        Self::with(mqtt, receive_max, filters)
    }

    pub(super) fn with(mqtt: MqttConfig, receive_max: u16, filters: &[&str]) -> Self {
        let (events_tx, events) = mpsc::channel(4);
        let config = SubscriberConfig {
            mqtt,
            status: Some(status("upstream")),
            filters: filters.iter().map(|&f| f.to_owned()).collect(),
            receive_max,
            session_expiry_s: 3600,
        };
        Self {
            handle: MqttSubscriber::spawn(config, events_tx),
            events,
        }
    }

    pub(super) async fn next(&mut self) -> SubscriberEvent {
        let event = timeout(WAIT_MAX, self.events.recv()).await;
        event
            .expect("the subscriber says nothing")
            .expect("the subscriber is gone")
    }

    /// Waits for a connection; gives whether the broker knew the session.
    pub(super) async fn connected(&mut self) -> bool {
        loop {
            if let SubscriberEvent::Connected {
                session_present, ..
            } = self.next().await
            {
                return session_present;
            }
        }
    }

    /// The next message; anything but messages is a surprise.
    pub(super) async fn message(&mut self) -> (AckToken, String, String) {
        match self.next().await {
            SubscriberEvent::Message {
                token,
                topic,
                payload,
                ..
            } => (
                token,
                topic,
                String::from_utf8(payload).expect("a test sends text"),
            ),
            event @ (SubscriberEvent::Connected { .. }
            | SubscriberEvent::Unfit { .. }
            | SubscriberEvent::SubscriptionRefused { .. }
            | SubscriberEvent::Note(_)
            | SubscriberEvent::Denied(_)
            | SubscriberEvent::Disconnected { .. }) => panic!("{event:?}"),
        }
    }
}
