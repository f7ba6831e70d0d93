//! The whole system in one seeded process: devices that run the firmware, lines
//! that flip and drop, a gateway whose store forgets what was not synced, a broker
//! that drops connections and may lose its disk, a receiver that is killed. Judged
//! by a model that knows only what the devices produced.
//!
//! One seed, one run: all chance comes from [`dice::Dice`], all time from the loop.

pub mod archive;
pub mod broker;
pub mod device;
pub mod dice;
pub mod gateway;
pub mod hand;
pub mod ledger;
pub mod line;
pub mod model;
pub mod operator;
pub mod plain;
pub mod receiver;
pub mod scenario;
pub mod steps;

use std::collections::BTreeMap;

use forebay_core::effect::GatewayConfig;
use forebay_core::engine::config::{
    Bounds, EngineConfig, Grid, KeySpec, TimeRules, WindowKind, WindowSpec,
};
use forebay_core::forward::ForwardConfig;
use forebay_core::payload::GatewayName;
use forebay_core::retention::SpaceConfig;
use forebay_core::units::Span;

use self::broker::{Broker, due};
use self::device::WorldDevice;
use self::dice::Dice;
use self::gateway::WorldGateway;
use self::line::{CLEAN, LineFaults};
use self::model::Ends;
use self::operator::Operator;
use self::receiver::Receiver;
use self::scenario::Scenario;

const SECOND: u64 = 1_000_000;
/// Faults happen until here.
const FAULTS_END: u64 = 12 * SECOND;
/// Devices sample until here.
const SAMPLING_END: u64 = 14 * SECOND;
/// Everything must have arrived by here.
const PATIENCE: u64 = 300 * SECOND;

/// What a run has left behind.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The receiver's rows, by key.
    pub rows: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Simulated time at which everything had arrived, us.
    pub ended_at: u64,
    /// Faults that happened, by name.
    pub faults: BTreeMap<&'static str, u32>,
    /// What became of the records.
    pub ends: Ends,
    /// What the operator heard.
    pub heard: BTreeMap<&'static str, u32>,
}

struct World {
    now: u64,
    dice: Dice,
    devices: Vec<WorldDevice>,
    gateway: WorldGateway,
    broker: Broker,
    receiver: Receiver,
    next_fault: u64,
    faults: BTreeMap<&'static str, u32>,
    scenario: Scenario,
    /// When others leave the disk again.
    empties_at: Option<u64>,
    operator: Operator,
    /// When it was last looked whether the ledgers say all.
    looked_at: u64,
}

/// Runs a world with room for everything and judges it.
///
/// # Panics
/// When the model disagrees, with the seed to replay.
#[must_use]
pub fn run(seed: u64) -> Outcome {
    run_in(seed, Scenario::roomy())
}

/// Runs a world and judges it.
///
/// # Panics
/// When the model disagrees, with the seed to replay.
#[must_use]
pub fn run_in(seed: u64, scenario: Scenario) -> Outcome {
    let mut world = World::new(seed, scenario);
    world.live(seed);
    let World {
        now,
        mut devices,
        mut gateway,
        receiver,
        faults,
        operator,
        ..
    } = world;
    devices.iter_mut().for_each(WorldDevice::close_boot);
    let rows = receiver.rows();
    let list = gateway.devices(now);
    let ends = model::judge(seed, now, &devices, &mut gateway, &rows, &faults);
    ledger::judge(seed, &devices, &list, (&receiver, &ends));
    let mut heard = operator.heard;
    heard.insert("log frames", u32::from(gateway.logs > 0));
    let identified = devices.iter().map(|device| device.identified).sum();
    heard.insert("identified", identified);
    Outcome {
        rows,
        ended_at: now,
        faults,
        ends,
        heard,
    }
}

/// The windows of every world.
#[must_use]
pub fn engine_config() -> EngineConfig {
    let tumbling = WindowKind::Tumbling(Grid::Fixed {
        size: Span(2 * SECOND as i64),
        offset: Span(0),
    });
    let sliding = WindowKind::Sliding {
        size: Span(SECOND as i64),
        bounds: Bounds::HalfOpen,
    };
    EngineConfig {
        time: TimeRules {
            out_of_order: Span(500_000),
            ..TimeRules::default()
        },
        windows: vec![
            WindowSpec::new("two_seconds", tumbling),
            WindowSpec::new("rolling", sliding),
        ],
        ..EngineConfig::default()
    }
}

