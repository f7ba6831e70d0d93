//! A device that is out of reach for ten minutes of simulated time, with the whole
//! gateway and the receiver: what its ring holds arrives with the device's own times,
//! what it does not is lost, and each ledger says how much.

use forebay_core::clock::ClockRules;
use forebay_core::effect::GatewayConfig;
use forebay_core::engine::config::{EngineConfig, TimeRules};
use forebay_core::forward::ForwardConfig;
use forebay_core::ingest::Router;
use forebay_core::payload::GatewayName;
use forebay_core::query::Names;
use forebay_core::record::GapReason;
use forebay_core::retention::SpaceConfig;
use forebay_core::store::memory::MemoryDisk;
use forebay_core::units::Span;
use forebay_core::upstream::tally::{DeviceTally, Tally};
use forebay_firmware::{ChannelSpec, Stats};
use forebay_tests::world::archive::Entry;
use forebay_tests::world::broker::{Broker, due};
use forebay_tests::world::device::WorldDevice;
use forebay_tests::world::dice::Dice;
use forebay_tests::world::gateway::{UTC_0, WorldGateway};
use forebay_tests::world::line::CLEAN;
use forebay_tests::world::receiver::Receiver;
use forebay_wire::ids::DeviceUid;
use serde_json::Value;

const SECOND: u64 = 1_000_000;
const UNPLUGGED_AT: u64 = 20 * SECOND;
const AWAY: u64 = 600 * SECOND;
/// Sampling ends so long after the device is back.
const AFTER: u64 = 30 * SECOND;
const PATIENCE: u64 = UNPLUGGED_AT + AWAY + 300 * SECOND;
const UID: u64 = 0xd7;
/// What a stamp may be off, us: the line's delay is not symmetric.
const CLOCK_ERROR_US: i64 = 20_000;

const fn channel(period_us: u32) -> ChannelSpec {
    ChannelSpec {
        quantity: "temperature",
        unit: "degC",
        scale: 2,
        range: (-4000, 12_500),
        period_us,
    }
}

fn config() -> GatewayConfig {
    GatewayConfig {
        gateway: GatewayName::new("world").expect("a name"),
        router: Router::new(1),
        linger: Span(20_000),
        engine: EngineConfig {
            time: TimeRules::default(),
            windows: Vec::new(),
        },
        forward: Some(ForwardConfig {
            window: 8,
            ack_timeout: Span(2 * SECOND as i64),
        }),
        names: Names::default(),
        space: SpaceConfig::default(),
        clock: ClockRules::default(),
        device_log: 0,
    }
}

/// What is left at the end.
struct End {
    device: Stats,
    /// What the gateway says of it.
    ledger: Value,
    upstream: Tally,
    /// Times of its readings, by ordinal, us of the world's clock.
    times: Vec<i64>,
}

struct Run<const RING: usize> {
    now: u64,
    dice: Dice,
    devices: Vec<WorldDevice<RING>>,
    gateway: WorldGateway,
    broker: Broker,
    receiver: Receiver,
    plugged: bool,
}

impl<const RING: usize> Run<RING> {
    fn new(channels: &'static [ChannelSpec]) -> Self {
        let mut dice = Dice::new(11);
        let disk = MemoryDisk {
            generation_bytes: 1 << 20,
            capacity_bytes: u64::MAX,
            foreign_bytes: 0,
        };
        let mut gateway = WorldGateway::start(config(), disk, 0, &mut dice);
        gateway.open_ports(0, 1);
        Self {
            now: 0,
            devices: vec![WorldDevice::with(UID, 0, channels, &mut dice)],
            gateway,
            broker: Broker::start(0),
            receiver: Receiver::default(),
            plugged: true,
            dice,
        }
    }

