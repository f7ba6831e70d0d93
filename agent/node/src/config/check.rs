//! `forebay config check`: whether a config can be used, and what it says.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::{Config, ConfigError};
use crate::exit::Exit;

/// Says whether a config and the files of its brokers can be used, and what is wrong where if not
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Example:
  forebay config check config/gateway.toml

Exit code: 0 when it can be used, 2 when not.")]
pub struct CheckArgs {
    /// The config to check
    #[arg(value_name = "FILE", required_unless_present = "config")]
    pub file: Option<PathBuf>,
    /// The same, as other commands take it
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    pub config: Option<PathBuf>,
    /// Print the answer as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Runs the command on stdout and stderr. `files` looks at what the config names.
#[must_use]
pub fn run(args: &CheckArgs, files: impl Fn(&Config) -> Result<(), ConfigError>) -> ExitCode {
    let path = args.file.as_ref().or(args.config.as_ref());
    let checked = Config::load(path.map_or(Path::new(""), PathBuf::as_path));
    let checked = checked.and_then(|config| files(&config).map(|()| config));
    let text = match (&checked, args.json) {
        (Ok(config), true) => good_json(config).to_string(),
        (Err(error), true) => bad_json(error).to_string(),
        (Ok(config), false) => good_text(config),
        (Err(error), false) => {
            let _ = writeln!(io::stderr(), "forebay: {error}");
            return Exit::Usage.into();
        }
    };
    let _ = writeln!(io::stdout(), "{text}");
    match checked {
        Ok(_) => Exit::Ok.into(),
        Err(_) => Exit::Usage.into(),
    }
}

fn good_text(config: &Config) -> String {
    let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let brokers = config.forward.iter().map(|f| f.broker.address.as_str());
    let brokers: Vec<&str> = brokers.collect();
    let forward = if brokers.is_empty() {
        "nothing is forwarded".to_owned()
    } else {
        format!("forwarded to {}", brokers.join(", "))
    };
    format!(
        "{}: good: gateway {}, {}, {}, {}, {}, {forward}",
        config.file.display(),
        config.agent.gateway.as_deref().unwrap_or("not named"),
        count(config.device_ports.len(), "device port"),
        count(config.engine.windows.len(), "window"),
        count(config.engine.tables.len(), "table"),
        count(config.engine.joins.len(), "join"),
    )
}

fn good_json(config: &Config) -> Value {
    let windows = config.engine.windows.iter();
    let (tables, joins) = (config.engine.tables.iter(), config.engine.joins.iter());
    json!({
        "ok": true,
        "file": config.file.display().to_string(),
        "gateway": config.agent.gateway,
        "data_dir": config.agent.data_dir.display().to_string(),
        "device_ports": config.device_ports.len(),
        "windows": windows.map(|w| w.name.as_str()).collect::<Vec<_>>(),
        "tables": tables.map(|t| t.name.as_str()).collect::<Vec<_>>(),
        "joins": joins.map(|j| j.name.as_str()).collect::<Vec<_>>(),
        "forward": config.forward.first().map(|f| f.broker.address.as_str()),
        "destinations": config.forward.iter().map(|f| json!({
            "name": f.settings.name,
            "broker": f.broker.address,
        })).collect::<Value>(),
        "upstream": config.upstream.as_ref().map(|u| u.broker.address.as_str()),
    })
}

fn bad_json(error: &ConfigError) -> Value {
    json!({
        "ok": false,
        "file": error.file.display().to_string(),
        "line": error.line,
        "key": error.place,
        "error": error.what,
    })
}
