//! How much of a line of 2 Mbit/s a backlog fills with payload: from the log to
//! committed, over a network namespace, while nothing else uses the line.

use std::path::Path;
use std::time::{Duration, Instant};

use super::backlog;
use super::bytes::payload_bytes_per_reading;
use super::limits::{SHAPED_BITS_PER_S, SHAPED_PART_MIN, Sizes};
use super::line::Line;
use super::process::wait_for;
use super::rig::{self, Forwarding, Payload};
use super::row;
use crate::table::Row;

/// Bytes of blocks: more than the line takes meanwhile.
const BACKLOG_BYTES: u64 = 40_000_000;
/// Readings that are committed before the clock runs: the start is over.
const WARM_UP: u64 = 5_000;

pub(super) fn run(
    forebay: &Path,
    dir: &Path,
    sizes: Sizes,
    payloads: &[Payload],
) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for payload in payloads {
        let each = payload_bytes_per_reading(forebay, &dir.join("each"), *payload)?;
        rows.extend(once(forebay, &dir.join("line"), sizes, *payload, each)?);
    }
    Ok(rows)
}

fn once(
    forebay: &Path,
    dir: &Path,
    sizes: Sizes,
    payload: Payload,
    each: f64,
) -> Result<Vec<Row>, String> {
    rig::fresh_dir(dir)?;
    backlog::write(&dir.join("data"), BACKLOG_BYTES)?;
    let line = Line::open(SHAPED_BITS_PER_S)?;
    let port = rig::free_port()?;
    let _broker = rig::mosquitto(dir, "0.0.0.0", port, &[])?;
    let receiver = rig::receiver(forebay, dir, port, "")?;
    let forwarding = Forwarding {
        address: Line::NEAR.into(),
        port,
        payload,
        extra: String::new(),
    };
    let agent = rig::agent(forebay, dir, &forwarding, &line.within())?;
    let readings = || receiver.number(&["readings"]);
    let before = wait_for("the first readings are committed", || {
        readings().filter(|readings| *readings >= WARM_UP)
    })?;
    let (started, sent) = (Instant::now(), line.sent_bytes()?);
    std::thread::sleep(Duration::from_secs(sizes.shaped_s));
    let after = readings().ok_or("the receiver does not answer")?;
    let (seconds, sent) = (started.elapsed().as_secs_f64(), line.sent_bytes()? - sent);
    let again = receiver.number(&["duplicates"]).unwrap_or(0);
    let cut = agent.number(&["forward", "disconnects"]).unwrap_or(0);
    let rate = (after - before) as f64 / seconds;
    let part = rate * each * 8.0 / SHAPED_BITS_PER_S as f64;
    let mut row = row(
        "part of a line of 2 Mbit/s that payload fills".into(),
        payload.name().into(),
        format!(
            "{:.1} %, {rate:.0} readings/s; {again} again, {cut} disconnects",
            part * 100.0
        ),
        Some((part, SHAPED_PART_MIN, true)),
        ">= 80 %".into(),
    );
    row.beside = format!(
        "the line sent {:.1} %",
        sent as f64 * 8.0 / seconds / SHAPED_BITS_PER_S as f64 * 100.0
    );
    Ok(vec![row])
}
