//! One connection of the embedded broker: bytes to packets and back.
//!
//! Always holds: reading goes on while writing waits, so two peers that both
//! write cannot block each other. Bound: one packet in, BROKER_WRITE_AHEAD_BYTES
//! and one packet out. Knows no sessions: those are the hub's.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use rumqttc::v5::mqttbytes::v5::{
    ConnAck, ConnAckProperties, ConnectProperties, ConnectReturnCode, Disconnect,
    DisconnectReasonCode, Packet, PingResp, PubAck, Publish, SubAck, Subscribe, UnsubAck,
    UnsubAckReason, Unsubscribe,
};
use rumqttc::v5::mqttbytes::{self, QoS};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::select;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until, timeout};

use super::super::limits::{
    BROKER_CONNECT_MAX, BROKER_RECEIVE_MAX, BROKER_WRITE_AHEAD_BYTES, PACKET_BYTES_MAX,
};
use super::Shared;
use super::hub::{LinkNo, Opening};

/// Why a connection ends.
enum End {
    /// The client said goodbye; with `will` it wants its last will published.
    Goodbye { will: bool },
    /// Cut, silent, broken, or taken over.
    Lost,
    /// The client breaks the protocol and is told so.
    Fault(DisconnectReasonCode),
}

impl From<io::Error> for End {
    fn from(_: io::Error) -> Self {
        Self::Lost
    }
}

/// Serves one client until it is gone.
pub(super) async fn run(mut stream: TcpStream, shared: Shared, cut: watch::Receiver<u64>) {
    // Without it only small acks get slower.
    let _ = stream.set_nodelay(true);
    let (mut read, mut write) = stream.split();
    let mut input = BytesMut::new();
    let bell = Arc::new(Notify::new());
    let opened = timeout(
        BROKER_CONNECT_MAX,
        open(&mut read, &mut input, &shared, &bell),
    )
    .await;
    let Ok(Ok((mut client, hello))) = opened else {
        return;
    };
    if write_packet(&mut write, &hello).await.is_err() {
        return;
    }
    let Some(mut client) = client.take() else {
        return;
    };
    client.input = input;
    let end = client.serve(&mut read, &mut write, cut).await;
    let will = match end {
        End::Goodbye { will } => will,
        End::Lost => true,
        End::Fault(reason_code) => {
            let packet = Packet::Disconnect(Disconnect {
                reason_code,
                properties: None,
            });
            let _ = timeout(Duration::from_secs(1), write_packet(&mut write, &packet)).await;
            true
        }
    };
    shared
        .lock()
        .close(&client.id, client.link, will, Instant::now());
}

async fn write_packet(write: &mut WriteHalf<'_>, packet: &Packet) -> Result<(), End> {
    let mut out = BytesMut::new();
    packet.write(&mut out, None).map_err(|_| End::Lost)?;
    write.write_all(&out).await?;
    Ok(())
}

/// Takes the first packet, which must be a CONNECT, and gives the answer to it.
async fn open(
    read: &mut ReadHalf<'_>,
    input: &mut BytesMut,
    shared: &Shared,
    bell: &Arc<Notify>,
) -> Result<(Option<Client>, Packet), End> {
    let packet = loop {
        if let Some(packet) = take_packet(input)? {
            break packet;
        }
        if read.read_buf(input).await? == 0 {
            return Err(End::Lost);
        }
    };
    let Packet::Connect(connect, will, _) = packet else {
        return Err(End::Lost);
    };
    let asked = connect.properties.unwrap_or_else(ConnectProperties::new);
    let opening = Opening {
        client_id: connect.client_id.clone(),
        clean_start: connect.clean_start,
        expiry: Duration::from_secs(u64::from(asked.session_expiry_interval.unwrap_or(0))),
        receive_max: usize::from(asked.receive_maximum.unwrap_or(BROKER_RECEIVE_MAX)),
        packet_bytes_max: asked
            .max_packet_size
            .and_then(|max| usize::try_from(max).ok())
            .unwrap_or(PACKET_BYTES_MAX),
        will,
    };
    if opening.client_id.is_empty() {
        let code = ConnectReturnCode::ClientIdentifierNotValid;
        return Ok((None, connack(false, code)));
    }
    let opened = shared
        .lock()
        .open(opening, Arc::clone(bell), Instant::now());
    Ok(match opened {
        Err(code) => (None, connack(false, code)),
        Ok((link, present)) => {
            let client = Client {
                id: connect.client_id,
                link,
                shared: shared.clone(),
                bell: Arc::clone(bell),
                // One and a half times what the client promised; 0 is for ever.
                silence: Duration::from_millis(u64::from(connect.keep_alive) * 1500),
                input: BytesMut::new(),
                output: BytesMut::new(),
            };
            (Some(client), connack(present, ConnectReturnCode::Success))
        }
    })
}

