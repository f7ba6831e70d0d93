//! What must be true of the windows that the receiver holds.

use std::collections::BTreeMap;

use forebay_tests::judge::records;
use jiff::Timestamp;
use serde_json::Value;

/// Readings of a channel by their time.
type Series = BTreeMap<Timestamp, f64>;

/// Each closed window says what its readings say.
pub(crate) fn windows_are_right(rows: &[Value]) {
    let mut channels: BTreeMap<&str, Series> = BTreeMap::new();
    for row in records(rows, "readings").filter(|row| row["value"].is_number()) {
        let series = channels.entry(text(&row["channel"])).or_default();
        series.insert(time(&row["time"]), row["value"].as_f64().unwrap());
    }
    for (stream, seconds) in [("five_seconds", 5), ("minute", 60)] {
        // The last revision of a window is what it says.
        let windows: BTreeMap<(&str, Timestamp), &Value> = records(rows, stream)
            .map(|row| ((text(&row["channel"]), time(&row["start"])), row))
            .collect();
        assert!(!windows.is_empty(), "no window of {stream} closed");
        for ((channel, start), window) in windows {
            let end = start + jiff::SignedDuration::from_secs(seconds);
            let inside: Vec<f64> = channels[channel]
                .range(start..end)
                .map(|at| *at.1)
                .collect();
            says(window, &inside);
        }
    }
}

fn says(window: &Value, values: &[f64]) {
    let figure = |key: &str| window[key].as_f64();
    assert_eq!(
        window["count"].as_u64(),
        Some(values.len() as u64),
        "{window}"
    );
    assert_eq!(figure("mean"), Some(mean(values)), "{window}");
    assert_eq!(
        figure("min"),
        values.iter().copied().reduce(f64::min),
        "{window}"
    );
    assert_eq!(
        figure("max"),
        values.iter().copied().reduce(f64::max),
        "{window}"
    );
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}"))
}

fn time(text: &Value) -> Timestamp {
    text.as_str()
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(|| panic!("no time: {text}"))
}

/// The nearest float to the exact mean: the values are multiples of 1/10000, so
/// their sum is exact as an integer, and one division rounds once.
fn mean(values: &[f64]) -> f64 {
    let sum: i64 = values
        .iter()
        .map(|value| (value * 10_000.0).round() as i64)
        .sum();
    sum as f64 / (values.len() as f64 * 10_000.0)
}

/// The judge itself: it must see each fault that it is there for.
mod tests {
    use std::panic::catch_unwind;

    use serde_json::json;

    use super::*;

    fn row(stream: &str, record: Value) -> Value {
        json!({ "stream": stream, "record": record })
    }

    #[test]
    fn each_wrong_figure_of_a_window_is_seen() {
        let at = |second: u64| format!("2026-01-01T00:00:0{second}Z");
        let value = |second: u64, value: f64| {
            row(
                "readings",
                json!({ "channel": "c", "time": at(second), "value": value }),
            )
        };
        let window = |stream: &str, key: &str, wrong: f64| {
            let mut record = json!({
                "channel": "c", "start": at(0), "count": 2, "mean": 1.5, "min": 1.0, "max": 2.0,
            });
            if !key.is_empty() {
                record[key] = json!(wrong);
            }
            row(stream, record)
        };
        let readings = [value(0, 1.0), value(4, 2.0), value(9, 9.0)];
        let minute = row(
            "minute",
            json!({ "channel": "c", "start": at(0), "count": 3, "mean": 4.0, "min": 1.0, "max": 9.0 }),
        );
        for (key, wrong, right) in [
            ("", 0.0, true),
            ("count", 3.0, false),
            ("mean", 1.500_000_1, false),
            ("min", 0.5, false),
            ("max", 9.0, false),
        ] {
            let mut rows = readings.to_vec();
            rows.extend([window("five_seconds", key, wrong), minute.clone()]);
            let found = catch_unwind(|| windows_are_right(&rows)).is_ok();
            assert_eq!(found, right, "{key}");
        }
        let no_minute = [&readings[..], &[window("five_seconds", "", 0.0)]].concat();
        assert!(catch_unwind(|| windows_are_right(&no_minute)).is_err());
    }
}
