//! Bytes per reading on the wire: whole PUBLISH packets of a real agent, of full blocks
//! of seven channels, and of such as a slow board fills live. What TCP adds is not counted.

use std::path::Path;

use forebay_core::limits::BLOCK_RECORDS_MAX;
use forebay_core::payload::DataMessage;

use super::backlog;
use super::limits::{COMPACT_BYTES_MAX, JSON_BYTES_MAX};
use super::rig::{self, Forwarding, Payload};
use super::row;
use super::tap::{Next, Packet, Tap};
use crate::table::Row;

/// Bytes of blocks: a sealed part and one that is not.
const BACKLOG_BYTES: u64 = 40_000_000;
const LIVE_BYTES: u64 = 1_000_000;
/// Readings of blocks that are not full: one of each channel, and ten.
const LIVE_READINGS: [usize; 2] = [7, 70];
/// Messages that are looked at.
const MESSAGES: u64 = 1000;

/// Sums over data messages.
#[derive(Debug, Default)]
struct Sums {
    readings: u64,
    bytes: usize,
    payload_bytes: usize,
    messages: u64,
}

pub(super) fn run(forebay: &Path, dir: &Path, payloads: &[Payload]) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for payload in payloads {
        let full = sums(forebay, dir, *payload, BLOCK_RECORDS_MAX)?;
        rows.push(row_of(*payload, &full));
        for readings in LIVE_READINGS {
            let live = sums(forebay, dir, *payload, readings)?;
            rows.push(Row {
                must: String::new(),
                reached: None,
                ..row_of(*payload, &live)
            });
        }
    }
    Ok(rows)
}

/// Bytes of payload per reading, without what MQTT adds.
pub(super) fn payload_bytes_per_reading(
    forebay: &Path,
    dir: &Path,
    payload: Payload,
) -> Result<f64, String> {
    let sums = sums(forebay, dir, payload, BLOCK_RECORDS_MAX)?;
    Ok(sums.payload_bytes as f64 / sums.readings as f64)
}

/// Lets an agent send from a log of its own to a broker that counts.
fn sums(
    forebay: &Path,
    dir: &Path,
    payload: Payload,
    block_readings: usize,
) -> Result<Sums, String> {
    rig::fresh_dir(dir)?;
    // A log of small blocks is not sealed: that would join them.
    let bytes = match block_readings {
        BLOCK_RECORDS_MAX => BACKLOG_BYTES,
        _ => LIVE_BYTES,
    };
    backlog::write_of(&dir.join("data"), bytes, block_readings)?;
    let tap = Tap::open(0)?;
    let forwarding = Forwarding {
        address: "127.0.0.1".into(),
        port: tap.port,
        payload,
        extra: String::new(),
    };
    let _agent = rig::agent(forebay, dir, &forwarding, &[])?;
    let mut sums = Sums::default();
    tap.serve(|packet| {
        sums.add(packet)?;
        Ok(Next::enough_if(sums.messages == MESSAGES))
    })?;
    Ok(sums)
}

impl Sums {
    fn add(&mut self, packet: &Packet) -> Result<(), String> {
        let message = DataMessage::parse(&packet.payload).map_err(|error| error.to_string())?;
        self.readings += message.id.last.0 - message.id.first.0 + 1;
        self.bytes += packet.bytes;
        self.payload_bytes += packet.payload.len();
        self.messages += 1;
        Ok(())
    }
}

fn row_of(payload: Payload, sums: &Sums) -> Row {
    let each = sums.bytes as f64 / sums.readings as f64;
    let must = match payload {
        Payload::Json => JSON_BYTES_MAX,
        Payload::Compact => COMPACT_BYTES_MAX,
    };
    row(
        "bytes per reading on the wire, 7 channels".into(),
        payload.name().into(),
        format!(
            "{each:.2}, {:.0} readings a message, {:.0} bytes of MQTT",
            sums.readings as f64 / sums.messages as f64,
            (sums.bytes - sums.payload_bytes) as f64 / sums.messages as f64
        ),
        Some((each, must, false)),
        format!("<= {must}"),
    )
}
