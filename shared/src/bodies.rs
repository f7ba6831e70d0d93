//! Bodies of Hello, Channel, Gap, the clock probes and the acks, field by field.
//! None of them ever changes (a changed body is a new kind). Checks what the public
//! types promise; anything else is `None`.

use heapless::String;

use crate::fields::{Reader, Writer};
use crate::ids::{BootId, ChannelNo, DeviceUid, Ordinal, Tick};
use crate::limits::{
    CHANNELS_MAX, LOG_LEVEL_MAX, QUANTITY_BYTES_MAX, SCALE_MAX, UNIT_BYTES_MAX, WINDOW_FRAMES_MAX,
};
use crate::message::{
    Ack, ChannelInfo, Gap, GapReason, Hello, HelloAck, ResetCause, SyncReply, SyncReq,
};
use crate::varint::{unzigzag, zigzag};

impl Hello {
    pub(crate) fn is_valid(&self) -> bool {
        usize::from(self.channel_count) <= CHANNELS_MAX
    }
}

pub(crate) fn write_hello(hello: &Hello, out: &mut Writer<'_>) {
    out.raw(&hello.uid.0);
    out.varint(hello.boot.0.into());
    out.byte(hello.protocol_minor);
    out.varint(hello.schema_hash.into());
    out.raw(&hello.firmware_version);
    out.raw(&hello.build_id);
    out.byte(hello.reset_cause as u8);
    out.varint(hello.tick_hz.into());
    out.varint(hello.ring_capacity.into());
    out.byte(hello.channel_count);
}

pub(crate) fn read_hello(body: &mut Reader<'_>) -> Option<Hello> {
    let hello = Hello {
        uid: DeviceUid(body.array()?),
        boot: BootId(body.u32()?),
        protocol_minor: body.byte()?,
        schema_hash: body.u32()?,
        firmware_version: body.array()?,
        build_id: body.array()?,
        // A cause that a newer firmware appended: no reading depends on it.
        reset_cause: ResetCause::from_byte(body.byte()?).unwrap_or(ResetCause::Unknown),
        tick_hz: body.u32()?,
        ring_capacity: body.u32()?,
        channel_count: body.byte()?,
    };
    hello.is_valid().then_some(hello)
}

impl ChannelInfo {
    /// Whether every field is inside its documented range: only such a channel
    /// can be encoded, and only such a one comes out of a decoder.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let mut letters = self.quantity.bytes();
        let starts_well = letters.next().is_some_and(|byte| byte.is_ascii_lowercase());
        starts_well
            && letters
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
            && !self.unit.chars().any(char::is_control)
            && usize::from(self.channel.0) < CHANNELS_MAX
            && self.scale <= SCALE_MAX
            && self.range.0 <= self.range.1
    }
}

pub(crate) fn write_channel(info: &ChannelInfo, out: &mut Writer<'_>) {
    out.byte(info.channel.0);
    out.counted(info.quantity.as_bytes());
    out.counted(info.unit.as_bytes());
    out.byte(info.scale);
    out.varint(zigzag(info.range.0).into());
    out.varint(zigzag(info.range.1).into());
    out.varint(info.period_us.into());
}

pub(crate) fn read_channel(body: &mut Reader<'_>) -> Option<ChannelInfo> {
    let info = ChannelInfo {
        channel: ChannelNo(body.byte()?),
        quantity: String::try_from(body.text(QUANTITY_BYTES_MAX)?).ok()?,
        unit: String::try_from(body.text(UNIT_BYTES_MAX)?).ok()?,
        scale: body.byte()?,
        range: (unzigzag(body.u32()?), unzigzag(body.u32()?)),
        period_us: body.u32()?,
    };
    info.is_valid().then_some(info)
}

impl Gap {
    pub(crate) fn is_valid(&self) -> bool {
        self.count > 0
            && self.first.0.checked_add(self.count).is_some()
            && self.first_tick <= self.last_tick
    }
}

pub(crate) fn write_gap(gap: &Gap, out: &mut Writer<'_>) {
    out.varint(gap.boot.0.into());
    out.byte(gap.reason as u8);
    let numbers = [gap.first.0, gap.count, gap.first_tick.0, gap.last_tick.0];
    numbers.iter().for_each(|number| out.varint(*number));
}

pub(crate) fn read_gap(body: &mut Reader<'_>) -> Option<Gap> {
    let gap = Gap {
        boot: BootId(body.u32()?),
        reason: GapReason::from_byte(body.byte()?)?,
        first: Ordinal(body.u64()?),
        count: body.u64()?,
        first_tick: Tick(body.u64()?),
        last_tick: Tick(body.u64()?),
    };
    gap.is_valid().then_some(gap)
}

impl SyncReply {
    pub(crate) fn is_valid(&self) -> bool {
        self.received <= self.sent
    }
}

pub(crate) fn write_sync_reply(reply: &SyncReply, out: &mut Writer<'_>) {
    let numbers = [u64::from(reply.id), reply.received.0, reply.sent.0];
    numbers.iter().for_each(|number| out.varint(*number));
}

pub(crate) fn read_sync_reply(body: &mut Reader<'_>) -> Option<SyncReply> {
    let reply = SyncReply {
        id: body.u32()?,
        received: Tick(body.u64()?),
        sent: Tick(body.u64()?),
    };
    reply.is_valid().then_some(reply)
}

impl HelloAck {
    pub(crate) fn is_valid(&self) -> bool {
        (1..=WINDOW_FRAMES_MAX).contains(&self.window) && self.log_level <= LOG_LEVEL_MAX
    }
}

pub(crate) fn write_hello_ack(ack: &HelloAck, out: &mut Writer<'_>) {
    out.varint(ack.boot.0.into());
    out.varint(ack.next.0);
    out.byte(ack.window);
    out.byte(ack.reliable.into());
    out.byte(ack.log_level);
}

pub(crate) fn read_hello_ack(body: &mut Reader<'_>) -> Option<HelloAck> {
    let ack = HelloAck {
        boot: BootId(body.u32()?),
        next: Ordinal(body.u64()?),
        window: body.byte()?,
        reliable: body.bool()?,
        log_level: body.byte()?,
    };
    ack.is_valid().then_some(ack)
}

impl Ack {
    pub(crate) fn is_valid(&self) -> bool {
        self.credit <= WINDOW_FRAMES_MAX
    }
}

pub(crate) fn write_ack(ack: &Ack, out: &mut Writer<'_>) {
    out.varint(ack.boot.0.into());
    out.varint(ack.next.0);
    out.byte(ack.credit);
}

pub(crate) fn read_ack(body: &mut Reader<'_>) -> Option<Ack> {
    let ack = Ack {
        boot: BootId(body.u32()?),
        next: Ordinal(body.u64()?),
        credit: body.byte()?,
    };
    ack.is_valid().then_some(ack)
}

pub(crate) fn write_sync_req(request: &SyncReq, out: &mut Writer<'_>) {
    out.varint(request.id.into());
}

pub(crate) fn read_sync_req(body: &mut Reader<'_>) -> Option<SyncReq> {
    Some(SyncReq { id: body.u32()? })
}
