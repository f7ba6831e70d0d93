//! Sensors through the sampler, on a simulated clock: a bus that is stuck or slow
//! takes only its own channels with it.

#![allow(clippy::unwrap_used)] // helpers of tests

mod rig;
mod sensors {
    pub(crate) mod buses;
}

use std::cell::RefCell;
use std::rc::Rc;

use forebay_firmware::sensors::{
    Ads1115, FullScaleRange, Input, Lm75Sensor, RecoveringI2c, Shared, Sht4x, Sht4xQuantity,
    TargetAddr,
};
use forebay_firmware::wire::ids::{BootId, ChannelNo, DeviceUid, Ordinal, Tick};
use forebay_firmware::wire::limits::LINE_BYTES_MAX;
use forebay_firmware::wire::message::{HelloAck, Quality, ResetCause};
use forebay_firmware::wire::{DeviceMessage, GatewayMessage};
use forebay_firmware::{ChannelSpec, Device, DeviceConfig, Sampler, Sensor};
use sensors::buses::{Bus, Line, Time};

const CONFIG: DeviceConfig = DeviceConfig {
    uid: DeviceUid([7; 8]),
    boot: BootId(1),
    firmware_version: [0; 3],
    build_id: [0; 8],
    reset_cause: ResetCause::PowerOn,
    tick_hz: 1_000_000,
    linger_us: 0,
};

type Values = Rc<RefCell<Vec<Result<i32, Quality>>>>;

/// Writes down what a sensor gives.
struct Noted<'a> {
    sensor: &'a mut dyn Sensor,
    values: Values,
}

impl Sensor for Noted<'_> {
    fn spec(&self) -> ChannelSpec {
        self.sensor.spec()
    }

    fn start(&mut self, now: Tick) -> u32 {
        self.sensor.start(now)
    }

    fn read(&mut self) -> Result<i32, Quality> {
        let value = self.sensor.read();
        self.values.borrow_mut().push(value);
        value
    }
}

const PUNCTUAL_US: u32 = 10_000;

/// A sensor that costs nothing: the one that must stay on time.
struct Punctual(Time, Rc<RefCell<Vec<Tick>>>);

impl Sensor for Punctual {
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
        self.1.borrow_mut().push(self.0.now());
        Ok(1)
    }
}

/// How a run went.
struct Outcome {
    /// How late the punctual channel was at most, us, and the slots it missed.
    late_us: u64,
    missed: u64,
    /// What each of the others gave.
    values: Vec<Vec<Result<i32, Quality>>>,
    missed_by_others: u64,
}

/// A main loop until `end`: sampling, then sleeping until something is due. `at` is
/// called before each pass.
fn run(time: &Time, others: &mut [&mut dyn Sensor], end: u64, mut at: impl FnMut(Tick)) -> Outcome {
    let read_at = Rc::new(RefCell::new(Vec::new()));
    let mut punctual = Punctual(time.clone(), read_at.clone());
    let mut noted: Vec<_> = others
        .iter_mut()
        .map(|sensor| Noted {
            sensor: *sensor,
            values: Values::default(),
        })
        .collect();
    let values: Vec<Values> = noted.iter().map(|noted| noted.values.clone()).collect();
    let mut all: Vec<&mut dyn Sensor> = vec![&mut punctual];
    all.extend(noted.iter_mut().map(|noted| noted as &mut dyn Sensor));
    let specs: Vec<_> = all.iter().map(|sensor| sensor.spec()).collect();
    let mut device = Device::<4_096, 8>::new(CONFIG, &specs).expect("good channels");
    let mut sampler = Sampler::<8>::new(&specs, Tick(0));
    while time.now().0 < end {
        at(time.now());
        sampler.run(|| time.now(), &mut all, &mut device);
        time.skip_to(sampler.next_deadline().expect("channels"));
    }
    assert!(device.stats().closes());
    let late = |at: &Tick| at.0 % u64::from(PUNCTUAL_US);
    let late_us = read_at.borrow().iter().map(late).max().unwrap_or(0);
    let others = 1..u8::try_from(specs.len()).expect("few");
    Outcome {
        late_us,
        missed: sampler.missed(ChannelNo(0)),
        values: values.iter().map(RefCell::take_of).collect(),
        missed_by_others: others
            .map(|channel| sampler.missed(ChannelNo(channel)))
            .sum(),
    }
}

trait TakeOf<T> {
    fn take_of(this: &Rc<RefCell<T>>) -> T;
}

impl<T: Default> TakeOf<T> for RefCell<T> {
    fn take_of(this: &Rc<RefCell<T>>) -> T {
        this.take()
    }
}

const SECOND_US: u64 = 1_000_000;

#[test]
fn a_bus_that_is_stuck_for_ever_takes_no_other_channel_with_it() {
    let time = Time::default();
    let bus = Bus::new(&time);
    bus.hold(Line::Held(u32::MAX));
    let i2c = RecoveringI2c::new(bus.clone());
    let mut stuck = Lm75Sensor::new(i2c, 0x4F, "stuck", 100_000);
    let outcome = run(&time, &mut [&mut stuck], 10 * SECOND_US, |_| {});
    assert_eq!(outcome.values[0], [Err(Quality::BusError); 100]);
    assert_eq!((outcome.missed, outcome.missed_by_others), (0, 0));
    // Three tries of 1 ms, each with a recovery.
    assert!(outcome.late_us <= 3_400, "{}", outcome.late_us);
    // Three in vain, then a pause of nine failures: 75 of the 300 tries.
    assert_eq!(bus.recoveries(), 75);
}

