//! Messages to lines and frames to messages, one enum per direction. A frame of
//! the other direction (an echo), of another version, of an unknown kind or with
//! a body that is not exactly its table is an error, never a guess.

use crate::bodies::{
    read_ack, read_channel, read_gap, read_hello, read_hello_ack, read_sync_reply, read_sync_req,
    write_ack, write_channel, write_gap, write_hello, write_hello_ack, write_sync_reply,
    write_sync_req,
};
use crate::control_bodies::{
    read_chunk, read_cmd, read_health, read_log, read_result, write_chunk, write_cmd, write_health,
    write_result,
};
use crate::data::Data;
use crate::fields::{Reader, Writer};
use crate::frame::{self, Frame, Kind, LINK_VERSION};
use crate::message::{
    Ack, ChannelInfo, Cmd, CmdResult, ConfigChunk, Gap, Health, Hello, HelloAck, Log, SyncReply,
    SyncReq,
};

/// CRC-32 over the golden byte vectors of this version (`shared/tests/golden`),
/// which fix every body. A device whose Hello has another one was built with
/// other tables: report it, and take the kinds that are known.
pub const SCHEMA_HASH: u32 = 0xCF29_8CFC;

/// Counts additions that an older peer may ignore.
pub const PROTOCOL_MINOR: u8 = 1;

/// Why a frame with a right CRC is not a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodeError {
    /// The peer speaks another link version than [`LINK_VERSION`].
    Version { got: u8 },
    /// A kind that this side does not know: a newer peer. Skip it.
    UnknownKind { number: u8 },
    /// Our own half of the kinds came back: an echo.
    WrongDirection { kind: Kind },
    /// The body does not follow its table, from byte `at` on.
    Body { kind: Kind, at: usize },
}

impl core::fmt::Display for DecodeError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            DecodeError::Version { got } => {
                write!(f, "link version {got}, this side speaks {LINK_VERSION}")
            }
            DecodeError::UnknownKind { number } => {
                write!(f, "unknown kind {number}: the peer is newer")
            }
            DecodeError::WrongDirection { kind } => {
                write!(f, "{kind:?} in the wrong direction: an echo")
            }
            DecodeError::Body { kind, at } => {
                write!(f, "{kind:?} body does not follow its table at byte {at}")
            }
        }
    }
}

impl core::error::Error for DecodeError {}

/// Why a message did not become a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EncodeError {
    /// The buffer is shorter than the line; [`crate::limits::LINE_BYTES_MAX`] always do.
    NoRoom,
    /// A field is outside its documented range.
    OutOfRange { kind: Kind },
}

impl core::fmt::Display for EncodeError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            EncodeError::NoRoom => f.write_str("line buffer too short"),
            EncodeError::OutOfRange { kind } => {
                write!(f, "a field of {kind:?} is outside its range")
            }
        }
    }
}

impl core::error::Error for EncodeError {}

/// The kinds that stand for ordinals: what a device keeps of its own lines and reads
/// back. Without the decoders of all other kinds, which a device has no use for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept<'a> {
    Data(Data<'a>),
    Gap(Gap),
}

impl<'a> Kept<'a> {
    /// `None` for any other kind, and for a body that does not follow its table.
    #[must_use]
    pub fn decode(frame: Frame<'a>) -> Option<Self> {
        if frame.kind_byte == Kind::Data.byte() {
            Data::decode(frame.body).ok().map(Kept::Data)
        } else if frame.kind_byte == Kind::Gap.byte() {
            read(Kind::Gap, frame.body, read_gap).ok().map(Kept::Gap)
        } else {
            None
        }
    }
}

