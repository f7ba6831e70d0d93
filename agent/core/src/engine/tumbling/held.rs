//! The windows of an operator, by key and start. Knows no watermark: whoever closes a
//! window says so in its phase, in order of start.

use std::collections::{BTreeMap, VecDeque};

use crate::engine::figures::{Figures, Wants};
use crate::engine::route::{Slot, push_tight};
use crate::engine::state;
use crate::log::bytes::{Malformed, Reader, put_varint, put_zigzag};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// No window.
    Vacant,
    Open,
    Closed,
}

#[derive(Debug)]
pub(super) struct Window {
    pub(super) start: i64,
    pub(super) end: i64,
    /// Of the next line.
    pub(super) revision: u32,
    pub(super) phase: Phase,
    /// Holds a reading that no line tells of yet.
    pub(super) untold: bool,
    pub(super) said_final: bool,
    pub(super) figures: Figures,
}

const _: () = assert!(size_of::<Window>() <= 128);

impl Window {
    pub(super) fn new((start, end): (i64, i64), phase: Phase, wants: Wants) -> Self {
        Self {
            start,
            end,
            revision: 0,
            phase,
            untold: false,
            said_final: false,
            figures: Figures::new(wants),
        }
    }

    /// Whether a reading at this time needs nothing but to be added.
    #[inline]
    pub(super) fn is_open_at(&self, time: i64) -> bool {
        (self.start <= time) & (time < self.end) & (self.phase == Phase::Open)
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let flags = u8::from(self.phase == Phase::Closed)
            | u8::from(self.untold) << 1
            | u8::from(self.said_final) << 2;
        put_zigzag(out, self.start);
        put_zigzag(out, self.end);
        put_varint(out, self.revision.into());
        out.push(flags);
        self.figures.encode(out);
    }

    pub(super) fn decode(from: &mut Reader<'_>, wants: Wants) -> Result<Self, Malformed> {
        let (start, end) = (from.zigzag()?, from.zigzag()?);
        let revision = state::u32(from)?;
        let flags = from.byte()?;
        if flags > 7 || end <= start {
            return Err(from.malformed());
        }
        let phase = match flags & 1 {
            0 => Phase::Open,
            _ => Phase::Closed,
        };
        Ok(Self {
            start,
            end,
            revision,
            phase,
            untold: flags & 2 != 0,
            said_final: flags & 4 != 0,
            figures: Figures::decode(from, wants)?,
        })
    }
}

/// Open windows of a key, by start.
#[derive(Debug)]
struct Queue(VecDeque<Window>);

/// All of them.
#[derive(Debug)]
pub(super) struct Held {
    wants: Wants,
    /// Of each key the newest window, or a place for it: vacant only where the key has
    /// no other.
    newest: Vec<Window>,
    /// Of each key those before it that are open, by start; `None` for none.
    open: Vec<Option<Box<Queue>>>,
    /// Those before it that are closed: each is before all open ones of its key.
    closed: BTreeMap<(Slot, i64), Window>,
}

impl Held {
    pub(super) fn new(wants: Wants) -> Self {
        Self {
            wants,
            newest: Vec::new(),
            open: Vec::new(),
            closed: BTreeMap::new(),
        }
    }

    /// One key more.
    pub(super) fn add_slot(&mut self) {
        let vacant = Window::new((i64::MAX, i64::MIN), Phase::Vacant, self.wants);
        push_tight(&mut self.newest, vacant);
        push_tight(&mut self.open, None);
    }

    /// The window of a key, made when there is none.
    pub(super) fn window_at(
        &mut self,
        slot: Slot,
        (start, end): (i64, i64),
        phase: Phase,
    ) -> &mut Window {
        let wants = self.wants;
        let fresh = || Window::new((start, end), phase, wants);
        let newest = &mut self.newest[slot as usize];
        if newest.phase == Phase::Vacant {
            *newest = fresh();
            return newest;
        }
        if newest.start == start {
            return newest;
        }
        if newest.start < start {
            let before = std::mem::replace(newest, fresh());
            if before.phase == Phase::Closed {
                self.closed.insert((slot, before.start), before);
            } else {
                queue_of(&mut self.open[slot as usize]).push_back(before);
            }
            return newest;
        }
        if phase == Phase::Closed {
            return self.closed.entry((slot, start)).or_insert_with(fresh);
        }
        let open = queue_of(&mut self.open[slot as usize]);
        let at = match open.binary_search_by_key(&start, |window| window.start) {
            Ok(at) => at,
            Err(at) => {
                open.insert(at, fresh());
                at
            }
        };
        &mut open[at]
    }

