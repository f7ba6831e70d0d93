//! The config file: TOML to checked types. Every error names the file, the
//! line, the key and the nearest valid one; none shows a secret. Reads nothing
//! but the one file; passwords stay in theirs.

pub mod agent;
pub mod alarms;
pub mod api;
pub mod broker;
mod chain;
pub mod check;
pub mod database;
pub mod duration;
mod engine;
pub mod error;
pub mod feed;
pub mod files;
pub mod forward;
mod join;
pub mod log;
pub mod pipeline;
pub mod port;
pub mod postgres;
pub mod reader;
pub mod reference;
pub mod schema;
pub mod schema_agent;
pub mod schema_broker;
pub mod schema_table;
pub mod size;
pub mod table;
#[cfg(test)]
mod tests;
mod window;

use std::path::{Path, PathBuf};

use forebay_core::alarms::AlarmRules;
use forebay_core::engine::config::EngineConfig;

pub use self::agent::{
    AgentConfig, DeviceAlias, QueryConfig, ShareConfig, SinkKind, UpstreamConfig,
};
pub use self::api::{ApiConfig, ApiTls};
pub use self::broker::{
    BrokerConfig, Identity, PasswordFrom, Placed, Protocol, TlsKeys, Transport,
};
pub use self::database::DatabaseConfig;
pub use self::error::{ConfigError, Place};
pub use self::feed::{FeedFrom, TableFeed};
pub use self::files::{FilesConfig, FilesFormat};
pub use self::forward::ForwardConfig;
pub use self::log::{LogConfig, SyncMode};
pub use self::port::DevicePort;
pub use self::postgres::{PartitionSize, PostgresConfig, PostgresPassword};
pub use self::reference::reference;
pub use self::table::{TableConfig, TableRow, TableSource};

use self::reader::Source;
use self::schema::Section;

/// All sections, in the order of the reference file.
pub const SECTIONS: [&Section; 18] = [
    &schema_agent::AGENT,
    &port::DEVICE_PORT,
    &schema_agent::DEVICE,
    &alarms::ALARMS,
    &schema_agent::LOG,
    &schema_agent::TOPIC,
    &schema::ENGINE,
    &schema_table::TABLE,
    &schema::WINDOW,
    &schema_table::JOIN,
    &database::DATABASE,
    &schema_agent::FORWARD,
    &schema_agent::QUERY,
    &api::API,
    &schema_agent::UPSTREAM,
    &api::UPSTREAM_API,
    &postgres::POSTGRES,
    &files::FILES,
];

/// A whole config file, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    pub file: PathBuf,
    pub agent: AgentConfig,
    pub device_ports: Vec<DevicePort>,
    pub devices: Vec<DeviceAlias>,
    /// Without ports and devices: these stand in their own sections.
    pub alarms: AlarmRules,
    pub log: LogConfig,
    pub engine: EngineConfig,
    /// The sections that say it, as the log keeps them.
    pub pipeline: String,
    /// As [`EngineConfig::tables`], in the same order.
    pub tables: Vec<TableConfig>,
    /// Where tables may be fed from.
    pub databases: Vec<DatabaseConfig>,
    /// Of those whose rows come from topics and files.
    pub feeds: Vec<TableFeed>,
    /// None: nothing is forwarded.
    pub forward: Vec<ForwardConfig>,
    pub query: QueryConfig,
    /// None: nothing is served over HTTP.
    pub api: Option<ApiConfig>,
    pub upstream: Option<UpstreamConfig>,
}

impl Config {
    /// Reads and checks a config file. Paths in it that are not absolute start
    /// at the file's folder.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = reader::read_text(path)?;
        Self::from_text(path, &text)
    }

    /// As [`Config::load`], with the text at hand.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line.
    pub fn from_text(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let folder = path.parent().unwrap_or(Path::new(""));
        let source = Source::parse(path, text)?;
        source.only(&SECTIONS)?;
        let agent = agent::agent(&source, folder)?;
        let (engine, tables) = engine::read(&source)?;
        let databases = database::databases(&source, folder)?;
        let (log, within) = log::log(&source, &engine)?;
        let alarms = alarms::alarms(&source)?;
        let of_topics = (&engine, &within);
        Ok(Self {
            file: path.to_owned(),
            device_ports: port::device_ports(&source)?,
            devices: agent::devices(&source)?,
            forward: forward::forward(&source, folder, agent.gateway.as_deref(), of_topics)?,
            log,
            pipeline: pipeline::text_of(text, &engine),
            engine,
            feeds: feed::feeds(
                &source,
                folder,
                agent.gateway.as_deref(),
                (&tables, &databases),
            )?,
            databases,
            tables,
            query: agent::query(&source, folder, &agent.data_dir)?,
            api: api::api(&source, folder, &agent.data_dir)?,
            upstream: agent::upstream(&source, folder, &alarms)?,
            alarms,
            agent,
        })
    }

    /// The gateway's name, which `forebay run` needs.
    ///
    /// # Errors
    /// When `[agent] gateway` is not given.
    pub fn gateway(&self) -> Result<&str, ConfigError> {
        self.agent.gateway.as_deref().ok_or_else(|| ConfigError {
            place: "[agent] gateway".into(),
            ..ConfigError::whole_file(&self.file, "is missing; for example gateway = \"gw-1\"")
        })
    }

    /// Where HTTP is served: by the agent, and by the receiver.
    pub fn served(&self) -> impl Iterator<Item = &ApiConfig> {
        let receiver = self.upstream.iter().flat_map(|upstream| &upstream.api);
        self.api.iter().chain(receiver)
    }

    /// The receiver's section, which `forebay upstream` needs.
    ///
    /// # Errors
    /// When there is no `[upstream]`.
    pub fn upstream(&self) -> Result<&UpstreamConfig, ConfigError> {
        self.upstream.as_ref().ok_or_else(|| ConfigError {
            place: "[upstream]".into(),
            ..ConfigError::whole_file(
                &self.file,
                "is missing; for example [upstream] with broker = \"127.0.0.1:1883\"",
            )
        })
    }
}
