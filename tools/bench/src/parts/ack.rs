//! Time from the append of a reading to its ack, at a steady rate far below the
//! most that the log can take: what a device waits.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use forebay_core::commit::{CommitToken, GroupCommit};
use forebay_core::units::{Mono, Span};
use forebay_node::store::{Request, StoreSettings};

use super::{Figures, Told, remove};
use crate::data::Board;
use crate::limits::GROUP;
use crate::raw;
use crate::store::{AT, Log};
use crate::sys::device_bytes_written;

/// A thousand channels at 20 Hz.
const READINGS_PER_MS: u64 = 20;
/// About what the group interval brings at that rate.
const SYNC_BYTES: usize = 8 * 1024;

pub(super) fn run(told: &Told) -> Result<Figures, String> {
    let mut syncs = raw::syncs(&told.sub("raw"), SYNC_BYTES, told.sizes.syncs)?;
    let dir = told.sub("ack");
    remove(&dir)?;
    let mut log = Log::open(&dir, StoreSettings::default())?;
    let (written_before, mut bytes) = (device_bytes_written()?, 0);
    let linger = Span(GROUP.as_micros() as i64);
    let mut commit = GroupCommit::new(log.info.epoch, linger, log.heads.clone());
    let mut board = Board::new(1, 7, 60);
    let started = Instant::now();
    let us = || started.elapsed().as_micros() as u64;
    let end_us = told.sizes.ack_seconds * 1_000_000;
    // When each reading was appended, oldest first, and how long acked ones took.
    let (mut waiting, mut took) = (VecDeque::new(), Vec::new());
    let (mut given, mut next_offset) = (0_u64, log.head().0);
    while us() < end_us || !waiting.is_empty() {
        let due = us().min(end_us) / 1000 * READINGS_PER_MS;
        while given < due {
            let at = us();
            let (series, reading) = board.next();
            commit.reading(AT, series, &reading, Mono(at));
            waiting.push_back(at);
            given += 1;
        }
        if let Some((token, batch)) = commit.poll(Mono(us())) {
            bytes += batch.blocks.iter().map(|b| b.bytes.len()).sum::<usize>();
            log.ask(Request::Commit {
                token: token.0,
                batch,
            })?;
        }
        if let Some(token) = log.committed_within(Duration::from_micros(500))? {
            let now = us();
            for (_, head) in commit.committed(CommitToken(token)).heads {
                let acked = (head.0 - next_offset) as usize;
                took.extend(waiting.drain(..acked).map(|at| now - at));
                next_offset = head.0;
            }
        }
    }
    let written = device_bytes_written()? - written_before;
    log.stop();
    remove(&dir)?;
    syncs.extend(raw::syncs(&told.sub("raw"), SYNC_BYTES, told.sizes.syncs)?);
    syncs.sort_unstable();
    took.sort_unstable();
    let ms = |us: u64| us as f64 / 1e3;
    let sync_ms = |share| ms(at(&syncs, share).as_micros() as u64);
    Ok(vec![
        ("ack_p50_ms", ms(at(&took, 0.5))),
        ("ack_p99_ms", ms(at(&took, 0.99))),
        ("ack_max_ms", ms(at(&took, 1.0))),
        ("slow_written_factor", written as f64 / bytes as f64),
        ("sync_p50_ms", sync_ms(0.5)),
        ("sync_p99_ms", sync_ms(0.99)),
    ])
}

/// The value below which `share` of the sorted values are.
fn at<T: Copy + Default>(sorted: &[T], share: f64) -> T {
    let last = sorted.len().saturating_sub(1);
    let index = (last as f64 * share).ceil() as usize;
    sorted.get(index).copied().unwrap_or_default()
}
