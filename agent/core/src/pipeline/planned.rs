//! Plans for readers beside the loop: nothing here reads the log.

use std::ops::Range;
use std::sync::Arc;

use super::{Gateway, readings_of};
use crate::effect::{Effect, QueryId};
use crate::engine::config::{Aggregate, Emit, Grid, KeySpec, Source, WindowKind, WindowSpec};
use crate::follow::{FollowFrom, FollowRequest};
use crate::live::ChannelKey;
use crate::log::key::TopicPartition;
use crate::query::{
    Catalog, ChannelName, ChannelQuery, Job, Known, Plan, PlanError, PlanRead, PlanRequest,
    PlanRows, PlanWindow, Planned, RollingFigures, TimeRange, check_range, rollup_range,
};
use crate::units::{EventTime, Offset, PartitionId, Span, TopicId};

/// Figures without which the rows of a window answer no rollup.
const ROLLUP_FIGURES: [Aggregate; 4] = [
    Aggregate::Count,
    Aggregate::Mean,
    Aggregate::Min,
    Aggregate::Max,
];

impl Gateway {
    pub(super) fn on_plan(&mut self, id: QueryId, request: PlanRequest, now: EventTime) {
        let planned = match request {
            PlanRequest::Catalog => Ok(Planned::Catalog(Arc::new(self.catalog(now)))),
            PlanRequest::Names => Ok(Planned::Names(self.config.names.clone())),
            PlanRequest::Readings { keys, range } => self.plan(&keys, range).map(boxed),
            PlanRequest::Rollup { keys, size, range } => {
                self.rollup_plan(&keys, size, &range).map(boxed)
            }
            PlanRequest::Rolling { key, size } => self.rolling_plan(&key, size).map(boxed),
            PlanRequest::RollingOf { channel, size } => {
                let key = self.channel_key(&channel);
                key.and_then(|key| self.rolling_plan(&key, size)).map(boxed)
            }
            PlanRequest::Rows { stream, range } => self.rows_plan(stream, range).map(boxed),
            // From rows where there are some, as any other rollup.
            PlanRequest::Job(channel, ChannelQuery::Rollup { size, range }) => {
                let plan = self.channel_key(&channel);
                let plan = plan.and_then(|key| self.rollup_plan(&[key], size, &whole(range)));
                plan.map(boxed)
            }
            PlanRequest::Job(channel, query) => {
                let job = self.job(&channel, query);
                job.map(|job| Planned::Job(Box::new(job)))
            }
        };
        self.effects.push_back(Effect::Planned(id, planned));
    }

    fn catalog(&self, now: EventTime) -> Catalog {
        let streams = self.topics.streams().map(|(_, name)| name.to_owned());
        Catalog::of(
            (self.config.gateway.as_str(), now),
            (&self.readers, &self.config.names),
            &self.live.engine,
            streams.collect(),
        )
    }

