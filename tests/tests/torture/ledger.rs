//! What the parent knows must be in the log: acked ranges with their epochs, what
//! retention was asked to remove, and the highest meta entry that was acked.
//!
//! Kept as text in a file beside the disk, so that the child checks the log against
//! it before it goes on.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use forebay_core::log::key::TopicPartition;
use forebay_core::units::{Epoch, Offset, PartitionId, TopicId};

/// Offsets of one partition under one epoch: `[first, end)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Run {
    pub(crate) at: TopicPartition,
    pub(crate) first: Offset,
    pub(crate) end: Offset,
    pub(crate) epoch: Epoch,
}

impl Run {
    pub(crate) fn text(&self) -> String {
        let TopicPartition { topic, partition } = self.at;
        let (first, end, epoch) = (self.first.0, self.end.0, self.epoch.0);
        format!("{} {} {first} {end} {epoch}", topic.0, partition.0)
    }

    pub(crate) fn parse(text: &str) -> Self {
        let numbers: Vec<u64> = text.split(' ').map(|n| n.parse().unwrap()).collect();
        let [topic, partition, first, end, epoch] = numbers[..] else {
            panic!("a run has five numbers: {text}");
        };
        Self {
            at: TopicPartition {
                topic: TopicId(topic as u16),
                partition: PartitionId(partition as u16),
            },
            first: Offset(first),
            end: Offset(end),
            epoch: Epoch(epoch as u32),
        }
    }
}

/// See the module's text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Ledger {
    /// In order of partition and offset; consecutive ones of one epoch are joined.
    runs: BTreeMap<TopicPartition, Vec<Run>>,
    /// Ranges that may be gone: their removal was begun.
    pub(crate) removed: Vec<Run>,
    /// Ranges that were reported lost.
    pub(crate) lost: Vec<Run>,
    /// Highest epoch that any opening named.
    pub(crate) epoch: u32,
    /// Number of the last batch that was acked.
    pub(crate) tick: u64,
}

impl Ledger {
    pub(crate) fn runs(&self) -> impl Iterator<Item = &Run> {
        self.runs.values().flatten()
    }

    /// A range is durable from now on.
    pub(crate) fn add(&mut self, run: Run) {
        let runs = self.runs.entry(run.at).or_default();
        match runs.last_mut() {
            Some(last) if last.epoch == run.epoch && last.end == run.first => last.end = run.end,
            Some(_) | None => runs.push(run),
        }
    }

    /// What an opening showed is durable too, and all there is.
    pub(crate) fn replace(&mut self, runs: &[Run]) {
        self.runs.clear();
        for run in runs {
            self.add(*run);
        }
    }

    /// Records that must be there.
    pub(crate) fn records(&self) -> u64 {
        self.runs().map(|run| run.end.0 - run.first.0).sum()
    }

    pub(crate) fn may_be_gone(&self, at: TopicPartition, offset: Offset) -> bool {
        let covers = |run: &Run| run.at == at && (run.first..run.end).contains(&offset);
        self.removed.iter().chain(&self.lost).any(covers)
    }

    pub(crate) fn text(&self) -> String {
        let mut out = format!("epoch {}\ntick {}\n", self.epoch, self.tick);
        let mut put = |what: &str, run: &Run| {
            writeln!(out, "{what} {}", run.text()).expect("writing to a String cannot fail");
        };
        self.runs().for_each(|run| put("run", run));
        self.removed.iter().for_each(|run| put("removed", run));
        self.lost.iter().for_each(|run| put("lost", run));
        out
    }

    pub(crate) fn parse(text: &str) -> Self {
        let mut ledger = Self::default();
        for line in text.lines() {
            let (what, rest) = line.split_once(' ').unwrap();
            match what {
                "epoch" => ledger.epoch = rest.parse().unwrap(),
                "tick" => ledger.tick = rest.parse().unwrap(),
                "run" => ledger.add(Run::parse(rest)),
                "removed" => ledger.removed.push(Run::parse(rest)),
                "lost" => ledger.lost.push(Run::parse(rest)),
                other => panic!("no such line: {other}"),
            }
        }
        ledger
    }
}

#[test]
fn a_ledger_reads_back_and_joins_runs() {
    let run = |first, end, epoch| Run {
        at: TopicPartition {
            topic: TopicId(16),
            partition: PartitionId(1),
        },
        first: Offset(first),
        end: Offset(end),
        epoch: Epoch(epoch),
    };
    let mut ledger = Ledger {
        epoch: 3,
        tick: 9,
        removed: vec![run(0, 5, 1)],
        ..Ledger::default()
    };
    ledger.add(run(5, 7, 2));
    ledger.add(run(7, 9, 2));
    ledger.add(run(9, 12, 3));
    assert_eq!(
        ledger.runs().copied().collect::<Vec<_>>(),
        [run(5, 9, 2), run(9, 12, 3)]
    );
    assert_eq!(ledger.records(), 7);
    assert_eq!(Ledger::parse(&ledger.text()), ledger);
    assert!(ledger.may_be_gone(run(0, 1, 1).at, Offset(4)));
    assert!(!ledger.may_be_gone(run(0, 1, 1).at, Offset(5)));
}
