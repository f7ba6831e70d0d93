//! How soon a backlog moves after a reconnect when no reading comes in: from the CONNACK
//! to the first data message, again and again on the same agent.

use std::path::Path;

use super::backlog;
use super::limits::{RECONNECT_S_MAX, Sizes};
use super::rig::{self, Forwarding, Payload};
use super::row;
use super::tap::{Next, Tap};
use crate::table::Row;

/// Bytes of blocks: more than is sent meanwhile.
const BACKLOG_BYTES: u64 = 20_000_000;
/// Messages that the broker takes before it cuts the connection.
const MESSAGES: u32 = 20;

pub(super) fn run(forebay: &Path, dir: &Path, sizes: Sizes) -> Result<Vec<Row>, String> {
    rig::fresh_dir(dir)?;
    backlog::write(&dir.join("data"), BACKLOG_BYTES)?;
    let tap = Tap::open(0)?;
    let forwarding = Forwarding {
        address: "127.0.0.1".into(),
        port: tap.port,
        payload: Payload::Json,
        extra: String::new(),
    };
    let _agent = rig::agent(forebay, dir, &forwarding, &[])?;
    let mut waits = Vec::new();
    for _ in 0..sizes.reconnects {
        let mut count = 0;
        tap.serve(|packet| {
            if count == 0 {
                waits.push(packet.after.as_secs_f64());
            }
            count += 1;
            Ok(Next::enough_if(count == MESSAGES))
        })?;
    }
    // The first is a start and no reconnect.
    let slowest = waits.iter().skip(1).copied().fold(0.0, f64::max);
    Ok(vec![row(
        "from CONNACK to the first of the backlog, nothing new".into(),
        format!("{} reconnects", waits.len() - 1),
        format!(
            "{:.1} ms at the most; after the start {:.1} ms",
            slowest * 1e3,
            waits[0] * 1e3
        ),
        Some((slowest, RECONNECT_S_MAX, false)),
        "<= 1 s".into(),
    )])
}