/// The windows of worlds in which one crosses devices.
#[must_use]
pub fn crossing_config() -> EngineConfig {
    let mut config = engine_config();
    let mut across = config.windows[0].clone();
    across.name = String::from("across");
    across.key = KeySpec {
        device: false,
        channel: true,
    };
    config.windows.push(across);
    config
}

fn config(partitions: u16, (space, crosses): (SpaceConfig, bool)) -> GatewayConfig {
    GatewayConfig {
        engine: if crosses {
            crossing_config()
        } else {
            engine_config()
        },
        forward: vec![ForwardConfig::new(8, Span(2 * SECOND as i64))],
        space,
        device_log: 3,
        ..GatewayConfig::new(
            GatewayName::new("world").expect("a name"),
            partitions,
            Span(20_000),
        )
    }
}

impl World {
    fn new(seed: u64, scenario: Scenario) -> Self {
        let mut dice = Dice::new(seed);
        let partitions = [1, 2, 4][dice.below(3) as usize];
        let count = 1 + dice.below(3);
        let devices = (0..count).map(|uid| WorldDevice::new(0xd0 + uid, 0, &mut dice));
        let devices: Vec<_> = devices.collect();
        let config = config(partitions, (scenario.space.clone(), scenario.crosses));
        let mut gateway = WorldGateway::start(config, scenario.disk, 0, &mut dice);
        gateway.open_ports(0, devices.len());
        Self {
            now: 0,
            devices,
            gateway,
            broker: Broker::start(0),
            receiver: Receiver::default(),
            next_fault: SECOND,
            faults: BTreeMap::new(),
            scenario,
            empties_at: None,
            operator: Operator::default(),
            looked_at: 0,
            dice,
        }
    }

    fn line_faults(&self) -> LineFaults {
        if self.now < FAULTS_END {
            LineFaults {
                flip: 15_000,
                drop: 15_000,
                cut: 5_000,
            }
        } else {
            CLEAN
        }
    }

    /// Runs until all that was produced has arrived.
    fn live(&mut self, seed: u64) {
        loop {
            self.step();
            if self.now >= SAMPLING_END {
                self.devices.iter_mut().for_each(WorldDevice::stop_sampling);
                if self.is_over() {
                    return;
                }
            }
            assert!(
                self.now < PATIENCE,
                "not everything arrived; replay: cargo xtask sim --seed {seed}; {}",
                self.gateway.devices(self.now)
            );
            self.now = self.next();
        }
    }

    fn is_over(&mut self) -> bool {
        let arrived = self.devices.iter().all(WorldDevice::is_empty)
            && self.operator.is_content(self.now)
            && self.gateway.core().is_drained()
            && self.gateway.is_calm()
            && self.now >= self.looked_at + SECOND / 2
            && model::has_arrived(&self.gateway, &self.receiver.rows());
        if !arrived {
            return false;
        }
        self.looked_at = self.now;
        ledger::is_final(&self.devices, &self.gateway.devices(self.now))
    }

    fn next(&self) -> u64 {
        let now = self.now;
        let devices = self.devices.iter().flat_map(|device| {
            let up = device.up.next();
            device.next(now).into_iter().chain(up)
        });
        let fault = Some(self.next_fault).filter(|_| now < FAULTS_END);
        let next = devices
            .chain(self.gateway.next(now))
            .chain(self.broker.next())
            .chain(self.receiver.next())
            .chain(fault)
            .chain(self.empties_at)
            .min();
        // Time goes on even when a part asks for this very moment again.
        next.map_or(now + SECOND, |next| next.max(now + 1))
    }

