//! What state costs: bytes in memory per series and window, and the time of a
//! checkpoint while the engine runs.

use forebay_core::checkpoint::pace::Pace;
use forebay_core::engine::config::{EngineConfig, WindowSpec};
use forebay_core::units::Mono;

use super::feed::{BATCH, MINUTE, SECOND, pipeline, sliding, tumbling};
use super::limits::Sizes;
use super::rates::{Running, SLIDING, TUMBLING, Task};
use crate::memory;
use crate::sys;

const SERIES: usize = 10_000;
/// Windows of the pipeline that is weighed.
const WINDOWS: usize = 4;

/// Bytes per series and window, of tumbling windows: with all that stands for a window
/// and beside it, room to grow included, without what a series costs by itself.
pub(super) fn tumbling_bytes() -> Result<f64, String> {
    let window = |n: usize| WindowSpec {
        name: format!("tumbling-{n}"),
        ..tumbling(MINUTE, &TUMBLING)
    };
    let with = live_bytes(&pipeline((0..WINDOWS).map(window).collect()), 90)?;
    let without = live_bytes(&pipeline(Vec::new()), 90)?;
    Ok((with - without) / (SERIES * WINDOWS) as f64)
}

/// Bytes per series of a rolling window that holds only the reading of its line, and
/// bytes per reading more.
pub(super) fn sliding_bytes() -> Result<(f64, f64), String> {
    let of = |seconds: i64| {
        let window = sliding(seconds * SECOND, &SLIDING);
        live_bytes(&pipeline(vec![window]), seconds as usize + 30)
    };
    let without = live_bytes(&pipeline(Vec::new()), 31)?;
    let (small, large) = (of(1)?, of(601)?);
    Ok((
        (small - without) / SERIES as f64,
        (large - small) / (600 * SERIES) as f64,
    ))
}

/// Bytes on the heap for an engine over 10,000 series that has seen so many readings
/// of each.
fn live_bytes(config: &EngineConfig, readings: usize) -> Result<f64, String> {
    let before = memory::start();
    let running = Running::warm(config, SERIES, SECOND, readings * SERIES);
    let after = memory::stop();
    // Lives until here.
    drop(running?);
    Ok((after - before) as f64)
}

/// What checkpoints cost.
#[derive(Debug, Default)]
pub(super) struct Checkpoints {
    pub(super) plain_ns: f64,
    pub(super) with_ns: f64,
    pub(super) each_ms: f64,
    pub(super) bytes: f64,
    pub(super) count: u64,
    pub(super) readings: u64,
}

impl Checkpoints {
    pub(super) fn added(&self) -> f64 {
        self.with_ns / self.plain_ns - 1.0
    }
}

/// When checkpoints are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    /// As the agent does while it reads a log as fast as it can.
    Behind,
    /// As the agent does when readings come in as they are made.
    Live,
}

/// The time per reading of 10,000 series without and with checkpoints, at the
/// intervals of the agent.
pub(super) fn checkpoints(
    windows: Vec<WindowSpec>,
    when: When,
    sizes: &Sizes,
) -> Result<Checkpoints, String> {
    let mut running = Running::warm(&pipeline(windows), SERIES, SECOND, 70 * SERIES)?;
    let plain_ns = running.ns_each(sizes)?;
    let mut done = Checkpoints {
        plain_ns,
        ..Checkpoints::default()
    };
    // The first one holds everything, later ones what changed.
    running.engine.take_changes();
    let (mut spent, mut in_checkpoints) = (0.0, 0.0);
    let mut pace = Pace::new(Mono(0));
    let behind = match when {
        When::Behind => u64::MAX,
        When::Live => 0,
    };
    while spent < sizes.checkpoint_s {
        let batches = running.feed.batches(100 * BATCH, BATCH);
        for batch in &batches {
            let started = sys::thread_cpu_s()?;
            running.step(batch);
            done.readings += batch.len() as u64;
            let rows = running.rows.len() as u64;
            let now = |spent: f64| Mono((spent * 1e6) as u64);
            pace.on_fed((batch.len() as u64, rows), rows > 0, now(spent));
            let bytes = running.engine.changed_bytes() as u64;
            if pace.is_due(bytes, behind, now(spent)) {
                let began = sys::thread_cpu_s()?;
                let entries = running.engine.take_changes();
                let values = entries.iter().filter_map(|entry| entry.value.as_ref());
                done.bytes += values.map(Vec::len).sum::<usize>() as f64;
                drop(entries);
                done.count += 1;
                in_checkpoints += sys::thread_cpu_s()? - began;
                pace = Pace::new(now(spent));
            }
            spent += sys::thread_cpu_s()? - started;
        }
    }
    // What looking at the clock takes is in neither.
    done.with_ns = plain_ns + in_checkpoints * 1e9 / done.readings as f64;
    let count = done.count.max(1) as f64;
    done.each_ms = in_checkpoints * 1e3 / count;
    done.bytes /= count;
    Ok(done)
}

/// The pipelines whose checkpoints are timed.
pub(super) fn checkpointed() -> [(&'static str, Vec<WindowSpec>); 2] {
    let both = vec![tumbling(MINUTE, &TUMBLING), sliding(MINUTE, &SLIDING)];
    [
        (Task::Tumbling.name(), vec![tumbling(MINUTE, &TUMBLING)]),
        ("tumbling and sliding", both),
    ]
}
