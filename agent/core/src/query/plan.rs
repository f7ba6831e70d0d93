//! What a reader beside the loop needs to answer a question by itself: which offsets of
//! which topics may hold what is asked for, who the channels are, and what is known of
//! them at this moment. Making one costs the loop no read of the log.
//!
//! Holds always: a plan ends at durable heads, and of readings at what the readers have
//! taken, so that all parts of an answer are as of one moment. Bound: [`READ_KEYS_MAX`]
//! channels; a run of offsets per [`RUN_ENTRIES_MAX`](crate::log::index::RUN_ENTRIES_MAX)
//! blocks of the time index.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::catalog::Catalog;
use super::figures::{FigureValues, rolling_range, whole_windows};
use super::job::Job;
use super::names::Names;
use super::{ChannelName, ChannelQuery};
use crate::engine::config::Aggregate;
use crate::layout::Stretch;
use crate::limits::{LIVE_SERIES_MAX, READ_KEYS_MAX};
use crate::live::{ChannelKey, Live};
use crate::log::key::TopicPartition;
use crate::log::topic::READINGS;
use crate::near::{did_you_mean_name, listed};
use crate::readers::Readers;
use crate::units::{EventTime, Offset, PartitionId, Span};

/// What is to be planned.
#[derive(Debug, Clone, PartialEq)]
pub enum PlanRequest {
    Catalog,
    /// Of devices: those that the config gives, and those under which they were recorded.
    Names,
    Readings {
        keys: Vec<ChannelKey>,
        range: Range<EventTime>,
    },
    /// Tumbling windows on the grid of the epoch that overlap the range.
    Rollup {
        keys: Vec<ChannelKey>,
        size: Span,
        range: Range<EventTime>,
    },
    /// The window that ends at the channel's newest reading.
    Rolling {
        key: ChannelKey,
        size: Span,
    },
    /// The same of a channel by the names that its device and it have.
    RollingOf {
        channel: ChannelName,
        size: Span,
    },
    /// Rows of a derived stream, by its name on the wire, or a window or join of the config.
    Rows {
        stream: String,
        range: Range<EventTime>,
    },
    /// A question of an operator, whose answer is an object.
    Job(ChannelName, ChannelQuery),
}

/// What came of it.
#[derive(Debug)]
pub enum Planned {
    Catalog(Arc<Catalog>),
    Names(Names),
    Plan(Box<Plan>),
    Job(Box<Job>),
}

impl PartialEq for Planned {
    /// Of two jobs nobody can say that they are the same.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Catalog(a), Self::Catalog(b)) => a == b,
            (Self::Names(a), Self::Names(b)) => a == b,
            (Self::Plan(a), Self::Plan(b)) => a == b,
            (Self::Catalog(_) | Self::Names(_) | Self::Plan(_) | Self::Job(_), _) => false,
        }
    }
}

/// Why there is no plan: a sentence that says what to ask instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlanError {
    /// There is nothing of that name.
    Unknown(String),
    /// What is asked makes no sense.
    Wrong(String),
    /// More than one read may be of.
    TooMuch(String),
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Unknown(text) | Self::Wrong(text) | Self::TooMuch(text)) = self;
        f.write_str(text)
    }
}

/// See the module.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// In the order of the keys.
    pub channels: Vec<PlanChannel>,
    /// Times that matter, half-open.
    pub range: Range<EventTime>,
    /// Of readings, in the order of the log.
    pub reads: Vec<PlanRead>,
    /// Durable readings that were not read yet when it was made: they are not in it.
    pub behind: u64,
    /// From this event time on nothing that came was removed; `None` when nothing was.
    pub complete_from: Option<EventTime>,
    /// Of a rolling window whose figures the engine has.
    pub rolling: Option<RollingFigures>,
    /// The rows that say the same, or that are asked for.
    pub rows: Option<PlanRows>,
}

/// What is known of a channel.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanChannel {
    pub key: ChannelKey,
    /// Given name or uid.
    pub device: Arc<str>,
    pub live: Live,
    /// Event time below which nothing is expected of the device any more.
    pub watermark: EventTime,
}

/// A run of offsets to read, half-open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanRead {
    pub at: TopicPartition,
    pub first: Offset,
    pub end: Offset,
    /// Smallest and largest event time in it, as far as that is known.
    pub times: (EventTime, EventTime),
}

/// Figures of a rolling window as of the channel's newest reading.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RollingFigures(pub FigureValues);

/// Where rows of a stream stand.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanRows {
    /// Its name on the wire.
    pub stream: String,
    pub reads: Vec<PlanRead>,
    /// Of a rollup.
    pub window: Option<PlanWindow>,
}

/// A window of the config whose rows answer a rollup.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanWindow {
    /// As its rows call it.
    pub name: String,
    /// In the order in which they stand in a row.
    pub figures: Vec<Aggregate>,
    /// How long after its close a row may still be revised.
    pub lateness: Span,
}

/// Channels that an error names.
const NAMES_SHOWN_MAX: usize = 8;

/// What plans are made of.
#[derive(Debug)]
pub(crate) struct Known<'a> {
    pub readers: &'a Readers,
    pub names: &'a Names,
    pub behind: u64,
}

