//! What the disk can do: the same blocks appended to plain files, with fdatasync
//! each group interval and a new file each 32 MiB.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use forebay_core::log::key::StoredBlock;

use crate::limits::{BATCH_BLOCKS, GROUP, RAW_FILE_BYTES};

/// Appends all blocks and returns the time until the last is durable.
pub(crate) fn append(dir: &Path, blocks: &[StoredBlock]) -> Result<Duration, String> {
    let fail = |error: std::io::Error| format!("{}: {error}", dir.display());
    std::fs::create_dir_all(dir).map_err(fail)?;
    let started = Instant::now();
    let (mut file, mut written, mut files) = (create(dir, 0).map_err(fail)?, 0, 0);
    let mut synced = Instant::now();
    let mut bytes = Vec::new();
    for batch in blocks.chunks(BATCH_BLOCKS) {
        bytes.clear();
        batch
            .iter()
            .for_each(|block| bytes.extend_from_slice(&block.bytes));
        file.write_all(&bytes).map_err(fail)?;
        written += bytes.len();
        if synced.elapsed() >= GROUP {
            file.sync_data().map_err(fail)?;
            synced = Instant::now();
        }
        if written >= RAW_FILE_BYTES {
            file.sync_data().map_err(fail)?;
            files += 1;
            (file, written) = (create(dir, files).map_err(fail)?, 0);
        }
    }
    file.sync_data().map_err(fail)?;
    let took = started.elapsed();
    std::fs::remove_dir_all(dir).map_err(fail)?;
    Ok(took)
}

fn create(dir: &Path, number: usize) -> std::io::Result<File> {
    File::create(dir.join(format!("raw-{number}")))
}

/// Times of fdatasync after appends of `bytes` each group interval, in order.
pub(crate) fn syncs(dir: &Path, bytes: usize, count: usize) -> Result<Vec<Duration>, String> {
    let fail = |error: std::io::Error| format!("{}: {error}", dir.display());
    std::fs::create_dir_all(dir).map_err(fail)?;
    let mut file = create(dir, 0).map_err(fail)?;
    let payload = vec![0x5a; bytes];
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        std::thread::sleep(GROUP);
        file.write_all(&payload).map_err(fail)?;
        let started = Instant::now();
        file.sync_data().map_err(fail)?;
        times.push(started.elapsed());
    }
    std::fs::remove_dir_all(dir).map_err(fail)?;
    Ok(times)
}
