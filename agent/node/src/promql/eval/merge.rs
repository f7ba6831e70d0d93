//! Series of the same labels become one, or an error where both have a value at a time.
//!
//! Always holds: what comes out has no labels twice, in the order of what came first.

use std::collections::BTreeMap;

use super::super::data::Series;
use super::super::error::QueryError;

/// Joins series whose labels became equal.
///
/// # Errors
/// When two of them have a value at the same step.
pub(super) fn unique(series: Vec<Series>) -> Result<Vec<Series>, QueryError> {
    let mut places = BTreeMap::new();
    let mut merged: Vec<Series> = Vec::with_capacity(series.len());
    for one in series {
        match places.get(&one.labels) {
            None => {
                places.insert(one.labels.clone(), merged.len());
                merged.push(one);
            }
            Some(place) => join(&mut merged[*place], one)?,
        }
    }
    Ok(merged)
}

fn join(into: &mut Series, from: Series) -> Result<(), QueryError> {
    for (place, value) in into.values.iter_mut().zip(from.values) {
        match (&place, value) {
            (Some(_), Some(_)) => {
                return Err(QueryError::Execution(
                    "vector cannot contain metrics with the same labelset".to_owned(),
                ));
            }
            (None, Some(_)) => *place = value,
            (_, None) => {}
        }
    }
    Ok(())
}
