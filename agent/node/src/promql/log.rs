//! The log as a source of series: through [`Reads`], which reads it beside the loop.
//!
//! Always holds: times of a channel rise strictly; of several readings of one
//! microsecond the one with the greatest value counts, so that the answer does not hang
//! on the order in which blocks are read.

use std::cmp::Ordering;

use forebay_core::engine::config::KeySpec;
use forebay_core::live::ChannelKey;
use forebay_core::query::{Columns, RollupColumns};
use forebay_core::units::{EventTime, Span};

use super::error::QueryError;
use super::fetch::too_many_samples;
use super::source::{Channel, Column, Figures, Known, Rollup, Source};
use crate::reads::{ReadError, ReadingsWant, Reads, RollupSource, RollupWant};

impl Source for Reads {
    async fn known(&self) -> Result<Known, QueryError> {
        let catalog = self.catalog().await?;
        let channels = catalog.channels.iter().map(|entry| Channel {
            key: entry.key.clone(),
            device: entry.device.clone(),
            unit: entry.unit.clone(),
            newest: entry.newest.0,
        });
        let rollups = catalog.windows.iter().filter_map(|window| {
            let whole = window.kind == "tumbling"
                && window.key == KeySpec::DEVICE_CHANNEL
                && !window.filtered;
            let size = window.size.filter(|_| whole)?;
            Some(Rollup {
                name: window.name.clone(),
                size: size.0,
                figures: window.figures.iter().map(ToString::to_string).collect(),
            })
        });
        Ok(Known {
            gateway: catalog.gateway.clone(),
            channels: channels.collect(),
            rollups: rollups.collect(),
        })
    }

    async fn readings(
        &self,
        keys: Vec<ChannelKey>,
        (from, to): (i64, i64),
        most: usize,
    ) -> Result<Vec<Column>, QueryError> {
        let want = ReadingsWant {
            keys,
            range: EventTime(from)..EventTime(to),
            detail: false,
            rows_max: most.max(1),
            newest_first: false,
        };
        // The method of the type itself, which the trait's has its name from.
        let got = Reads::readings(self, want).await?;
        if got.left_out {
            return Err(too_many_samples());
        }
        Ok(got.columns.into_iter().map(column).collect())
    }

    async fn figures(
        &self,
        keys: Vec<ChannelKey>,
        size: i64,
        (from, to): (i64, i64),
        most: usize,
    ) -> Result<Vec<Figures>, QueryError> {
        let got = self
            .rollup(RollupWant {
                keys,
                size: Span(size),
                range: EventTime(from)..EventTime(to),
                rows_max: most.max(1),
            })
            .await?;
        if got.left_out {
            return Err(too_many_samples());
        }
        let from_rows = matches!(got.source, RollupSource::Stream(_));
        let figures = got.columns.into_iter().map(|one| figures(one, from_rows));
        Ok(figures.collect())
    }
}

impl From<ReadError> for QueryError {
    fn from(error: ReadError) -> Self {
        let text = error.to_string();
        match error {
            ReadError::Unknown(_) | ReadError::TooMuch(_) | ReadError::Disk(_) => {
                Self::Execution(text)
            }
            ReadError::Wrong(_) => Self::BadData(text),
            ReadError::Busy | ReadError::Stopped => Self::Unavailable(text),
        }
    }
}

fn column(columns: Columns) -> Column {
    let (times, values) = (columns.times, columns.values);
    if times.windows(2).all(|pair| pair[0] < pair[1]) {
        return Column { times, values };
    }
    let mut pairs: Vec<(i64, f64)> = times.into_iter().zip(values).collect();
    pairs.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| greatest_first(a.1, b.1)));
    pairs.dedup_by_key(|(time, _)| *time);
    let (times, values) = pairs.into_iter().unzip();
    Column { times, values }
}

/// Greatest first, no value last.
fn greatest_first(a: f64, b: f64) -> Ordering {
    a.is_nan().cmp(&b.is_nan()).then(b.total_cmp(&a))
}

fn figures(columns: RollupColumns, from_rows: bool) -> Figures {
    let fixed = [
        ("mean", columns.mean),
        ("min", columns.min),
        ("max", columns.max),
        ("sum", columns.sum),
    ];
    let fixed = fixed.map(|(name, values)| (name.to_owned(), values));
    Figures {
        ends: columns.ends,
        count: columns.count,
        figures: fixed.into_iter().chain(columns.others).collect(),
        from_rows,
    }
}

#[cfg(test)]
mod tests {
    use forebay_wire::ids::DeviceUid;

    use super::*;

    #[test]
    fn of_one_time_the_greatest_value_counts() {
        let nan = f64::NAN;
        for (name, times, values, want) in [
            (
                "in order",
                vec![1, 2],
                vec![5.0, 4.0],
                vec![(1, 5.0), (2, 4.0)],
            ),
            (
                "not in order",
                vec![2, 1],
                vec![5.0, 4.0],
                vec![(1, 4.0), (2, 5.0)],
            ),
            (
                "twice",
                vec![1, 1, 2],
                vec![3.0, 4.0, 1.0],
                vec![(1, 4.0), (2, 1.0)],
            ),
            (
                "one without a value",
                vec![1, 1],
                vec![nan, -4.0],
                vec![(1, -4.0)],
            ),
        ] {
            let got = column(Columns {
                key: ChannelKey {
                    uid: DeviceUid([1; 8]),
                    channel: "x".into(),
                },
                times,
                values,
                detail: None,
            });
            let pairs: Vec<(i64, f64)> = got.times.into_iter().zip(got.values).collect();
            assert_eq!(pairs, want, "{name}");
        }
    }
}
