//! A device and a clock that stands still until moved; beside it a small obvious
//! [`gateway`] and a [`world`] with a line between the two that takes time and fails.

// Each test file uses a part; helpers of a test are tests too.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

pub mod gateway;
pub mod world;

use forebay_firmware::wire::ids::{BootId, ChannelNo, DeviceUid, Ordinal, Tick};
use forebay_firmware::wire::limits::LINE_BYTES_MAX;
use forebay_firmware::wire::message::{Ack, Health, HelloAck, Quality, ResetCause, SyncReq};
use forebay_firmware::wire::{Deframer, DeviceMessage, GatewayMessage};
use forebay_firmware::{ChannelSpec, Device, DeviceConfig};

pub const SECOND_US: u64 = 1_000_000;

pub const CONFIG: DeviceConfig = DeviceConfig {
    uid: DeviceUid([1; 8]),
    boot: BootId(40),
    firmware_version: [0, 1, 0],
    build_id: [0; 8],
    reset_cause: ResetCause::PowerOn,
    tick_hz: 1_000_000,
    linger_us: 20_000,
};

pub fn channels() -> [ChannelSpec; 2] {
    let spec = |quantity, range| ChannelSpec {
        quantity,
        unit: "",
        scale: 0,
        range,
        period_us: 1_000,
    };
    [
        spec("wide", (i32::MIN, i32::MAX)),
        spec("narrow", (-1_000, 1_000)),
    ]
}

pub fn line_of(message: GatewayMessage<'_>) -> Vec<u8> {
    let mut line = [0u8; LINE_BYTES_MAX];
    let bytes = message.encode(&mut line).unwrap();
    line[..bytes].to_vec()
}

pub fn decode(bytes: &[u8], mut each: impl FnMut(DeviceMessage<'_>)) {
    Deframer::new().receive_device(bytes, |message| each(message.unwrap()));
}

fn name(message: &DeviceMessage<'_>) -> String {
    match message {
        DeviceMessage::Hello(_) => "Hello".into(),
        DeviceMessage::Channel(info) => format!("Channel {}", info.channel.0),
        DeviceMessage::Data(data) => format!("Data {}..{}", data.first.0, data.end().0),
        DeviceMessage::Gap(gap) => format!(
            "Gap {:?} {}..{}",
            gap.reason,
            gap.first.0,
            gap.first.0 + gap.count
        ),
        DeviceMessage::SyncReply(reply) => {
            format!(
                "SyncReply {} {} {}",
                reply.id, reply.received.0, reply.sent.0
            )
        }
        DeviceMessage::Health(_) => "Health".into(),
        DeviceMessage::CmdResult(result) => format!("CmdResult {} {:?}", result.id, result.status),
        DeviceMessage::Log(log) => format!("Log {:02x?}", log.0),
    }
}

/// One device and its line, driven by hand.
pub struct Rig<const N: usize> {
    pub device: Device<N>,
    pub now: Tick,
    /// Every byte the device sent.
    pub line_to_gateway: Vec<u8>,
    /// When it said how it does, and what.
    pub healths: Vec<(u64, Health)>,
}

impl<const N: usize> Rig<N> {
    pub fn new() -> Self {
        Rig {
            device: Device::new(CONFIG, &channels()).unwrap(),
            now: Tick(0),
            line_to_gateway: Vec::new(),
            healths: Vec::new(),
        }
    }

    /// Past the greeting, with nothing sent yet.
    pub fn open() -> Self {
        let mut rig = Self::new();
        rig.poll_messages();
        rig.say(GatewayMessage::HelloAck(rig.hello_ack(0)));
        rig.poll_messages();
        rig.line_to_gateway.clear();
        rig
    }

    pub fn hello_ack(&self, next: u64) -> HelloAck {
        HelloAck {
            boot: CONFIG.boot,
            next: Ordinal(next),
            window: 8,
            reliable: true,
            log_level: 0,
        }
    }

    pub fn say(&mut self, message: GatewayMessage<'_>) {
        self.device.on_rx(&line_of(message), self.now);
        assert!(self.device.stats().closes(), "{:?}", self.device.stats());
    }

    pub fn ack(&mut self, next: u64, credit: u8) {
        self.say(GatewayMessage::Ack(Ack {
            boot: CONFIG.boot,
            next: Ordinal(next),
            credit,
        }));
    }

    pub fn probe(&mut self, id: u32) {
        self.say(GatewayMessage::SyncReq(SyncReq { id }));
    }

    pub fn sample(&mut self, count: u64) {
        for _ in 0..count {
            let channel = ChannelNo((self.device.stats().produced % 2) as u8);
            self.sample_on(channel, Ok(7));
        }
    }

    pub fn sample_on(&mut self, channel: ChannelNo, value: Result<i32, Quality>) {
        self.device.on_sample(channel, self.now, value).unwrap();
        assert!(self.device.stats().closes(), "{:?}", self.device.stats());
    }

    pub fn advance_to(&mut self, at: u64) {
        assert!(at >= self.now.0);
        self.now = Tick(at);
    }

    pub fn deadline(&self) -> u64 {
        self.device
            .next_deadline(self.now)
            .expect("something is due")
            .0
    }

    /// Sends all there is now; the messages by name, but for Health, which comes by
    /// the clock: see `healths`.
    pub fn poll_messages(&mut self) -> Vec<String> {
        let mut line = [0u8; LINE_BYTES_MAX];
        let mut sent = Vec::new();
        loop {
            let bytes = self.device.poll_tx(self.now, &mut line);
            assert!(self.device.stats().closes(), "{:?}", self.device.stats());
            if bytes == 0 {
                break;
            }
            sent.extend_from_slice(&line[..bytes]);
        }
        let due = self.device.next_deadline(self.now);
        assert!(
            due.is_none_or(|at| at > self.now),
            "due at once, yet nothing was sent"
        );
        let mut names = Vec::new();
        let (now, healths) = (self.now.0, &mut self.healths);
        decode(&sent, |message| {
            if let DeviceMessage::Health(health) = message {
                healths.push((now, health));
            } else {
                names.push(name(&message));
            }
        });
        self.line_to_gateway.extend(sent);
        names
    }

    /// Lets time pass without an ack until the session greets again.
    pub fn until_greeting(&mut self) {
        while self.device.is_open() {
            self.advance_to(self.deadline());
            self.poll_messages();
        }
    }
}
