//! Histories against tables of cases and a model that knows every offset.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

fn range(start: u64, end: u64) -> OffsetRange {
    OffsetRange::new(Offset(start), Offset(end)).unwrap()
}

/// Opening of a log that was never forked.
fn of(epoch: u32) -> Opening {
    opening(epoch, 1000 + u64::from(epoch))
}

fn opening(epoch: u32, nonce: u64) -> Opening {
    Opening {
        epoch: Epoch(epoch),
        nonce: EpochNonce(nonce),
    }
}

fn fresh(verdict: &Verdict) -> Vec<(u64, u64)> {
    match verdict {
        Verdict::Apply { fresh, .. } => fresh.iter().map(|r| (r.start().0, r.end().0)).collect(),
        Verdict::Beyond | Verdict::Full => panic!("{verdict:?}"),
    }
}

fn admit(history: &mut History, opening: Opening, start: u64, end: u64) -> Vec<(u64, u64)> {
    fresh(&history.admit(opening, range(start, end)).0)
}

#[test]
fn what_is_missing_is_fresh_only_where_nothing_was_applied() {
    let mut history = History::default();
    history.admit(of(1), range(10, 20));
    history.admit(of(3), range(20, 25));
    history.admit(of(3), range(40, 50));
    for (name, epoch, (start, end), want, next) in [
        ("a hole at the start", 3, (0, 10), vec![(0, 10)], 25),
        (
            "over what older epochs applied",
            3,
            (5, 30),
            vec![(25, 30)],
            30,
        ),
        ("again", 3, (5, 30), vec![], 30),
        ("again, by a later opening", 4, (0, 45), vec![(30, 40)], 50),
        ("past the end", 4, (50, 60), vec![(50, 60)], 60),
    ] {
        let (verdict, _) = history.admit_missing(of(epoch), range(start, end), false);
        assert_eq!(fresh(&verdict), want, "{name}");
        assert_eq!(history.next(), Offset(next), "{name}");
    }
    // A first delivery of an older epoch still counts.
    assert_eq!(admit(&mut history, of(1), 5, 8), [(5, 8)]);
}

#[test]
fn what_is_fresh_and_how_far_it_is_whole() {
    let mut history = History::default();
    for (name, epoch, (start, end), want, next) in [
        ("first", 1, (0, 10), vec![(0, 10)], 10),
        ("again", 1, (0, 10), vec![], 10),
        ("overlap", 1, (5, 15), vec![(10, 15)], 15),
        ("behind a hole", 1, (20, 30), vec![(20, 30)], 15),
        ("late first delivery", 1, (15, 20), vec![(15, 20)], 30),
        ("new epoch goes on", 2, (30, 40), vec![(30, 40)], 40),
        (
            "new epoch, a hole before it",
            3,
            (50, 60),
            vec![(50, 60)],
            40,
        ),
        (
            "the hole was the old epoch's",
            2,
            (40, 50),
            vec![(40, 50)],
            60,
        ),
        (
            "below the first seen of its epoch",
            3,
            (45, 50),
            vec![(45, 50)],
            60,
        ),
        (
            "an offset written again after a lost tail",
            4,
            (55, 70),
            vec![(55, 70)],
            70,
        ),
        ("old epoch again", 1, (20, 30), vec![], 70),
        ("an epoch between", 0, (0, 5), vec![(0, 5)], 70),
    ] {
        let (verdict, change) = history.admit(of(epoch), range(start, end));
        assert_eq!(fresh(&verdict), want, "{name}");
        assert_eq!(history.next(), Offset(next), "{name}");
        assert_eq!(change.stored.is_empty(), want.is_empty(), "{name}");
    }
    assert_eq!(history.opening(), Some(of(4)));
}

