//! Which records of the log are asked for, and the way through them. Bound: a few
//! blocks at a time.

use clap::Args;
use forebay_core::limits::FETCH_BYTES_MAX;
use forebay_core::log::block::{Block, BlockHead, Body};
use forebay_core::log::key::TopicPartition;
use forebay_core::log::topic::{EXCHANGE, READINGS};
use forebay_core::log::walk::{Met, Walk};
use forebay_core::query::Names;
use forebay_core::record::{
    ClockRecord, Figure, GapRecord, ReadingRecord, Record, Row, Series, TablesRecord,
};
use forebay_core::store::Loss;
use forebay_core::units::{EventTime, Offset, PartitionId};
use forebay_wire::ids::DeviceUid;
use forebay_wire::message::Quality;

use super::Opened;
use crate::export::Reading;
use crate::shell::when;

/// Records that are asked for.
#[derive(Debug, Clone, Args)]
pub(super) struct Filters {
    /// Topic: readings, late, quarantine, control, exchange, or the name of a window
    #[arg(long, default_value = "readings")]
    topic: String,
    /// Only this partition
    #[arg(long)]
    partition: Option<u16>,
    /// Only this device: its name, or its uid
    #[arg(long)]
    device: Option<String>,
    /// Only this channel
    #[arg(long)]
    channel: Option<String>,
    /// First event time (included): RFC 3339, -15m for 15 minutes ago, or microseconds since 1970
    #[arg(long, value_parser = when::parse, value_name = "TIME", allow_hyphen_values = true)]
    from: Option<EventTime>,
    /// Last event time (not included), as in --from, or now
    #[arg(long, value_parser = when::parse, value_name = "TIME", allow_hyphen_values = true)]
    to: Option<EventTime>,
}

