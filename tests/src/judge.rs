//! What must be true of the rows that a receiver holds, whatever happened on the way:
//! what was produced is there once, or declared as a gap, and nothing else is.
//!
//! Always holds: the answer names the first thing that is wrong. Bound: the rows of a
//! test. Knows no process.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::tap::{Boot, Heard};

/// What the rows come to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sums {
    pub readings: u64,
    /// Readings that a device or a gateway declared lost.
    pub gaps: u64,
    /// Offsets of readings that a log has no more.
    pub missing: u64,
}

/// What was applied of each boot of each device.
type Boots = BTreeMap<(String, u64), Boot>;
/// A stream and partition of a gateway's log.
type Source = (String, String, String, u64);

/// The records of one stream.
pub fn records<'a>(rows: &'a [Value], stream: &'a str) -> impl Iterator<Item = &'a Value> {
    rows.iter()
        .filter(move |row| row["stream"] == stream)
        .map(|row| &row["record"])
}

/// As uids stand in rows.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn text(value: &Value) -> Result<String, String> {
    let text = value.as_str().map(str::to_owned);
    text.ok_or_else(|| format!("no text: {value}"))
}

fn number(value: &Value) -> Result<u64, String> {
    value.as_u64().ok_or_else(|| format!("no number: {value}"))
}

/// Offsets that a row of a range that was never sent stands for.
fn missing(record: &Value) -> Result<Option<(u64, u64)>, String> {
    if record["missing"].is_null() {
        return Ok(None);
    }
    let (first, last) = (&record["first_offset"], &record["last_offset"]);
    Ok(Some((number(first)?, number(last)?)))
}

/// Readings and gaps upstream, by device and boot, and what the log had no more.
fn applied(rows: &[Value]) -> Result<(Boots, u64), String> {
    let mut boots = Boots::new();
    let mut gone = 0;
    for row in records(rows, "readings") {
        if !row["clock"].is_null() {
            // What the gateway's clock said stands among the readings, of no device.
            continue;
        }
        if let Some((first, last)) = missing(row)? {
            gone += last - first + 1;
            continue;
        }
        let key = (text(&row["device"])?, number(&row["boot"])?);
        let boot = boots.entry(key).or_default();
        if let Some(ordinal) = row["ordinal"].as_u64() {
            if !boot.readings.insert(ordinal) {
                return Err(format!("applied twice: {row}"));
            }
        } else {
            let first = number(&row["first_ordinal"])?;
            for ordinal in first..first + number(&row["count"])? {
                if !boot.gaps.insert(ordinal) {
                    return Err(format!("declared twice: {ordinal} of {row}"));
                }
            }
        }
    }
    Ok((boots, gone))
}

/// Readings and gaps upstream are what the devices produced: nothing is missing but
/// what the log declares to have no more, nothing is invented, nothing is there twice.
///
/// # Errors
/// What is wrong.
pub fn each_once(heard: &Heard, rows: &[Value]) -> Result<Sums, String> {
    let (mut upstream, gone) = applied(rows)?;
    let mut sums = Sums {
        missing: gone,
        ..Sums::default()
    };
    let mut lost = 0;
    for ((uid, id), produced) in &heard.boots {
        let key = (hex(&uid.0), u64::from(id.0));
        let got = upstream.remove(&key).unwrap_or_default();
        let all: BTreeSet<u64> = produced.readings.union(&produced.gaps).copied().collect();
        let end = all.last().map_or(0, |last| last + 1);
        if all.len() as u64 != end {
            return Err(format!("ordinals of boot {id:?} have holes on the line"));
        }
        if let Some(told) = produced.end.filter(|told| *told != end) {
            return Err(format!(
                "boot {id:?} gave out {end}, and the next one says {told}"
            ));
        }
        if let Some(both) = got.readings.intersection(&got.gaps).next() {
            return Err(format!(
                "boot {id:?}: both applied and declared lost: {both}"
            ));
        }
        let accounted: BTreeSet<u64> = got.readings.union(&got.gaps).copied().collect();
        if let Some(invented) = accounted.difference(&all).next() {
            return Err(format!("boot {id:?}: never produced: {invented}"));
        }
        let away: Vec<&u64> = all.difference(&accounted).collect();
        lost += away.len() as u64;
        if lost > gone {
            return Err(format!(
                "boot {id:?} of {}: {} missing upstream, the first ones {:?}",
                key.0,
                away.len(),
                &away[..away.len().min(10)]
            ));
        }
        if got.readings.is_empty() && gone == 0 {
            return Err(format!("boot {id:?} has no readings"));
        }
        sums.readings += got.readings.len() as u64;
        sums.gaps += got.gaps.len() as u64;
    }
    match upstream.keys().next() {
        Some(key) => Err(format!("a boot that never was: {key:?}")),
        None => Ok(sums),
    }
}

