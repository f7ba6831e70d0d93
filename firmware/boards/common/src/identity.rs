//! Who a device is, for its Hello: what all boards say in the same way.

use forebay_firmware::DeviceConfig;
use forebay_firmware::wire::ids::{BootId, DeviceUid};
use forebay_firmware::wire::message::ResetCause;

use crate::boot::Cause;

/// A reading waits this long for others to share its frame, us.
pub const LINGER_US: u32 = 100_000;
/// The version of the firmware.
pub const VERSION: [u8; 3] = [
    number(env!("CARGO_PKG_VERSION_MAJOR")),
    number(env!("CARGO_PKG_VERSION_MINOR")),
    number(env!("CARGO_PKG_VERSION_PATCH")),
];

const fn number(digits: &str) -> u8 {
    match u8::from_str_radix(digits, 10) {
        Ok(number) => number,
        Err(_) => panic!("a part of the version is above 255"),
    }
}

/// What memory and hardware together say of the reset. `hardware` is what the chip's
/// registers tell; a chip that tells less than the memory gives [`ResetCause::Unknown`].
#[must_use]
pub fn reset_cause(memory: Cause, hardware: ResetCause) -> ResetCause {
    match (hardware, memory) {
        (ResetCause::Unknown, Cause::Cold) => ResetCause::PowerOn,
        (ResetCause::Unknown, Cause::Warm) => ResetCause::Pin,
        // The record says that it was asked for, whatever the way it was done; the
        // registers of some chips still tell of the reset before.
        (_, Cause::Software) => ResetCause::Software,
        (hardware, _) => hardware,
    }
}

/// The config of a device with the linger and the version of all boards.
#[must_use]
pub fn config(
    uid: [u8; 8],
    boot: BootId,
    reset_cause: ResetCause,
    build_id: [u8; 8],
    tick_hz: u32,
) -> DeviceConfig {
    DeviceConfig {
        uid: DeviceUid(uid),
        boot,
        firmware_version: VERSION,
        build_id,
        reset_cause,
        tick_hz,
        linger_us: LINGER_US,
    }
}

/// The first eight bytes of a GNU build id, in a note section as the linker writes
/// it: sizes of name and descriptor, type 3, the name `GNU`, the descriptor. Zeros
/// when the note is another one.
#[must_use]
pub fn build_id(note: &[u8]) -> [u8; 8] {
    const HEAD: [u8; 4] = 4_u32.to_le_bytes();
    const TYPE_AND_NAME: [u8; 8] = *b"\x03\0\0\0GNU\0";
    let id = note
        .strip_prefix(&HEAD)
        .and_then(|rest| rest.split_first_chunk::<4>())
        .and_then(|(size, rest)| {
            let descriptor = rest.strip_prefix(&TYPE_AND_NAME)?;
            descriptor.get(..u32::from_le_bytes(*size) as usize)
        })
        .and_then(|descriptor| descriptor.first_chunk());
    id.copied().unwrap_or_default()
}

/// A uid of the 96 bits by which ST tells chips apart: lot, wafer and place on it. 64
/// bits of FNV-1a, as none of these bits is free in all lots.
#[must_use]
pub fn fold_uid(number: [u8; 12]) -> [u8; 8] {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    number
        .iter()
        .fold(BASIS, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(PRIME)
        })
        .to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watchdog_reset_that_was_asked_for_is_our_own() {
        use ResetCause::{Brownout, Pin, PowerOn, Software, Unknown, Watchdog};
        for (name, memory, hardware, want) in [
            ("power", Cause::Cold, PowerOn, PowerOn),
            ("power, silent chip", Cause::Cold, Unknown, PowerOn),
            ("button", Cause::Warm, Pin, Pin),
            ("button, silent chip", Cause::Warm, Unknown, Pin),
            ("hung", Cause::Warm, Watchdog, Watchdog),
            ("asked for", Cause::Software, Software, Software),
            (
                "asked for, by watchdog",
                Cause::Software,
                Watchdog,
                Software,
            ),
            ("asked for, silent chip", Cause::Software, Unknown, Software),
            (
                "asked for, registers not cleared",
                Cause::Software,
                PowerOn,
                Software,
            ),
            ("undervoltage", Cause::Warm, Brownout, Brownout),
        ] {
            assert_eq!(reset_cause(memory, hardware), want, "{name}");
        }
    }

    const NOTE: [u8; 36] = *b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0ABCDEFGHIJKLMNOPQRST";

    #[test]
    fn the_build_id_is_the_begin_of_the_descriptor() {
        assert_eq!(build_id(&NOTE), *b"ABCDEFGH");
        let mut other = NOTE;
        other[8] = 1;
        assert_eq!(build_id(&other), [0; 8], "another type");
        for cut in 0..NOTE.len() {
            assert_eq!(build_id(&NOTE[..cut]), [0; 8], "cut at {cut}");
        }
    }

    #[test]
    fn chips_of_one_wafer_and_of_others_have_other_uids() {
        let one = *b"\x21\0\x1b\0\x11Q318472";
        let mut seen = std::vec![fold_uid(one)];
        assert_eq!(seen[0], 0x70b3_9672_a540_bf40_u64.to_be_bytes());
        for bit in 0..96 {
            let mut other = one;
            other[bit / 8] ^= 1 << (bit % 8);
            seen.push(fold_uid(other));
        }
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 97);
    }
}
