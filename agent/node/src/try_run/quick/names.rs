//! Device and channel as they stand in a line to the engine's number. The series
//! that followed the last one before is tried first: in most recordings it does so
//! again, and one comparison of bytes is all that the two names cost.
//!
//! Bound: one entry per series of the engine, each with at most [`HEAD_BYTES_MAX`]
//! bytes of a line.

use std::collections::HashMap;

use forebay_core::engine::SeriesId;

/// Most bytes of a line's head that are remembered of one series.
const HEAD_BYTES_MAX: usize = 256;
/// Stands between device and channel in a key: no byte of UTF-8.
const BETWEEN: u8 = 0xff;

/// Place of a series in [`Names`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Known(u32);

#[derive(Debug)]
struct Entry {
    series: SeriesId,
    /// How a line of this series begins, up to the field after its names; empty
    /// when that is not known.
    head: Vec<u8>,
    /// Whose line came after the last one of this series.
    follower: Known,
}

#[derive(Debug, Default)]
pub(super) struct Names {
    entries: Vec<Entry>,
    by_names: HashMap<Vec<u8>, Known>,
    key: Vec<u8>,
    last: Option<Known>,
}

impl Names {
    /// Takes note of a series, if its names stand in a line as they are.
    pub(super) fn learn(&mut self, device: &str, channel: &str, series: SeriesId) {
        let plain = |name: &str| {
            let odd = |b: u8| b < b' ' || matches!(b, b'"' | b'\\' | b',');
            !name.bytes().any(odd) && name.trim() == name
        };
        let next = Known(u32::try_from(self.entries.len()).unwrap_or(u32::MAX));
        if !plain(device) || !plain(channel) || next.0 == u32::MAX {
            return;
        }
        self.set_key(device.as_bytes(), channel.as_bytes());
        if self.by_names.contains_key(&self.key) {
            return;
        }
        self.by_names.insert(self.key.clone(), next);
        self.entries.push(Entry {
            series,
            head: Vec::new(),
            follower: next,
        });
        self.follow(next);
    }

    /// The series whose turn it is, when the line begins as its last one did, and
    /// the length of that beginning.
    #[inline]
    pub(super) fn guess(&mut self, line: &[u8]) -> Option<(Known, usize)> {
        let guess = self.entries[self.last?.0 as usize].follower;
        let head = &self.entries[guess.0 as usize].head;
        if head.is_empty() || !line.starts_with(head) {
            return None;
        }
        let used = head.len();
        self.last = Some(guess);
        Some((guess, used))
    }

    /// The series of these names; `head` is how its line begins, where that may
    /// stand for the names next time.
    pub(super) fn find(
        &mut self,
        device: &[u8],
        channel: &[u8],
        head: Option<&[u8]>,
    ) -> Option<Known> {
        self.set_key(device, channel);
        let known = *self.by_names.get(&self.key)?;
        if let Some(head) = head.filter(|head| head.len() <= HEAD_BYTES_MAX) {
            let kept = &mut self.entries[known.0 as usize].head;
            if kept != head {
                kept.clear();
                kept.extend_from_slice(head);
            }
        }
        self.follow(known);
        Some(known)
    }

    pub(super) fn series(&self, known: Known) -> SeriesId {
        self.entries[known.0 as usize].series
    }

    fn follow(&mut self, known: Known) {
        if let Some(last) = self.last {
            self.entries[last.0 as usize].follower = known;
        }
        self.last = Some(known);
    }

    fn set_key(&mut self, device: &[u8], channel: &[u8]) {
        self.key.clear();
        self.key.extend_from_slice(device);
        self.key.push(BETWEEN);
        self.key.extend_from_slice(channel);
    }
}
