//! Readings and changes that come in any order inside the bound leave the same lines,
//! and of table joins, which write in the order of the log, the same view.

use std::collections::BTreeMap;

use super::*;
use crate::engine::joined::{JoinKey, Mark, Side};

/// How often each line was written.
type Lines = BTreeMap<String, i64>;

/// Lines of joins that wait, and what the differences of the others add up to.
fn results(config: &EngineConfig, steps: &[Step]) -> (Lines, Lines) {
    let (mut engine, mut rows) = (Engine::new(config), Rows::new());
    for step in steps {
        match step {
            Step::Reading(of) => {
                let series = engine.series(of.device, of.channel);
                let (series, value) = (series.expect("a short name"), of.value.map(f64::from));
                let mut batch = Batch::new();
                batch.push(series, EventTime(of.time), value, None);
                engine.on_batch(&batch, &mut rows);
            }
            Step::Change(change) => {
                let name = &config.tables[change.table].name;
                engine.on_change(&change.as_written(name), &mut rows);
            }
            Step::Clock(_) | Step::Watermark(..) => panic!("they say what is known"),
        }
    }
    engine.finish(&mut rows);
    assert_eq!(engine.counters().late_all, 0);
    let (mut waited, mut view) = (Lines::new(), Lines::new());
    for row in engine.views(&rows) {
        let joined = row.joined.expect("a row of a join");
        let count = match joined.mark {
            Mark::Added => 1,
            Mark::Removed => -1,
            Mark::None | Mark::Stale | Mark::Idle => {
                let mut text = Vec::new();
                row.write_json(&mut text);
                let text = String::from_utf8(text).expect("JSON is UTF-8");
                *waited.entry(text).or_default() += 1;
                continue;
            }
        };
        let text = |side: &Side| match side {
            Side::Row(row) => row.to_string(),
            Side::Null | Side::Reading { .. } | Side::Window(_) => "null".to_owned(),
        };
        let JoinKey::Text(key) = &joined.key else {
            panic!("a key of a table");
        };
        let (left, right) = (text(&joined.left), text(&joined.right));
        let words = format!("{:?} {key} {left} {right}", row.stream());
        let sum = view.entry(words).or_default();
        *sum += count;
        assert!(*sum == 0 || *sum == 1, "{sum} of one row");
    }
    view.retain(|_, count| *count != 0);
    (waited, view)
}

proptest! {
    #[test]
    fn the_order_of_arrival_inside_the_bound_changes_no_result(
        readings in prop::collection::vec((reading(), 0_i64..=25), 0..50),
        changes in prop::collection::vec((change(), 0_i64..=25), 0..50),
        specs in any_joins(),
    ) {
        let mut config = joins(25, specs);
        // Nobody waits for a table of the config.
        config.tables.iter_mut().for_each(|table| table.is_static = false);
        // Of the same time and key the later in the log holds.
        let mut known = BTreeMap::new();
        for (change, delay) in changes {
            if change.time > i64::MIN {
                known.insert((change.table, change.key, change.time), (change, delay));
            }
        }
        let readings = readings.into_iter().map(|(of, delay)| (of.time, delay, Step::Reading(of)));
        let changes = known.into_values();
        let changes = changes.map(|(of, delay)| (of.time, delay, Step::Change(of)));
        let mut all: Vec<_> = readings.chain(changes).collect();
        let steps = |all: &[(i64, i64, Step)]| -> Vec<Step> {
            all.iter().map(|(_, _, step)| step.clone()).collect()
        };
        all.sort_by_key(|(time, _, _)| *time);
        let want = results(&config, &steps(&all));
        all.sort_by_key(|(time, delay, _)| time + delay);
        let got = results(&config, &steps(&all));
        prop_assert_eq!(got, want);
    }
}
