//! Operations on two operands: scalars, vectors, sets.
//!
//! Always holds: of two vectors, series meet by the labels that count for the operation;
//! where more meet than the query allows, it is an error and never a choice.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::super::ast::{Binary, BinaryOp, Cardinality, Grid, Matching};
use super::super::data::Series;
use super::super::error::QueryError;
use super::super::labels::{Labels, NAME};
use super::{Eval, Value, merge};

impl Eval<'_> {
    pub(super) fn binary(&self, binary: &Binary, grid: Grid) -> Result<Value, QueryError> {
        let left = self.value(&binary.left, grid)?;
        let right = self.value(&binary.right, grid)?;
        Ok(match (left, right) {
            (Value::Scalar(left), Value::Scalar(right)) => {
                let pairs = left.into_iter().zip(right);
                let values = pairs.map(|(left, right)| both(binary.op, left, right));
                Value::Scalar(values.collect())
            }
            (Value::Vector(series), Value::Scalar(values)) => {
                Value::Vector(with_scalar(binary, series, &values, false)?)
            }
            (Value::Scalar(values), Value::Vector(series)) => {
                Value::Vector(with_scalar(binary, series, &values, true)?)
            }
            (Value::Vector(left), Value::Vector(right)) => {
                let visits = (left.len() + right.len()).saturating_mul(grid.count);
                self.budget.visit(visits)?;
                if binary.op.is_set() {
                    Value::Vector(sets(binary, left, right, grid)?)
                } else {
                    Value::Vector(self.matched(binary, &left, &right, grid)?)
                }
            }
            (Value::Text(_), _) | (_, Value::Text(_)) => {
                return Err(QueryError::BadData("a string has no arithmetic".to_owned()));
            }
        })
    }

    fn matched(
        &self,
        binary: &Binary,
        left: &[Series],
        right: &[Series],
        grid: Grid,
    ) -> Result<Vec<Series>, QueryError> {
        let swapped = matches!(binary.cardinality, Cardinality::OneToMany(_));
        let (many, one) = if swapped {
            (right, left)
        } else {
            (left, right)
        };
        let keys = Keys::of(&binary.matching, many, one);
        let mut joined: Joined = BTreeMap::new();
        let mut order = Vec::new();
        let mut partner: Vec<Option<usize>> = vec![None; keys.count];
        let mut taken: Vec<Option<usize>> = vec![None; keys.count];
        for step in 0..grid.count {
            taken.fill(None);
            find_partners(&mut partner, (one, &keys.right), step).map_err(|(a, b)| {
                let side = if swapped { "left" } else { "right" };
                many_to_many(side, &one[a].labels, &one[b].labels)
            })?;
            for (place, series) in many.iter().enumerate() {
                let key = keys.left[place];
                let (Some(value), Some(found)) = (series.values[step], partner[key]) else {
                    continue;
                };
                let other = one[found].values[step].unwrap_or(f64::NAN);
                let sides = if swapped {
                    (other, value)
                } else {
                    (value, other)
                };
                let Some(result) = kept(binary, sides, sides.0) else {
                    continue;
                };
                let is_taken = taken[key].replace(place).is_some();
                if is_taken && binary.cardinality == Cardinality::OneToOne {
                    return Err(not_one_to_one());
                }
                let values = match joined.entry((place, found)) {
                    Entry::Occupied(values) => values.into_mut(),
                    Entry::Vacant(vacant) => {
                        self.budget.hold(grid.count)?;
                        order.push((place, found));
                        vacant.insert(vec![None; grid.count])
                    }
                };
                values[step] = Some(result);
            }
        }
        let series = order.into_iter().map(|pair| Series {
            labels: joined_labels(binary, &many[pair.0].labels, &one[pair.1].labels),
            values: joined.remove(&pair).unwrap_or_default(),
        });
        merge::unique(series.collect()).map_err(|error| {
            if binary.cardinality == Cardinality::OneToOne {
                return error;
            }
            QueryError::Execution(
                "multiple matches for labels: grouping labels must ensure unique matches"
                    .to_owned(),
            )
        })
    }
}

fn not_one_to_one() -> QueryError {
    let text = "multiple matches for labels: many-to-one matching must be explicit \
                (group_left/group_right)";
    QueryError::Execution(text.to_owned())
}

/// The series that stands for each key at a step.
///
/// # Errors
/// Two that have the same.
fn find_partners(
    partner: &mut [Option<usize>],
    (one, keys): (&[Series], &[usize]),
    step: usize,
) -> Result<(), (usize, usize)> {
    partner.fill(None);
    for (place, series) in one.iter().enumerate() {
        if series.values[step].is_none() {
            continue;
        }
        if let Some(other) = partner[keys[place]].replace(place) {
            return Err((other, place));
        }
    }
    Ok(())
}

/// Values of a pair of series, by their places on the side of many and of one.
type Joined = BTreeMap<(usize, usize), Vec<Option<f64>>>;

/// Which series of both sides meet: the same number for the same labels that count.
struct Keys {
    left: Vec<usize>,
    right: Vec<usize>,
    count: usize,
}

