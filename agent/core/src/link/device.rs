//! What a session knows of the device on its port: who it is, its channels, its
//! clock, and the lines that answer it. Decides nothing about readings.

use std::sync::Arc;

use forebay_wire::codec::GatewayMessage;
use forebay_wire::ids::{ChannelNo, Ordinal};
use forebay_wire::limits::{CHANNELS_MAX, LINE_BYTES_MAX, WINDOW_FRAMES_MAX};
use forebay_wire::message::{Ack, ChannelInfo, Hello, HelloAck, SyncReq};

use super::clock::{DeviceClock, PROBE_PAUSE_US};
use crate::ledger::Source;
use crate::limits::{CLOSE_BOOTS_US, PROBES_KEPT};
use crate::record::{Series, ValueKind};
use crate::units::Mono;

/// Pause between the probes that find the first fit.
pub(super) const PROBE_FAST_US: u64 = 50_000;
/// On a line that loses answers the session opens after this many probes when any
/// was answered.
pub(super) const PROBES_PATIENCE: u32 = 24;

/// Whether a frame got lost: those behind it come ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hole {
    None,
    Seen,
    /// The device was told, by an ack that says what the one before said.
    Told,
}

#[derive(Debug)]
pub(super) struct Device {
    pub(super) source: Source,
    pub(super) hello: Hello,
    pub(super) channels: [Option<Series>; CHANNELS_MAX],
    pub(super) clock: DeviceClock,
    pub(super) probes: u32,
    pub(super) next_probe: Mono,
    pub(super) open: bool,
    pub(super) acked: Ordinal,
    pub(super) acked_at: Mono,
    pub(super) hole: Hole,
    /// Earlier boots whose last gap is on its way to the disk, with its end.
    pub(super) closing: Vec<(Source, Ordinal)>,
    /// When the gateway declares what is missing of them; `None` once it has.
    pub(super) close_at: Option<Mono>,
}

/// A message as the bytes to write.
pub(crate) fn line(message: &GatewayMessage<'_>) -> Vec<u8> {
    let mut line = [0; LINE_BYTES_MAX];
    let len = message
        .encode(&mut line)
        .expect("a gateway message is shorter than the longest line");
    line[..len].to_vec()
}

pub(super) fn ack_line(source: Source, next: Ordinal) -> Vec<u8> {
    line(&GatewayMessage::Ack(Ack {
        boot: source.boot,
        next,
        credit: WINDOW_FRAMES_MAX,
    }))
}

impl Device {
    pub(super) fn new(hello: Hello, clock: DeviceClock, now: Mono) -> Self {
        Self {
            source: Source {
                uid: hello.uid,
                boot: hello.boot,
            },
            hello,
            channels: std::array::from_fn(|_| None),
            clock,
            probes: 0,
            next_probe: now,
            open: false,
            acked: Ordinal(0),
            acked_at: now,
            hole: Hole::None,
            closing: Vec::new(),
            close_at: None,
        }
    }

    pub(super) fn probe(&mut self, now: Mono) -> Vec<u8> {
        let id = self.clock.probe(now);
        self.probes = self.probes.saturating_add(1);
        let pause = if self.open {
            PROBE_PAUSE_US
        } else {
            PROBE_FAST_US
        };
        self.next_probe = Mono(now.0 + pause);
        line(&GatewayMessage::SyncReq(SyncReq { id }))
    }

    pub(super) fn clock_is_ready(&self) -> bool {
        let samples = self.clock.samples();
        samples >= PROBES_KEPT || (samples > 0 && self.probes >= PROBES_PATIENCE)
    }

    pub(super) fn hello_ack(&mut self, durable: Ordinal, log_level: u8, now: Mono) -> Vec<u8> {
        if !self.open {
            self.close_at = Some(Mono(now.0.saturating_add(CLOSE_BOOTS_US)));
        }
        (self.open, self.acked, self.acked_at) = (true, durable, now);
        line(&GatewayMessage::HelloAck(HelloAck {
            boot: self.source.boot,
            next: durable,
            window: WINDOW_FRAMES_MAX,
            reliable: true,
            log_level,
        }))
    }

    pub(super) fn ack(&mut self, durable: Ordinal, now: Mono) -> Vec<u8> {
        (self.acked, self.acked_at) = (durable, now);
        ack_line(self.source, durable)
    }

    /// Notes a channel; the decoder has checked its fields. Its name is its
    /// quantity, with the number where two share one.
    pub(super) fn describe(&mut self, info: &ChannelInfo) {
        let quantity = info.quantity.as_str();
        let taken = |other: &Series| other.channel != info.channel && &*other.name == quantity;
        let name: Arc<str> = if self.channels.iter().flatten().any(taken) {
            Arc::from(format!("{quantity}_{}", info.channel.0))
        } else {
            Arc::from(quantity)
        };
        let entry = self.channels.get_mut(usize::from(info.channel.0));
        let entry = entry.expect("the decoder refuses channels above the limit");
        *entry = Some(Series {
            uid: self.source.uid,
            boot: self.source.boot,
            channel: info.channel,
            kind: ValueKind::Scaled { scale: info.scale },
            name,
            unit: Arc::from(info.unit.as_str()),
        });
    }

    pub(super) fn series(&self, channel: ChannelNo) -> Option<&Series> {
        self.channels.get(usize::from(channel.0))?.as_ref()
    }
}
