//! `forebay upstream` on the command line.

use std::io::ErrorKind;
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use forebay_core::payload::{GatewayName, StreamName};
use forebay_core::units::EventTime;
use forebay_wire::ids::DeviceUid;
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

use super::export::{Export, export};
use super::ledger::ledger_text;
use super::process::UpstreamProcess;
use super::query::{self, RowQuery};
use super::sink::{self, RowFilter, Sink, SinkError};
use super::verify;
use crate::api::Api;
use crate::config::{Config, UpstreamConfig};
use crate::exit::{Exit, Failure};
use crate::export::Format;
use crate::ports::Say;
use crate::progress::Progress;
use crate::shell::output::{self, Csv, Form};
use crate::shell::{sheets, when};
use crate::terminal::print_line;

/// How long a running receiver may take to read its sink.
const PATIENCE: Duration = Duration::from_secs(3600);

#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  forebay upstream --config upstream.toml
  forebay upstream query --config upstream.toml --channel temperature --from -1h
  forebay upstream verify --config upstream.toml
  forebay upstream export --config upstream.toml > rows.ndjson"
)]
pub struct UpstreamArgs {
    #[command(flatten)]
    config: ConfigFile,
    #[command(subcommand)]
    command: Option<UpstreamCommand>,
}

#[derive(Debug, Args)]
struct ConfigFile {
    /// Config file with an `[upstream]` section
    #[arg(long, value_name = "FILE", default_value = "forebay.toml")]
    config: PathBuf,
}

/// Which rows are meant.
#[derive(Debug, Args)]
struct Rows {
    /// Only this gateway
    #[arg(long, value_parser = query::gateway)]
    gateway: Option<GatewayName>,
    /// Only this stream, such as readings
    #[arg(long, value_parser = query::stream)]
    stream: Option<StreamName>,
    /// Only this device: its 16 hex digits
    #[arg(long, value_parser = query::device, value_name = "UID")]
    device: Option<DeviceUid>,
    /// Only readings of this channel, such as temperature
    #[arg(long)]
    channel: Option<String>,
    /// First time (included): RFC 3339, microseconds since 1970, or so long ago, such as -1h
    #[arg(long, value_parser = when::parse, value_name = "TIME", allow_hyphen_values = true)]
    from: Option<EventTime>,
    /// Last time (not included), as in --from, or now
    #[arg(long, value_parser = when::parse, value_name = "TIME", allow_hyphen_values = true)]
    to: Option<EventTime>,
}

impl Rows {
    fn filter(&self) -> RowFilter {
        RowFilter {
            gateway: self.gateway.clone(),
            stream: self.stream.clone(),
            device: self.device,
            channel: self.channel.clone(),
            from: self.from,
            to: self.to,
        }
    }
}

#[derive(Debug, Subcommand)]
enum UpstreamCommand {
    /// Print rows that were applied, of a receiver that runs or not
    #[command(after_help = "\
Example:
  forebay upstream query --config upstream.toml --gateway gw-1 --channel temperature --from -1h

Rows come partition by partition in the order of the gateway's log, with --json each as it was
applied, on a line of its own.")]
    Query {
        #[command(flatten)]
        config: ConfigFile,
        #[command(flatten)]
        rows: Rows,
        /// At most so many rows, 1 to 10000
        #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=10_000))]
        limit: u16,
        /// Print each row as a line of JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        csv: Csv,
    },
    /// Prove that each offset was applied once, or declared to never come
    #[command(after_help = "\
Example: forebay upstream verify --config upstream.toml --gateway gw-1

Exit code 0: proven. 4: something was applied twice, is lost, or has not come yet; each range
of offsets is named. 1: the sink cannot be read. 2: the config cannot be read.
While the receiver runs, it answers between two commits.")]
    Verify {
        #[command(flatten)]
        config: ConfigFile,
        /// Only this gateway
        #[arg(long, value_parser = query::gateway)]
        gateway: Option<GatewayName>,
        /// Print the answer as one line of JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        csv: Csv,
    },
    /// Write what was applied into a file; the receiver must not run
    #[command(after_help = "\
Examples:
  forebay upstream export --config upstream.toml --stream readings > rows.ndjson
  forebay upstream export --config upstream.toml --output readings.parquet

NDJSON holds each row as it was applied. CSV and Parquet hold readings, or, with --stream, the
rows of another stream; declared gaps and what the gateway's clock said are then left out.")]
    Export {
        #[command(flatten)]
        config: ConfigFile,
        #[command(flatten)]
        rows: Rows,
        /// How to write; without it, as the output's name ends, or NDJSON
        #[arg(long, value_enum)]
        format: Option<Format>,
        /// File to write; - is stdout
        #[arg(long, value_name = "FILE", default_value = "-")]
        output: PathBuf,
        /// Print the rejected messages that are kept instead
        #[arg(long, conflicts_with_all = ["gateway", "stream", "device", "channel", "from", "to", "format", "output"])]
        rejected: bool,
    },
    /// How the running receiver is doing
    #[command(after_help = "Example: forebay upstream status --config upstream.toml --json")]
    Status {
        #[command(flatten)]
        config: ConfigFile,
        /// What was applied of each device, and whether the sums close
        #[arg(long)]
        ledger: bool,
        /// Print the answer as one line of JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        csv: Csv,
    },
}

