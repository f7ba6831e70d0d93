//! A question whose answer is an object, being answered: a scan of what its plan names,
//! and the words around it.
//!
//! Bound: [`QUERY_LINES_MAX`] lines; of more, the newest. Knows no store and no socket.

use forebay_wire::message::Quality;
use serde_json::{Value, json};

use super::ChannelQuery;
use super::columns::{Columns, ColumnsFold, ColumnsWant};
use super::figures::FigureValues;
use super::plan::{Plan, PlanChannel};
use super::rollup::{RollupColumns, RollupSource, rollup_of};
use super::scan::{Asks, Scan, Way};
use super::windows::{WholeFold, WindowsFold, WindowsWant};
use crate::limits::QUERY_LINES_MAX;
use crate::log::key::StoredBlock;
use crate::record::quality_name;
use crate::units::{EventTime, Offset, Span};
use crate::utc::time_value;

#[derive(Debug)]
enum Of {
    /// With the engine's figures there is nothing to read.
    Rolling(Span, Option<FigureValues>, Scan<WholeFold>),
    Rollup(Span, Scan<WindowsFold>),
    Readings(Scan<ColumnsFold>),
}

/// See the module.
#[derive(Debug)]
pub struct Job {
    channel: PlanChannel,
    range: (EventTime, EventTime),
    behind: u64,
    complete_from: Option<EventTime>,
    of: Of,
}

impl Job {
    /// Whether it is answered without a read of the log.
    #[must_use]
    pub fn reads_nothing(&self) -> bool {
        matches!(self.of, Of::Rolling(_, Some(_), _))
    }

    /// Starts to answer `query` by a plan of its one channel; `None` of none.
    #[must_use]
    pub fn start(query: ChannelQuery, plan: Plan) -> Option<Self> {
        let channel = plan.channels.into_iter().next()?;
        let key = [channel.key.clone()];
        let of = match query {
            ChannelQuery::Rolling { size } => {
                let figures = plan.rolling.map(|rolling| rolling.0);
                let reads = plan.reads.into_iter().filter(|_| figures.is_none());
                let fold = WholeFold::new((plan.range.start, plan.range.end));
                Of::Rolling(size, figures, Scan::new(key, reads, false, fold))
            }
            ChannelQuery::Rollup { size, .. } => {
                let want = WindowsWant {
                    size,
                    range: plan.range.clone(),
                    windows_max: QUERY_LINES_MAX,
                    newest_first: true,
                };
                let fold = WindowsFold::new(1, want);
                Of::Rollup(size, Scan::new(key, plan.reads, true, fold))
            }
            ChannelQuery::Readings { .. } => {
                let want = ColumnsWant {
                    range: plan.range.clone(),
                    detail: true,
                    gaps: false,
                    rows_max: QUERY_LINES_MAX,
                    newest_first: true,
                };
                let fold = ColumnsFold::new(key.clone(), want);
                Of::Readings(Scan::new(key, plan.reads, true, fold))
            }
        };
        Some(Self {
            channel,
            range: (plan.range.start, plan.range.end),
            behind: plan.behind,
            complete_from: plan.complete_from,
            of,
        })
    }

    /// What was removed while it was read: nothing before this time is sure to be there.
    pub fn on_removed(&mut self, complete_from: EventTime) {
        self.complete_from = self.complete_from.max(Some(complete_from));
    }

    /// The answer, once there is nothing more to be read.
    ///
    /// # Errors
    /// A sentence, where there are too many readings of one time.
    pub fn finish(self) -> Result<Value, String> {
        let complete_from = self.complete_from.filter(|from| *from > self.range.0);
        let mut answer = head_of(&self.channel, self.behind, complete_from);
        let PlanChannel {
            key,
            live,
            watermark,
            ..
        } = &self.channel;
        match self.of {
            Of::Rolling(size, figures, scan) => {
                let figures = figures.unwrap_or_else(|| scan.finish().finish().values());
                answer["time"] = time_value(live.time);
                answer["window_us"] = json!(size.0);
                figures.write(&mut answer);
                answer["preliminary"] = json!(live.time >= *watermark);
            }
            Of::Rollup(size, scan) => {
                let windows = scan.finish().finish().windows;
                let windows = windows.first().map_or(&[][..], Vec::as_slice);
                let columns = rollup_of(key.clone(), windows, size, *watermark);
                put_rollup(&mut answer, size, &columns, &RollupSource::Readings);
            }
            Of::Readings(scan) => {
                let got = scan.finish().finish().map_err(|_| {
                    String::from("too many readings have one time: ask for a shorter range")
                })?;
                let lines = got.columns.iter().flat_map(reading_lines);
                answer["readings"] = lines.collect();
                answer["older_left_out"] = json!(got.left_out);
            }
        }
        Ok(answer)
    }
}

