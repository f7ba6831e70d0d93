//! Time per reading of what has no disk: builder, decoder, merger.

use std::hint::black_box;
use std::time::Instant;

use forebay_core::log::block::{ReadingRecord, Series};
use forebay_core::log::decode::decode;
use forebay_core::log::key::StoredBlock;

use super::sizes::{live, sealed};
use super::{Figures, Told};
use crate::data::Board;
use crate::sys::pin_to_one_core;

pub(super) fn run(told: &Told) -> Result<Figures, String> {
    pin_to_one_core()?;
    let count = (told.sizes.rate_readings / 10) as usize;
    let mut board = Board::new(1, 7, 60);
    let given: Vec<(Series, ReadingRecord)> = (0..count)
        .map(|_| {
            let (series, reading) = board.next();
            (series.clone(), reading)
        })
        .collect();
    let (build, blocks) = timed(count, || live(&given));
    let (read, _) = timed(count, || read_all(&blocks));
    let (merge, merged) = timed(count, || sealed(blocks));
    let (read_sealed, _) = timed(count, || read_all(&merged));
    Ok(vec![
        ("build_ns", build),
        ("read_ns", read),
        ("merge_ns", merge),
        ("read_sealed_ns", read_sealed),
    ])
}

/// Nanoseconds per reading, and what came of it.
fn timed<T>(count: usize, work: impl FnOnce() -> T) -> (f64, T) {
    let started = Instant::now();
    let done = black_box(work());
    (started.elapsed().as_nanos() as f64 / count as f64, done)
}

fn read_all(blocks: &[StoredBlock]) -> usize {
    let read = |block: &StoredBlock| decode(block.key, &block.bytes).map_or(0, |b| b.body.len());
    blocks.iter().map(read).sum()
}