fn connack(session_present: bool, code: ConnectReturnCode) -> Packet {
    let properties = ConnAckProperties {
        receive_max: Some(BROKER_RECEIVE_MAX),
        max_qos: Some(1),
        max_packet_size: u32::try_from(PACKET_BYTES_MAX).ok(),
        shared_subscription_available: Some(0),
        subscription_identifiers_available: Some(0),
        session_expiry_interval: None,
        retain_available: None,
        assigned_client_identifier: None,
        topic_alias_max: None,
        reason_string: None,
        user_properties: Vec::new(),
        wildcard_subscription_available: None,
        server_keep_alive: None,
        response_information: None,
        server_reference: None,
        authentication_method: None,
        authentication_data: None,
    };
    Packet::ConnAck(ConnAck {
        session_present,
        code,
        properties: Some(properties),
    })
}

/// A packet, if a whole one has come in.
fn take_packet(input: &mut BytesMut) -> Result<Option<Packet>, End> {
    // The short form of DISCONNECT, which the codec does not read.
    if input.starts_with(&[0xe0, 0]) {
        let _ = input.split_to(2);
        let reason_code = DisconnectReasonCode::NormalDisconnection;
        return Ok(Some(Packet::Disconnect(Disconnect {
            reason_code,
            properties: None,
        })));
    }
    let bytes_max = u32::try_from(PACKET_BYTES_MAX).ok();
    // The codec was written for what brokers send and may panic on other bytes.
    let read = catch_unwind(AssertUnwindSafe(|| Packet::read(input, bytes_max)));
    match read {
        Ok(Ok(packet)) => Ok(Some(packet)),
        Ok(Err(mqttbytes::Error::InsufficientBytes(more))) => {
            input.reserve(more.min(PACKET_BYTES_MAX));
            Ok(None)
        }
        Ok(Err(mqttbytes::Error::PayloadSizeLimitExceeded { .. })) => {
            Err(End::Fault(DisconnectReasonCode::PacketTooLarge))
        }
        Ok(Err(_)) | Err(_) => Err(End::Fault(DisconnectReasonCode::MalformedPacket)),
    }
}

struct Client {
    id: String,
    link: LinkNo,
    shared: Shared,
    bell: Arc<Notify>,
    silence: Duration,
    input: BytesMut,
    output: BytesMut,
}

impl Client {
    async fn serve(
        &mut self,
        read: &mut ReadHalf<'_>,
        write: &mut WriteHalf<'_>,
        mut cut: watch::Receiver<u64>,
    ) -> End {
        let mut silent_at = Instant::now() + self.silence;
        loop {
            if let Err(end) = self.work() {
                return end;
            }
            let bell = Arc::clone(&self.bell);
            select! {
                read = read.read_buf(&mut self.input) => match read {
                    Ok(0) | Err(_) => return End::Lost,
                    Ok(_) => silent_at = Instant::now() + self.silence,
                },
                written = write.write_buf(&mut self.output), if !self.output.is_empty() => {
                    if written.is_err() {
                        return End::Lost;
                    }
                }
                () = bell.notified() => {}
                _ = cut.changed() => return End::Lost,
                () = sleep_until(silent_at), if !self.silence.is_zero() => return End::Lost,
            }
        }
    }

