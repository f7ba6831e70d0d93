//! Which topic number holds which stream. A derived stream is named by its
//! definition: a changed one gets another topic and another name on the wire, so
//! that it never meets rows of the old one. Knows no store: entries leave as meta.
//!
//! Bound: [`TOPICS_MAX`] definitions in the life of one log.

mod joins;

use std::collections::{BTreeMap, BTreeSet};

use self::joins::table_text;
use crate::checkpoint::PipelineHash;
use crate::engine::config::{
    Bounds, CalendarUnit, Emit, EngineConfig, Grid, IdleAfter, KeySpec, Source, TimeRules,
    WindowKind, WindowSpec,
};
use crate::ingest::fnv1a;
use crate::limits::TOPICS_MAX;
use crate::log::key::TopicPartition;
use crate::log::topic::{CHANGES, CONTROL, DERIVED_FIRST, LATE, QUARANTINE, READINGS};
use crate::meta::Entry;
use crate::units::{Offset, TopicId};

/// Meta keys of topics: this and the definition's name and hash.
pub const TOPIC_META_PREFIX: &[u8] = b"topic/";

/// All streams of one log.
#[derive(Debug, Clone, Default)]
pub struct TopicTable {
    /// By meta key: the topic and how many definitions of this name came before.
    known: BTreeMap<Vec<u8>, (TopicId, u16)>,
    /// By topic: the stream's name on the wire.
    names: BTreeMap<TopicId, String>,
    /// Derived topics that have data and no entry: each may have had any name.
    nameless: usize,
    /// No topic from here on has data or an entry.
    next: u16,
}

/// The log has had more definitions than topics are kept for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooManyTopics;

impl std::fmt::Display for TooManyTopics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "the log has had {TOPICS_MAX} definitions of windows, the most it keeps apart: \
             start with a new data_dir to change windows again"
        )
    }
}

