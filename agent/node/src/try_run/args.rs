//! The command line of `forebay try`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Readings that one batch holds at most.
const BATCH_MAX: u32 = 1_000_000;

/// Runs the windows of a config over recorded readings
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Example:
  forebay try --config pipeline.toml --input readings.ndjson

Input, one per line (time also as whole microseconds):
  {\"device\":\"d1\",\"channel\":\"temp\",\"time\":\"2026-03-01T00:00:00Z\",\"value\":21.5}
or CSV with the header device,channel,time,value

Results go to stdout, one JSON object per line; bad lines and a summary to stderr.
Exit code: 0; 1 with --strict when a line was bad; 2 when the config or an input cannot be used.")]
pub struct TryArgs {
    /// Config with `[engine]` and `[[window]]`
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// Readings, NDJSON or CSV; several are read one after the other; - is stdin
    #[arg(long, value_name = "FILE", required = true)]
    pub input: Vec<PathBuf>,
    /// Readings per step of the engine; changes no result
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=i64::from(BATCH_MAX)))]
    pub batch: u32,
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
