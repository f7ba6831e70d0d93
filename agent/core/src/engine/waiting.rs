//! What waits until a table is known, by time; of equal times in order of arrival.
//!
//! Bound: [`JOIN_HELD_MAX`]; whoever pushes one more takes the oldest out. Knows neither
//! what waits nor for what.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

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
const PAGE: usize = 32;

#[derive(Debug)]
struct Held<T> {
    time: i64,
    of: T,
    /// The gateway's clock when it came, us.
    arrived: i64,
}

#[derive(Debug)]
struct Page<T> {
    held: [Option<Held<T>>; PAGE],
    len: usize,
    /// It changed since the state was taken.
    is_touched: bool,
    /// It is in the state.
    is_kept: bool,
}

impl<T> Page<T> {
    fn new() -> Self {
        Self {
            held: [const { None }; PAGE],
            len: 0,
            is_touched: true,
            is_kept: false,
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Waiting<T> {
    /// By arrival; none is empty.
    pages: BTreeMap<u64, Page<T>>,
    /// By time, then arrival; some of these have left already.
    order: BinaryHeap<Reverse<(i64, Seq)>>,
    len: usize,
    next: Seq,
    /// Some came before the clock said anything.
    is_unclocked: bool,
    /// Pages that left and are in the state.
    gone: Vec<u64>,
}

impl<T> Default for Waiting<T> {
    fn default() -> Self {
        Self {
            pages: BTreeMap::new(),
            order: BinaryHeap::new(),
            len: 0,
            next: 0,
            is_unclocked: false,
            gone: Vec::new(),
        }
    }
}

fn place(seq: Seq) -> (u64, usize) {
    (seq / PAGE as u64, (seq % PAGE as u64) as usize)
}

impl<T: Waits> Waiting<T> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Whether the oldest is to leave before it is time.
    pub(super) fn is_over(&self) -> bool {
        self.len > JOIN_HELD_MAX
    }

    pub(super) fn push(&mut self, time: i64, of: T, clock: Option<i64>) {
        let seq = self.next;
        self.next += 1;
        self.is_unclocked |= clock.is_none();
        let arrived = clock.unwrap_or(UNCLOCKED);
        self.put(seq, Held { time, of, arrived });
    }

    fn put(&mut self, seq: Seq, held: Held<T>) {
        let (page, at) = place(seq);
        self.order.push(Reverse((held.time, seq)));
        let page = self.pages.entry(page).or_insert_with(Page::new);
        page.held[at] = Some(held);
        page.len += 1;
        page.is_touched = true;
        self.len += 1;
    }

    /// Takes the oldest out, if it is before a time.
    pub(super) fn pop_before(&mut self, time: i64) -> Option<(i64, Seq, T)> {
        while let Some(Reverse((first, seq))) = self.order.peek().copied() {
            if first >= time {
                return None;
            }
            self.order.pop();
            if let Some(held) = self.take(seq) {
                return Some((held.time, seq, held.of));
            }
        }
        None
    }

    /// Takes the oldest out, whatever its time.
    pub(super) fn pop(&mut self) -> Option<(i64, Seq, T)> {
        while let Some(Reverse((_, seq))) = self.order.pop() {
            if let Some(held) = self.take(seq) {
                return Some((held.time, seq, held.of));
            }
        }
        None
    }

    /// Takes one out that has waited for so long when the gateway's clock says `now`.
    pub(super) fn pop_expired(&mut self, now: i64, wait: i64) -> Option<(i64, Seq, T)> {
        let (page, of_page) = self.pages.first_key_value()?;
        let mut held = (0..).zip(&of_page.held);
        let first = held.find_map(|(at, held)| Some((at, held.as_ref()?.arrived)));
        let (at, arrived): (u64, i64) = first?;
        if arrived.saturating_add(wait) > now {
            return None;
        }
        let seq = page * PAGE as u64 + at;
        let held = self.take(seq)?;
        // Those that left by arrival stay in the order until their time comes.
        if self.order.len() > 2 * self.len + PAGE {
            let pages = &self.pages;
            self.order.retain(|Reverse((_, seq))| {
                let (page, at) = place(*seq);
                pages.get(&page).is_some_and(|page| page.held[at].is_some())
            });
        }
        Some((held.time, seq, held.of))
    }

    fn take(&mut self, seq: Seq) -> Option<Held<T>> {
        let (number, at) = place(seq);
        let page = self.pages.get_mut(&number)?;
        let held = page.held[at].take()?;
        self.len -= 1;
        page.len -= 1;
        page.is_touched = true;
        if page.len == 0 {
            if page.is_kept {
                self.gone.push(number);
            }
            self.pages.remove(&number);
        }
        Some(held)
    }

    /// The gateway's clock says this: what came before it said anything has come now.
    pub(super) fn on_clock(&mut self, now: i64) {
        if std::mem::take(&mut self.is_unclocked) {
            self.set_arrived(now, |arrived| arrived == UNCLOCKED);
        }
    }

    /// What the gateway's clock said does not hold: all has come when it speaks again.
    pub(super) fn on_clock_lost(&mut self) {
        self.is_unclocked = self.len > 0;
        self.set_arrived(UNCLOCKED, |_| true);
    }

    fn set_arrived(&mut self, to: i64, which: impl Fn(i64) -> bool) {
        for page in self.pages.values_mut() {
            for held in page.held.iter_mut().flatten() {
                if which(held.arrived) {
                    held.arrived = to;
                    page.is_touched = true;
                }
            }
        }
    }

    pub(super) fn changed_bytes(&self) -> usize {
        // Mostly all of it has changed: what waits does not for long.
        self.pages.len() * PAGE * 24
    }

    pub(super) fn encode(&mut self, prefix: &[u8], writer: &mut StateWriter<'_>) {
        let key = |page: u64| [prefix, &page.to_be_bytes()].concat();
        for page in std::mem::take(&mut self.gone) {
            if !self.pages.contains_key(&page) {
                writer.gone(&key(page));
            }
        }
        let mut blob = Vec::new();
        for (number, page) in &mut self.pages {
            if !std::mem::take(&mut page.is_touched) {
                continue;
            }
            page.is_kept = true;
            blob.clear();
            for (at, held) in (0..).zip(&page.held) {
                if let Some(held) = held {
                    put_varint(&mut blob, at);
                    put_zigzag(&mut blob, held.time);
                    put_zigzag(&mut blob, held.arrived);
                    held.of.encode(&mut blob);
                }
            }
            writer.put(&key(*number), &blob);
        }
    }

    pub(super) fn decode(&mut self, prefix: &[u8], reader: &StateReader) -> Result<(), StateError> {
        reader.each(prefix, |rest, from| {
            let page: [u8; 8] = rest.try_into().map_err(|_| from.malformed())?;
            let page = u64::from_be_bytes(page);
            let first = page.checked_mul(PAGE as u64);
            let first = first.ok_or_else(|| from.malformed())?;
            while !from.is_at_end() {
                let seq = first.saturating_add(from.varint()?);
                if seq < self.next || place(seq).0 != page {
                    return Err(from.malformed());
                }
                let (time, arrived) = (from.zigzag()?, from.zigzag()?);
                let of = T::decode(from)?;
                self.is_unclocked |= arrived == UNCLOCKED;
                self.put(seq, Held { time, of, arrived });
                self.next = seq.saturating_add(1);
            }
            if let Some(page) = self.pages.get_mut(&page) {
                (page.is_touched, page.is_kept) = (false, true);
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
                room: usize::MAX,
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
