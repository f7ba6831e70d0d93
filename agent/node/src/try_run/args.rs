//! The command line of `forebay try`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Readings that one batch holds at most.
const BATCH_MAX: u32 = 1_000_000;

/// Enough that the cost per batch does not show, few enough that its columns stay in the
/// processor's first cache.
const BATCH_DEFAULT: u32 = 1024;

/// Runs the windows and joins of a config over recorded readings
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Example:
  forebay try --config pipeline.toml --input readings.ndjson

Input, one per line (time also as whole microseconds):
  {\"device\":\"d1\",\"channel\":\"temp\",\"time\":\"2026-03-01T00:00:00Z\",\"value\":21.5}
  {\"table\":\"sites\",\"op\":\"insert\",\"key\":\"d1\",\"time\":...,\"row\":{...}}  a change: insert, update, delete,
                                             heartbeat (key and row left out); of any table
                                             whose source is not the config
  {\"control\":\"watermark\",\"device\":\"d1\",\"time\":...}  nothing older comes; without device: of all
  {\"control\":\"clock\",\"time\":...}                    the gateway's clock says this
  {\"control\":\"restart\"}                              checkpoint, forget all, recover
  {\"control\":\"crash\"}                                forget all, recover
or CSV with the header device,channel,time,value

Results go to stdout, one JSON object per line; bad lines and a summary to stderr.
Exit code: 0; 1 with --strict when a line was bad; 2 when the config or an input cannot be used;
3 when recovery after a crash line gave other output than before.")]
pub struct TryArgs {
    /// Config with `[engine]`, `[[window]]`, `[[table]]` and `[[join]]`
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// Readings, NDJSON or CSV; several are read one after the other; - is stdin
    #[arg(long, value_name = "FILE", required = true)]
    pub input: Vec<PathBuf>,
    /// Readings per step of the engine; changes no result
    #[arg(long, value_name = "N", default_value_t = BATCH_DEFAULT, value_parser = clap::value_parser!(u32).range(1..=i64::from(BATCH_MAX)))]
    pub batch: u32,
    /// Keep checkpoints in this folder; what an earlier run left there is replaced
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Leave windows open at the end of the input
    #[arg(long)]
    pub no_flush: bool,
    /// Exit with 1 when a line was bad
    #[arg(long)]
    pub strict: bool,
    /// How the counters are shown at the end of stderr
    #[arg(long, value_enum, default_value_t = Summary::Text)]
    pub summary: Summary,
}

/// Form of the summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Summary {
    Text,
    Json,
}