/// What a device says: kinds 1 to 8.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceMessage<'a> {
    Hello(Hello),
    Channel(ChannelInfo),
    Data(Data<'a>),
    Gap(Gap),
    SyncReply(SyncReply),
    Health(Health),
    CmdResult(CmdResult),
    Log(Log<'a>),
}

impl<'a> DeviceMessage<'a> {
    /// # Errors
    /// Any [`DecodeError`]; the caller counts it with [`crate::Counters::note`].
    pub fn decode(frame: Frame<'a>) -> Result<Self, DecodeError> {
        let kind = known_kind(&frame, true)?;
        let body = frame.body;
        match kind {
            Kind::Hello => read(kind, body, read_hello).map(DeviceMessage::Hello),
            Kind::Channel => read(kind, body, read_channel).map(DeviceMessage::Channel),
            Kind::Data => Data::decode(body).map(DeviceMessage::Data),
            Kind::Gap => read(kind, body, read_gap).map(DeviceMessage::Gap),
            Kind::SyncReply => read(kind, body, read_sync_reply).map(DeviceMessage::SyncReply),
            Kind::Health => read(kind, body, read_health).map(DeviceMessage::Health),
            Kind::CmdResult => read(kind, body, read_result).map(DeviceMessage::CmdResult),
            Kind::Log => read(kind, body, read_log).map(DeviceMessage::Log),
            Kind::HelloAck | Kind::Ack | Kind::SyncReq | Kind::Cmd | Kind::Config => {
                Err(DecodeError::WrongDirection { kind })
            }
        }
    }

    /// Writes the whole line, delimiter included, and returns its length.
    ///
    /// # Errors
    /// [`EncodeError`]; `out` then holds nothing of use.
    pub fn encode(&self, out: &mut [u8]) -> Result<usize, EncodeError> {
        match self {
            DeviceMessage::Hello(hello) => write(out, Kind::Hello, hello.is_valid(), |out| {
                write_hello(hello, out)
            }),
            DeviceMessage::Channel(info) => write(out, Kind::Channel, info.is_valid(), |out| {
                write_channel(info, out)
            }),
            DeviceMessage::Data(data) => data.encode(out),
            DeviceMessage::Gap(gap) => {
                write(out, Kind::Gap, gap.is_valid(), |out| write_gap(gap, out))
            }
            DeviceMessage::SyncReply(reply) => {
                write(out, Kind::SyncReply, reply.is_valid(), |out| {
                    write_sync_reply(reply, out)
                })
            }
            DeviceMessage::Health(health) => write(out, Kind::Health, health.is_valid(), |out| {
                write_health(health, out)
            }),
            DeviceMessage::CmdResult(result) => {
                write(out, Kind::CmdResult, true, |out| write_result(result, out))
            }
            DeviceMessage::Log(log) => write(out, Kind::Log, log.is_valid(), |out| out.raw(log.0)),
        }
    }
}

/// What a gateway says: kinds 9 to 15.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GatewayMessage<'a> {
    HelloAck(HelloAck),
    Ack(Ack),
    SyncReq(SyncReq),
    Cmd(Cmd),
    Config(ConfigChunk<'a>),
}

impl<'a> GatewayMessage<'a> {
    /// # Errors
    /// Any [`DecodeError`]; the caller counts it with [`crate::Counters::note`].
    pub fn decode(frame: Frame<'a>) -> Result<Self, DecodeError> {
        let kind = known_kind(&frame, false)?;
        let body = frame.body;
        match kind {
            Kind::HelloAck => read(kind, body, read_hello_ack).map(GatewayMessage::HelloAck),
            Kind::Ack => read(kind, body, read_ack).map(GatewayMessage::Ack),
            Kind::SyncReq => read(kind, body, read_sync_req).map(GatewayMessage::SyncReq),
            Kind::Cmd => read(kind, body, read_cmd).map(GatewayMessage::Cmd),
            Kind::Config => read(kind, body, read_chunk).map(GatewayMessage::Config),
            Kind::Hello
            | Kind::Channel
            | Kind::Data
            | Kind::Gap
            | Kind::Health
            | Kind::SyncReply
            | Kind::CmdResult
            | Kind::Log => Err(DecodeError::WrongDirection { kind }),
        }
    }

    /// Writes the whole line, delimiter included, and returns its length.
    ///
    /// # Errors
    /// [`EncodeError`]; `out` then holds nothing of use.
    pub fn encode(&self, out: &mut [u8]) -> Result<usize, EncodeError> {
        match self {
            GatewayMessage::HelloAck(ack) => write(out, Kind::HelloAck, ack.is_valid(), |out| {
                write_hello_ack(ack, out)
            }),
            GatewayMessage::Ack(ack) => {
                write(out, Kind::Ack, ack.is_valid(), |out| write_ack(ack, out))
            }
            GatewayMessage::SyncReq(request) => {
                write(out, Kind::SyncReq, true, |out| write_sync_req(request, out))
            }
            GatewayMessage::Cmd(cmd) => write(out, Kind::Cmd, cmd.operation.is_valid(), |out| {
                write_cmd(cmd, out)
            }),
            GatewayMessage::Config(chunk) => write(out, Kind::Config, chunk.is_valid(), |out| {
                write_chunk(chunk, out)
            }),
        }
    }
}

fn known_kind(frame: &Frame<'_>, from_device: bool) -> Result<Kind, DecodeError> {
    if frame.version() != LINK_VERSION {
        return Err(DecodeError::Version {
            got: frame.version(),
        });
    }
    let number = frame.number();
    let kind = Kind::from_number(number).ok_or(DecodeError::UnknownKind { number })?;
    if kind.is_from_device() == from_device {
        Ok(kind)
    } else {
        Err(DecodeError::WrongDirection { kind })
    }
}

/// Reads a body field by field; bytes left over are as bad as bytes missing.
fn read<'a, M>(
    kind: Kind,
    body: &'a [u8],
    take: impl FnOnce(&mut Reader<'a>) -> Option<M>,
) -> Result<M, DecodeError> {
    let mut reader = Reader::new(body);
    let message = take(&mut reader).filter(|_| reader.left() == 0);
    message.ok_or(DecodeError::Body {
        kind,
        at: body.len() - reader.left(),
    })
}

fn write(
    out: &mut [u8],
    kind: Kind,
    valid: bool,
    fill: impl FnOnce(&mut Writer<'_>),
) -> Result<usize, EncodeError> {
    if !valid {
        return Err(EncodeError::OutOfRange { kind });
    }
    let mut writer = Writer::new(frame::body_room(out).map_err(|_| EncodeError::NoRoom)?);
    fill(&mut writer);
    let used = writer.finish().ok_or(EncodeError::NoRoom)?;
    Ok(frame::close(out, kind.byte(), used))
}
