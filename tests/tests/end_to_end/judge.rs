//! What must be true of the receiver's rows, whatever happened on the way.

use std::collections::{BTreeMap, BTreeSet};

use forebay_tests::tap::{Boot, Heard};
use jiff::Timestamp;
use serde_json::Value;

/// A device and one of its boots.
type Key = (String, u64);

/// The records of one stream.
fn records<'a>(rows: &'a [Value], stream: &'a str) -> impl Iterator<Item = &'a Value> {
    rows.iter()
        .filter(move |row| row["stream"] == stream)
        .map(|row| &row["record"])
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Readings and gaps upstream are what the device put on its line: nothing is
/// missing, nothing is invented, nothing is there twice.
pub(crate) fn each_once(heard: &Heard, rows: &[Value]) {
    let mut upstream: BTreeMap<Key, Boot> = BTreeMap::new();
    for row in records(rows, "readings") {
        if !row["clock"].is_null() {
            // What the gateway's clock said stands among the readings, of no device.
            continue;
        }
        let key = (
            row["device"].as_str().unwrap().to_owned(),
            row["boot"].as_u64().unwrap(),
        );
        let boot = upstream.entry(key).or_default();
        if let Some(ordinal) = row["ordinal"].as_u64() {
            assert!(boot.readings.insert(ordinal), "applied twice: {row}");
        } else {
            let first = row["first_ordinal"].as_u64().unwrap();
            for ordinal in first..first + row["count"].as_u64().unwrap() {
                assert!(
                    boot.gaps.insert(ordinal),
                    "declared twice: {ordinal} of {row}"
                );
            }
        }
    }
    for ((uid, id), produced) in &heard.boots {
        let key = (hex(&uid.0), u64::from(id.0));
        let got = upstream.remove(&key).unwrap_or_default();
        let all: BTreeSet<u64> = produced.readings.union(&produced.gaps).copied().collect();
        let end = all.last().map_or(0, |last| last + 1);
        assert_eq!(
            all.len() as u64,
            end,
            "ordinals of boot {id:?} have holes on the line"
        );
        if let Some(told) = produced.end {
            assert_eq!(
                told, end,
                "boot {id:?} gave out more than the next one says"
            );
        }
        let twofold: Vec<&u64> = got.readings.intersection(&got.gaps).collect();
        assert!(
            twofold.is_empty(),
            "both applied and declared lost: {twofold:?}"
        );
        let accounted: BTreeSet<u64> = got.readings.union(&got.gaps).copied().collect();
        let missing: Vec<&u64> = all.difference(&accounted).collect();
        let invented: Vec<&u64> = accounted.difference(&all).collect();
        assert!(
            missing.is_empty(),
            "boot {id:?}: missing upstream: {missing:?}"
        );
        assert!(
            invented.is_empty(),
            "boot {id:?}: never produced: {invented:?}"
        );
        assert!(!got.readings.is_empty(), "boot {id:?} has no readings");
    }
    assert!(
        upstream.is_empty(),
        "boots that never were: {:?}",
        upstream.keys()
    );
}

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

    use forebay_wire::ids::{BootId, DeviceUid};
    use serde_json::json;

    use super::*;

    const UID: DeviceUid = DeviceUid([0xab; 8]);

    fn produced(readings: &[u64], gaps: &[u64]) -> Heard {
        let boot = Boot {
            readings: readings.iter().copied().collect(),
            gaps: gaps.iter().copied().collect(),
            end: None,
        };
        let mut heard = Heard::default();
        heard.boots.insert((UID, BootId(1)), boot);
        heard
    }

    fn row(stream: &str, record: Value) -> Value {
        json!({ "stream": stream, "record": record })
    }

    fn reading(boot: u64, ordinal: u64) -> Value {
        row(
            "readings",
            json!({ "device": hex(&UID.0), "boot": boot, "ordinal": ordinal }),
        )
    }

    fn gap(first: u64, count: u64) -> Value {
        let record = json!({
            "device": hex(&UID.0), "boot": 1, "first_ordinal": first, "count": count,
        });
        row("readings", record)
    }

    #[test]
    fn each_fault_of_delivery_is_seen() {
        let all = || produced(&[0, 1, 3], &[2]);
        let good = || vec![reading(1, 0), reading(1, 1), gap(2, 1), reading(1, 3)];
        let ended = |end| {
            let mut heard = all();
            for boot in heard.boots.values_mut() {
                boot.end = Some(end);
            }
            heard
        };
        let with = |row: Value| [good(), vec![row]].concat();
        let without = |at: usize| {
            let mut rows = good();
            rows.remove(at);
            rows
        };
        for (name, heard, rows, right) in [
            ("all of it", all(), good(), true),
            ("a reading is missing", all(), without(3), false),
            ("a gap is missing", all(), without(2), false),
            ("applied twice", all(), with(reading(1, 1)), false),
            ("declared twice", all(), with(gap(2, 1)), false),
            ("declared and applied", all(), with(gap(1, 1)), false),
            ("never produced", all(), with(reading(1, 4)), false),
            ("of another boot", all(), with(reading(2, 0)), false),
            (
                "a hole on the line",
                produced(&[0, 1, 3], &[]),
                without(2),
                false,
            ),
            ("ended", ended(4), good(), true),
            ("ended too early", ended(3), good(), false),
            ("nothing at all", all(), Vec::new(), false),
        ] {
            let found = catch_unwind(|| each_once(&heard, &rows)).is_ok();
            assert_eq!(found, right, "{name}");
        }
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
