//! One connection of the publisher: what is out on it and what the broker says.
//!
//! Always holds: data goes out only after subscription and birth are acked, so that
//! nothing else takes packet numbers among it. Bound: the window.

use std::collections::VecDeque;
use std::sync::Arc;

use forebay_core::forward::{ConnNo, Refusal, SendNo};
use rumqttc::Outgoing;
use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::{
    ConnAck, Filter, Packet, PubAckReason, Publish, PublishProperties, SubscribeReasonCode,
};
use rumqttc::v5::{AsyncClient, Event};

use super::super::client;
use super::super::limits::PACKET_BYTES_MAX;
use super::super::sends::Sends;
use super::super::task::{Ended, Health};
use super::{Command, LinkEvent, OutMessage, PublisherConfig};

/// What was handed to the client library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    Birth,
    Farewell,
    Data(SendNo),
}

/// One connection: who it is, what is out on it.
pub(super) struct Session {
    conn: ConnNo,
    config: Arc<PublisherConfig>,
    client: AsyncClient,
    sends: Sends<Sent>,
    /// Set by the CONNACK.
    accepted: Option<Accepted>,
    subscribed: bool,
    born: bool,
    pub(super) health: Health,
}

#[derive(Debug, Clone, Copy)]
struct Accepted {
    session_present: bool,
    window: u16,
    packet_bytes_max: usize,
}

impl Session {
    pub(super) fn new(conn: ConnNo, config: Arc<PublisherConfig>, client: AsyncClient) -> Self {
        Self {
            conn,
            subscribed: config.filters.is_empty(),
            born: config.status.is_none(),
            config,
            client,
            sends: Sends::new(),
            accepted: None,
            health: Health::new(),
        }
    }

    fn ended(&self, reason: &str) -> Ended {
        self.health.ended(reason)
    }

    pub(super) fn on_command(
        &mut self,
        command: Option<Command>,
        out: &mut VecDeque<LinkEvent>,
    ) -> Result<(), Ended> {
        match command {
            None | Some(Command::Stop) => self.begin_stop(),
            Some(Command::Reset(conn)) if conn == self.conn => {
                Err(self.ended("reset by the forwarder"))
            }
            Some(Command::Reset(_)) => Ok(()),
            Some(Command::Publish(message)) => self.publish(message, out),
        }
    }

    fn publish(&mut self, message: OutMessage, out: &mut VecDeque<LinkEvent>) -> Result<(), Ended> {
        let Some(accepted) = self
            .accepted
            .filter(|_| self.health.ready && !self.health.stopping)
        else {
            return Ok(());
        };
        if message.conn != self.conn {
            return Ok(());
        }
        let OutMessage {
            conn,
            send,
            topic,
            payload,
            user_properties,
        } = message;
        if !client::is_topic(&topic) {
            out.push_back(LinkEvent::Refused {
                conn,
                send,
                reason: Refusal::TopicInvalid,
            });
            return Ok(());
        }
        let properties = PublishProperties {
            user_properties,
            ..PublishProperties::default()
        };
        let publish = Publish::new(&topic, QoS::AtLeastOnce, payload, Some(properties));
        // The library counts the two bytes of the packet number only once it
        // has one. A packet that is too large would fail there for ever.
        let packet_bytes = publish.size() + 2;
        if packet_bytes > accepted.packet_bytes_max {
            let bytes_max = accepted.packet_bytes_max;
            let reason = Refusal::TooLarge {
                packet_bytes,
                bytes_max,
            };
            out.push_back(LinkEvent::Refused { conn, send, reason });
            return Ok(());
        }
        let properties = publish.properties.unwrap_or_default();
        self.client
            .try_publish_with_properties(
                topic,
                QoS::AtLeastOnce,
                false,
                publish.payload,
                properties,
            )
            .map_err(|_| self.ended("more messages than the window were handed over"))?;
        self.sends.hand_over(Sent::Data(send));
        Ok(())
    }

    fn begin_stop(&mut self) -> Result<(), Ended> {
        if self.health.stopping {
            return Ok(());
        }
        self.health.stopping = true;
        match &self.config.status {
            Some(status) if self.health.ready => {
                self.send_status(status.offline.clone(), Sent::Farewell)
            }
            Some(_) | None => Err(Ended::Stopped),
        }
    }

    fn send_status(&mut self, payload: Vec<u8>, as_: Sent) -> Result<(), Ended> {
        let Some(status) = &self.config.status else {
            return Ok(());
        };
        self.client
            .try_publish(status.topic.clone(), QoS::AtLeastOnce, true, payload)
            .map_err(|_| self.ended("the status was not taken"))?;
        self.sends.hand_over(as_);
        Ok(())
    }