impl TopicTable {
    /// The table that the meta entries under [`TOPIC_META_PREFIX`] describe, for a log
    /// that has data in the topics of `heads`. What does not read is left out; its
    /// topic is never given to another stream.
    #[must_use]
    pub fn restore(
        entries: &[(Vec<u8>, Vec<u8>)],
        heads: &BTreeMap<TopicPartition, Offset>,
    ) -> Self {
        let mut table = Self {
            next: DERIVED_FIRST.0,
            ..Self::default()
        };
        table.names.insert(READINGS, String::from("readings"));
        table.names.insert(CONTROL, String::from("control"));
        table.names.insert(LATE, String::from("late"));
        table.names.insert(CHANGES, String::from("changes"));
        table.names.insert(QUARANTINE, String::from("quarantine"));
        for (key, value) in entries {
            let value: Result<[u8; 4], _> = value.as_slice().try_into();
            if let (Ok([a, b, c, d]), Some(name)) = (value, name_of(key)) {
                let (topic, nth) = (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]));
                table.insert(key.clone(), &name, TopicId(topic), nth);
            }
        }
        let derived = heads.keys().map(|at| at.topic);
        let derived: BTreeSet<TopicId> = derived.filter(|t| *t >= DERIVED_FIRST).collect();
        let nameless = |topic: &&TopicId| !table.names.contains_key(topic);
        table.nameless = derived.iter().filter(nameless).count();
        let last = derived.last().map_or(0, |topic| topic.0);
        table.next = table.next.max(last.saturating_add(1));
        table
    }

    /// Derived topics that have data and of which nothing else is known any more.
    #[must_use]
    pub fn nameless(&self) -> usize {
        self.nameless
    }

    /// The topic of the stream at a place in the config, windows first, then joins, and the
    /// meta entry to write when it is new.
    ///
    /// # Errors
    /// When the table is full.
    ///
    /// # Panics
    /// When there is no such stream.
    #[allow(
        clippy::type_complexity,
        reason = "the topic, and a key with its value"
    )]
    pub fn assign(
        &mut self,
        engine: &EngineConfig,
        at: usize,
    ) -> Result<(TopicId, Option<(Vec<u8>, Vec<u8>)>), TooManyTopics> {
        self.add(meta_key(engine, at), stream_name(engine, at))
    }

    #[allow(
        clippy::type_complexity,
        reason = "the topic, and a key with its value"
    )]
    fn add(&mut self, key: Vec<u8>, name: &str) -> Result<(TopicId, Option<Entry>), TooManyTopics> {
        if let Some((topic, _)) = self.known.get(&key) {
            return Ok((*topic, None));
        }
        if usize::from(self.next - DERIVED_FIRST.0) >= TOPICS_MAX {
            return Err(TooManyTopics);
        }
        let topic = TopicId(self.next);
        let same_name = self
            .known
            .iter()
            .filter(|(key, _)| name_of(key).as_deref() == Some(name));
        // Also past those that a topic without an entry may have had.
        let after = same_name.clone().map(|(_, (_, nth))| nth.saturating_add(1));
        let nth = same_name.count() + self.nameless;
        let nth = after.fold(nth as u16, u16::max);
        self.insert(key.clone(), name, topic, nth);
        Ok((topic, Some((key, place_bytes(topic, nth)))))
    }

    /// Gives the window at a place in the config a new topic, and the stream a new name on
    /// the wire: the entries to write. Its rows are then told from the first reading that
    /// is kept. The topic that it had keeps its rows and its name.
    ///
    /// # Errors
    /// When the table is full.
    ///
    /// # Panics
    /// When there is no such stream.
    pub fn renew(
        &mut self,
        engine: &EngineConfig,
        at: usize,
    ) -> Result<(TopicId, Vec<Entry>), TooManyTopics> {
        let key = meta_key(engine, at);
        let mut entries = Vec::new();
        entries.extend(self.retire(&key));
        let (topic, entry) = self.assign(engine, at)?;
        entries.extend(entry);
        Ok((topic, entries))
    }

    /// The topic of the stream at a place in the config, where it has one.
    ///
    /// # Panics
    /// When there is no such stream.
    #[must_use]
    pub fn topic_of(&self, engine: &EngineConfig, at: usize) -> Option<TopicId> {
        let known = self.known.get(&meta_key(engine, at));
        known.map(|(topic, _)| *topic)
    }

    /// A new topic for the window at a place in the config, beside the one that it has:
    /// [`TopicTable::turn`] goes over to it. The same at every call until then.
    ///
    /// # Errors
    /// When the table is full.
    ///
    /// # Panics
    /// When there is no such stream.
    pub fn prepare(
        &mut self,
        engine: &EngineConfig,
        at: usize,
    ) -> Result<(TopicId, Option<Entry>), TooManyTopics> {
        self.add(prepared(meta_key(engine, at)), stream_name(engine, at))
    }

    /// Goes over to the topic that was prepared for a window, if one was: the entries to
    /// write. The topic before keeps its rows and its name.
    ///
    /// # Panics
    /// When there is no such stream.
    pub fn turn(&mut self, engine: &EngineConfig, at: usize) -> Vec<Entry> {
        let key = meta_key(engine, at);
        let Some((topic, nth)) = self.known.remove(&prepared(key.clone())) else {
            return Vec::new();
        };
        let mut entries = self.retire(&key).map_or_else(Vec::new, |entry| vec![entry]);
        entries.push((prepared(key.clone()), Vec::new()));
        self.known.insert(key.clone(), (topic, nth));
        entries.push((key, place_bytes(topic, nth)));
        entries
    }

    /// Takes a topic from its definition.
    fn retire(&mut self, key: &[u8]) -> Option<Entry> {
        let (topic, nth) = self.known.remove(key)?;
        // Under a key that no definition has.
        let retired = [key, format!("~{}", topic.0).as_bytes()].concat();
        self.known.insert(retired.clone(), (topic, nth));
        Some((retired, place_bytes(topic, nth)))
    }

    /// Topics with the hash of the definition that wrote them, 16 hex digits.
    pub fn definitions(&self) -> impl Iterator<Item = (TopicId, String)> {
        let known = self.known.iter();
        known.filter_map(|(key, (topic, _))| {
            let text = std::str::from_utf8(key).ok()?;
            let (_, hash) = text.rsplit_once('/')?;
            Some((*topic, hash.split('~').next()?.to_owned()))
        })
    }

    /// All topics with their streams' names on the wire, in order of topic.
    pub fn streams(&self) -> impl Iterator<Item = (TopicId, &str)> {
        self.names
            .iter()
            .map(|(topic, name)| (*topic, name.as_str()))
    }

    /// Topics of windows with the window's name, also of earlier definitions.
    pub fn windows(&self) -> impl Iterator<Item = (TopicId, String)> {
        let known = self.known.iter();
        known.filter_map(|(key, (topic, _))| Some((*topic, name_of(key)?)))
    }

    fn insert(&mut self, key: Vec<u8>, name: &str, topic: TopicId, nth: u16) {
        let wire = if nth == 0 {
            String::from(name)
        } else {
            format!("{name}.{nth}")
        };
        self.next = self.next.max(topic.0.saturating_add(1));
        self.known.insert(key, (topic, nth));
        self.names.insert(topic, wire);
    }
}

