//! The agent's and the receiver's sections as types.

use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_core::alarms::{AlarmRules, Expect};
use forebay_core::clock::{ClockRules, TrustRule};
use forebay_core::units::{EventTime, Span};
use forebay_core::utc;
use forebay_wire::limits::LOG_LEVEL_MAX;

use super::api::{ApiConfig, upstream_api};
use super::broker::{BrokerConfig, broker};
use super::error::ConfigError;
use super::files::{FilesConfig, files};
use super::postgres::{PostgresConfig, postgres};
use super::reader::{Field, Source, Table};
use super::schema_agent::{AGENT, DEVICE, QUERY, UPSTREAM};

/// `[agent]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentConfig {
    /// Needed by `forebay run`; see [`super::Config::gateway`].
    pub gateway: Option<String>,
    pub data_dir: PathBuf,
    /// 1 to 16.
    pub partitions: u16,
    /// 5 to 50 ms.
    pub linger: Duration,
    pub clock: ClockRules,
    /// 0 nothing, 1 errors, to 5, all.
    pub device_log: u8,
    /// ELF files, or folders of such.
    pub firmware: Vec<PathBuf>,
}

/// `[[device]]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceAlias {
    pub uid: [u8; 8],
    pub name: String,
    /// What is expected of it; `None`: what it says of itself.
    pub expect: Option<Expect>,
}

/// `[query]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryConfig {
    pub socket: PathBuf,
}

/// `[upstream]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamConfig {
    pub data_dir: PathBuf,
    pub broker: BrokerConfig,
    pub sink: SinkKind,
    /// Of the sink postgres.
    pub postgres: Option<PostgresConfig>,
    /// What the sink "files" needs.
    pub files: FilesConfig,
    pub socket: PathBuf,
    /// HTTP, where it is served.
    pub api: Option<ApiConfig>,
    pub share: ShareConfig,
    /// When something counts as wrong.
    pub alarms: AlarmRules,
}

/// How the messages are shared out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShareConfig {
    /// Connections of this process, 1 to [`WORKERS_MAX`].
    pub workers: u16,
    /// Name of the group, when other processes have a part of the messages.
    pub group: Option<String>,
}

impl Default for ShareConfig {
    fn default() -> Self {
        Self {
            workers: 1,
            group: None,
        }
    }
}

/// Most connections of one receiver.
pub const WORKERS_MAX: u16 = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SinkKind {
    Embedded,
    Postgres,
    Files,
}

/// Entries of `firmware`.
const FIRMWARE_MAX: usize = 16;

pub fn agent(source: &Source<'_>, folder: &Path) -> Result<AgentConfig, ConfigError> {
    let table = source.one(&AGENT)?;
    let gateway = match table.get("gateway")? {
        None => None,
        Some(field) => {
            let text = field.text()?;
            let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
            if text.len() > 64 || !text.bytes().all(plain) {
                return Err(field.bad("must be 1 to 64 of a-z 0-9 and -"));
            }
            Some(text.to_owned())
        }
    };
    let linger = table.need("linger")?;
    let partitions = table.need("partitions")?.int(1, 16)?;
    Ok(AgentConfig {
        gateway,
        data_dir: folder.join(table.need("data_dir")?.text()?),
        partitions: u16::try_from(partitions).expect("from 1 to 16"),
        linger: linger.timer(Duration::from_millis(5), Duration::from_millis(50))?,
        clock: ClockRules {
            trust: table.need("clock")?.one_of(&[
                ("auto", TrustRule::Auto),
                ("synchronised", TrustRule::Synchronised),
                ("always", TrustRule::Always),
            ])?,
            not_before: not_before(&table.need("clock_not_before")?)?,
        },
        device_log: table.need("device_log")?.one_of(&LOG_LEVELS)?,
        firmware: match table.get("firmware")? {
            Some(field) => {
                let places = field.texts(FIRMWARE_MAX)?;
                if places.iter().any(String::is_empty) {
                    return Err(field.error("has an empty path"));
                }
                places.iter().map(|place| folder.join(place)).collect()
            }
            None => Vec::new(),
        },
    })
}

/// Levels as they go over the link.
const LOG_LEVELS: [(&str, u8); 6] = [
    ("off", 0),
    ("error", 1),
    ("warn", 2),
    ("info", 3),
    ("debug", 4),
    ("trace", LOG_LEVEL_MAX),
];
const _: () = assert!(LOG_LEVEL_MAX == 5);

