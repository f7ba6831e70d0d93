//! `forebay replay`: builds the stream of one window anew from the readings of a
//! stopped agent's log, beside the rows that stand, and goes over to it.
//!
//! Holds always: the new stream has a topic and a name on the wire of its own; rows that
//! stand are neither changed nor removed. Killed in between, the next start of the agent
//! or of this command goes on. Knows no windows: an agent without ports and without a
//! broker computes them.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use forebay_core::meta::Entry;
use forebay_core::query::Query;
use forebay_core::store::{Store as _, WriteBatch};
use forebay_core::topics::{TopicTable, stream_name, streams};
use forebay_core::units::{EventTime, TopicId};
use forebay_core::views::renew_entry;
use serde_json::json;

use super::checkpoint::stopped;
use crate::agent::{Agent, questions, store_settings};
use crate::config::Config;
use crate::exit::Failure;
use crate::ingest_cmd::say;
use crate::progress::Progress;
use crate::shell::output::{self, Csv, Form};
use crate::shell::{sheets, when};
use crate::store::LogStore;
use crate::terminal::fail;

/// How often it is asked how far it is.
const LOOK: Duration = Duration::from_millis(500);
/// How long the windows of a whole log may take.
const BUILD_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// Builds the rows of one window anew from the readings of a stopped agent's log
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  forebay replay --view temp_1m

A running agent does it with forebay view rebuild.
The new rows go to a stream of their own, temp_1m.1 for the first replay; the agent goes on with
it. The rows before stay where they are until their quota or age removes them.
Exit code: 0; 1 when it could not be built to the end: start the agent, it goes on; 2 when
there is no such window, or the log cannot be used.")]
pub(super) struct ReplayArgs {
    /// The window
    #[arg(long, value_name = "NAME")]
    view: String,
    /// Event time from which rows are made: RFC 3339, or -1h for an hour ago; readings are read from the first one all the same
    #[arg(long, value_parser = when::parse, value_name = "TIME", allow_hyphen_values = true)]
    from: Option<EventTime>,
    /// Config of the agent: names its data directory and its windows
    #[arg(long, value_name = "FILE", default_value = super::CONFIG_DEFAULT)]
    config: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    csv: Csv,
}

/// Runs the command.
pub(super) fn run(args: &ReplayArgs) -> ExitCode {
    let ready = Config::load(&args.config)
        .map_err(|error| error.to_string())
        .and_then(|config| Ok((renew(&config, &args.view, args.from)?, config)));
    let ((before, at), config) = match ready {
        Ok(ready) => ready,
        Err(text) => {
            return output::failed(&Failure::usage(text));
        }
    };
    let form = args.csv.form(args.json);
    match build(config, at, form == Form::Text) {
        Ok((after, rows)) => {
            let answer = json!({ "stream": after, "rows": rows, "before": before });
            output::answer(form, &sheets::REPLAYED, &answer, |_| {
                format!("{after} has {rows} rows; the rows before stand in {before}")
            })
        }
        Err(text) => fail(&text),
    }
}

/// Notes that a stream's rows are to be made anew: the next start of an agent does it.
/// Gives the stream that it has, and its place in the config.
fn renew(config: &Config, view: &str, from: Option<EventTime>) -> Result<(String, usize), String> {
    let names = (0..streams(&config.engine)).map(|at| stream_name(&config.engine, at));
    let names: Vec<&str> = names.collect();
    let at = names.iter().position(|name| *name == view);
    let at = at.ok_or_else(|| {
        format!(
            "the config has no window or join \"{view}\"; it has: {}",
            names.join(", ")
        )
    })?;
    let data_dir = &config.agent.data_dir;
    let reader = stopped(data_dir)?;
    let mut table = TopicTable::restore(&reader.meta, &reader.heads);
    let (topic, is_new) = match table.assign(&config.engine, at) {
        Ok((topic, entry)) => (topic, entry.is_some()),
        Err(error) => return Err(error.to_string()),
    };
    if is_new {
        return Err(format!(
            "{view} has no rows yet: start the agent, it builds them"
        ));
    }
    let before = name_of(&table, topic);
    // It holds the lock.
    drop(reader);
    write(data_dir, config, vec![renew_entry(view, from)])?;
    Ok((before, at))
}

fn name_of(table: &TopicTable, topic: TopicId) -> String {
    let mut streams = table.streams();
    let named = streams.find(|(known, _)| *known == topic);
    named.map_or_else(String::new, |(_, name)| name.to_owned())
}

fn write(data_dir: &Path, config: &Config, meta: Vec<Entry>) -> Result<(), String> {
    let settings = store_settings(&config.log);
    let (mut store, _) = LogStore::open(data_dir, settings).map_err(|e| e.to_string())?;
    let blocks = Vec::new();
    let written = store.append(&WriteBatch { blocks, meta });
    let written = written.and_then(|()| store.sync());
    written.map_err(|error| error.to_string())
}

/// Waits until all is computed, with a bar where one is wanted.
async fn built(agent: &Agent, bar: bool) -> bool {
    let drained = agent.drain(false, BUILD_MAX);
    tokio::pin!(drained);
    let mut progress = None;
    let mut ticks = tokio::time::interval(LOOK);
    loop {
        tokio::select! {
            built = &mut drained => return built,
            _ = ticks.tick() => {
                let views = agent.ask(questions::write(&Query::Views)).await;
                let building = views.unwrap_or_default()["building"].take();
                let figure = |name: &str| building[name].as_u64();
                if let (Some(total), Some(behind)) = (figure("readings"), figure("readings_behind")) {
                    let progress = progress.get_or_insert_with(|| Progress::records(total).shown(bar));
                    progress.set(total.saturating_sub(behind));
                }
            }
        }
    }
}

/// Lets an agent compute what is there; the window's stream then, and its rows.
fn build(mut config: Config, at: usize, bar: bool) -> Result<(String, u64), String> {
    config.device_ports.clear();
    config.forward.clear();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| format!("no threads: {error}"))?;
    runtime.block_on(async {
        let agent = Agent::start(&config, &say()).await?;
        let built = built(&agent, bar).await;
        agent.stop().await?;
        let unbuilt = "the windows could not be computed to the end: start the agent";
        built.then_some(()).ok_or_else(|| String::from(unbuilt))
    })?;
    let reader = stopped(&config.agent.data_dir)?;
    let table = TopicTable::restore(&reader.meta, &reader.heads);
    let topic = table.topic_of(&config.engine, at);
    let topic = topic.ok_or_else(|| String::from("the window has no stream"))?;
    let heads = reader.heads.iter().filter(|(at, _)| at.topic == topic);
    let rows = heads.map(|(_, head)| head.0).sum();
    Ok((name_of(&table, topic), rows))
}
