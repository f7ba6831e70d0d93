//! The hardware of a board on one of Embassy's HALs as the main loop knows it.
//!
//! A panic is a reset that the next Hello calls one of software; a fault hangs the core
//! until the watchdog resets it.

use core::panic::PanicInfo;

use embedded_hal::digital::{OutputPin, PinState};
use forebay_board_chip::keep::Keep;
use forebay_board_chip::{boot, build_id, log, stack};
use forebay_board_common::identity;
use forebay_board_common::log::FRAME_BYTES_MAX;
use forebay_board_common::station::{Board, Event};
use forebay_firmware::wire::ids::BootId;
use forebay_firmware::wire::message::ResetCause;
use forebay_firmware::{Accounts, DeviceConfig};

/// See the module.
pub struct HalBoard<Light, Feed> {
    kept: Keep,
    kick: fn(),
    light: Light,
    lit: PinState,
    feed: Feed,
}

impl<Light: OutputPin, Feed: FnMut()> HalBoard<Light, Feed> {
    /// `kick` makes the port's sender look for a line; the light is on while its pin is
    /// `lit`; `feed` feeds the watchdog. To be called once, at start.
    pub fn new(kick: fn(), light: Light, lit: PinState, feed: Feed) -> Self {
        Self {
            kept: Keep::begin(),
            kick,
            light,
            lit,
            feed,
        }
    }

    /// What earlier boots still owe.
    pub fn kept(&self) -> &Accounts {
        self.kept.accounts()
    }
}

/// Who the device is: a cold start draws its boot id from `random`; `hardware` is what
/// the chip's registers say of the reset.
pub fn config(
    uid: [u8; 8],
    hardware: ResetCause,
    tick_hz: u32,
    random: impl FnOnce() -> u32,
) -> DeviceConfig {
    let (boot, memory) = boot::begin(|found| found ^ random());
    let cause = identity::reset_cause(memory, hardware);
    log::say(Event::Boot { boot, cause }, u8::MAX);
    identity::config(uid, boot, cause, build_id::first_bytes(), tick_hz)
}

impl<Light: OutputPin, Feed: FnMut()> Board for HalBoard<Light, Feed> {
    fn kick(&mut self) {
        (self.kick)();
    }

    fn note(&mut self, boot: BootId, accounts: Accounts) {
        boot::keep(boot);
        self.kept.note(accounts);
    }

    fn light(&mut self, on: bool) {
        let state = if on { self.lit } else { !self.lit };
        // A pin of the chip itself cannot fail.
        let _ = self.light.set_state(state);
    }

    fn feed(&mut self) {
        (self.feed)();
    }

    fn stack_free(&mut self) -> u32 {
        stack::free()
    }

    fn log(&mut self, event: Event, level: u8) {
        log::say(event, level);
    }

    fn take_log(&mut self, frame: &mut [u8; FRAME_BYTES_MAX]) -> Option<usize> {
        log::take(frame)
    }

    fn log_dropped(&mut self) -> u32 {
        log::dropped()
    }

    fn reset(&mut self) {
        boot::request_reset()
    }
}

/// Looks at no place or text: they would bring `core::fmt` and the names of all files,
/// 3 KiB.
#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    cortex_m::interrupt::disable();
    boot::request_reset()
}
