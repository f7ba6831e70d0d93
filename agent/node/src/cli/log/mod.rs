//! `forebay log`: the log of a stopped agent, listed, shown, checked, repaired and
//! exported. Only `repair` changes anything.

mod check;
mod export;
mod ls;
mod repair;
mod scan;
mod show;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use forebay_core::import::restore_names;
use forebay_core::log::topic::EXCHANGE;
use forebay_core::query::Names;
use forebay_core::store::Loss;
use forebay_core::topics::TopicTable;
use forebay_core::units::{EventTime, TopicId};
use forebay_core::utc::time_value;
use forebay_wire::ids::DeviceUid;
use serde_json::{Value, json};

use crate::config::Config;
use crate::exit::Failure;
use crate::shell::output;
use crate::store::{LogReader, OpenError, StoreSettings};

/// The topic that no receiver hears of: readings that stand elsewhere already.
const UNSENT: [(TopicId, &str); 1] = [(EXCHANGE, "exchange")];

#[derive(Debug, Subcommand)]
pub(super) enum LogVerb {
    Ls(ls::LsArgs),
    Show(show::ShowArgs),
    Check(check::CheckArgs),
    Repair(repair::RepairArgs),
    Export(export::ExportArgs),
}

/// Runs a verb.
pub(super) fn run(verb: &LogVerb) -> ExitCode {
    let done = match verb {
        LogVerb::Ls(args) => ls::run(args),
        LogVerb::Show(args) => show::run(args),
        LogVerb::Check(args) => check::run(args),
        LogVerb::Repair(args) => repair::run(args),
        LogVerb::Export(args) => export::run(args),
    };
    done.unwrap_or_else(|text| output::failed(&Failure::usage(text)))
}

/// Which log.
#[derive(Debug, Clone, Args)]
struct Target {
    /// Config of the agent: names its data directory, and devices
    #[arg(long, value_name = "FILE", default_value = super::CONFIG_DEFAULT, conflicts_with = "data_dir")]
    config: PathBuf,
    /// The data directory, instead of a config
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A log that was opened for reading.
struct Opened {
    reader: LogReader,
    names: Names,
    topics: TopicTable,
}

impl Target {
    /// Data directory, names from the config, and how the log is kept.
    fn find(&self) -> Result<(PathBuf, Names, StoreSettings), String> {
        if let Some(dir) = &self.data_dir {
            return Ok((dir.clone(), Names::default(), StoreSettings::default()));
        }
        let config = Config::load(&self.config).map_err(|error| error.to_string())?;
        let names = config.devices.iter();
        let names = names.map(|device| (DeviceUid(device.uid), device.name.clone()));
        let names = Names(names.collect());
        let settings = crate::agent::store_settings(&config.log);
        Ok((config.agent.data_dir, names, settings))
    }

    fn open(&self) -> Result<Opened, String> {
        let (data_dir, names, _) = self.find()?;
        open(&data_dir, names)
    }
}

fn open(data_dir: &Path, mut names: Names) -> Result<Opened, String> {
    let reader = LogReader::open(data_dir).map_err(|error| match error {
        OpenError::Locked { dir, pid } => {
            let pid = pid.map_or_else(String::new, |pid| format!(" (pid {pid})"));
            format!(
                "{} is in use by a running forebay process{pid}: stop it first",
                dir.display()
            )
        }
        error @ (OpenError::System { .. } | OpenError::Damaged { .. }) => error.to_string(),
    })?;
    restore_names(&reader.meta, &mut names);
    let topics = TopicTable::restore(&reader.meta, &reader.heads);
    Ok(Opened {
        reader,
        names,
        topics,
    })
}

impl Opened {
    /// A topic as an operator calls it.
    fn stream(&self, topic: TopicId) -> String {
        if let Some((_, name)) = UNSENT.iter().find(|(known, _)| *known == topic) {
            return String::from(*name);
        }
        let named = self.topics.streams().find(|(known, _)| *known == topic);
        named.map_or_else(
            || format!("topic-{}", topic.0),
            |(_, name)| String::from(name),
        )
    }

    /// The topic that `text` names: a stream, or a number.
    fn topic(&self, text: &str) -> Result<TopicId, String> {
        if let Some((topic, _)) = UNSENT.iter().find(|(_, name)| *name == text) {
            return Ok(*topic);
        }
        let number = text.strip_prefix("topic-").unwrap_or(text).parse();
        let named = self.topics.streams().find(|(_, name)| *name == text);
        let topic = named.map(|(topic, _)| topic);
        topic.or(number.ok().map(TopicId)).ok_or_else(|| {
            let mut known: Vec<String> = self
                .reader
                .places()
                .keys()
                .map(|at| self.stream(at.topic))
                .collect();
            known.dedup();
            format!(
                "no topic is called \"{text}\": the log holds {}",
                if known.is_empty() {
                    String::from("nothing")
                } else {
                    known.join(", ")
                }
            )
        })
    }

    /// Offsets that are missing, as a person reads them.
    fn loss_text(&self, loss: &Loss) -> String {
        let last = loss.end.0.saturating_sub(1);
        let (stream, partition) = (self.stream(loss.at.topic), loss.at.partition.0);
        if last == loss.first.0 {
            format!("{stream} partition {partition}, offset {last}")
        } else {
            format!(
                "{stream} partition {partition}, offsets {} to {last}",
                loss.first.0
            )
        }
    }

    /// The same as data.
    fn loss_json(&self, loss: &Loss) -> Value {
        json!({
            "topic": loss.at.topic.0,
            "stream": self.stream(loss.at.topic),
            "partition": loss.at.partition.0,
            "first": loss.first.0,
            "end": loss.end.0,
        })
    }
}

/// A time as a person reads it.
fn time_text(time: EventTime) -> String {
    let value = time_value(time);
    value
        .as_str()
        .map_or_else(|| value.to_string(), String::from)
}

/// Bytes as a person reads them.
fn bytes_text(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} bytes"),
        10_000..10_000_000 => format!("{} kB", bytes / 1000),
        _ => format!("{} MB", bytes / 1_000_000),
    }
}
