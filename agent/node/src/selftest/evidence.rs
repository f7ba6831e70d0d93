//! What the log of a stopped agent holds of each boot of each device, by ordinal: which
//! stand there, which twice, which are missing. Pure but for [`Evidence::read`].
//!
//! Bound: one range per run of ordinals that follow each other.

use std::collections::BTreeMap;
use std::path::Path;

use forebay_core::limits::FETCH_BYTES_MAX;
use forebay_core::log::block::Body;
use forebay_core::log::key::TopicPartition;
use forebay_core::log::topic::{LATE, QUARANTINE, READINGS};
use forebay_core::log::walk::{Met, Walk};
use forebay_core::record::Record;
use forebay_core::units::Offset;
use forebay_wire::ids::{BootId, DeviceUid};

use super::witness::Witness;
use crate::store::LogReader;

/// Ordinals of one boot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Found {
    /// `[first, end)`, in the order of the log.
    runs: Vec<(u64, u64)>,
    readings: u64,
    gaps: u64,
}

impl Found {
    fn add(&mut self, first: u64, count: u64) {
        let end = first.saturating_add(count);
        match self.runs.last_mut() {
            Some(last) if last.1 == first => last.1 = end,
            Some(_) | None => self.runs.push((first, end)),
        }
    }

    /// Ordinals that stand more than once, and those below `mark` that do not stand.
    fn judge(&self, mark: u64) -> (u64, Vec<(u64, u64)>) {
        let mut runs = self.runs.clone();
        runs.sort_unstable();
        let (mut twice, mut missing, mut next) = (0, Vec::new(), 0);
        for (first, end) in runs {
            if first > next && next < mark {
                missing.push((next, first.min(mark)));
            }
            twice += end.min(next).saturating_sub(first);
            next = next.max(end);
        }
        if next < mark {
            missing.push((next, mark));
        }
        (twice, missing)
    }
}

/// See the module's text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Evidence {
    boots: BTreeMap<(DeviceUid, BootId), Found>,
    /// Records of the topics late and quarantine.
    pub(super) late: u64,
    pub(super) quarantined: u64,
    /// Offsets that the log says were durable and are not there.
    pub(super) damaged: u64,
}

/// The log held against what devices saw acked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Comparison {
    /// Acked, and not in the log.
    pub(super) missing: u64,
    /// Ordinals that stand in it more than once.
    pub(super) twice: u64,
    /// Some of those that are missing, as sentences.
    pub(super) named: Vec<String>,
}

impl Evidence {
    /// Reads all of a log that no agent holds.
    ///
    /// # Errors
    /// A sentence: it cannot be read.
    pub(super) fn read(data_dir: &Path) -> Result<Self, String> {
        let mut reader = LogReader::open(data_dir).map_err(|error| error.to_string())?;
        let mut evidence = Self::default();
        let places = reader.places();
        for (at, place) in &places {
            match at.topic {
                READINGS => evidence.walk(&mut reader, *at, place.first, place.head)?,
                LATE => evidence.late += place.records,
                QUARANTINE => evidence.quarantined += place.records,
                _ => {}
            }
        }
        let losses = reader.losses.iter();
        evidence.damaged += losses
            .map(|loss| loss.end.0.saturating_sub(loss.first.0))
            .sum::<u64>();
        Ok(evidence)
    }

    fn walk(
        &mut self,
        reader: &mut LogReader,
        at: TopicPartition,
        first: Offset,
        head: Offset,
    ) -> Result<(), String> {
        let mut walk = Walk::new(at, first);
        while let Some((at, from)) = walk.next_fetch(head) {
            let mut lost = 0;
            let blocks = reader.read(at, from, FETCH_BYTES_MAX, |loss| {
                lost += loss.end.0.saturating_sub(loss.first.0);
            });
            let blocks = blocks.map_err(|error| error.to_string())?;
            self.damaged += lost;
            walk.on_fetched(&blocks, head, |met| match met {
                Met::Block { block, records, .. } => self.take(&block.body, records),
                Met::Hole { .. } => {}
            });
        }
        Ok(())
    }

