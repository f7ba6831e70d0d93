//! The time for which a USB adapter holds received bytes back (an FTDI chip: 16 ms,
//! unless told otherwise), which is an error of every stamp on its line. Lowers it
//! where that is allowed, and says what to do where it is not.

use std::fs;
use std::path::Path;

use super::limits::LATENCY_GOOD_MS;
use super::usb::sysfs;

const ATTRIBUTE: &str = "latency_timer";

/// Milliseconds for which the adapter of a tty holds bytes back, after trying to lower
/// that. `None`: its driver has no such setting, and holds nothing back.
pub(super) fn lowered(sys: &Path, tty: &str) -> Option<u32> {
    let folder = sysfs::device_folder(sys, tty);
    let read = || sysfs::attribute(&folder, ATTRIBUTE)?.parse().ok();
    let held: u32 = read()?;
    if held <= LATENCY_GOOD_MS {
        return Some(held);
    }
    // Only root may; what came of it is read back.
    let _ = fs::write(folder.join(ATTRIBUTE), "1");
    read()
}

/// What to tell the operator about it.
pub(super) fn advice(tty: &str, held_ms: Option<u32>) -> Option<String> {
    let held_ms = held_ms.filter(|held| *held > LATENCY_GOOD_MS)?;
    Some(format!(
        "the USB adapter holds bytes back for up to {held_ms} ms, and this user may not lower that: the times of its readings are that much less sure; config/60-forebay.rules lowers it, or at once: echo 1 | sudo tee /sys/class/tty/{tty}/device/latency_timer"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_lowered_where_the_driver_has_it() {
        let sys = tempfile::tempdir().unwrap();
        let folder = sysfs::device_folder(sys.path(), "ttyUSB0");
        fs::create_dir_all(&folder).unwrap();
        assert_eq!(lowered(sys.path(), "ttyUSB0"), None, "no such setting");
        for (name, held, want) in [
            ("good", "1\n", Some(1)),
            ("limit", "2\n", Some(2)),
            ("limit+1", "3\n", Some(1)),
            ("an FTDI chip", "16\n", Some(1)),
            ("nonsense", "x\n", None),
        ] {
            fs::write(folder.join(ATTRIBUTE), held).unwrap();
            assert_eq!(lowered(sys.path(), "ttyUSB0"), want, "{name}");
        }
    }

    #[test]
    fn the_operator_is_told_what_lowers_it() {
        for (name, held, told) in [
            ("none", None, false),
            ("limit-1", Some(LATENCY_GOOD_MS - 1), false),
            ("limit", Some(LATENCY_GOOD_MS), false),
            ("limit+1", Some(LATENCY_GOOD_MS + 1), true),
        ] {
            assert_eq!(advice("ttyUSB0", held).is_some(), told, "{name}");
        }
        let told = advice("ttyUSB3", Some(16)).unwrap();
        for word in [
            "16 ms",
            "60-forebay.rules",
            "/sys/class/tty/ttyUSB3/device/latency_timer",
        ] {
            assert!(told.contains(word), "{told}");
        }
    }
}
