//! Questions about readings and rows, answered beside the agent's loop: the loop only says
//! which blocks may hold the answer, and these are read and folded on a small pool of
//! blocking threads. Ingest never waits for a question.
//!
//! Holds always: an answer is as of one moment, ends at durable heads, and says what it
//! lacks: what was removed, what is left out, what is not read yet. A question whose asker
//! has gone away stops reading. Bounds: [`READERS_MAX`] questions read at a time,
//! [`WAITING_MAX`] wait, more are told [`ReadError::Busy`]; rows per answer as in core's
//! limits. Knows no socket and no HTTP.

mod answer;
mod drive;
mod error;
mod pool;
mod rollup;

use std::ops::Range;
use std::sync::Arc;

use forebay_core::effect::QueryId;
use forebay_core::limits::READ_ROWS_MAX;
use forebay_core::live::ChannelKey;
use forebay_core::query::{
    Catalog, ChannelName, ChannelQuery, Columns, FigureValues, GapShown, Names, Plan, PlanError,
    PlanRequest, Planned, Reply, RollupColumns,
};
use forebay_core::units::{EventTime, Span};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

pub use self::error::ReadError;
pub use self::pool::{READERS_MAX, WAITING_MAX};
pub use forebay_core::query::RollupSource;

use self::pool::{Pool, Stopped};
use crate::local::{self, Asked};
use crate::store::LogReads;

/// What is wanted of readings.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadingsWant {
    /// 1 to [`READ_KEYS_MAX`](forebay_core::limits::READ_KEYS_MAX).
    pub keys: Vec<ChannelKey>,
    /// Half-open.
    pub range: Range<EventTime>,
    /// Identity, uncertainty and quality of each reading as well.
    pub detail: bool,
    /// Readings in the answer over all channels, 1 to [`READ_ROWS_MAX`]; more of one time
    /// come on top, as these are never parted.
    pub rows_max: usize,
    /// Which readings are kept where there are more; they are in order of time either way.
    pub newest_first: bool,
}

/// Readings, and what they lack.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadingsGot {
    /// One per key, in the order of the keys.
    pub columns: Vec<Columns>,
    /// Readings of these devices that will never come.
    pub gaps: Vec<GapShown>,
    /// From this event time on nothing that came was removed; `None` when nothing was.
    pub complete_from: Option<EventTime>,
    /// There are more readings in the range, outside of `covered`.
    pub left_out: bool,
    /// The part of the range of which all is here: the next page begins where it ends, or
    /// with the newest first, ends where it begins.
    pub covered: Range<EventTime>,
    /// Durable readings that were not taken yet when it was asked: they are not in it.
    pub behind: u64,
    /// Records of the log that could not be read: removed meanwhile, or lost.
    pub missing: u64,
}

/// What is wanted of a rollup: tumbling windows on the grid of the epoch that overlap the
/// range.
#[derive(Debug, Clone, PartialEq)]
pub struct RollupWant {
    pub keys: Vec<ChannelKey>,
    /// Longer than 0.
    pub size: Span,
    /// Half-open.
    pub range: Range<EventTime>,
    /// Windows over all channels, 1 to [`READ_ROWS_MAX`]; whole windows are left out at the
    /// later end.
    pub rows_max: usize,
}

/// A rollup, and where it comes from.
#[derive(Debug, Clone, PartialEq)]
pub struct RollupGot {
    /// One per key, in the order of the keys.
    pub columns: Vec<RollupColumns>,
    pub source: RollupSource,
    /// As in [`ReadingsGot`].
    pub complete_from: Option<EventTime>,
    pub left_out: bool,
    pub covered: Range<EventTime>,
    pub behind: u64,
    pub missing: u64,
}

/// The window that ends at the newest reading of a channel: `(time - size, time]`.
#[derive(Debug, Clone, PartialEq)]
pub struct RollingGot {
    pub key: ChannelKey,
    /// Given name or uid.
    pub device: Arc<str>,
    pub unit: Arc<str>,
    /// Of the newest reading.
    pub time: EventTime,
    pub size: Span,
    pub figures: FigureValues,
    /// Readings that belong into it may still come.
    pub preliminary: bool,
    /// Whether the engine had the figures; else they are of the readings in the log.
    pub from_engine: bool,
    pub complete_from: Option<EventTime>,
    pub behind: u64,
    pub missing: u64,
}

/// What is wanted of the rows of a derived stream, by event time.
#[derive(Debug, Clone, PartialEq)]
pub struct RowsWant {
    /// Its name on the wire, or a window or join of the config.
    pub stream: String,
    /// Half-open.
    pub range: Range<EventTime>,
    /// 1 to [`READ_ROWS_MAX`].
    pub rows_max: usize,
}

/// Rows, in order of event time.
#[derive(Debug, Clone, PartialEq)]
pub struct RowsGot {
    /// Its name on the wire.
    pub stream: String,
    pub times: Vec<EventTime>,
    /// JSON objects as they stand in the log.
    pub lines: Vec<Arc<[u8]>>,
    /// As in [`ReadingsGot`].
    pub complete_from: Option<EventTime>,
    pub left_out: bool,
    pub covered: Range<EventTime>,
    pub missing: u64,
}

