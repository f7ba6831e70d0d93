//! `forebay verify`: derived rows computed anew from the readings, and the changes of
//! tables, of a stopped agent's log and compared, byte for byte, with those that stand in it. Changes nothing.
//!
//! Holds always: what is named is a difference between the log and its own readings
//! under this config; what cannot be told, as readings are gone, is said and counted as
//! no difference. Bound: the engines' state, and a few blocks of each stream.

mod compare;
mod stored;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use forebay_core::changes::CHANGES_AT;
use forebay_core::engine::STATE_VERSION;
use forebay_core::engine::config::{
    EngineConfig, JoinInput, JoinKind, JoinSource, JoinSpec, Source, WindowKind,
};
use forebay_core::exchange::EXCHANGE_AT;
use forebay_core::layout::{Layouts, Restored};
use forebay_core::limits::FETCH_BYTES_MAX;
use forebay_core::log::block::Body;
use forebay_core::log::decode::decode;
use forebay_core::log::key::{StoredBlock, TopicPartition};
use forebay_core::log::topic::{LATE, QUARANTINE, READINGS};
use forebay_core::readers::DeriveRead;
use forebay_core::readers::places::{changed, derived};
use forebay_core::recompute::Recompute;
use forebay_core::retention::drop_counts;
use forebay_core::topics::{TopicTable, pipeline_hash, stream_name, streams as streams_of};
use forebay_core::units::{Epoch, EventTime, Offset, PartitionId, TopicId};
use forebay_core::views::{Pipeline, froms};
use serde_json::{Value, json};

use self::compare::{Compare, Difference, Rule, Side};
use crate::config::Config;
use crate::exit::{Exit, Failure};
use crate::progress::Progress;
use crate::shell::output::{self, Csv};
use crate::shell::sheets;
use crate::store::{LogReader, OpenError};

/// Longest line that is shown.
const SHOWN_CHARS_MAX: usize = 2000;

/// Computes the windows of a stopped agent anew from its readings and compares
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  forebay verify
  forebay verify --config /etc/forebay.toml --view temp_1m --json

Compares every row of every window and join, of late and of quarantine with what the readings and the
changes of tables in the log give under this config, and names the first that differs. Rows that an agent had not yet
written when it was stopped are no difference.
Exit code: 0 when all is the same; 4 when something differs; 2 when it cannot be looked into.")]
pub struct VerifyArgs {
    /// Config of the agent: names its data directory and its windows
    #[arg(long, value_name = "FILE", default_value = "forebay.toml")]
    config: PathBuf,
    /// Another data directory than the config names
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Compare only this window or join, late or quarantine
    #[arg(long, value_name = "NAME")]
    view: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    csv: Csv,
}

/// Runs the command.
#[must_use]
pub fn run(args: &VerifyArgs) -> ExitCode {
    match verify(args) {
        Ok(report) => {
            let form = args.csv.form(args.json);
            let text = |_: &Value| report.text();
            let printed = output::answer(form, &sheets::VERIFIED, &report.json(), text);
            if report.is_same() {
                printed
            } else {
                Exit::Found.into()
            }
        }
        Err(text) => output::failed(&Failure::usage(text)),
    }
}

/// What was found.
struct Report {
    data_dir: PathBuf,
    /// Readings that were read.
    readings: u64,
    /// From this event time on all readings are there; `None`: all are.
    tells_from: Option<EventTime>,
    compares: Vec<Compare>,
    notes: Vec<String>,
}

/// The streams of a config: which topic each window and join has, if it ever had rows.
pub(crate) fn topics_of(
    config: &EngineConfig,
    reader: &LogReader,
) -> (TopicTable, Vec<Option<TopicId>>) {
    let known = TopicTable::restore(&reader.meta, &reader.heads);
    let mut table = known.clone();
    let topics = (0..streams_of(config)).map(|stream| {
        let assigned = table.assign(config, stream);
        // A new one would be given to a stream that never had rows.
        assigned
            .ok()
            .and_then(|(topic, entry)| entry.is_none().then_some(topic))
    });
    let topics = topics.collect();
    (known, topics)
}

/// The layouts that the log has, never one more.
pub(crate) fn layouts_of(reader: &LogReader) -> Result<Layouts, String> {
    let asked = |count| Layouts::restore(&reader.meta, count, &reader.heads);
    let restored = asked(1).or_else(|shrinks| asked(shrinks.has));
    let Restored { layouts, anew, .. } = restored.map_err(|error| error.to_string())?;
    if anew {
        return Err(String::from(
            "the log has lost which partition held which device: what was written before \
             cannot be computed again",
        ));
    }
    Ok(layouts)
}

