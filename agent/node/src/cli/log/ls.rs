//! `forebay log ls`: what the log holds, per topic and partition, and in which files.

use std::fmt::Write as _;
use std::process::ExitCode;

use clap::Args;
use forebay_core::log::key::TopicPartition;
use forebay_core::units::PartitionId;
use forebay_core::utc::time_value;
use serde_json::{Value, json};

use super::{Opened, Target, bytes_text};
use crate::shell::output::{self, Csv};
use crate::shell::sheets;
use crate::store::Place;

/// Lists what the log holds
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Example:
  forebay log ls --data-dir /var/lib/forebay --files")]
pub(in crate::cli) struct LsArgs {
    #[command(flatten)]
    target: Target,
    /// Only this topic
    #[arg(long)]
    topic: Option<String>,
    /// Only this partition
    #[arg(long)]
    partition: Option<u16>,
    /// List the files, too
    #[arg(long)]
    files: bool,
    #[command(flatten)]
    csv: Csv,
}

pub(super) fn run(args: &LsArgs) -> Result<ExitCode, String> {
    let opened = args.target.open()?;
    let topic = args.topic.as_deref().map(|text| opened.topic(text));
    let topic = topic.transpose()?;
    let partition = args.partition.map(PartitionId);
    let places = opened.reader.places().into_iter();
    let places = places.filter(|(at, _)| {
        topic.is_none_or(|topic| topic == at.topic)
            && partition.is_none_or(|partition| partition == at.partition)
    });
    let places: Vec<_> = places.collect();
    let form = args.csv.form(args.target.json);
    let answer = json(&opened, &places);
    Ok(output::answer(
        form,
        &sheets::LOG_TOPICS,
        &answer,
        |answer| text(&opened, answer, args.files),
    ))
}

fn json(opened: &Opened, places: &[(TopicPartition, Place)]) -> Value {
    let topics = places.iter().map(|(at, place)| {
        json!({
            "topic": at.topic.0,
            "stream": opened.stream(at.topic),
            "partition": at.partition.0,
            "first": place.first.0,
            "head": place.head.0,
            "records": place.records,
            "time_min": time_value(place.time_min),
            "time_max": time_value(place.time_max),
        })
    });
    let parts = opened.reader.parts();
    let files = parts.iter().map(|part| {
        json!({
            "file": part.path.display().to_string(),
            "generation": part.generation.0,
            "topic": part.segment.map(|id| id.topic.0),
            "sealed": part.segment.is_some(),
            "bytes": part.bytes,
            "records": part.records,
        })
    });
    json!({
        "data_dir": opened.reader.data_dir.display().to_string(),
        "log_id": opened.reader.log_id.map(|id| id.to_string()),
        "epoch": opened.reader.epoch.map(|epoch| epoch.0),
        "topics": topics.collect::<Value>(),
        "files": files.collect::<Value>(),
        "notes": opened.reader.notes,
    })
}

fn text(opened: &Opened, answer: &Value, files: bool) -> String {
    let mut out = format!("{}\n{}", head(opened), sheets::LOG_TOPICS.text(answer));
    for part in opened.reader.parts().iter().filter(|_| files) {
        let kind = part.segment.map_or_else(
            || String::from("not sealed yet"),
            |id| opened.stream(id.topic),
        );
        let _ = write!(
            out,
            "\n{}  {}  {} records  {kind}",
            part.path.display(),
            bytes_text(part.bytes),
            part.records
        );
    }
    for note in &opened.reader.notes {
        let _ = write!(out, "\n{note}; see: forebay log check");
    }
    out
}

fn head(opened: &Opened) -> String {
    let parts = opened.reader.parts();
    let sealed = parts.iter().filter(|part| part.segment.is_some()).count();
    let bytes: u64 = parts.iter().map(|part| part.bytes).sum();
    let log_id = opened.reader.log_id;
    format!(
        "{}: log {}, epoch {}, {} in {sealed} sealed segments and {} generations that are not",
        opened.reader.data_dir.display(),
        log_id.map_or_else(|| String::from("of unknown id"), |id| id.to_string()),
        opened.reader.epoch.map_or(0, |epoch| epoch.0),
        bytes_text(bytes),
        parts.len() - sealed,
    )
}