fn not_before(field: &Field<'_>) -> Result<EventTime, ConfigError> {
    let time = utc::parse(field.text()?);
    time.ok_or_else(|| field.bad("must be a time such as \"2025-01-01T00:00:00Z\""))
}

pub fn devices(source: &Source<'_>) -> Result<Vec<DeviceAlias>, ConfigError> {
    let mut found: Vec<DeviceAlias> = Vec::new();
    for table in source.many(&DEVICE)? {
        let uid_field = table.need("uid")?;
        let Some(uid) = parse_uid(uid_field.text()?) else {
            return Err(uid_field.bad("must be sixteen hex digits, such as \"0123456789abcdef\""));
        };
        let name_field = table.need("name")?;
        let name = name_field.name()?;
        if found.iter().any(|other| other.uid == uid) {
            return Err(uid_field.bad("has two names"));
        }
        if found.iter().any(|other| other.name == name) {
            return Err(name_field.bad("is the name of two devices"));
        }
        let expect = table.get("expect_every")?.map(|field| expect(&field));
        let expect = expect.transpose()?;
        found.push(DeviceAlias { uid, name, expect });
    }
    Ok(found)
}

fn expect(field: &Field<'_>) -> Result<Expect, ConfigError> {
    if field.text()? == "never" {
        return Ok(Expect::Never);
    }
    let every = field.timer(Duration::from_secs(1), Duration::from_secs(365 * 86_400))?;
    let micros = i64::try_from(every.as_micros()).unwrap_or(i64::MAX);
    Ok(Expect::Every(Span(micros)))
}

/// Sixteen hex digits to the bytes of a uid.
fn parse_uid(text: &str) -> Option<[u8; 8]> {
    if text.len() != 16 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    u64::from_str_radix(text, 16).ok().map(u64::to_be_bytes)
}

pub(super) fn client_id(field: &Field<'_>) -> Result<String, ConfigError> {
    field.name()
}

pub fn query(
    source: &Source<'_>,
    folder: &Path,
    data_dir: &Path,
) -> Result<QueryConfig, ConfigError> {
    let table = source.one(&QUERY)?;
    Ok(QueryConfig {
        socket: socket(&table, folder, data_dir.join("forebay.sock"))?,
    })
}

fn socket(table: &Table<'_>, folder: &Path, default: PathBuf) -> Result<PathBuf, ConfigError> {
    match table.get("socket")? {
        Some(field) => Ok(folder.join(field.text()?)),
        None => Ok(default),
    }
}

pub fn upstream(
    source: &Source<'_>,
    folder: &Path,
    alarms: &AlarmRules,
) -> Result<Option<UpstreamConfig>, ConfigError> {
    let table = source.one(&UPSTREAM)?;
    if !table.is_given() {
        return Ok(None);
    }
    let data_dir = folder.join(table.need("data_dir")?.text()?);
    let id = client_id(&table.need("client_id")?)?;
    let sink = table.need("sink")?.one_of(&[
        ("embedded", SinkKind::Embedded),
        ("postgres", SinkKind::Postgres),
        ("files", SinkKind::Files),
    ])?;
    Ok(Some(UpstreamConfig {
        broker: broker(&table, folder, id)?,
        sink,
        postgres: match sink {
            SinkKind::Embedded | SinkKind::Files => None,
            SinkKind::Postgres => Some(postgres(source, folder)?),
        },
        files: files(source, folder, &data_dir)?,
        socket: socket(&table, folder, data_dir.join("upstream.sock"))?,
        api: upstream_api(source, folder, &data_dir)?,
        share: share(&table, sink)?,
        alarms: alarms.clone(),
        data_dir,
    }))
}

fn share(table: &Table<'_>, sink: SinkKind) -> Result<ShareConfig, ConfigError> {
    let workers = table.need("workers")?.int(1, i64::from(WORKERS_MAX))?;
    let group = match table.get("group")? {
        None => None,
        Some(field) if sink != SinkKind::Postgres => {
            return Err(field.bad("needs sink = \"postgres\": only one process can open another"));
        }
        Some(field) => Some(field.name()?),
    };
    Ok(ShareConfig {
        workers: u16::try_from(workers).expect("from 1 to 16"),
        group,
    })
}
