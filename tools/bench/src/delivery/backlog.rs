//! The log that is drained: full blocks of a board with seven channels, written as
//! fast as the disk takes them, and sealed as an agent's log is.

use std::path::Path;
use std::time::Instant;

use forebay_core::limits::BLOCK_RECORDS_MAX;
use forebay_core::log::builder::ReadingsBuilder;
use forebay_core::log::key::StoredBlock;
use forebay_core::store::{Store as _, StoreError, WriteBatch};
use forebay_core::units::Offset;
use forebay_node::store::StoreSettings;

use crate::data::Board;
use crate::limits::BATCH_BLOCKS;
use crate::store::{AT, key, open_store};

pub(super) const CHANNELS: u8 = 7;
/// How far a value goes at once, hundredths.
const STEP: i64 = 60;
/// Batches between two syncs.
const BATCHES_PER_SYNC: usize = 8;

/// What was written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Backlog {
    pub(super) readings: u64,
    /// Of blocks as they were appended.
    pub(super) bytes: u64,
}

/// Writes a log of so many bytes of full blocks.
pub(super) fn write(dir: &Path, bytes: u64) -> Result<Backlog, String> {
    write_of(dir, bytes, BLOCK_RECORDS_MAX)
}

/// As [`write()`], of blocks of so many readings at the most.
pub(super) fn write_of(dir: &Path, bytes: u64, readings: usize) -> Result<Backlog, String> {
    let (mut store, opened) = open_store(dir, StoreSettings::default())?;
    let fail = |error: StoreError| error.to_string();
    let mut board = Board::new(1, CHANNELS, STEP);
    let mut builder = ReadingsBuilder::new();
    let mut backlog = Backlog {
        readings: 0,
        bytes: 0,
    };
    let started = Instant::now();
    let mut batches = 0;
    while backlog.bytes < bytes {
        let mut blocks = Vec::with_capacity(BATCH_BLOCKS);
        while blocks.len() < BATCH_BLOCKS {
            let (series, reading) = board.next();
            let is_full = builder.len() >= readings;
            if is_full || builder.push_reading(series, &reading).is_err() {
                let key = key(Offset(backlog.readings));
                backlog.readings += builder.len() as u64;
                let bytes = builder.seal(AT, key.base, opened.info.epoch);
                backlog.bytes += bytes.len() as u64;
                blocks.push(StoredBlock { key, bytes });
                // An empty builder takes any reading.
                let _ = builder.push_reading(series, &reading);
            }
        }
        let meta = Vec::new();
        store.append(&WriteBatch { blocks, meta }).map_err(fail)?;
        batches += 1;
        if batches % BATCHES_PER_SYNC == 0 {
            store.sync().map_err(fail)?;
            while store.poll_event().is_some() {}
        }
    }
    store.sync().map_err(fail)?;
    println!(
        "a log of {} readings, {} bytes, written in {:.1} s",
        backlog.readings,
        backlog.bytes,
        started.elapsed().as_secs_f64()
    );
    Ok(backlog)
}
