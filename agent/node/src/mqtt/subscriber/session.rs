//! One connection of the subscriber: what came by it and what is out on it.
//!
//! Always holds: acks leave in the order of receipt; the client library's window is
//! never filled by what we publish. Bound: `receive_max` receipts.

use std::collections::VecDeque;
use std::sync::Arc;

use forebay_core::forward::ConnNo;
use forebay_core::limits::MESSAGE_BYTES_MAX;
use rumqttc::Outgoing;
use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::{ConnAck, Filter, Packet, Publish, SubscribeReasonCode};
use rumqttc::v5::{AsyncClient, Event};

use super::super::client;
use super::super::limits::SUBSCRIBER_PUBLISHES_MAX;
use super::super::outbox::Outbox;
use super::super::receipts::Receipts;
use super::super::sends::Sends;
use super::super::task::{Ended, Health};
use super::{Command, SubscriberConfig, SubscriberEvent};

/// What was handed to the client library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    Birth,
    Farewell,
    Message,
}

/// One connection: what came by it and what is out on it.
pub(super) struct Session {
    conn: ConnNo,
    config: Arc<SubscriberConfig>,
    client: AsyncClient,
    sends: Sends<Sent>,
    receipts: Receipts<Publish>,
    /// Acks handed over and not yet written.
    acks_queued: usize,
    /// Messages that may be out unacked on this connection; set by the CONNACK.
    window: u64,
    pub(super) health: Health,
}

impl Session {
    pub(super) fn new(conn: ConnNo, config: Arc<SubscriberConfig>, client: AsyncClient) -> Self {
        Self {
            conn,
            config,
            client,
            sends: Sends::new(),
            receipts: Receipts::new(conn),
            acks_queued: 0,
            window: 0,
            health: Health::new(),
        }
    }

    fn ended(&self, reason: &str) -> Ended {
        self.health.ended(reason)
    }

    pub(super) fn on_command(
        &mut self,
        command: Option<Command>,
        outbox: &mut Outbox,
    ) -> Result<(), Ended> {
        match command {
            None | Some(Command::Stop) => self.begin_stop(),
            Some(Command::Ack(token)) => {
                self.receipts.ack(token);
                self.send_acks();
                Ok(())
            }
            Some(Command::Publish {
                topic,
                payload,
                retain,
            }) => {
                outbox.push(topic, payload, retain);
                self.publish_waiting(outbox)
            }
        }
    }

    /// Hands over the acks that are due, no more than have their place in the client
    /// library's queue: a broker may send more than it was allowed to. What is left
    /// follows as the library writes them.
    pub(super) fn send_acks(&mut self) {
        while self.acks_queued < usize::from(self.config.receive_max) {
            let Some(publish) = self.receipts.due() else {
                return;
            };
            if self.client.try_ack(publish).is_err() {
                return;
            }
            self.acks_queued += 1;
            self.receipts.sent();
            self.health.did_work = true;
        }
    }

    /// Never fills the library's window, in which the subscription has a place
    /// too: its queue carries the acks as well, and it stops reading the queue
    /// while the window is full.
    pub(super) fn publish_waiting(&mut self, outbox: &mut Outbox) -> Result<(), Ended> {
        while self.health.ready
            && !self.health.stopping
            && self.sends.span() + 2 < self.window.max(3)
        {
            let Some((topic, message)) = outbox.pop() else {
                return Ok(());
            };
            if client::is_topic(&topic) {
                self.send(topic, message.payload, message.retain, Sent::Message)?;
            }
        }
        Ok(())
    }

    fn send(
        &mut self,
        topic: String,
        payload: Vec<u8>,
        retain: bool,
        as_: Sent,
    ) -> Result<(), Ended> {
        self.client
            .try_publish(topic, QoS::AtLeastOnce, retain, payload)
            .map_err(|_| self.ended("a message was not taken"))?;
        self.sends.hand_over(as_);
        Ok(())
    }

    fn send_status(&mut self, payload: Vec<u8>, as_: Sent) -> Result<(), Ended> {
        let topic = self
            .config
            .status
            .as_ref()
            .map(|status| status.topic.clone());
        topic.map_or(Ok(()), |topic| self.send(topic, payload, true, as_))
    }

    fn begin_stop(&mut self) -> Result<(), Ended> {
        if self.health.stopping {
            return Ok(());
        }
        self.health.stopping = true;
        let config = Arc::clone(&self.config);
        match &config.status {
            Some(status) if self.health.ready => {
                self.send_status(status.offline.clone(), Sent::Farewell)
            }
            Some(_) | None => self.disconnect(),
        }
    }

