//! Every bound of the link, with the relations between them asserted.

/// Longest frame before COBS: kind, body and CRC. One COBS code byte reaches
/// 254 bytes, so at 250 the encoding adds exactly one.
pub const FRAME_BYTES_MAX: usize = 250;
/// Kind byte and CRC-32.
pub const FRAME_OVERHEAD_BYTES: usize = 1 + 4;
/// Longest message body.
pub const BODY_BYTES_MAX: usize = FRAME_BYTES_MAX - FRAME_OVERHEAD_BYTES;
/// Longest frame on the line: COBS code byte, frame, delimiter.
pub const LINE_BYTES_MAX: usize = 1 + FRAME_BYTES_MAX + 1;
/// Channels of one device; the number shares a byte with three flag bits.
pub const CHANNELS_MAX: usize = 32;
/// Longest name of a channel's quantity, such as `temperature`.
pub const QUANTITY_BYTES_MAX: usize = 24;
/// Longest name of a unit, such as `degC`.
pub const UNIT_BYTES_MAX: usize = 12;
/// Most records in one Data frame.
pub const DATA_RECORDS_MAX: usize = 32;
/// Data frames that a device may have on the way unacked.
pub const WINDOW_FRAMES_MAX: u8 = 8;
/// Most decimal places of a channel's values.
pub const SCALE_MAX: u8 = 9;
/// Most talkative log level (trace).
pub const LOG_LEVEL_MAX: u8 = 5;

const _: () = assert!(LINE_BYTES_MAX <= 254, "COBS must add exactly one byte");
const _: () = assert!(QUANTITY_BYTES_MAX + UNIT_BYTES_MAX + 64 <= BODY_BYTES_MAX);