#[test]
fn another_opening_of_the_same_number_is_another_history() {
    let mut history = History::default();
    for (name, epoch, nonce, (start, end), want) in [
        ("first", 5, 1, (0, 10), vec![(0, 10)]),
        ("its fork", 5, 2, (0, 10), vec![(0, 10)]),
        ("its fork again", 5, 2, (5, 12), vec![(10, 12)]),
        ("the first again", 5, 1, (0, 10), vec![]),
        ("of neither, as far as it says", 5, 0, (0, 3), vec![(0, 3)]),
        ("that one again", 5, 0, (0, 3), vec![]),
        ("a third, not the unknown one", 5, 3, (0, 3), vec![(0, 3)]),
        ("no nonce", 6, 0, (20, 30), vec![(20, 30)]),
        ("its nonce is learned", 6, 7, (20, 31), vec![(30, 31)]),
        ("without a nonce again", 6, 0, (20, 31), vec![]),
        ("and another", 6, 8, (20, 31), vec![(20, 31)]),
    ] {
        let got = admit(&mut history, opening(epoch, nonce), start, end);
        assert_eq!(got, want, "{name}");
    }
    assert_eq!(history.runs().len(), 6);
    let newest = history.newest(2).into_iter().map(|run| run.opening);
    let newest: Vec<_> = newest.collect();
    assert_eq!(newest, [opening(6, 8), opening(6, 7)]);
}

#[test]
fn holes_of_a_forked_log_are_those_of_each_opening() {
    let mut history = History::default();
    admit(&mut history, opening(1, 1), 0, 100);
    admit(&mut history, opening(2, 1), 100, 200);
    admit(&mut history, opening(2, 2), 100, 120);
    assert_eq!(history.hole(true), (Offset(200), Offset(200)));
    admit(&mut history, opening(2, 2), 150, 200);
    assert_eq!(history.hole(false), (Offset(200), Offset(200)));
    assert_eq!(history.hole(true), (Offset(120), Offset(150)));
    // Declared by a later opening, or by nobody in particular.
    for by in [opening(3, 9), opening(0, 0)] {
        let mut history = history.clone();
        let (verdict, _) = history.admit_missing(by, range(115, 150), true);
        let want = if by.epoch == NO_EPOCH {
            (115, 150)
        } else {
            (120, 150)
        };
        assert!(fresh(&verdict).len() <= 1, "{want:?}");
        assert_eq!(history.hole(true).0, Offset(200), "{by:?}");
    }
}

#[test]
fn holes_at_the_limit() {
    let mut history = History::default();
    for n in 0..OFFSET_RANGES_MAX as u64 {
        let got = admit(&mut history, of(1), 2 * n + 1, 2 * n + 2);
        assert_eq!(got.len(), 1, "range {n}");
    }
    let before = history.clone();
    let far = 2 * OFFSET_RANGES_MAX as u64 + 1;
    let (verdict, change) = history.admit(of(1), range(far, far + 1));
    assert_eq!(verdict, Verdict::Beyond);
    assert_eq!((&history, change), (&before, Change::default()));
    // What is known stays a duplicate, what fills a hole is taken, and then
    // there is room.
    assert_eq!(admit(&mut history, of(1), 1, 2), []);
    assert_eq!(admit(&mut history, of(1), 0, 1), [(0, 1)]);
    assert_eq!(admit(&mut history, of(1), 2, 3), [(2, 3)]);
    assert_eq!(admit(&mut history, of(1), far, far + 1), [(far, far + 1)]);
}

#[test]
fn openings_at_the_limit_merge_those_unused_for_longest() {
    let mut history = History::default();
    let part = |n: u32| range(u64::from(n) * 10, u64::from(n) * 10 + 10);
    let max = EPOCH_RUNS_MAX as u32;
    for n in 1..=max {
        let (_, change) = history.admit(of(n), part(n));
        assert_eq!((change.stored, change.removed), (vec![of(n)], vec![]));
    }
    assert_eq!(history.runs().len(), EPOCH_RUNS_MAX);
    // The lowest is used again: the second and third are merged.
    admit(&mut history, of(1), 5, 11);
    let (_, change) = history.admit(of(max + 1), part(max + 1));
    assert_eq!(change.removed, [of(3)]);
    assert_eq!(change.stored, [of(max + 1), of(2)]);
    assert_eq!(history.runs().len(), EPOCH_RUNS_MAX);
    for n in 1..=max + 1 {
        let (verdict, _) = history.admit(of(n), part(n));
        assert_eq!(fresh(&verdict), [], "epoch {n} again");
    }
    let again = History::from_runs(history.runs().to_vec());
    assert_eq!(again, Some(history));
}

