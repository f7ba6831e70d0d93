//! Tumbling windows `[start, end)`: when they open, close, are revised and become
//! final.
//!
//! A window is open until it is written for its close, then closed until no late
//! reading can change it, then gone. The newest window of a key stands in an array by
//! slot, so that a reading in order costs one look-up; older ones that are open stand in
//! a queue per key, since they close in order, and closed ones, which are seldom looked
//! at, in one tree. Memory: windows between `W - allowed_lateness` and the newest
//! reading, each at most 128 bytes beside the values that percentiles keep, and one such
//! place per key. Knows no series names and no devices' times.

mod held;

use self::held::{Held, Phase, Window};
use crate::engine::chain::Parts;
use crate::engine::config::{Emit, Grid};
use crate::engine::counters::Taken;
use crate::engine::figures::Wants;
use crate::engine::kernel::{At, Closing, Common, Fed, Given, Kernel, Moved, Out, WindowLine};
use crate::engine::route::Slot;
use crate::engine::row::Says;
use crate::engine::state;
use crate::engine::value::is_null;
use crate::log::bytes::{Malformed, Reader};

/// The operator of one `[[window]]` of this kind.
#[derive(Debug)]
pub(super) struct Tumbling {
    grid: Grid,
    wants: Wants,
    held: Held,
    parts: Parts,
    due: Vec<Due>,
}

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

impl Tumbling {
    pub(super) fn new(grid: Grid, wants: Wants) -> Self {
        Self {
            grid,
            wants,
            held: Held::new(wants),
            parts: Parts::default(),
            due: Vec::new(),
        }
    }

    /// Takes what is not simply the next reading of an open window.
    #[inline(never)]
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
        let window = self.held.window_at(given.slot, (start, end), phase);
        window.untold = true;
        if fed.part.is_none() && !is_null(given.value) {
            window.figures.add(given.time, given.value);
        }
        self.parts.put((given.slot, start), fed, common.wants);
        if common.source_moves {
            self.take_out(common, fed, start, at, out);
        }
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

    /// A row that has moved here leaves the window that it was in.
    fn take_out(&mut self, common: &Common, fed: &Fed<'_>, here: i64, at: At<'_>, out: &mut Out) {
        let slot = fed.given.slot;
        let before = fed.part;
        let before = before.and_then(|id| self.parts.take_out((slot, here), id));
        let Some(start) = before else {
            return;
        };
        let window = self.held.window(slot, start);
        let window = window.expect("parts go with their window");
        window.untold = true;
        if window.phase == Phase::Closed || common.emit == Emit::EveryUpdate {
            let told = (fed.given.watermark, false);
            write(common, (slot, window, &self.parts), told, at, out);
        }
    }

    /// Writes a line for a window.
    fn write(
        &mut self,
        common: &Common,
        (slot, start): (Slot, i64),
        told: (i64, bool),
        at: At<'_>,
        out: &mut Out,
    ) {
        let window = self.held.window(slot, start);
        let window = window.expect("only windows that are held are written");
        write(common, (slot, window, &self.parts), told, at, out);
    }

    fn close(&mut self, common: &Common, due: Due, at: At<'_>, out: &mut Out) {
        let Some(window) = self.held.window(due.slot, due.start) else {
            return;
        };
        window.phase = Phase::Closed;
        let becomes_final = common.finalize && common.final_at(window.end) <= due.watermark;
        let tells = match common.emit {
            // What idleness told already is not told again.
            Emit::OnClose | Emit::FinalOnly => window.untold || becomes_final,
            Emit::EveryUpdate | Emit::Never => false,
        };
        if tells {
            let told = (due.watermark, false);
            write(common, (due.slot, window, &self.parts), told, at, out);
        }
    }
}

