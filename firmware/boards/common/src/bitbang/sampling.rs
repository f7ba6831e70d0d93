//! The bus under a sensor and the sampler, on the time that the bus itself takes: a
//! line that is held costs its own channel a quality code and the others nothing.

use super::*;
use crate::bus_model::Bus;
use core::cell::Cell;
use forebay_firmware::sensors::Lm75Sensor;
use forebay_firmware::wire::ids::{BootId, ChannelNo, DeviceUid, Tick};
use forebay_firmware::wire::message::{Quality, ResetCause};
use forebay_firmware::{ChannelSpec, Device, DeviceConfig, Sampler, Sensor};
use std::vec::Vec;

const ADDRESS: u8 = 0x48;
const PERIOD_US: u32 = 100_000;
const PUNCTUAL_US: u32 = 10_000;

const CONFIG: DeviceConfig = DeviceConfig {
    uid: DeviceUid([1; 8]),
    boot: BootId(1),
    firmware_version: [0; 3],
    build_id: [0; 8],
    reset_cause: ResetCause::PowerOn,
    tick_hz: 1_000_000,
    linger_us: 0,
};

/// Slept until a deadline, beside what the bus takes.
struct Time<'a> {
    bus: &'a Bus,
    slept_us: Cell<u64>,
}

impl Time<'_> {
    fn now(&self) -> Tick {
        Tick(self.slept_us.get() + self.bus.waited_ns() / 1_000)
    }

    fn skip_to(&self, at: Tick) {
        let rest = at.0.saturating_sub(self.now().0).max(1);
        self.slept_us.set(self.slept_us.get() + rest);
    }
}

struct Punctual<'a> {
    time: &'a Time<'a>,
    late_us: u64,
}

impl Sensor for Punctual<'_> {
    fn spec(&self) -> ChannelSpec {
        ChannelSpec {
            quantity: "punctual",
            unit: "",
            scale: 0,
            range: (0, 1),
            period_us: PUNCTUAL_US,
        }
    }

    fn read(&mut self) -> Result<i32, Quality> {
        let late_us = self.time.now().0 % u64::from(PUNCTUAL_US);
        self.late_us = self.late_us.max(late_us);
        Ok(1)
    }
}

struct Noted<S> {
    sensor: S,
    values: Vec<Result<i32, Quality>>,
}

impl<S: Sensor> Sensor for Noted<S> {
    fn spec(&self) -> ChannelSpec {
        self.sensor.spec()
    }

    fn read(&mut self) -> Result<i32, Quality> {
        let value = self.sensor.read();
        self.values.push(value);
        value
    }
}

/// Ten periods; what the sensor gave, and how late the other channel was at most.
fn run(bus: &Bus) -> (Vec<Result<i32, Quality>>, u64) {
    let time = Time {
        bus,
        slept_us: Cell::new(0),
    };
    let mut punctual = Punctual {
        time: &time,
        late_us: 0,
    };
    let i2c = BitBang::new(bus.scl(), bus.sda(), bus.delay());
    let mut sensor = Noted {
        sensor: Lm75Sensor::new(i2c, ADDRESS, "temperature", PERIOD_US),
        values: Vec::new(),
    };
    let specs = [punctual.spec(), sensor.spec()];
    let mut device = Device::<256, 2>::new(CONFIG, &specs).expect("good channels");
    let mut sampler = Sampler::<2>::new(&specs, Tick(0));
    while time.now().0 < 10 * u64::from(PERIOD_US) {
        let mut sensors: [&mut dyn Sensor; 2] = [&mut punctual, &mut sensor];
        sampler.run(|| time.now(), &mut sensors, &mut device);
        time.skip_to(sampler.next_deadline().expect("channels"));
    }
    assert_eq!(sampler.missed(ChannelNo(0)), 0, "the other channel");
    assert_eq!(sampler.missed(ChannelNo(1)), 0, "its own");
    (sensor.values, punctual.late_us)
}

fn bus_with_answers() -> Bus {
    let bus = Bus::with_device(ADDRESS);
    // 25 degC, for every register read.
    bus.accept_only(usize::MAX);
    bus.answer(&[0x19, 0x00].repeat(10));
    bus
}

#[test]
fn a_line_that_is_let_go_after_nine_clocks_costs_not_one_reading() {
    let bus = bus_with_answers();
    bus.hold_sda_for_clocks(RECOVERY_CLOCKS);
    let (values, late_us) = run(&bus);
    assert_eq!(values, [Ok(25_000); 10]);
    // One reading of five bytes at 100 kHz, and the recovery.
    assert!(late_us < 1_000, "{late_us}");
}

#[test]
fn a_line_that_is_held_for_ever_is_a_bus_error_each_period_and_nothing_else() {
    for (name, hold, most_us) in [
        ("data: three recoveries", Bus::hold_sda as fn(&Bus), 500),
        (
            "clock: three tries, two waits of 1 ms each",
            Bus::hold_scl,
            6_500,
        ),
    ] {
        let bus = bus_with_answers();
        hold(&bus);
        let (values, late_us) = run(&bus);
        assert_eq!(values, [Err(Quality::BusError); 10], "{name}");
        assert!(late_us <= most_us, "{name}: {late_us}");
    }
}