/// An answer that says what it lacks: records that could not be read, and from when on all
/// is there.
trait Lacking {
    fn lacks(&mut self) -> (u64, &mut Option<EventTime>);
}

macro_rules! lacking {
    ($($answer:ty),*) => {$(
        impl Lacking for $answer {
            fn lacks(&mut self) -> (u64, &mut Option<EventTime>) {
                (self.missing, &mut self.complete_from)
            }
        }
    )*};
}
lacking!(ReadingsGot, RollupGot, RollingGot, RowsGot);

/// A request for a plan, and the way back.
#[derive(Debug)]
pub struct PlanAsked {
    pub request: PlanRequest,
    pub answer: oneshot::Sender<Result<Planned, PlanError>>,
}

/// Plans that the loop was asked for and has not made yet.
pub(crate) const PLANS_MAX: usize = 256;

/// Numbers of plans, apart from those of other questions.
#[derive(Debug, Default)]
pub(crate) struct PlanIds {
    last: u64,
    waiting: std::collections::BTreeMap<QueryId, oneshot::Sender<Result<Planned, PlanError>>>,
}

impl PlanIds {
    /// Takes note of who asked.
    pub(crate) fn ask(&mut self, answer: oneshot::Sender<Result<Planned, PlanError>>) -> QueryId {
        self.last += 1;
        let id = QueryId(self.last);
        self.waiting.insert(id, answer);
        id
    }

    /// Hands a plan back.
    pub(crate) fn answer(&mut self, id: QueryId, planned: Result<Planned, PlanError>) {
        if let Some(asker) = self.waiting.remove(&id) {
            // Who asked may have gone away.
            let _ = asker.send(planned);
        }
    }
}

/// See the module. Clones ask the same agent.
#[derive(Debug, Clone)]
pub struct Reads {
    asked: mpsc::Sender<Asked>,
    plans: mpsc::Sender<PlanAsked>,
    log: LogReads,
    pool: Pool,
}

impl Reads {
    pub(crate) fn new(
        asked: mpsc::Sender<Asked>,
        plans: mpsc::Sender<PlanAsked>,
        log: LogReads,
    ) -> Self {
        Self {
            asked,
            plans,
            log,
            pool: Pool::new(),
        }
    }

    /// Asks what the local socket takes.
    ///
    /// # Errors
    /// [`ReadError::Wrong`] with what the agent says against it.
    pub async fn ask(&self, request: Value) -> Result<Reply, ReadError> {
        let answer = local::ask_within(&self.asked, request).await;
        answer.ok_or(ReadError::Stopped)?.map_err(ReadError::Wrong)
    }

    /// What there is to ask for, as of now.
    ///
    /// # Errors
    /// [`ReadError::Stopped`].
    pub async fn catalog(&self) -> Result<Arc<Catalog>, ReadError> {
        match self.planned(PlanRequest::Catalog).await? {
            Planned::Catalog(catalog) => Ok(catalog),
            Planned::Names(_) | Planned::Plan(_) | Planned::Job(_) => Err(ReadError::Stopped),
        }
    }

    /// Names of devices: those of the config, and those under which they were recorded.
    ///
    /// # Errors
    /// [`ReadError::Stopped`].
    pub async fn names(&self) -> Result<Names, ReadError> {
        match self.planned(PlanRequest::Names).await? {
            Planned::Names(names) => Ok(names),
            Planned::Catalog(_) | Planned::Plan(_) | Planned::Job(_) => Err(ReadError::Stopped),
        }
    }

    /// Readings of some channels.
    ///
    /// # Errors
    /// A channel that is not there, a range without a time, more than an answer takes, too
    /// many questions at once.
    pub async fn readings(&self, want: ReadingsWant) -> Result<ReadingsGot, ReadError> {
        check_rows(want.rows_max)?;
        let request = PlanRequest::Readings {
            keys: want.keys.clone(),
            range: want.range.clone(),
        };
        let plan = self.plan(request.clone()).await?;
        let work =
            move |log: &LogReads, plan, stop: &Stopped| answer::readings(log, plan, &want, stop);
        self.read(request, plan, work).await
    }

    /// Tumbling windows over the readings of some channels.
    ///
    /// # Errors
    /// As [`Reads::readings`].
    pub async fn rollup(&self, want: RollupWant) -> Result<RollupGot, ReadError> {
        check_rows(want.rows_max)?;
        let request = PlanRequest::Rollup {
            keys: want.keys.clone(),
            size: want.size,
            range: want.range.clone(),
        };
        let plan = self.plan(request.clone()).await?;
        let work =
            move |log: &LogReads, plan, stop: &Stopped| rollup::rollup(log, plan, &want, stop);
        self.read(request, plan, work).await
    }

