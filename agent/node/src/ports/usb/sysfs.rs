//! Finds the ttys of USB interfaces in sysfs, which needs neither udev nor rights.
//! Bound: [`TTYS_MAX`] ttys, [`LEVELS_MAX`] folders up from each, and
//! [`ATTRIBUTE_BYTES_MAX`] bytes of each file.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::{UsbId, UsbTty, hex16};
use crate::ports::limits::{ATTRIBUTE_BYTES_MAX, LEVELS_MAX, TTYS_MAX};

/// All ttys of USB interfaces below `sys` (`/sys`, or a test's tree), sorted by who
/// they are, so that their order does not change with the tty numbers. Those that are
/// `open` keep their number until they are closed, and are not looked into again.
///
/// # Errors
/// The folder of the ttys cannot be read; one tty that cannot is left out.
pub(in crate::ports) fn scan(sys: &Path, open: &[UsbTty]) -> io::Result<Vec<UsbTty>> {
    let class = sys.join("class/tty");
    let entries = fs::read_dir(&class)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", class.display())))?;
    let mut found: Vec<UsbTty> = entries
        .flatten()
        .take(TTYS_MAX)
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter_map(|name| {
            let known = open.iter().find(|tty| tty.name == name);
            match known {
                Some(tty) => Some(tty.clone()),
                None => identify(sys, &name).map(|id| UsbTty { id, name }),
            }
        })
        .collect();
    found.sort();
    Ok(found)
}

/// Who is behind a tty, when that is a USB interface.
pub(in crate::ports) fn identify(sys: &Path, tty: &str) -> Option<UsbId> {
    let class = sys.join("class/tty");
    let target = fs::read_link(class.join(tty)).ok()?;
    // Every USB device stands below its root hub, which saves all other ttys the walk.
    target
        .components()
        .find(|part| is_root_hub(part.as_os_str()))?;
    let mut folder = class.join(target);
    let mut interface = None;
    for _ in 0..LEVELS_MAX {
        // From `..` on it would not lead up any more.
        if folder.file_name().is_none() || !folder.pop() {
            return None;
        }
        // `1-2:1.0` is an interface, `1-2` a device; what a driver adds below them has
        // no such name, and need not be opened to know.
        let name = folder.file_name()?.to_str()?;
        if name.contains(':') {
            interface = attribute(&folder, "bInterfaceNumber")
                .and_then(|text| u8::from_str_radix(&text, 16).ok());
        } else if name.starts_with(|c: char| c.is_ascii_digit())
            && let Some(vendor) = attribute(&folder, "idVendor")
        {
            return Some(UsbId {
                vendor: hex16(&vendor)?,
                product: hex16(&attribute(&folder, "idProduct")?)?,
                serial: attribute(&folder, "serial"),
                interface,
            });
        }
    }
    None
}

/// Such as `usb1`.
fn is_root_hub(part: &std::ffi::OsStr) -> bool {
    let number = part.to_str().and_then(|part| part.strip_prefix("usb"));
    number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// The text of an attribute; none when it is not there, or empty. Control
/// characters, which a device may send, reach no terminal.
pub(in crate::ports) fn attribute(folder: &Path, name: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let file = File::open(folder.join(name)).ok()?;
    file.take(ATTRIBUTE_BYTES_MAX)
        .read_to_end(&mut bytes)
        .ok()?;
    let text: String = String::from_utf8_lossy(&bytes)
        .chars()
        .filter(|c| !c.is_control())
        .collect();
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// Where the system keeps what it knows of a tty's driver.
pub(in crate::ports) fn device_folder(sys: &Path, tty: &str) -> PathBuf {
    sys.join("class/tty").join(tty).join("device")
}
