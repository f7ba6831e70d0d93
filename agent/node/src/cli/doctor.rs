//! `forebay doctor`: what is missing on this gateway, and what to do.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::doctor::{codes, examine};
use crate::shell::output::{self, Csv, Form};
use crate::shell::{colour, sheets};

/// Looks at everything that an agent needs, and says what to do where it is not well
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay doctor --config gateway.toml
  sudo -u forebay forebay doctor --config /etc/forebay.toml --json

Config and its files, data directory and disk, ports, clock, brokers, databases, API, limits, and
the running agent if there is one, which is not disturbed. Each check has a code, ok, warn, fail or
skip, what was measured, and what to do: agent/node/docs/doctor.md.

Exit code: 0 when nothing fails, 4 when something does.")]
pub(super) struct DoctorArgs {
    /// Config of the agent
    #[arg(long, value_name = "FILE", default_value = super::CONFIG_DEFAULT)]
    config: PathBuf,
    /// Print the findings as one JSON object
    #[arg(long)]
    json: bool,
    /// Print the list of all checks, as Markdown
    #[arg(long, conflicts_with_all = ["json", "csv"])]
    list: bool,
    #[command(flatten)]
    csv: Csv,
}

/// Looks, and shows what was found.
pub(super) fn run(args: &DoctorArgs) -> ExitCode {
    if args.list {
        return output::print(&codes::list());
    }
    let report = examine(&args.config);
    let text = match args.csv.form(args.json) {
        Form::Json => report.to_json().to_string() + "\n",
        Form::Csv => sheets::FINDINGS.csv(&report.to_json()),
        Form::Text => report.text(colour::on()) + "\n",
    };
    match output::print(&text) {
        printed if printed == ExitCode::SUCCESS => report.exit().into(),
        failed => failed,
    }
}
