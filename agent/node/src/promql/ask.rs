//! One request of Prometheus's API, from its parameters to its answer.
//!
//! Always holds: a query is read for and computed within its time, beside the agent's
//! loop. Bound: [`QUERIES_AT_A_TIME`] are computed at a time, [`QUERIES_WAITING_MAX`]
//! wait; answers that are being sent hold [`ANSWERS_KIB_MAX`]. Knows no HTTP.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::answer::{self, Notes};
use super::ast::{Grid, Plan};
use super::error::QueryError;
use super::eval::evaluate;
use super::fetch::{Fetched, fetch};
use super::form::{Form, invalid};
use super::labels::{Labels, NAME, is_label_name};
use super::limits::{
    ANSWERS_KIB_MAX, LOOKBACK_MS, MATCHES_MAX, METADATA_SERIES_MAX, QUERIES_AT_A_TIME,
    QUERIES_WAITING_MAX, QUERY_TIMEOUT_MS, STEPS_MAX,
};
use super::pieces::Pieces;
use super::plan::{in_time, matchers_of, plan_until};
use super::source::{Found, Kind, Known, Source};
use super::text::quoted;

/// Answers requests from a source.
#[derive(Debug, Clone)]
pub struct Asked<S> {
    source: S,
    computing: Arc<Semaphore>,
    /// Those that are computed and those that wait.
    places: Arc<Semaphore>,
    /// What answers may hold that are being sent, KiB.
    room: Arc<Semaphore>,
}

/// An answer that is ready to be sent, with its share of what all may hold.
#[derive(Debug)]
pub struct Ready {
    pub pieces: Pieces,
    pub held: OwnedSemaphorePermit,
}

/// Says to a query that nobody waits for it any more.
struct Abandoned(Arc<AtomicBool>);

impl Drop for Abandoned {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl<S: Source> Asked<S> {
    #[must_use]
    pub fn new(source: S) -> Self {
        Self {
            source,
            computing: Arc::new(Semaphore::new(QUERIES_AT_A_TIME)),
            places: Arc::new(Semaphore::new(QUERIES_AT_A_TIME + QUERIES_WAITING_MAX)),
            room: Arc::new(Semaphore::new(ANSWERS_KIB_MAX)),
        }
    }

    /// `/api/v1/query`.
    ///
    /// # Errors
    /// Those of the query.
    pub async fn query(&self, form: &Form) -> Result<Ready, QueryError> {
        let time = form.time("time", Some(now()))?;
        let grid = Grid::at(in_time(time)?);
        self.computed(form, (grid, time), false).await
    }

    /// `/api/v1/query_range`.
    ///
    /// # Errors
    /// Those of the query.
    pub async fn query_range(&self, form: &Form) -> Result<Ready, QueryError> {
        let times = steps(form)?;
        self.computed(form, times, true).await
    }

    async fn computed(
        &self,
        form: &Form,
        times: (Grid, i64),
        is_range: bool,
    ) -> Result<Ready, QueryError> {
        let text = form.get("query").unwrap_or_default();
        let lookback = positive(form, "lookback_delta")?.unwrap_or(LOOKBACK_MS);
        let with_rollups = form.get("rollups") != Some("off");
        let plan = plan_until(text, times, lookback).map_err(|error| {
            if let QueryError::BadData(text) = &error {
                return invalid("query", text);
            }
            error
        })?;
        let time = positive(form, "timeout")?.and_then(|millis| u64::try_from(millis).ok());
        let time = Duration::from_millis(time.unwrap_or(QUERY_TIMEOUT_MS).min(QUERY_TIMEOUT_MS));
        let deadline = Instant::now() + time;
        let work = self.read_and_compute(plan, (with_rollups, is_range), deadline);
        tokio::time::timeout(time, work).await.unwrap_or_else(|_| {
            let millis = time.as_millis();
            Err(QueryError::Timeout(format!(
                "query timed out after {millis} ms: ask for a shorter time or fewer series"
            )))
        })
    }

