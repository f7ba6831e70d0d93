//! The command line of `forebay ingest`.

use std::path::PathBuf;

use clap::Args;

use crate::import::{Format, InfluxRules, Precision};

/// Writes recorded readings into the log of a running or stopped agent
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Example:
  forebay ingest --config gateway.toml --input readings.csv

Input, as --format or the first line says:
  ndjson  {\"device\":\"d1\",\"channel\":\"temp\",\"time\":\"2026-03-01T00:00:00Z\",\"value\":21.5}
  csv     the header device,channel,time,value and, if there are, unit and quality
  influx  temp,device=d1 value=21.5 1772323200000000000

A time is RFC 3339 or whole microseconds since 1970; a reading without a value has
a quality such as bus_error. Of an Influx line each field is a reading: its channel
is the measurement, the field unless it is called value, and the tags other than
the device's: cpu.usage_idle,cpu=cpu0.

A device is a name from the config, sixteen hex digits, or any other name, which
the log then keeps. Bad lines are named on stderr and cost nothing else.

While the agent runs, the readings go to it through its local socket; when it does
not, its data directory is opened and the same is done there.

Exit code: 0; 4 when a line was bad; 2 when the input or the log cannot be used.")]
pub struct IngestArgs {
    /// File with readings; - is stdin
    #[arg(long, value_name = "FILE")]
    pub input: PathBuf,
    /// How the file is written, instead of what its first line shows
    #[arg(long, value_enum)]
    pub format: Option<Format>,
    /// Config of the agent
    #[arg(
        long,
        value_name = "FILE",
        default_value = "forebay.toml",
        conflicts_with = "data_dir"
    )]
    pub config: PathBuf,
    /// The agent's data directory, instead of a config
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// First line to take, to go on after an import that was cut short
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub from_line: u64,
    /// Influx: the tag that holds the device
    #[arg(long, value_name = "TAG", default_value = "device")]
    pub device_tag: String,
    /// Influx: what a time counts
    #[arg(long, value_enum, default_value_t = Precision::Ns)]
    pub precision: Precision,
    /// Print the summary as one line of JSON
    #[arg(long)]
    pub json: bool,
}

impl IngestArgs {
    pub(super) fn rules(&self) -> InfluxRules {
        InfluxRules {
            device_tag: self.device_tag.clone(),
            precision: self.precision,
        }
    }
}
