//! A world in which nothing breaks but cables: devices that may be unplugged, a gateway,
//! a broker and a receiver. One seed, one run.

use forebay_core::effect::GatewayConfig;
use forebay_core::engine::config::{EngineConfig, TimeRules};
use forebay_core::forward::ForwardConfig;
use forebay_core::payload::GatewayName;
use forebay_core::store::memory::MemoryDisk;
use forebay_core::units::Span;
use forebay_core::upstream::tally::{DeviceTally, Tally};
use forebay_firmware::ChannelSpec;
use forebay_wire::ids::DeviceUid;
use serde_json::Value;

use super::broker::{Broker, due};
use super::device::WorldDevice;
use super::dice::Dice;
use super::gateway::WorldGateway;
use super::line::CLEAN;
use super::receiver::Receiver;

const SECOND: u64 = 1_000_000;

fn config(partitions: u16) -> GatewayConfig {
    GatewayConfig {
        engine: EngineConfig {
            time: TimeRules::default(),
            windows: Vec::new(),
            ..EngineConfig::default()
        },
        forward: vec![ForwardConfig::new(8, Span(2 * SECOND as i64))],
        ..GatewayConfig::new(
            GatewayName::new("world").expect("a name"),
            partitions,
            Span(20_000),
        )
    }
}

/// Devices with rings of so many readings; device `n` is on port `n`.
#[derive(Debug)]
pub struct Plain<const RING: usize> {
    pub now: u64,
    pub devices: Vec<WorldDevice<RING>>,
    pub gateway: WorldGateway,
    dice: Dice,
    broker: Broker,
    receiver: Receiver,
    /// Ports with nobody at the other end.
    away: Vec<bool>,
    /// When each device, or its line, wants to run, apart from what comes to it.
    wakes: Vec<u64>,
}

impl<const RING: usize> Plain<RING> {
    /// A world with these devices, all of them plugged in.
    #[must_use]
    pub fn new(uids: impl Iterator<Item = u64>, channels: &'static [ChannelSpec]) -> Self {
        let mut dice = Dice::new(11);
        let disk = MemoryDisk {
            generation_bytes: 1 << 20,
            capacity_bytes: u64::MAX,
            foreign_bytes: 0,
        };
        let device = |uid| WorldDevice::with(uid, 0, channels, &mut dice);
        let devices: Vec<_> = uids.map(device).collect();
        let mut gateway = WorldGateway::start(config(2), disk, 0, &mut dice);
        gateway.open_ports(0, devices.len());
        Self {
            now: 0,
            away: vec![false; devices.len()],
            wakes: vec![0; devices.len()],
            devices,
            gateway,
            broker: Broker::start(0),
            receiver: Receiver::default(),
            dice,
        }
    }

    /// Nobody is at the other end of a port any more.
    pub fn unplug(&mut self, port: usize) {
        self.away[port] = true;
        self.gateway.unplug(self.now, port);
        self.devices[port].down.clear();
    }

    /// The device is there again.
    pub fn plug(&mut self, port: usize) {
        self.away[port] = false;
        self.gateway.plug(self.now, port);
    }

    /// Does what is due, and goes on to what is next, at most to `until`.
    pub fn step(&mut self, until: u64) {
        let now = self.now;
        for (port, device) in self.devices.iter_mut().enumerate() {
            let hears = device.down.next().is_some_and(|at| at <= now);
            if self.wakes[port] > now && !hears {
                continue;
            }
            device.step(now, CLEAN, &mut self.dice);
            if self.away[port] {
                device.up.clear();
            }
            while let Some(bytes) = device.up.receive(now) {
                self.gateway.hear(now, port, &bytes);
            }
            let next = device.next(now).into_iter().chain(device.up.next());
            self.wakes[port] = next.min().unwrap_or(u64::MAX);
        }
        self.broker.step(now, &mut self.dice);
        while let Some(event) = due(&mut self.broker.to_gateway, now) {
            self.gateway.hear_broker(now, &event);
        }
        let devices = (&mut self.devices[..], CLEAN);
        self.gateway
            .step(now, devices, &mut self.broker, &mut self.dice);
        while let Some(event) = due(&mut self.broker.to_receiver, now) {
            self.receiver
                .hear(now, event, &mut self.broker, &mut self.dice);
        }
        self.receiver.step(now, &mut self.broker, &mut self.dice);
        self.now = self.next().min(until);
    }

    fn next(&self) -> u64 {
        let now = self.now;
        let down = self.devices.iter().filter_map(|device| device.down.next());
        let wakes = self.wakes.iter().copied();
        let next = wakes
            .chain(down)
            .chain(self.gateway.next(now))
            .chain(self.broker.next())
            .chain(self.receiver.next());
        next.min().unwrap_or(now + SECOND).max(now + 1)
    }

    /// Runs until then.
    pub fn run_to(&mut self, until: u64) {
        while self.now < until {
            self.step(until);
        }
    }

    /// Takes no more samples and runs until all has arrived, and the last Health of each
    /// device has come as well.
    ///
    /// # Panics
    /// When that takes more than `patience` us.
    pub fn finish(&mut self, patience: u64) {
        self.devices.iter_mut().for_each(WorldDevice::stop_sampling);
        let end = self.now + patience;
        while !self.is_over() {
            assert!(self.now < end, "{}", self.gateway.devices(self.now));
            self.run_to(self.now + SECOND / 2);
        }
    }

    fn is_over(&mut self) -> bool {
        let empty = self.devices.iter().all(WorldDevice::is_empty);
        if !empty || !self.gateway.core().is_drained() || !self.gateway.is_calm() {
            return false;
        }
        let list = self.gateway.devices(self.now);
        self.devices.iter().all(|device| {
            let produced = device.stats().produced;
            ledger_of(&list, device.uid())["device"]["produced"] == produced
                && self.tally(device.uid()).produced == produced
        })
    }

    /// What the gateway says of a device's readings.
    pub fn ledger(&mut self, uid: u64) -> Value {
        ledger_of(&self.gateway.devices(self.now), uid).clone()
    }

    /// What the receiver counted of a device.
    #[must_use]
    pub fn tally(&self, uid: u64) -> Tally {
        let gateway = GatewayName::new("world").expect("a name");
        let uid = DeviceUid(uid.to_be_bytes());
        let tally = self.receiver.ledger().get(&gateway, uid);
        tally.map(DeviceTally::total).unwrap_or_default()
    }
}

fn ledger_of(list: &Value, uid: u64) -> &Value {
    let devices = list["devices"].as_array().expect("a list");
    let name = format!("{uid:016x}");
    let device = devices.iter().find(|device| device["uid"] == name.as_str());
    device.map_or(&Value::Null, |device| &device["ledger"])
}
