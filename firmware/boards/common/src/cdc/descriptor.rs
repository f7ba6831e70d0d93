//! What the device says of itself over USB: descriptors, as bytes. Knows no requests.
//!
//! Numbers from "Universal Serial Bus Specification 2.0", chapter 9, and "Class
//! Definitions for Communication Devices 1.2" with its PSTN subclass.

/// pid.codes' vendor, and its product number for tests of one's own: who sells boards
/// needs a number of his own.
pub const VENDOR_ID: u16 = 0x1209;
pub const PRODUCT_ID: u16 = 0x0001;

/// Endpoint of the notifications that the class asks for.
pub(super) const CONTROL_IN: u8 = 0x81;
pub(super) const DATA_OUT: u8 = 0x02;
pub(super) const DATA_IN: u8 = 0x82;
/// Full-speed bulk and control packets.
pub(super) const PACKET_BYTES: u8 = 64;
pub(super) const NOTIFY_BYTES: u8 = 8;
pub(super) const NOTIFY_INTERVAL_MS: u8 = 255;

pub(super) const DEVICE_TYPE: u8 = 1;
pub(super) const CONFIGURATION_TYPE: u8 = 2;
pub(super) const STRING_TYPE: u8 = 3;

const SERIAL_STRING: u8 = 3;
const MANUFACTURER: &str = "Forebay";
const PRODUCT: &str = "Forebay device";

const fn low(word: u16) -> u8 {
    word.to_le_bytes()[0]
}

const fn high(word: u16) -> u8 {
    word.to_le_bytes()[1]
}

#[rustfmt::skip]
pub(super) static DEVICE: [u8; 18] = [
    18, DEVICE_TYPE,
    0x00, 0x02,                          // USB 2.0
    0x02, 0x00, 0x00,                    // class: communication
    PACKET_BYTES,
    low(VENDOR_ID), high(VENDOR_ID),
    low(PRODUCT_ID), high(PRODUCT_ID),
    0x00, 0x01,                          // release 1.0
    1, 2, SERIAL_STRING,                 // strings
    1,                                   // configurations
];

const CONFIGURATION_BYTES: usize = 67;

#[rustfmt::skip]
pub(super) static CONFIGURATION: [u8; CONFIGURATION_BYTES] = [
    9, CONFIGURATION_TYPE,
    CONFIGURATION_BYTES as u8, 0,
    2, 1, 0,                             // interfaces, number of this one, no string
    0x80, 50,                            // powered by the bus, 100 mA
    // Interface 0: communication, abstract control model, no protocol.
    9, 4, 0, 0, 1, 0x02, 0x02, 0x00, 0,
    5, 0x24, 0x00, 0x10, 0x01,           // header: CDC 1.10
    5, 0x24, 0x01, 0x00, 1,              // call management: none
    4, 0x24, 0x02, 0x02,                 // ACM: line coding and line state
    5, 0x24, 0x06, 0, 1,                 // union: control 0, data 1
    7, 5, CONTROL_IN, 0x03, NOTIFY_BYTES, 0, NOTIFY_INTERVAL_MS,
    // Interface 1: data.
    9, 4, 1, 0, 2, 0x0a, 0x00, 0x00, 0,
    7, 5, DATA_OUT, 0x02, PACKET_BYTES, 0, 0,
    7, 5, DATA_IN, 0x02, PACKET_BYTES, 0, 0,
];

/// Writes string `index` into `buffer` and returns its length; `None`: there is none.
pub(super) fn string(index: u8, uid: [u8; 8], buffer: &mut [u8]) -> Option<usize> {
    let mut serial = [0; 16];
    for (digit, place) in serial.iter_mut().enumerate() {
        let nibble = uid[digit / 2] >> (4 - digit % 2 * 4) & 0xf;
        *place = b"0123456789abcdef"[usize::from(nibble)];
    }
    let text = match index {
        // The only language: English (United States), 0x0409.
        0 => &[0x09][..],
        1 => MANUFACTURER.as_bytes(),
        2 => PRODUCT.as_bytes(),
        SERIAL_STRING => &serial,
        _ => return None,
    };
    let count = 2 + 2 * text.len();
    let out = buffer.get_mut(..count)?;
    out[0] = count as u8;
    out[1] = STRING_TYPE;
    let (units, _) = out[2..].as_chunks_mut();
    for (unit, byte) in units.iter_mut().zip(text) {
        *unit = [*byte, if index == 0 { 0x04 } else { 0 }];
    }
    Some(count)
}
