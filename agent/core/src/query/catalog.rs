//! What there is to ask for: channels with their newest reading, windows of the config,
//! and streams. A copy as of one moment, by which names are resolved in one place.
//!
//! Bound: [`LIVE_SERIES_MAX`](crate::limits::LIVE_SERIES_MAX) channels per partition.

use std::sync::Arc;

use super::names::{Names, parse_uid};
use crate::engine::config::{
    Aggregate, EngineConfig, Grid, KeySpec, Source, WindowKind, WindowSpec,
};
use crate::live::ChannelKey;
use crate::readers::Readers;
use crate::units::{EventTime, Span};

/// See the module.
#[derive(Debug, Clone, PartialEq)]
pub struct Catalog {
    pub gateway: Arc<str>,
    /// In order of device name, then of channel.
    pub channels: Vec<CatalogEntry>,
    /// In the order of the config.
    pub windows: Vec<CatalogWindow>,
    /// Names of all derived streams on the wire, also of earlier definitions.
    pub streams: Vec<String>,
    /// What the gateway's clock says.
    pub now: EventTime,
}

/// A channel of a device.
#[derive(Debug, Clone, PartialEq)]
pub struct CatalogEntry {
    pub key: ChannelKey,
    /// Its given name, or its uid.
    pub device: Arc<str>,
    pub unit: Arc<str>,
    /// Time of its newest reading, us since 1970.
    pub newest: EventTime,
    /// Its value; `None` where the sensor gave none.
    pub value: Option<f64>,
    /// Readings since the log begins.
    pub count: u64,
}

/// A window of the config.
#[derive(Debug, Clone, PartialEq)]
pub struct CatalogWindow {
    pub name: String,
    /// `tumbling`, `hopping`, `sliding`, `rows` or `session`.
    pub kind: &'static str,
    /// Length of its windows; of a session its gap. `None` of calendar windows and of rows.
    pub size: Option<Span>,
    pub hop: Option<Span>,
    pub key: KeySpec,
    /// In the order in which they stand in a row.
    pub figures: Vec<Aggregate>,
    /// Whether it takes only some devices or channels, or the rows of another window.
    pub filtered: bool,
}

impl Catalog {
    /// What the readers know, with the windows of `engine`.
    #[must_use]
    pub fn of(
        (gateway, now): (&str, EventTime),
        (readers, names): (&Readers, &Names),
        engine: &EngineConfig,
        streams: Vec<String>,
    ) -> Self {
        let mut channels = Vec::new();
        for stage in readers.stages() {
            let mut device: Option<(_, Arc<str>)> = None;
            for (key, live) in stage.live.iter() {
                let name = match device.take() {
                    Some((uid, name)) if uid == key.uid => name,
                    Some(_) | None => Arc::from(names.name(key.uid)),
                };
                device = Some((key.uid, name.clone()));
                if live.count > 0 {
                    channels.push(CatalogEntry {
                        key: key.clone(),
                        device: name,
                        unit: live.unit.clone(),
                        newest: live.time,
                        value: live.value,
                        count: live.count,
                    });
                }
            }
        }
        channels.sort_by(|a, b| (&a.device, &a.key).cmp(&(&b.device, &b.key)));
        Self {
            gateway: gateway.into(),
            channels,
            windows: engine.windows.iter().map(window).collect(),
            streams,
            now,
        }
    }

    /// The channel that is so named: device by its given name or its sixteen hex digits.
    #[must_use]
    pub fn find(&self, device: &str, channel: &str) -> Option<&CatalogEntry> {
        let uid = parse_uid(device);
        let of_device = |entry: &&CatalogEntry| {
            *entry.device == *device || uid.is_some_and(|uid| uid == entry.key.uid)
        };
        let mut of_channel = self.channels.iter().filter(of_device);
        of_channel.find(|entry| *entry.key.channel == *channel)
    }

    /// The channels of the device that is so named, in order.
    pub fn of_device<'a>(&'a self, device: &'a str) -> impl Iterator<Item = &'a CatalogEntry> {
        let uid = parse_uid(device);
        self.channels.iter().filter(move |entry| {
            *entry.device == *device || uid.is_some_and(|uid| uid == entry.key.uid)
        })
    }
}

fn window(spec: &WindowSpec) -> CatalogWindow {
    let (kind, size, hop) = match &spec.kind {
        WindowKind::Tumbling(Grid::Fixed { size, .. }) => ("tumbling", Some(*size), None),
        WindowKind::Tumbling(Grid::Calendar { .. }) => ("tumbling", None, None),
        WindowKind::Hopping { size, hop, .. } => ("hopping", Some(*size), Some(*hop)),
        WindowKind::Sliding { size, .. } => ("sliding", Some(*size), None),
        WindowKind::Rows { .. } => ("rows", None, None),
        WindowKind::Session { gap } => ("session", Some(*gap), None),
    };
    let is_whole = spec.channels.is_none() && spec.devices.is_none();
    CatalogWindow {
        name: spec.name.clone(),
        kind,
        size,
        hop,
        key: spec.key,
        figures: spec.aggregates.clone(),
        filtered: !is_whole || spec.from != Source::Readings,
    }
}
