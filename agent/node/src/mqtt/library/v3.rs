//! MQTT 3.1.1 of the client library: no reason codes, no limits from the broker, no
//! properties.
//!
//! Always holds: the library's own limit on a write is out of the way once the
//! connection stands. It is the connection's timeout, which a large message on a
//! slow link can never meet: each attempt would end in the same message.

use bytes::Bytes;
use rumqttc::mqttbytes::v4::{LastWill, Packet, Publish, SubscribeReasonCode};
use rumqttc::{
    AsyncClient, ConnectionError, Event, EventLoop, MqttOptions, QoS, StateError, SubscribeFilter,
    mqttbytes,
};

use super::super::client::Session;
use super::super::limits::{PACKET_BYTES_MAX, WRITE_MAX};
use super::{Accepted, Failure, Heard, NotTaken, Opening, Receipt};

pub(super) fn open(opening: &Opening<'_>) -> (AsyncClient, EventLoop) {
    let (client, mut eventloop) = AsyncClient::new(options(opening), opening.requests_max);
    eventloop.set_network_options(opening.network());
    (client, eventloop)
}

fn options(opening: &Opening<'_>) -> MqttOptions {
    let (config, session) = (opening.config, opening.session);
    let mut options = MqttOptions::new(&config.client_id, opening.host(), config.port);
    options
        .set_clean_session(matches!(session.session, Session::Fresh))
        .set_keep_alive(config.keep_alive())
        .set_max_packet_size(PACKET_BYTES_MAX, PACKET_BYTES_MAX)
        .set_inflight(session.inflight_max)
        .set_manual_acks(session.manual_acks)
        .set_transport(opening.transport());
    if let Some(credentials) = opening.material.credentials() {
        options.set_credentials(&credentials.user, &credentials.password);
    }
    if let Some(will) = opening.will {
        options.set_last_will(LastWill::new(
            &will.topic,
            will.payload.clone(),
            QoS::AtLeastOnce,
            will.retain,
        ));
    }
    options
}

pub(super) async fn next(eventloop: &mut EventLoop) -> Result<Heard, Failure> {
    let heard = match eventloop.poll().await {
        Ok(Event::Incoming(packet)) => incoming(packet),
        Ok(Event::Outgoing(outgoing)) => Heard::sent(&outgoing),
        Err(error) => return Err(failure(&error)),
    };
    if matches!(heard, Heard::Accepted(_)) {
        let limit_s = WRITE_MAX.as_secs();
        eventloop.network_options.set_connection_timeout(limit_s);
    }
    Ok(heard)
}

fn incoming(packet: Packet) -> Heard {
    if let Packet::Publish(publish) = packet {
        return Heard::Message {
            receipt: Receipt {
                pkid: publish.pkid,
                qos: publish.qos as u8,
            },
            again: publish.dup,
            topic: Some(publish.topic),
            payload: publish.payload,
        };
    }
    if let Packet::PubAck(puback) = packet {
        return Heard::Answered {
            pkid: puback.pkid,
            refused: None,
        };
    }
    if let Packet::ConnAck(connack) = packet {
        return Heard::Accepted(Accepted {
            session_present: connack.session_present,
            receive_max: u16::MAX,
            packet_bytes_max: PACKET_BYTES_MAX,
        });
    }
    if let Packet::SubAck(suback) = packet {
        let codes = suback.return_codes.into_iter();
        return Heard::Subscribed(
            codes
                .map(|code| matches!(code, SubscribeReasonCode::Success(_)))
                .collect(),
        );
    }
    Heard::SignOfLife
}

fn failure(error: &ConnectionError) -> Failure {
    match error {
        ConnectionError::NetworkTimeout => Failure::Silent,
        ConnectionError::ConnectionRefused(code) => Failure::Refused(format!("{code:?}")),
        ConnectionError::MqttState(StateError::ConnectionAborted) => Failure::Closed,
        ConnectionError::Tls(error) => Failure::Tls(error.to_string()),
        ConnectionError::Websocket(error) => Failure::Websocket(error.to_string()),
        ConnectionError::ResponseValidation(error) => Failure::Websocket(error.to_string()),
        ConnectionError::Io(error) => Failure::io(error),
        ConnectionError::MqttState(StateError::AwaitPingResp) => Failure::NoPong,
        ConnectionError::MqttState(StateError::Deserialization(mqttbytes::Error::Io(error))) => {
            Failure::io(error)
        }
        ConnectionError::MqttState(StateError::Deserialization(error)) => {
            Failure::Nonsense(error.to_string())
        }
        ConnectionError::NotConnAck(_) => Failure::Nonsense(error.to_string()),
        ConnectionError::MqttState(_)
        | ConnectionError::FlushTimeout
        | ConnectionError::WsConnect(_)
        | ConnectionError::RequestsDone
        | ConnectionError::InvalidUrl(_) => Failure::other(&error.to_string()),
    }
}

pub(super) fn publish(
    client: &AsyncClient,
    topic: String,
    retain: bool,
    payload: Vec<u8>,
) -> Result<(), NotTaken> {
    client
        .try_publish(topic, QoS::AtLeastOnce, retain, payload)
        .map_err(|_| NotTaken)
}

pub(super) fn subscribe(client: &AsyncClient, filters: &[String]) -> Result<(), NotTaken> {
    let filters = filters
        .iter()
        .map(|f| SubscribeFilter::new(f.clone(), QoS::AtLeastOnce));
    client.try_subscribe_many(filters).map_err(|_| NotTaken)
}

pub(super) fn ack(client: &AsyncClient, receipt: Receipt) -> Result<(), NotTaken> {
    let qos = match receipt.qos {
        0 => QoS::AtMostOnce,
        1 => QoS::AtLeastOnce,
        _ => QoS::ExactlyOnce,
    };
    let mut publish = Publish::from_bytes("", qos, Bytes::new());
    publish.pkid = receipt.pkid;
    client.try_ack(&publish).map_err(|_| NotTaken)
}
