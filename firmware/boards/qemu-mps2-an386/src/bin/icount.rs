//! Counts instructions of the parts that have a budget, in QEMU with `-icount shift=6`,
//! where each instruction takes 64 ns of the machine's time. Says `name=number` lines and
//! ends. Started by `cargo xtask firmware icount`; never flashed.
//!
//! The library is compiled as for the firmware itself, and the handlers of interrupts are
//! the same source, called as functions: QEMU counts nothing for the entry into one.
#![no_std]
#![no_main]

#[allow(dead_code, reason = "the firmware uses the rest")]
#[path = "../timer.rs"]
mod timer;
#[allow(dead_code, reason = "the firmware uses the rest")]
#[path = "../uart.rs"]
mod uart;
#[allow(dead_code, reason = "the firmware uses the rest")]
#[path = "../vectors.rs"]
mod vectors;

use core::hint::black_box;

use forebay_board_qemu::host;
use forebay_firmware::wire::GatewayMessage;
use forebay_firmware::wire::ids::{BootId, ChannelNo, DeviceUid, Ordinal, Tick};
use forebay_firmware::wire::limits::LINE_BYTES_MAX;
use forebay_firmware::wire::message::{Ack, HelloAck, ResetCause};
use forebay_firmware::{ChannelSpec, DeviceConfig, LineBuffer};

const CLOCK_HZ: u32 = 25_000_000;
const RING: usize = 2_730;
const CHANNELS: usize = 2;
type Device = forebay_firmware::Device<RING, CHANNELS>;

/// Readings of a frame, and frames that are packed.
const READINGS: u32 = 16;
const FRAMES: u32 = 40;
const BOOT: BootId = BootId(7);
/// An hour after boot, 100 Hz.
const START: u64 = 3_600_000_000;
const STEP_US: u64 = 10_003;

const SPEC: ChannelSpec = ChannelSpec {
    quantity: "temperature",
    unit: "degC",
    scale: 2,
    range: (-5_500, 12_500),
    period_us: 10_000,
};

/// Counter and instructions: 40 ns and 64 ns.
fn instructions(counts: u32) -> u32 {
    counts * 5 / 8
}

/// Instructions of `part`, without those of asking.
#[inline(never)]
fn count<T>(part: impl FnOnce() -> T) -> (u32, T) {
    let asked = timer::counter();
    let before = timer::counter();
    let result = part();
    let counts = timer::counter() - before;
    (instructions(counts - (before - asked)), result)
}

#[cortex_m_rt::entry]
fn main() -> ! {
    static mut DEVICE: Device = Device::unstarted();
    host::look();
    cortex_m::interrupt::disable();
    timer::start();
    uart::start();
    let (sample, pack, ack) = frames(DEVICE);
    say("readings_per_frame", READINGS);
    say("instructions_per_frame", pack);
    say("instructions_per_sample", sample);
    say("instructions_per_ack", ack);
    interrupts();
    host::exit(0);
    panic!("nobody counts");
}

/// The dearest of some frames, in the middle of a session: a reading's way into the ring,
/// a frame's out of it, and its ack.
fn frames(device: &mut Device) -> (u32, u32, u32) {
    open(device);
    let (mut tick, mut value, mut next) = (START, 2_150, 0);
    let (mut sample, mut pack, mut ack) = (0, 0, 0);
    let mut now = Tick(START);
    let mut line: LineBuffer = [0; LINE_BYTES_MAX];
    for _ in 0..FRAMES {
        for step in 0..READINGS {
            tick += STEP_US;
            value += if step % 3 == 0 { 7 } else { -3 };
            let (cost, taken) =
                count(|| device.on_sample(ChannelNo(0), black_box(Tick(tick)), Ok(value)));
            assert!(taken.is_ok());
            sample = sample.max(cost);
        }
        // As if each were packed a moment after the one before: a line that was silent
        // gets a delimiter first.
        now = Tick(now.0 + 1_000);
        let (cost, bytes) = count(|| device.poll_tx(black_box(now), &mut line));
        assert!(bytes > usize::try_from(READINGS).unwrap_or(0) * 5);
        pack = pack.max(cost);
        next += u64::from(READINGS);
        let message = Ack {
            boot: BOOT,
            next: Ordinal(next),
            credit: 8,
        };
        let bytes = encode(&GatewayMessage::Ack(message), &mut line);
        let (cost, ()) = count(|| device.on_rx(black_box(&line[..bytes]), now));
        ack = ack.max(cost);
        assert!(device.stats().acked == next);
    }
    (sample, pack, ack)
}

/// Up to the first reading.
fn open(device: &mut Device) {
    let config = DeviceConfig {
        uid: DeviceUid([1; 8]),
        boot: BOOT,
        firmware_version: [0; 3],
        build_id: [0; 8],
        reset_cause: ResetCause::PowerOn,
        tick_hz: CLOCK_HZ,
        linger_us: 0,
    };
    assert!(device.start(config, &[SPEC]).is_ok());
    let mut line: LineBuffer = [0; LINE_BYTES_MAX];
    let now = Tick(START);
    while device.poll_tx(now, &mut line) > 0 {}
    let message = HelloAck {
        boot: BOOT,
        next: Ordinal(0),
        window: 8,
        reliable: true,
        log_level: 0,
    };
    let bytes = encode(&GatewayMessage::HelloAck(message), &mut line);
    device.on_rx(&line[..bytes], now);
    assert!(device.is_open());
    while device.poll_tx(now, &mut line) > 0 {}
}

fn encode(message: &GatewayMessage, line: &mut LineBuffer) -> usize {
    match message.encode(line) {
        Ok(bytes) => bytes,
        Err(_) => panic!("every message fits a line"),
    }
}

/// The dearest run of each handler: with room, and with a full queue.
fn interrupts() {
    let handler = |name, handler: extern "C" fn(), runs| {
        let handler = black_box(handler);
        let cost = (0..runs).map(|_| count(|| handler()).0).max();
        say(name, cost.unwrap_or(0));
    };
    handler("interrupt_received", uart::on_receive, 2_000);
    uart::PORT.send(&[0x55; 4]);
    handler("interrupt_sent", uart::on_sent, 6);
    handler("interrupt_alarm", timer::on_alarm, 1);
}

/// `name=number`, without the formatting machinery.
fn say(name: &str, number: u32) {
    let mut digits = [b'0'; 10];
    let mut rest = number;
    for digit in digits.iter_mut().rev() {
        *digit += (rest % 10) as u8;
        rest /= 10;
    }
    host::write(name);
    host::write("=");
    host::write(core::str::from_utf8(&digits).unwrap_or_default());
    host::write("\n");
}