    /// The window that ends at the newest reading of a channel. At once where a sliding
    /// window of the config has that size, else from the readings.
    ///
    /// # Errors
    /// As [`Reads::readings`].
    pub async fn rolling(&self, key: ChannelKey, size: Span) -> Result<RollingGot, ReadError> {
        self.rolling_by(PlanRequest::Rolling { key, size }, size)
            .await
    }

    /// The same by names, which costs nothing beside it.
    ///
    /// # Errors
    /// As [`Reads::rolling`]; [`ReadError::Unknown`] where nothing is so named.
    pub async fn rolling_of(
        &self,
        channel: ChannelName,
        size: Span,
    ) -> Result<RollingGot, ReadError> {
        self.rolling_by(PlanRequest::RollingOf { channel, size }, size)
            .await
    }

    async fn rolling_by(&self, request: PlanRequest, size: Span) -> Result<RollingGot, ReadError> {
        let plan = self.plan(request.clone()).await?;
        if plan.rolling.is_some() {
            let stop = Stopped::default();
            return answer::rolling(&self.log, plan, size, &stop);
        }
        let work =
            move |log: &LogReads, plan, stop: &Stopped| answer::rolling(log, plan, size, stop);
        self.read(request, plan, work).await
    }

    /// Rows of a derived stream by event time: of windows and joins, `late`, `quarantine`.
    ///
    /// # Errors
    /// As [`Reads::readings`].
    pub async fn rows(&self, want: RowsWant) -> Result<RowsGot, ReadError> {
        check_rows(want.rows_max)?;
        let request = PlanRequest::Rows {
            stream: want.stream.clone(),
            range: want.range.clone(),
        };
        let plan = self.plan(request.clone()).await?;
        let work = move |log: &LogReads, plan, stop: &Stopped| answer::rows(log, plan, &want, stop);
        self.read(request, plan, work).await
    }

    /// Answers a question about one channel with an object, as the local socket does, by what
    /// was planned for it.
    pub(crate) async fn job(
        &self,
        planned: oneshot::Receiver<Result<Planned, PlanError>>,
        query: ChannelQuery,
    ) -> Result<Value, ReadError> {
        let planned = planned.await.map_err(|_| ReadError::Stopped)?;
        match (planned.map_err(ReadError::from)?, query) {
            // Nobody has to wait for a thread that reads.
            (Planned::Job(job), _) if job.reads_nothing() => {
                answer::job(&self.log, *job, &Stopped::default())
            }
            (Planned::Job(job), _) => {
                let log = self.log.clone();
                self.pool
                    .run(move |stop| answer::job(&log, *job, stop))
                    .await
            }
            (Planned::Plan(plan), ChannelQuery::Rollup { size, .. }) => {
                let log = self.log.clone();
                self.pool
                    .run(move |stop| rollup::said(&log, *plan, size, stop))
                    .await
            }
            (Planned::Catalog(_) | Planned::Names(_) | Planned::Plan(_), _) => {
                Err(ReadError::Stopped)
            }
        }
    }

    /// Reads and folds what a plan names. Where something was missing it may have been
    /// removed meanwhile: from when on all is there is asked again.
    async fn read<T: Lacking + Send + 'static>(
        &self,
        request: PlanRequest,
        plan: Plan,
        work: impl FnOnce(&LogReads, Plan, &Stopped) -> Result<T, ReadError> + Send + 'static,
    ) -> Result<T, ReadError> {
        let log = self.log.clone();
        let mut got = self.pool.run(move |stop| work(&log, plan, stop)).await?;
        let (missing, complete_from) = got.lacks();
        if missing > 0 {
            let since = self.plan(request).await?.complete_from;
            *complete_from = (*complete_from).max(since);
        }
        Ok(got)
    }

    async fn plan(&self, request: PlanRequest) -> Result<Plan, ReadError> {
        match self.planned(request).await? {
            Planned::Plan(plan) => Ok(*plan),
            Planned::Catalog(_) | Planned::Names(_) | Planned::Job(_) => Err(ReadError::Stopped),
        }
    }

    async fn planned(&self, request: PlanRequest) -> Result<Planned, ReadError> {
        let (answer, answered) = oneshot::channel();
        let asked = self.plans.send(PlanAsked { request, answer });
        asked.await.map_err(|_| ReadError::Stopped)?;
        let planned = answered.await.map_err(|_| ReadError::Stopped)?;
        planned.map_err(ReadError::from)
    }
}

/// # Errors
/// When an answer of so many rows is not given.
fn check_rows(rows_max: usize) -> Result<(), ReadError> {
    match rows_max {
        0 => Err(ReadError::Wrong(String::from(
            "at least one row must be asked for",
        ))),
        1..=READ_ROWS_MAX => Ok(()),
        _ => Err(ReadError::TooMuch(format!(
            "{rows_max} rows are asked for, and one answer has {READ_ROWS_MAX} at the most: \
             ask for a shorter range"
        ))),
    }
}

#[cfg(test)]
mod tests;