impl Of {
    fn asks(&self) -> &dyn Asks {
        match self {
            Self::Rolling(_, _, scan) => scan,
            Self::Rollup(_, scan) => scan,
            Self::Readings(scan) => scan,
        }
    }

    fn asks_mut(&mut self) -> &mut dyn Asks {
        match self {
            Self::Rolling(_, _, scan) => scan,
            Self::Rollup(_, scan) => scan,
            Self::Readings(scan) => scan,
        }
    }
}

impl Asks for Job {
    fn way(&mut self) -> &mut Way {
        self.of.asks_mut().way()
    }

    fn times(&self) -> (EventTime, EventTime) {
        self.of.asks().times()
    }

    fn take(&mut self, blocks: &[StoredBlock]) -> Option<Offset> {
        self.of.asks_mut().take(blocks)
    }
}

/// Whose figures they are, and what they lack.
fn head_of(channel: &PlanChannel, behind: u64, complete_from: Option<EventTime>) -> Value {
    let mut answer = json!({
        "device": &*channel.device,
        "channel": &*channel.key.channel,
        "unit": &*channel.live.unit,
    });
    if behind > 0 {
        answer["readings_not_read_yet"] = json!(behind);
    }
    if let Some(from) = complete_from {
        answer["complete_from"] = time_value(from);
    }
    answer
}

fn put_rollup(answer: &mut Value, size: Span, columns: &RollupColumns, source: &RollupSource) {
    let lines = (0..columns.len()).map(|at| {
        json!({
            "start": time_value(EventTime(columns.starts[at])),
            "end": time_value(EventTime(columns.ends[at])),
            "count": columns.count[at],
            "mean": columns.mean[at],
            "min": columns.min[at],
            "max": columns.max[at],
            "preliminary": at >= columns.preliminary_from,
        })
    });
    answer["size_us"] = json!(size.0);
    answer["source"] = json!(source.name());
    answer["windows"] = lines.collect();
}

/// What a rollup of one channel says, from whatever it comes.
#[derive(Debug)]
pub struct RollupSaid<'a> {
    pub channel: &'a PlanChannel,
    pub size: Span,
    pub columns: &'a RollupColumns,
    pub source: &'a RollupSource,
    pub behind: u64,
    /// Where not all of its range is there any more.
    pub complete_from: Option<EventTime>,
}

impl RollupSaid<'_> {
    /// As the answer to an operator.
    #[must_use]
    pub fn answer(&self) -> Value {
        let mut answer = head_of(self.channel, self.behind, self.complete_from);
        put_rollup(&mut answer, self.size, self.columns, self.source);
        answer
    }
}

fn reading_lines(columns: &Columns) -> impl Iterator<Item = Value> + '_ {
    let detail = columns.detail.iter().flat_map(|detail| {
        let ids = detail.boot.iter().zip(&detail.ordinal);
        ids.zip(detail.uncertainty_us.iter().zip(&detail.quality))
    });
    let readings = columns.times.iter().zip(&columns.values).zip(detail);
    readings.map(
        |((time, value), ((boot, ordinal), (uncertainty_us, quality)))| {
            // A value that is none: a fault, or what the sensor itself called no number.
            let has_value = *quality == Quality::Ok && !value.is_nan();
            let mut line = json!({
                "time": time_value(EventTime(*time)),
                "value": has_value.then_some(*value),
                "boot": boot.0,
                "ordinal": ordinal.0,
                "uncertainty_us": uncertainty_us,
            });
            if !has_value {
                line["quality"] = json!(quality_name(*quality));
            }
            line
        },
    )
}
