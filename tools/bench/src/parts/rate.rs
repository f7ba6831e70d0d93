//! Readings per second on one core: builder, group commit, storage thread, sync,
//! and the sealing of full generations, all of it on that core.

use std::time::{Duration, Instant};

use forebay_core::commit::GroupCommit;
use forebay_core::units::{Mono, Span};
use forebay_node::store::{Request, StoreSettings};

use super::{Figures, Told, remove};
use crate::data::Board;
use crate::limits::GROUP;
use crate::raw;
use crate::store::{AT, Log};
use crate::sys::pin_to_one_core;

/// Readings between two looks at the clock and the answers: what one frame or one
/// read of a file brings.
const READINGS_AT_ONCE: u64 = 256;

pub(super) fn run(told: &Told) -> Result<Figures, String> {
    pin_to_one_core()?;
    let dir = told.sub("rate");
    remove(&dir)?;
    let mut log = Log::open(&dir, StoreSettings::default())?;
    let linger = Span(GROUP.as_micros() as i64);
    let mut commit = GroupCommit::new(log.info.epoch, linger, log.heads.clone());
    let mut board = Board::new(1, 7, 60);
    let started = Instant::now();
    let now = || Mono(started.elapsed().as_micros() as u64);
    // Kept to be appended to a plain file afterwards.
    let (mut given, mut written) = (0, Vec::new());
    while given < told.sizes.rate_readings || !commit.is_idle() {
        let has_room = given < told.sizes.rate_readings && commit.has_room();
        if has_room {
            let at = now();
            for _ in 0..READINGS_AT_ONCE {
                let (series, reading) = board.next();
                commit.reading(AT, series, &reading, at);
            }
            given += READINGS_AT_ONCE;
        }
        if let Some((token, batch)) = commit.poll(now()) {
            written.extend_from_slice(&batch.blocks);
            log.ask(Request::Commit {
                token: token.0,
                batch,
            })?;
        }
        let wait = if has_room {
            Duration::ZERO
        } else {
            Duration::from_millis(1)
        };
        if let Some(token) = log.committed_within(wait)? {
            commit.committed(forebay_core::commit::CommitToken(token));
        }
    }
    let took = started.elapsed().as_secs_f64();
    log.stop();
    remove(&dir)?;
    let raw = raw::append(&told.sub("raw"), &written)?.as_secs_f64();
    let bytes: usize = written.iter().map(|block| block.bytes.len()).sum();
    Ok(vec![
        ("readings_per_s", given as f64 / took),
        ("raw_readings_per_s", given as f64 / raw),
        ("bytes_per_reading", bytes as f64 / given as f64),
    ])
}
