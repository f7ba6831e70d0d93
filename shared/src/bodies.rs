//! Bodies of all messages but Data, as postcard sees them. Private mirrors: the
//! public types may change, these never do (a changed body is a new kind).
//! Checks what the public types promise; anything else is `None`.

use heapless::String;
use serde::{Deserialize, Serialize};

use crate::ids::{BootId, ChannelNo, DeviceUid, Ordinal, Tick};
use crate::limits::{CHANNELS_MAX, LOG_LEVEL_MAX, SCALE_MAX, WINDOW_FRAMES_MAX};
use crate::message::{
    Ack, ChannelInfo, Gap, GapReason, Hello, HelloAck, ResetCause, SyncReply, SyncReq,
};

#[derive(Serialize, Deserialize)]
pub(crate) struct HelloBody {
    uid: [u8; 8],
    boot: u32,
    protocol_minor: u8,
    schema_hash: u32,
    firmware_version: [u8; 3],
    build_id: [u8; 8],
    reset_cause: u8,
    tick_hz: u32,
    ring_capacity: u32,
    channel_count: u8,
}

impl HelloBody {
    pub(crate) fn of(hello: &Hello) -> Option<Self> {
        (usize::from(hello.channel_count) <= CHANNELS_MAX).then_some(HelloBody {
            uid: hello.uid.0,
            boot: hello.boot.0,
            protocol_minor: hello.protocol_minor,
            schema_hash: hello.schema_hash,
            firmware_version: hello.firmware_version,
            build_id: hello.build_id,
            reset_cause: hello.reset_cause as u8,
            tick_hz: hello.tick_hz,
            ring_capacity: hello.ring_capacity,
            channel_count: hello.channel_count,
        })
    }

    pub(crate) fn value(self) -> Option<Hello> {
        (usize::from(self.channel_count) <= CHANNELS_MAX).then_some(Hello {
            uid: DeviceUid(self.uid),
            boot: BootId(self.boot),
            protocol_minor: self.protocol_minor,
            schema_hash: self.schema_hash,
            firmware_version: self.firmware_version,
            build_id: self.build_id,
            // A cause that a newer firmware appended: no reading depends on it.
            reset_cause: ResetCause::from_byte(self.reset_cause).unwrap_or(ResetCause::Unknown),
            tick_hz: self.tick_hz,
            ring_capacity: self.ring_capacity,
            channel_count: self.channel_count,
        })
    }
}

#[derive(Serialize, Deserialize)]
pub(crate) struct ChannelBody<'a> {
    channel: u8,
    quantity: &'a str,
    unit: &'a str,
    scale: u8,
    range: (i32, i32),
    period_us: u32,
}

impl<'a> ChannelBody<'a> {
    pub(crate) fn of(info: &'a ChannelInfo) -> Option<Self> {
        info.is_valid().then_some(ChannelBody {
            channel: info.channel.0,
            quantity: &info.quantity,
            unit: &info.unit,
            scale: info.scale,
            range: info.range,
            period_us: info.period_us,
        })
    }

    pub(crate) fn value(self) -> Option<ChannelInfo> {
        let info = ChannelInfo {
            channel: ChannelNo(self.channel),
            quantity: String::try_from(self.quantity).ok()?,
            unit: String::try_from(self.unit).ok()?,
            scale: self.scale,
            range: self.range,
            period_us: self.period_us,
        };
        info.is_valid().then_some(info)
    }
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

#[derive(Serialize, Deserialize)]
pub(crate) struct GapBody {
    boot: u32,
    reason: u8,
    first: u64,
    count: u64,
    first_tick: u64,
    last_tick: u64,
}

impl GapBody {
    pub(crate) fn of(gap: &Gap) -> Option<Self> {
        is_valid_gap(gap).then_some(GapBody {
            boot: gap.boot.0,
            reason: gap.reason as u8,
            first: gap.first.0,
            count: gap.count,
            first_tick: gap.first_tick.0,
            last_tick: gap.last_tick.0,
        })
    }

    pub(crate) fn value(self) -> Option<Gap> {
        let gap = Gap {
            boot: BootId(self.boot),
            reason: GapReason::from_byte(self.reason)?,
            first: Ordinal(self.first),
            count: self.count,
            first_tick: Tick(self.first_tick),
            last_tick: Tick(self.last_tick),
        };
        is_valid_gap(&gap).then_some(gap)
    }
}

fn is_valid_gap(gap: &Gap) -> bool {
    gap.count > 0 && gap.first.0.checked_add(gap.count).is_some() && gap.first_tick <= gap.last_tick
}

#[derive(Serialize, Deserialize)]
pub(crate) struct SyncReplyBody {
    id: u32,
    received: u64,
    sent: u64,
}

impl SyncReplyBody {
    pub(crate) fn of(reply: &SyncReply) -> Option<Self> {
        (reply.received <= reply.sent).then_some(SyncReplyBody {
            id: reply.id,
            received: reply.received.0,
            sent: reply.sent.0,
        })
    }

    pub(crate) fn value(self) -> Option<SyncReply> {
        (self.received <= self.sent).then_some(SyncReply {
            id: self.id,
            received: Tick(self.received),
            sent: Tick(self.sent),
        })
    }
}

#[derive(Serialize, Deserialize)]
pub(crate) struct HelloAckBody {
    boot: u32,
    next: u64,
    window: u8,
    reliable: bool,
    log_level: u8,
}

impl HelloAckBody {
    pub(crate) fn of(ack: &HelloAck) -> Option<Self> {
        is_valid_hello_ack(ack).then_some(HelloAckBody {
            boot: ack.boot.0,
            next: ack.next.0,
            window: ack.window,
            reliable: ack.reliable,
            log_level: ack.log_level,
        })
    }

    pub(crate) fn value(self) -> Option<HelloAck> {
        let ack = HelloAck {
            boot: BootId(self.boot),
            next: Ordinal(self.next),
            window: self.window,
            reliable: self.reliable,
            log_level: self.log_level,
        };
        is_valid_hello_ack(&ack).then_some(ack)
    }
}

fn is_valid_hello_ack(ack: &HelloAck) -> bool {
    (1..=WINDOW_FRAMES_MAX).contains(&ack.window) && ack.log_level <= LOG_LEVEL_MAX
}

#[derive(Serialize, Deserialize)]
pub(crate) struct AckBody {
    boot: u32,
    next: u64,
    credit: u8,
}

impl AckBody {
    pub(crate) fn of(ack: &Ack) -> Option<Self> {
        (ack.credit <= WINDOW_FRAMES_MAX).then_some(AckBody {
            boot: ack.boot.0,
            next: ack.next.0,
            credit: ack.credit,
        })
    }

    pub(crate) fn value(self) -> Option<Ack> {
        (self.credit <= WINDOW_FRAMES_MAX).then_some(Ack {
            boot: BootId(self.boot),
            next: Ordinal(self.next),
            credit: self.credit,
        })
    }
}

#[derive(Serialize, Deserialize)]
pub(crate) struct SyncReqBody {
    id: u32,
}

impl SyncReqBody {
    pub(crate) fn of(request: &SyncReq) -> Self {
        SyncReqBody { id: request.id }
    }

    pub(crate) fn value(self) -> SyncReq {
        SyncReq { id: self.id }
    }
}
