//! What the system says of serial ports, without opening one: for `forebay doctor`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::holder;
use super::usb::{UsbId, sysfs};

/// A tty of a USB board, or any other tty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TtyLook {
    /// Such as `ttyUSB0`.
    pub name: String,
    pub usb: Option<UsbId>,
    /// How long its adapter holds bytes back; `None`: not at all.
    pub latency_ms: Option<u32>,
    /// The file of its board that says whether the system may put it to sleep, and
    /// whether it may.
    pub sleep: Option<(PathBuf, bool)>,
}

/// All ttys of USB boards.
///
/// # Errors
/// The folder of the ttys cannot be read.
pub fn usb_ttys(sys: &Path) -> io::Result<Vec<TtyLook>> {
    let found = sysfs::scan(sys, &[])?;
    Ok(found
        .into_iter()
        .map(|tty| look_at(sys, &tty.name))
        .collect())
}

/// One tty by its name.
#[must_use]
pub fn look_at(sys: &Path, name: &str) -> TtyLook {
    let folder = sysfs::device_folder(sys, name);
    let latency = sysfs::attribute(&folder, "latency_timer");
    TtyLook {
        name: name.to_owned(),
        usb: sysfs::identify(sys, name),
        latency_ms: latency.and_then(|text| text.parse().ok()),
        sleep: usb_folder(&folder).and_then(|usb| {
            let power = usb.join("power");
            let may = sysfs::attribute(&power, "control")? == "auto";
            Some((power.join("control"), may))
        }),
    }
}

/// The folder of the USB device that a tty's interface is of.
fn usb_folder(device: &Path) -> Option<PathBuf> {
    let real = fs::canonicalize(device).ok()?;
    let found = real
        .ancestors()
        .find(|folder| folder.join("idVendor").exists());
    found.map(Path::to_owned)
}

/// Another process that has this device open: its number and name.
#[must_use]
pub fn holder_of(path: &Path) -> Option<(u32, String)> {
    holder::other(path)
}
