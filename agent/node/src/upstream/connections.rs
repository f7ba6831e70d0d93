//! The receiver's connections to the broker: one, or several that share the messages
//! out. Each has a task that reads its messages, which is most of the work; what is in
//! them is judged by the one worker.
//!
//! Always holds: a message is acked on the connection by which it came. Bound:
//! EVENTS_MAX events that wait, `receive_max` unacked messages for each connection.

use forebay_core::payload::{DATA_FILTER, UPSTREAM_TOPIC};
use forebay_core::upstream::apply::Received;
use serde_json::json;
use tokio::sync::mpsc;

use super::limits::{CONNECTION_EVENTS_MAX, EVENTS_MAX, SESSION_EXPIRY_S};
use crate::config::ShareConfig;
use crate::mqtt::client::{MqttConfig, Status};
use crate::mqtt::subscriber::{
    AckToken, MqttSubscriber, SubscriberConfig, SubscriberEvent, shared,
};

/// Name of the group where several connections need one and none is configured.
const GROUP: &str = "forebay";

/// Acks a message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token {
    connection: usize,
    token: AckToken,
}

/// What happened.
#[derive(Debug)]
pub(super) enum Event {
    Connected {
        connection: usize,
        session_present: bool,
    },
    Message {
        token: Token,
        topic: String,
        received: Received,
    },
    /// A receiver of the group, this one itself perhaps, says who it is.
    Hello {
        token: Token,
        payload: Vec<u8>,
    },
    Unfit {
        topic: String,
        payload_bytes: usize,
    },
    /// One connection, or all of it, reads nothing any more, and why.
    Down {
        connection: usize,
        reason: String,
    },
    /// The broker does not let us in, or does not let us read.
    Denied(String),
    /// Something that the operator should know.
    Note(String),
}

/// The broker's client takes no more right now.
pub(super) struct Busy;

/// How many connections there are, and what they subscribe to.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    mqtt: MqttConfig,
    share: ShareConfig,
    receive_max: u16,
}

impl Plan {
    pub(super) fn new(mqtt: MqttConfig, share: ShareConfig, receive_max: u16) -> Self {
        Self {
            mqtt,
            share,
            receive_max,
        }
    }

    pub(super) fn count(&self) -> usize {
        usize::from(self.share.workers)
    }

    /// Messages that may be unacked in all.
    pub(super) fn unacked_max(&self) -> usize {
        self.count() * usize::from(self.receive_max)
    }

    /// The group whose other members get a part of the messages.
    pub(super) fn group(&self) -> Option<&str> {
        let own = (self.share.workers > 1).then_some(GROUP);
        self.share.group.as_deref().or(own)
    }

    /// Whether other processes are in the group.
    pub(super) fn is_joint(&self) -> bool {
        self.share.group.is_some()
    }

    /// The id of a connection, from 0. Those of a group have ids of their own: under
    /// the plain one a broker may still hold a subscription to everything.
    pub(super) fn client_id(&self, connection: usize) -> String {
        let id = &self.mqtt.client_id;
        match self.group() {
            Some(_) => format!("{id}-{}", connection + 1),
            None => id.clone(),
        }
    }

    /// How a client is remembered.
    pub(super) fn member(&self, connection: usize) -> String {
        let id = self.client_id(connection);
        format!("{}/{id}", self.group().unwrap_or_default())
    }

    /// Whether this client has been a connection of this process that it has no more.
    pub(super) fn has_left(&self, member: &str) -> bool {
        let ours = format!(
            "{}/{}",
            self.group().unwrap_or_default(),
            self.mqtt.client_id
        );
        let own = (0..self.count()).any(|connection| self.member(connection) == member);
        let number = member.strip_prefix(&format!("{ours}-"));
        let numbered = number.is_some_and(|number| number.parse::<u16>().is_ok());
        self.group().is_some() && !own && numbered
    }

    fn subscriber(&self, connection: usize) -> SubscriberConfig {
        let client_id = self.client_id(connection);
        let status = |online: bool| {
            let status = json!({
                "v": 1, "client_id": client_id, "online": online,
                "version": env!("CARGO_PKG_VERSION"),
            });
            status.to_string().into_bytes()
        };
        let mut filters = vec![match self.group() {
            Some(group) => shared(group, DATA_FILTER),
            None => DATA_FILTER.to_owned(),
        }];
        if self.is_joint() && connection == 0 {
            filters.push(UPSTREAM_TOPIC.to_owned());
        }
        SubscriberConfig {
            status: Some(Status {
                topic: format!("{UPSTREAM_TOPIC}/workers/{client_id}"),
                online: status(true),
                offline: status(false),
            }),
            filters,
            receive_max: self.receive_max,
            session_expiry_s: SESSION_EXPIRY_S,
            mqtt: MqttConfig {
                client_id,
                ..self.mqtt.clone()
            },
        }
    }
}

/// See the module's text. Dropping it ends the connections.
#[derive(Debug)]
pub(super) struct Connections {
    clients: Vec<MqttSubscriber>,
    is_up: Vec<bool>,
    events: mpsc::Receiver<Event>,
}

