//! `forebay upstream` on the command line.

use std::io::{BufWriter, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand};
use forebay_core::payload::{GatewayName, StreamName};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

use super::ledger::ledger_text;
use super::process::UpstreamProcess;
use super::sink::{self, RowFilter, SinkError};
use crate::config::{Config, UpstreamConfig};
use crate::ports::Say;
use crate::terminal::{EXIT_CONFIG, fail, print_line};

#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  forebay upstream --config upstream.toml
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

#[derive(Debug, Subcommand)]
enum UpstreamCommand {
    /// Print what was applied, one JSON object per line; the receiver must not run
    #[command(after_help = "\
Example: forebay upstream export --config upstream.toml --stream readings")]
    Export {
        #[command(flatten)]
        config: ConfigFile,
        /// Only this gateway
        #[arg(long)]
        gateway: Option<String>,
        /// Only this stream, such as readings
        #[arg(long)]
        stream: Option<String>,
        /// Print the rejected messages that are kept instead
        #[arg(long, conflicts_with_all = ["gateway", "stream"])]
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
    },
}

/// Runs the command.
#[must_use]
pub fn run(args: &UpstreamArgs) -> ExitCode {
    let path = match &args.command {
        None => &args.config.config,
        Some(UpstreamCommand::Export { config, .. } | UpstreamCommand::Status { config, .. }) => {
            &config.config
        }
    };
    let config = match load(path) {
        Ok(config) => config,
        Err(text) => {
            fail(&text);
            return ExitCode::from(EXIT_CONFIG);
        }
    };
    let done = match &args.command {
        None => receive(&config),
        Some(UpstreamCommand::Export {
            gateway,
            stream,
            rejected,
            ..
        }) => filter(gateway.as_deref(), stream.as_deref())
            .and_then(|filter| export(&config, &filter, *rejected)),
        Some(UpstreamCommand::Status { ledger, json, .. }) => status(&config, *ledger, *json),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => fail(&text),
    }
}

fn load(path: &Path) -> Result<UpstreamConfig, String> {
    let config = Config::load(path).map_err(|error| error.to_string())?;
    let upstream = config.upstream().map_err(|error| error.to_string())?;
    Ok(upstream.clone())
}

/// Receives until SIGINT or SIGTERM.
fn receive(config: &UpstreamConfig) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| format!("no threads: {error}"))?;
    runtime.block_on(async {
        let say: Say = Arc::new(|text: &str| eprintln!("forebay: {text}"));
        let listen = |kind| signal(kind).map_err(|error| format!("no signals: {error}"));
        let mut interrupt = listen(SignalKind::interrupt())?;
        let mut terminate = listen(SignalKind::terminate())?;
        let process = UpstreamProcess::spawn(config, &say)?;
        say(&format!(
            "upstream: {} readings in {}, broker {}",
            process.snapshot().readings,
            config.data_dir.display(),
            config.broker.address
        ));
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        let last = process.stop().await;
        say(&format!("upstream: stopped: {}", last.to_json()));
        last.sink_said.map_or(Ok(()), Err)
    })
}

fn filter(gateway: Option<&str>, stream: Option<&str>) -> Result<RowFilter, String> {
    let gateway = gateway.map(GatewayName::new).transpose();
    let stream = stream.map(StreamName::new).transpose();
    Ok(RowFilter {
        gateway: gateway.map_err(|error| error.to_string())?,
        stream: stream.map_err(|error| error.to_string())?,
        ..RowFilter::default()
    })
}

fn export(config: &UpstreamConfig, filter: &RowFilter, rejected: bool) -> Result<(), String> {
    let mut sink = sink::open_existing(config).map_err(|error| error.to_string())?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    let done = if rejected {
        sink::export_rejected(&mut *sink, &mut out)
    } else {
        sink::export(&mut *sink, filter, &mut out)
    };
    match done.and_then(|()| out.flush().map_err(SinkError::Output)) {
        // Who reads, as `head` does, may have enough.
        Err(SinkError::Output(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        done => done.map_err(|error| error.to_string()),
    }
}

fn status(config: &UpstreamConfig, ledger: bool, json: bool) -> Result<(), String> {
    let about = if ledger {
        json!({ "ledger": true })
    } else {
        json!({})
    };
    let answer = crate::local::ask(&config.socket, &json!({ "status": about }))?;
    // Who reads may have enough.
    let _ = match json {
        true => print_line(&answer.to_string()),
        false if ledger => print_line(&ledger_text(&answer["ledger"])),
        false => print_line(&status_text(&answer)),
    };
    Ok(())
}

/// A receiver's status, a line per figure.
#[must_use]
pub fn status_text(answer: &Value) -> String {
    let fields = answer.as_object().into_iter().flatten();
    let fields = fields.filter(|(key, _)| *key != "ledger");
    let lines = fields.map(|(key, value)| format!("{key:<14}{value}"));
    lines.collect::<Vec<_>>().join("\n")
}
