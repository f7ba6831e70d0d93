//! Brings what a plan needs: chooses the series of each selector, and whether its
//! windows are answered from figures of shorter ones.
//!
//! Always holds: figures stand in for readings only where all windows of a selector
//! consist of whole windows of the config. Bound: [`QUERY_SERIES_MAX`] and
//! [`QUERY_SAMPLES_MAX`] over all selectors.

use super::answer::Notes;
use super::ast::{Plan, Selector};
use super::data::{Read, Rolled, Samples};
use super::error::QueryError;
use super::functions::OverTime;
use super::limits::{QUERY_SAMPLES_MAX, QUERY_SERIES_MAX};
use super::source::{Found, Kind, Known, Rollup, Source};

/// Channels of one read.
const KEYS_PER_READ: usize = 512;

/// What was read, and what is to be said of it.
#[derive(Debug)]
pub struct Fetched {
    pub reads: Vec<Read>,
    pub notes: Notes,
}

/// Reads what the plan needs.
///
/// # Errors
/// When it is too much, and those of the source.
pub async fn fetch<S: Source>(
    source: &S,
    plan: &Plan,
    with_rollups: bool,
) -> Result<Fetched, QueryError> {
    let mut fetched = Fetched {
        reads: Vec::with_capacity(plan.selectors.len()),
        notes: Notes::default(),
    };
    if plan.selectors.is_empty() {
        return Ok(fetched);
    }
    let known = source.known().await?;
    let mut room = Room {
        series: QUERY_SERIES_MAX,
        samples: QUERY_SAMPLES_MAX,
    };
    for selector in &plan.selectors {
        let found = known.find(&selector.matchers, room.series)?;
        room.series -= found.len();
        let rollup = with_rollups
            .then(|| rollup_for(selector, &known, &found))
            .flatten();
        let read = match rollup {
            Some(rollup) => {
                let size = rollup.size / 1000;
                let place = (selector, rollup);
                let (series, from_rows) =
                    rolled(source, (&known, &found), place, &mut room).await?;
                if from_rows {
                    fetched.say(rollup);
                }
                Read::Rolled { size, series }
            }
            None => Read::Samples(samples(source, (&known, &found), selector, &mut room).await?),
        };
        fetched.reads.push(read);
    }
    Ok(fetched)
}

impl Fetched {
    fn say(&mut self, rollup: &Rollup) {
        let text = format!(
            "answered from the window \"{}\": a reading at a window's start belongs to it, one at \
             its end to the next",
            rollup.name
        );
        if !self.notes.infos.contains(&text) {
            self.notes.infos.push(text);
        }
    }
}

/// What a query may still read.
struct Room {
    series: usize,
    samples: usize,
}

impl Room {
    fn take(&mut self, samples: usize) -> Result<(), QueryError> {
        self.samples = self
            .samples
            .checked_sub(samples)
            .ok_or_else(too_many_samples)?;
        Ok(())
    }
}

/// The error of a query that reads too much.
#[must_use]
pub fn too_many_samples() -> QueryError {
    QueryError::Execution(format!(
        "query processing would load too many samples into memory in query execution: more than \
         {QUERY_SAMPLES_MAX}; ask for fewer series or a shorter time, or make a window in the \
         config that answers it"
    ))
}

/// The longest window of the config that all windows of the selector consist of.
fn rollup_for<'a>(selector: &Selector, known: &'a Known, found: &[Found]) -> Option<&'a Rollup> {
    let of = selector.only?;
    if found.is_empty() || found.iter().any(|one| one.kind != Kind::Readings) {
        return None;
    }
    let fits = |rollup: &&Rollup| {
        let on_grid = |millis: i64| {
            millis
                .checked_mul(1000)
                .is_some_and(|us| us % rollup.size == 0)
        };
        let steps = selector.grid.count == 1 || selector.moved.at.is_some();
        rollup.size % 1000 == 0
            && on_grid(selector.range)
            && on_grid(selector.moved.from(selector.grid.first))
            && (steps || on_grid(selector.grid.step))
            && has(rollup, of)
    };
    known
        .rollups
        .iter()
        .filter(fits)
        .max_by_key(|rollup| rollup.size)
}

/// Whether the figures of a window say what the function asks for.
fn has(rollup: &Rollup, of: OverTime) -> bool {
    let has = |name: &str| rollup.figures.iter().any(|figure| figure == name);
    let answers = [
        (OverTime::Count, has("count")),
        (OverTime::Sum, has("count") && (has("sum") || has("mean"))),
        (OverTime::Avg, has("count") && (has("sum") || has("mean"))),
        (OverTime::Min, has("min")),
        (OverTime::Max, has("max")),
    ];
    answers.contains(&(of, true))
}