/// Opens the log of a stopped agent.
pub(crate) fn open(data_dir: &std::path::Path) -> Result<LogReader, String> {
    LogReader::open(data_dir).map_err(|error| match error {
        OpenError::Locked { dir, pid } => {
            let pid = pid.map_or_else(String::new, |pid| format!(" (pid {pid})"));
            format!(
                "{} is in use by a running forebay process{pid}: stop it first",
                dir.display()
            )
        }
        error @ (OpenError::System { .. } | OpenError::Damaged { .. }) => error.to_string(),
    })
}

fn verify(args: &VerifyArgs) -> Result<Report, String> {
    let config = Config::load(&args.config).map_err(|error| error.to_string())?;
    let data_dir = args
        .data_dir
        .clone()
        .unwrap_or(config.agent.data_dir.clone());
    let mut reader = open(&data_dir)?;
    let (table, topics) = topics_of(&config.engine, &reader);
    let layouts = layouts_of(&reader)?;
    let ends: BTreeMap<PartitionId, Offset> = reader
        .heads
        .iter()
        .filter(|(at, _)| at.topic == READINGS)
        .map(|(at, head)| (at.partition, *head))
        .collect();
    let places = reader.places();
    let total: u64 = places
        .iter()
        .filter(|(at, _)| at.topic == READINGS)
        .map(|(_, place)| place.records)
        .sum();
    let mut report = Report {
        data_dir,
        readings: 0,
        tells_from: tells_from(&reader, &config.engine),
        compares: Vec::new(),
        notes: Vec::new(),
    };
    // What stands aside depends on all windows: it begins anew with a changed config.
    let since = changed(&reader.meta);
    let done = derived(&reader.meta);
    let froms = froms(&reader.meta);
    let is_built = is_built(&config.engine, &reader);
    if is_built {
        report.notes.push(String::from(
            "the config's pipeline is still being built beside the one before: late and \
             quarantine are not compared",
        ));
    }
    for compared in streams(&config.engine, &topics, args.view.as_deref())? {
        let (topic, name, rule) = compared;
        let named = table.streams().find(|(of, _)| *of == topic);
        let name = named.map_or(name, |(_, wire)| String::from(wire));
        let partitions = reader.heads.keys().filter(|at| at.topic == topic).copied();
        let partitions: Vec<TopicPartition> = partitions.collect();
        let begins = froms.get(&topic).copied();
        for at in partitions {
            let rule = if is_built && [LATE, QUARANTINE].contains(&topic) {
                Side::Not
            } else {
                rule.at(report.tells_from, is_whole(&reader, at))
                    .from(begins)
            };
            let first = since.get(&at).map(|since| since.next);
            let kept = done.get(&at).map(|since| since.next);
            let head = reader.heads.get(&at).copied().unwrap_or_default();
            let compare = Compare::new((at, name.clone()), rule, first, (kept, head));
            report.compares.push(compare);
        }
    }
    let recompute = Recompute::new((&config.engine, topics), layouts, &ends, &since, Epoch(1));
    let exchange = reader.heads.get(&EXCHANGE_AT).copied();
    let recompute = recompute.with_exchange(exchange.unwrap_or_default());
    let changes = reader.heads.get(&CHANGES_AT).copied();
    let recompute = recompute.with_changes(changes.unwrap_or_default());
    let recompute = recompute.with_base(&reader.meta);
    let progress = Progress::records(total).shown(!args.json);
    compute(&mut report, recompute, &mut reader, &progress)?;
    Ok(report)
}

/// Makes all rows anew and compares each.
fn compute(
    report: &mut Report,
    mut recompute: Recompute,
    reader: &mut LogReader,
    progress: &Progress,
) -> Result<(), String> {
    let mut seen: BTreeMap<TopicPartition, Offset> = BTreeMap::new();
    while let Some((read, at, from)) = recompute.next_fetch() {
        let blocks = reader.read(at, from, FETCH_BYTES_MAX, |_| {});
        let blocks = blocks.map_err(|error| error.to_string())?;
        report.readings += records_of(read, &blocks, seen.entry(at).or_default());
        let rows = recompute.on_fetched(read, &blocks);
        report.on_rows(&rows, reader)?;
        report.on_holes(&recompute.take_holes());
        progress.set(report.readings);
        if report.compares.iter().all(Compare::is_over) {
            break;
        }
    }
    for compare in &mut report.compares {
        compare.finish(reader)?;
    }
    Ok(())
}

/// Whether the log's streams are still those of another pipeline.
fn is_built(engine: &EngineConfig, reader: &LogReader) -> bool {
    let live = Pipeline::restore(&reader.meta);
    live.is_some_and(|live| live.hash != pipeline_hash(engine, STATE_VERSION))
}

