//! What the debugger (QEMU) gives by semihosting: a random number, arguments and
//! an exit code. Without one, each call fails and the firmware goes on.

use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, Ordering};

use forebay_board_common::uid;
use semihosting::experimental::random;
use semihosting::sys::arm_compat::{
    ExitReason, sys_clock, sys_exit_extended, sys_get_cmdline_uninit, sys_time, sys_writec,
};

/// The uid of a board that was not given one; `config/qemu.toml` names it.
pub const UID: [u8; 8] = [0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef];
/// Longest command line that is looked at.
const COMMAND_LINE_MAX: usize = 256;

static PRESENT: AtomicBool = AtomicBool::new(false);

/// Finds out whether somebody answers. To be called once, before a fault can happen.
pub fn look() {
    PRESENT.store(sys_clock().is_ok(), Ordering::Relaxed);
}

/// Ends the run with an exit code; comes back when nobody answers. Also from a
/// fault, where a call that nobody answers would lock the core up.
pub fn exit(code: usize) {
    if PRESENT.load(Ordering::Relaxed) {
        sys_exit_extended(ExitReason::ADP_Stopped_ApplicationExit, code);
    }
}

/// Writes to the debugger's console, which is QEMU's standard error.
pub fn write(text: &str) {
    if PRESENT.load(Ordering::Relaxed) {
        text.bytes().for_each(sys_writec);
    }
}

/// A number for a cold start. From the host's /dev/urandom: as good as that. If
/// there is none, seconds since 1970 mixed with the hundredths since QEMU's
/// start: not random, but another one a second later. With no debugger at all,
/// `None`.
pub fn random_number() -> Option<u32> {
    let mut bytes = [0; 4];
    if random::fill_bytes(&mut bytes).is_ok() {
        return Some(u32::from_le_bytes(bytes));
    }
    let hundredths = sys_clock().ok()? as u32;
    let seconds = sys_time().ok()? as u32;
    Some(seconds.wrapping_mul(0x9e37_79b9) ^ hundredths)
}

/// The device uid from `-semihosting-config arg=uid=0123456789abcdef`.
pub fn uid() -> Option<[u8; 8]> {
    let mut buffer = [MaybeUninit::uninit(); COMMAND_LINE_MAX];
    let line = sys_get_cmdline_uninit(&mut buffer).ok()?;
    uid::find(line)
}