impl Connections {
    /// Starts them on the current tokio runtime.
    pub(super) fn spawn(plan: &Plan) -> Self {
        let (sender, events) = mpsc::channel(EVENTS_MAX);
        let client = |connection| {
            let (events, receiver) = mpsc::channel(CONNECTION_EVENTS_MAX);
            // Ends when either side of it does.
            tokio::spawn(read(connection, receiver, sender.clone()));
            MqttSubscriber::spawn(plan.subscriber(connection), events)
        };
        Self {
            clients: (0..plan.count()).map(client).collect(),
            is_up: vec![false; plan.count()],
            events,
        }
    }

    /// `None` when all have ended.
    pub(super) async fn next(&mut self) -> Option<Event> {
        self.events.recv().await
    }

    pub(super) fn try_next(&mut self) -> Option<Event> {
        self.events.try_recv().ok()
    }

    /// Notes whether a connection is up; true when all are.
    pub(super) fn set_up(&mut self, connection: usize, is_up: bool) -> bool {
        self.is_up[connection] = is_up;
        self.is_up.iter().all(|is_up| *is_up)
    }

    pub(super) fn ack(&self, token: Token) -> Result<(), Busy> {
        let client = &self.clients[token.connection];
        client.ack(token.token).map_err(|_| Busy)
    }

    /// Publishes on a connection that is up, or when none is on the first that comes up.
    pub(super) fn publish(&self, topic: &str, payload: Vec<u8>, retain: bool) -> Result<(), Busy> {
        let up = self.is_up.iter().position(|is_up| *is_up).unwrap_or(0);
        let done = self.clients[up].publish(topic, payload, retain);
        done.map_err(|_| Busy)
    }

    pub(super) async fn stop(self) {
        for client in self.clients {
            client.stop().await;
        }
    }
}

/// Reads the messages of one connection.
async fn read(
    connection: usize,
    mut events: mpsc::Receiver<SubscriberEvent>,
    out: mpsc::Sender<Event>,
) {
    while let Some(event) = events.recv().await {
        let token = |token| Token { connection, token };
        let event = match event {
            SubscriberEvent::Connected {
                session_present, ..
            } => Event::Connected {
                connection,
                session_present,
            },
            SubscriberEvent::Message {
                token: of,
                topic,
                payload,
                ..
            } if topic == UPSTREAM_TOPIC => Event::Hello {
                token: token(of),
                payload,
            },
            SubscriberEvent::Message {
                token: of,
                topic,
                payload,
                ..
            } => Event::Message {
                token: token(of),
                received: Received::read(&topic, payload.into()),
                topic,
            },
            SubscriberEvent::Unfit {
                topic,
                payload_bytes,
            } => Event::Unfit {
                topic,
                payload_bytes,
            },
            SubscriberEvent::SubscriptionRefused { filter } => {
                let reason = format!("the broker does not let us read {filter}");
                if out.send(Event::Denied(reason.clone())).await.is_err() {
                    return;
                }
                Event::Down { connection, reason }
            }
            SubscriberEvent::Denied(why) => Event::Denied(why),
            SubscriberEvent::Note(text) => Event::Note(text),
            SubscriberEvent::Disconnected { reason, .. } => Event::Down {
                connection,
                reason: format!("no broker: {reason}"),
            },
        };
        if out.send(event).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(workers: u16, group: Option<&str>) -> Plan {
        let share = ShareConfig {
            workers,
            group: group.map(str::to_owned),
        };
        Plan::new(MqttConfig::new("h", 1883, "up"), share, 7)
    }

    #[test]
    fn ids_and_filters_of_one_of_several_and_of_a_group() {
        for (name, plan, ids, filters, hears) in [
            (
                "alone",
                plan(1, None),
                vec!["up"],
                DATA_FILTER.to_owned(),
                false,
            ),
            (
                "two",
                plan(2, None),
                vec!["up-1", "up-2"],
                format!("$share/forebay/{DATA_FILTER}"),
                false,
            ),
            (
                "of a group",
                plan(1, Some("g")),
                vec!["up-1"],
                format!("$share/g/{DATA_FILTER}"),
                true,
            ),
        ] {
            let subscribers: Vec<_> = (0..plan.count()).map(|n| plan.subscriber(n)).collect();
            let got: Vec<_> = subscribers
                .iter()
                .map(|s| s.mqtt.client_id.as_str())
                .collect();
            assert_eq!(got, ids, "{name}");
            assert_eq!(subscribers[0].filters[0], filters, "{name}");
            let hello = subscribers[0].filters.iter().any(|f| f == UPSTREAM_TOPIC);
            assert_eq!(hello, hears, "{name}");
            assert_eq!(plan.unacked_max(), 7 * ids.len(), "{name}");
            let status = subscribers[0].status.clone().expect("a last will");
            assert!(status.topic.ends_with(ids[0]), "{name}");
        }
    }

    #[test]
    fn a_connection_that_is_no_more_is_known_by_its_number() {
        let two = plan(2, None);
        for (member, left) in [
            ("forebay/up-1", false),
            ("forebay/up-2", false),
            ("forebay/up-3", true),
            ("forebay/upper-3", false),
            ("forebay/up-x", false),
            ("other/up-3", false),
        ] {
            assert_eq!(two.has_left(member), left, "{member}");
        }
        assert!(!plan(1, None).has_left("/up-3"));
    }
}