/// The event time behind all readings, and changes of tables where there are any, that
/// retention has removed.
fn tells_from(reader: &LogReader, engine: &EngineConfig) -> Option<EventTime> {
    let counts = drop_counts(&reader.meta);
    let counted = |at: &TopicPartition| {
        at.topic == READINGS || (*at == CHANGES_AT && !engine.tables.is_empty())
    };
    let readings = counts.iter().filter(|(at, _)| counted(at));
    let removed = readings.filter(|(_, counts)| counts.dropped > 0);
    let newest = removed.map(|(_, counts)| counts.newest).max()?;
    Some(EventTime(newest.0.saturating_add(1)))
}

/// Whether a topic took all rows that were made for it, and has them all.
fn is_whole(reader: &LogReader, at: TopicPartition) -> bool {
    let counts = drop_counts(&reader.meta);
    counts.get(&at).is_none_or(|counts| counts.refused == 0)
}

/// Records of readings that a read brought for the first time; `seen`: the end of those
/// before.
fn records_of(read: DeriveRead, blocks: &[StoredBlock], seen: &mut Offset) -> u64 {
    match read {
        DeriveRead::Stored | DeriveRead::Changes(_) | DeriveRead::Exchange => 0,
        DeriveRead::Past | DeriveRead::Own(_) => {
            let mut count = 0;
            for block in blocks {
                let head = forebay_core::log::decode::decode_head(block.key, &block.bytes);
                let Ok(head) = head else {
                    continue;
                };
                let first = head.base.max(*seen);
                count += head.end().0.saturating_sub(first.0);
                *seen = head.end().max(*seen);
            }
            count
        }
    }
}

/// What is compared: topics with their names, and what can be told of each where
/// readings are gone.
fn streams(
    config: &EngineConfig,
    topics: &[Option<TopicId>],
    view: Option<&str>,
) -> Result<Vec<(TopicId, String, Rule)>, String> {
    let windows = (0..streams_of(config)).zip(topics);
    let windows = windows.filter_map(|(at, topic)| {
        let name = String::from(stream_name(config, at));
        let rule = match at.checked_sub(config.windows.len()) {
            None => rule_of(config, at),
            Some(join) => rule_of_join(config, &config.joins[join]),
        };
        Some(((*topic)?, name, rule))
    });
    let asides = [
        (LATE, String::from("late"), Rule::Reaches(0)),
        (QUARANTINE, String::from("quarantine"), Rule::Reaches(0)),
    ];
    let all: Vec<_> = windows.chain(asides).collect();
    let Some(view) = view else {
        return Ok(all);
    };
    let known: Vec<&str> = (0..streams_of(config))
        .map(|at| stream_name(config, at))
        .collect();
    if !known.contains(&view) && !["late", "quarantine"].contains(&view) {
        return Err(format!(
            "the config has no window or join called \"{view}\": it has {}",
            known.join(", ")
        ));
    }
    Ok(all
        .into_iter()
        .filter(|(_, name, _)| name == view)
        .collect())
}

/// How much time before its own start a row of a window depends on.
fn rule_of(config: &EngineConfig, index: usize) -> Rule {
    let window = &config.windows[index];
    let own = match &window.kind {
        WindowKind::Tumbling(_) | WindowKind::Hopping { .. } => Some(0),
        WindowKind::Sliding { size, .. } => Some(size.0),
        WindowKind::Session { gap } => Some(gap.0),
        WindowKind::Rows { .. } => None,
    };
    // What tables said when they were removed is not known.
    if !window.key.device || !window.key_columns.is_empty() {
        return Rule::Never;
    }
    let of_source = match window.from {
        Source::Readings => Rule::Reaches(0),
        Source::Window(from) => match rule_of(config, usize::from(from)) {
            Rule::Reaches(reach) => Rule::Reaches(reach.saturating_add(span_of(config, from))),
            Rule::Never => Rule::Never,
        },
    };
    match (own, of_source) {
        (Some(own), Rule::Reaches(reach)) => Rule::Reaches(own.saturating_add(reach)),
        (Some(_) | None, _) => Rule::Never,
    }
}

/// The same of a row of a join: of tables, and across devices, it depends on all before it.
fn rule_of_join(config: &EngineConfig, join: &JoinSpec) -> Rule {
    let JoinKind::Interval { lower, upper } = join.kind else {
        return Rule::Never;
    };
    if join.crosses_devices() {
        return Rule::Never;
    }
    let own = lower.0.saturating_abs().max(upper.0.saturating_abs());
    let reach = |input: &JoinInput| match input.from {
        JoinSource::Readings => Some(0),
        JoinSource::Window(from) => match rule_of(config, usize::from(from)) {
            Rule::Reaches(reach) => Some(reach.saturating_add(span_of(config, from))),
            Rule::Never => None,
        },
        JoinSource::Table(_) => None,
    };
    match (reach(&join.left), reach(&join.right)) {
        (Some(left), Some(right)) => Rule::Reaches(own.saturating_add(left.max(right))),
        (Some(_) | None, _) => Rule::Never,
    }
}

