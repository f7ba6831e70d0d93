//! The gateway's decoders of what a disk or a broker gives back: blocks behind a
//! right CRC, heads and ends of segments, payloads, the receiver's records.

use forebay_core::limits::MESSAGE_BYTES_MAX;
use forebay_core::log::decode::{decode, self_key};
use forebay_core::log::keyed::{
    KEYED_TRAILER_BYTES, check_bucket, decode_keyed_table, decode_keyed_trailer,
};
use forebay_core::log::segment::{decode_segment_footer, decode_segment_head};
use forebay_core::payload::{
    AckMessage, Command, DataBody, DataMessage, GatewayStatus, UpstreamHello, is_compact,
    parse_data_topic, plain, push_row,
};
use forebay_core::units::Offset;
use forebay_core::upstream::counters::Counters;
use forebay_core::upstream::tally::DeviceTally;

/// Where a block's CRC stands, and its length.
const CRC_AT: usize = 4;
const LENGTH_AT: usize = 8;

/// Bytes of a compact payload before its two names.
const ENVELOPE_FIXED_BYTES: usize = 3 + 1 + 1 + 16 + 4 + 8 + 2 + 8 + 8;

/// What passes for a block, with a CRC and a length that are right.
fn made_right(bytes: &[u8]) -> Vec<u8> {
    let mut block = bytes.to_vec();
    if let Ok(length) = u16::try_from(block.len())
        && block.len() > LENGTH_AT + 2
    {
        block[LENGTH_AT..LENGTH_AT + 2].copy_from_slice(&length.to_le_bytes());
        let crc = crc32c::crc32c_append(crc32c::crc32c(&block[..CRC_AT]), &block[LENGTH_AT..]);
        block[CRC_AT..LENGTH_AT].copy_from_slice(&crc.to_le_bytes());
    }
    block
}

/// A block, or what passes for one until its CRC and length are made right.
pub(crate) fn block(bytes: &[u8]) {
    for bytes in [bytes, &made_right(bytes)] {
        if let Some((key, _)) = self_key(bytes) {
            // An error says where; nothing else is asked of bytes of any kind.
            let _ = decode(key, bytes);
        }
    }
    let _ = decode_segment_head(bytes);
    let _ = decode_segment_footer(bytes, bytes.len() as u64);
    keyed(bytes);
    let _ = DeviceTally::from_bytes(bytes);
    let _ = Counters::from_bytes(bytes);
}

/// Rows by key: a bucket behind a right CRC, and the end of all of it.
fn keyed(bytes: &[u8]) {
    let crc = crc32c::crc32c(bytes).to_le_bytes();
    let bucket = [&crc[..], bytes].concat();
    if let Ok(rows) = check_bucket(&bucket) {
        assert!(rows <= bytes.len() as u64, "a row is a byte at least");
    }
    if let Ok(trailer) = decode_keyed_trailer(bytes, u64::MAX) {
        let end = bytes.len() - KEYED_TRAILER_BYTES;
        let start = end.saturating_sub(trailer.table_bytes());
        let _ = decode_keyed_table(&bytes[start..end], &trailer);
    }
}

/// A payload, as whatever it may be.
pub(crate) fn payload(bytes: &[u8]) {
    data(bytes);
    let _ = AckMessage::parse(bytes);
    let _ = Command::parse(bytes);
    let _ = GatewayStatus::parse(bytes);
    let _ = UpstreamHello::parse(bytes);
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = parse_data_topic(text);
        let _ = forebay_core::utc::parse(text);
    }
    if let Ok(plain) = plain(bytes) {
        assert!(
            plain.len() <= MESSAGE_BYTES_MAX,
            "memory that nobody allowed"
        );
    }
    if is_compact(bytes) {
        data(&with_its_block(bytes));
    }
}

/// What is taken can be kept, and says the same from there.
fn data(bytes: &[u8]) {
    let Ok(message) = DataMessage::parse(bytes) else {
        return;
    };
    let mut kept = Vec::new();
    let mut next = message.id.first;
    for part in message.to_compact(message.id.first, message.id.last) {
        let part = DataMessage::parse(&part).expect("our own bytes");
        assert_eq!(part.id.first, next, "a part is missing");
        next = Offset(part.id.last.0 + 1);
        kept.extend(rows(&part));
    }
    assert_eq!(next.0, message.id.last.0 + 1, "a part is missing");
    assert_eq!(kept, rows(&message), "it says something else");
}

fn rows(message: &DataMessage) -> Vec<Vec<u8>> {
    match &message.body {
        DataBody::Readings { series, records } => {
            let row = |record| {
                let mut out = Vec::new();
                push_row(series, record, &mut out);
                out
            };
            records.iter().map(row).collect()
        }
        DataBody::Rows(rows) => rows.clone(),
        DataBody::Missing(_) => Vec::new(),
    }
}

/// A compact payload whose block passes for one: a search finds no CRC.
fn with_its_block(bytes: &[u8]) -> Vec<u8> {
    let names = ENVELOPE_FIXED_BYTES;
    let after = |at: usize| bytes.get(at).map(|length| at + 1 + usize::from(*length));
    let block = after(names).and_then(after).filter(|at| *at <= bytes.len());
    let Some(at) = block else {
        return bytes.to_vec();
    };
    let mut out = bytes[..at].to_vec();
    out.extend(made_right(&bytes[at..]));
    out
}