impl Known<'_> {
    /// A plan for the readings of these channels.
    ///
    /// # Errors
    /// When the log holds nothing of one, with what it does hold, or there are too many.
    pub(crate) fn plan(
        &self,
        keys: &[ChannelKey],
        range: Range<EventTime>,
        newest_removed: impl Fn(PartitionId) -> EventTime,
    ) -> Result<Plan, PlanError> {
        check_keys(keys.len())?;
        check_range(&range)?;
        let channels: Result<Vec<_>, _> = keys.iter().map(|key| self.channel(key)).collect();
        let stretches = self.stretches(keys);
        let removed = stretches.iter().map(|span| newest_removed(span.partition));
        let removed = removed.max().filter(|newest| newest.0 > i64::MIN);
        let mut reads = Vec::new();
        for Stretch {
            partition,
            first,
            end,
        } in stretches
        {
            let Some(index) = self.readers.index(partition) else {
                continue;
            };
            let at = TopicPartition {
                topic: READINGS,
                partition,
            };
            index.runs(
                (first, end),
                (range.start, range.end),
                |(first, end), times| {
                    reads.push(PlanRead {
                        at,
                        first,
                        end,
                        times,
                    });
                },
            );
        }
        Ok(Plan {
            channels: channels?,
            range,
            reads,
            behind: self.behind,
            complete_from: removed.map(|newest| EventTime(newest.0.saturating_add(1))),
            rolling: None,
            rows: None,
        })
    }

    /// What is known of a channel.
    ///
    /// # Errors
    /// When the log holds nothing of it, with what it does hold.
    pub(crate) fn channel(&self, key: &ChannelKey) -> Result<PlanChannel, PlanError> {
        let stage = self.readers.stage(key.uid);
        let device = self.names.name(key.uid);
        let live = stage.live.get(key).filter(|live| live.count > 0);
        let live = live.ok_or_else(|| self.unknown(key, &device))?;
        Ok(PlanChannel {
            key: key.clone(),
            device: device.into(),
            live: live.clone(),
            watermark: stage.watermark(key.uid),
        })
    }

    fn unknown(&self, key: &ChannelKey, device: &str) -> PlanError {
        let live = &self.readers.stage(key.uid).live;
        let of_device = live.of_device(key.uid);
        let names: Vec<&str> = of_device.map(|(other, _)| &*other.channel).collect();
        let near = did_you_mean_name(&key.channel, names.iter().copied());
        let full = match live.is_full() {
            true => format!(
                "; queries know the first {LIVE_SERIES_MAX} channels of its partition, and there \
                 are more: see all with `forebay tail --device`"
            ),
            false => String::new(),
        };
        PlanError::Unknown(match listed(names, NAMES_SHOWN_MAX) {
            None if full.is_empty() => {
                format!("the log holds no reading of device \"{device}\"")
            }
            None => format!("no channel of device \"{device}\" is known{full}"),
            Some(names) => format!(
                "device \"{device}\" has no channel \"{}\"{near}: it has {names}{full}",
                key.channel,
            ),
        })
    }

    /// Where readings of the devices stand, each place once, in the order of the log.
    fn stretches(&self, keys: &[ChannelKey]) -> Vec<Stretch> {
        let mut uids: Vec<_> = keys.iter().map(|key| key.uid).collect();
        uids.sort_unstable();
        uids.dedup();
        let mut places: BTreeMap<(PartitionId, Offset), Stretch> = BTreeMap::new();
        for stretch in uids.into_iter().flat_map(|uid| self.readers.spans(uid)) {
            places.insert((stretch.partition, stretch.first), stretch);
        }
        let all = places.into_values();
        all.filter(|stretch| stretch.first < stretch.end).collect()
    }

    /// The range of times of the rolling window that ends at the channel's newest reading.
    pub(crate) fn rolling_range(
        &self,
        key: &ChannelKey,
        size: Span,
    ) -> Result<Range<EventTime>, PlanError> {
        let (start, end) = rolling_range(self.channel(key)?.live.time, size);
        Ok(start..end)
    }
}

/// The range of all windows that overlap it.
pub(crate) fn rollup_range(range: &Range<EventTime>, size: Span) -> Range<EventTime> {
    let (start, end) = whole_windows((range.start, range.end), size);
    start..end
}

/// # Errors
/// When there are none, or more than a read may be of.
pub(crate) fn check_keys(count: usize) -> Result<(), PlanError> {
    match count {
        0 => Err(PlanError::Wrong(String::from("no channel is asked for"))),
        1..=READ_KEYS_MAX => Ok(()),
        _ => Err(PlanError::TooMuch(format!(
            "{count} channels are asked for, and one question may be about {READ_KEYS_MAX}"
        ))),
    }
}

/// # Errors
/// When it holds no time.
pub(crate) fn check_range(range: &Range<EventTime>) -> Result<(), PlanError> {
    if range.start < range.end {
        Ok(())
    } else {
        Err(PlanError::Wrong(String::from(
            "the range holds no time: it ends before it begins, or where it begins",
        )))
    }
}
