//! Which offsets of a partition hold which event times, so that a query by time
//! reads only the blocks that can matter. In memory, built as blocks are written
//! or read back; bound: [`INDEX_ENTRIES_MAX`] entries, neighbours are merged above it.

use super::block::BlockHead;
use super::bytes::{Malformed, Reader, put_varint, put_zigzag};
use crate::limits::INDEX_ENTRIES_MAX;
use crate::units::{EventTime, Offset};

/// Entries that are kept as one value: at most 40 bytes each.
const PAGE_ENTRIES: usize = 128;
/// Most entries of one run of [`TimeIndex::runs`].
pub const RUN_ENTRIES_MAX: usize = 64;

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
    /// Entries before this one are as they were taken, on so many pages.
    taken: usize,
    pages: usize,
}

impl TimeIndex {
    /// Adds the next block.
    pub fn push(&mut self, head: &BlockHead) {
        // A block of which a reader had taken a part.
        if self
            .entries
            .last()
            .is_some_and(|last| last.end >= head.end())
        {
            return;
        }
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

    /// Pages that changed since the last call, by number; `None` for those that are
    /// gone.
    pub fn take_changes(&mut self) -> Vec<(u32, Option<Vec<u8>>)> {
        let all = self.entries.len().div_ceil(PAGE_ENTRIES);
        let first = if self.taken < self.entries.len() {
            self.taken / PAGE_ENTRIES
        } else {
            all
        };
        let pages = self.entries.chunks(PAGE_ENTRIES).zip(0_u32..);
        let changed = pages.skip(first);
        let gone = (all..self.pages).map(|page| (page as u32, None));
        let out = changed.map(|(entries, page)| (page, Some(page_bytes(entries))));
        let out = out.chain(gone).collect();
        self.taken = self.entries.len();
        self.pages = all;
        out
    }

    /// The index of which these are all pages, in order; `None` when they do not read.
    #[must_use]
    pub fn restore<'a>(pages: impl Iterator<Item = &'a [u8]>) -> Option<Self> {
        let mut out = Self::default();
        for page in pages {
            // None but the last is less than full.
            if !out.entries.len().is_multiple_of(PAGE_ENTRIES) {
                return None;
            }
            read_page(page, &mut out.entries).ok()?;
            out.pages += 1;
        }
        out.taken = out.entries.len();
        (out.entries.len() <= INDEX_ENTRIES_MAX).then_some(out)
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

    /// All runs of offsets in `[from, until)` that may hold times in `[start, end)`, in
    /// order, each with the smallest and largest time in it; one of at most
    /// [`RUN_ENTRIES_MAX`] blocks, so that a reader who has enough can pass over the rest.
    pub fn runs(
        &self,
        (from, until): (Offset, Offset),
        (start, end): (EventTime, EventTime),
        mut run: impl FnMut((Offset, Offset), (EventTime, EventTime)),
    ) {
        let after = self.entries.partition_point(|entry| entry.end <= from);
        let inside = |entry: &&Entry| entry.base < until;
        let mut open: Option<(Entry, usize)> = None;
        let mut give = |entry: Entry| {
            let offsets = (entry.base.max(from), entry.end.min(until));
            run(offsets, (entry.time_min, entry.time_max));
        };
        for entry in self.entries[after..].iter().take_while(inside) {
            if entry.time_max < start || entry.time_min >= end {
                open.take().into_iter().for_each(|(entry, _)| give(entry));
                continue;
            }
            open = match open {
                Some((mut before, count)) if count < RUN_ENTRIES_MAX => {
                    before.end = entry.end;
                    before.time_min = before.time_min.min(entry.time_min);
                    before.time_max = before.time_max.max(entry.time_max);
                    Some((before, count + 1))
                }
                Some((before, _)) => {
                    give(before);
                    Some((*entry, 1))
                }
                None => Some((*entry, 1)),
            };
        }
        open.into_iter().for_each(|(entry, _)| give(entry));
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
        self.taken = 0;
    }
}

/// Each entry but the first after the one before; byte table in `checkpoint.md`.
fn page_bytes(entries: &[Entry]) -> Vec<u8> {
    let mut out = Vec::new();
    let (mut end, mut time) = (0, 0);
    for entry in entries {
        put_zigzag(&mut out, entry.base.0.wrapping_sub(end).cast_signed());
        put_varint(&mut out, entry.end.0.wrapping_sub(entry.base.0));
        put_zigzag(&mut out, entry.time_min.0.wrapping_sub(time));
        let wide = entry.time_max.0.wrapping_sub(entry.time_min.0);
        put_varint(&mut out, wide.cast_unsigned());
        (end, time) = (entry.end.0, entry.time_max.0);
    }
    out
}

fn read_page(page: &[u8], entries: &mut Vec<Entry>) -> Result<(), Malformed> {
    let mut reader = Reader::new(page);
    let (mut end, mut time) = (0_u64, 0_i64);
    for _ in 0..PAGE_ENTRIES {
        if reader.is_at_end() {
            break;
        }
        let base = end.wrapping_add(reader.zigzag()?.cast_unsigned());
        end = base.wrapping_add(reader.varint()?);
        let time_min = time.wrapping_add(reader.zigzag()?);
        time = time_min.wrapping_add(reader.varint()?.cast_signed());
        entries.push(Entry {
            base: Offset(base),
            end: Offset(end),
            time_min: EventTime(time_min),
            time_max: EventTime(time),
        });
    }
    if reader.is_at_end() {
        Ok(())
    } else {
        Err(reader.malformed())
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
    fn all_runs_are_found_by_time_and_offset() {
        let mut index = TimeIndex::default();
        for block in [
            head(0, 10, (0, 9)),
            head(10, 10, (10, 19)),
            head(20, 5, (3, 4)),
            head(25, 5, (20, 29)),
        ] {
            index.push(&block);
        }
        let runs = |from, until, start, end| {
            let mut runs = Vec::new();
            let times = (EventTime(start), EventTime(end));
            index.runs((Offset(from), Offset(until)), times, |offsets, times| {
                runs.push((offsets.0.0, offsets.1.0, times.0.0, times.1.0));
            });
            runs
        };
        assert_eq!(runs(0, 99, 0, 99), [(0, 30, 0, 29)], "all");
        let apart = [(0, 10, 0, 9), (20, 25, 3, 4)];
        assert_eq!(runs(0, 99, 3, 5), apart, "two that are apart");
        assert_eq!(
            runs(12, 22, 0, 99),
            [(12, 22, 3, 19)],
            "a part of the offsets"
        );
        assert_eq!(runs(0, 99, 30, 99), [], "after everything");
        assert_eq!(runs(30, 99, 0, 99), [], "at the end");
    }

    #[test]
    fn runs_have_so_many_blocks_at_the_most() {
        for (blocks, want) in [
            (RUN_ENTRIES_MAX - 1, 1),
            (RUN_ENTRIES_MAX, 1),
            (RUN_ENTRIES_MAX + 1, 2),
        ] {
            let mut index = TimeIndex::default();
            for n in 0..blocks as u64 {
                index.push(&head(n, 1, (n as i64, n as i64)));
            }
            let (mut runs, mut end) = (0, 0);
            let all = (Offset(0), Offset(u64::MAX));
            index.runs(all, (EventTime(0), EventTime(i64::MAX)), |offsets, _| {
                assert_eq!(offsets.0.0, end);
                (runs, end) = (runs + 1, offsets.1.0);
            });
            assert_eq!((runs, end), (want, blocks as u64), "{blocks}");
        }
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
    fn what_was_kept_comes_back_and_only_changes_are_kept() {
        let mut index = TimeIndex::default();
        let mut kept = std::collections::BTreeMap::new();
        let mut keep = |index: &mut TimeIndex| {
            let changes = index.take_changes();
            let count = changes.len();
            for (page, bytes) in changes {
                match bytes {
                    Some(bytes) => kept.insert(page, bytes),
                    None => kept.remove(&page),
                };
            }
            let again = TimeIndex::restore(kept.values().map(Vec::as_slice));
            assert_eq!(again.expect("it reads").entries, index.entries);
            count
        };
        assert_eq!(keep(&mut index), 0, "nothing");
        let times = |n: u64| match n % 3 {
            0 => (i64::MIN, i64::MAX),
            1 => (-5, 7 + n as i64),
            _ => (1_772_323_200_000_000, 1_772_323_200_000_001),
        };
        let last = INDEX_ENTRIES_MAX as u64 + 1;
        for n in 0..=last {
            index.push(&head(3 * n, 2, times(n)));
            let page = PAGE_ENTRIES as u64;
            if [1, page - 1, page, page + 1, last - 1, last].contains(&(n + 1)) || n == last {
                let all = (n + 1).div_ceil(page) as usize;
                let count = keep(&mut index);
                assert!((1..=all).contains(&count), "{n}: {count}");
                assert_eq!(keep(&mut index), 0, "nothing new");
            }
        }
        let mut small = TimeIndex::default();
        (0..130).for_each(|n| small.push(&head(n, 1, (0, 0))));
        assert_eq!(small.take_changes().len(), 2);
        small.push(&head(130, 1, (0, 0)));
        assert_eq!(small.take_changes().len(), 1, "the last page alone");
    }

    #[test]
    fn pages_that_do_not_read_are_no_index() {
        let mut index = TimeIndex::default();
        (0..3).for_each(|n| index.push(&head(n, 1, (5, 9))));
        let pages = index.take_changes();
        let (_, bytes) = &pages[0];
        let bytes = bytes.as_deref().expect("a page");
        for cut in [1, bytes.len() - 1] {
            assert!(TimeIndex::restore([&bytes[..cut]].into_iter()).is_none());
        }
        let two = [bytes, bytes];
        assert!(TimeIndex::restore(two.into_iter()).is_none(), "not full");
        let long = page_bytes(&[index.entries[0]; PAGE_ENTRIES + 1]);
        assert!(TimeIndex::restore([&long[..]].into_iter()).is_none());
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