impl UpstreamCommand {
    fn rows(&self) -> Option<&Rows> {
        match self {
            Self::Query { rows, .. } | Self::Export { rows, .. } => Some(rows),
            Self::Verify { .. } | Self::Status { .. } => None,
        }
    }

    fn config(&self) -> &Path {
        match self {
            Self::Query { config, .. }
            | Self::Verify { config, .. }
            | Self::Export { config, .. }
            | Self::Status { config, .. } => &config.config,
        }
    }
}

/// Runs the command.
#[must_use]
pub fn run(args: &UpstreamArgs) -> ExitCode {
    let path = args.command.as_ref().map(UpstreamCommand::config);
    let config = match load(path.unwrap_or(&args.config.config)) {
        Ok(config) => config,
        Err(text) => return output::failed(&Failure::usage(text)),
    };
    if let Some(rows) = args.command.as_ref().and_then(UpstreamCommand::rows)
        && let Err(text) = when::check_range(rows.from, rows.to)
    {
        return output::failed(&Failure::usage(text));
    }
    let done = match &args.command {
        None => receive(&config)
            .map(|()| Exit::Ok.into())
            .map_err(Failure::from),
        Some(UpstreamCommand::Query {
            rows,
            limit,
            json,
            csv,
            ..
        }) => show_rows(&config, rows.filter(), usize::from(*limit), csv.form(*json)),
        Some(UpstreamCommand::Verify {
            gateway, json, csv, ..
        }) => prove(&config, gateway.as_ref(), csv.form(*json)),
        Some(UpstreamCommand::Export { rejected: true, .. }) => {
            export_rejected(&config).map_err(Failure::from)
        }
        Some(UpstreamCommand::Export {
            rows,
            format,
            output,
            ..
        }) => export_rows(&config, rows.filter(), *format, output).map_err(Failure::from),
        Some(UpstreamCommand::Status {
            ledger, json, csv, ..
        }) => status(&config, *ledger, csv.form(*json)),
    };
    done.unwrap_or_else(|failure| output::failed(&failure))
}

fn load(path: &Path) -> Result<UpstreamConfig, String> {
    let config = Config::load(path).map_err(|error| error.to_string())?;
    let upstream = config.upstream().map_err(|error| error.to_string())?;
    Ok(upstream.clone())
}

/// Receives until SIGINT or SIGTERM.
fn receive(config: &UpstreamConfig) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(usize::from(config.share.workers).max(2))
        .enable_all()
        .build()
        .map_err(|error| format!("no threads: {error}"))?;
    runtime.block_on(async {
        let say: Say = Arc::new(|text: &str| eprintln!("forebay: {text}"));
        let listen = |kind| signal(kind).map_err(|error| format!("no signals: {error}"));
        let mut interrupt = listen(SignalKind::interrupt())?;
        let mut terminate = listen(SignalKind::terminate())?;
        let process = UpstreamProcess::spawn(config, &say)?;
        let api = match &config.api {
            None => None,
            Some(api) => match Api::start_receiver(api, process.asked(), &say).await {
                Ok(api) => Some(api),
                Err(text) => {
                    process.stop().await;
                    return Err(text);
                }
            },
        };
        say(&format!(
            "upstream: {} readings in {}, broker {}",
            process.snapshot().readings,
            config.data_dir.display(),
            config.broker.address
        ));
        if let Some(address) = api.as_ref().and_then(Api::address) {
            say(&format!("upstream: HTTP on {address}"));
        }
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        drop(api);
        let last = process.stop().await;
        say(&format!("upstream: stopped: {}", last.to_json()));
        last.sink_said.map_or(Ok(()), Err)
    })
}

/// Whether a receiver listens.
fn runs(config: &UpstreamConfig) -> bool {
    UnixStream::connect(&config.socket).is_ok()
}

/// Asks the running receiver, or the sink when none runs.
fn ask(
    config: &UpstreamConfig,
    request: &Value,
    of_sink: impl FnOnce(&mut dyn Sink) -> Result<Value, String>,
) -> Result<Value, Failure> {
    if runs(config) {
        return crate::local::ask_line(&config.socket, &request.to_string(), PATIENCE);
    }
    let mut sink = sink::open_existing(config).map_err(|error| error.to_string())?;
    of_sink(sink.as_mut()).map_err(Failure::from)
}

