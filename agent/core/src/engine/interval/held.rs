//! What one side of a key holds, by time; equal times in order of arrival. Kept in
//! chunks, so that one more costs a bounded move wherever it belongs, and a key with
//! very many readings is no worse than many with few.
//!
//! Memory: 32 bytes each, and what a key that held more keeps as room for the next.
//! Knows no rule of a join.

use std::collections::VecDeque;

use crate::engine::state;
use crate::log::bytes::{Malformed, Reader, put_varint, put_zigzag};

/// Most items of one chunk: what one insertion may have to move.
const CHUNK_MAX: usize = 256;
/// Room that an empty side keeps.
const KEPT_ROOM: usize = 16;

/// A reading, or a row of a window, as a join holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine) struct Held {
    /// Event time; of a window's row its last microsecond.
    pub(in crate::engine) time: i64,
    /// Start of its window; of a reading its time.
    pub(in crate::engine) start: i64,
    /// Bits of a double, or of a window's row a count.
    pub(in crate::engine) value: u64,
    /// Its series, or the number of the window's key.
    pub(in crate::engine) of: u32,
    /// It is in a pair that was written.
    pub(super) matched: bool,
}

impl Held {
    pub(super) fn reading(of: u32, time: i64, value: u64) -> Self {
        Self {
            time,
            start: time,
            value,
            of,
            matched: false,
        }
    }
}

/// Items by time.
#[derive(Debug, Default)]
pub(super) struct Ordered {
    /// None is empty, unless it is the only one.
    chunks: VecDeque<VecDeque<Held>>,
    len: usize,
}

impl Ordered {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn front(&self) -> Option<&Held> {
        self.chunks.front()?.front()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Held> {
        self.chunks.iter().flatten()
    }

    /// Puts an item behind those of the same time.
    #[inline]
    pub(super) fn insert(&mut self, held: Held) {
        self.len += 1;
        match self.chunks.back_mut() {
            Some(last) if last.back().is_none_or(|back| back.time <= held.time) => {
                if last.len() < CHUNK_MAX {
                    last.push_back(held);
                } else {
                    self.chunks.push_back(VecDeque::from([held]));
                }
            }
            Some(_) => self.insert_between(held),
            None => self.chunks.push_back(VecDeque::from([held])),
        }
    }

    #[cold]
    fn insert_between(&mut self, held: Held) {
        let begins_before = |chunk: &VecDeque<Held>| {
            let first = chunk.front();
            first.is_none_or(|first| first.time <= held.time)
        };
        let at = self.chunks.partition_point(begins_before).saturating_sub(1);
        let chunk = &mut self.chunks[at];
        let place = chunk.partition_point(|other| other.time <= held.time);
        chunk.insert(place, held);
        if chunk.len() > CHUNK_MAX {
            let rest = chunk.split_off(CHUNK_MAX / 2);
            self.chunks.insert(at + 1, rest);
        }
    }

    pub(super) fn pop_front(&mut self) -> Option<Held> {
        let is_only = self.chunks.len() == 1;
        let chunk = self.chunks.front_mut()?;
        let first = chunk.pop_front()?;
        self.len -= 1;
        if chunk.is_empty() {
            if is_only {
                chunk.shrink_to(KEPT_ROOM);
            } else {
                self.chunks.pop_front();
            }
        }
        Some(first)
    }

    /// Visits those with `from <= time <= to`, in order.
    #[inline]
    pub(super) fn each_within(&mut self, (from, to): (i64, i64), mut see: impl FnMut(&mut Held)) {
        let ends_before = |chunk: &VecDeque<Held>| {
            let last = chunk.back();
            last.is_some_and(|last| last.time < from)
        };
        let first = self.chunks.partition_point(ends_before);
        for chunk in self.chunks.range_mut(first..) {
            let begin = chunk.partition_point(|held| held.time < from);
            for held in chunk.range_mut(begin..) {
                if held.time > to {
                    return;
                }
                see(held);
            }
        }
    }

    /// Takes those out that were in no pair, in order.
    pub(super) fn take_unmatched(&mut self, mut take: impl FnMut(Held)) {
        for chunk in &mut self.chunks {
            chunk.retain(|held| {
                if !held.matched {
                    take(*held);
                }
                held.matched
            });
        }
        self.chunks.retain(|chunk| !chunk.is_empty());
        self.len = self.chunks.iter().map(VecDeque::len).sum();
    }