/// Hash of everything that an engine's state depends on beside the log: all windows and
/// joins in order with their names, the tables, and the time rules. `version` is that of the state.
#[must_use]
pub fn pipeline_hash(config: &EngineConfig, version: u8) -> PipelineHash {
    let mut text = format!("state {version}; {}", time_rules(&config.time));
    for at in 0..streams(config) {
        let name = stream_name(config, at);
        text.push_str(&format!("\n{name}: {}", definition(config, at)));
    }
    for table in &config.tables {
        text.push_str(&format!("\n{}", table_text(table)));
    }
    PipelineHash(fnv1a(text.as_bytes()))
}

/// The same of an engine over all partitions: its own pipeline, and that of the partitions'
/// engines, who judge what is late there.
#[must_use]
pub fn crossing_hash(across: PipelineHash, by_device: PipelineHash) -> PipelineHash {
    let bytes = [across.0.to_le_bytes(), by_device.0.to_le_bytes()].concat();
    PipelineHash(fnv1a(&bytes))
}

/// Streams of a config that have topics of their own: windows, then joins.
#[must_use]
pub fn streams(engine: &EngineConfig) -> usize {
    engine.windows.len() + engine.joins.len()
}

/// Name of the stream at a place.
///
/// # Panics
/// When there is no such stream.
#[must_use]
pub fn stream_name(engine: &EngineConfig, at: usize) -> &str {
    let window = engine.windows.get(at).map(|window| &window.name);
    window.unwrap_or_else(|| &engine.joins[at - engine.windows.len()].name)
}

fn meta_key(engine: &EngineConfig, at: usize) -> Vec<u8> {
    let hash = fnv1a(definition(engine, at).as_bytes());
    let mut key = TOPIC_META_PREFIX.to_vec();
    key.extend_from_slice(format!("{}/{hash:016x}", stream_name(engine, at)).as_bytes());
    key
}

/// Everything that a stream's rows depend on, as text whose form is decided here: a
/// new setting adds a word only when it is not at its default, so that streams
/// survive an upgrade.
fn definition(engine: &EngineConfig, at: usize) -> String {
    match engine.windows.get(at) {
        Some(window) => window_text(engine, window),
        None => joins::text(engine, &engine.joins[at - engine.windows.len()]),
    }
}

fn window_text(engine: &EngineConfig, window: &WindowSpec) -> String {
    let kind = match &window.kind {
        WindowKind::Tumbling(Grid::Fixed { size, offset }) => {
            format!("tumbling {} {}", size.0, offset.0)
        }
        WindowKind::Tumbling(Grid::Calendar { unit, zone }) => {
            let unit = match unit {
                CalendarUnit::Day => "day",
                CalendarUnit::Week => "week",
                CalendarUnit::Month => "month",
            };
            format!("tumbling {unit} {}", zone.name())
        }
        WindowKind::Hopping { size, hop, offset } => {
            format!("hopping {} {} {}", size.0, hop.0, offset.0)
        }
        WindowKind::Sliding { size, bounds } => match bounds {
            Bounds::HalfOpen => format!("sliding {} half_open", size.0),
            Bounds::Closed => format!("sliding {} closed", size.0),
        },
        WindowKind::Rows { n } => format!("rows {n}"),
        WindowKind::Session { gap } => format!("session {}", gap.0),
    };
    let only = |names: &Option<Vec<String>>| {
        let names = names.as_ref().map(|names| {
            let names: Vec<String> = names.iter().map(|name| escaped(name)).collect();
            names.join(",")
        });
        names.unwrap_or_else(|| String::from("*"))
    };
    let key = match window.key {
        KeySpec::DEVICE_CHANNEL => "device,channel",
        KeySpec::DEVICE => "device",
        KeySpec::CHANNEL => "channel",
        KeySpec {
            device: false,
            channel: false,
        } => "",
    };
    let emit = match window.emit {
        Emit::OnClose => "on_close",
        Emit::EveryUpdate => "every_update",
        Emit::FinalOnly => "final_only",
        Emit::Never => "never",
    };
    let aggregates: Vec<String> = window.aggregates.iter().map(ToString::to_string).collect();
    format!(
        "{kind}; channels {}; devices {}; key {key}; aggregates {}; emit {emit}; finalize {}; \
         {}{}{}",
        only(&window.channels),
        only(&window.devices),
        aggregates.join(","),
        window.finalize,
        time_rules(&engine.time),
        source(engine, window),
        joins::key_columns(engine, window),
    )
}