fn show_rows(
    config: &UpstreamConfig,
    filter: RowFilter,
    limit: usize,
    form: Form,
) -> Result<ExitCode, Failure> {
    let query = RowQuery { filter, limit };
    let answer = ask(config, &query.to_json(), |sink| query.ask(sink))?;
    let printed = match form {
        Form::Text => return Ok(print_line(&query::text(&answer))),
        Form::Csv => output::print(&sheets::UPSTREAM_ROWS.csv(&query::read(&answer))),
        Form::Json => {
            let rows = answer["rows"].as_array().into_iter().flatten();
            let lines = rows.filter_map(Value::as_str);
            output::print(&lines.map(|line| format!("{line}\n")).collect::<String>())
        }
    };
    if answer["more"] == true {
        // Not among the rows, which a program reads.
        eprintln!("forebay: there are more rows: raise --limit, or ask for less");
    }
    Ok(printed)
}

fn prove(
    config: &UpstreamConfig,
    gateway: Option<&GatewayName>,
    form: Form,
) -> Result<ExitCode, Failure> {
    let request = json!({ "verify": { "gateway": gateway.map(GatewayName::as_str) } });
    let of_sink = |sink: &mut dyn Sink| {
        let report = verify::verify(sink, gateway).map_err(|error| error.to_string())?;
        Ok(report.to_json())
    };
    let bar = Progress::waiting("the sink is being read").shown(form == Form::Text);
    let report = ask(config, &request, of_sink)?;
    drop(bar);
    let printed = output::answer(form, &sheets::UPSTREAM_PROOF, &report, verify::text);
    Ok(match report["proven"] == true {
        true => printed,
        false => Exit::Found.into(),
    })
}

/// Opens the sink, which the receiver must not hold.
fn open(config: &UpstreamConfig) -> Result<Box<dyn Sink>, String> {
    sink::open_existing(config).map_err(|error| error.to_string())
}

fn export_rejected(config: &UpstreamConfig) -> Result<ExitCode, String> {
    let mut sink = open(config)?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let done = sink::export_rejected(&mut *sink, &mut out);
    match done.and_then(|()| out.flush().map_err(SinkError::Output)) {
        // Who reads, as `head` does, may have enough.
        Err(SinkError::Output(error)) if error.kind() == ErrorKind::BrokenPipe => {}
        done => done.map_err(|error| error.to_string())?,
    }
    Ok(Exit::Ok.into())
}

fn export_rows(
    config: &UpstreamConfig,
    filter: RowFilter,
    format: Option<Format>,
    output: &Path,
) -> Result<ExitCode, String> {
    let mut sink = open(config)?;
    let end = output.extension().and_then(|end| end.to_str());
    let format = format.unwrap_or(match end {
        Some("csv") => Format::Csv,
        Some("parquet") => Format::Parquet,
        Some(_) | None => Format::Ndjson,
    });
    let what = Export {
        filter,
        format,
        output,
        progress: Progress::count("rows"),
    };
    let written = export(sink.as_mut(), &what)?;
    if let Some(written) = written.filter(|_| output != Path::new("-")) {
        let left_out = match written.left_out {
            0 => String::new(),
            rows => format!("; {rows} rows are no readings and were left out"),
        };
        print_line(&format!(
            "{}: {} rows{left_out}",
            output.display(),
            written.rows
        ));
    }
    Ok(Exit::Ok.into())
}

fn status(config: &UpstreamConfig, ledger: bool, form: Form) -> Result<ExitCode, Failure> {
    let about = if ledger {
        json!({ "ledger": true })
    } else {
        json!({})
    };
    let answer = crate::local::ask(&config.socket, &json!({ "status": about }))?;
    Ok(match (ledger, form) {
        (true, form) => show_ledger(form, &answer),
        (false, Form::Csv) => output::print(&sheets::FIGURES.csv(&output::figures(&answer))),
        (false, form) => output::answer(form, &sheets::FIGURES, &answer, status_text),
    })
}

/// Prints a status with its ledger.
pub fn show_ledger(form: Form, answer: &Value) -> ExitCode {
    match form {
        Form::Csv => output::print(&sheets::UPSTREAM_LEDGER.csv(&answer["ledger"])),
        Form::Text | Form::Json => {
            output::answer(form, &sheets::UPSTREAM_LEDGER, answer, |answer| {
                ledger_text(&answer["ledger"])
            })
        }
    }
}

/// A receiver's status, a line per figure.
#[must_use]
pub fn status_text(answer: &Value) -> String {
    let fields = answer.as_object().into_iter().flatten();
    let fields = fields.filter(|(key, _)| !["ledger", "alarms"].contains(&key.as_str()));
    let lines = fields.map(|(key, value)| format!("{key:<16}{value}"));
    let mut lines: Vec<String> = lines.collect();
    let alarms = answer["alarms"].as_array();
    if alarms.is_some_and(|alarms| !alarms.is_empty()) {
        lines.push(sheets::ALARMS.text(answer));
    }
    lines.join("\n")
}
