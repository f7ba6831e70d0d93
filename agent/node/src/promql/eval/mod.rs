//! Computes a plan over what was read for its selectors. Pure: no clock, no reading.
//!
//! Always holds: the same plan and samples give the same answer. Bound:
//! [`QUERY_SAMPLES_MAX`] places held by parts of the query, [`QUERY_VISITS_MAX`] samples
//! looked at.

mod aggregate;
mod binary;
mod merge;
mod range;
mod shape;
mod sliding;
mod values;
mod windows;

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

use std::cell::Cell;

use super::ast::{Grid, Node, Plan, Selector, Type};
use super::data::{Answer, Read, Samples, Series};
use super::error::QueryError;
use super::limits::{QUERY_SAMPLES_MAX, QUERY_VISITS_MAX};

/// What an expression gives on a grid.
#[derive(Debug, Clone)]
enum Value {
    Scalar(Vec<f64>),
    Text(String),
    Vector(Vec<Series>),
}

/// Computes `plan` over `reads`, one per selector. `go_on` is asked now and then.
///
/// # Errors
/// Where Prometheus gives one, where a limit is passed, and when `go_on` says no.
pub fn evaluate(
    plan: &Plan,
    reads: &[Read],
    go_on: &dyn Fn() -> bool,
) -> Result<Answer, QueryError> {
    assert_eq!(plan.selectors.len(), reads.len(), "one read per selector");
    let eval = Eval {
        plan,
        reads,
        budget: Budget {
            go_on,
            places: Cell::new(0),
            visits: Cell::new(0),
        },
    };
    match (&plan.node, plan.grid.count) {
        (Node::Range(number), 1) => eval.raw(*number),
        _ => eval.answer(),
    }
}

/// What a query has used up.
struct Budget<'a> {
    go_on: &'a dyn Fn() -> bool,
    places: Cell<usize>,
    visits: Cell<u64>,
}

impl Budget<'_> {
    /// Takes room for `places` of series.
    fn hold(&self, places: usize) -> Result<(), QueryError> {
        let held = self.places.get().saturating_add(places);
        self.places.set(held);
        if held > QUERY_SAMPLES_MAX {
            return Err(QueryError::Execution(format!(
                "query processing would load too many samples into memory in query execution: \
                 more than {QUERY_SAMPLES_MAX}; ask for fewer series, a shorter time or a longer step"
            )));
        }
        self.live()
    }

    /// Counts samples that are looked at.
    fn visit(&self, samples: usize) -> Result<(), QueryError> {
        let visits = self.visits.get().saturating_add(samples as u64);
        self.visits.set(visits);
        if visits > QUERY_VISITS_MAX {
            return Err(QueryError::Execution(format!(
                "the query looks at more than {QUERY_VISITS_MAX} samples: shorten its windows \
                 or lengthen its step"
            )));
        }
        Ok(())
    }

    fn live(&self) -> Result<(), QueryError> {
        if (self.go_on)() {
            return Ok(());
        }
        Err(QueryError::Timeout(
            "query timed out in expression evaluation".to_owned(),
        ))
    }
}

struct Eval<'a> {
    plan: &'a Plan,
    reads: &'a [Read],
    budget: Budget<'a>,
}

impl<'a> Eval<'a> {
    fn answer(&self) -> Result<Answer, QueryError> {
        let grid = self.plan.grid;
        Ok(match self.value(&self.plan.node, grid)? {
            Value::Scalar(values) => Answer::Scalar(values),
            Value::Text(text) => Answer::Text(text),
            Value::Vector(mut series) => {
                series.retain(|one| one.values.iter().any(Option::is_some));
                if grid.count > 1 {
                    series.sort_by(|a, b| a.labels.cmp(&b.labels));
                }
                Answer::Vector(series)
            }
        })
    }

    /// Samples of a selector of windows, as they are.
    fn raw(&self, number: usize) -> Result<Answer, QueryError> {
        let selector = &self.plan.selectors[number];
        let mut answer = Vec::new();
        for series in self.samples(number)? {
            let (times, values) = windows::valid(&series.times, &series.values);
            let from = times.partition_point(|time| *time <= selector.from * 1000);
            let to = times.partition_point(|time| *time <= selector.to * 1000);
            if from < to {
                answer.push(Samples {
                    labels: series.labels.clone(),
                    times: times[from..to].to_vec(),
                    values: values[from..to].to_vec(),
                });
            }
        }
        answer.sort_by(|a, b| a.labels.cmp(&b.labels));
        Ok(Answer::Matrix(answer))
    }