async fn samples<S: Source>(
    source: &S,
    (known, found): (&Known, &[Found]),
    selector: &Selector,
    room: &mut Room,
) -> Result<Vec<Samples>, QueryError> {
    // `(from, to]` in milliseconds is `[from + 1, to + 1)` in microseconds.
    let range = (selector.from * 1000 + 1, selector.to * 1000 + 1);
    let mut all: Vec<Option<Samples>> = vec![None; found.len()];
    for (kind, places) in by_kind(found) {
        for places in places.chunks(KEYS_PER_READ) {
            let keys = places
                .iter()
                .map(|place| known.channels[found[*place].channel].key.clone());
            let keys = keys.collect();
            let columns = match &kind {
                Kind::Readings => {
                    let columns = source.readings(keys, range, room.samples).await?;
                    columns
                        .into_iter()
                        .map(|one| (one.times, one.values))
                        .collect()
                }
                Kind::Figure(rollup, figure) => {
                    let size = known.rollups[*rollup].size;
                    // Windows that end in the range begin up to one length earlier.
                    let wide = (range.0 - size, range.1);
                    let columns = source.figures(keys, size, wide, room.samples).await?;
                    if columns.iter().any(|one| !one.from_rows) {
                        return Err(off_grid(&known.rollups[*rollup]));
                    }
                    let named = columns.into_iter().map(|one| one.named(figure));
                    named.collect::<Vec<_>>()
                }
            };
            for (place, (times, values)) in places.iter().zip(columns) {
                room.take(times.len())?;
                all[*place] = Some(Samples {
                    labels: found[*place].labels.clone(),
                    times,
                    values,
                });
            }
        }
    }
    Ok(all.into_iter().flatten().collect())
}

fn off_grid(rollup: &Rollup) -> QueryError {
    QueryError::Execution(format!(
        "series of the window \"{}\" are not supported: its windows do not begin at multiples of \
         their size",
        rollup.name
    ))
}

/// Places of series of the same kind together, in the order of their labels.
fn by_kind(found: &[Found]) -> Vec<(Kind, Vec<usize>)> {
    let mut kinds: Vec<(Kind, Vec<usize>)> = Vec::new();
    for (place, one) in found.iter().enumerate() {
        match kinds.iter_mut().find(|(kind, _)| *kind == one.kind) {
            Some((_, places)) => places.push(place),
            None => kinds.push((one.kind.clone(), vec![place])),
        }
    }
    kinds
}

async fn rolled<S: Source>(
    source: &S,
    (known, found): (&Known, &[Found]),
    (selector, rollup): (&Selector, &Rollup),
    room: &mut Room,
) -> Result<(Vec<Rolled>, bool), QueryError> {
    let mut from_rows = true;
    let range = (selector.from * 1000, selector.to * 1000);
    let mut all = Vec::with_capacity(found.len());
    for found in found.chunks(KEYS_PER_READ) {
        let keys = found
            .iter()
            .map(|one| known.channels[one.channel].key.clone());
        let columns = source
            .figures(keys.collect(), rollup.size, range, room.samples)
            .await?;
        for (one, figures) in found.iter().zip(columns) {
            room.take(figures.ends.len())?;
            from_rows &= figures.from_rows;
            all.push(figures.rolled(one.labels.clone()));
        }
    }
    Ok((all, from_rows))
}

impl super::source::Figures {
    /// One figure as samples at the ends of its windows.
    fn named(self, figure: &str) -> (Vec<i64>, Vec<f64>) {
        if figure == "count" {
            let values = self.count.iter().map(|count| *count as f64).collect();
            return (self.ends, values);
        }
        let found = self.figures.into_iter().find(|(name, _)| name == figure);
        let values = found.map_or_else(|| vec![f64::NAN; self.ends.len()], |(_, values)| values);
        let pairs = self.ends.into_iter().zip(values);
        pairs.filter(|(_, value)| !value.is_nan()).unzip()
    }

    /// The figures that the functions over windows take; windows without a value are left
    /// out. A sum that no row says is made of mean and count.
    fn rolled(self, labels: super::labels::Labels) -> Rolled {
        let mut rolled = Rolled {
            labels,
            ..Rolled::default()
        };
        for (place, end) in self.ends.iter().enumerate() {
            let figure = |name: &str| self.column(name).map_or(f64::NAN, |values| values[place]);
            let count = self.count[place];
            if count == 0 {
                continue;
            }
            let sum = figure("sum");
            let sum = if sum.is_nan() {
                figure("mean") * count as f64
            } else {
                sum
            };
            rolled.ends.push(*end);
            rolled.count.push(count);
            rolled.sum.push(sum);
            rolled.min.push(figure("min"));
            rolled.max.push(figure("max"));
        }
        rolled
    }
}
