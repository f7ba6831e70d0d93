//! `[log]` and `[[topic]]`: when the log is synced, how much room it takes.

use std::collections::BTreeMap;
use std::time::Duration;

use forebay_core::engine::config::EngineConfig;
use forebay_core::limits::{GENERATION_BYTES_MIN, QUOTA_BYTES_MIN};
use forebay_core::retention::{FIXED_TOPICS, SpaceConfig, TopicPolicy, WhenFull, default_policy};
use forebay_core::units::Span;

use super::error::ConfigError;
use super::reader::{Source, Table};
use super::schema_agent::{LOG, TOPIC};

/// Largest generation: it is opened and rewritten as a whole.
const GENERATION_BYTES_MAX: u64 = 256 << 20;
/// Smallest and largest file that is given up when the disk is full.
const BALLAST_BYTES: (u64, u64) = (1 << 20, 1 << 30);
/// Largest quota and reserve: more than any disk has.
const DISK_BYTES_MAX: u64 = 1 << 50;

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(86_400);

/// When a batch counts as durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncMode {
    /// Blocks within this time of each other share one sync.
    Group(Duration),
    EveryBlock,
    None,
}

/// `[log]` and `[[topic]]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogConfig {
    pub sync: SyncMode,
    /// A generation of the log is sealed at this size, made smaller where a quota
    /// is small, or at this age.
    pub generation_bytes: u64,
    pub generation_age: Duration,
    /// Length of the file that is given up so that a full disk can be worked on.
    pub ballast_bytes: u64,
    pub space: SpaceConfig,
}

#[derive(Clone, Copy)]
enum SyncName {
    Group,
    EveryBlock,
    None,
}

/// Reads both sections. Topics are named by `engine`'s windows and by those that
/// every log has. Also how old records of a topic may be when they are forwarded.
pub fn log(source: &Source<'_>, engine: &EngineConfig) -> Result<(LogConfig, Within), ConfigError> {
    let table = source.one(&LOG)?;
    let (topics, within) = topics(source, engine)?;
    let space = SpaceConfig {
        reserve_bytes: table.need("reserve")?.size(0, DISK_BYTES_MAX)?,
        topics,
    };
    let wanted = table
        .need("generation")?
        .size(GENERATION_BYTES_MIN, GENERATION_BYTES_MAX)?;
    let (least, most) = BALLAST_BYTES;
    let log = LogConfig {
        sync: sync(&table)?,
        generation_bytes: space.generation_bytes(wanted),
        generation_age: table.need("generation_age")?.timer(MINUTE, 365 * DAY)?,
        ballast_bytes: table.need("ballast")?.size(least, most)?,
        space,
    };
    Ok((log, within))
}

fn sync(table: &Table<'_>) -> Result<SyncMode, ConfigError> {
    let (least, most) = (Duration::from_millis(1), Duration::from_secs(10));
    let group = table.need("group")?.timer(least, most)?;
    let sync = table.need("sync")?.one_of(&[
        ("group", SyncName::Group),
        ("every_block", SyncName::EveryBlock),
        ("none", SyncName::None),
    ])?;
    Ok(match sync {
        SyncName::Group => SyncMode::Group(group),
        SyncName::EveryBlock => SyncMode::EveryBlock,
        SyncName::None => SyncMode::None,
    })
}

type Policies = BTreeMap<String, TopicPolicy>;
/// How old records of a topic may be when they are forwarded.
pub type Within = BTreeMap<String, Span>;

/// Names of the streams that the engine writes beside the fixed ones.
pub(super) fn derived(engine: &EngineConfig) -> impl Iterator<Item = &str> {
    let windows = engine.windows.iter().map(|window| window.name.as_str());
    windows.chain(engine.joins.iter().map(|join| join.name.as_str()))
}

fn topics(source: &Source<'_>, engine: &EngineConfig) -> Result<(Policies, Within), ConfigError> {
    let names: Vec<(&str, &str)> = FIXED_TOPICS
        .into_iter()
        .chain(derived(engine))
        .map(|name| (name, name))
        .collect();
    let (mut policies, mut within) = (Policies::new(), Within::new());
    for table in source.many(&TOPIC)? {
        let field = table.need("name")?;
        let name = field.one_of(&names)?;
        let policy = topic(&table, name)?;
        if let Some(longest) = age(&table, "forward_within")? {
            within.insert(name.to_owned(), longest);
        }
        if policies.insert(name.to_owned(), policy).is_some() {
            return Err(field.bad("has two sections"));
        }
    }
    Ok((policies, within))
}

fn age(table: &Table<'_>, key: &str) -> Result<Option<Span>, ConfigError> {
    let Some(field) = table.get(key)? else {
        return Ok(None);
    };
    let age = field.timer(MINUTE, 36_500 * DAY)?;
    let age = i64::try_from(age.as_micros()).unwrap_or(i64::MAX);
    Ok(Some(Span(age)))
}

fn topic(table: &Table<'_>, name: &str) -> Result<TopicPolicy, ConfigError> {
    let quota_bytes = match table.get("quota")? {
        Some(field) => field.size(QUOTA_BYTES_MIN, DISK_BYTES_MAX)?,
        None => default_policy(name).quota_bytes,
    };
    let age = age(table, "age")?;
    let policies = [WhenFull::DropOldest, WhenFull::RejectNew, WhenFull::Block];
    let field = table.need("when_full")?;
    let when_full = field.one_of(&policies.map(|policy| (policy.name(), policy)))?;
    if name == "exchange" && when_full != WhenFull::DropOldest {
        // What it would refuse stands in `readings`, and would be missing without a word.
        return Err(field.error("is drop_oldest for the exchange"));
    }
    Ok(TopicPolicy {
        quota_bytes,
        age,
        when_full,
    })
}
