//! DuckDB in memory over the readings that the engine is given.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use forebay_core::engine::Engine;

use super::Args;
use super::feed::{Feed, SECOND, pipeline};
use super::peers::{self, Peer};

/// Readings per second.
#[derive(Debug)]
pub(super) struct DuckDb {
    pub(super) tumbling: f64,
    pub(super) sliding: f64,
}

/// Over so many series at 1 Hz.
///
/// # Errors
/// Why it cannot be had.
pub(super) fn duckdb(series: usize, args: &Args) -> Result<DuckDb, String> {
    peers::bring(Peer::DuckDb, args)?;
    let path = args.dir.join("memory.csv");
    let readings = args.sizes().peer_readings;
    write(&path, series, readings)?;
    let said = peers::run_script(args, "duckdb_memory.py", &[&path])?;
    let rate = |name| said.number(name).map(|seconds| readings as f64 / seconds);
    Ok(DuckDb {
        tumbling: rate("tumbling_cpu_seconds")?,
        sliding: rate("sliding_cpu_seconds")?,
    })
}

fn write(path: &Path, series: usize, readings: usize) -> Result<(), String> {
    let mut engine = Engine::new(&pipeline(Vec::new()));
    let mut feed = Feed::new(&mut engine, series, SECOND)?;
    let write = || {
        let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
        for n in 0..readings {
            let (_, time, value) = feed.next();
            writeln!(out, "device-{},{},{value}", n % series, time.0)?;
        }
        out.flush()
    };
    let mut write = write;
    write().map_err(|e| format!("{}: {e}", path.display()))
}
