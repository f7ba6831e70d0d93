//! Windows with columns of tables in their key: each reading counts under what the table
//! said at its time, whatever came first and wherever a restart is.

use std::collections::BTreeMap;

use super::*;
use crate::engine::config::{Aggregate, KeyColumn, KeySpec, WindowSpec};
use crate::engine::tests::{tumbling, window};

/// The value of column `to` of a row as JSON, found without a reader of JSON.
fn to(row: Option<&str>) -> String {
    let rest = row.and_then(|row| row.split_once("\"to\":"));
    let Some((_, rest)) = rest else {
        return "null".to_owned();
    };
    let end = rest.find([',', '}']).expect("an object ends");
    rest[..end].to_owned()
}

fn json(time: i64) -> String {
    let mut out = Vec::new();
    crate::utc::write_json(EventTime(time), &mut out);
    String::from_utf8(out).expect("JSON is UTF-8")
}

/// All windows of these readings, each once.
fn expected(spec: &WindowSpec, size: i64, steps: &[Step]) -> Vec<String> {
    let mut groups: BTreeMap<(String, i64), (u32, i32)> = BTreeMap::new();
    for step in steps {
        let Step::Reading(reading) = step else {
            continue;
        };
        let versions = steps.iter().filter_map(|step| match step {
            Step::Change(c) if c.table == 0 && c.key == reading.device && !c.is_heartbeat => {
                Some(c)
            }
            Step::Change(_) | Step::Reading(_) | Step::Clock(_) | Step::Watermark(..) => None,
        });
        let held = versions.filter(|c| c.time <= reading.time);
        let row = held.max_by_key(|c| c.time).and_then(|c| c.row);
        let mut key = String::new();
        if spec.key.device {
            key.push_str(&format!(",\"device\":\"{}\"", reading.device));
        }
        if spec.key.channel {
            key.push_str(&format!(",\"channel\":\"{}\"", reading.channel));
        }
        key.push_str(&format!(",\"p.to\":{}", to(row)));
        let start = reading.time.div_euclid(size) * size;
        let group = groups.entry((key, start)).or_default();
        if let Some(value) = reading.value {
            *group = (group.0 + 1, group.1 + value);
        }
    }
    let lines = groups.into_iter().map(|((key, start), (count, sum))| {
        let (start, end) = (json(start), json(start + size));
        let sum = match count {
            0 => "null".to_owned(),
            _ => format!("{:?}", f64::from(sum)),
        };
        format!(
            "{{\"stream\":\"w\"{key},\"start\":{start},\"end\":{end},\"revision\":0,\"final\":true,\
             \"count\":{count},\"sum\":{sum}}}"
        )
    });
    lines.collect()
}

proptest! {
    #[test]
    fn a_reading_counts_under_what_the_table_said_at_its_time(
        readings in prop::collection::vec((reading(), 0_i64..=25), 0..60),
        changes in prop::collection::vec((change(), 0_i64..=25), 0..40),
        restarts in prop::collection::vec(prop::bool::weighted(0.1), 100),
        (device, channel) in any::<(bool, bool)>(),
        size in 1_i64..20,
        batch_max in prop_oneof![Just(1_usize), 2_usize..9, Just(1000)],
    ) {
        let mut spec = window("w", tumbling(size, 0));
        spec.aggregates = vec![Aggregate::Count, Aggregate::Sum];
        spec.key = KeySpec { device, channel };
        spec.key_columns = vec![KeyColumn { table: 0, column: "to".to_owned() }];
        let config = EngineConfig {
            windows: vec![spec.clone()],
            ..joins(25, Vec::new())
        };
        let mut known = BTreeMap::new();
        for (change, delay) in changes {
            // Of the same time the later in the log holds.
            if change.time > i64::MIN && change.table == 0 {
                known.insert((change.key, change.time), (change, delay));
            }
        }
        let readings = readings.into_iter().map(|(of, d)| (of.time + d, Step::Reading(of)));
        let changes = known.into_values().map(|(of, d)| (of.time + d, Step::Change(of)));
        let mut all: Vec<_> = readings.chain(changes).collect();
        all.sort_by_key(|(arrival, _)| *arrival);
        let steps: Vec<Step> = all.into_iter().map(|(_, step)| step).collect();
        let mut run = Run::new(&config, batch_max);
        for (step, restarts) in steps.iter().zip(restarts) {
            run.step(step);
            if restarts {
                run.restart();
            }
        }
        let (mut out, engine) = run.end();
        let mut want = expected(&spec, size, &steps);
        want.sort();
        out.sort();
        prop_assert_eq!(out, want);
        prop_assert_eq!(engine.state_rows(), 0);
        prop_assert_eq!(engine.counters().late_all, 0);
    }
}
