//! What only the RP2040 has: its registers for the cause of a reset, its flash's number.

use embassy_rp::flash::{self, Flash};
use embassy_rp::peripherals::FLASH;
use embassy_rp::watchdog::{ResetReason, Watchdog};
use embassy_rp::{Peri, pac};
use forebay_firmware::wire::message::ResetCause;

/// Why the chip was reset. The registers keep a power-on or the RUN pin until the next
/// of these, whatever the core does in between.
pub fn reset_cause(watchdog: &Watchdog) -> ResetCause {
    let chip = pac::VREG_AND_CHIP_RESET.chip_reset().read();
    match watchdog.reset_reason() {
        Some(ResetReason::TimedOut) => ResetCause::Watchdog,
        Some(ResetReason::Forced) => ResetCause::Software,
        None if chip.had_run() => ResetCause::Pin,
        None if chip.had_por() => ResetCause::PowerOn,
        None => ResetCause::Unknown,
    }
}

const FLASH_BYTES: usize = 2 << 20;

/// The number that the flash's maker gave it.
pub fn uid(flash: Peri<'_, FLASH>) -> [u8; 8] {
    let mut uid = [0; 8];
    let mut flash = Flash::<_, flash::Blocking, FLASH_BYTES>::new_blocking(flash);
    // It fails only on the other core.
    let _ = flash.blocking_unique_id(&mut uid);
    uid
}
