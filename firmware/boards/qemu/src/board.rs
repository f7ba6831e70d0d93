//! The hardware of a QEMU board as the main loop knows it. A reset asked for is one of
//! the core; there is no light, and no watchdog, as QEMU would reset a board that is
//! halted by a debugger.

use forebay_board_chip::keep::Keep;
use forebay_board_chip::{boot, build_id, log, stack};
use forebay_board_common::boot::Cause;
use forebay_board_common::identity;
use forebay_board_common::log::FRAME_BYTES_MAX;
use forebay_board_common::station::{Board, Event};
use forebay_firmware::wire::ids::BootId;
use forebay_firmware::wire::message::ResetCause;
use forebay_firmware::{Accounts, DeviceConfig};

use crate::host;

/// See the module.
pub struct QemuBoard {
    kept: Keep,
    kick: fn(),
    lit: bool,
}

impl QemuBoard {
    /// `kick` makes the transmitter ask the port for its next byte. To be called once,
    /// at start.
    pub fn new(kick: fn()) -> Self {
        Self {
            kept: Keep::begin(),
            kick,
            lit: false,
        }
    }

    /// What earlier boots still owe.
    pub fn kept(&self) -> &Accounts {
        self.kept.accounts()
    }
}

/// Paints the stack, looks for a debugger, and says who the device is: the uid that
/// the debugger gives, else that of [`host::UID`].
pub fn begin(tick_hz: u32) -> DeviceConfig {
    stack::paint();
    host::look();
    let (boot, cause): (BootId, Cause) =
        boot::begin(|found| host::random_number().unwrap_or(found));
    let cause = identity::reset_cause(cause, ResetCause::Unknown);
    log::say(Event::Boot { boot, cause }, u8::MAX);
    let uid = host::uid().unwrap_or(host::UID);
    identity::config(uid, boot, cause, build_id::first_bytes(), tick_hz)
}

impl Board for QemuBoard {
    fn kick(&mut self) {
        (self.kick)();
    }

    fn note(&mut self, boot: BootId, accounts: Accounts) {
        boot::keep(boot);
        self.kept.note(accounts);
    }

    fn light(&mut self, on: bool) {
        self.lit = on;
    }

    fn feed(&mut self) {}

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
