//! Packets of MQTT 3.1.1 and 5 as bytes, as far as this broker uses them: a reading of
//! the standards of its own, so that a fault of the clients' library shows.
//!
//! Always holds: bytes of any kind give a packet or say what is wrong with them. Bound:
//! one packet at a time, [`PACKET_MAX`]. Knows no session.

/// A packet above it is no client's of ours.
pub(super) const PACKET_MAX: usize = 16 * 1024 * 1024;

/// What a client speaks: the level in its CONNECT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    V311,
    V5,
}

/// What is wrong with bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bad(pub(super) &'static str);

/// The first packet of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Connect {
    pub(super) version: Version,
    pub(super) client_id: String,
    pub(super) clean: bool,
    pub(super) keep_alive_s: u16,
    /// Seconds that the session outlives its connection; 3.1.1 has none or for ever.
    pub(super) expiry_s: u32,
    pub(super) receive_max: u16,
    pub(super) packet_max: u32,
    pub(super) will: Option<Publish>,
    pub(super) username: Option<String>,
    pub(super) password: Option<Vec<u8>>,
}

/// A message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Publish {
    pub(super) topic: String,
    pub(super) payload: Vec<u8>,
    pub(super) qos: u8,
    pub(super) retain: bool,
    pub(super) dup: bool,
    /// 0 with QoS 0.
    pub(super) id: u16,
    /// Of version 5, as they stand in the packet; empty in version 3.1.1.
    pub(super) properties: Vec<u8>,
}

/// What a client sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Packet {
    Connect(Connect),
    Publish(Publish),
    PubAck { id: u16 },
    Subscribe { id: u16, filters: Vec<(String, u8)> },
    Unsubscribe { id: u16, filters: Vec<String> },
    Ping,
    Disconnect { with_will: bool },
}

/// Packet types, the upper half of a first byte.
const CONNECT: u8 = 1;
const PUBLISH: u8 = 3;
const PUBACK: u8 = 4;
const SUBSCRIBE: u8 = 8;
const UNSUBSCRIBE: u8 = 10;
const PINGREQ: u8 = 12;
const DISCONNECT: u8 = 14;

/// The first packet of `input`, its first byte and its body, if all of it is there.
///
/// # Errors
/// A length that is none.
pub(super) fn split(input: &mut Vec<u8>) -> Result<Option<(u8, Vec<u8>)>, Bad> {
    let Some(&first) = input.first() else {
        return Ok(None);
    };
    let (mut len, mut at) = (0usize, 1);
    loop {
        let Some(&byte) = input.get(at) else {
            return Ok(None);
        };
        len |= usize::from(byte & 0x7f) << (7 * (at - 1));
        at += 1;
        if byte & 0x80 == 0 {
            break;
        }
        if at > 4 {
            return Err(Bad("a length of more than four bytes"));
        }
    }
    if len > PACKET_MAX {
        return Err(Bad("a packet that is too long"));
    }
    if input.len() < at + len {
        return Ok(None);
    }
    let body = input[at..at + len].to_vec();
    input.drain(..at + len);
    Ok(Some((first, body)))
}

struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], Bad> {
        let (head, rest) = self.0.split_at_checked(len).ok_or(Bad("it ends early"))?;
        self.0 = rest;
        Ok(head)
    }

    fn u8(&mut self) -> Result<u8, Bad> {
        Ok(self.take(1)?[0])
    }

    fn u16(&mut self) -> Result<u16, Bad> {
        let bytes = self.take(2)?;
        Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    fn u32(&mut self) -> Result<u32, Bad> {
        Ok(u32::from(self.u16()?) << 16 | u32::from(self.u16()?))
    }

    fn binary(&mut self) -> Result<&'a [u8], Bad> {
        let len = self.u16()?;
        self.take(usize::from(len))
    }

    fn text(&mut self) -> Result<String, Bad> {
        let bytes = self.binary()?.to_vec();
        String::from_utf8(bytes).map_err(|_| Bad("a text that is none"))
    }

    fn varint(&mut self) -> Result<usize, Bad> {
        let mut value = 0;
        for place in 0..4 {
            let byte = self.u8()?;
            value |= usize::from(byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Bad("a number of more than four bytes"))
    }

    /// The properties of a version 5 packet; nothing in version 3.1.1.
    fn properties(&mut self, version: Version) -> Result<&'a [u8], Bad> {
        if version == Version::V311 {
            return Ok(&[]);
        }
        let len = self.varint()?;
        self.take(len)
    }
}

