//! The gateway's decoders of what a disk or a broker gives back: blocks behind a
//! right CRC, heads and ends of segments, payloads, the receiver's records.

use forebay_core::log::decode::{decode, self_key};
use forebay_core::log::segment::{decode_segment_footer, decode_segment_head};
use forebay_core::payload::{
    AckMessage, Command, DataMessage, GatewayStatus, UpstreamHello, parse_data_topic,
};
use forebay_core::upstream::counters::Counters;
use forebay_core::upstream::tally::DeviceTally;

/// Where a block's CRC stands, and its length.
const CRC_AT: usize = 4;
const LENGTH_AT: usize = 8;

/// A block, or what passes for one until its CRC and length are made right.
pub(crate) fn block(bytes: &[u8]) {
    let mut block = bytes.to_vec();
    if let Ok(length) = u16::try_from(block.len())
        && block.len() > LENGTH_AT + 2
    {
        block[LENGTH_AT..LENGTH_AT + 2].copy_from_slice(&length.to_le_bytes());
        let crc = crc32c::crc32c_append(crc32c::crc32c(&block[..CRC_AT]), &block[LENGTH_AT..]);
        block[CRC_AT..LENGTH_AT].copy_from_slice(&crc.to_le_bytes());
    }
    for bytes in [bytes, &block] {
        if let Some((key, _)) = self_key(bytes) {
            // An error says where; nothing else is asked of bytes of any kind.
            let _ = decode(key, bytes);
        }
    }
    let _ = decode_segment_head(bytes);
    let _ = decode_segment_footer(bytes, bytes.len() as u64);
    let _ = DeviceTally::from_bytes(bytes);
    let _ = Counters::from_bytes(bytes);
}

/// A payload, as whatever it may be.
pub(crate) fn payload(bytes: &[u8]) {
    let _ = DataMessage::parse(bytes);
    let _ = AckMessage::parse(bytes);
    let _ = Command::parse(bytes);
    let _ = GatewayStatus::parse(bytes);
    let _ = UpstreamHello::parse(bytes);
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = parse_data_topic(text);
        let _ = forebay_core::utc::parse(text);
    }
}
