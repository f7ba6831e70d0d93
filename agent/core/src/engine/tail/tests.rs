//! The tail against a sorted list that is read from end to end.

use proptest::prelude::*;

use super::list::Held;
use super::*;
use crate::engine::config::AGGREGATE_NAMES;
use crate::engine::figures::Figures;
use crate::log::bytes::Reader;

fn all() -> Vec<Aggregate> {
    let named = AGGREGATE_NAMES.iter().map(|(_, a)| *a);
    named
        .chain([1, 50, 99].map(Aggregate::Percentile))
        .collect()
}

/// A sorted list; nothing of it is kept in any other form.
#[derive(Debug, Default)]
struct Model {
    held: Vec<Held>,
    watermark: Option<i64>,
    truncated: Option<i64>,
}

impl Model {
    fn insert(&mut self, time: i64, x: f64) {
        let at = self.held.partition_point(|(t, _)| *t <= time);
        self.held.insert(at, (time, x));
    }

    fn covered(&self, until: i64, reach: Reach) -> &[Held] {
        let end = self.held.partition_point(|(t, _)| *t <= until);
        let start = self.held.partition_point(|(t, _)| !reach.covers(*t, until));
        &self.held[start.min(end)..end]
    }

    fn figures(&self, until: i64, reach: Reach, aggregates: &[Aggregate]) -> Vec<u64> {
        let mut figures = Figures::new(Wants::of(aggregates));
        for (time, x) in self.covered(until, reach) {
            figures.add(*time, *x);
        }
        let mut cells = Vec::new();
        figures.write(aggregates, &mut cells);
        cells
    }

    fn prune(&mut self, watermark: i64, reach: Reach) {
        self.watermark = Some(watermark);
        self.held.retain(|(t, _)| reach.covers(*t, watermark));
    }
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Insert(i64, f64),
    Figures(i64),
    Prune(i64),
    DropOldest(usize),
    Restore,
}

fn value() -> impl Strategy<Value = f64> {
    prop_oneof![
        12 => (-300_i32..300).prop_map(|n| f64::from(n) / 10.0),
        1 => prop_oneof![Just(f64::NAN), Just(f64::INFINITY), Just(f64::NEG_INFINITY)],
        1 => prop_oneof![Just(-0.0), Just(0.0), Just(1e300), Just(5e-324)],
    ]
}

fn step(span: i64) -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => (0..span, value()).prop_map(|(t, x)| Step::Insert(t, x)),
        8 => (0..span).prop_map(Step::Figures),
        2 => (0..span).prop_map(Step::Prune),
        1 => (0_usize..4).prop_map(Step::DropOldest),
        1 => Just(Step::Restore),
    ]
}

fn reach() -> impl Strategy<Value = Reach> {
    let bounds = prop_oneof![Just(Bounds::HalfOpen), Just(Bounds::Closed)];
    (1_i64..30, bounds).prop_map(|(size, bounds)| Reach { size, bounds })
}

/// The state as a checkpoint holds it.
type Store = std::collections::BTreeMap<u64, Vec<u8>>;

fn restored(tail: &mut Tail, chunks: &mut Store, wants: Wants, reach: Reach) -> Tail {
    let mut head = Vec::new();
    tail.encode(&mut head);
    tail.encode_changes(|id, bytes| match bytes {
        Some(bytes) => drop(chunks.insert(id, bytes.to_vec())),
        None => drop(chunks.remove(&id)),
    });
    let mut tail = Tail::new(wants);
    let mut from = Reader::new(&head);
    tail.decode(&mut from).expect("its own bytes");
    assert!(from.is_at_end());
    for (id, bytes) in chunks {
        tail.decode_chunk(*id, bytes).expect("its own bytes");
    }
    tail.restored(reach).expect("its own bytes");
    tail
}

/// What is kept beside the readings is what they say.
fn holds_together(tail: &mut Tail, name: &str) {
    let (from, to) = (tail.list.normal(tail.from), tail.list.normal(tail.to));
    let (mut extent, mut covered) = (Extent::NONE, 0);
    tail.list.each(from, to, |(_, x)| {
        covered += 1;
        if !x.is_nan() {
            extent.add(x);
        }
    });
    assert_eq!(covered, tail.covered, "{name}");
    if let Some(peaks) = tail.peaks.as_mut().filter(|_| tail.covered > 0) {
        let before = format!("{peaks:?}");
        let got = peaks.extent(&mut tail.list, from, tail.to);
        assert_eq!(got, extent, "{name}: {before} {from:?} {to:?}");
    }
}

/// Runs the same steps over both; figures go through the cursor, where windows still
/// reach, and through a scan.
fn run(steps: impl IntoIterator<Item = Step>, reach: Reach, drift: i64) {
    let aggregates = all();
    let wants = Wants::of(&aggregates);
    let (mut tail, mut model) = (Tail::new(wants), Model::default());
    let mut store = Store::new();
    for (index, step) in steps.into_iter().enumerate() {
        // Time goes on, with steps back.
        let base = index as i64 * drift / 8;
        match step {
            Step::Insert(time, x) => {
                let time = base + time;
                let watermark = model.watermark.unwrap_or(i64::MIN);
                let is_reached = reach.covers(time, watermark);
                if is_reached && model.truncated.is_none_or(|t| t <= time) {
                    tail.insert(time, x, reach);
                    model.insert(time, x);
                }
            }
            Step::Figures(time) => {
                // Only windows that end at the watermark or later are asked for.
                let time = (base + time).max(model.watermark.unwrap_or(i64::MIN));
                let want = model.figures(time, reach, &aggregates);
                let mut cells = Vec::new();
                tail.figures_at(time, reach, &aggregates, &mut cells);
                assert_eq!(cells, want, "figures at {time}");
                let is_truncated = model.truncated.is_some_and(|t| reach.covers(t, time));
                assert_eq!(tail.is_truncated(reach), is_truncated);
            }
            Step::Prune(time) => {
                tail.prune(base + time - 20, reach);
                model.prune(base + time - 20, reach);
            }
            Step::DropOldest(count) => {
                let count = count.min(model.held.len());
                let gone = model.held.drain(..count).next_back();
                model.truncated = model.truncated.max(gone.map(|(t, _)| t));
                tail.drop_oldest(count);
            }
            Step::Restore => {
                tail = restored(&mut tail, &mut store, wants, reach);
            }
        }
        holds_together(&mut tail, &format!("after step {index}: {step:?}"));
        assert_eq!(tail.len(), model.held.len(), "after step {index}: {step:?}");
    }
}

proptest! {
    #[test]
    fn says_what_a_sorted_list_says(steps in prop::collection::vec(step(60), 1..120), reach in reach()) {
        run(steps, reach, 8);
    }

    #[test]
    fn also_over_many_chunks(steps in prop::collection::vec(step(40), 500..1500), reach in reach(), drift in 1_i64..40) {
        run(steps, reach, drift);
    }

    #[test]
    fn also_when_most_have_the_same_time(steps in prop::collection::vec(step(2), 300..900), reach in reach()) {
        run(steps, reach, 0);
    }
}
