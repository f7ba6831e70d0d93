//! Bytes per reading, head and names of the blocks included.

use std::path::Path;

use forebay_core::log::block::{ReadingRecord, Series};
use forebay_core::log::builder::ReadingsBuilder;
use forebay_core::log::key::StoredBlock;
use forebay_core::log::merge::Merger;
use forebay_core::units::{Epoch, Offset};

use super::{Figures, Told};
use crate::data::{Board, Dice, machine};
use crate::store::{AT, key};

const READINGS: usize = 100 * 512;

pub(super) fn run(told: &Told) -> Result<Figures, String> {
    let values = match &told.values {
        Some(path) => read_values(path)?,
        None => twin(),
    };
    let machine = machine(&values);
    let mut board = Board::new(1, 7, 60);
    let board: Vec<_> = (0..READINGS)
        .map(|_| {
            let (series, reading) = board.next();
            (series.clone(), reading)
        })
        .collect();
    let each = |blocks: &[StoredBlock], readings: usize| {
        let bytes: usize = blocks.iter().map(|block| block.bytes.len()).sum();
        bytes as f64 / readings as f64
    };
    let live = live(&board);
    let live_each = each(&live, board.len());
    Ok(vec![
        (
            "machine_is_real",
            f64::from(u8::from(told.values.is_some())),
        ),
        (
            "machine_sealed",
            each(&sealed(self::live(&machine)), machine.len()),
        ),
        ("board_live", live_each),
        ("board_sealed", each(&sealed(live), board.len())),
    ])
}

/// The last column of a CSV file.
fn read_values(path: &Path) -> Result<Vec<f64>, String> {
    let text =
        std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let value = |line: &str| line.rsplit(',').next()?.parse().ok();
    let values: Vec<f64> = text.lines().skip(1).filter_map(value).collect();
    if values.is_empty() {
        return Err(format!("{}: no values", path.display()));
    }
    Ok(values)
}

/// Like a real one: eight decimals that wander.
fn twin() -> Vec<f64> {
    let mut dice = Dice(5);
    let mut value = 80.0_f64;
    (0..READINGS / 2)
        .map(|_| {
            value += (dice.next() >> 33) as f64 / f64::from(1 << 30) - 1.0;
            (value * 1e8).round() / 1e8
        })
        .collect()
}

pub(super) fn live(given: &[(Series, ReadingRecord)]) -> Vec<StoredBlock> {
    let mut builder = ReadingsBuilder::new();
    let (mut blocks, mut base) = (Vec::new(), 0);
    let mut seal = |builder: &mut ReadingsBuilder| {
        let key = key(Offset(base));
        base += builder.len() as u64;
        let bytes = builder.seal(AT, key.base, Epoch(1));
        blocks.push(StoredBlock { key, bytes });
    };
    for (series, reading) in given {
        if builder.push_reading(series, reading).is_err() {
            seal(&mut builder);
            // An empty builder takes any reading.
            let _ = builder.push_reading(series, reading);
        }
    }
    if !builder.is_empty() {
        seal(&mut builder);
    }
    blocks
}

pub(super) fn sealed(blocks: Vec<StoredBlock>) -> Vec<StoredBlock> {
    let mut merger = Merger::new();
    let mut out: Vec<_> = blocks.into_iter().flat_map(|b| merger.push(b)).collect();
    out.extend(merger.finish());
    out
}
