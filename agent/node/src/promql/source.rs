//! Where series come from: channels of devices, and figures of the windows of the config.
//!
//! Always holds: each channel is one series, named after it; each figure of a tumbling
//! window over all channels is one more per channel, named `<window>:<figure>`, with the
//! end of each window as its time. Bound: what the caller allows of series. Reads nothing
//! itself: [`Source`] does.

use std::sync::Arc;

use forebay_core::live::ChannelKey;

use super::error::QueryError;
use super::labels::{Labels, Matcher, NAME, all_take, metric_name};
use super::limits::QUERY_SERIES_MAX;

/// A channel that there is.
#[derive(Debug, Clone, PartialEq)]
pub struct Channel {
    pub key: ChannelKey,
    pub device: Arc<str>,
    pub unit: Arc<str>,
    /// Time of its newest reading, microseconds since 1970.
    pub newest: i64,
}

/// A tumbling window over each channel by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rollup {
    pub name: String,
    /// Length of its windows, microseconds; they begin at multiples of it.
    pub size: i64,
    /// As the config names them.
    pub figures: Vec<String>,
}

/// What there is to ask for.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Known {
    pub gateway: Arc<str>,
    pub channels: Vec<Channel>,
    pub rollups: Vec<Rollup>,
}

/// Readings of a channel: times rise strictly, NaN where the sensor gave no value.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Column {
    pub times: Vec<i64>,
    pub values: Vec<f64>,
}

/// Figures of a channel's windows, those without a reading left out.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Figures {
    /// Microseconds since 1970, not part of the window.
    pub ends: Vec<i64>,
    pub count: Vec<u64>,
    /// By the names of the config; NaN where there is none.
    pub figures: Vec<(String, Vec<f64>)>,
    /// A window of the config on that grid wrote them; else they are made of readings.
    pub from_rows: bool,
}

impl Figures {
    /// The column of that name.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<&[f64]> {
        let found = self.figures.iter().find(|(other, _)| other == name);
        found.map(|(_, values)| values.as_slice())
    }
}

/// Reads the log.
pub trait Source: Clone + Send + Sync + 'static {
    /// What there is to ask for at this moment.
    fn known(&self) -> impl Future<Output = Result<Known, QueryError>> + Send;

    /// Readings of channels in `[from, to)`, microseconds since 1970, in the order of `keys`;
    /// an error when there are more than `most`.
    fn readings(
        &self,
        keys: Vec<ChannelKey>,
        range: (i64, i64),
        most: usize,
    ) -> impl Future<Output = Result<Vec<Column>, QueryError>> + Send;

    /// Windows of `size` microseconds that overlap the range.
    fn figures(
        &self,
        keys: Vec<ChannelKey>,
        size: i64,
        range: (i64, i64),
        most: usize,
    ) -> impl Future<Output = Result<Vec<Figures>, QueryError>> + Send;
}

/// What the values of a series are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    Readings,
    /// A figure of a window, by its place in [`Known::rollups`] and its name.
    Figure(usize, String),
}

/// A series that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub labels: Labels,
    /// Its place in [`Known::channels`].
    pub channel: usize,
    pub kind: Kind,
}

impl Known {
    /// Series that meet the conditions, in order of labels.
    ///
    /// # Errors
    /// When there are more than `most`.
    pub fn find(&self, matchers: &[Matcher], most: usize) -> Result<Vec<Found>, QueryError> {
        let (on_name, others): (Vec<&Matcher>, Vec<&Matcher>) =
            matchers.iter().partition(|matcher| matcher.name == NAME);
        let others: Vec<Matcher> = others.into_iter().cloned().collect();
        let named = |name: &str| on_name.iter().all(|matcher| matcher.takes_value(name));
        let figures = self.figure_names().into_iter();
        let figures: Vec<_> = figures.filter(|(name, _)| named(name)).collect();
        let mut found = Vec::new();
        for (place, channel) in self.channels.iter().enumerate() {
            let name = metric_name(&channel.key.channel);
            let mut take = |labels: Labels, kind: Kind| {
                if all_take(&others, &labels) {
                    found.push(Found {
                        labels,
                        channel: place,
                        kind,
                    });
                }
            };
            if named(&name) {
                take(self.labels(channel, &name), Kind::Readings);
            }
            for (name, kind) in &figures {
                take(self.figure_labels(channel, name), kind.clone());
            }
            if found.len() > most {
                return Err(too_many_series(most));
            }
        }
        found.sort_by(|a, b| a.labels.cmp(&b.labels));
        Ok(found)
    }

