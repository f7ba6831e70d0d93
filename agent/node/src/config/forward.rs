//! `[forward]`, or several `[[forward]]`: where the log is sent to, and how.
//!
//! Holds always: names and client ids of destinations are unique. Bound:
//! DESTINATIONS_MAX destinations.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use forebay_core::engine::config::EngineConfig;
use forebay_core::forward::{DEFAULT_DESTINATION, ForwardConfig as CoreForward, Order};
use forebay_core::limits::{DESTINATIONS_MAX, MESSAGE_BYTES_MAX};
use forebay_core::payload::sparkplug::NodeId;
use forebay_core::payload::{Encoding, FORMATS, Format, GatewayName};
use forebay_core::retention::FIXED_TOPICS;
use forebay_core::units::Span;

use super::agent::client_id;
use super::broker::{BrokerConfig, broker};
use super::error::ConfigError;
use super::log::derived;
use super::reader::{Source, Table};
use super::schema_agent::FORWARD;

/// Shortest message that may be asked for: an envelope and a record fit.
const MESSAGE_BYTES_MIN: u64 = 1024;
/// The topic that stays on the gateway.
const EXCHANGE: &str = "exchange";
/// Entries of `topics`.
const TOPICS_MAX: usize = 64;
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

/// One destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForwardConfig {
    pub broker: BrokerConfig,
    /// What is sent there, and in which order.
    pub settings: CoreForward,
}

/// Reads all destinations. `within` is how old records of a topic may be when they
/// are sent.
pub fn forward(
    source: &Source<'_>,
    folder: &Path,
    gateway: Option<&str>,
    (engine, within): (&EngineConfig, &BTreeMap<String, Span>),
) -> Result<Vec<ForwardConfig>, ConfigError> {
    let mut found: Vec<ForwardConfig> = Vec::new();
    for table in source.one_or_many(&FORWARD)? {
        let name_field = table.need("name")?;
        if found.len() >= DESTINATIONS_MAX {
            return Err(name_field.error(format!(
                "is one destination too many: there may be {DESTINATIONS_MAX}"
            )));
        }
        let name = name_field.name()?;
        if found.iter().any(|other| other.settings.name == name) {
            return Err(name_field.error(format!("has \"{name}\" twice: name each [[forward]]")));
        }
        let destination = destination(&table, folder, (gateway, name), engine, within)?;
        let id = &destination.broker.client_id;
        if found.iter().any(|other| other.broker.client_id == *id) {
            return Err(table.error("client_id", "is that of another destination"));
        }
        found.push(destination);
    }
    Ok(found)
}

fn destination(
    table: &Table<'_>,
    folder: &Path,
    (gateway, name): (Option<&str>, String),
    engine: &EngineConfig,
    within: &BTreeMap<String, Span>,
) -> Result<ForwardConfig, ConfigError> {
    let id = match table.get("client_id")? {
        Some(field) => client_id(&field)?,
        None => default_client_id(gateway.unwrap_or("gateway"), &name),
    };
    let window = table.need("window")?.int(1, 1000)?;
    let window = u16::try_from(window).expect("from 1 to 1000");
    let ack_timeout = table.need("ack_timeout")?.timer(SECOND / 10, HOUR)?;
    let ack_timeout = Span(i64::try_from(ack_timeout.as_micros()).unwrap_or(i64::MAX));
    let rate = match table.get("rate")? {
        Some(field) => Some(field.int(1, i64::from(u32::MAX))?),
        None => None,
    };
    let message = table.need("max_message")?;
    let message_bytes_max = message.size(MESSAGE_BYTES_MIN, MESSAGE_BYTES_MAX as u64)?;
    let form = form(table, gateway)?;
    let topics = match &form {
        Form::Encoded(_) => topics(table, engine)?,
        Form::Sparkplug(_) => readings_only(table)?,
    };
    let (encoding, sparkplug) = match form {
        Form::Encoded(encoding) => (encoding, None),
        Form::Sparkplug(node) => (Encoding::default(), Some(node)),
    };
    let settings = CoreForward {
        name,
        encoding,
        sparkplug,
        topics,
        order: table.need("order")?.one_of(&[
            ("oldest_first", Order::OldestFirst),
            ("live_first", Order::LiveFirst),
        ])?,
        rate: rate.and_then(|rate| u32::try_from(rate).ok()),
        message_bytes_max: usize::try_from(message_bytes_max).unwrap_or(MESSAGE_BYTES_MAX),
        retain: table.need("retain")?.bool()?,
        within: within.clone(),
        ..CoreForward::new(window, ack_timeout)
    };
    Ok(ForwardConfig {
        broker: broker(table, folder, id)?,
        settings,
    })
}

