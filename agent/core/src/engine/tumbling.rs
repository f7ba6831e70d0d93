//! Tumbling windows `[start, end)`: when they open, close, are revised and become
//! final.
//!
//! A window is open until it is written for its close, then closed until no late
//! reading can change it, then gone. The newest window of a key stands in an array by
//! slot, so that a reading in order costs one look-up; older ones stand in a tree.
//! Memory: windows between `W - allowed_lateness` and the newest reading, each at most
//! 128 bytes beside the values that percentiles keep, and one such place per key.
//! Knows no series names and no devices' times.

use std::collections::BTreeMap;

use crate::engine::chain::Parts;
use crate::engine::config::{Emit, Grid};
use crate::engine::counters::Taken;
use crate::engine::figures::{Figures, Wants};
use crate::engine::kernel::{At, Common, Fed, Given, Kernel, Moved, Out, WindowLine};
use crate::engine::route::Slot;
use crate::engine::state;
use crate::engine::value::is_null;
use crate::log::bytes::{Malformed, Reader, put_varint, put_zigzag};

/// The operator of one `[[window]]` of this kind.
#[derive(Debug)]
pub(super) struct Tumbling {
    grid: Grid,
    wants: Wants,
    /// Of each key the newest window, or a place for it.
    newest: Vec<Window>,
    older: BTreeMap<(Slot, i64), Window>,
    parts: Parts,
    due: Vec<Due>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// No window.
    Vacant,
    Open,
    Closed,
}

#[derive(Debug)]
struct Window {
    start: i64,
    end: i64,
    /// Of the next line.
    revision: u32,
    phase: Phase,
    /// Holds a reading that no line tells of yet.
    untold: bool,
    said_final: bool,
    /// Of the newest window: the key has older ones.
    has_older: bool,
    figures: Figures,
}

const _: () = assert!(size_of::<Window>() <= 128);

/// A window that has to be written.
#[derive(Debug, Clone, Copy)]
struct Due {
    end: i64,
    start: i64,
    slot: Slot,
    watermark: i64,
    why: Why,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    Close,
    BecameFinal,
    Idle,
}

impl Window {
    fn new((start, end): (i64, i64), phase: Phase, wants: Wants) -> Self {
        Self {
            start,
            end,
            revision: 0,
            phase,
            untold: false,
            said_final: false,
            has_older: false,
            figures: Figures::new(wants),
        }
    }

    /// Whether a reading at this time needs nothing but to be added.
    #[inline]
    fn is_open_at(&self, time: i64) -> bool {
        (self.start <= time) & (time < self.end) & (self.phase == Phase::Open)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let flags = u8::from(self.phase == Phase::Closed)
            | u8::from(self.untold) << 1
            | u8::from(self.said_final) << 2;
        put_zigzag(out, self.start);
        put_zigzag(out, self.end);
        put_varint(out, self.revision.into());
        out.push(flags);
        self.figures.encode(out);
    }

    fn decode(from: &mut Reader<'_>, wants: Wants) -> Result<Self, Malformed> {
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
            has_older: false,
            figures: Figures::decode(from, wants)?,
        })
    }
}

impl Tumbling {
    pub(super) fn new(grid: Grid, wants: Wants) -> Self {
        Self {
            grid,
            wants,
            newest: Vec::new(),
            older: BTreeMap::new(),
            parts: Parts::default(),
            due: Vec::new(),
        }
    }

    /// Takes what is not simply the next reading of an open window.
    fn take_slowly(
        &mut self,
        common: &mut Common,
        fed: &Fed<'_>,
        at: At<'_>,
        out: &mut Out,
    ) -> Taken {
        let given = fed.given;
        let (start, end) = window_over(&self.grid, given.time);
        if common.final_at(end) <= given.watermark {
            return Taken::None;
        }
        let late = common.leaves_at(end) <= given.watermark;
        let phase = if late { Phase::Closed } else { Phase::Open };
        let window = self.window_at(given.slot, (start, end), phase);
        window.untold = true;
        if fed.part.is_none() && !is_null(given.value) {
            window.figures.add(given.time, given.value);
        }
        self.parts.put((given.slot, start), fed);
        let timer = if late {
            common.final_at(end)
        } else {
            common.leaves_at(end)
        };
        common.timers.sooner(given.scope, timer);
        if late || common.emit == Emit::EveryUpdate {
            self.write(
                common,
                (given.slot, start),
                (given.watermark, false),
                at,
                out,
            );
        }
        Taken::All
    }