/// Each offset of each log is there once, as a record or as declared missing, from 0 on
/// without a hole but those of `parked` (stream, partition, first, last). For one log
/// id per gateway: where logs fork, an offset has several histories.
///
/// # Errors
/// What is wrong.
pub fn offsets_once(rows: &[Value], parked: &[(String, u64, u64, u64)]) -> Result<u64, String> {
    let mut sources: BTreeMap<Source, BTreeMap<u64, u64>> = BTreeMap::new();
    for row in rows {
        let source = (
            text(&row["gateway"])?,
            text(&row["log_id"])?,
            text(&row["stream"])?,
            number(&row["partition"])?,
        );
        let offset = number(&row["offset"])?;
        let (first, last) = missing(&row["record"])?.unwrap_or((offset, offset));
        let runs = sources.entry(source).or_default();
        if runs.insert(first, last).is_some() {
            return Err(format!("the offset is there twice: {row}"));
        }
    }
    let mut count = 0;
    for ((gateway, _, stream, partition), mut runs) in sources {
        for (of, at, first, last) in parked {
            if *of == stream && *at == partition {
                runs.entry(*first).or_insert(*last);
            }
        }
        let mut next = 0;
        for (first, last) in runs {
            if first > next {
                return Err(format!(
                    "{gateway} {stream} {partition}: offsets {next} to {} are not there",
                    first - 1
                ));
            }
            if first < next {
                return Err(format!(
                    "{gateway} {stream} {partition}: offset {first} is there twice"
                ));
            }
            count += last - first + 1;
            next = last + 1;
        }
    }
    Ok(count)
}

/// The judge itself: it must see each fault that it is there for.
#[cfg(test)]
mod tests {
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
            let found = each_once(&heard, &rows);
            assert_eq!(found.is_ok(), right, "{name}: {found:?}");
        }
    }

    #[test]
    fn a_log_may_have_no_more_what_it_declares() {
        let heard = produced(&[0, 1, 2, 3], &[]);
        let gone = |first: u64, last: u64| {
            row(
                "readings",
                json!({ "missing": "trimmed", "first_offset": first, "last_offset": last }),
            )
        };
        let rows = |first, last| vec![gone(first, last), reading(1, 2), reading(1, 3)];
        let sums = Sums {
            readings: 2,
            gaps: 0,
            missing: 2,
        };
        assert_eq!(each_once(&heard, &rows(0, 1)), Ok(sums));
        let found = each_once(&heard, &rows(0, 0)).unwrap_err();
        assert!(found.contains("2 missing upstream"), "{found}");
    }

    #[test]
    fn each_fault_of_an_offset_is_seen() {
        let at = |partition: u64, offset: u64| {
            json!({
                "gateway": "g", "log_id": "a", "stream": "readings", "partition": partition,
                "epoch": 1, "offset": offset, "record": {},
            })
        };
        let gone = |first: u64, last: u64| {
            let mut row = at(0, first);
            row["record"] =
                json!({ "missing": "lost", "first_offset": first, "last_offset": last });
            row
        };
        let parked = [("readings".to_owned(), 0, 5, 6)];
        for (name, rows, right) in [
            ("all", vec![at(0, 0), at(0, 1), at(1, 0)], Ok(3)),
            ("any order", vec![at(0, 1), at(0, 0)], Ok(2)),
            (
                "a hole",
                vec![at(0, 0), at(0, 2)],
                Err("1 to 1 are not there"),
            ),
            ("no start", vec![at(1, 1)], Err("0 to 0 are not there")),
            ("twice", vec![at(0, 0), at(0, 0)], Err("twice")),
            ("declared", vec![gone(0, 3), at(0, 4)], Ok(5)),
            (
                "declared and there",
                vec![gone(0, 3), at(0, 3)],
                Err("3 is there twice"),
            ),
            ("parked", vec![gone(0, 4), at(0, 7)], Ok(8)),
        ] {
            let found = offsets_once(&rows, if name == "parked" { &parked } else { &[] });
            match (&found, right) {
                (Ok(found), Ok(right)) => assert_eq!(*found, right, "{name}"),
                (Err(found), Err(part)) => assert!(found.contains(part), "{name}: {found}"),
                _ => panic!("{name}: {found:?}"),
            }
        }
    }
}
