//! Who this device is, for its Hello.

use forebay_board_common::boot::Cause;
use forebay_firmware::DeviceConfig;
use forebay_firmware::wire::ids::{BootId, DeviceUid};
use forebay_firmware::wire::message::ResetCause;

use crate::host;
use crate::reg::CLOCK_HZ;

/// The uid of a board that was not given one; `config/qemu.toml` names it.
const UID: [u8; 8] = [0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef];
/// A reading waits this long for others to share its frame, us.
const LINGER_US: u32 = 100_000;
const VERSION: [u8; 3] = [
    number(env!("CARGO_PKG_VERSION_MAJOR")),
    number(env!("CARGO_PKG_VERSION_MINOR")),
    number(env!("CARGO_PKG_VERSION_PATCH")),
];
/// Sixteen hex digits in FOREBAY_BUILD_ID while compiling, such as those of a
/// commit; zeros without.
const BUILD_ID: [u8; 8] = match option_env!("FOREBAY_BUILD_ID") {
    Some(digits) => match u64::from_str_radix(digits, 16) {
        Ok(id) => id.to_be_bytes(),
        Err(_) => panic!("FOREBAY_BUILD_ID is not a number of at most sixteen hex digits"),
    },
    None => [0; 8],
};

const fn number(digits: &str) -> u8 {
    match u8::from_str_radix(digits, 10) {
        Ok(number) => number,
        Err(_) => panic!("a part of the version is above 255"),
    }
}

/// Asks the debugger for a uid, hence not to be called in an interrupt.
pub fn config(boot: BootId, cause: Cause) -> DeviceConfig {
    DeviceConfig {
        uid: DeviceUid(host::uid().unwrap_or(UID)),
        boot,
        firmware_version: VERSION,
        build_id: BUILD_ID,
        reset_cause: match cause {
            Cause::Cold => ResetCause::PowerOn,
            Cause::Warm => ResetCause::Pin,
            Cause::Software => ResetCause::Software,
        },
        tick_hz: CLOCK_HZ,
        linger_us: LINGER_US,
    }
}