    /// The window of a key, made when there is none.
    fn window_at(&mut self, slot: Slot, (start, end): (i64, i64), phase: Phase) -> &mut Window {
        let newest = &mut self.newest[slot as usize];
        if newest.phase != Phase::Vacant && newest.start == start {
            return newest;
        }
        let fresh = || Window::new((start, end), phase, self.wants);
        if newest.phase == Phase::Vacant && !newest.has_older {
            *newest = fresh();
            return newest;
        }
        if newest.phase != Phase::Vacant && newest.start < start {
            let before = std::mem::replace(newest, fresh());
            newest.has_older = true;
            self.older.insert((slot, before.start), before);
            return newest;
        }
        newest.has_older = true;
        self.older.entry((slot, start)).or_insert_with(fresh)
    }

    fn window(&mut self, slot: Slot, start: i64) -> Option<&mut Window> {
        let newest = &mut self.newest[slot as usize];
        if newest.phase != Phase::Vacant && newest.start == start {
            return Some(newest);
        }
        self.older.get_mut(&(slot, start))
    }

    /// Writes a line for a window.
    fn write(
        &mut self,
        common: &Common,
        (slot, start): (Slot, i64),
        (watermark, idle): (i64, bool),
        at: At<'_>,
        out: &mut Out,
    ) {
        let newest = &mut self.newest[slot as usize];
        let window = if newest.phase != Phase::Vacant && newest.start == start {
            newest
        } else {
            let window = self.older.get_mut(&(slot, start));
            window.expect("only windows that are held are written")
        };
        let is_final = !idle && common.final_at(window.end) <= watermark;
        let line = WindowLine {
            cause: at.cause,
            slot,
            start,
            end: window.end,
            revision: window.revision,
            is_final,
            idle,
        };
        window.revision += 1;
        window.untold = false;
        window.said_final = is_final;
        if common.is_chained() {
            let mut figures = window.figures.clone();
            self.parts.add_to(&mut figures, (slot, start));
            common.write(&line, &mut figures, out);
        } else {
            common.write(&line, &mut window.figures, out);
        }
    }

    /// All windows of a key, the newest first.
    fn windows(&self, slot: Slot) -> impl Iterator<Item = &Window> {
        let newest = &self.newest[slot as usize];
        let older = newest.has_older.then(|| self.older_of(slot));
        let held = Some(newest).filter(|w| w.phase != Phase::Vacant);
        held.into_iter().chain(older.into_iter().flatten())
    }

    fn older_of(&self, slot: Slot) -> impl Iterator<Item = &Window> {
        let of_slot = self.older.range((slot, i64::MIN)..=(slot, i64::MAX));
        of_slot.map(|(_, window)| window)
    }

    fn collect_due(&mut self, common: &Common, (scope, watermark): Moved) {
        let mut due = std::mem::take(&mut self.due);
        for slot in common.routes.slots_of(scope) {
            for window in self.windows(*slot) {
                let why = match window.phase {
                    Phase::Vacant => continue,
                    Phase::Open if common.leaves_at(window.end) <= watermark => Why::Close,
                    Phase::Closed
                        if common.finalize
                            && !window.said_final
                            && common.final_at(window.end) <= watermark =>
                    {
                        Why::BecameFinal
                    }
                    Phase::Open | Phase::Closed => continue,
                };
                due.push(Due {
                    end: window.end,
                    start: window.start,
                    slot: *slot,
                    watermark,
                    why,
                });
            }
        }
        self.due = due;
    }

    fn write_due(&mut self, common: &mut Common, at: At<'_>, out: &mut Out) {
        let mut due = std::mem::take(&mut self.due);
        if due.len() > 1 {
            due.sort_unstable_by(|a, b| {
                let by_time = (a.end, a.start).cmp(&(b.end, b.start));
                by_time.then_with(|| common.routes.key_order(at.series, a.slot, b.slot))
            });
        }
        for one in due.drain(..) {
            let id = (one.slot, one.start);
            common.pages.touch(one.slot as usize);
            match one.why {
                Why::Close => self.close(common, one, at, out),
                Why::BecameFinal => self.write(common, id, (one.watermark, false), at, out),
                Why::Idle => self.write(common, id, (one.watermark, true), at, out),
            }
        }
        self.due = due;
    }

    fn close(&mut self, common: &Common, due: Due, at: At<'_>, out: &mut Out) {
        let id = (due.slot, due.start);
        let Some(window) = self.window(due.slot, due.start) else {
            return;
        };
        window.phase = Phase::Closed;
        let becomes_final = common.finalize && common.final_at(window.end) <= due.watermark;
        let tells = match common.emit {
            // What idleness told already is not told again.
            Emit::OnClose | Emit::FinalOnly => window.untold || becomes_final,
            Emit::EveryUpdate => false,
        };
        if tells {
            self.write(common, id, (due.watermark, false), at, out);
        }
    }