/// A record on the way.
pub(super) enum Item<'a> {
    Reading(Reading<'a>),
    Gap(&'a GapRecord, Offset),
    Clock(&'a ClockRecord, PartitionId, Offset),
    Tables(&'a TablesRecord, PartitionId, Offset),
    Row(&'a Row, PartitionId, Offset),
}

/// What to do after a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    GoOn,
    Stop,
}

/// What a scan passed.
#[derive(Debug, Default)]
pub(super) struct Scanned {
    /// Offsets that cannot be read and that the log does not know to be lost.
    pub lost: Vec<Loss>,
}

/// Filters that were looked up.
struct Wanted {
    places: Vec<(TopicPartition, Offset, Offset)>,
    device: Option<DeviceUid>,
    channel: Option<String>,
    from: EventTime,
    to: EventTime,
}

impl Filters {
    /// Whether the topic's records are readings.
    pub(super) fn are_readings(&self, opened: &Opened) -> Result<bool, String> {
        Ok([READINGS, EXCHANGE].contains(&opened.topic(&self.topic)?))
    }

    /// Bytes that a scan reads, about.
    pub(super) fn bytes(&self, opened: &Opened) -> Result<u64, String> {
        let topic = opened.topic(&self.topic)?;
        let parts = opened.reader.parts().into_iter();
        let of_topic = |segment: Option<forebay_core::store::SegmentId>| {
            segment.is_none_or(|id| id.topic == topic)
        };
        Ok(parts
            .filter(|part| of_topic(part.segment))
            .map(|part| part.bytes)
            .sum())
    }

    fn look_up(&self, opened: &Opened) -> Result<Wanted, String> {
        let topic = opened.topic(&self.topic)?;
        let device = self.device.as_deref().map(|text| {
            opened.names.find(text).ok_or_else(|| {
                format!("no device is called \"{text}\": give its name or sixteen hex digits")
            })
        });
        let partition = self.partition.map(PartitionId);
        let places = opened.reader.places().into_iter();
        let places = places
            .filter(|(at, _)| at.topic == topic)
            .filter(|(at, _)| partition.is_none_or(|partition| at.partition == partition))
            .map(|(at, place)| (at, place.first, place.head));
        Ok(Wanted {
            places: places.collect(),
            device: device.transpose()?,
            channel: self.channel.clone(),
            from: self.from.unwrap_or(EventTime(i64::MIN)),
            to: self.to.unwrap_or(EventTime(i64::MAX)),
        })
    }

    /// Shows every record that passes the filters, in order of partition and offset.
    /// `progress` hears how many bytes have been read.
    pub(super) fn scan(
        &self,
        opened: &mut Opened,
        progress: &mut dyn FnMut(u64),
        visit: &mut dyn FnMut(&Item<'_>) -> Result<Flow, String>,
    ) -> Result<Scanned, String> {
        let wanted = self.look_up(opened)?;
        let mut scanned = Scanned::default();
        let mut bytes = 0;
        for (at, first, head) in &wanted.places {
            let mut walk = Walk::new(*at, *first);
            let mut flow = Ok(Flow::GoOn);
            while let Some((at, from)) = walk.next_fetch(*head) {
                let lost = &mut scanned.lost;
                let blocks = opened
                    .reader
                    .read(at, from, FETCH_BYTES_MAX, |loss| lost.push(loss));
                let blocks = blocks.map_err(|error| error.to_string())?;
                bytes += blocks.iter().map(|b| b.bytes.len() as u64).sum::<u64>();
                progress(bytes);
                let names = &opened.names;
                walk.on_fetched(&blocks, *head, |met| match met {
                    Met::Block {
                        head,
                        block,
                        records,
                    } => {
                        if flow == Ok(Flow::GoOn) && wanted.takes(head) {
                            flow = wanted.show(block, records, names, visit);
                        }
                    }
                    // What the log itself says is not there is no news.
                    Met::Hole { .. } => {}
                });
                if flow != Ok(Flow::GoOn) {
                    break;
                }
            }
            if flow? == Flow::Stop {
                break;
            }
        }
        let reader = &opened.reader;
        let asked = |loss: &&Loss| wanted.places.iter().any(|(at, ..)| *at == loss.at);
        let untold = reader.losses.iter().filter(asked);
        scanned
            .lost
            .extend(untold.filter(|loss| !reader.is_told(loss)));
        // A block that does not read is met again by the next read.
        scanned.lost.sort_unstable();
        scanned.lost.dedup();
        Ok(scanned)
    }
}

impl Wanted {
    fn takes(&self, head: &BlockHead) -> bool {
        head.time_max >= self.from && head.time_min < self.to
    }

    fn takes_time(&self, time: EventTime) -> bool {
        time >= self.from && time < self.to
    }

    fn takes_series(&self, series: &Series) -> bool {
        self.device.is_none_or(|uid| uid == series.uid)
            && self.channel.as_ref().is_none_or(|c| **c == *series.name)
    }

    fn show(
        &self,
        block: &Block,
        records: std::ops::Range<usize>,
        names: &Names,
        visit: &mut dyn FnMut(&Item<'_>) -> Result<Flow, String>,
    ) -> Result<Flow, String> {
        let offset = |place: usize| Offset(block.base.0 + place as u64);
        match &block.body {
            Body::Readings {
                series,
                records: all,
            } => {
                let shown: Vec<_> = series
                    .iter()
                    .map(|series| {
                        self.takes_series(series)
                            .then(|| (series, names.name(series.uid)))
                    })
                    .collect();
                for place in records {
                    let flow = match &all[place] {
                        Record::Reading(reading) if self.takes_time(reading.time) => {
                            let Some((series, device)) = &shown[usize::from(reading.series)] else {
                                continue;
                            };
                            let row = row_of(device, series, reading, block, offset(place));
                            visit(&Item::Reading(row))?
                        }
                        Record::Gap(gap) if self.takes_gap(gap) => {
                            visit(&Item::Gap(gap, offset(place)))?
                        }
                        Record::Clock(clock) if self.takes_beside(clock.now) => {
                            let partition = block.at.partition;
                            visit(&Item::Clock(clock, partition, offset(place)))?
                        }
                        Record::Tables(tables) if self.takes_beside(tables.time) => {
                            let partition = block.at.partition;
                            visit(&Item::Tables(tables, partition, offset(place)))?
                        }
                        Record::Reading(_)
                        | Record::Gap(_)
                        | Record::Clock(_)
                        | Record::Tables(_) => Flow::GoOn,
                    };
                    if flow == Flow::Stop {
                        return Ok(flow);
                    }
                }
            }
            Body::Rows(rows) => {
                for place in records {
                    let row = &rows[place];
                    let partition = block.at.partition;
                    if self.takes_time(row.time)
                        && visit(&Item::Row(row, partition, offset(place)))? == Flow::Stop
                    {
                        return Ok(Flow::Stop);
                    }
                }
            }
        }
        Ok(Flow::GoOn)
    }

    /// What is of no device.
    fn takes_beside(&self, time: EventTime) -> bool {
        self.takes_time(time) && self.channel.is_none() && self.device.is_none()
    }

    fn takes_gap(&self, gap: &GapRecord) -> bool {
        self.takes_time(gap.time)
            && self.channel.is_none()
            && self.device.is_none_or(|uid| uid == gap.uid)
    }
}

fn row_of<'a>(
    device: &'a str,
    series: &'a Series,
    reading: &ReadingRecord,
    block: &Block,
    offset: Offset,
) -> Reading<'a> {
    let figure = Figure {
        value: reading.value,
        kind: series.kind,
    };
    Reading {
        device,
        channel: &series.name,
        unit: &series.unit,
        time: reading.time,
        value: figure.to_f64().filter(|_| reading.quality == Quality::Ok),
        quality: reading.quality,
        uid: series.uid,
        boot: series.boot,
        ordinal: reading.ordinal,
        uncertainty_us: reading.uncertainty_us,
        partition: block.at.partition,
        offset,
    }
}
