//! Firmware for Arm's MPS2 board with the AN386 image, as QEMU has it: a TMP105 on
//! the I2C bus and the time since boot, sent over UART 0.
//!
//! The main loop owns all; interrupts only move bytes and wake it. It never waits
//! for the line: a line goes out only once the one before it has left.
#![no_std]
#![no_main]

mod boot;
mod clock;
mod fault;
mod host;
mod i2c;
mod identity;
mod keep;
mod reg;
mod timer;
mod uart;
mod uptime;
mod vectors;
mod wake;

use clock::Clock;
use forebay_firmware::sensors::Lm75Sensor;
use forebay_firmware::wire::ids::Tick;
use forebay_firmware::wire::limits::LINE_BYTES_MAX;
use forebay_firmware::{LineBuffer, Sampler, Sensor};
use uptime::Uptime;

/// Readings in the ring: 32 KiB of 12 bytes each.
const RING: usize = 2_730;
const CHANNELS: usize = 2;
const TMP105_ADDRESS: u8 = 0x48;
const TEMPERATURE_PERIOD_US: u32 = 100_000;
const UPTIME_PERIOD_US: u32 = 1_000_000;

type Device = forebay_firmware::Device<RING, CHANNELS>;

#[cortex_m_rt::entry]
fn main() -> ! {
    // The attribute makes it a plain `&mut`: `main` runs once.
    static mut DEVICE: Device = Device::unstarted();
    host::look();
    let (boot, cause) = boot::begin();
    let mut kept = keep::begin();
    let clock = Clock::start();
    uart::start();
    let mut temperature = Lm75Sensor::new(
        i2c::bus(),
        TMP105_ADDRESS,
        "temperature",
        TEMPERATURE_PERIOD_US,
    );
    let mut uptime = Uptime::new(&clock, UPTIME_PERIOD_US);

    let specs = [temperature.spec(), uptime.spec()];
    let config = identity::config(boot, cause);
    if DEVICE.start(config, &specs).is_err() {
        // `expect` would bring all of `fmt` into flash.
        defmt::panic!("the table of channels is wrong");
    }
    DEVICE.remember(kept.accounts());
    let mut sampler = Sampler::<CHANNELS>::new(&specs, clock.now());
    defmt::info!(
        "boot {=u32:08x}, reset cause {=u8}, uid {=[u8; 8]:02x}",
        boot.0,
        config.reset_cause as u8,
        config.uid.0
    );

    vectors::unmask_all();
    let mut line = [0; LINE_BYTES_MAX];
    let mut log = Log::default();
    loop {
        receive(DEVICE, &clock);
        sampler.run(|| clock.now(), &mut [&mut temperature, &mut uptime], DEVICE);
        kept.note(DEVICE.accounts());
        let sent = send(DEVICE, &clock, &mut line);
        log.note(DEVICE);
        timer::wake_in(pause_us(DEVICE, &sampler, clock.now(), sent));
        wake::sleep();
    }
}

/// Gives the device what came in, frame by frame, each with the time of its end.
fn receive(device: &mut Device, clock: &Clock) {
    let mut chunk = [0; 32];
    let mut count = 0;
    while let Some(received) = uart::receive() {
        chunk[count] = received.byte;
        count += 1;
        if received.byte == Device::DELIMITER || count == chunk.len() {
            device.on_rx(&chunk[..count], clock.at(received.counter));
            count = 0;
        }
    }
    if count > 0 {
        device.on_rx(&chunk[..count], clock.now());
    }
    boot::keep(device.boot());
}

/// Hands the next line to the UART, if that is free; false when it is not.
fn send(device: &mut Device, clock: &Clock, line: &mut LineBuffer) -> bool {
    if !uart::is_idle() {
        return false;
    }
    let count = device.poll_tx(clock.now(), line);
    uart::send(&line[..count]);
    count == 0
}

/// How long the loop may sleep. While a line is on its way there is nothing to
/// send; the UART wakes the loop when it has gone.
fn pause_us(device: &Device, sampler: &Sampler<CHANNELS>, now: Tick, line_free: bool) -> u32 {
    let sending = device.next_deadline(now).filter(|_| line_free);
    let sampling = sampler.next_deadline();
    let until = sending.into_iter().chain(sampling).min();
    let pause = until.map_or(u64::MAX, |until| until.0.saturating_sub(now.0));
    u32::try_from(pause).unwrap_or(u32::MAX)
}

/// What was logged, so that each change is logged once.
#[derive(Default)]
struct Log {
    open: bool,
    dropped: u32,
}

impl Log {
    fn note(&mut self, device: &Device) {
        if self.open != device.is_open() {
            self.open = device.is_open();
            defmt::info!("session {=str}", if self.open { "open" } else { "closed" });
        }
        let dropped = uart::dropped();
        if self.dropped != dropped {
            self.dropped = dropped;
            defmt::warn!("{=u32} received bytes dropped so far", dropped);
        }
    }
}