    /// Takes all whole packets and queues what is due.
    fn work(&mut self) -> Result<(), End> {
        while self.output.len() < 2 * BROKER_WRITE_AHEAD_BYTES {
            let Some(packet) = take_packet(&mut self.input)? else {
                break;
            };
            self.on_packet(packet)?;
        }
        if !self.shared.lock().is_open(&self.id, self.link) {
            return Err(End::Fault(DisconnectReasonCode::SessionTakenOver));
        }
        while self.output.len() < BROKER_WRITE_AHEAD_BYTES {
            let Some(publish) = self.shared.lock().next(&self.id, self.link) else {
                break;
            };
            self.queue(&Packet::Publish(publish))?;
        }
        Ok(())
    }

    fn queue(&mut self, packet: &Packet) -> Result<(), End> {
        packet
            .write(&mut self.output, None)
            .map(drop)
            .map_err(|_| End::Lost)
    }

    fn on_packet(&mut self, packet: Packet) -> Result<(), End> {
        match packet {
            Packet::Publish(publish) => self.on_publish(publish),
            Packet::PubAck(puback) => {
                self.shared.lock().acked(&self.id, self.link, puback.pkid);
                Ok(())
            }
            Packet::Subscribe(subscribe) => self.on_subscribe(subscribe),
            Packet::Unsubscribe(unsubscribe) => self.on_unsubscribe(unsubscribe),
            Packet::PingReq(_) => self.queue(&Packet::PingResp(PingResp)),
            Packet::Disconnect(disconnect) => Err(End::Goodbye {
                will: disconnect.reason_code != DisconnectReasonCode::NormalDisconnection,
            }),
            Packet::Connect(..)
            | Packet::ConnAck(_)
            | Packet::Auth(_)
            | Packet::PubRec(_)
            | Packet::PubRel(_)
            | Packet::PubComp(_)
            | Packet::SubAck(_)
            | Packet::UnsubAck(_)
            | Packet::PingResp(_) => Err(End::Fault(DisconnectReasonCode::ProtocolError)),
        }
    }

    fn on_publish(&mut self, publish: Publish) -> Result<(), End> {
        let (qos, pkid) = (publish.qos, publish.pkid);
        if qos == QoS::ExactlyOnce {
            return Err(End::Fault(DisconnectReasonCode::QoSNotSupported));
        }
        let reason = self.shared.lock().publish(&self.id, publish);
        if qos == QoS::AtMostOnce {
            return Ok(());
        }
        self.queue(&Packet::PubAck(PubAck {
            pkid,
            reason,
            properties: None,
        }))
    }

    fn on_subscribe(&mut self, subscribe: Subscribe) -> Result<(), End> {
        let pkid = subscribe.pkid;
        let return_codes = self
            .shared
            .lock()
            .subscribe(&self.id, self.link, subscribe.filters);
        self.queue(&Packet::SubAck(SubAck {
            pkid,
            return_codes,
            properties: None,
        }))
    }

    fn on_unsubscribe(&mut self, unsubscribe: Unsubscribe) -> Result<(), End> {
        let mut hub = self.shared.lock();
        let reasons = unsubscribe
            .filters
            .iter()
            .map(
                |filter| match hub.unsubscribe(&self.id, self.link, filter) {
                    true => UnsubAckReason::Success,
                    false => UnsubAckReason::NoSubscriptionExisted,
                },
            )
            .collect();
        drop(hub);
        let pkid = unsubscribe.pkid;
        self.queue(&Packet::UnsubAck(UnsubAck {
            pkid,
            reasons,
            properties: None,
        }))
    }
}
