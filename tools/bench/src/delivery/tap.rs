//! A broker of our own for one client, that acks all and tells what it got: when, how
//! many bytes on the wire, and which payload. Knows just enough of MQTT 5 for that.
//!
//! Bound: one client and one packet.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// A client that says nothing for so long has ended.
const SILENCE_MAX: Duration = Duration::from_secs(30);

const CONNECT: u8 = 1;
const PUBLISH: u8 = 3;
const SUBSCRIBE: u8 = 8;
const PINGREQ: u8 = 12;
const DISCONNECT: u8 = 14;

/// Whether a client is served on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    GoOn,
    Enough,
}

impl Next {
    pub(super) fn enough_if(is_enough: bool) -> Self {
        if is_enough { Self::Enough } else { Self::GoOn }
    }
}

/// A PUBLISH as it came.
#[derive(Debug)]
pub(super) struct Packet {
    /// Since the CONNACK was written.
    pub(super) after: Duration,
    /// Of the whole packet, fixed header included.
    pub(super) bytes: usize,
    pub(super) topic: String,
    pub(super) payload: Vec<u8>,
}

/// Where clients connect to.
#[derive(Debug)]
pub(super) struct Tap {
    listener: TcpListener,
    pub(super) port: u16,
}

impl Tap {
    /// Listens on a port; 0 is any.
    pub(super) fn open(port: u16) -> Result<Self, String> {
        let fail = |error: std::io::Error| error.to_string();
        let listener = TcpListener::bind(("127.0.0.1", port)).map_err(fail)?;
        let port = listener.local_addr().map_err(fail)?.port();
        Ok(Self { listener, port })
    }

    /// Serves the next client until `took` says that a data message was the last one, then
    /// cuts it.
    pub(super) fn serve(
        &self,
        mut took: impl FnMut(&Packet) -> Result<Next, String>,
    ) -> Result<(), String> {
        let (stream, _) = self.listener.accept().map_err(|error| error.to_string())?;
        let mut client = Client::new(stream)?;
        let mut accepted = Instant::now();
        loop {
            let (first, body) = client.packet()?;
            match first >> 4 {
                CONNECT => {
                    client.write(&[0x20, 3, 0, 0, 0])?;
                    accepted = Instant::now();
                }
                SUBSCRIBE => client.on_subscribe(&body)?,
                PUBLISH => {
                    let packet = client.on_publish(first, body, accepted)?;
                    if packet.topic.contains("/data/") && took(&packet)? == Next::Enough {
                        return Ok(());
                    }
                }
                PINGREQ => client.write(&[0xd0, 0])?,
                DISCONNECT => return Err("the client left".into()),
                _ => {}
            }
        }
    }
}

struct Client {
    stream: std::io::BufReader<TcpStream>,
}

impl Client {
    fn new(stream: TcpStream) -> Result<Self, String> {
        let set = stream
            .set_read_timeout(Some(SILENCE_MAX))
            .and_then(|()| stream.set_nodelay(true));
        set.map_err(|error| error.to_string())?;
        Ok(Self {
            stream: std::io::BufReader::with_capacity(1 << 16, stream),
        })
    }

    fn packet(&mut self) -> Result<(u8, Vec<u8>), String> {
        let first = self.byte()?;
        let (mut length, mut shift) = (0, 0);
        loop {
            let byte = self.byte()?;
            length |= usize::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 || shift > 21 {
                break;
            }
        }
        let mut body = vec![0; length];
        self.read(&mut body)?;
        Ok((first, body))
    }

    fn byte(&mut self) -> Result<u8, String> {
        let mut byte = [0];
        self.read(&mut byte)?;
        Ok(byte[0])
    }

    fn read(&mut self, into: &mut [u8]) -> Result<(), String> {
        let read = self.stream.read_exact(into);
        read.map_err(|error| format!("the client went: {error}"))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), String> {
        let written = self.stream.get_mut().write_all(bytes);
        written.map_err(|error| format!("the client went: {error}"))
    }

    /// Grants each filter QoS 1: as many as there are texts followed by an option.
    fn on_subscribe(&mut self, body: &[u8]) -> Result<(), String> {
        let (id, rest) = body.split_at_checked(2).ok_or("a short SUBSCRIBE")?;
        let properties = usize::from(*rest.first().ok_or("a short SUBSCRIBE")?);
        let mut rest = rest.get(1 + properties..).unwrap_or_default();
        let mut answer = vec![0x90, 0, id[0], id[1], 0];
        while let Some((length, behind)) = rest.split_first_chunk::<2>() {
            let length = usize::from(u16::from_be_bytes(*length));
            rest = behind.get(length + 1..).unwrap_or_default();
            answer.push(1);
        }
        answer[1] = (answer.len() - 2) as u8;
        self.write(&answer)
    }

    fn on_publish(&mut self, first: u8, body: Vec<u8>, since: Instant) -> Result<Packet, String> {
        let after = since.elapsed();
        let short = "a short PUBLISH";
        let (length, rest) = body.split_first_chunk::<2>().ok_or(short)?;
        let length = usize::from(u16::from_be_bytes(*length));
        let (topic, mut rest) = rest.split_at_checked(length).ok_or(short)?;
        if first & 0x06 != 0 {
            let (id, behind) = rest.split_first_chunk::<2>().ok_or(short)?;
            rest = behind;
            self.write(&[0x40, 2, id[0], id[1]])?;
        }
        // Its properties, with their length as a varint of at most two bytes here.
        let (low, high) = (
            rest.first().ok_or(short)?,
            rest.get(1).copied().unwrap_or(0),
        );
        let (properties, at) = match low & 0x80 {
            0 => (usize::from(*low), 1),
            _ => (usize::from(low & 0x7f) | usize::from(high) << 7, 2),
        };
        let payload = rest.get(at + properties..).ok_or(short)?.to_vec();
        let length_bytes = match body.len() {
            0..=127 => 1,
            128..=16_383 => 2,
            16_384..=2_097_151 => 3,
            _ => 4,
        };
        Ok(Packet {
            after,
            bytes: 1 + length_bytes + body.len(),
            topic: String::from_utf8_lossy(topic).into_owned(),
            payload,
        })
    }
}