    fn take(&mut self, body: &Body, records: std::ops::Range<usize>) {
        let Body::Readings {
            series,
            records: all,
        } = body
        else {
            return;
        };
        for record in &all[records] {
            match record {
                Record::Reading(reading) => {
                    let of = &series[usize::from(reading.series)];
                    let found = self.boots.entry((of.uid, of.boot)).or_default();
                    found.readings += 1;
                    found.add(reading.ordinal.0, 1);
                }
                Record::Gap(gap) => {
                    let found = self.boots.entry((gap.uid, gap.boot)).or_default();
                    found.gaps += gap.count;
                    found.add(gap.first.0, gap.count);
                }
                Record::Clock(_) | Record::Tables(_) => {}
            }
        }
    }

    /// Readings in the log.
    pub(super) fn readings(&self) -> u64 {
        self.boots.values().map(|found| found.readings).sum()
    }

    /// Readings that gaps in the log say will never come.
    pub(super) fn gaps(&self) -> u64 {
        self.boots.values().map(|found| found.gaps).sum()
    }

    /// All that devices saw acked must stand here, once; what stands here beyond it was
    /// on its way.
    pub(super) fn compare(&self, witness: &Witness) -> Comparison {
        let nothing = Found::default();
        let mut comparison = Comparison::default();
        for found in self.boots.values() {
            comparison.twice += found.judge(0).0;
        }
        for (uid, boot, mark) in witness.marks() {
            let found = self.boots.get(&(uid, boot)).unwrap_or(&nothing);
            let (_, missing) = found.judge(mark);
            for (first, end) in missing {
                comparison.missing += end - first;
                comparison.named.push(format!(
                    "device {uid}, boot {:08x}: ordinals {first} to {} were acked and are not in the log",
                    boot.0,
                    end - 1
                ));
            }
        }
        comparison
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(runs: &[(u64, u64)]) -> Found {
        let mut found = Found::default();
        for (first, count) in runs {
            found.add(*first, *count);
        }
        found
    }

    #[test]
    fn holes_and_repeats_are_told_apart() {
        type Row<'a> = (&'a str, &'a [(u64, u64)], u64, u64, &'a [(u64, u64)]);
        let rows: [Row<'_>; 10] = [
            ("nothing asked", &[], 0, 0, &[]),
            ("nothing there", &[], 5, 0, &[(0, 5)]),
            ("all there", &[(0, 5)], 5, 0, &[]),
            ("more than asked", &[(0, 9)], 5, 0, &[]),
            ("the last is missing", &[(0, 4)], 5, 0, &[(4, 5)]),
            ("a hole", &[(0, 2), (4, 9)], 5, 0, &[(2, 4)]),
            ("a hole above what was acked", &[(0, 5), (7, 2)], 5, 0, &[]),
            ("a hole over the mark", &[(0, 3), (7, 2)], 5, 0, &[(3, 5)]),
            ("twice", &[(0, 5), (3, 4)], 7, 2, &[]),
            (
                "twice within a longer one",
                &[(0, 9), (3, 2), (4, 1)],
                9,
                3,
                &[],
            ),
        ];
        for (name, runs, mark, twice, missing) in rows {
            assert_eq!(found(runs).judge(mark), (twice, missing.to_vec()), "{name}");
        }
    }

    #[test]
    fn ordinals_that_follow_take_no_room() {
        let mut all = Found::default();
        for ordinal in 0..10_000 {
            all.add(ordinal, 1);
        }
        assert_eq!(all.runs, [(0, 10_000)]);
    }

    #[test]
    fn a_boot_that_the_log_does_not_know_is_missing_whole() {
        let uid = DeviceUid([1; 8]);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("w");
        let mut notes = super::super::witness::Notes::create(&path).unwrap();
        notes.add(&[(uid, BootId(1), 3)]).unwrap();
        let (witness, _) = Witness::read(&path).unwrap();
        let comparison = Evidence::default().compare(&witness);
        assert_eq!((comparison.missing, comparison.twice), (3, 0));
        assert!(
            comparison.named[0].contains("ordinals 0 to 2"),
            "{comparison:?}"
        );
    }
}
