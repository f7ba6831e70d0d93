//! Tests of what a query may read and what answers may hold: below each limit, at it, and
//! above.

use forebay_core::live::ChannelKey;
use forebay_wire::ids::DeviceUid;

use super::ask::Asked;
use super::ast::Grid;
use super::error::QueryError;
use super::fetch::fetch;
use super::limits::{ANSWERS_KIB_MAX, QUERY_SAMPLES_MAX, QUERY_SERIES_MAX};
use super::plan::plan;
use super::source::{Channel, Column, Figures, Known, Source};

/// So many channels with so many readings each, all at other times.
#[derive(Debug, Clone)]
struct Wide {
    channels: usize,
    readings: usize,
}

impl Source for Wide {
    async fn known(&self) -> Result<Known, QueryError> {
        let channel = |number: usize| Channel {
            key: ChannelKey {
                uid: DeviceUid((number as u64).to_be_bytes()),
                channel: "temp".into(),
            },
            device: format!("d{number}").into(),
            unit: "".into(),
            newest: 0,
        };
        Ok(Known {
            gateway: "gw".into(),
            channels: (0..self.channels).map(channel).collect(),
            rollups: Vec::new(),
        })
    }

    /// Gives also what is too much: the caller counts for itself.
    async fn readings(
        &self,
        keys: Vec<ChannelKey>,
        _range: (i64, i64),
        _most: usize,
    ) -> Result<Vec<Column>, QueryError> {
        let count = i64::try_from(self.readings).expect("it fits");
        let column = || Column {
            times: (0..count).collect(),
            values: vec![0.0; self.readings],
        };
        Ok(keys.iter().map(|_| column()).collect())
    }

    async fn figures(
        &self,
        _keys: Vec<ChannelKey>,
        _size: i64,
        _range: (i64, i64),
        _most: usize,
    ) -> Result<Vec<Figures>, QueryError> {
        Ok(Vec::new())
    }
}

/// Whether all of it can be read, or the class of the refusal.
async fn read(channels: usize, readings: usize, query: &str) -> Result<usize, &'static str> {
    let plan = plan(query, Grid::at(1000), 300_000).expect("it is right");
    let fetched = fetch(&Wide { channels, readings }, &plan, false).await;
    let fetched = fetched.map_err(|error| error.class())?;
    Ok(fetched.reads.len())
}

#[tokio::test]
async fn series_of_a_query_are_bounded() {
    for (name, channels, query, want) in [
        ("below", QUERY_SERIES_MAX - 1, "temp", Ok(1)),
        ("at", QUERY_SERIES_MAX, "temp", Ok(1)),
        ("above", QUERY_SERIES_MAX + 1, "temp", Err("execution")),
        ("two halves", QUERY_SERIES_MAX / 2, "temp + temp", Ok(2)),
        (
            "two halves and one",
            QUERY_SERIES_MAX / 2 + 1,
            "temp + temp",
            Err("execution"),
        ),
    ] {
        assert_eq!(read(channels, 0, query).await, want, "{name}");
    }
}

#[tokio::test]
async fn samples_of_a_query_are_bounded() {
    for (name, readings, query, want) in [
        ("below", QUERY_SAMPLES_MAX - 1, "temp", Ok(1)),
        ("at", QUERY_SAMPLES_MAX, "temp", Ok(1)),
        ("above", QUERY_SAMPLES_MAX + 1, "temp", Err("execution")),
        (
            "over all selectors",
            QUERY_SAMPLES_MAX / 2 + 1,
            "temp + temp",
            Err("execution"),
        ),
    ] {
        assert_eq!(read(1, readings, query).await, want, "{name}");
    }
}

#[test]
fn what_answers_hold_together_is_bounded() {
    let kib = 1024;
    for (name, first, second, fits) in [
        ("below", ANSWERS_KIB_MAX - 2, 1, true),
        ("at", ANSWERS_KIB_MAX - 1, 1, true),
        ("above", ANSWERS_KIB_MAX, 1, false),
        // One that is larger than all room has it alone.
        ("alone", ANSWERS_KIB_MAX * 2, 1, false),
    ] {
        let source = Wide {
            channels: 0,
            readings: 0,
        };
        let asked = Asked::new(source);
        let held = asked.hold(first * kib).expect("there is room");
        assert_eq!(asked.hold(second * kib).is_ok(), fits, "{name}");
        drop(held);
        assert!(
            asked.hold(second * kib).is_ok(),
            "{name}: room is given back"
        );
    }
}
