//! Disk over many turns of a ring: a small quota, filled again and again, whose
//! oldest segments go as they would in the agent.

use std::collections::VecDeque;
use std::time::Duration;

use forebay_core::store::{SegmentInfo, StoreEvent, WriteBatch};
use forebay_node::store::{Request, StoreSettings};

use super::{Figures, Told, remove};
use crate::blocks::Blocks;
use crate::store::Log;
use crate::sys::disk_bytes;

/// The smallest store that must work, and generations of a sixteenth of it.
const QUOTA_BYTES: u64 = 4 * 1024 * 1024;
const SETTINGS: StoreSettings = StoreSettings {
    generation_bytes: QUOTA_BYTES / 16,
    generation_age: Duration::from_secs(3600),
    ballast_bytes: 64 * 1024,
};
/// Blocks of one commit, and looks at the disk in one turn.
const BLOCKS_AT_ONCE: usize = 8;
const LOOKS_PER_TURN: u64 = 4;

pub(super) fn run(told: &Told) -> Result<Figures, String> {
    let dir = told.sub("ring");
    remove(&dir)?;
    let mut log = Log::open(&dir, SETTINGS)?;
    let mut blocks = Blocks::of_noise(log.info.epoch, log.head());
    let mut segments: VecDeque<SegmentInfo> = VecDeque::new();
    let (mut written, mut looks) = (0, Vec::new());
    let look_each = QUOTA_BYTES / LOOKS_PER_TURN;
    while written < told.sizes.ring_turns * QUOTA_BYTES {
        let batch: Vec<_> = (0..BLOCKS_AT_ONCE).map(|_| blocks.make()).collect();
        written += batch.iter().map(|b| b.bytes.len() as u64).sum::<u64>();
        log.commit(WriteBatch {
            blocks: batch,
            meta: Vec::new(),
        })?;
        log.committed()?;
        for event in std::mem::take(&mut log.events) {
            if let StoreEvent::Sealed(sealed) = event {
                segments.extend(sealed);
            }
        }
        let mut kept: u64 = segments.iter().map(|segment| segment.bytes).sum();
        while kept > QUOTA_BYTES
            && let Some(oldest) = segments.pop_front()
        {
            kept -= oldest.bytes;
            log.ask(Request::Remove(vec![oldest.id]))?;
        }
        if written / look_each > looks.len() as u64 {
            looks.push(disk_bytes(&dir.join("log")));
        }
    }
    log.stop();
    remove(&dir)?;
    // The first turns fill the ring.
    let full = &looks[looks.len() / 10..];
    let (early, late) = full.split_at(full.len() / 2);
    let most = |looks: &[u64]| looks.iter().copied().max().unwrap_or(0) as f64;
    Ok(vec![
        ("turns", told.sizes.ring_turns as f64),
        ("growth", most(late) / most(early)),
        ("disk_per_quota", most(full) / QUOTA_BYTES as f64),
    ])
}