    /// The newest window of a key, or the place for it.
    #[inline]
    pub(super) fn newest(&mut self, slot: Slot) -> &mut Window {
        &mut self.newest[slot as usize]
    }

    /// The window of a key with this start.
    pub(super) fn window(&mut self, slot: Slot, start: i64) -> Option<&mut Window> {
        let newest = &mut self.newest[slot as usize];
        if newest.phase != Phase::Vacant && newest.start == start {
            return Some(newest);
        }
        if let Some(Queue(open)) = self.open[slot as usize].as_deref_mut()
            && let Ok(at) = open.binary_search_by_key(&start, |window| window.start)
        {
            return open.get_mut(at);
        }
        self.closed.get_mut(&(slot, start))
    }

    /// All windows of a key, the newest first.
    pub(super) fn windows(&self, slot: Slot) -> impl Iterator<Item = &Window> {
        let newest = Some(&self.newest[slot as usize]);
        let newest = newest.filter(|w| w.phase != Phase::Vacant);
        let older = self.closed_of(slot).chain(self.open_of(slot));
        newest.into_iter().chain(older)
    }

    /// Those that are closed, the newest among them, by start.
    pub(super) fn all_closed(&self, slot: Slot) -> impl Iterator<Item = &Window> {
        let newest = Some(&self.newest[slot as usize]);
        let newest = newest.filter(|w| w.phase == Phase::Closed);
        self.closed_of(slot).chain(newest)
    }

    fn closed_of(&self, slot: Slot) -> impl Iterator<Item = &Window> {
        // Nearly always empty, and then not worth two searches.
        let any = !self.closed.is_empty();
        let keys = (slot, i64::MIN)..=(slot, i64::MAX);
        let closed = any.then(|| self.closed.range(keys));
        closed.into_iter().flatten().map(|(_, window)| window)
    }

    /// Those that are open, the newest among them, by start.
    pub(super) fn all_open(&self, slot: Slot) -> impl Iterator<Item = &Window> {
        let newest = Some(&self.newest[slot as usize]);
        let newest = newest.filter(|w| w.phase == Phase::Open);
        self.open_of(slot).chain(newest)
    }

    fn open_of(&self, slot: Slot) -> impl Iterator<Item = &Window> {
        let open = self.open[slot as usize].as_deref();
        open.into_iter().flat_map(|queue| &queue.0)
    }

    /// Puts the windows of a key that closed where closed ones stand, and drops those
    /// that are over, each of which is told by its start.
    pub(super) fn settle(
        &mut self,
        slot: Slot,
        is_over: impl Fn(&Window) -> bool,
        mut dropped: impl FnMut(i64),
    ) {
        loop {
            let first = self.closed_of(slot).next();
            let Some(start) = first.filter(|w| is_over(w)).map(|w| w.start) else {
                break;
            };
            self.closed.remove(&(slot, start));
            dropped(start);
        }
        while let Some(window) = self.pop_closed(slot) {
            if is_over(&window) {
                dropped(window.start);
            } else {
                self.closed.insert((slot, window.start), window);
            }
        }
        let newest = &mut self.newest[slot as usize];
        if newest.phase == Phase::Closed && is_over(newest) {
            newest.phase = Phase::Vacant;
            dropped(newest.start);
        }
    }

    /// Takes the first window that closed out of the queue of a key.
    fn pop_closed(&mut self, slot: Slot) -> Option<Window> {
        let place = &mut self.open[slot as usize];
        let Queue(open) = place.as_deref_mut()?;
        let window = open.pop_front_if(|window| window.phase == Phase::Closed);
        if open.is_empty() {
            *place = None;
        }
        window
    }

    /// Windows held.
    pub(super) fn len(&self) -> usize {
        let held = self.newest.iter().filter(|w| w.phase != Phase::Vacant);
        let open = self.open.iter().flatten().map(|queue| queue.0.len());
        held.count() + open.sum::<usize>() + self.closed.len()
    }
}

fn queue_of(open: &mut Option<Box<Queue>>) -> &mut VecDeque<Window> {
    // One: where windows are long, only one waits for its close.
    let queue = || Box::new(Queue(VecDeque::with_capacity(1)));
    &mut open.get_or_insert_with(queue).0
}