#[test]
fn a_bus_that_was_held_is_freed_within_the_same_reading() {
    for (name, line, first) in [
        ("by the first recovery", Line::Held(1), Ok(25_500)),
        ("by the second", Line::Held(2), Ok(25_500)),
        (
            "by the third, after the last try",
            Line::Held(3),
            Err(Quality::BusError),
        ),
    ] {
        let time = Time::default();
        let bus = Bus::new(&time);
        bus.hold(line);
        let i2c = RecoveringI2c::new(bus.clone());
        let mut sensor = Lm75Sensor::new(i2c, 0x4F, "held", 100_000);
        let outcome = run(&time, &mut [&mut sensor], 300_000, |_| {});
        assert_eq!(outcome.values[0], [first, Ok(25_500), Ok(25_500)], "{name}");
        assert_eq!(outcome.missed, 0, "{name}");
    }
}

#[test]
fn a_sensor_that_takes_its_time_holds_nobody_up() {
    let time = Time::default();
    let chip = Shared::new(Sht4x::new(Bus::new(&time), 0x44));
    let mut temperature = chip.channel(Sht4xQuantity::Temperature, "temperature", 50_000);
    let mut humidity = chip.channel(Sht4xQuantity::Humidity, "humidity", 50_000);
    let mut others: [&mut dyn Sensor; 2] = [&mut temperature, &mut humidity];
    let outcome = run(&time, &mut others, SECOND_US, |_| {});
    // The bus alone: 0.2 ms to begin, 0.6 ms to fetch, against 8.5 ms to measure.
    assert!(outcome.late_us <= 700, "{}", outcome.late_us);
    assert_eq!((outcome.missed, outcome.missed_by_others), (0, 0));
    assert_eq!(outcome.values[0], [Ok(25_000); 20]);
    assert_eq!(outcome.values[1], [Ok(5_650); 20]);
}

#[test]
fn four_inputs_of_a_converter_take_turns_also_in_a_late_loop() {
    for (name, lag_us) in [("on time", 0), ("late by more than a conversion", 3_000)] {
        let time = Time::default();
        let range = FullScaleRange::Within4_096V;
        let chip = Ads1115::new(Bus::new(&time), TargetAddr::Gnd, range);
        let inputs = [Input::A3, Input::A0, Input::A2, Input::A1];
        let names = ["a3", "a0", "a2", "a1"];
        let mut at = 0..4;
        let mut channels = inputs.map(|input| {
            let name = names[at.next().expect("four")];
            chip.channel(input, name, 100_000)
        });
        let mut others: Vec<&mut dyn Sensor> = Vec::new();
        others.extend(channels.iter_mut().map(|one| one as &mut dyn Sensor));
        let late = time.clone();
        let outcome = run(&time, &mut others, SECOND_US, |_| late.pass(lag_us));
        for (values, input) in outcome.values.iter().zip(inputs) {
            let want = (0x1000 + input as i32) * 125;
            assert!(values.len() >= 9, "{name}");
            assert!(
                values.iter().all(|value| *value == Ok(want)),
                "{name}: {values:?}"
            );
        }
        assert_eq!(outcome.missed_by_others, 0, "{name}");
    }
}

#[test]
fn a_measurement_is_stamped_with_its_beginning() {
    let time = Time::default();
    let chip = Shared::new(Sht4x::new(Bus::new(&time), 0x44));
    let mut sensor = chip.channel(Sht4xQuantity::Temperature, "temperature", 50_000);
    let specs = [sensor.spec()];
    let mut device = Device::<16, 1>::new(CONFIG, &specs).expect("good channels");
    time.skip_to(Tick(123));
    let mut sampler = Sampler::<1>::new(&specs, Tick(123));
    let mut all: [&mut dyn Sensor; 1] = [&mut sensor];
    assert_eq!(sampler.run(|| time.now(), &mut all, &mut device), 0);
    let done = sampler.next_deadline().expect("begun");
    assert_eq!(done, Tick(8_623), "from its beginning on");
    time.skip_to(Tick(done.0 - 1));
    assert_eq!(
        sampler.run(|| time.now(), &mut all, &mut device),
        0,
        "too early"
    );
    time.skip_to(done);
    assert_eq!(sampler.run(|| time.now(), &mut all, &mut device), 1);
    assert_eq!(sampler.next_deadline(), Some(Tick(50_123)));
    assert_eq!(sent_ticks(&mut device, time.now()), [Tick(123)]);
}

/// What a gateway gets to see of the readings.
fn sent_ticks<const RING: usize, const C: usize>(
    device: &mut Device<RING, C>,
    now: Tick,
) -> Vec<Tick> {
    let welcome = GatewayMessage::HelloAck(HelloAck {
        boot: CONFIG.boot,
        next: Ordinal(0),
        window: 8,
        reliable: true,
        log_level: 0,
    });
    device.on_rx(&rig::line_of(welcome), now);
    let mut ticks = Vec::new();
    let mut line = [0; LINE_BYTES_MAX];
    for _ in 0..20 {
        let bytes = device.poll_tx(now, &mut line);
        rig::decode(&line[..bytes], |message| {
            if let DeviceMessage::Data(data) = message {
                ticks.extend(data.records().map(|reading| reading.unwrap().tick));
            }
        });
    }
    ticks
}

#[test]
fn a_measurement_longer_than_its_period_misses_slots_and_counts_them() {
    let time = Time::default();
    let chip = Shared::new(Sht4x::new(Bus::new(&time), 0x44));
    let mut sensor = chip.channel(Sht4xQuantity::Temperature, "temperature", 5_000);
    let outcome = run(&time, &mut [&mut sensor], 100_000, |_| {});
    let taken = outcome.values[0].len() as u64;
    assert!(outcome.values[0].iter().all(Result::is_ok));
    assert!((9..=10).contains(&taken), "{taken}");
    assert_eq!(taken + outcome.missed_by_others, 20);
    assert_eq!(outcome.missed, 0);
}