    fn step(&mut self) {
        let now = self.now;
        let device = &mut self.devices[0];
        if self.plugged && (UNPLUGGED_AT..UNPLUGGED_AT + AWAY).contains(&now) {
            self.plugged = false;
            self.gateway.unplug(now, 0);
            device.down.clear();
        } else if !self.plugged && now >= UNPLUGGED_AT + AWAY {
            self.plugged = true;
            self.gateway.open_ports(now, 1);
        }
        device.step(now, CLEAN, &mut self.dice);
        if !self.plugged {
            // Nobody is at the other end.
            device.up.clear();
        }
        while let Some(bytes) = device.up.receive(now) {
            self.gateway.hear(now, 0, &bytes);
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
    }

    fn next(&self) -> u64 {
        let (now, device) = (self.now, &self.devices[0]);
        let next = device.next(now).into_iter().chain(device.up.next());
        let plug = [
            UNPLUGGED_AT,
            UNPLUGGED_AT + AWAY,
            UNPLUGGED_AT + AWAY + AFTER,
        ];
        let next = next
            .chain(self.gateway.next(now))
            .chain(self.broker.next())
            .chain(self.receiver.next())
            .chain(plug.into_iter().filter(|at| *at > now));
        next.min().unwrap_or(now + SECOND).max(now + 1)
    }

    /// The last Health of the device has come as well.
    fn is_over(&mut self) -> bool {
        self.devices[0].is_empty()
            && self.gateway.core().is_drained()
            && self.gateway.is_calm()
            && self.ledger()["device"]["produced"] == self.devices[0].stats().produced
            && self.tally().produced == self.devices[0].stats().produced
    }

    fn ledger(&mut self) -> Value {
        self.gateway.devices(self.now)["devices"][0]["ledger"].take()
    }

    fn tally(&self) -> Tally {
        let gateway = GatewayName::new("world").expect("a name");
        let uid = DeviceUid(UID.to_be_bytes());
        let tally = self.receiver.ledger().get(&gateway, uid);
        tally.map(DeviceTally::total).unwrap_or_default()
    }

    fn run(mut self) -> End {
        let mut looked_at = 0;
        loop {
            self.step();
            if self.now >= UNPLUGGED_AT + AWAY + AFTER {
                self.devices[0].stop_sampling();
                if self.now >= looked_at + SECOND {
                    looked_at = self.now;
                    if self.is_over() {
                        break;
                    }
                }
            }
            assert!(self.now < PATIENCE, "{}", self.ledger());
            self.now = self.next();
        }
        let readings = self.gateway.archive().readings();
        let times = readings.filter_map(|entry| match entry {
            Entry::Reading(_, reading) => Some(reading.time.0 - UTC_0),
            Entry::Gap(_) | Entry::Clock(_) | Entry::Row(_) => None,
        });
        End {
            times: times.collect(),
            ledger: self.ledger(),
            upstream: self.tally(),
            device: self.devices[0].stats(),
        }
    }
}

/// The three ledgers say the same, and each closes.
fn check(end: &End) {
    let End {
        device,
        ledger,
        upstream,
        ..
    } = end;
    let ring_full = device.gap(forebay_wire::message::GapReason::RingFull);
    assert_eq!(device.lost(), ring_full, "for no other reason");
    assert!(
        device.closes() && upstream.closes(),
        "{device:?} {upstream:?}"
    );
    assert_eq!(ledger["closes"], true, "{ledger}");
    assert_eq!(ledger["produced"], device.produced, "{ledger}");
    assert_eq!(ledger["readings"], device.acked, "{ledger}");
    assert_eq!(ledger["gaps"]["total"], ring_full, "{ledger}");
    let said = ledger["gaps"]["by_reason"]["ring_full"].as_u64();
    assert_eq!(said.unwrap_or(0), ring_full, "{ledger}");
    assert_eq!(upstream.readings, device.acked);
    assert_eq!(upstream.gaps[GapReason::RingFull as usize], ring_full);
}

#[test]
fn a_device_with_room_for_ten_minutes_comes_back_with_nothing_missing() {
    const PERIOD: i64 = 100_000;
    static CHANNEL: [ChannelSpec; 1] = [channel(PERIOD as u32)];
    let end = Run::<8192>::new(&CHANNEL).run();
    check(&end);
    assert_eq!(end.device.lost(), 0);
    let sampled = (UNPLUGGED_AT + AWAY + AFTER) / PERIOD as u64;
    assert!(end.device.produced >= sampled - 1, "{:?}", end.device);
    // Each at the time when it was taken, not when it came.
    for (nth, time) in (0..).zip(&end.times) {
        let off = time - nth * PERIOD;
        // The device's clock is up to 50 ppm off, and never steered.
        let drift = nth * PERIOD / 20_000;
        assert!(off.abs() <= CLOCK_ERROR_US + drift, "{nth}: {off} us");
    }
    assert_eq!(end.times.len() as u64, end.device.produced);
}

#[test]
fn a_device_that_is_too_fast_for_its_ring_has_lost_a_known_number() {
    const RING: usize = 2730;
    static CHANNEL: [ChannelSpec; 1] = [channel(1_000)];
    let end = Run::<RING>::new(&CHANNEL).run();
    check(&end);
    let away = AWAY / 1_000;
    let lost = end.device.lost();
    // What it took while nobody was there, less what the ring still held.
    assert!(lost < away, "{lost} of {away}");
    assert!(lost > away - RING as u64 - 1_000, "{lost} of {away}");
    assert_eq!(end.times.len() as u64 + lost, end.device.produced);
}
