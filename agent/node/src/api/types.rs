//! Answers as types, of which the document's schemas are made. Long answers are written
//! by hand, without these; tests read what was written back through them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// RFC 3339 in UTC with up to microseconds; with time=us, and outside the years 1 to 9999,
/// microseconds since 1970.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Time {
    Text(#[schemars(extend("format" = "date-time"))] String),
    Micros(i64),
}

/// Which channel of which device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(super) struct Channel {
    /// Name of the device, or its uid where it has none.
    pub(super) device: String,
    /// Sixteen hexadecimal digits.
    pub(super) uid: String,
    pub(super) channel: String,
    pub(super) unit: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Rolling {
    /// Length of the windows, such as 60s.
    pub(super) window: String,
    pub(super) series: Vec<RollingSeries>,
}

/// Figures of the window that ends at a channel's newest reading.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(super) struct RollingSeries {
    #[serde(flatten)]
    pub(super) channel: Channel,
    /// Time of the newest reading: the window's end.
    pub(super) time: Time,
    /// Readings in it that have a figure.
    pub(super) count: u64,
    pub(super) mean: Option<f64>,
    pub(super) min: Option<f64>,
    pub(super) max: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Rollups {
    pub(super) window: String,
    /// The window of the config whose rows these are, or readings.
    pub(super) source: String,
    /// The part of the range that this page is of.
    pub(super) from: Time,
    pub(super) to: Time,
    pub(super) series: Vec<RollupSeries>,
    /// For the next page; null where this is the last.
    pub(super) next: Option<String>,
}

/// Windows of one channel: the n-th of each column is of the n-th window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(super) struct RollupSeries {
    #[serde(flatten)]
    pub(super) channel: Channel,
    pub(super) starts: Vec<Time>,
    /// Not in the window any more.
    pub(super) ends: Vec<Time>,
    pub(super) count: Vec<u64>,
    pub(super) mean: Vec<Option<f64>>,
    pub(super) min: Vec<Option<f64>>,
    pub(super) max: Vec<Option<f64>>,
    pub(super) sum: Vec<Option<f64>>,
    /// Whether it may still change.
    pub(super) preliminary: Vec<bool>,
    /// What else the rows of the window say, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) figures: BTreeMap<String, Vec<Option<f64>>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Readings {
    /// The part of the range that this page is of.
    pub(super) from: Time,
    pub(super) to: Time,
    pub(super) series: Vec<ReadingSeries>,
    /// With gaps=true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) gaps: Option<Vec<Gap>>,
    /// Before this time readings of the range may have been removed to make room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) complete_from: Option<Time>,
    /// Readings that are durable and not in the answer yet: ask again.
    pub(super) readings_not_read_yet: u64,
    /// For the next page; null where this is the last.
    pub(super) next: Option<String>,
}

/// Readings of one channel: the n-th of each column is of the n-th reading.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(super) struct ReadingSeries {
    #[serde(flatten)]
    pub(super) channel: Channel,
    pub(super) times: Vec<Time>,
    pub(super) values: Vec<Option<f64>>,
    /// With detail=true: boot of the device in which it was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) boot: Option<Vec<u64>>,
    /// Its number in that boot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ordinal: Option<Vec<u64>>,
    /// How wrong the time may be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) uncertainty_us: Option<Vec<u64>>,
    /// ok, or why there is no figure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) quality: Option<Vec<String>>,
}

/// Readings of a device that will never come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Gap {
    pub(super) device: String,
    pub(super) boot: u64,
    /// Ordinal of the first of them.
    pub(super) first: u64,
    pub(super) count: u64,
    pub(super) reason: String,
    /// When it ended.
    pub(super) time: Time,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Rows {
    pub(super) stream: String,
    /// The part of the range that this page is of.
    pub(super) from: Time,
    pub(super) to: Time,
    /// As they stand in the log.
    pub(super) rows: Vec<Map<String, Value>>,
    /// For the next page; null where this is the last.
    pub(super) next: Option<String>,
}

/// What agent/core/docs/devices.md describes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(super) struct Devices {
    pub(super) devices: Vec<DeviceRow>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(super) struct DeviceRow {
    pub(super) device: String,
    pub(super) uid: String,
    #[serde(flatten)]
    pub(super) more: Map<String, Value>,
}

/// What agent/core/docs/devices.md describes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(super) struct Device {
    pub(super) device: String,
    pub(super) uid: String,
    /// Number of the port that it is on.
    pub(super) connected: Option<u64>,
    #[serde(flatten)]
    pub(super) more: Map<String, Value>,
}

/// How the agent is doing; the members that are always there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(super) struct Status {
    pub(super) gateway: String,
    /// Whether the log has been read after the start.
    pub(super) recovered: bool,
    /// Readings that came in.
    pub(super) received: u64,
    /// Of those, durable ones.
    pub(super) stored: u64,
    pub(super) duplicates: u64,
    /// Readings that the log lost.
    pub(super) lost: u64,
    /// Rows that windows and joins wrote.
    pub(super) rows: u64,
    pub(super) devices: Vec<DeviceRow>,
    pub(super) ports: Vec<Map<String, Value>>,
    pub(super) destinations: Vec<Map<String, Value>>,
    #[serde(flatten)]
    pub(super) more: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Ledger {
    pub(super) gateway: String,
    pub(super) received: u64,
    pub(super) stored: u64,
    pub(super) duplicates: u64,
    pub(super) lost: u64,
    /// Declared gaps: in all, and by reason.
    pub(super) gaps: Map<String, Value>,
    pub(super) devices: Vec<LedgerDevice>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LedgerDevice {
    pub(super) device: String,
    pub(super) uid: String,
    /// The accounts: agent/core/docs/devices.md.
    pub(super) ledger: Value,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Alarms {
    /// ok, degraded or failed.
    pub(super) health: Value,
    pub(super) alarms: Vec<Map<String, Value>>,
    /// Alarms beyond those that are listed: at most 64 of a code are.
    pub(super) left_out: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Streams {
    pub(super) streams: Vec<Stream>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Stream {
    pub(super) stream: String,
    /// readings, log, window, table or join.
    pub(super) kind: String,
    /// For windows, tables and joins: live, building, old or gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) state: Option<String>,
    /// Rows that are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) rows: Option<u64>,
}

/// Why there is no answer (RFC 9457).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ProblemAnswer {
    /// urn:forebay:problem: and the kind of problem.
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) title: String,
    pub(super) status: u16,
    /// What to change.
    pub(super) detail: String,
}
