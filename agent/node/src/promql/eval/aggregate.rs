//! Aggregations over the series of a group, at each step.
//!
//! Always holds: groups stand in the order of their first series, and a group without a
//! value at a step gives none.

use std::collections::BTreeMap;

use super::super::ast::{Aggregate, AggregateOp, Grid, Grouping};
use super::super::data::Series;
use super::super::error::QueryError;
use super::super::labels::Labels;
use super::super::num;
use super::Eval;
use super::shape::by_value;

/// Series of the same labels as far as these count, by their places.
struct Group {
    labels: Labels,
    members: Vec<usize>,
}

impl Eval<'_> {
    pub(super) fn aggregate(
        &self,
        aggregate: &Aggregate,
        grid: Grid,
    ) -> Result<Vec<Series>, QueryError> {
        let series = self.vector(&aggregate.node, grid)?;
        let parameter = match &aggregate.parameter {
            Some(node) => self.scalar(node, grid)?,
            None => vec![0.0; grid.count],
        };
        self.budget.visit(series.len().saturating_mul(grid.count))?;
        let groups = groups(&series, &aggregate.grouping);
        match aggregate.op {
            AggregateOp::Topk => self.ranked(&series, &groups, (&parameter, true), grid),
            AggregateOp::Bottomk => self.ranked(&series, &groups, (&parameter, false), grid),
            AggregateOp::Sum
            | AggregateOp::Avg
            | AggregateOp::Min
            | AggregateOp::Max
            | AggregateOp::Count
            | AggregateOp::Group
            | AggregateOp::Stddev
            | AggregateOp::Stdvar
            | AggregateOp::Quantile => {
                self.reduced(aggregate.op, (&series, groups), &parameter, grid)
            }
        }
    }

    fn reduced(
        &self,
        op: AggregateOp,
        (series, groups): (&[Series], Vec<Group>),
        parameter: &[f64],
        grid: Grid,
    ) -> Result<Vec<Series>, QueryError> {
        let mut all = Vec::with_capacity(groups.len());
        let mut there = Vec::new();
        for group in groups {
            self.budget.hold(grid.count)?;
            let mut values = Vec::with_capacity(grid.count);
            for (step, parameter) in parameter.iter().enumerate() {
                there.clear();
                let members = group.members.iter();
                there.extend(members.filter_map(|place| series[*place].values[step]));
                let value = (!there.is_empty()).then(|| reduce(op, &mut there, *parameter));
                values.push(value);
            }
            all.push(Series {
                labels: group.labels,
                values,
            });
        }
        Ok(all)
    }

    /// The greatest or least of each group; their labels stay as they are.
    fn ranked(
        &self,
        series: &[Series],
        groups: &[Group],
        (parameter, greatest): (&[f64], bool),
        grid: Grid,
    ) -> Result<Vec<Series>, QueryError> {
        self.budget.hold(series.len().saturating_mul(grid.count))?;
        let mut all: Vec<Series> = Vec::new();
        for group in groups {
            let mut chosen: BTreeMap<usize, Vec<Option<f64>>> = BTreeMap::new();
            let mut order = Vec::new();
            for (step, wanted) in parameter.iter().enumerate() {
                let wanted = whole(*wanted)?;
                let members = group.members.iter();
                let there = members.filter_map(|&at| Some((series[at].values[step]?, at)));
                let mut there: Vec<(f64, usize)> = there.collect();
                there.sort_by(|a, b| by_value(a.0, b.0, greatest));
                there.truncate(wanted);
                for (value, place) in there {
                    let values = chosen.entry(place).or_insert_with(|| {
                        order.push(place);
                        vec![None; grid.count]
                    });
                    values[step] = Some(value);
                }
            }
            all.extend(order.into_iter().map(|place| Series {
                labels: series[place].labels.clone(),
                values: chosen.remove(&place).unwrap_or_default(),
            }));
        }
        Ok(all)
    }
}

/// How many topk and bottomk keep.
fn whole(wanted: f64) -> Result<usize, QueryError> {
    if wanted.is_nan() || wanted.abs() >= i64::MAX as f64 {
        return Err(QueryError::Execution(format!(
            "Scalar value {wanted} overflows int64"
        )));
    }
    Ok(wanted.max(0.0) as usize)
}

fn groups(series: &[Series], grouping: &Grouping) -> Vec<Group> {
    let mut places: BTreeMap<Labels, usize> = BTreeMap::new();
    let mut groups: Vec<Group> = Vec::new();
    for (place, one) in series.iter().enumerate() {
        let labels = match grouping {
            Grouping::By(names) => one.labels.only(names),
            Grouping::Without(names) => one.labels.without(names),
        };
        let group = *places.entry(labels.clone()).or_insert_with(|| {
            groups.push(Group {
                labels,
                members: Vec::new(),
            });
            groups.len() - 1
        });
        groups[group].members.push(place);
    }
    groups
}

/// Of at least one value.
fn reduce(op: AggregateOp, values: &mut [f64], parameter: f64) -> f64 {
    match op {
        AggregateOp::Sum => num::sum(values),
        AggregateOp::Avg => num::mean(values),
        AggregateOp::Min => extreme(values, |a, b| a < b),
        AggregateOp::Max => extreme(values, |a, b| a > b),
        AggregateOp::Count => values.len() as f64,
        AggregateOp::Group => 1.0,
        AggregateOp::Stddev => variance(values).sqrt(),
        AggregateOp::Stdvar => variance(values),
        AggregateOp::Quantile => num::quantile(parameter, values),
        AggregateOp::Topk | AggregateOp::Bottomk => f64::NAN,
    }
}

fn extreme(values: &[f64], before: fn(f64, f64) -> bool) -> f64 {
    let mut found = values[0];
    for value in values {
        if before(*value, found) || found.is_nan() {
            found = *value;
        }
    }
    found
}

/// By Welford's steps, without compensation: as Prometheus does it over series.
fn variance(values: &[f64]) -> f64 {
    let (mut count, mut mean, mut squares) = (0.0, 0.0, 0.0);
    for value in values {
        count += 1.0;
        let delta = value - mean;
        mean += delta / count;
        squares += delta * (value - mean);
    }
    squares / count
}