/// Writes a line for a window, at this watermark, because of idleness or not.
fn write(
    common: &Common,
    (slot, window, parts): (Slot, &mut Window, &Parts),
    (watermark, idle): (i64, bool),
    at: At<'_>,
    out: &mut Out,
) {
    let is_deserted = common.source_moves && parts.is_empty((slot, window.start));
    if is_deserted && window.revision == 0 {
        // All that was in it has moved on before anybody was told.
        window.untold = false;
        return;
    }
    let is_final = !idle && common.final_at(window.end) <= watermark;
    let line = WindowLine {
        cause: at.cause,
        slot,
        start: window.start,
        end: window.end,
        revision: window.revision,
        is_final,
        idle,
        says: match (window.untold, is_deserted) {
            (true, false) => Says::Figures,
            (true, true) => Says::Gone,
            (false, _) => Says::OnlyFinal,
        },
    };
    window.revision += 1;
    window.untold = false;
    window.said_final = is_final;
    if common.is_chained() {
        let mut figures = window.figures.clone();
        parts.add_to(&mut figures, (slot, window.start));
        common.write(&line, &mut figures, out);
    } else {
        common.write(&line, &mut window.figures, out);
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

impl Closing for Tumbling {
    fn collect_due(&mut self, common: &Common, (scope, watermark): Moved) {
        let mut due = std::mem::take(&mut self.due);
        for slot in common.routes.slots_of(scope) {
            let one = |window: &Window, why| Due {
                end: window.end,
                start: window.start,
                slot: *slot,
                watermark,
                why,
            };
            if common.finalize {
                let closed = self.held.all_closed(*slot);
                let over = closed.take_while(|w| common.final_at(w.end) <= watermark);
                let unsaid = over.filter(|window| !window.said_final);
                due.extend(unsaid.map(|window| one(window, Why::BecameFinal)));
            }
            let open = self.held.all_open(*slot);
            let over = open.take_while(|window| common.leaves_at(window.end) <= watermark);
            due.extend(over.map(|window| one(window, Why::Close)));
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

    /// Also puts what was closed in its place, and sets the scope's timer anew.
    fn drop_final(&mut self, common: &mut Common, (scope, watermark): Moved) {
        for index in 0..common.routes.slots_of(scope).len() {
            let slot = common.routes.slots_of(scope)[index];
            let is_over = |window: &Window| common.final_at(window.end) <= watermark;
            let (parts, mut some) = (&mut self.parts, false);
            self.held.settle(slot, is_over, |start| {
                some = true;
                if common.is_chained() {
                    parts.forget((slot, start));
                }
            });
            if some {
                common.pages.touch(slot as usize);
            }
            // Those that come first of each kind: the others come later.
            let closed = self.held.all_closed(slot).next();
            let open = self.held.all_open(slot).next();
            for window in closed.into_iter().chain(open) {
                common.timers.sooner(scope, timer_of(common, window));
            }
        }
    }
}

impl Kernel for Tumbling {
    fn add_slot(&mut self) {
        self.held.add_slot();
    }

    #[inline(always)]
    fn take(&mut self, common: &mut Common, given: Given, at: At<'_>, out: &mut Out) -> Taken {
        common.pages.touch(given.slot as usize);
        let window = self.held.newest(given.slot);
        if window.is_open_at(given.time) && common.emit != Emit::EveryUpdate {
            if !is_null(given.value) {
                window.figures.add(given.time, given.value);
            }
            window.untold = true;
            return Taken::All;
        }
        self.take_slowly(common, &Fed::reading(given), at, out)
    }

    fn take_fed(&mut self, common: &mut Common, fed: Fed<'_>, at: At<'_>, out: &mut Out) -> Taken {
        common.pages.touch(fed.given.slot as usize);
        self.take_slowly(common, &fed, at, out)
    }

    fn advance(&mut self, common: &mut Common, due: &[Moved], at: At<'_>, out: &mut Out) {
        self.close_due(common, due, at, out);
    }

    fn on_idle(&mut self, common: &mut Common, silent: &[Moved], at: At<'_>, out: &mut Out) {
        if common.emit != Emit::OnClose {
            return;
        }
        let mut due = std::mem::take(&mut self.due);
        for (scope, watermark) in silent {
            for slot in common.routes.slots_of(*scope) {
                let untold = self.held.all_open(*slot).filter(|w| w.untold);
                due.extend(untold.map(|window| Due {
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
        self.held.len() as u64
    }

    fn encode(&self, slot: Slot, out: &mut Vec<u8>) {
        state::put_len(out, self.held.windows(slot).count());
        self.held
            .windows(slot)
            .for_each(|window| window.encode(out));
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
            let place = self.held.window_at(slot, span, window.phase);
            *place = window;
        }
        self.parts.decode(slot, self.wants, from)
    }
}