    /// Names of all series of windows.
    fn figure_names(&self) -> Vec<(String, Kind)> {
        let mut names = Vec::new();
        for (place, rollup) in self.rollups.iter().enumerate() {
            for figure in &rollup.figures {
                let name = metric_name(&format!("{}:{figure}", rollup.name));
                names.push((name, Kind::Figure(place, figure.clone())));
            }
        }
        names
    }

    fn labels(&self, channel: &Channel, name: &str) -> Labels {
        Labels::of([
            (NAME, name),
            ("channel", &channel.key.channel),
            ("device", &channel.device),
            ("gateway", &self.gateway),
            ("unit", &channel.unit),
        ])
    }

    fn figure_labels(&self, channel: &Channel, name: &str) -> Labels {
        Labels::of([
            (NAME, name),
            ("channel", &channel.key.channel),
            ("device", &channel.device),
            ("gateway", &self.gateway),
        ])
    }
}

/// The error of a query that meets too many series.
#[must_use]
pub fn too_many_series(most: usize) -> QueryError {
    QueryError::Execution(format!(
        "the query meets more than {most} series: name the metric, a device or a channel"
    ))
}

const _: () = assert!(QUERY_SERIES_MAX > 0);

#[cfg(test)]
mod tests {
    use forebay_wire::ids::DeviceUid;

    use super::super::plan::matchers_of;
    use super::*;

    fn known() -> Known {
        let channel = |device: u8, name: &str, unit: &str| Channel {
            key: ChannelKey {
                uid: DeviceUid([device; 8]),
                channel: name.into(),
            },
            device: format!("d{device}").into(),
            unit: unit.into(),
            newest: 0,
        };
        Known {
            gateway: "gw".into(),
            channels: vec![
                channel(1, "temp.c", "Cel"),
                channel(1, "wet", ""),
                channel(2, "temp.c", "Cel"),
            ],
            rollups: vec![Rollup {
                name: "minute".to_owned(),
                size: 60_000_000,
                figures: vec!["mean".to_owned(), "max".to_owned()],
            }],
        }
    }

    #[test]
    fn channels_and_figures_are_series() {
        for (query, want) in [
            (
                "temp_c{device='d1'}",
                vec![r#"temp_c{channel="temp.c", device="d1", gateway="gw", unit="Cel"}"#],
            ),
            (
                "wet",
                vec![r#"wet{channel="wet", device="d1", gateway="gw"}"#],
            ),
            (
                "minute:mean{channel='wet'}",
                vec![r#"minute:mean{channel="wet", device="d1", gateway="gw"}"#],
            ),
            (
                "{__name__=~'.*:.*',device='d2'}",
                vec![
                    r#"minute:max{channel="temp.c", device="d2", gateway="gw"}"#,
                    r#"minute:mean{channel="temp.c", device="d2", gateway="gw"}"#,
                ],
            ),
            ("no", vec![]),
        ] {
            let found = known()
                .find(&matchers_of(query).expect(query), 100)
                .expect(query);
            let labels: Vec<String> = found.iter().map(|one| one.labels.to_string()).collect();
            assert_eq!(labels, want, "{query}");
        }
    }

    #[test]
    fn series_are_bounded() {
        let matchers = matchers_of("{gateway='gw'}").expect("right");
        for (name, most, fits) in [("below", 10, true), ("at", 9, true), ("above", 8, false)] {
            assert_eq!(known().find(&matchers, most).is_ok(), fits, "{name}");
        }
    }
}