    async fn read_and_compute(
        &self,
        plan: Plan,
        (with_rollups, is_range): (bool, bool),
        deadline: Instant,
    ) -> Result<Ready, QueryError> {
        let busy = |_| QueryError::Unavailable("too many queries wait: ask again later".to_owned());
        let _place = self.places.try_acquire().map_err(busy)?;
        let turn = Arc::clone(&self.computing).acquire_owned().await;
        let turn = turn.map_err(|_| QueryError::Unavailable("the agent stops".to_owned()))?;
        let fetched = fetch(&self.source, &plan, with_rollups).await?;
        let abandoned = Abandoned(Arc::new(AtomicBool::new(false)));
        let gone = Arc::clone(&abandoned.0);
        let task = tokio::task::spawn_blocking(move || {
            // Kept to the end of the work, also when nobody waits for it any more.
            let _turn = turn;
            let go_on = || !gone.load(Ordering::Relaxed) && Instant::now() < deadline;
            answered(&plan, fetched, is_range, &go_on)
        });
        let failed = |_| Err(QueryError::Execution("the query failed".to_owned()));
        let pieces = task.await.unwrap_or_else(failed)?;
        let held = self.hold(pieces.bytes())?;
        Ok(Ready { pieces, held })
    }

    /// Room for an answer until its client has taken it.
    pub(super) fn hold(&self, bytes: usize) -> Result<OwnedSemaphorePermit, QueryError> {
        let kib = bytes.div_ceil(1024).min(ANSWERS_KIB_MAX);
        let kib = u32::try_from(kib).unwrap_or(u32::MAX);
        let held = Arc::clone(&self.room).try_acquire_many_owned(kib);
        held.map_err(|_| {
            QueryError::Unavailable(
                "other long answers are still being taken: ask again later".to_owned(),
            )
        })
    }

    /// `/api/v1/series`.
    ///
    /// # Errors
    /// When no `match[]` is given, or one is wrong.
    pub async fn series(&self, form: &Form) -> Result<String, QueryError> {
        if form.all("match[]").next().is_none() {
            return Err(QueryError::BadData(
                "no match[] parameter provided".to_owned(),
            ));
        }
        let labels: BTreeSet<Labels> = self.matched(form).await?.into_iter().collect();
        let (labels, notes) = limited(form, labels)?;
        Ok(answer::success(&answer::series(&labels), &notes))
    }

    /// `/api/v1/labels`.
    ///
    /// # Errors
    /// When a `match[]` is wrong.
    pub async fn labels(&self, form: &Form) -> Result<String, QueryError> {
        let mut names = BTreeSet::new();
        for labels in self.matched(form).await? {
            names.extend(labels.iter().map(|(name, _)| name.to_owned()));
        }
        let (names, notes) = limited(form, names)?;
        Ok(answer::success(&answer::texts(&names), &notes))
    }

    /// `/api/v1/label/<name>/values`.
    ///
    /// # Errors
    /// When the name is none, or a `match[]` is wrong.
    pub async fn label_values(&self, name: &str, form: &Form) -> Result<String, QueryError> {
        if !is_label_name(name) {
            return Err(QueryError::BadData(format!("invalid label name: {name:?}")));
        }
        let matched = self.matched(form).await?;
        let values = matched.iter().map(|labels| labels.get(name).to_owned());
        let values: BTreeSet<String> = values.filter(|value| !value.is_empty()).collect();
        let (values, notes) = limited(form, values)?;
        Ok(answer::success(&answer::texts(&values), &notes))
    }

    /// `/api/v1/metadata`.
    ///
    /// # Errors
    /// When the source cannot be asked.
    pub async fn metadata(&self, form: &Form) -> Result<String, QueryError> {
        let known = self.source.known().await?;
        let only = form.get("metric");
        let most = form.count("limit")?.unwrap_or(usize::MAX);
        let per_metric = form.count("limit_per_metric")?.unwrap_or(usize::MAX);
        let mut metrics: Vec<(String, Vec<String>)> = Vec::new();
        let mut all = known.find(&[], METADATA_SERIES_MAX)?;
        all.sort_by(|a, b| a.labels.get(NAME).cmp(b.labels.get(NAME)));
        for found in &all {
            let name = found.labels.get(NAME);
            if only.is_some_and(|only| only != name) {
                continue;
            }
            let about = about(&known, found);
            let count = metrics.len();
            match metrics.last_mut() {
                Some((last, abouts)) if last == name => {
                    if !abouts.contains(&about) && abouts.len() < per_metric {
                        abouts.push(about);
                    }
                }
                _ if count == most => break,
                _ => metrics.push((name.to_owned(), vec![about])),
            }
        }
        let mut data = String::from("{");
        for (index, (name, abouts)) in metrics.iter().enumerate() {
            if index > 0 {
                data.push(',');
            }
            quoted(&mut data, name);
            data.push_str(":[");
            data.push_str(&abouts.join(","));
            data.push(']');
        }
        data.push('}');
        Ok(answer::success(&data, &Notes::default()))
    }