    fn disconnect(&mut self) -> Result<(), Ended> {
        self.client
            .try_disconnect()
            .map_err(|_| self.ended("the disconnect was not taken"))
    }

    pub(super) fn on_event(
        &mut self,
        event: Event,
        out: &mut VecDeque<SubscriberEvent>,
    ) -> Result<(), Ended> {
        if client::is_collision(&event) {
            return Err(self.ended("a packet number was taken twice"));
        }
        match event {
            Event::Incoming(packet) => self.on_packet(packet, out),
            Event::Outgoing(Outgoing::Publish(pkid)) => self
                .sends
                .on_written(pkid)
                .map_err(|reason| self.ended(&reason)),
            Event::Outgoing(Outgoing::PubAck(_)) => {
                self.acks_queued = self.acks_queued.saturating_sub(1);
                Ok(())
            }
            Event::Outgoing(Outgoing::Disconnect) => Err(Ended::Stopped),
            Event::Outgoing(_) => Ok(()),
        }
    }

    fn on_packet(
        &mut self,
        packet: Packet,
        out: &mut VecDeque<SubscriberEvent>,
    ) -> Result<(), Ended> {
        if let Packet::Publish(publish) = packet {
            return self.on_message(publish, out);
        }
        if let Packet::PubAck(puback) = packet {
            return match self.sends.on_answered(puback.pkid) {
                Err(reason) => Err(self.ended(&reason)),
                Ok(Sent::Farewell) => self.disconnect(),
                Ok(Sent::Birth | Sent::Message) => Ok(()),
            };
        }
        if let Packet::ConnAck(connack) = packet {
            return self.on_accepted(&connack, out);
        }
        if let Packet::SubAck(suback) = packet {
            for (filter, code) in self.config.filters.iter().zip(suback.return_codes) {
                if !matches!(code, SubscribeReasonCode::Success(_)) {
                    out.push_back(SubscriberEvent::SubscriptionRefused {
                        filter: filter.clone(),
                    });
                }
            }
        }
        Ok(())
    }

    /// On a resumed session messages follow the CONNACK at once, so this is
    /// when the reader must know. The subscription is on its way before
    /// anything that the reader publishes.
    fn on_accepted(
        &mut self,
        connack: &ConnAck,
        out: &mut VecDeque<SubscriberEvent>,
    ) -> Result<(), Ended> {
        let receive_max = connack.properties.as_ref().and_then(|p| p.receive_max);
        self.window = u64::from(
            receive_max
                .unwrap_or(u16::MAX)
                .min(SUBSCRIBER_PUBLISHES_MAX),
        );
        self.health.ready = true;
        let session_present = connack.session_present;
        out.push_back(SubscriberEvent::Connected {
            conn: self.conn,
            session_present,
        });
        // Also on a resumed session: the filters may have changed since.
        let filters = self.config.filters.iter();
        self.client
            .try_subscribe_many(filters.map(|f| Filter::new(f, QoS::AtLeastOnce)))
            .map_err(|_| self.ended("a subscription is not valid"))?;
        let config = Arc::clone(&self.config);
        config.status.as_ref().map_or(Ok(()), |status| {
            self.send_status(status.online.clone(), Sent::Birth)
        })
    }

    fn on_message(
        &mut self,
        publish: Publish,
        out: &mut VecDeque<SubscriberEvent>,
    ) -> Result<(), Ended> {
        let payload = publish.payload.clone();
        let topic = String::from_utf8(publish.topic.to_vec());
        // Only the numbers are kept for the ack, never the bytes.
        let receipt = Publish {
            payload: Vec::new().into(),
            topic: Vec::new().into(),
            properties: None,
            ..publish
        };
        let token = self.receipts.received(receipt);
        match topic {
            Ok(topic) if payload.len() <= MESSAGE_BYTES_MAX => {
                let payload = Vec::from(payload);
                out.push_back(SubscriberEvent::Message {
                    token,
                    topic,
                    payload,
                });
                Ok(())
            }
            topic => {
                let topic = topic.unwrap_or_default();
                let payload_bytes = payload.len();
                out.push_back(SubscriberEvent::Unfit {
                    topic,
                    payload_bytes,
                });
                self.receipts.ack(token);
                self.send_acks();
                Ok(())
            }
        }
    }
}
