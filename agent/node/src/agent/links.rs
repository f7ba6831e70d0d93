//! The publishers of an agent: one per destination, each with a connection of its own.
//! Their events come through one channel, with the destination that they are of.
//!
//! Bound: DESTINATIONS_MAX publishers, EVENTS_MAX events of each.

use forebay_core::forward::{ConnNo, DestinationId};
use forebay_core::payload::{GatewayName, GatewayStatus, UPSTREAM_TOPIC};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::EVENTS_MAX;
use crate::config::{Config, ForwardConfig};
use crate::mqtt::client::Status;
use crate::mqtt::publisher::{LinkEvent, MqttPublisher, OutMessage, PublisherConfig};
use crate::mqtt::settings::client_settings;

/// What happened at one destination.
pub(super) type Heard = (DestinationId, LinkEvent);

/// See the module.
#[derive(Debug)]
pub(super) struct Links {
    publishers: Vec<MqttPublisher>,
    /// Each hands on the events of one publisher; ends with it.
    _events: JoinSet<()>,
}

impl Links {
    /// Starts a publisher per destination on the current tokio runtime.
    ///
    /// # Errors
    /// A sentence: a broker's settings cannot be used.
    pub(super) fn start(
        config: &Config,
        gateway: &GatewayName,
    ) -> Result<(Self, mpsc::Receiver<Heard>), String> {
        let (sender, heard) = mpsc::channel(EVENTS_MAX);
        let configs: Result<Vec<_>, _> = config
            .forward
            .iter()
            .map(|forward| publisher_config(forward, gateway))
            .collect();
        let (mut publishers, mut events) = (Vec::new(), JoinSet::new());
        for (number, config) in (0..).zip(configs?) {
            let (link, mut of_link) = mpsc::channel(EVENTS_MAX);
            publishers.push(MqttPublisher::spawn(config, link));
            let sender = sender.clone();
            events.spawn(async move {
                while let Some(event) = of_link.recv().await {
                    if sender.send((DestinationId(number), event)).await.is_err() {
                        break;
                    }
                }
            });
        }
        let links = Self {
            publishers,
            _events: events,
        };
        Ok((links, heard))
    }

    /// Hands a message to the publisher of its destination.
    pub(super) fn publish(&self, dest: DestinationId, message: OutMessage) {
        let conn = message.conn;
        if let Some(publisher) = self.publishers.get(usize::from(dest.0))
            && publisher.publish(message).is_err()
        {
            // The core sends no more than the window, so this is a broken
            // connection: a new one starts from the marks.
            let _ = publisher.reset(conn);
        }
    }

    /// Drops a connection.
    pub(super) fn reset(&self, dest: DestinationId, conn: ConnNo) {
        if let Some(publisher) = self.publishers.get(usize::from(dest.0)) {
            // A full queue belongs to a connection that is ending already.
            let _ = publisher.reset(conn);
        }
    }

    /// Stops all of them at once, each with its farewell.
    pub(super) async fn stop(self) {
        let mut stopping: JoinSet<()> = self
            .publishers
            .into_iter()
            .map(MqttPublisher::stop)
            .collect();
        while stopping.join_next().await.is_some() {}
    }
}

/// Topics that a gateway listens to, and how it shows that it is there.
fn publisher_config(
    forward: &ForwardConfig,
    name: &GatewayName,
) -> Result<PublisherConfig, String> {
    let mqtt = client_settings(&forward.broker)?;
    let status = |online| GatewayStatus {
        gateway: name.clone(),
        online,
        version: env!("CARGO_PKG_VERSION").into(),
    };
    Ok(PublisherConfig {
        mqtt,
        sparkplug: forward.settings.sparkplug.clone(),
        status: Some(Status {
            topic: name.status_topic(),
            online: status(true).render(),
            offline: status(false).render(),
        }),
        filters: match &forward.settings.sparkplug {
            Some(node) => vec![node.command_topic()],
            None => vec![
                name.ack_topic(),
                name.cmd_topic(),
                UPSTREAM_TOPIC.to_owned(),
            ],
        },
        window: forward.settings.window,
    })
}
