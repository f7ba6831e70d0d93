//! A long log: filled once, then read front to back, and opened again after a kill.

use std::io::Write as _;
use std::time::{Duration, Instant};

use forebay_core::limits::FETCH_BYTES_MAX;
use forebay_core::log::decode::decode;
use forebay_core::store::{Store as _, WriteBatch};
use forebay_node::store::StoreSettings;

use super::{Figures, Told, mb, remove};
use crate::blocks::Blocks;
use crate::limits::BATCH_BLOCKS;
use crate::store::{Log, open_store};
use crate::sys::{disk_bytes, rss_peak_bytes};

const NAME: &str = "backlog";
/// Batches between two syncs while it is filled.
const BATCHES_PER_SYNC: usize = 8;
/// What an appending process says once it goes on.
pub(crate) const APPENDING: &str = "appending";
/// What it says when its first append is durable.
pub(crate) const ACKED: &str = "acked";

pub(super) fn fill(told: &Told) -> Result<Figures, String> {
    let dir = told.sub(NAME);
    remove(&dir)?;
    let (mut store, opened) = open_store(&dir, StoreSettings::default())?;
    let mut blocks = Blocks::of_noise(opened.info.epoch, forebay_core::units::Offset(0));
    let fail = |error: forebay_core::store::StoreError| error.to_string();
    let started = Instant::now();
    let (mut written, mut batches) = (0, 0);
    while written < told.sizes.backlog_bytes {
        let batch = WriteBatch {
            blocks: (0..BATCH_BLOCKS).map(|_| blocks.make()).collect(),
            meta: Vec::new(),
        };
        written += batch
            .blocks
            .iter()
            .map(|b| b.bytes.len() as u64)
            .sum::<u64>();
        store.append(&batch).map_err(fail)?;
        batches += 1;
        if batches % BATCHES_PER_SYNC == 0 {
            store.sync().map_err(fail)?;
            while store.poll_event().is_some() {}
        }
    }
    store.sync().map_err(fail)?;
    Ok(vec![
        ("filled_bytes", written as f64),
        ("filled_disk_bytes", disk_bytes(&dir) as f64),
        ("fill_s", started.elapsed().as_secs_f64()),
        (
            "fill_rss_mib",
            rss_peak_bytes()? as f64 / f64::from(1 << 20),
        ),
    ])
}

/// Reads each block as a consumer does, one fetch after another.
pub(super) fn drain(told: &Told) -> Result<Figures, String> {
    let mut log = Log::open(&told.sub(NAME), StoreSettings::default())?;
    let end = log.head();
    let started = Instant::now();
    let (mut next, mut bytes, mut records) = (forebay_core::units::Offset(0), 0, 0);
    while next < end {
        let blocks = log.fetch(next, FETCH_BYTES_MAX)?;
        let before = next;
        for stored in blocks {
            let block = decode(stored.key, &stored.bytes).map_err(|error| error.to_string())?;
            if block.base != next {
                return Err(format!("offset {} came after {}", block.base.0, next.0));
            }
            next = block.end();
            bytes += stored.bytes.len();
            records += block.body.len();
        }
        if next == before {
            return Err(format!("nothing at offset {} of {}", next.0, end.0));
        }
    }
    let took = started.elapsed().as_secs_f64();
    Ok(vec![
        ("drained_bytes", bytes as f64),
        ("drain_mb_per_s", mb(bytes as f64) / took),
        ("drained_records", records as f64),
        (
            "drain_rss_mib",
            rss_peak_bytes()? as f64 / f64::from(1 << 20),
        ),
    ])
}

/// Goes on until it is killed: a second and a half is enough to be in the middle.
pub(super) fn append(told: &Told) -> Result<Figures, String> {
    let mut log = Log::open(&told.sub(NAME), StoreSettings::default())?;
    let mut blocks = Blocks::of_noise(log.info.epoch, log.head());
    let started = Instant::now();
    let mut is_said = false;
    while started.elapsed() < Duration::from_secs(60) {
        let batch = (0..BATCH_BLOCKS).map(|_| blocks.make()).collect();
        log.commit(WriteBatch {
            blocks: batch,
            meta: Vec::new(),
        })?;
        log.committed()?;
        if !is_said && started.elapsed() > Duration::from_millis(1500) {
            say(APPENDING);
            is_said = true;
        }
    }
    Err("nobody killed it".into())
}

pub(super) fn first_ack(told: &Told) -> Result<Figures, String> {
    let mut log = Log::open(&told.sub(NAME), StoreSettings::default())?;
    let mut blocks = Blocks::of_noise(log.info.epoch, log.head());
    log.commit(WriteBatch {
        blocks: vec![blocks.make_small()],
        meta: Vec::new(),
    })?;
    log.committed()?;
    say(ACKED);
    let rss = rss_peak_bytes()? as f64 / f64::from(1 << 20);
    log.stop();
    Ok(vec![("restart_rss_mib", rss)])
}

fn say(word: &str) {
    println!("{word}");
    // Whoever listens is measured by when it hears.
    let _ = std::io::stdout().flush();
}