    /// Also sets the scope's timer anew.
    fn drop_final(&mut self, common: &mut Common, (scope, watermark): Moved) {
        for index in 0..common.routes.slots_of(scope).len() {
            let slot = common.routes.slots_of(scope)[index];
            let newest = &mut self.newest[slot as usize];
            let mut over = Vec::new();
            if newest.phase == Phase::Closed && common.final_at(newest.end) <= watermark {
                over.push(newest.start);
                newest.phase = Phase::Vacant;
            }
            if newest.has_older {
                let before = over.len();
                let final_at = |window: &&Window| common.final_at(window.end) <= watermark;
                let closed = self.older_of(slot).filter(|w| w.phase == Phase::Closed);
                over.extend(closed.filter(final_at).map(|window| window.start));
                for start in &over[before..] {
                    self.older.remove(&(slot, *start));
                }
                let has_older = self.older_of(slot).next().is_some();
                self.newest[slot as usize].has_older = has_older;
            }
            if common.is_chained() {
                over.iter()
                    .for_each(|start| self.parts.forget((slot, *start)));
            }
            for window in self.windows(slot) {
                common.timers.sooner(scope, timer_of(common, window));
            }
        }
    }
}

/// Start and end of the window that holds a time. No overflow: see
/// [`crate::limits::EVENT_TIME_MAX`].
fn window_over(grid: &Grid, time: i64) -> (i64, i64) {
    match grid {
        Grid::Fixed { size, offset } => {
            let start = time - (time - offset.0).rem_euclid(size.0);
            (start, start + size.0)
        }
        Grid::Calendar { unit, zone } => zone.bounds(*unit, time),
    }
}

fn timer_of(common: &Common, window: &Window) -> i64 {
    match window.phase {
        Phase::Open => common.leaves_at(window.end),
        Phase::Closed | Phase::Vacant => common.final_at(window.end),
    }
}

impl Kernel for Tumbling {
    fn add_slot(&mut self) {
        let vacant = Window::new((i64::MAX, i64::MIN), Phase::Vacant, self.wants);
        // By an eighth: doubling would take as much room again as the windows.
        if self.newest.len() == self.newest.capacity() {
            self.newest.reserve_exact(self.newest.len() / 8 + 4);
        }
        self.newest.push(vacant);
    }

    #[inline]
    fn take(&mut self, common: &mut Common, given: Given, at: At<'_>, out: &mut Out) -> Taken {
        common.pages.touch(given.slot as usize);
        let window = &mut self.newest[given.slot as usize];
        if window.is_open_at(given.time) && common.emit != Emit::EveryUpdate {
            if !is_null(given.value) {
                window.figures.add(given.time, given.value);
            }
            window.untold = true;
            return Taken::All;
        }
        let fed = Fed {
            given,
            part: None,
            figures: None,
        };
        self.take_slowly(common, &fed, at, out)
    }

    fn take_fed(&mut self, common: &mut Common, fed: Fed<'_>, at: At<'_>, out: &mut Out) -> Taken {
        common.pages.touch(fed.given.slot as usize);
        self.take_slowly(common, &fed, at, out)
    }

    fn advance(&mut self, common: &mut Common, due: &[Moved], at: At<'_>, out: &mut Out) {
        for moved in due {
            self.collect_due(common, *moved);
        }
        self.write_due(common, at, out);
        for moved in due {
            self.drop_final(common, *moved);
        }
    }

    fn on_idle(&mut self, common: &mut Common, silent: &[Moved], at: At<'_>, out: &mut Out) {
        if common.emit != Emit::OnClose {
            return;
        }
        let mut due = std::mem::take(&mut self.due);
        for (scope, watermark) in silent {
            for slot in common.routes.slots_of(*scope) {
                let open = self.windows(*slot).filter(|w| w.phase == Phase::Open);
                due.extend(open.filter(|w| w.untold).map(|window| Due {
                    end: window.end,
                    start: window.start,
                    slot: *slot,
                    watermark: *watermark,
                    why: Why::Idle,
                }));
            }
        }
        self.due = due;
        self.write_due(common, at, out);
    }

    fn state_rows(&self) -> u64 {
        let held = self.newest.iter().filter(|w| w.phase != Phase::Vacant);
        (held.count() + self.older.len()) as u64
    }

    fn encode(&self, slot: Slot, out: &mut Vec<u8>) {
        state::put_len(out, self.windows(slot).count());
        self.windows(slot).for_each(|window| window.encode(out));
        self.parts.encode(slot, out);
    }

    fn decode(
        &mut self,
        common: &mut Common,
        slot: Slot,
        from: &mut Reader<'_>,
    ) -> Result<(), Malformed> {
        for _ in 0..state::len(from)? {
            let window = Window::decode(from, self.wants)?;
            let scope = common.routes.scope_of(slot);
            common.timers.sooner(scope, timer_of(common, &window));
            let span = (window.start, window.end);
            let place = self.window_at(slot, span, window.phase);
            let has_older = place.has_older;
            *place = window;
            place.has_older = has_older;
        }
        self.parts.decode(slot, self.wants, from)
    }
}
