//! Functions of each value of a vector.

use super::super::ast::{Grid, Node};
use super::super::data::Series;
use super::super::error::QueryError;
use super::super::functions::PerValue;
use super::{Eval, merge};

impl Eval<'_> {
    pub(super) fn per_value(
        &self,
        of: PerValue,
        vector: &Node,
        rest: &[Node],
        grid: Grid,
    ) -> Result<Vec<Series>, QueryError> {
        let mut series = self.vector(vector, grid)?;
        let mut arguments = Vec::with_capacity(rest.len());
        for node in rest {
            arguments.push(self.scalar(node, grid)?);
        }
        for one in &mut series {
            one.labels = one.labels.without_name();
            for (step, place) in one.values.iter_mut().enumerate() {
                let argument = |index: usize| arguments.get(index).map(|values| values[step]);
                *place = place.and_then(|value| applied(of, value, &argument));
            }
        }
        merge::unique(series)
    }
}

/// `None`: the sample is left out.
fn applied(of: PerValue, value: f64, argument: &dyn Fn(usize) -> Option<f64>) -> Option<f64> {
    let clamped = |low: f64, high: f64| {
        (high >= low || low.is_nan() || high.is_nan()).then(|| greater(low, lesser(high, value)))
    };
    let nan = f64::NAN;
    match of {
        PerValue::Abs => Some(value.abs()),
        PerValue::Ceil => Some(value.ceil()),
        PerValue::Floor => Some(value.floor()),
        PerValue::Exp => Some(value.exp()),
        PerValue::Ln => Some(value.ln()),
        PerValue::Log2 => Some(value.log2()),
        PerValue::Log10 => Some(value.log10()),
        PerValue::Sqrt => Some(value.sqrt()),
        PerValue::Sgn => Some(if value > 0.0 {
            1.0
        } else if value < 0.0 {
            -1.0
        } else {
            value
        }),
        PerValue::Sin => Some(value.sin()),
        PerValue::Cos => Some(value.cos()),
        PerValue::Tan => Some(value.tan()),
        PerValue::Asin => Some(value.asin()),
        PerValue::Acos => Some(value.acos()),
        PerValue::Atan => Some(value.atan()),
        PerValue::Sinh => Some(value.sinh()),
        PerValue::Cosh => Some(value.cosh()),
        PerValue::Tanh => Some(value.tanh()),
        PerValue::Asinh => Some(value.asinh()),
        PerValue::Acosh => Some(value.acosh()),
        PerValue::Atanh => Some(value.atanh()),
        PerValue::Deg => Some(value * 180.0 / std::f64::consts::PI),
        PerValue::Rad => Some(value * std::f64::consts::PI / 180.0),
        PerValue::Clamp => clamped(argument(0).unwrap_or(nan), argument(1).unwrap_or(nan)),
        PerValue::ClampMin => clamped(argument(0).unwrap_or(nan), f64::INFINITY),
        PerValue::ClampMax => clamped(f64::NEG_INFINITY, argument(0).unwrap_or(nan)),
        PerValue::Round => {
            let inverse = 1.0 / argument(0).unwrap_or(1.0);
            Some((value * inverse + 0.5).floor() / inverse)
        }
    }
}

/// The greater of two; NaN where one is.
fn greater(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() {
        f64::NAN
    } else {
        a.max(b)
    }
}

fn lesser(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() {
        f64::NAN
    } else {
        a.min(b)
    }
}
