//! Bytes per second of full blocks against the raw append of the same, the disk
//! that they take and the bytes that the device writes for them.

use std::path::Path;
use std::time::Instant;

use forebay_core::log::key::StoredBlock;
use forebay_core::store::{Store as _, WriteBatch};
use forebay_core::units::{Epoch, Offset};
use forebay_node::store::StoreSettings;

use super::{Figures, Told, mb, remove};
use crate::blocks::Blocks;
use crate::limits::{BATCH_BLOCKS, BATCHES_UNDER_WAY, Sizes};
use crate::raw;
use crate::store::{Log, open_store};
use crate::sys::{device_bytes_written, disk_bytes};

/// One run of the store.
struct Run {
    bytes_per_s: f64,
    with_sealing: f64,
    disk: f64,
    disk_peak: f64,
    written: f64,
}

pub(super) fn run(told: &Told) -> Result<Figures, String> {
    let blocks = make(&told.sizes);
    let bytes: usize = blocks.iter().map(|block| block.bytes.len()).sum();
    let bytes = bytes as f64;
    let (mut raws, mut runs) = (Vec::new(), Vec::new());
    for _ in 0..told.sizes.store_rounds {
        let took = raw::append(&told.sub("raw"), &blocks)?;
        raws.push(bytes / took.as_secs_f64());
        runs.push(measure(&told.sub("store"), &blocks, bytes)?);
    }
    let of = |f: fn(&Run) -> f64| median(runs.iter().map(f).collect());
    let raw = median(raws);
    Ok(vec![
        ("block_bytes", bytes / blocks.len() as f64),
        ("raw_mb_per_s", mb(raw)),
        ("store_mb_per_s", mb(of(|run| run.bytes_per_s))),
        ("share", of(|run| run.bytes_per_s) / raw),
        ("sealed_mb_per_s", mb(of(|run| run.with_sealing))),
        ("disk_factor", of(|run| run.disk)),
        ("disk_factor_peak", of(|run| run.disk_peak)),
        ("written_factor", of(|run| run.written)),
    ])
}

/// The epoch of a new log is its first.
fn make(sizes: &Sizes) -> Vec<StoredBlock> {
    let mut maker = Blocks::of_noise(Epoch(1), Offset(0));
    let (mut blocks, mut bytes) = (Vec::new(), 0);
    while bytes < sizes.store_bytes {
        let block = maker.make();
        bytes += block.bytes.len();
        blocks.push(block);
    }
    blocks
}

fn measure(dir: &Path, blocks: &[StoredBlock], bytes: f64) -> Result<Run, String> {
    remove(dir)?;
    let written_before = device_bytes_written()?;
    let mut log = Log::open(dir, StoreSettings::default())?;
    let started = Instant::now();
    let (mut under_way, mut disk_peak) = (0, 0);
    for (n, batch) in blocks.chunks(BATCH_BLOCKS).enumerate() {
        log.commit(WriteBatch {
            blocks: batch.to_vec(),
            meta: Vec::new(),
        })?;
        under_way += 1;
        while under_way >= BATCHES_UNDER_WAY {
            log.committed()?;
            under_way -= 1;
        }
        if n % 16 == 15 {
            disk_peak = disk_peak.max(disk_bytes(&dir.join("log")));
        }
    }
    for _ in 0..under_way {
        log.committed()?;
    }
    let to_ack = started.elapsed().as_secs_f64();
    log.stop();
    // What was not sealed yet is now; the rest of the time is a part of the price.
    let (mut store, _) = open_store(dir, StoreSettings::default())?;
    store.seal_all().map_err(|error| error.to_string())?;
    store.sync().map_err(|error| error.to_string())?;
    let to_sealed = started.elapsed().as_secs_f64();
    let disk = disk_bytes(&dir.join("log"));
    drop(store);
    let written = device_bytes_written()? - written_before;
    remove(dir)?;
    Ok(Run {
        bytes_per_s: bytes / to_ack,
        with_sealing: bytes / to_sealed,
        disk: disk as f64 / bytes,
        disk_peak: disk_peak.max(disk) as f64 / bytes,
        written: written as f64 / bytes,
    })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