/// Numbers of the properties of a CONNECT that count here.
#[derive(Default)]
struct Asked {
    expiry_s: Option<u32>,
    receive_max: Option<u16>,
    packet_max: Option<u32>,
}

/// Walks over properties, whatever they are.
fn walk(bytes: &[u8]) -> Result<Asked, Bad> {
    let mut at = Cursor(bytes);
    let mut asked = Asked::default();
    while !at.0.is_empty() {
        match at.u8()? {
            0x11 => asked.expiry_s = Some(at.u32()?),
            0x21 => asked.receive_max = Some(at.u16()?),
            0x27 => asked.packet_max = Some(at.u32()?),
            0x01 | 0x17 | 0x19 | 0x24 | 0x25 | 0x28 | 0x29 | 0x2a => drop(at.u8()?),
            0x13 | 0x22 | 0x23 => drop(at.u16()?),
            0x02 | 0x18 => drop(at.u32()?),
            0x0b => drop(at.varint()?),
            0x03 | 0x08 | 0x09 | 0x12 | 0x15 | 0x16 | 0x1a | 0x1c | 0x1f => drop(at.binary()?),
            0x26 => {
                at.binary()?;
                at.binary()?;
            }
            _ => return Err(Bad("a property that is none")),
        }
    }
    Ok(asked)
}

fn connect(body: &[u8]) -> Result<Connect, Bad> {
    let mut at = Cursor(body);
    if at.binary()? != b"MQTT" {
        return Err(Bad("another protocol"));
    }
    let version = match at.u8()? {
        4 => Version::V311,
        5 => Version::V5,
        _ => return Err(Bad("another version")),
    };
    let flags = at.u8()?;
    if flags & 1 != 0 {
        return Err(Bad("a flag that must not be set"));
    }
    let (clean, keep_alive_s) = (flags & 2 != 0, at.u16()?);
    let asked = walk(at.properties(version)?)?;
    let client_id = at.text()?;
    let will = if flags & 4 != 0 {
        let properties = at.properties(version)?;
        walk(properties)?;
        Some(Publish {
            topic: at.text()?,
            payload: at.binary()?.to_vec(),
            qos: flags >> 3 & 3,
            retain: flags & 0x20 != 0,
            ..Publish::default()
        })
    } else {
        None
    };
    let username = if flags & 0x80 != 0 {
        Some(at.text()?)
    } else {
        None
    };
    let password = if flags & 0x40 != 0 {
        Some(at.binary()?.to_vec())
    } else {
        None
    };
    let forever = match (version, clean) {
        (Version::V311, false) => u32::MAX,
        (Version::V311, true) | (Version::V5, _) => 0,
    };
    Ok(Connect {
        version,
        client_id,
        clean,
        keep_alive_s,
        expiry_s: asked.expiry_s.unwrap_or(forever),
        receive_max: asked.receive_max.unwrap_or(u16::MAX),
        packet_max: asked.packet_max.unwrap_or(u32::MAX),
        will,
        username,
        password,
    })
}

fn publish(first: u8, body: &[u8], version: Version) -> Result<Publish, Bad> {
    let mut at = Cursor(body);
    let qos = first >> 1 & 3;
    if qos > 1 {
        return Err(Bad("a QoS that is not offered"));
    }
    let topic = at.text()?;
    let id = if qos > 0 { at.u16()? } else { 0 };
    if qos > 0 && id == 0 {
        return Err(Bad("a packet number of 0"));
    }
    let properties = at.properties(version)?.to_vec();
    walk(&properties)?;
    Ok(Publish {
        topic,
        payload: at.0.to_vec(),
        qos,
        retain: first & 1 != 0,
        dup: first & 8 != 0,
        id,
        properties,
    })
}

