//! Which offsets of a partition hold which event times, so that a query by time
//! reads only the blocks that can matter. In memory, built as blocks are written
//! or read back; bound: [`INDEX_ENTRIES_MAX`] entries, neighbours are merged above it.

use super::block::BlockHead;
use crate::limits::INDEX_ENTRIES_MAX;
use crate::units::{EventTime, Offset};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    base: Offset,
    end: Offset,
    time_min: EventTime,
    time_max: EventTime,
}

/// Index of one partition.
#[derive(Debug, Clone, Default)]
pub struct TimeIndex {
    entries: Vec<Entry>,
}

impl TimeIndex {
    /// Adds the next block.
    pub fn push(&mut self, head: &BlockHead) {
        if self.entries.len() == INDEX_ENTRIES_MAX {
            self.merge_neighbours();
        }
        self.entries.push(Entry {
            base: head.base,
            end: head.end(),
            time_min: head.time_min,
            time_max: head.time_max,
        });
    }

    /// First run of offsets at or after `from` that may hold times in
    /// `[start, end)`, as `[first, end)`.
    #[must_use]
    pub fn next_run(
        &self,
        from: Offset,
        (start, end): (EventTime, EventTime),
    ) -> Option<(Offset, Offset)> {
        let after = self.entries.partition_point(|entry| entry.end <= from);
        let hit = |entry: &&Entry| entry.time_max >= start && entry.time_min < end;
        let rest = &self.entries[after..];
        let first = rest.iter().position(|entry| hit(&entry))?;
        let run = rest[first..].iter().take_while(hit);
        let last = run.last()?;
        Some((rest[first].base.max(from), last.end))
    }

    /// Smallest event time of what is at or after `from`.
    #[must_use]
    pub fn earliest(&self, from: Offset) -> Option<EventTime> {
        let after = self.entries.partition_point(|entry| entry.end <= from);
        self.entries[after..]
            .iter()
            .map(|entry| entry.time_min)
            .min()
    }

    /// Largest event time so far.
    #[must_use]
    pub fn latest(&self) -> Option<EventTime> {
        self.entries.iter().map(|entry| entry.time_max).max()
    }

    fn merge_neighbours(&mut self) {
        let merged = self.entries.chunks(2).map(|pair| {
            pair.iter().copied().fold(pair[0], |a, b| Entry {
                base: a.base,
                end: b.end,
                time_min: a.time_min.min(b.time_min),
                time_max: a.time_max.max(b.time_max),
            })
        });
        self.entries = merged.collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Epoch;

    fn head(base: u64, count: u16, times: (i64, i64)) -> BlockHead {
        BlockHead {
            epoch: Epoch(1),
            base: Offset(base),
            count,
            time_min: EventTime(times.0),
            time_max: EventTime(times.1),
            unsynced: None,
        }
    }

    #[test]
    fn runs_are_found_by_time_and_offset() {
        let mut index = TimeIndex::default();
        for block in [
            head(0, 10, (0, 9)),
            head(10, 10, (10, 19)),
            head(20, 5, (3, 4)),
        ] {
            index.push(&block);
        }
        let run = |from, start, end| {
            let found = index.next_run(Offset(from), (EventTime(start), EventTime(end)));
            found.map(|(first, end)| (first.0, end.0))
        };
        assert_eq!(run(0, 0, 100), Some((0, 25)), "all");
        assert_eq!(run(0, 10, 11), Some((10, 20)), "one block");
        assert_eq!(run(0, 3, 5), Some((0, 10)), "the older block first");
        assert_eq!(run(10, 3, 5), Some((20, 25)), "then the late one");
        assert_eq!(run(12, 10, 20), Some((12, 20)), "from inside a block");
        assert_eq!(run(0, 20, 30), None, "after everything");
        assert_eq!(run(25, 0, 100), None, "at the end");
        assert_eq!(index.latest(), Some(EventTime(19)));
    }

    #[test]
    fn merging_keeps_every_block_findable() {
        let mut index = TimeIndex::default();
        for n in 0..=INDEX_ENTRIES_MAX as u64 {
            index.push(&head(n, 1, (n as i64, n as i64)));
        }
        assert!(index.entries.len() <= INDEX_ENTRIES_MAX / 2 + 1);
        for n in [
            0,
            1,
            777,
            INDEX_ENTRIES_MAX as u64 - 1,
            INDEX_ENTRIES_MAX as u64,
        ] {
            let time = EventTime(n as i64);
            let (first, end) = index
                .next_run(Offset(0), (time, EventTime(time.0 + 1)))
                .expect("found");
            assert!((first.0..end.0).contains(&n));
        }
    }

    #[test]
    fn the_earliest_time_is_of_what_is_left() {
        let mut index = TimeIndex::default();
        for (base, times) in [(0, (10, 19)), (10, (5, 25)), (20, (30, 39))] {
            index.push(&head(base, 10, times));
        }
        for (from, want) in [(0, Some(5)), (19, Some(5)), (20, Some(30)), (30, None)] {
            let want = want.map(EventTime);
            assert_eq!(index.earliest(Offset(from)), want, "{from}");
        }
    }
}
