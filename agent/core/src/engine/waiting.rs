//! What waits until a table is known, by time; of equal times in order of arrival.
//!
//! Bound: [`JOIN_HELD_MAX`]; whoever pushes one more takes the oldest out. Knows neither
//! what waits nor for what.

use std::collections::{BTreeMap, BTreeSet};

use crate::engine::state::{StateError, StateReader, StateWriter};
use crate::limits::JOIN_HELD_MAX;
use crate::log::bytes::{Malformed, Reader, put_varint, put_zigzag};

/// What can wait.
pub(super) trait Waits: Sized {
    fn encode(&self, out: &mut Vec<u8>);
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed>;
}

/// Place of arrival, counted up.
pub(super) type Seq = u64;

/// Of the gateway's clock when it has said nothing yet.
const UNCLOCKED: i64 = i64::MIN;
/// Arrivals that share an entry of the state.
const PAGE: u64 = 32;

#[derive(Debug)]
struct Held<T> {
    of: T,
    /// The gateway's clock when it came, us.
    arrived: i64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Waiting<T> {
    held: BTreeMap<(i64, Seq), Held<T>>,
    /// Times by arrival.
    by_seq: BTreeMap<Seq, i64>,
    next: Seq,
    /// Some came before the clock said anything.
    is_unclocked: bool,
    /// Pages that changed, and those that are in the state.
    touched: Touched,
    kept: BTreeSet<Seq>,
}

/// A set of pages. Most of them are named many times in a row, by what comes and by what
/// leaves.
#[derive(Debug, Default)]
struct Touched {
    pages: BTreeSet<Seq>,
    /// Those named last.
    came: Option<Seq>,
    left: Option<Seq>,
}

impl Touched {
    fn came(&mut self, seq: Seq) {
        let page = Some(seq / PAGE);
        if self.came != page {
            self.came = page;
            self.pages.insert(seq / PAGE);
        }
    }

    fn left(&mut self, seq: Seq) {
        let page = Some(seq / PAGE);
        if self.left != page {
            self.left = page;
            self.pages.insert(seq / PAGE);
        }
    }
}

impl<T> Default for Waiting<T> {
    fn default() -> Self {
        Self {
            held: BTreeMap::new(),
            by_seq: BTreeMap::new(),
            next: 0,
            is_unclocked: false,
            touched: Touched::default(),
            kept: BTreeSet::new(),
        }
    }
}

impl<T: Waits> Waiting<T> {
    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether the oldest is to leave before it is time.
    pub(super) fn is_over(&self) -> bool {
        self.held.len() > JOIN_HELD_MAX
    }

    pub(super) fn push(&mut self, time: i64, of: T, clock: Option<i64>) {
        let seq = self.next;
        self.next += 1;
        self.is_unclocked |= clock.is_none();
        let arrived = clock.unwrap_or(UNCLOCKED);
        self.held.insert((time, seq), Held { of, arrived });
        self.by_seq.insert(seq, time);
        self.touched.came(seq);
    }

    /// Takes the oldest out, if it is before a time.
    pub(super) fn pop_before(&mut self, time: i64) -> Option<(i64, Seq, T)> {
        let first = self.held.first_entry()?;
        if first.key().0 >= time {
            return None;
        }
        let ((time, seq), held) = first.remove_entry();
        Some(self.taken(time, seq, held))
    }

    /// Takes the oldest out, whatever its time.
    pub(super) fn pop(&mut self) -> Option<(i64, Seq, T)> {
        let ((time, seq), held) = self.held.pop_first()?;
        Some(self.taken(time, seq, held))
    }

    /// Takes one out that has waited for so long when the gateway's clock says `now`.
    pub(super) fn pop_expired(&mut self, now: i64, wait: i64) -> Option<(i64, Seq, T)> {
        let (seq, time) = self.by_seq.first_key_value()?;
        let (seq, time) = (*seq, *time);
        let arrived = self.held.get(&(time, seq))?.arrived;
        if arrived.saturating_add(wait) > now {
            return None;
        }
        let held = self.held.remove(&(time, seq))?;
        Some(self.taken(time, seq, held))
    }

    fn taken(&mut self, time: i64, seq: Seq, held: Held<T>) -> (i64, Seq, T) {
        self.by_seq.remove(&seq);
        self.touched.left(seq);
        (time, seq, held.of)
    }

    /// The gateway's clock says this: what came before it said anything has come now.
    pub(super) fn on_clock(&mut self, now: i64) {
        if !std::mem::take(&mut self.is_unclocked) {
            return;
        }
        for ((_, seq), held) in &mut self.held {
            if held.arrived == UNCLOCKED {
                held.arrived = now;
                self.touched.left(*seq);
            }
        }
    }

    /// What the gateway's clock said does not hold: all has come when it speaks again.
    pub(super) fn on_clock_lost(&mut self) {
        for ((_, seq), held) in &mut self.held {
            held.arrived = UNCLOCKED;
            self.is_unclocked = true;
            self.touched.left(*seq);
        }
    }

    pub(super) fn changed_bytes(&self) -> usize {
        self.touched.pages.len() * PAGE as usize * 24
    }