    fn value(&self, node: &Node, grid: Grid) -> Result<Value, QueryError> {
        Ok(match node {
            Node::Number(number) => Value::Scalar(vec![*number; grid.count]),
            Node::Text(text) => Value::Text(text.clone()),
            Node::Instant(number) => Value::Vector(self.instant(*number, grid)?),
            Node::Range(_) | Node::Subquery(_) => {
                return Err(QueryError::BadData(format!(
                    "invalid expression type \"{}\" for range query, must be Scalar or instant Vector",
                    Type::Matrix
                )));
            }
            Node::Negated(inner) => self.negated(inner, grid)?,
            Node::OverTime(of, windows, rest) => {
                Value::Vector(self.over_time(*of, windows, rest, grid)?)
            }
            Node::PerValue(of, vector, rest) => {
                Value::Vector(self.per_value(*of, vector, rest, grid)?)
            }
            Node::Shape(of, arguments) => self.shape(*of, arguments, grid)?,
            Node::Aggregate(aggregate) => Value::Vector(self.aggregate(aggregate, grid)?),
            Node::Binary(binary) => self.binary(binary, grid)?,
        })
    }

    fn vector(&self, node: &Node, grid: Grid) -> Result<Vec<Series>, QueryError> {
        match self.value(node, grid)? {
            Value::Vector(series) => Ok(series),
            Value::Scalar(_) | Value::Text(_) => Err(QueryError::BadData(
                "an instant vector is expected".to_owned(),
            )),
        }
    }

    fn scalar(&self, node: &Node, grid: Grid) -> Result<Vec<f64>, QueryError> {
        match self.value(node, grid)? {
            Value::Scalar(values) => Ok(values),
            Value::Vector(_) | Value::Text(_) => {
                Err(QueryError::BadData("a scalar is expected".to_owned()))
            }
        }
    }

    fn negated(&self, inner: &Node, grid: Grid) -> Result<Value, QueryError> {
        Ok(match self.value(inner, grid)? {
            Value::Scalar(values) => Value::Scalar(values.into_iter().map(|v| -v).collect()),
            Value::Text(text) => Value::Text(text),
            Value::Vector(mut series) => {
                for one in &mut series {
                    one.labels = one.labels.without_name();
                    for value in one.values.iter_mut().flatten() {
                        *value = -*value;
                    }
                }
                Value::Vector(merge::unique(series)?)
            }
        })
    }

    fn selector(&self, number: usize) -> &'a Selector {
        &self.plan.selectors[number]
    }

    fn samples(&self, number: usize) -> Result<&'a [Samples], QueryError> {
        match &self.reads[number] {
            Read::Samples(samples) => Ok(samples),
            Read::Rolled { .. } => Err(QueryError::Execution(
                "figures of windows stand where samples are needed".to_owned(),
            )),
        }
    }

    /// The newest sample of each series at each step, unless it is too old.
    fn instant(&self, number: usize, grid: Grid) -> Result<Vec<Series>, QueryError> {
        let places = self.places(number, grid)?;
        let samples = self.samples(number)?;
        let series = samples.iter().zip(places).map(|(from, places)| Series {
            labels: from.labels.clone(),
            values: places
                .into_iter()
                .map(|place| place.map(|place| from.values[place]))
                .collect(),
        });
        Ok(series.collect())
    }

    /// Which sample each series has at each step.
    fn places(&self, number: usize, grid: Grid) -> Result<Vec<Vec<Option<usize>>>, QueryError> {
        let selector = self.selector(number);
        let mut all = Vec::new();
        for series in self.samples(number)? {
            self.budget.hold(grid.count)?;
            let mut next = 0;
            let places = grid.times().map(|time| {
                let at = selector.moved.from(time) * 1000;
                while series.times.get(next).is_some_and(|time| *time <= at) {
                    next += 1;
                }
                let place = next.checked_sub(1)?;
                let fresh = series.times[place] > at - selector.range * 1000;
                (fresh && !series.values[place].is_nan()).then_some(place)
            });
            all.push(places.collect());
        }
        Ok(all)
    }
}