    fn known(&self) -> Known<'_> {
        Known {
            readers: &self.readers,
            names: &self.config.names,
            // What the index names has been read: no further than the readers have come.
            behind: self.readers.behind(&self.commit),
        }
    }

    fn plan(&self, keys: &[ChannelKey], range: Range<EventTime>) -> Result<Plan, PlanError> {
        let removed = |partition: PartitionId| self.retention.counts(readings_of(partition)).newest;
        self.known().plan(keys, range, removed)
    }

    fn rollup_plan(
        &self,
        keys: &[ChannelKey],
        size: Span,
        range: &Range<EventTime>,
    ) -> Result<Plan, PlanError> {
        check_size(size)?;
        check_range(range)?;
        let range = rollup_range(range, size);
        let mut plan = self.plan(keys, range.clone())?;
        plan.rows = self.rollup_rows(size);
        Ok(plan)
    }

    /// The rows of the window of the config that answers rollups of `size`.
    fn rollup_rows(&self, size: Span) -> Option<PlanRows> {
        let windows = self.live.engine.windows.iter().zip(&self.live.topics);
        let mut fitting = windows.filter(|(window, _)| answers_rollup(window, size));
        let (window, topic) = fitting.next()?;
        let topic = (*topic)?;
        let streams = self.topics.streams();
        let (_, stream) = streams.into_iter().find(|(of, _)| *of == topic)?;
        Some(PlanRows {
            stream: stream.to_owned(),
            reads: self.rows_of(topic),
            window: Some(PlanWindow {
                name: window.name.clone(),
                figures: window.aggregates.clone(),
                lateness: self.live.engine.time.allowed_lateness,
            }),
        })
    }

    /// All durable rows of a topic.
    fn rows_of(&self, topic: TopicId) -> Vec<PlanRead> {
        let heads = self.heads_of(topic).into_iter();
        let reads = heads.map(|(partition, head)| PlanRead {
            at: TopicPartition { topic, partition },
            first: Offset(0),
            end: head,
            times: (EventTime(i64::MIN), EventTime(i64::MAX)),
        });
        reads.collect()
    }

    fn rolling_plan(&mut self, key: &ChannelKey, size: Span) -> Result<Plan, PlanError> {
        check_size(size)?;
        let range = self.known().rolling_range(key, size)?;
        if let Some(figures) = self.readers.rolling(key, size) {
            let known = self.known();
            return Ok(Plan {
                channels: vec![known.channel(key)?],
                range,
                reads: Vec::new(),
                behind: known.behind,
                complete_from: None,
                rolling: Some(RollingFigures(figures.into())),
                rows: None,
            });
        }
        self.plan(std::slice::from_ref(key), range)
    }

    fn rows_plan(&self, stream: String, range: Range<EventTime>) -> Result<Plan, PlanError> {
        check_range(&range)?;
        let request = FollowRequest {
            stream,
            table: None,
            topic: None,
            from: FollowFrom::Beginning,
            lines_max: 1,
            wait: Span(0),
        };
        let of = self.follow_of(&request).map_err(PlanError::Unknown)?;
        let reads = self.rows_of(of.topic);
        let removed = reads
            .iter()
            .map(|read| self.retention.counts(read.at).newest);
        let removed = removed.max().filter(|newest| newest.0 > i64::MIN);
        Ok(Plan {
            channels: Vec::new(),
            range,
            reads: Vec::new(),
            behind: 0,
            complete_from: removed.map(|newest| EventTime(newest.0.saturating_add(1))),
            rolling: None,
            rows: Some(PlanRows {
                stream: of.stream,
                reads,
                window: None,
            }),
        })
    }

    /// # Errors
    /// When no device is so named.
    fn channel_key(&self, name: &ChannelName) -> Result<ChannelKey, PlanError> {
        let uid = self.config.names.find(&name.device);
        let uid = uid.ok_or_else(|| PlanError::Unknown(self.unknown_device(&name.device)))?;
        Ok(ChannelKey {
            uid,
            channel: name.channel.as_str().into(),
        })
    }

    /// Starts to answer a question about one channel.
    pub(super) fn job(
        &mut self,
        name: &ChannelName,
        query: ChannelQuery,
    ) -> Result<Job, PlanError> {
        let key = self.channel_key(name)?;
        let plan = match query {
            ChannelQuery::Rolling { size } => self.rolling_plan(&key, size)?,
            ChannelQuery::Rollup { size, range } => {
                check_size(size)?;
                self.plan(&[key], rollup_range(&whole(range), size))?
            }
            ChannelQuery::Readings { range } => self.plan(&[key], whole(range))?,
        };
        let nothing = || PlanError::Wrong(String::from("no channel is asked for"));
        Job::start(query, plan).ok_or_else(nothing)
    }
}

fn whole(range: TimeRange) -> Range<EventTime> {
    let (start, end) = range.ends();
    start..end
}

fn boxed(plan: Plan) -> Planned {
    Planned::Plan(Box::new(plan))
}

/// # Errors
/// When it is no length of a window.
fn check_size(size: Span) -> Result<(), PlanError> {
    if size.0 > 0 {
        Ok(())
    } else {
        Err(PlanError::Wrong(String::from(
            "a window is at least one microsecond long",
        )))
    }
}

/// Whether the rows of a window say what a rollup of `size` says of every channel.
fn answers_rollup(window: &WindowSpec, size: Span) -> bool {
    let is_grid = match &window.kind {
        WindowKind::Tumbling(Grid::Fixed {
            size: of_window,
            offset,
        }) => *of_window == size && offset.0.rem_euclid(size.0) == 0,
        WindowKind::Tumbling(Grid::Calendar { .. })
        | WindowKind::Hopping { .. }
        | WindowKind::Sliding { .. }
        | WindowKind::Rows { .. }
        | WindowKind::Session { .. } => false,
    };
    is_grid
        && window.from == Source::Readings
        && window.key == KeySpec::DEVICE_CHANNEL
        && window.key_columns.is_empty()
        && window.channels.is_none()
        && window.devices.is_none()
        && window.emit != Emit::EveryUpdate
        && ROLLUP_FIGURES
            .iter()
            .all(|figure| window.aggregates.contains(figure))
}
