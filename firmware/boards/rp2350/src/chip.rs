//! What only the RP2350 has: its registers for the cause of a reset, its number.

use embassy_rp::watchdog::{ResetReason, Watchdog};
use embassy_rp::{otp, pac};
use forebay_firmware::wire::message::ResetCause;

/// Why the chip was reset. The registers keep a power-on or the RUN pin until the next
/// of these, whatever the core does in between.
pub fn reset_cause(watchdog: &Watchdog) -> ResetCause {
    let chip = pac::POWMAN.chip_reset().read();
    match watchdog.reset_reason() {
        Some(ResetReason::TimedOut) => ResetCause::Watchdog,
        Some(ResetReason::Forced) => ResetCause::Software,
        None if chip.had_bor() => ResetCause::Brownout,
        None if chip.had_run_low() => ResetCause::Pin,
        None if chip.had_por() => ResetCause::PowerOn,
        None => ResetCause::Unknown,
    }
}

/// The number that the factory wrote into the chip.
pub fn uid() -> [u8; 8] {
    // It fails only for a chip without one, which there is none of.
    otp::get_chipid().unwrap_or(0).to_be_bytes()
}
