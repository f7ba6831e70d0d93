//! The link's decoders: lines, bodies behind a right CRC, settings. What is taken
//! can be written, and is then read as the same.

use forebay_wire::limits::{CONFIG_BYTES_MAX, LINE_BYTES_MAX};
use forebay_wire::{
    Counters, Deframer, DeviceMessage, Frame, GatewayMessage, Kind, LINK_VERSION, Settings, frame,
};

/// Bytes as they come from a device.
pub(crate) fn device_line(bytes: &[u8]) {
    let mut deframer = Deframer::new();
    let mut messages = 0;
    deframer.receive_device(bytes, |message| {
        if let Ok(message) = message {
            again_device(&message);
            messages += 1;
        }
    });
    check(bytes, deframer.counters(), messages);
}

/// Bytes as they come from a gateway.
pub(crate) fn gateway_line(bytes: &[u8]) {
    let mut deframer = Deframer::new();
    let mut messages = 0;
    deframer.receive_gateway(bytes, |message| {
        if let Ok(message) = message {
            again_gateway(&message);
            messages += 1;
        }
    });
    check(bytes, deframer.counters(), messages);
}

/// Each run between delimiters ends in exactly one counter.
fn check(bytes: &[u8], counters: &Counters, messages: u64) {
    let ended = bytes.iter().rposition(|byte| *byte == 0);
    let whole = ended.map_or(&[][..], |end| &bytes[..end]);
    let runs = whole.split(|byte| *byte == 0).filter(|run| !run.is_empty());
    assert_eq!(counters.total(), runs.count() as u64, "{counters:?}");
    assert_eq!(counters.ok, messages, "{counters:?}");
}

/// The kind's number, then a body; the CRC is made right.
pub(crate) fn device_body(bytes: &[u8]) {
    let Some((kind_byte, body)) = split(bytes) else {
        return;
    };
    let Ok(message) = DeviceMessage::decode(Frame { kind_byte, body }) else {
        return;
    };
    let written = again_device(&message);
    // A reset cause that a newer firmware appended is read as unknown.
    if !matches!(message, DeviceMessage::Hello(_)) {
        assert_eq!(written, body, "{message:?}");
    }
}

/// As [`device_body`], from a gateway.
pub(crate) fn gateway_body(bytes: &[u8]) {
    let Some((kind_byte, body)) = split(bytes) else {
        return;
    };
    let Ok(message) = GatewayMessage::decode(Frame { kind_byte, body }) else {
        return;
    };
    let written = again_gateway(&message);
    // The arguments of an operation that is not known are not kept.
    if !matches!(message, GatewayMessage::Cmd(_)) {
        assert_eq!(written, body, "{message:?}");
    }
}

/// A whole config.
pub(crate) fn settings(bytes: &[u8]) {
    if let Ok(settings) = Settings::decode(bytes) {
        let mut out = [0; CONFIG_BYTES_MAX];
        let length = settings.encode(&mut out).unwrap();
        assert_eq!(out[..length], *bytes, "{settings:?}");
    }
}

fn split(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let (number, body) = bytes.split_first()?;
    Some((LINK_VERSION << 4 | number & 0x0F, body))
}

/// Writes what was read and reads it again; the body that was written.
fn again_device(message: &DeviceMessage<'_>) -> Vec<u8> {
    let mut line = [0; LINE_BYTES_MAX];
    // Data is written record by record, through a builder that the tests of shared
    // compare; here its records are read to the last.
    if let DeviceMessage::Data(data) = message {
        assert!(data.records().all(|record| record.is_ok()));
        assert!(data.end() > data.first);
    }
    let length = message.encode(&mut line).unwrap();
    let frame = frame::open(&mut line[..length - 1]).unwrap();
    assert_eq!(DeviceMessage::decode(frame).as_ref(), Ok(message));
    frame.body.to_vec()
}

fn again_gateway(message: &GatewayMessage<'_>) -> Vec<u8> {
    let mut line = [0; LINE_BYTES_MAX];
    let length = message.encode(&mut line).unwrap();
    let frame = frame::open(&mut line[..length - 1]).unwrap();
    assert_eq!(GatewayMessage::decode(frame).as_ref(), Ok(message));
    assert!(!Kind::from_number(frame.number()).unwrap().is_from_device());
    frame.body.to_vec()
}