#[test]
fn a_backup_older_than_all_that_is_told_apart_writes_on() {
    let mut history = History::default();
    let max = 3 * EPOCH_RUNS_MAX as u32;
    for n in 1..=max {
        let start = u64::from(n) * 10;
        assert_eq!(admit(&mut history, of(n), start, start + 10).len(), 1);
    }
    // The backup had openings 1 to 4; it opens 5 once more, and writes other data
    // under numbers that are long merged.
    for part in 5..40 {
        let (start, end) = (part * 10, part * 10 + 10);
        let got = admit(&mut history, opening(5, 77), start, end);
        assert_eq!(got, [(start, end)], "{part}");
        assert_eq!(admit(&mut history, opening(5, 77), start, end), []);
    }
    assert_eq!(
        admit(&mut history, of(4), 40, 50),
        [],
        "what it had is known"
    );
}

/// Which offsets of which opening were applied, one by one.
type Model = BTreeMap<Opening, BTreeSet<u64>>;

proptest! {
    /// As long as no more openings are used than are told apart, each offset of each
    /// is applied once, also over a store that is read again.
    #[test]
    fn agrees_with_a_model_that_knows_every_offset(
        steps in prop::collection::vec((1..9u32, 1..4u64, 0..60u64, 1..9u64), 0..120),
    ) {
        let mut history = History::default();
        let mut model = Model::new();
        for (epoch, nonce, start, count) in steps {
            let opening = opening(epoch, nonce);
            let known = model.entry(opening).or_default();
            let want: Vec<u64> = (start..start + count).filter(|o| !known.contains(o)).collect();
            known.extend(start..start + count);
            let got = admit(&mut history, opening, start, start + count);
            let got: Vec<u64> = got.into_iter().flat_map(|(a, b)| a..b).collect();
            prop_assert_eq!(got, want);
            history = History::from_runs(history.runs().to_vec()).expect("as it was");
            let all: BTreeSet<u64> = model.values().flatten().copied().collect();
            let next = (0..).find(|o| !all.contains(o)).expect("it ends");
            prop_assert_eq!(history.next().0, next);
            prop_assert_eq!(history.end().0, all.last().map_or(0, |last| last + 1));
        }
    }

    /// Merging never takes new data of a log that writes on for old.
    #[test]
    fn a_writer_is_never_mixed_with_others(
        steps in prop::collection::vec((1..200u32, 0..40u64, 1..9u64), 0..300),
    ) {
        let mut history = History::default();
        let own = opening(100, 7);
        let mut known = BTreeSet::new();
        let mut stored: BTreeSet<Opening> = BTreeSet::new();
        for (epoch, start, count) in steps {
            let mine = epoch % 3 == 0;
            let opening = if mine { own } else { of(epoch) };
            let (verdict, change) = history.admit(opening, range(start, start + count));
            for gone in change.removed {
                prop_assert!(stored.remove(&gone));
            }
            stored.extend(change.stored);
            let runs: BTreeSet<_> = history.runs().iter().map(|run| run.opening).collect();
            prop_assert_eq!(&runs, &stored);
            prop_assert!(runs.len() <= EPOCH_RUNS_MAX);
            if mine {
                let want: Vec<u64> = (start..start + count).filter(|o| !known.contains(o)).collect();
                let got: Vec<u64> = fresh(&verdict).into_iter().flat_map(|(a, b)| a..b).collect();
                prop_assert_eq!(got, want);
                known.extend(start..start + count);
            }
        }
    }
}
