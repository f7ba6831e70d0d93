//! One device at full load on a line at its rate that loses frames, both ways: nothing
//! may be missing at the end.

use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

use super::agent::{Agent, Setting, wait_until};
use super::board::{self, Board};
use super::row;
use crate::table::Row;

/// Chance of a frame to be spoiled.
const LOSS: f64 = 0.01;
const LOOK: Duration = Duration::from_millis(5);

/// A rate, and the readings per second that it must carry.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    baud: u32,
    readings_per_s: f64,
    group_ms: u32,
    linger_ms: u32,
}

/// At the higher rate a window of eight frames is 256 readings: 12,000 a second need an
/// ack each 21 ms, so the disk is asked more often than by default.
pub(super) const LOADS: [Load; 2] = [
    Load {
        baud: 115_200,
        readings_per_s: 1_500.0,
        group_ms: 50,
        linger_ms: 20,
    },
    Load {
        baud: 921_600,
        readings_per_s: 12_000.0,
        group_ms: 1,
        linger_ms: 5,
    },
];

pub(super) fn run(load: Load, forebay: &Path, dir: &Path, quick: bool) -> Result<Row, String> {
    let io = |error: std::io::Error| format!("line of {} baud: {error}", load.baud);
    let listener = TcpListener::bind("127.0.0.1:0").map_err(io)?;
    let address = listener.local_addr().map_err(io)?;
    let setting = Setting {
        ports: vec![format!(
            "[[device_port]]\nkind = \"tcp\"\naddress = \"{address}\"\n"
        )],
        group_ms: load.group_ms,
        linger_ms: load.linger_ms,
    };
    let agent = Agent::start(forebay, &dir.join(format!("line-{}", load.baud)), &setting)?;
    let (line, _) = listener.accept().map_err(io)?;
    let setting = board::Setting {
        readings_per_s: load.readings_per_s,
        baud: load.baud,
        loss: LOSS,
    };
    let board = Board::boot(setting, line)?;
    wait_until("the device is answered", || board.stats().1)?;
    let (started, before) = (Instant::now(), board.stats().0);
    let seconds = Duration::from_secs(if quick { 10 } else { 60 });
    let mut waiting = Vec::new();
    while started.elapsed() < seconds {
        std::thread::sleep(LOOK);
        waiting.push(board.stats().0.waiting);
    }
    let rate = (board.stats().0.acked - before.acked) as f64 / started.elapsed().as_secs_f64();
    board.stop_sampling();
    std::thread::sleep(Duration::from_millis(200));
    wait_until("all is acked", || board.stats().0.waiting == 0)?;
    let end = board.stats().0;
    drop(board);
    drop(agent);
    let mean = waiting.iter().sum::<u64>() as f64 / waiting.len() as f64;
    let wait_ms = mean / load.readings_per_s * 1e3;
    let missing = end.produced - end.acked;
    // A window is on the way when the counting ends.
    let reached = missing == 0 && rate >= 0.99 * load.readings_per_s;
    Ok(Row {
        reached: Some(reached),
        ..row(
            format!(
                "{} readings/s, one frame in 100 spoiled",
                load.readings_per_s
            ),
            format!("{} baud, group {} ms", load.baud, load.group_ms),
            format!(
                "{rate:.0} readings/s, {missing} missing, acked after {wait_ms:.0} ms, \
                 at most {} waited",
                waiting.iter().max().unwrap_or(&0)
            ),
            Some((load.readings_per_s, rate)),
            format!("{}, none missing", load.readings_per_s),
        )
    })
}