    pub(super) fn encode(&mut self, prefix: &[u8], writer: &mut StateWriter<'_>) {
        let mut blob = Vec::new();
        for page in std::mem::take(&mut self.touched).pages {
            let key = [prefix, &page.to_be_bytes()].concat();
            blob.clear();
            for (seq, time) in self.by_seq.range(page * PAGE..(page + 1) * PAGE) {
                let Some(held) = self.held.get(&(*time, *seq)) else {
                    continue;
                };
                put_varint(&mut blob, *seq);
                put_zigzag(&mut blob, *time);
                put_zigzag(&mut blob, held.arrived);
                held.of.encode(&mut blob);
            }
            if !blob.is_empty() {
                writer.put(&key, &blob);
                self.kept.insert(page);
            } else if self.kept.remove(&page) {
                writer.gone(&key);
            }
        }
    }

    pub(super) fn decode(&mut self, prefix: &[u8], reader: &StateReader) -> Result<(), StateError> {
        reader.each(prefix, |rest, from| {
            let page: [u8; 8] = rest.try_into().map_err(|_| from.malformed())?;
            let page = Seq::from_be_bytes(page);
            self.kept.insert(page);
            while !from.is_at_end() {
                let (seq, time, arrived) = (from.varint()?, from.zigzag()?, from.zigzag()?);
                let of = T::decode(from)?;
                if seq / PAGE != page || self.by_seq.insert(seq, time).is_some() {
                    return Err(from.malformed());
                }
                self.is_unclocked |= arrived == UNCLOCKED;
                self.held.insert((time, seq), Held { of, arrived });
                self.next = self.next.max(seq.saturating_add(1));
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::state::Parts;

    impl Waits for u32 {
        fn encode(&self, out: &mut Vec<u8>) {
            put_varint(out, (*self).into());
        }

        fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
            crate::engine::state::u32(from)
        }
    }

    fn keep(
        waiting: &mut Waiting<u32>,
        parts: &mut Parts,
        kept: &mut BTreeMap<Vec<u8>, Vec<u8>>,
    ) -> Waiting<u32> {
        let mut out = Vec::new();
        waiting.encode(
            b"w",
            &mut StateWriter {
                parts,
                out: &mut out,
            },
        );
        for entry in out {
            match entry.value {
                Some(value) => drop(kept.insert(entry.key, value)),
                None => assert!(kept.remove(&entry.key).is_some(), "it was kept"),
            }
        }
        let mut restored = Waiting::default();
        let reader = StateReader::new(kept.clone()).expect("whole");
        restored.decode(b"w", &reader).expect("whole");
        restored
    }

    #[test]
    fn leaves_by_time_then_arrival_and_comes_back() {
        let mut waiting = Waiting::default();
        let (mut parts, mut kept) = (Parts::default(), BTreeMap::new());
        for n in 0..100_u32 {
            waiting.push(i64::from(n % 7), n, Some(0));
            if n % 9 == 0 {
                waiting = keep(&mut waiting, &mut parts, &mut kept);
            }
        }
        assert_eq!(waiting.pop_before(0).map(|(time, _, of)| (time, of)), None);
        let mut left = Vec::new();
        while let Some((time, _, of)) = waiting.pop_before(3) {
            left.push((time, of));
            waiting = keep(&mut waiting, &mut parts, &mut kept);
        }
        while let Some((time, _, of)) = waiting.pop() {
            left.push((time, of));
        }
        let mut want: Vec<(i64, u32)> = (0..100).map(|n| (i64::from(n % 7), n)).collect();
        want.sort_unstable();
        assert_eq!(left, want);
        keep(&mut waiting, &mut parts, &mut kept);
        assert_eq!(kept, BTreeMap::new(), "nothing stays in the state");
    }

    #[test]
    fn expires_by_arrival_on_the_clock() {
        let mut waiting = Waiting::default();
        let (mut parts, mut kept) = (Parts::default(), BTreeMap::new());
        waiting.push(50, 1, None);
        waiting.push(40, 2, Some(100));
        waiting = keep(&mut waiting, &mut parts, &mut kept);
        waiting.on_clock(105);
        waiting = keep(&mut waiting, &mut parts, &mut kept);
        assert_eq!(waiting.pop_expired(114, 10), None, "the first came at 105");
        assert_eq!(waiting.pop_expired(115, 10).map(|(_, _, of)| of), Some(1));
        assert_eq!(waiting.pop_expired(115, 10).map(|(_, _, of)| of), Some(2));
        waiting.push(50, 3, Some(120));
        waiting.on_clock_lost();
        assert_eq!(
            waiting.pop_expired(i64::MAX - 1, 0).map(|(_, _, of)| of),
            Some(3)
        );
        waiting.push(50, 4, Some(120));
        waiting.on_clock_lost();
        waiting.on_clock(10);
        assert_eq!(waiting.pop_expired(19, 10), None);
        assert_eq!(waiting.pop_expired(20, 10).map(|(_, _, of)| of), Some(4));
    }

    #[test]
    fn is_over_above_its_bound() {
        let mut waiting = Waiting::default();
        for n in 0..JOIN_HELD_MAX as u32 - 1 {
            waiting.push(0, n, None);
        }
        assert!(!waiting.is_over(), "limit - 1");
        waiting.push(0, 0, None);
        assert!(!waiting.is_over(), "limit");
        waiting.push(0, 0, None);
        assert!(waiting.is_over(), "limit + 1");
        waiting.pop();
        assert!(!waiting.is_over());
    }
}
