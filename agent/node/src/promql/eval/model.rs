//! A slow, obvious evaluator of windows: for each step it looks at all samples, and
//! computes by the definition.

use super::super::functions::OverTime;

/// What `of` gives over the samples in `(end - range, end]`, in microseconds.
pub(super) fn over_time(
    of: OverTime,
    samples: &[(i64, f64)],
    (end, range): (i64, i64),
) -> Option<f64> {
    let inside: Vec<(i64, f64)> = samples
        .iter()
        .copied()
        .filter(|(time, value)| *time > end - range && *time <= end && !value.is_nan())
        .collect();
    let (first, last) = (*inside.first()?, *inside.last()?);
    let values = || inside.iter().map(|(_, value)| *value);
    let count = inside.len() as f64;
    Some(match of {
        OverTime::Sum => exact(values()),
        OverTime::Avg => exact(values()) / count,
        OverTime::Count => count,
        OverTime::Min => values().fold(f64::INFINITY, f64::min),
        OverTime::Max => values().fold(f64::NEG_INFINITY, f64::max),
        OverTime::Last => last.1,
        OverTime::First => first.1,
        OverTime::Increase | OverTime::Delta if inside.len() < 2 => return None,
        OverTime::Increase => {
            let falls = inside.windows(2).filter(|pair| pair[1].1 < pair[0].1);
            let change = last.1 - first.1 + falls.map(|pair| pair[0].1).sum::<f64>();
            change * stretched(&inside, end, range, Some((first.1, change)))
        }
        OverTime::Delta => (last.1 - first.1) * stretched(&inside, end, range, None),
        OverTime::Stddev
        | OverTime::Stdvar
        | OverTime::Quantile
        | OverTime::Present
        | OverTime::Absent
        | OverTime::Rate
        | OverTime::Irate
        | OverTime::Idelta
        | OverTime::Changes
        | OverTime::Resets
        | OverTime::Deriv
        | OverTime::PredictLinear => return None,
    })
}

/// By how much a change between the samples is to be stretched over the window.
fn stretched(inside: &[(i64, f64)], end: i64, range: i64, counter: Option<(f64, f64)>) -> f64 {
    let (first, last) = (inside[0].0, inside[inside.len() - 1].0);
    let sampled = (last - first) as f64;
    let average = sampled / (inside.len() - 1) as f64;
    let side = |free: f64| {
        if free < average * 1.1 {
            free
        } else {
            average / 2.0
        }
    };
    let mut before = side((first - (end - range)) as f64);
    if let Some((value, change)) = counter
        && change > 0.0
        && value >= 0.0
    {
        before = before.min(sampled * value / change);
    }
    (sampled + before + side((end - last) as f64)) / sampled
}

/// The exact sum, rounded once: all are multiples of 2^-20 below 2^40.
fn exact(values: impl Iterator<Item = f64>) -> f64 {
    let scale = f64::from(1 << 20);
    let units: i128 = values.map(|value| (value * scale) as i128).sum();
    units as f64 / scale
}