/// Longest time that one row of a window is of.
fn span_of(config: &EngineConfig, index: u16) -> i64 {
    /// A month with a change of clocks.
    const MONTH_US: i64 = 32 * 86_400_000_000;
    match &config.windows[usize::from(index)].kind {
        WindowKind::Tumbling(forebay_core::engine::config::Grid::Fixed { size, .. })
        | WindowKind::Hopping { size, .. }
        | WindowKind::Sliding { size, .. } => size.0,
        WindowKind::Tumbling(forebay_core::engine::config::Grid::Calendar { .. }) => MONTH_US,
        // As long as readings come.
        WindowKind::Session { .. } | WindowKind::Rows { .. } => i64::MAX,
    }
}

impl Report {
    fn on_rows(&mut self, blocks: &[StoredBlock], reader: &mut LogReader) -> Result<(), String> {
        for block in blocks {
            let compare = self.compares.iter_mut().find(|c| c.at() == block.key.at);
            let Some(compare) = compare.filter(|compare| !compare.is_over()) else {
                continue;
            };
            let decoded = decode(block.key, &block.bytes);
            let decoded = decoded.map_err(|error| format!("a block just made: {error:?}"))?;
            let Body::Rows(rows) = decoded.body else {
                continue;
            };
            for (row, offset) in rows.iter().zip(block.key.base.0..) {
                compare.on_row(Offset(offset), &row.line, reader)?;
            }
        }
        Ok(())
    }

    /// Readings that are missing, and that retention did not remove, end what can be
    /// told.
    fn on_holes(&mut self, holes: &[(PartitionId, Offset, Offset)]) {
        for (partition, first, end) in holes {
            if *first == Offset(0) && self.tells_from.is_some() {
                continue;
            }
            self.notes.push(format!(
                "readings of partition {}, offsets {} to {}, are lost: what came of them and \
                 after them cannot be told",
                partition.0,
                first.0,
                end.0 - 1
            ));
            let compares = self.compares.iter_mut();
            compares.for_each(Compare::stop);
        }
    }

    fn is_same(&self) -> bool {
        self.first().is_none()
    }

    /// The first difference, in order of topic and partition.
    fn first(&self) -> Option<(&Compare, &Difference)> {
        let mut compares = self.compares.iter();
        compares.find_map(|compare| Some((compare, compare.difference()?)))
    }

    fn text(&self) -> String {
        let sum = |of: fn(&Compare) -> u64| self.compares.iter().map(of).sum::<u64>();
        let (same, unknown) = (sum(Compare::same), sum(Compare::unknown));
        let mut lines = self.notes.clone();
        if let Some(from) = self.tells_from {
            lines.push(format!(
                "readings before {} are removed: {unknown} rows that may depend on them are \
                 not compared",
                forebay_core::utc::time_value(from)
            ));
        }
        match self.first() {
            None => lines.push(format!(
                "{}: the same: {same} rows are those that {} readings give",
                self.data_dir.display(),
                self.readings
            )),
            Some((compare, difference)) => {
                let at = compare.at();
                lines.push(format!(
                    "{}: stream {}, topic {}, partition {}, offset {} differs\n  stands   {}\n  \
                     computed {}",
                    self.data_dir.display(),
                    compare.name(),
                    at.topic.0,
                    at.partition.0,
                    difference.offset.0,
                    shown(difference.stands.as_deref()),
                    shown(difference.made.as_deref()),
                ));
            }
        }
        lines.join("\n")
    }

    fn json(&self) -> Value {
        let streams = self.compares.iter().map(|compare| {
            json!({
                "stream": compare.name(),
                "topic": compare.at().topic.0,
                "partition": compare.at().partition.0,
                "same": compare.same(),
                "not_written_yet": compare.pending(),
                "not_compared": compare.unknown(),
                "differs": compare.difference().is_some(),
            })
        });
        let line = |line: &Option<Vec<u8>>| {
            line.as_ref()
                .map(|line| String::from_utf8_lossy(line).into_owned())
        };
        let first = self.first().map(|(compare, difference)| {
            json!({
                "stream": compare.name(),
                "topic": compare.at().topic.0,
                "partition": compare.at().partition.0,
                "offset": difference.offset.0,
                "stands": line(&difference.stands),
                "computed": line(&difference.made),
            })
        });
        json!({
            "data_dir": self.data_dir.display().to_string(),
            "same": self.is_same(),
            "readings": self.readings,
            "tells_from": self.tells_from.map(forebay_core::utc::time_value),
            "streams": streams.collect::<Value>(),
            "first_difference": first,
            "notes": self.notes,
        })
    }
}

fn shown(line: Option<&[u8]>) -> String {
    let Some(line) = line else {
        return String::from("no row");
    };
    let text = String::from_utf8_lossy(line);
    text.chars().take(SHOWN_CHARS_MAX).collect()
}