    /// Labels of the series that any `match[]` takes, or of all; those without a reading
    /// from `start` on are left out.
    async fn matched(&self, form: &Form) -> Result<Vec<Labels>, QueryError> {
        let start = form.time("start", Some(i64::MIN))?;
        let _end = form.time("end", Some(i64::MAX))?;
        let mut all = Vec::new();
        for (count, text) in form.all("match[]").enumerate() {
            if count == MATCHES_MAX {
                let text = format!("more than {MATCHES_MAX} are given");
                return Err(invalid("match[]", &text));
            }
            all.push(matchers_of(text).map_err(|error| invalid("match[]", error.text()))?);
        }
        if all.is_empty() {
            all.push(Vec::new());
        }
        let known = self.source.known().await?;
        let mut labels = Vec::new();
        for matchers in all {
            let left = METADATA_SERIES_MAX - labels.len().min(METADATA_SERIES_MAX);
            let found = known.find(&matchers, left)?;
            let fresh = found
                .into_iter()
                .filter(|one| known.channels[one.channel].newest >= start.saturating_mul(1000));
            labels.extend(fresh.map(|one| one.labels));
        }
        Ok(labels)
    }
}

/// The answer, computed.
fn answered(
    plan: &Plan,
    fetched: Fetched,
    is_range: bool,
    go_on: &dyn Fn() -> bool,
) -> Result<Pieces, QueryError> {
    if is_range && matches!(plan.node, super::ast::Node::Range(_)) {
        return Err(QueryError::BadData(
            "invalid expression type \"range vector\" for range query, must be Scalar or instant \
             Vector"
                .to_owned(),
        ));
    }
    let answer = evaluate(plan, &fetched.reads, go_on)?;
    Ok(Pieces::new(answer, plan.grid, is_range, fetched.notes))
}

/// The times of a range query, and its end.
fn steps(form: &Form) -> Result<(Grid, i64), QueryError> {
    let start = in_time(form.time("start", None)?)?;
    let end = in_time(form.time("end", None)?)?;
    if end < start {
        return Err(invalid(
            "end",
            "end timestamp must not be before start time",
        ));
    }
    let step = form
        .span("step")?
        .ok_or_else(|| invalid("step", "cannot parse \"\" to a valid duration"))?;
    if step <= 0 {
        return Err(invalid(
            "step",
            "zero or negative query resolution step widths are not accepted. Try a positive integer",
        ));
    }
    let more = (end - start) / step;
    if more > STEPS_MAX {
        return Err(QueryError::BadData(
            "exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query \
             resolution (?step=XX)"
                .to_owned(),
        ));
    }
    let grid = Grid {
        first: start,
        step,
        count: usize::try_from(more).map_or(1, |more| more + 1),
    };
    Ok((grid, end))
}

fn positive(form: &Form, name: &str) -> Result<Option<i64>, QueryError> {
    match form.span(name)? {
        Some(millis) if millis <= 0 => Err(invalid(name, "it must be above 0")),
        other => Ok(other),
    }
}

/// The first `limit` of them, with a warning when there are more.
fn limited<T>(form: &Form, all: BTreeSet<T>) -> Result<(Vec<T>, Notes), QueryError> {
    let most = form
        .count("limit")?
        .filter(|most| *most > 0)
        .unwrap_or(usize::MAX);
    let mut notes = Notes::default();
    if all.len() > most {
        notes
            .warnings
            .push("results truncated due to limit".to_owned());
    }
    Ok((all.into_iter().take(most).collect(), notes))
}

/// What `/metadata` says of a series.
fn about(known: &Known, found: &Found) -> String {
    let channel = &known.channels[found.channel];
    let (help, unit) = match &found.kind {
        Kind::Readings => (
            format!("Readings of the channel {}.", channel.key.channel),
            &*channel.unit,
        ),
        Kind::Figure(place, figure) => (
            format!(
                "{figure} of the window {}, at its end.",
                known.rollups[*place].name
            ),
            "",
        ),
    };
    let mut out = String::from(r#"{"type":"gauge","help":"#);
    quoted(&mut out, &help);
    out.push_str(r#","unit":"#);
    quoted(&mut out, unit);
    out.push('}');
    out
}

/// Milliseconds since 1970.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    })
}
