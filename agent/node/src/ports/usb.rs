//! Who a board is on USB: vendor, product, serial number, interface. A port that
//! is named so is found under whatever tty number the system gives it, and also
//! where nobody makes `/dev/serial/by-id`. Knows no file and no clock.

pub(super) mod book;
pub(super) mod sysfs;
#[cfg(test)]
mod tests;
pub(super) mod watch;

use std::cmp::Reverse;
use std::fmt;
use std::str::FromStr;

use super::limits::USB_SERIAL_BYTES_MAX;

/// What one interface of a board says of itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct UsbId {
    pub vendor: u16,
    pub product: u16,
    /// Many cheap adapters have none.
    pub serial: Option<String>,
    /// From 0; a board with two serial ports has two.
    pub interface: Option<u8>,
}

/// Which boards a port of the config takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsbMatch {
    pub vendor: u16,
    pub product: u16,
    /// `None`: any, also none.
    pub serial: Option<String>,
    /// `None`: any.
    pub interface: Option<u8>,
}

/// A tty of the system that belongs to a USB interface.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct UsbTty {
    pub(super) id: UsbId,
    /// Such as `ttyACM0`.
    pub(super) name: String,
}

impl UsbMatch {
    pub fn matches(&self, id: &UsbId) -> bool {
        (self.vendor, self.product) == (id.vendor, id.product)
            && (self.serial.is_none() || self.serial == id.serial)
            && (self.interface.is_none() || self.interface == id.interface)
    }

    /// Sorts the match that says more first.
    pub(super) fn rank(&self) -> Reverse<u8> {
        Reverse(u8::from(self.serial.is_some()) * 2 + u8::from(self.interface.is_some()))
    }
}

/// `2e8a:000a` or `2e8a:000a:E6614C311B7E9B35`. The serial number is all after the
/// second colon: some have colons themselves.
impl FromStr for UsbMatch {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.splitn(3, ':');
        let mut hex = || parts.next().and_then(hex16);
        let (Some(vendor), Some(product)) = (hex(), hex()) else {
            return Err(String::from(
                "must be vendor:product in four hex digits each, as `lsusb` shows them, and perhaps :serial; such as \"2e8a:000a\" or \"2e8a:000a:E6614C311B7E9B35\"",
            ));
        };
        let serial = parts.next().map(str::trim);
        if serial.is_some_and(|serial| {
            serial.is_empty() || serial.len() > USB_SERIAL_BYTES_MAX || serial.contains('\0')
        }) {
            return Err(format!(
                "needs a serial number of 1 to {USB_SERIAL_BYTES_MAX} characters after the second colon, or no second colon"
            ));
        }
        Ok(Self {
            vendor,
            product,
            serial: serial.map(str::to_owned),
            interface: None,
        })
    }
}

impl UsbId {
    /// What `usb = ` of a `[[device_port]]` takes for this board, without its
    /// interface.
    pub fn config_text(&self) -> String {
        let mut text = format!("{:04x}:{:04x}", self.vendor, self.product);
        if let Some(serial) = &self.serial {
            text.push(':');
            text.push_str(serial);
        }
        text
    }
}

/// Exactly four hex digits.
fn hex16(text: &str) -> Option<u16> {
    let plain = text.len() == 4 && text.bytes().all(|b| b.is_ascii_hexdigit());
    plain.then(|| u16::from_str_radix(text, 16).ok()).flatten()
}

fn show(
    f: &mut fmt::Formatter<'_>,
    ids: (u16, u16),
    serial: Option<&str>,
    interface: Option<u8>,
) -> fmt::Result {
    write!(f, "{:04x}:{:04x}", ids.0, ids.1)?;
    if let Some(serial) = serial {
        write!(f, ":{serial}")?;
    }
    match interface {
        Some(interface) => write!(f, " interface {interface}"),
        None => Ok(()),
    }
}

impl fmt::Display for UsbId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids = (self.vendor, self.product);
        show(f, ids, self.serial.as_deref(), self.interface)
    }
}

impl fmt::Display for UsbMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids = (self.vendor, self.product);
        show(f, ids, self.serial.as_deref(), self.interface)
    }
}