fn time_rules(rules: &TimeRules) -> String {
    let idle = match rules.idle_after {
        IdleAfter::Auto => String::from("auto"),
        IdleAfter::After(span) => span.0.to_string(),
    };
    format!(
        "bound {}; lateness {}; idle {idle}; future {}",
        rules.out_of_order.0, rules.allowed_lateness.0, rules.future_guard.0,
    )
}

/// What a window over another one takes, with all that the other one depends on: when
/// that changes, this one's rows do.
fn source(engine: &EngineConfig, window: &WindowSpec) -> String {
    match window.from {
        Source::Readings => String::new(),
        Source::Window(inner) => {
            let inner = usize::from(inner);
            let what = if window.merge {
                String::from("all")
            } else {
                window.value.to_string()
            };
            format!("; {what} of ({})", definition(engine, inner))
        }
    }
}

/// A name that could be taken for several, or for all, is written so that it cannot.
fn escaped(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for c in name.chars() {
        if matches!(c, ',' | ';' | '*' | '\\') {
            text.push('\\');
        }
        text.push(c);
    }
    text
}

fn place_bytes(topic: TopicId, nth: u16) -> Vec<u8> {
    [topic.0.to_le_bytes(), nth.to_le_bytes()].concat()
}

/// Where the topic of a definition stands that is built anew.
fn prepared(mut key: Vec<u8>) -> Vec<u8> {
    key.extend_from_slice(b"~new");
    key
}