    fn step(&mut self) {
        let (now, faults) = (self.now, self.line_faults());
        if now >= self.next_fault && now < FAULTS_END {
            self.next_fault = now + 100_000 + self.dice.below(SECOND);
            self.fault();
            if self.scenario.operated {
                self.order();
            }
        }
        for (id, answer) in std::mem::take(&mut self.gateway.answers) {
            self.operator.hear(id, &answer);
        }
        if self.empties_at.is_some_and(|at| at <= now) {
            self.empties_at = None;
            self.gateway.empty_disk();
        }
        for (port, device) in self.devices.iter_mut().enumerate() {
            device.step(now, faults, &mut self.dice);
            while let Some(bytes) = device.up.receive(now) {
                self.gateway.hear(now, port, &bytes);
            }
        }
        self.broker.step(now, &mut self.dice);
        while let Some(event) = due(&mut self.broker.to_gateway, now) {
            self.gateway.hear_broker(now, &event);
        }
        self.gateway.step(
            now,
            (&mut self.devices, faults),
            &mut self.broker,
            &mut self.dice,
        );
        while let Some(event) = due(&mut self.broker.to_receiver, now) {
            self.receiver
                .hear(now, event, &mut self.broker, &mut self.dice);
        }
        self.receiver.step(now, &mut self.broker, &mut self.dice);
    }

    fn order(&mut self) {
        let device = self.dice.below(self.devices.len() as u64) as usize;
        let uid = self.devices[device].uid();
        let (id, request) = self.operator.ask(self.now, uid, &mut self.dice);
        self.gateway.ask(self.now, id, request);
    }

    /// Two devices are unplugged, and plugged in again the other way round.
    fn swap(&mut self) {
        let count = self.devices.len();
        let first = self.dice.below(count as u64) as usize;
        let second = (first + 1) % count;
        self.devices.swap(first, second);
        for port in [first, second] {
            self.gateway.replug(self.now, port);
            self.devices[port].up.clear();
            self.devices[port].down.clear();
        }
    }

    fn crash(&mut self) {
        let now = self.now;
        self.operator.forget();
        self.gateway.crash(now, &mut self.broker, &mut self.dice);
        self.gateway.open_ports(now, self.devices.len());
    }

    fn fault(&mut self) {
        let now = self.now;
        let Scenario {
            outages,
            fills,
            grows,
            ..
        } = self.scenario;
        let swaps = self.scenario.operated && self.devices.len() > 1;
        let more = [(outages, 8), (fills, 9), (grows, 10), (swaps, 11)];
        let more: Vec<u64> = more.iter().filter(|(on, _)| *on).map(|(_, n)| *n).collect();
        let kind = self.dice.below(8 + more.len() as u64);
        let chosen = kind.checked_sub(8).and_then(|n| more.get(n as usize));
        let name = match chosen.copied().unwrap_or(kind) {
            0 => {
                self.crash();
                "gateway killed"
            }
            1 => {
                let device = self.dice.below(self.devices.len() as u64) as usize;
                self.devices[device].reset(now);
                "device reset"
            }
            2 => {
                self.receiver.crash(now, &mut self.broker, &mut self.dice);
                "receiver killed"
            }
            3 => {
                self.broker.lose_disk(now, &mut self.dice);
                "broker lost its disk"
            }
            4 | 5 => {
                self.broker.drop_gateway(now, &mut self.dice);
                "gateway's connection broke"
            }
            6 => {
                self.broker.drop_receiver(now, &mut self.dice);
                "receiver's connection broke"
            }
            8 => {
                let away = SECOND + self.dice.below(4 * SECOND);
                self.broker.lose_gateway(now, away, &mut self.dice);
                "broker out of reach"
            }
            9 => {
                self.gateway.fill_disk(&mut self.dice);
                self.empties_at = Some(now + SECOND / 2 + self.dice.below(2 * SECOND));
                "disk filled"
            }
            10 => {
                self.gateway.grow(1 + self.dice.below(3) as u16);
                self.crash();
                "partitions grew"
            }
            11 => {
                self.swap();
                "devices changed ports"
            }
            _ => {
                let device = self.dice.below(self.devices.len() as u64) as usize;
                self.gateway.replug(now, device);
                self.devices[device].up.clear();
                self.devices[device].down.clear();
                "port replugged"
            }
        };
        *self.faults.entry(name).or_default() += 1;
    }
}