/// How records go out.
enum Form {
    Encoded(Encoding),
    Sparkplug(NodeId),
}

/// Name of the format that is no encoding of messages.
const SPARKPLUG: &str = "sparkplug-b";

fn form(table: &Table<'_>, gateway: Option<&str>) -> Result<Form, ConfigError> {
    let encodings = FORMATS.map(|(format, name)| (name, Some(format)));
    let formats = [&encodings[..], &[(SPARKPLUG, None)]].concat();
    let format = table.need("format")?.one_of(&formats)?;
    let group = table.get("group")?;
    let Some(format) = format else {
        if let Some(compress) = table.get("compress")? {
            return Err(compress.error("is not for sparkplug-b: no host would read it"));
        }
        let Some(group) = group else {
            let what = "is missing: sparkplug-b needs the group that the gateway is in";
            return Err(table.error("group", what));
        };
        let name = GatewayName::new(gateway.unwrap_or("gateway"))
            .map_err(|error| group.error(error.to_string()))?;
        let node = NodeId::new(&group.name()?, &name);
        let node = node.map_err(|error| group.error(error.to_string()))?;
        return Ok(Form::Sparkplug(node));
    };
    match group {
        Some(group) => Err(group.error("is for format = \"sparkplug-b\" only")),
        None => encoding(table, format).map(Form::Encoded),
    }
}

/// Sparkplug has no place for results.
fn readings_only(table: &Table<'_>) -> Result<Vec<String>, ConfigError> {
    let readings = vec!["readings".to_owned()];
    match table.get("topics")? {
        Some(field) if field.texts(TOPICS_MAX)? != readings => {
            Err(field.error("may be [\"readings\"] only: Sparkplug has no place for anything else"))
        }
        Some(_) | None => Ok(readings),
    }
}

/// Two clients of one name would drop each other, also at two brokers that are one
/// after all.
fn default_client_id(gateway: &str, name: &str) -> String {
    if name == DEFAULT_DESTINATION {
        format!("forebay-{gateway}")
    } else {
        format!("forebay-{gateway}-{name}")
    }
}

/// Blocks of rows get shorter by it; JSON is to stay readable.
fn encoding(table: &Table<'_>, format: Format) -> Result<Encoding, ConfigError> {
    let zstd = match table.get("compress")? {
        Some(field) => field.one_of(&[("none", false), ("zstd", true)])?,
        None => format == Format::Compact,
    };
    Ok(Encoding { format, zstd })
}

fn topics(table: &Table<'_>, engine: &EngineConfig) -> Result<Vec<String>, ConfigError> {
    let Some(field) = table.get("topics")? else {
        return Ok(Vec::new());
    };
    let sent = FIXED_TOPICS.into_iter().filter(|topic| *topic != EXCHANGE);
    let known: Vec<&str> = sent.chain(derived(engine)).collect();
    let topics = field.texts(TOPICS_MAX)?;
    if topics.iter().any(|topic| topic == EXCHANGE) {
        return Err(field.error(
            "has \"exchange\", which is not forwarded: it has the readings once more, in the \
             order in which this gateway computes",
        ));
    }
    match topics.iter().find(|topic| !known.contains(&topic.as_str())) {
        Some(unknown) => Err(field.error(format!(
            "has \"{unknown}\", which is none of: {}",
            known.join(", ")
        ))),
        None => Ok(topics),
    }
}
