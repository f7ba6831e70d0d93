//! Rows of few keys, from what stands by key behind the blocks of sealed segments.
//!
//! Holds always: a row is shown from there only if all rows of its offsets stand there;
//! all other offsets are told, for their blocks to be read. Bound: the files and tables of
//! [`SEGMENTS_AT_ONCE`] segments, and one bucket.

use std::fs::File;
use std::num::NonZeroU64;
use std::ops::Range;

use forebay_core::log::key::TopicPartition;
use forebay_core::log::keyed::each_of_key;
use forebay_core::store::{SegmentId, StoreError};
use forebay_core::units::{EventTime, Offset};
use rustix::fs::{Advice, fadvise};

use super::super::keyed::{KeyedFile, TAIL_BYTES, index_at, read_bucket};
use super::super::names::segment_name;
use super::super::sled_db::io_error;
use super::{LogReads, View, segment_from};

/// Segments that are read side by side: what one waits for from the disk, all do.
pub(super) const SEGMENTS_AT_ONCE: usize = 16;

/// What is read of the rows of some keys.
#[derive(Debug, Clone)]
pub struct RowsOf<'a> {
    pub at: TopicPartition,
    pub range: Range<Offset>,
    /// Segments without a time in it are left out.
    pub times: Range<EventTime>,
    /// As `forebay_core::query::row_key` gives them.
    pub keys: &'a [&'a [u8]],
    /// What must be said of the packed rows: those of other figures are not read.
    pub note: &'a [u8],
}

/// How far a read by keys came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyedPart {
    /// Offsets of which nothing was shown, in order: their blocks are to be read.
    pub rest: Vec<Range<Offset>>,
    /// Where to go on; the end of what was asked for when there is no more.
    pub next: Offset,
}

impl LogReads {
    /// Shows the packed rows of the keys, with the place of their key, where they stand by
    /// key, of up to [`SEGMENTS_AT_ONCE`] segments. A row may be shown twice.
    ///
    /// # Errors
    /// When the system cannot read.
    pub fn read_keyed(
        &self,
        what: &RowsOf<'_>,
        visit: &mut dyn FnMut(usize, EventTime, &[u8]),
    ) -> Result<KeyedPart, StoreError> {
        let mut rest = Rest::default();
        let (mut segments, next) = self.segments_of(&self.view(), what, &mut rest);
        self.read_tables(&mut segments, what)
            .and_then(|()| read_rows(&segments, what, &mut rest, visit))
            .map_err(|error| io_error("read", &error))?;
        Ok(KeyedPart {
            rest: rest.in_order(),
            next,
        })
    }

    /// The next segments, and where to go on behind them; what no segment holds is rest.
    fn segments_of(
        &self,
        view: &View,
        what: &RowsOf<'_>,
        rest: &mut Rest,
    ) -> (Vec<Segment>, Offset) {
        let Range { start, end } = what.range;
        let mut found = Vec::new();
        let mut from = start;
        let ranges = view.places.get(&what.at);
        while let Some((first, stretch)) = ranges
            .and_then(|ranges| segment_from(ranges, from))
            .filter(|(first, _)| from < end && *first < end)
        {
            if found.len() == SEGMENTS_AT_ONCE {
                return (found, from);
            }
            rest.push(from..first);
            let (min, max) = stretch.times;
            if max >= what.times.start && min < what.times.end {
                found.push(Segment {
                    id: stretch.id,
                    range: from.max(first)..stretch.end.min(end),
                    open: None,
                });
            }
            from = stretch.end;
        }
        rest.push(from..end);
        (found, end.max(from))
    }

    /// Opens the files and reads where their rows stand, one step of all after the other.
    fn read_tables(&self, segments: &mut [Segment], what: &RowsOf<'_>) -> std::io::Result<()> {
        let mut files = Vec::with_capacity(segments.len());
        for segment in &*segments {
            let path = self.shared.log_dir.join(segment_name(segment.id));
            match File::open(&path) {
                Ok(file) => {
                    let bytes = file.metadata()?.len();
                    soon(&file, bytes.saturating_sub(1)..bytes);
                    files.push(Some(file));
                }
                // Removed since: to be told as missing.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => files.push(None),
                Err(error) => return Err(error),
            }
        }
        let mut indexes = Vec::with_capacity(files.len());
        for file in &files {
            let at = file.as_ref().map(index_at).transpose()?;
            let at = at.and_then(Result::ok);
            if let Some((file, at)) = file.as_ref().zip(at) {
                soon(file, at.saturating_sub(TAIL_BYTES)..at);
            }
            indexes.push(at);
        }
        for ((segment, file), index_at) in segments.iter_mut().zip(files).zip(indexes) {
            let Some((file, index_at)) = file.zip(index_at) else {
                continue;
            };
            let keyed = KeyedFile::of(&file, index_at)?;
            let Some(keyed) = keyed.ok().filter(|keyed| keyed.table.note == what.note) else {
                continue;
            };
            for key in what.keys {
                soon(&file, keyed.bucket(key));
            }
            segment.open = Some((file, keyed));
        }
        Ok(())
    }
}

/// One of which rows are wanted.
#[derive(Debug)]
struct Segment {
    id: SegmentId,
    range: Range<Offset>,
    /// Where its rows stand by key.
    open: Option<(File, KeyedFile)>,
}

/// Says that these bytes are read soon. Only an advice: whether it helps or not, they are
/// read.
fn soon(file: &File, bytes: Range<u64>) {
    if let Some(length) = NonZeroU64::new(bytes.end - bytes.start) {
        let _ = fadvise(file, bytes.start, Some(length), Advice::WillNeed);
    }
}

fn read_rows(
    segments: &[Segment],
    what: &RowsOf<'_>,
    rest: &mut Rest,
    visit: &mut dyn FnMut(usize, EventTime, &[u8]),
) -> std::io::Result<()> {
    let partition = what.at.partition;
    let mut bucket = Vec::new();
    for Segment { range, open, .. } in segments {
        let Some((file, keyed)) = open else {
            rest.push(range.clone());
            continue;
        };
        let mut is_whole = true;
        for (place, key) in what.keys.iter().enumerate() {
            read_bucket(file, keyed.bucket(key), &mut bucket)?;
            let shown = each_of_key(&bucket, (partition, key), |offset, time, row| {
                if range.contains(&offset) {
                    visit(place, time, row);
                }
            });
            is_whole = is_whole && shown.is_ok();
        }
        if !is_whole {
            rest.push(range.clone());
            continue;
        }
        let mut from = range.start;
        let spans = keyed.table.spans.iter();
        for span in spans.filter(|span| span.partition == partition) {
            rest.push(from..span.first.min(range.end));
            from = from.max(span.end);
        }
        rest.push(from..range.end);
    }
    Ok(())
}

/// Offsets that are left.
#[derive(Debug, Default)]
struct Rest(Vec<Range<Offset>>);

impl Rest {
    fn push(&mut self, range: Range<Offset>) {
        if range.start < range.end {
            self.0.push(range);
        }
    }

    fn in_order(mut self) -> Vec<Range<Offset>> {
        self.0.sort_unstable_by_key(|range| range.start);
        let mut out: Vec<Range<Offset>> = Vec::with_capacity(self.0.len());
        for range in self.0 {
            match out.last_mut() {
                Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
                Some(_) | None => out.push(range),
            }
        }
        out
    }
}

#[cfg(test)]
mod tests;
