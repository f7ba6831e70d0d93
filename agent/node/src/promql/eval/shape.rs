//! Functions that give another kind of value, other labels or another order.

use std::cmp::Ordering;

use std::collections::BTreeMap;

use super::super::ast::{Grid, Node};
use super::super::data::Series;
use super::super::error::QueryError;
use super::super::functions::Shape;
use super::super::labels::{Labels, Matcher, NAME};
use super::super::plan::anchored;
use super::{Eval, Value, merge};

impl Eval<'_> {
    pub(super) fn shape(
        &self,
        of: Shape,
        arguments: &[Node],
        grid: Grid,
    ) -> Result<Value, QueryError> {
        let first = arguments.first();
        Ok(match (of, first) {
            (Shape::Time, _) => {
                let times = grid.times().map(|time| time as f64 / 1000.0);
                Value::Scalar(times.collect())
            }
            (Shape::Pi, _) => Value::Scalar(vec![std::f64::consts::PI; grid.count]),
            (Shape::Scalar, Some(node)) => {
                let series = self.vector(node, grid)?;
                let only = (0..grid.count).map(|step| only_value(&series, step));
                Value::Scalar(only.collect())
            }
            (Shape::Vector, Some(node)) => {
                let values = self.scalar(node, grid)?;
                Value::Vector(vec![Series {
                    labels: Labels::default(),
                    values: values.into_iter().map(Some).collect(),
                }])
            }
            (Shape::Timestamp, Some(node)) => Value::Vector(self.timestamp(node, grid)?),
            (Shape::Absent, Some(node)) => Value::Vector(vec![self.absent(node, grid)?]),
            (Shape::LabelReplace, Some(node)) => {
                let series = self.vector(node, grid)?;
                Value::Vector(replace(series, &texts(&arguments[1..]))?)
            }
            (Shape::LabelJoin, Some(node)) => {
                let series = self.vector(node, grid)?;
                Value::Vector(join(series, &texts(&arguments[1..]))?)
            }
            (Shape::Sort, Some(node)) => Value::Vector(sorted(self.vector(node, grid)?, false)),
            (Shape::SortDesc, Some(node)) => Value::Vector(sorted(self.vector(node, grid)?, true)),
            (_, None) => {
                return Err(QueryError::BadData("an argument is missing".to_owned()));
            }
        })
    }

    /// The times of the samples themselves where the argument is a selector, else those
    /// of the steps.
    fn timestamp(&self, node: &Node, grid: Grid) -> Result<Vec<Series>, QueryError> {
        let mut series = Vec::new();
        if let Node::Instant(number) = node {
            let places = self.places(*number, grid)?;
            for (from, places) in self.samples(*number)?.iter().zip(places) {
                let values = places
                    .into_iter()
                    .map(|place| place.map(|place| from.times[place] as f64 / 1e6));
                series.push(Series {
                    labels: from.labels.without_name(),
                    values: values.collect(),
                });
            }
        } else {
            series = self.vector(node, grid)?;
            for one in &mut series {
                one.labels = one.labels.without_name();
                for (value, time) in one.values.iter_mut().zip(grid.times()) {
                    *value = value.map(|_| time as f64 / 1000.0);
                }
            }
        }
        merge::unique(series)
    }

    fn absent(&self, node: &Node, grid: Grid) -> Result<Series, QueryError> {
        let series = self.vector(node, grid)?;
        let labels = if let Node::Instant(number) = node {
            absent_labels(&self.selector(*number).matchers)
        } else {
            Labels::default()
        };
        let values = (0..grid.count).map(|step| {
            let there = series.iter().any(|one| one.values[step].is_some());
            (!there).then_some(1.0)
        });
        Ok(Series {
            labels,
            values: values.collect(),
        })
    }
}

/// The labels that something that is not there would have: those asked for by `=`, unless
/// another condition on the same label comes behind.
pub(super) fn absent_labels(matchers: &[Matcher]) -> Labels {
    let mut fixed: BTreeMap<&str, Option<&str>> = BTreeMap::new();
    for one in matchers.iter().filter(|one| one.name != NAME) {
        match fixed.get_mut(one.name.as_str()) {
            Some(value) => *value = None,
            None if one.is_equal() => {
                fixed.insert(&one.name, Some(&one.value));
            }
            None => {}
        }
    }
    let fixed = fixed.into_iter();
    Labels::of(fixed.filter_map(|(name, value)| Some((name, value?))))
}

fn only_value(series: &[Series], step: usize) -> f64 {
    let mut values = series.iter().filter_map(|one| one.values[step]);
    match (values.next(), values.next()) {
        (Some(value), None) => value,
        _ => f64::NAN,
    }
}

fn texts(nodes: &[Node]) -> Vec<&str> {
    nodes.iter().map(Node::text).collect()
}

fn replace(mut series: Vec<Series>, texts: &[&str]) -> Result<Vec<Series>, QueryError> {
    let &[to, with, from, expression] = texts else {
        return Err(QueryError::BadData(
            "label_replace() takes four texts".to_owned(),
        ));
    };
    let regex = anchored(expression)?;
    for one in &mut series {
        let mut expanded = String::new();
        if let Some(found) = regex.captures(one.labels.get(from)) {
            found.expand(with, &mut expanded);
        } else {
            continue;
        }
        one.labels.set(to, &expanded);
    }
    merge::unique(series)
}

fn join(mut series: Vec<Series>, texts: &[&str]) -> Result<Vec<Series>, QueryError> {
    let [to, separator, from @ ..] = texts else {
        return Err(QueryError::BadData(
            "label_join() takes two texts and more".to_owned(),
        ));
    };
    for one in &mut series {
        let values: Vec<&str> = from.iter().map(|name| one.labels.get(name)).collect();
        let joined = values.join(separator);
        one.labels.set(to, &joined);
    }
    merge::unique(series)
}

/// By the value at the one step of an instant; over several steps an order has no meaning.
fn sorted(mut series: Vec<Series>, descending: bool) -> Vec<Series> {
    if series.iter().any(|one| one.values.len() != 1) {
        return series;
    }
    series.sort_by(|a, b| match (a.values[0], b.values[0]) {
        (Some(a), Some(b)) => by_value(a, b, descending),
        (a, b) => b.is_some().cmp(&a.is_some()),
    });
    series
}

/// Ascending or descending; NaN comes last in both.
pub(super) fn by_value(a: f64, b: f64, descending: bool) -> Ordering {
    let order = a.is_nan().cmp(&b.is_nan());
    order.then_with(|| {
        let order = a.partial_cmp(&b).unwrap_or(Ordering::Equal);
        if descending { order.reverse() } else { order }
    })
}
