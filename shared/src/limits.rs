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
/// Most errors of a channel that Health counts: two bytes on the line.
pub const ERRORS_MAX: u16 = (1 << 14) - 1;
/// Longest arguments of a command.
pub const CMD_ARGS_BYTES_MAX: usize = 16;
/// Longest payload of a command's result.
pub const CMD_RESULT_BYTES_MAX: usize = 32;
/// Longest log frame.
pub const LOG_FRAME_BYTES_MAX: usize = BODY_BYTES_MAX;
/// First version of a config; 0 is what was built.
pub const CONFIG_VERSION_MIN: u32 = 1;
/// Longest config.
pub const CONFIG_BYTES_MAX: usize = 384;
/// Bytes of a config in one frame.
pub const CONFIG_CHUNK_BYTES_MAX: usize = 128;
/// Most frames of one config.
pub const CONFIG_CHUNKS_MAX: usize = CONFIG_BYTES_MAX.div_ceil(CONFIG_CHUNK_BYTES_MAX);
/// Shortest sampling period that can be set, us.
pub const PERIOD_US_MIN: u32 = 1_000;
/// Longest sampling period that can be set, us.
pub const PERIOD_US_MAX: u32 = 3_600_000_000;

const _: () = assert!(LINE_BYTES_MAX <= 254, "COBS must add exactly one byte");
const _: () = assert!(QUANTITY_BYTES_MAX + UNIT_BYTES_MAX + 64 <= BODY_BYTES_MAX);
const _: () = assert!(
    CONFIG_CHUNK_BYTES_MAX + 16 <= BODY_BYTES_MAX,
    "a chunk must fit into a frame with its numbers"
);
const _: () = assert!(
    2 + CHANNELS_MAX * (1 + 5 + 5) <= CONFIG_BYTES_MAX,
    "the settings of all channels must fit"
);
const _: () = assert!(
    15 * 5 + 7 * 10 + 5 + 1 + CHANNELS_MAX * 2 <= BODY_BYTES_MAX,
    "the largest Health must fit into a frame"
);
