//! Where the rows of an engine's streams go.

use crate::engine::config::{EngineConfig, JoinInput, JoinSource, Source};
use crate::engine::filter::Maybe;
use crate::engine::row::RowView;
use crate::log::key::TopicPartition;
use crate::log::topic::{LATE, QUARANTINE};
use crate::units::{PartitionId, TopicId};

/// Where the rows of one stream go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outlet {
    To(TopicPartition),
    /// The log has no room for one more definition: they are counted and left out.
    Homeless,
    /// They are only read by others, or written elsewhere.
    Nowhere,
}

/// The outlets of one engine.
#[derive(Debug, Clone)]
pub struct Outlets {
    /// Of its windows, then of its joins, in config order, then of `late`, then of
    /// `quarantine`.
    pub(super) streams: Vec<Outlet>,
    /// The lateness of series that these windows and joins take is judged elsewhere.
    pub(super) judged: Option<EngineConfig>,
    pub(super) shows: bool,
}

impl Outlets {
    /// Those of a partition's engine: stream n goes to `topics[n]`, if it has one.
    #[must_use]
    pub fn of_partition(topics: &[Option<TopicId>], partition: PartitionId) -> Self {
        let to = |topic: &Option<TopicId>| {
            let at = topic.map(|topic| TopicPartition { topic, partition });
            at.map_or(Outlet::Homeless, Outlet::To)
        };
        let asides = [Some(LATE), Some(QUARANTINE)];
        Self {
            streams: topics.iter().chain(&asides).map(to).collect(),
            judged: None,
            shows: true,
        }
    }

    /// Those of an engine over what the partitions' engines have taken already, which
    /// judge what is in quarantine, and how late the series are that `judged` takes.
    #[must_use]
    pub fn of_crossing(streams: Vec<Outlet>, late: TopicPartition, judged: EngineConfig) -> Self {
        let mut streams = streams;
        streams.extend([Outlet::To(late), Outlet::Nowhere]);
        Self {
            streams,
            judged: Some(judged),
            shows: false,
        }
    }

    /// All partitions of topics that rows go to.
    pub fn places(&self) -> impl Iterator<Item = TopicPartition> + '_ {
        self.streams.iter().filter_map(|to| match to {
            Outlet::To(at) => Some(*at),
            Outlet::Homeless | Outlet::Nowhere => None,
        })
    }
}

/// Whether a window or join over readings takes the series of a row.
pub(super) fn is_taken(config: &EngineConfig, row: &RowView<'_>) -> bool {
    let has = |names: &Option<Vec<String>>, name: Option<&str>| match (names, name) {
        (Some(names), Some(name)) => names.iter().any(|n| n == name),
        (None, _) | (_, None) => true,
    };
    let by_windows = config.windows.iter().any(|window| {
        window.from == Source::Readings
            && has(&window.channels, row.channel())
            && has(&window.devices, row.device())
    });
    let names = (row.device().unwrap_or(""), row.channel().unwrap_or(""));
    let by = |input: &JoinInput| {
        let filter = input.filter.as_ref();
        let may = filter.is_none_or(|f| f.takes_series(names.0, names.1) != Maybe::No);
        input.from == JoinSource::Readings && may
    };
    by_windows
        || config
            .joins
            .iter()
            .any(|join| by(&join.left) || by(&join.right))
}
