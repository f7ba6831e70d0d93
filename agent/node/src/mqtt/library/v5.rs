//! MQTT 5 of the client library.

use bytes::Bytes;
use forebay_core::forward::Refusal;
use rumqttc::v5::mqttbytes::v5::{
    ConnAck, ConnectProperties, Filter, LastWill, Packet, PubAckReason, Publish, PublishProperties,
    SubscribeReasonCode,
};
use rumqttc::v5::mqttbytes::{self, QoS};
use rumqttc::v5::{AsyncClient, ConnectionError, Event, EventLoop, MqttOptions, StateError};

use super::super::client::Session;
use super::super::limits::PACKET_BYTES_MAX;
use super::{Accepted, Failure, Heard, NotTaken, Opening, Receipt};

pub(super) fn options(opening: &Opening<'_>) -> MqttOptions {
    let (config, session) = (opening.config, opening.session);
    let mut options = MqttOptions::new(&config.client_id, opening.host(), config.port);
    let packet_bytes_max =
        u32::try_from(PACKET_BYTES_MAX).expect("the limit is below MQTT's own of 256 MiB");
    let (clean_start, expiry_s) = match session.session {
        Session::Fresh => (true, 0),
        Session::Kept { expiry_s } => (false, expiry_s),
    };
    let mut properties = ConnectProperties::new();
    properties.session_expiry_interval = Some(expiry_s);
    properties.receive_maximum = Some(session.receive_max);
    // The broker drops what is larger; one that sends it all the same is
    // refused by the fixed header, before the payload takes memory.
    properties.max_packet_size = Some(packet_bytes_max);
    options
        .set_connect_properties(properties)
        .set_clean_start(clean_start)
        .set_keep_alive(config.keep_alive())
        .set_connection_timeout(opening.timeout_s())
        .set_outgoing_inflight_upper_limit(session.inflight_max)
        .set_manual_acks(session.manual_acks)
        .set_transport(opening.transport())
        .set_network_options(opening.network());
    if let Some(credentials) = opening.material.credentials() {
        options.set_credentials(&credentials.user, &credentials.password);
    }
    if let Some(will) = opening.will {
        options.set_last_will(LastWill::new(
            &will.topic,
            will.payload.clone(),
            QoS::AtLeastOnce,
            will.retain,
            None,
        ));
    }
    options
}

pub(super) async fn next(eventloop: &mut EventLoop) -> Result<Heard, Failure> {
    match eventloop.poll().await {
        Ok(Event::Incoming(packet)) => Ok(incoming(packet)),
        Ok(Event::Outgoing(outgoing)) => Ok(Heard::sent(&outgoing)),
        Err(error) => Err(failure(&error)),
    }
}

fn incoming(packet: Packet) -> Heard {
    if let Packet::Publish(publish) = packet {
        return message(publish);
    }
    if let Packet::PubAck(puback) = packet {
        return Heard::Answered {
            pkid: puback.pkid,
            refused: refusal(puback.reason),
        };
    }
    if let Packet::ConnAck(connack) = packet {
        return Heard::Accepted(accepted(&connack));
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

fn message(publish: Publish) -> Heard {
    Heard::Message {
        receipt: Receipt {
            pkid: publish.pkid,
            qos: publish.qos as u8,
        },
        again: publish.dup,
        topic: String::from_utf8(publish.topic.to_vec()).ok(),
        payload: publish.payload,
    }
}

fn accepted(connack: &ConnAck) -> Accepted {
    let properties = connack.properties.as_ref();
    let receive_max = properties.and_then(|p| p.receive_max).unwrap_or(u16::MAX);
    let packet_max = properties
        .and_then(|p| p.max_packet_size)
        .unwrap_or(u32::MAX);
    Accepted {
        session_present: connack.session_present,
        receive_max,
        packet_bytes_max: usize::try_from(packet_max)
            .unwrap_or(usize::MAX)
            .min(PACKET_BYTES_MAX),
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

fn failure(error: &ConnectionError) -> Failure {
    match error {
        ConnectionError::Timeout(_) => Failure::Silent,
        ConnectionError::ConnectionRefused(code)
        | ConnectionError::MqttState(StateError::ConnFail { reason: code }) => {
            Failure::Refused(format!("{code:?}"))
        }
        ConnectionError::MqttState(StateError::ConnectionAborted) => Failure::Closed,
        ConnectionError::MqttState(StateError::ServerDisconnect {
            reason_code,
            reason_string,
        }) => Failure::Dismissed {
            code: format!("{reason_code:?}"),
            said: reason_string.clone(),
        },
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
    user_properties: Vec<(String, String)>,
) -> Result<(), NotTaken> {
    let properties = PublishProperties {
        user_properties,
        ..PublishProperties::default()
    };
    client
        .try_publish_with_properties(topic, QoS::AtLeastOnce, retain, payload, properties)
        .map_err(|_| NotTaken)
}

pub(super) fn subscribe(client: &AsyncClient, filters: &[String]) -> Result<(), NotTaken> {
    let filters = filters.iter().map(|f| Filter::new(f, QoS::AtLeastOnce));
    client.try_subscribe_many(filters).map_err(|_| NotTaken)
}

pub(super) fn ack(client: &AsyncClient, receipt: Receipt) -> Result<(), NotTaken> {
    let qos = match receipt.qos {
        0 => QoS::AtMostOnce,
        1 => QoS::AtLeastOnce,
        _ => QoS::ExactlyOnce,
    };
    let mut publish = Publish::new("", qos, Bytes::new(), None);
    publish.pkid = receipt.pkid;
    client.try_ack(&publish).map_err(|_| NotTaken)
}