    pub(super) fn on_event(
        &mut self,
        event: Event,
        out: &mut VecDeque<LinkEvent>,
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
            Event::Outgoing(Outgoing::Disconnect) => Err(Ended::Stopped),
            Event::Outgoing(_) => Ok(()),
        }
    }

    fn on_packet(&mut self, packet: Packet, out: &mut VecDeque<LinkEvent>) -> Result<(), Ended> {
        if let Packet::ConnAck(connack) = packet {
            return self.on_accepted(&connack, out);
        }
        if let Packet::SubAck(suback) = packet {
            for (filter, code) in self.config.filters.iter().zip(suback.return_codes) {
                if !matches!(code, SubscribeReasonCode::Success(_)) {
                    out.push_back(LinkEvent::SubscriptionRefused {
                        filter: filter.clone(),
                    });
                }
            }
            self.subscribed = true;
            self.check_ready(out);
            return Ok(());
        }
        if let Packet::PubAck(puback) = packet {
            return self.on_answer(puback.pkid, refusal(puback.reason), out);
        }
        if let Packet::Publish(publish) = packet {
            // A topic that is no text cannot be one of ours.
            if let Ok(topic) = String::from_utf8(publish.topic.to_vec()) {
                let payload = publish.payload.to_vec();
                out.push_back(LinkEvent::Message { topic, payload });
            }
        }
        Ok(())
    }

    fn on_accepted(
        &mut self,
        connack: &ConnAck,
        out: &mut VecDeque<LinkEvent>,
    ) -> Result<(), Ended> {
        let properties = connack.properties.as_ref();
        let receive_max = properties.and_then(|p| p.receive_max).unwrap_or(u16::MAX);
        let packet_max = properties
            .and_then(|p| p.max_packet_size)
            .unwrap_or(u32::MAX);
        self.accepted = Some(Accepted {
            session_present: connack.session_present,
            window: self.config.window.min(receive_max).max(1),
            packet_bytes_max: usize::try_from(packet_max)
                .unwrap_or(usize::MAX)
                .min(PACKET_BYTES_MAX),
        });
        if !self.config.filters.is_empty() {
            let filters = self.config.filters.iter();
            self.client
                .try_subscribe_many(filters.map(|f| Filter::new(f, QoS::AtLeastOnce)))
                .map_err(|_| self.ended("a subscription is not valid"))?;
        }
        if let Some(status) = &self.config.status {
            self.send_status(status.online.clone(), Sent::Birth)?;
        }
        self.check_ready(out);
        Ok(())
    }

    fn on_answer(
        &mut self,
        pkid: u16,
        refused: Option<Refusal>,
        out: &mut VecDeque<LinkEvent>,
    ) -> Result<(), Ended> {
        let conn = self.conn;
        match self
            .sends
            .on_answered(pkid)
            .map_err(|reason| self.ended(&reason))?
        {
            // A broker that refuses our status still takes our data.
            Sent::Birth => {
                self.born = true;
                self.check_ready(out);
            }
            Sent::Farewell => {
                self.client
                    .try_disconnect()
                    .map_err(|_| self.ended("the disconnect was not taken"))?;
            }
            Sent::Data(send) => {
                self.health.did_work = true;
                out.push_back(match refused {
                    None => LinkEvent::Acked { conn, send },
                    Some(reason) => LinkEvent::Refused { conn, send, reason },
                });
            }
        }
        Ok(())
    }

    /// Data goes out only when nothing else takes packet numbers any more: the
    /// library hands them out in a circle of `window`, so a subscription among
    /// the data would push a message onto a number that is still taken.
    fn check_ready(&mut self, out: &mut VecDeque<LinkEvent>) {
        let Some(accepted) = self.accepted else {
            return;
        };
        if self.health.ready || !self.subscribed || !self.born {
            return;
        }
        self.health.ready = true;
        out.push_back(LinkEvent::Connected {
            conn: self.conn,
            session_present: accepted.session_present,
            window: accepted.window,
        });
    }
}

/// `None` for a message that the broker took, also when nobody listens.
fn refusal(reason: PubAckReason) -> Option<Refusal> {
    match reason {
        PubAckReason::Success | PubAckReason::NoMatchingSubscribers => None,
        PubAckReason::UnspecifiedError => Some(Refusal::Unspecified),
        PubAckReason::ImplementationSpecificError => Some(Refusal::Implementation),
        PubAckReason::NotAuthorized => Some(Refusal::NotAuthorized),
        PubAckReason::TopicNameInvalid => Some(Refusal::TopicInvalid),
        PubAckReason::PacketIdentifierInUse => Some(Refusal::PacketIdInUse),
        PubAckReason::QuotaExceeded => Some(Refusal::Quota),
        PubAckReason::PayloadFormatInvalid => Some(Refusal::PayloadInvalid),
    }
}