    /// `has_start`: they are rows of windows.
    pub(super) fn encode(&self, has_start: bool, out: &mut Vec<u8>) {
        state::put_len(out, self.len);
        let mut before = 0_i64;
        for held in self.iter() {
            // Those of one side lie close together.
            put_zigzag(out, held.time.wrapping_sub(before));
            before = held.time;
            if has_start {
                put_zigzag(out, held.start);
            }
            put_varint(out, (u64::from(held.of) << 1) | u64::from(held.matched));
            out.extend_from_slice(&held.value.to_le_bytes());
        }
    }

    /// Reads what [`Ordered::encode`] wrote.
    pub(super) fn decode(has_start: bool, from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let mut items = Self::default();
        let mut before = 0_i64;
        for n in 0..state::len(from)? {
            let time = before.wrapping_add(from.zigzag()?);
            if n > 0 && time < before {
                return Err(from.malformed());
            }
            before = time;
            let start = if has_start { from.zigzag()? } else { time };
            let word = from.varint()?;
            let of = u32::try_from(word >> 1).map_err(|_| from.malformed())?;
            items.insert(Held {
                time,
                start,
                value: u64::from_le_bytes(from.array()?),
                of,
                matched: word & 1 == 1,
            });
        }
        Ok(items)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn held(time: i64, of: u32) -> Held {
        Held::reading(of, time, 5)
    }

    #[derive(Debug, Clone)]
    enum Step {
        Insert(i64),
        Pop(u8),
        Match(i64, i64),
        TakeUnmatched,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            400 => (-99_i64..99).prop_map(Step::Insert),
            30 => any::<u8>().prop_map(Step::Pop),
            10 => (-99_i64..99, 0_i64..50).prop_map(|(from, n)| Step::Match(from, from + n)),
            1 => Just(Step::TakeUnmatched),
        ]
    }

    proptest! {
        #[test]
        fn agrees_with_a_sorted_list(steps in prop::collection::vec(step(), 0..1500)) {
            let (mut items, mut list) = (Ordered::default(), Vec::<Held>::new());
            for (n, step) in (0..).zip(steps) {
                match step {
                    Step::Insert(time) => {
                        items.insert(held(time, n));
                        list.push(held(time, n));
                        list.sort_by_key(|held| held.time);
                    }
                    Step::Pop(count) => for _ in 0..count {
                        let want = (!list.is_empty()).then(|| list.remove(0));
                        prop_assert_eq!(items.pop_front(), want);
                    },
                    Step::Match(from, to) => {
                        let mut got = Vec::new();
                        items.each_within((from, to), |held| { held.matched = true; got.push(*held); });
                        let within = list.iter_mut().filter(|h| from <= h.time && h.time <= to);
                        let want: Vec<_> = within.map(|h| { h.matched = true; *h }).collect();
                        prop_assert_eq!(got, want);
                    }
                    Step::TakeUnmatched => {
                        let mut got = Vec::new();
                        items.take_unmatched(|held| got.push(held));
                        let want: Vec<_> = list.iter().filter(|h| !h.matched).copied().collect();
                        prop_assert_eq!(got, want);
                        list.retain(|held| held.matched);
                    }
                }
                prop_assert_eq!(items.len(), list.len());
                prop_assert_eq!(items.front(), list.first());
            }
            let mut bytes = Vec::new();
            items.encode(false, &mut bytes);
            let mut reader = Reader::new(&bytes);
            let back = Ordered::decode(false, &mut reader).expect("it was written so");
            prop_assert!(reader.is_at_end());
            prop_assert_eq!(back.iter().copied().collect::<Vec<_>>(), list);
        }
    }

    #[test]
    fn damaged_state_is_an_error() {
        let mut items = Ordered::default();
        (0..9).for_each(|n| items.insert(held(i64::from(n), n)));
        let mut bytes = Vec::new();
        items.encode(true, &mut bytes);
        for cut in 0..bytes.len() {
            let cut = Ordered::decode(true, &mut Reader::new(&bytes[..cut]));
            assert!(cut.is_err());
        }
        // Two items, the second before the first.
        let mut out_of_order = vec![2, 4, 0];
        out_of_order.extend_from_slice(&[0; 8]);
        out_of_order.extend_from_slice(&[1, 0]);
        out_of_order.extend_from_slice(&[0; 8]);
        assert!(Ordered::decode(false, &mut Reader::new(&out_of_order)).is_err());
    }
}