/// A packet of a client that speaks `version`.
///
/// # Errors
/// What is wrong with it.
pub(super) fn read(first: u8, body: &[u8], version: Version) -> Result<Packet, Bad> {
    let mut at = Cursor(body);
    match first >> 4 {
        CONNECT => connect(body).map(Packet::Connect),
        PUBLISH => publish(first, body, version).map(Packet::Publish),
        PUBACK => Ok(Packet::PubAck { id: at.u16()? }),
        SUBSCRIBE if first & 15 == 2 => {
            let id = at.u16()?;
            walk(at.properties(version)?)?;
            let mut filters = Vec::new();
            while !at.0.is_empty() {
                filters.push((at.text()?, at.u8()? & 3));
            }
            Ok(Packet::Subscribe { id, filters })
        }
        UNSUBSCRIBE if first & 15 == 2 => {
            let id = at.u16()?;
            walk(at.properties(version)?)?;
            let mut filters = Vec::new();
            while !at.0.is_empty() {
                filters.push(at.text()?);
            }
            Ok(Packet::Unsubscribe { id, filters })
        }
        PINGREQ => Ok(Packet::Ping),
        DISCONNECT => Ok(Packet::Disconnect {
            with_will: body.first() == Some(&4),
        }),
        _ => Err(Bad("a packet that no client sends")),
    }
}

fn varint(mut value: usize, out: &mut Vec<u8>) {
    loop {
        let low = u8::try_from(value & 0x7f).expect("seven bits");
        value >>= 7;
        out.push(if value > 0 { low | 0x80 } else { low });
        if value == 0 {
            return;
        }
    }
}

fn text(text: &str, out: &mut Vec<u8>) {
    let len = u16::try_from(text.len()).expect("a topic came in a packet");
    out.extend(len.to_be_bytes());
    out.extend(text.as_bytes());
}

fn packet(first: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![first];
    varint(body.len(), &mut out);
    out.extend(body);
    out
}

/// CONNACK: `code` 0 takes the client. The limits are of version 5 only.
#[must_use]
pub(super) fn conn_ack(
    version: Version,
    session_present: bool,
    code: u8,
    receive_max: Option<u16>,
    packet_max: Option<u32>,
) -> Vec<u8> {
    let mut body = vec![u8::from(session_present), code];
    if version == Version::V5 {
        // At most QoS 1.
        let mut properties = vec![0x24, 1];
        if let Some(max) = receive_max {
            properties.push(0x21);
            properties.extend(max.to_be_bytes());
        }
        if let Some(max) = packet_max {
            properties.push(0x27);
            properties.extend(max.to_be_bytes());
        }
        varint(properties.len(), &mut body);
        body.extend(properties);
    }
    packet(0x20, &body)
}

/// PUBLISH to a client.
#[must_use]
pub(super) fn publish_bytes(version: Version, publish: &Publish) -> Vec<u8> {
    let mut body = Vec::with_capacity(publish.payload.len() + publish.topic.len() + 16);
    text(&publish.topic, &mut body);
    if publish.qos > 0 {
        body.extend(publish.id.to_be_bytes());
    }
    if version == Version::V5 {
        varint(publish.properties.len(), &mut body);
        body.extend(&publish.properties);
    }
    body.extend(&publish.payload);
    let first = 0x30 | u8::from(publish.dup) << 3 | publish.qos << 1 | u8::from(publish.retain);
    packet(first, &body)
}

/// PUBACK; a reason is of version 5 only.
#[must_use]
pub(super) fn pub_ack(version: Version, id: u16, reason: u8) -> Vec<u8> {
    let mut body = id.to_be_bytes().to_vec();
    if version == Version::V5 && reason != 0 {
        body.push(reason);
    }
    packet(0x40, &body)
}

/// SUBACK with a code for each filter.
#[must_use]
pub(super) fn sub_ack(version: Version, id: u16, codes: &[u8]) -> Vec<u8> {
    let mut body = id.to_be_bytes().to_vec();
    if version == Version::V5 {
        body.push(0);
    }
    body.extend(codes);
    packet(0x90, &body)
}

/// UNSUBACK of so many filters.
#[must_use]
pub(super) fn unsub_ack(version: Version, id: u16, filters: usize) -> Vec<u8> {
    let mut body = id.to_be_bytes().to_vec();
    if version == Version::V5 {
        body.push(0);
        body.extend(vec![0; filters]);
    }
    packet(0xb0, &body)
}

/// PINGRESP.
pub(super) const PING_RESP: [u8; 2] = [0xd0, 0];

/// DISCONNECT of a broker: version 5 only.
#[must_use]
pub(super) fn goodbye(reason: u8) -> Vec<u8> {
    packet(0xe0, &[reason, 0])
}
