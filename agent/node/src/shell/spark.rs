//! Sparklines: values as bars between their smallest and largest.

/// Bars, low to high.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// What stands for a value that is not there.
const NONE: char = '·';
/// Values that a sparkline in a line of figures shows.
pub const SPARK_VALUES: usize = 24;
/// Bars of a sparkline that has a line of its own.
pub const WIDE: usize = 60;

/// A bar per value; a dot where there is none.
#[must_use]
pub fn line(values: &[Option<f64>]) -> String {
    let finite = || values.iter().flatten().copied().filter(|v| v.is_finite());
    let min = finite().fold(f64::INFINITY, f64::min);
    let max = finite().fold(f64::NEG_INFINITY, f64::max);
    // Halves: the difference of two doubles may be more than a double holds.
    let span = max / 2.0 - min / 2.0;
    let bar = |value: &Option<f64>| match value.filter(|value| value.is_finite()) {
        None => NONE,
        Some(_) if span <= 0.0 => BARS[0],
        Some(value) => {
            let share = (value / 2.0 - min / 2.0) / span;
            BARS[((share * 7.0).round() as usize).min(7)]
        }
    };
    values.iter().map(bar).collect()
}

/// The same of plain values.
#[must_use]
pub fn plain(values: &[f64]) -> String {
    let values: Vec<Option<f64>> = values.iter().copied().map(Some).collect();
    line(&values)
}

/// At most `width` bars: each stands for the mean of as many values as the others, one
/// more or less.
#[must_use]
pub fn fitted(values: &[Option<f64>], width: usize) -> String {
    if values.len() <= width {
        return line(values);
    }
    let edge = |at: usize| at * values.len() / width;
    let mean = |at: usize| {
        let part = values.get(edge(at)..edge(at + 1)).unwrap_or_default();
        let there: Vec<f64> = part.iter().flatten().copied().collect();
        let count = there.len() as f64;
        (!there.is_empty()).then(|| there.iter().map(|value| value / count).sum())
    };
    let means: Vec<Option<f64>> = (0..width).map(mean).collect();
    line(&means)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sparklines_span_their_values() {
        let some = |values: &[f64]| values.iter().copied().map(Some).collect::<Vec<_>>();
        for (name, values, want) in [
            ("none", vec![], ""),
            ("flat", some(&[3.0, 3.0]), "▁▁"),
            ("rising", some(&[0.0, 1.0, 7.0]), "▁▂█"),
            ("below zero", some(&[-7.0, 0.0]), "▁█"),
            ("a hole", vec![Some(0.0), None, Some(7.0)], "▁·█"),
            ("only holes", vec![None, None], "··"),
            ("no number", some(&[0.0, f64::NAN, 7.0]), "▁·█"),
            ("the whole range", some(&[f64::MIN, 0.0, f64::MAX]), "▁▅█"),
        ] {
            assert_eq!(line(&values), want, "{name}");
        }
    }

    #[test]
    fn many_values_share_bars() {
        let rising: Vec<Option<f64>> = (0..80).map(|value| Some(f64::from(value))).collect();
        assert_eq!(fitted(&rising, 8), "▁▂▃▄▅▆▇█");
        assert_eq!(fitted(&rising[..8], 8), "▁▂▃▄▅▆▇█");
        let mut holes = rising;
        holes[..10].fill(None);
        assert_eq!(fitted(&holes, 8).chars().next(), Some('·'));
        assert_eq!(fitted(&[], 8), "");
    }
}