impl Keys {
    fn of(matching: &Matching, left: &[Series], right: &[Series]) -> Self {
        let mut numbers: BTreeMap<Labels, usize> = BTreeMap::new();
        let mut side = |series: &[Series]| {
            let keys = series.iter().map(|one| {
                let labels = match matching {
                    Matching::On(names) => one.labels.only(names),
                    Matching::Ignoring(names) => one.labels.without(names),
                };
                let next = numbers.len();
                *numbers.entry(labels).or_insert(next)
            });
            keys.collect::<Vec<_>>()
        };
        let (left, right) = (side(left), side(right));
        Self {
            left,
            right,
            count: numbers.len(),
        }
    }
}

fn many_to_many(side: &str, first: &Labels, second: &Labels) -> QueryError {
    QueryError::Execution(format!(
        "found duplicate series for the match group on the {side} hand-side of the operation: \
         [{second}, {first}];many-to-many matching not allowed: matching labels must be unique \
         on one side"
    ))
}

/// The labels of what two series give.
fn joined_labels(binary: &Binary, many: &Labels, one: &Labels) -> Labels {
    let mut labels = many.clone();
    if !binary.op.is_comparison() || binary.as_bool {
        labels.set(NAME, "");
    }
    let included = match &binary.cardinality {
        Cardinality::OneToOne => {
            return match &binary.matching {
                Matching::On(names) => labels.only(names),
                Matching::Ignoring(names) => labels.deleting(names),
            };
        }
        Cardinality::ManyToOne(names) | Cardinality::OneToMany(names) => names,
    };
    for name in included {
        labels.set(name, one.get(name));
    }
    labels
}

/// What a pair of values gives; `None` where a comparison does not hold. A comparison
/// that holds gives `shown`.
fn kept(binary: &Binary, (left, right): (f64, f64), shown: f64) -> Option<f64> {
    if !binary.op.is_comparison() {
        return Some(both(binary.op, left, right));
    }
    let holds = both(binary.op, left, right) == 1.0;
    match (binary.as_bool, holds) {
        (true, holds) => Some(f64::from(u8::from(holds))),
        (false, true) => Some(shown),
        (false, false) => None,
    }
}

/// The operation on two numbers; comparisons give 0 or 1.
fn both(op: BinaryOp, left: f64, right: f64) -> f64 {
    let truth = |holds: bool| f64::from(u8::from(holds));
    match op {
        BinaryOp::Add => left + right,
        BinaryOp::Sub => left - right,
        BinaryOp::Mul => left * right,
        BinaryOp::Div => left / right,
        BinaryOp::Mod => left % right,
        BinaryOp::Pow => left.powf(right),
        BinaryOp::Atan2 => left.atan2(right),
        BinaryOp::Equal => truth(left == right),
        BinaryOp::NotEqual => truth(left != right),
        BinaryOp::Less => truth(left < right),
        BinaryOp::LessEqual => truth(left <= right),
        BinaryOp::Greater => truth(left > right),
        BinaryOp::GreaterEqual => truth(left >= right),
        // Between scalars the planner lets none of these through.
        BinaryOp::And | BinaryOp::Or | BinaryOp::Unless => f64::NAN,
    }
}

fn with_scalar(
    binary: &Binary,
    mut series: Vec<Series>,
    values: &[f64],
    scalar_is_left: bool,
) -> Result<Vec<Series>, QueryError> {
    if binary.op.is_set() {
        return Err(QueryError::BadData(
            "a set operator needs two vectors".to_owned(),
        ));
    }
    let drops_name = !binary.op.is_comparison() || binary.as_bool;
    for one in &mut series {
        if drops_name {
            one.labels = one.labels.without_name();
        }
        for (place, scalar) in one.values.iter_mut().zip(values) {
            *place = place.and_then(|value| {
                let pair = if scalar_is_left {
                    (*scalar, value)
                } else {
                    (value, *scalar)
                };
                kept(binary, pair, value)
            });
        }
    }
    merge::unique(series)
}

fn sets(
    binary: &Binary,
    left: Vec<Series>,
    right: Vec<Series>,
    grid: Grid,
) -> Result<Vec<Series>, QueryError> {
    let keys = Keys::of(&binary.matching, &left, &right);
    let there = |series: &[Series], numbers: &[usize]| {
        let mut there = vec![false; keys.count * grid.count];
        for (one, key) in series.iter().zip(numbers) {
            for (step, value) in one.values.iter().enumerate() {
                there[key * grid.count + step] |= value.is_some();
            }
        }
        there
    };
    let only_where = |series: Vec<Series>, numbers: &[usize], there: &[bool], wanted: bool| {
        let mut series = series;
        for (one, key) in series.iter_mut().zip(numbers) {
            for (step, value) in one.values.iter_mut().enumerate() {
                if there[key * grid.count + step] != wanted {
                    *value = None;
                }
            }
        }
        series
    };
    if binary.op != BinaryOp::Or {
        let right = there(&right, &keys.right);
        let wanted = binary.op == BinaryOp::And;
        return Ok(only_where(left, &keys.left, &right, wanted));
    }
    let taken = there(&left, &keys.left);
    let right = only_where(right, &keys.right, &taken, false);
    let right = right
        .into_iter()
        .filter(|one| one.values.iter().any(Option::is_some));
    merge::unique(left.into_iter().chain(right).collect())
}