fn name_of(key: &[u8]) -> Option<String> {
    let rest = key.strip_prefix(TOPIC_META_PREFIX)?;
    let text = std::str::from_utf8(rest).ok()?;
    let (name, _) = text.rsplit_once('/')?;
    Some(String::from(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::config::{Aggregate, Zone};
    use crate::units::Span;

    fn pipeline(windows: Vec<WindowSpec>) -> EngineConfig {
        EngineConfig {
            time: TimeRules::default(),
            windows,
            ..EngineConfig::default()
        }
    }

    fn one(name: &str, size: i64) -> EngineConfig {
        pipeline(vec![window(name, size)])
    }

    fn window(name: &str, size: i64) -> WindowSpec {
        let kind = WindowKind::Sliding {
            size: Span(size),
            bounds: Bounds::HalfOpen,
        };
        WindowSpec {
            aggregates: vec![Aggregate::Mean],
            ..WindowSpec::new(name, kind)
        }
    }

    fn restore(entries: &[(Vec<u8>, Vec<u8>)]) -> TopicTable {
        TopicTable::restore(entries, &BTreeMap::new())
    }

    #[test]
    fn a_lost_table_gives_no_topic_that_has_data_and_no_name_that_was_taken() {
        let mut whole = restore(&[]);
        let mut entries = Vec::new();
        for (name, size) in [("a", 1), ("b", 1), ("a", 2)] {
            let (_, entry) = whole.assign(&one(name, size), 0).expect("room");
            entries.extend(entry);
        }
        let heads = (0..19).map(|topic| {
            let at = TopicPartition {
                topic: TopicId(topic),
                partition: crate::units::PartitionId(1),
            };
            (at, Offset(5))
        });
        let heads: BTreeMap<_, _> = heads.collect();
        for (name, kept, want) in [
            ("all", &entries[..], ["a", "b", "a.1", "a.2"]),
            ("the first", &entries[..1], ["a", "b.2", "a.3", "a.4"]),
            ("the last", &entries[2..], ["a.3", "b.2", "a.1", "a.4"]),
            ("none", &[], ["a.3", "b.3", "a.4", "a.5"]),
        ] {
            let mut table = TopicTable::restore(kept, &heads);
            assert_eq!(table.nameless(), 3 - kept.len(), "{name}");
            let windows = [("a", 1), ("b", 1), ("a", 2), ("a", 3)];
            for ((window_name, size), want) in windows.into_iter().zip(want) {
                let window = one(window_name, size);
                let (topic, entry) = table.assign(&window, 0).expect("room");
                assert_eq!(entry.is_some(), topic.0 >= 19, "{name}: {want}");
                let wire = table.streams().find(|(at, _)| *at == topic);
                assert_eq!(wire.map(|(_, wire)| wire), Some(want), "{name}");
            }
        }
    }

    #[test]
    fn a_changed_definition_gets_its_own_topic_and_name() {
        let mut table = restore(&[]);
        let (first, entry) = table.assign(&one("a", 1), 0).expect("room");
        let entry = entry.expect("new");
        let mut again = restore(&[entry]);
        assert_eq!(again.assign(&one("a", 1), 0), Ok((first, None)));
        let (second, _) = again.assign(&one("a", 2), 0).expect("room");
        assert_ne!(first, second);
        let names: Vec<_> = again.streams().map(|(_, name)| name).collect();
        assert_eq!(
            names,
            [
                "readings",
                "control",
                "late",
                "quarantine",
                "changes",
                "a",
                "a.1"
            ]
        );
        let windows: BTreeMap<_, _> = again.windows().collect();
        assert_eq!(windows[&first], "a");
        assert_eq!(windows[&second], "a");
    }

    #[test]
    fn a_window_that_is_built_anew_gets_its_own_topic_and_name() {
        let engine = EngineConfig {
            time: TimeRules::default(),
            windows: vec![window("a", 1), window("b", 2)],
            ..EngineConfig::default()
        };
        let mut table = restore(&[]);
        let mut entries = BTreeMap::new();
        for at in 0..2 {
            entries.extend(table.assign(&engine, at).expect("room").1);
        }
        for (nth, want) in [(1, "a.1"), (2, "a.2")] {
            let (before, _) = table.assign(&engine, 0).expect("room");
            let (topic, more) = table.renew(&engine, 0).expect("room");
            entries.extend(more);
            assert!(topic > before);
            let kept: Vec<_> = entries.clone().into_iter().collect();
            let mut again = restore(&kept);
            assert_eq!(again.assign(&engine, 0), Ok((topic, None)));
            assert_eq!(again.assign(&engine, 1), table.assign(&engine, 1));
            let names: BTreeMap<_, _> = again.streams().collect();
            assert_eq!(
                (names[&topic], names.len()),
                (want, 5 + 2 + nth),
                "{names:?}"
            );
            let windows: BTreeMap<_, _> = again.windows().collect();
            assert_eq!(windows[&before], "a");
        }
    }

    #[test]
    fn a_topic_is_prepared_once_and_turned_to_in_one_step() {
        let engine = one("a", 1);
        let mut table = restore(&[]);
        let mut meta: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        meta.extend(table.assign(&engine, 0).expect("room").1);
        let (first, _) = table.assign(&engine, 0).expect("room");
        let (second, entry) = table.prepare(&engine, 0).expect("room");
        meta.extend(entry);
        assert_eq!(table.prepare(&engine, 0), Ok((second, None)));
        assert_eq!(table.topic_of(&engine, 0), Some(first), "until the turn");
        let kept: Vec<_> = meta.clone().into_iter().collect();
        let mut again = restore(&kept);
        assert_eq!(
            again.prepare(&engine, 0),
            Ok((second, None)),
            "after a crash"
        );
        meta.extend(again.turn(&engine, 0));
        meta.retain(|_, value| !value.is_empty());
        assert_eq!(again.turn(&engine, 0), Vec::new());
        let kept: Vec<_> = meta.into_iter().collect();
        for table in [again, restore(&kept)] {
            assert_eq!(table.topic_of(&engine, 0), Some(second));
            let names: BTreeMap<_, _> = table.streams().collect();
            assert_eq!((names[&first], names[&second]), ("a", "a.1"));
            let hashes: BTreeMap<_, _> = table.definitions().collect();
            assert_eq!(hashes[&first], hashes[&second]);
            assert_eq!(hashes[&first].len(), 16);
        }
    }

    #[test]
    fn a_definition_is_written_in_a_frozen_form() {
        let mut window = window("a", 60_000_000);
        window.channels = Some(vec!["temp".into(), "hum".into()]);
        let engine = pipeline(vec![window]);
        assert_eq!(
            definition(&engine, 0),
            "sliding 60000000 half_open; channels temp,hum; devices *; key device,channel; \
             aggregates mean; emit on_close; finalize false; bound 5000000; lateness 0; \
             idle auto; future 300000000"
        );
        let key = String::from_utf8(meta_key(&engine, 0)).expect("text");
        assert_eq!(key, "topic/a/6b1a1fa018fa06b0");
    }

    #[test]
    fn a_pipeline_is_named_by_all_that_its_state_depends_on() {
        let config = |windows: &[(&str, i64)], bound| EngineConfig {
            time: TimeRules {
                out_of_order: Span(bound),
                ..TimeRules::default()
            },
            windows: windows
                .iter()
                .map(|(name, size)| window(name, *size))
                .collect(),
            ..EngineConfig::default()
        };
        let base = pipeline_hash(&config(&[("a", 1), ("b", 2)], 5), 1);
        let same = pipeline_hash(&config(&[("a", 1), ("b", 2)], 5), 1);
        assert_eq!(base, same);
        for (name, windows, bound, version) in [
            ("another size", &[("a", 1), ("b", 3)][..], 5, 1),
            ("another name", &[("a", 1), ("c", 2)], 5, 1),
            ("another order", &[("b", 2), ("a", 1)], 5, 1),
            ("one less", &[("a", 1)], 5, 1),
            ("another time rule", &[("a", 1), ("b", 2)], 6, 1),
            ("another state", &[("a", 1), ("b", 2)], 5, 2),
        ] {
            let other = pipeline_hash(&config(windows, bound), version);
            assert_ne!(base, other, "{name}");
        }
    }

    #[test]
    fn a_definition_says_all_that_its_rows_depend_on() {
        let over = |size, value, merge| {
            let outer = WindowSpec {
                from: Source::Window(0),
                value,
                merge,
                ..window("outer", 5)
            };
            pipeline(vec![window("inner", size), outer])
        };
        let frozen = definition(&over(7, Aggregate::Max, false), 1);
        assert_eq!(
            frozen.split_once("; max of (").map(|(_, inner)| inner),
            Some(format!("{})", definition(&one("inner", 7), 0)).as_str())
        );
        let names = |names: &[&str]| {
            let mut window = window("outer", 5);
            window.channels = Some(names.iter().map(ToString::to_string).collect());
            pipeline(vec![window.clone(), window])
        };
        let of = |kind| {
            pipeline(vec![
                WindowSpec::new("x", WindowKind::Rows { n: 1 }),
                WindowSpec::new("x", kind),
            ])
        };
        let day = |unit, zone| of(WindowKind::Tumbling(Grid::Calendar { unit, zone }));
        let paris = || Zone::named("Europe/Paris").expect("there");
        let all = [
            over(7, Aggregate::Max, false),
            over(8, Aggregate::Max, false),
            over(7, Aggregate::Min, false),
            over(7, Aggregate::Max, true),
            names(&["a", "b"]),
            names(&["a,b"]),
            names(&["*"]),
            names(&["\\*"]),
            pipeline(vec![window("inner", 7), window("outer", 5)]),
            of(WindowKind::Rows { n: 5 }),
            of(WindowKind::Session { gap: Span(5) }),
            day(CalendarUnit::Day, Zone::utc()),
            day(CalendarUnit::Day, paris()),
            day(CalendarUnit::Week, paris()),
            day(CalendarUnit::Month, paris()),
        ];
        let definitions: BTreeSet<String> = all.iter().map(|e| definition(e, 1)).collect();
        assert_eq!(definitions.len(), all.len(), "{definitions:#?}");
        let hashes: BTreeSet<u64> = all.iter().map(|e| pipeline_hash(e, 1).0).collect();
        assert_eq!(hashes.len(), all.len());
    }

    #[test]
    fn definitions_are_bounded() {
        let mut table = restore(&[]);
        for n in 0..=TOPICS_MAX {
            let assigned = table.assign(&one("a", n as i64), 0);
            assert_eq!(assigned.is_ok(), n < TOPICS_MAX, "{n}");
        }
    }
}
