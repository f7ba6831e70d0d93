//! Hopping windows `[start, start + size)` at every multiple of the hop: sums of
//! panes, tumbling pieces as long as the greatest common divisor of size and
//! hop. A reading goes into one pane, whatever the number of windows over it;
//! a window reads its panes, never the readings again. Hops may be longer than
//! the size, and the size need be no multiple of the hop.
//!
//! Memory: the panes between `W - size - allowed_lateness` and the newest
//! reading that hold any, and a revision number per window that was written and
//! can still change. Knows no series names and no devices' times.

use std::collections::{BTreeMap, VecDeque};

use crate::engine::chain::Parts;
use crate::engine::config::Emit;
use crate::engine::counters::Taken;
use crate::engine::figures::{Figures, Wants};
use crate::engine::grid::Grid;
use crate::engine::kernel::{At, Closing, Common, Fed, Given, Kernel, Moved, Out, WindowLine};
use crate::engine::route::Slot;
use crate::engine::row::Says;
use crate::engine::state;
use crate::engine::value::is_null;
use crate::limits::{EVENT_TIME_MAX, WINDOW_SPAN_MAX};
use crate::log::bytes::{Malformed, Reader, put_varint, put_zigzag};
use crate::units::Span;

/// The operator of one `[[window]]` of this kind.
#[derive(Debug)]
pub(super) struct Hopping {
    grid: Grid,
    wants: Wants,
    keys: Vec<Panes>,
    parts: Parts,
    due: Vec<Due>,
}

/// The state of one key.
#[derive(Debug)]
struct Panes {
    /// By start.
    panes: VecDeque<Pane>,
    /// Windows that leave at or before this watermark have left.
    left_to: i64,
    /// Windows that were written and may be again, by start.
    told: BTreeMap<i64, Told>,
}

#[derive(Debug)]
struct Pane {
    start: i64,
    /// Holds a reading that no line for idleness tells of.
    untold: bool,
    figures: Figures,
}

#[derive(Debug, Clone, Copy)]
struct Told {
    /// Of the next line.
    revision: u32,
    said_final: bool,
}

/// A window that has to be written.
#[derive(Debug, Clone, Copy)]
struct Due {
    start: i64,
    slot: Slot,
    watermark: i64,
    idle: bool,
    says: Says,
}

impl Hopping {
    pub(super) fn new((size, hop, offset): (Span, Span, Span), wants: Wants) -> Self {
        Self {
            grid: Grid::new(size, hop, offset),
            wants,
            keys: Vec::new(),
            parts: Parts::default(),
            due: Vec::new(),
        }
    }

    fn final_at(&self, common: &Common, start: i64) -> i64 {
        common.final_at(start + self.grid.size)
    }

    fn leaves_at(&self, common: &Common, start: i64) -> i64 {
        common.leaves_at(start + self.grid.size)
    }

    fn take_any(&mut self, common: &mut Common, fed: &Fed<'_>, at: At<'_>, out: &mut Out) -> Taken {
        let given = fed.given;
        let (slot, watermark) = (given.slot, given.watermark);
        let pane_at = self.grid.pane_of(given.time);
        let (mut starts, newest) = (
            self.grid.starts_over(pane_at),
            self.grid.last_start(pane_at),
        );
        let Some(oldest) = starts.next() else {
            // Between two windows: nothing takes it, and nothing refuses it. It may leave one.
            common.pages.touch(slot as usize);
            self.take_out(common, fed, (pane_at, pane_at), at, out);
            return Taken::Nothing;
        };
        if self.final_at(common, newest) <= watermark {
            return Taken::None;
        }
        common.pages.touch(slot as usize);
        let wants = self.wants;
        let key = &mut self.keys[slot as usize];
        // What was due up to here is written; a late reading now writes for itself.
        let went_back = watermark < key.left_to;
        key.left_to = watermark;
        let pane = pane_of(&mut key.panes, pane_at, wants);
        if fed.part.is_none() && !is_null(given.value) {
            pane.figures.add(given.time, given.value);
        }
        pane.untold = true;
        self.parts.put((slot, pane_at), fed, common.wants);
        self.take_out(common, fed, (pane_at, oldest), at, out);
        for start in std::iter::once(oldest).chain(starts) {
            let left = self.leaves_at(common, start) <= watermark;
            if self.final_at(common, start) <= watermark {
                continue;
            }
            if left || common.emit == Emit::EveryUpdate {
                self.write(
                    common,
                    (slot, start),
                    (watermark, false, Says::Figures),
                    at,
                    out,
                );
            }
            let timer = if left {
                self.final_at(common, start)
            } else {
                self.leaves_at(common, start)
            };
            common.timers.sooner(given.scope, timer);
            if !left && common.emit != Emit::EveryUpdate {
                // All windows from here on are open, and later.
                break;
            }
        }
        // The clock had been wrong: windows that had left are before us again.
        if went_back && let Some(next) = self.next_close(common, &self.keys[slot as usize]) {
            common.timers.sooner(given.scope, next);
        }
        if self.final_at(common, oldest) > watermark {
            Taken::All
        } else {
            Taken::Some
        }
    }

    /// A row that has moved to the pane `here` leaves the one that it was in. Windows
    /// from `next` on are over both.
    fn take_out(
        &mut self,
        common: &Common,
        fed: &Fed<'_>,
        (here, next): (i64, i64),
        at: At<'_>,
        out: &mut Out,
    ) {
        let Given {
            slot, watermark, ..
        } = fed.given;
        let moved = fed.part.filter(|_| common.source_moves);
        let Some(before) = moved.and_then(|id| self.parts.take_out((slot, here), id)) else {
            return;
        };
        let panes = &mut self.keys[slot as usize].panes;
        if let Ok(place) = panes.binary_search_by_key(&before, |pane| pane.start) {
            panes[place].untold = true;
        }
        for start in self.grid.starts_over(before).take_while(|s| *s < next) {
            let is_final = self.final_at(common, start) <= watermark;
            let left = self.leaves_at(common, start) <= watermark;
            if !is_final && (left || common.emit == Emit::EveryUpdate) {
                self.write(
                    common,
                    (slot, start),
                    (watermark, false, Says::Figures),
                    at,
                    out,
                );
            }
        }
    }

    /// Whether all that was in a window has moved on.
    fn is_deserted(&self, slot: Slot, start: i64) -> bool {
        let panes = self.keys[slot as usize].panes.iter().map(|pane| pane.start);
        let mut inside = panes.filter(|p| (start..start + self.grid.size).contains(p));
        inside.all(|pane| self.parts.is_empty((slot, pane)))
    }

    /// The figures of a window, from its panes.
    fn figures(&self, common: &Common, slot: Slot, start: i64) -> Figures {
        let panes = &self.keys[slot as usize].panes;
        let from = panes.partition_point(|pane| pane.start < start);
        let mut figures = Figures::new(self.wants);
        for pane in panes
            .range(from..)
            .take_while(|p| p.start < start + self.grid.size)
        {
            figures.merge(&pane.figures);
            if common.is_chained() {
                self.parts.add_to(&mut figures, (slot, pane.start));
            }
        }
        figures
    }

    fn write(
        &mut self,
        common: &Common,
        (slot, start): (Slot, i64),
        (watermark, idle, says): (i64, bool, Says),
        at: At<'_>,
        out: &mut Out,
    ) {
        let is_out = self.keys[slot as usize].told.contains_key(&start);
        let is_deserted = common.source_moves && self.is_deserted(slot, start);
        if is_deserted && !is_out {
            return;
        }
        let says = match says {
            Says::Figures if is_deserted => Says::Gone,
            Says::Figures | Says::OnlyFinal | Says::Gone => says,
        };
        let is_final = !idle && self.final_at(common, start) <= watermark;
        let mut figures = self.figures(common, slot, start);
        let key = &mut self.keys[slot as usize];
        let told = key.told.get(&start).copied();
        let revision = told.map_or(0, |t| t.revision);
        let line = WindowLine {
            cause: at.cause,
            slot,
            start,
            end: start + self.grid.size,
            revision,
            is_final,
            idle,
            says,
        };
        common.write(&line, &mut figures, out);
        if is_final {
            key.told.remove(&start);
        } else {
            let next = Told {
                revision: revision + 1,
                said_final: is_final,
            };
            key.told.insert(start, next);
        }
    }

    /// Start of the first window that leaves after a watermark.
    fn first_after(&self, common: &Common, watermark: i64) -> i64 {
        let length = common.leaves_at(self.grid.size);
        // No window starts beyond; the grid can be calculated up to there.
        let edge = EVENT_TIME_MAX + 2 * WINDOW_SPAN_MAX;
        let before = watermark.saturating_sub(length).clamp(-edge, edge);
        self.grid.last_start(before) + self.grid.hop
    }

    fn is_untold(&self, key: &Panes, start: i64) -> bool {
        let from = key.panes.partition_point(|pane| pane.start < start);
        let mut over = key
            .panes
            .range(from..)
            .take_while(|p| p.start < start + self.grid.size);
        over.any(|pane| pane.untold)
    }

    /// The watermark at which the next window leaves.
    fn next_close(&self, common: &Common, key: &Panes) -> Option<i64> {
        let next = self.first_after(common, key.left_to);
        let from = key
            .panes
            .partition_point(|p| self.grid.last_start(p.start) < next);
        let mut starts = self.grid.starts_from(key.panes.get(from)?.start, next);
        starts.next().map(|start| self.leaves_at(common, start))
    }
}

impl Closing for Hopping {
    fn collect_due(&mut self, common: &Common, (scope, watermark): Moved) {
        let mut due = std::mem::take(&mut self.due);
        for slot in common.routes.slots_of(scope) {
            let key = &self.keys[*slot as usize];
            let as_due = |start, says| Due {
                start,
                slot: *slot,
                watermark,
                idle: false,
                says,
            };
            let tells = |start: i64| match common.emit {
                Emit::OnClose | Emit::FinalOnly => {
                    let is_news = !key.told.contains_key(&start) || self.is_untold(key, start);
                    // What idleness told already is not told again.
                    let becomes_final =
                        common.finalize && self.final_at(common, start) <= watermark;
                    match (is_news, becomes_final) {
                        (true, _) => Some(Says::Figures),
                        (false, true) => Some(Says::OnlyFinal),
                        (false, false) => None,
                    }
                }
                Emit::EveryUpdate | Emit::Never => None,
            };
            let mut next = self.first_after(common, key.left_to);
            let from = key
                .panes
                .partition_point(|p| self.grid.last_start(p.start) < next);
            for pane in key.panes.range(from..) {
                let leaving = self.grid.starts_from(pane.start, next);
                for start in leaving.take_while(|s| self.leaves_at(common, *s) <= watermark) {
                    next = start + self.grid.hop;
                    due.extend(tells(start).map(|says| as_due(start, says)));
                }
            }
            if common.finalize {
                let over = key.told.iter().filter(|(start, told)| {
                    !told.said_final
                        && self.leaves_at(common, **start) <= key.left_to
                        && self.final_at(common, **start) <= watermark
                });
                due.extend(over.map(|(start, _)| as_due(*start, Says::OnlyFinal)));
            }
        }
        self.due = due;
    }

    fn write_due(&mut self, common: &mut Common, at: At<'_>, out: &mut Out) {
        let mut due = std::mem::take(&mut self.due);
        due.sort_unstable_by(|a, b| {
            let by_start = a.start.cmp(&b.start);
            by_start.then_with(|| common.routes.key_order(at.series, a.slot, b.slot))
        });
        for one in due.drain(..) {
            common.pages.touch(one.slot as usize);
            let id = (one.slot, one.start);
            self.write(common, id, (one.watermark, one.idle, one.says), at, out);
        }
        self.due = due;
    }

    /// Also sets the scope's timer anew.
    fn drop_final(&mut self, common: &mut Common, (scope, watermark): Moved) {
        for index in 0..common.routes.slots_of(scope).len() {
            let slot = common.routes.slots_of(scope)[index];
            let at = slot as usize;
            if self.keys[at].panes.is_empty() {
                continue;
            }
            common.pages.touch(at);
            self.keys[at].left_to = watermark;
            while let Some(start) = self.keys[at].panes.front().map(|p| p.start) {
                let gone_at = self.final_at(common, self.grid.last_start(start));
                if gone_at > watermark {
                    common.timers.sooner(scope, gone_at);
                    break;
                }
                self.keys[at].panes.pop_front();
                self.parts.forget((slot, start));
            }
            while let Some((start, _)) = self.keys[at].told.first_key_value() {
                let final_at = self.final_at(common, *start);
                if final_at > watermark {
                    common.timers.sooner(scope, final_at);
                    break;
                }
                self.keys[at].told.pop_first();
            }
            if let Some(next) = self.next_close(common, &self.keys[at]) {
                common.timers.sooner(scope, next);
            }
        }
    }
}

impl Kernel for Hopping {
    fn add_slot(&mut self) {
        self.keys.push(Panes {
            panes: VecDeque::new(),
            left_to: i64::MIN,
            told: BTreeMap::new(),
        });
    }

    fn has_window_at(&self, time: i64) -> bool {
        let pane = self.grid.pane_of(time);
        self.grid.starts_over(pane).next().is_some()
    }

    fn take(&mut self, common: &mut Common, given: Given, at: At<'_>, out: &mut Out) -> Taken {
        self.take_any(common, &Fed::reading(given), at, out)
    }

    fn take_fed(&mut self, common: &mut Common, fed: Fed<'_>, at: At<'_>, out: &mut Out) -> Taken {
        self.take_any(common, &fed, at, out)
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
                let key = &mut self.keys[*slot as usize];
                let untold = key.panes.iter_mut().filter(|pane| pane.untold);
                let mut next = i64::MIN;
                for pane in untold {
                    pane.untold = false;
                    for start in self.grid.starts_from(pane.start, next) {
                        next = start + self.grid.hop;
                        if start + self.grid.size > *watermark {
                            due.push(Due {
                                start,
                                slot: *slot,
                                watermark: *watermark,
                                idle: true,
                                says: Says::Figures,
                            });
                        }
                    }
                }
            }
        }
        self.due = due;
        self.write_due(common, at, out);
    }

    fn state_rows(&self) -> u64 {
        self.keys.iter().map(|key| key.panes.len()).sum::<usize>() as u64
    }

    fn encode(&self, slot: Slot, out: &mut Vec<u8>) {
        let key = &self.keys[slot as usize];
        put_zigzag(out, key.left_to);
        state::put_len(out, key.panes.len());
        for pane in &key.panes {
            put_zigzag(out, pane.start);
            state::put_bool(out, pane.untold);
            pane.figures.encode(out);
        }
        state::put_len(out, key.told.len());
        for (start, told) in &key.told {
            put_zigzag(out, *start);
            put_varint(out, told.revision.into());
            state::put_bool(out, told.said_final);
        }
        self.parts.encode(slot, out);
    }

    fn decode(
        &mut self,
        common: &mut Common,
        slot: Slot,
        from: &mut Reader<'_>,
    ) -> Result<(), Malformed> {
        let mut key = Panes {
            panes: VecDeque::new(),
            left_to: from.zigzag()?,
            told: BTreeMap::new(),
        };
        for _ in 0..state::len(from)? {
            key.panes.push_back(Pane {
                start: from.zigzag()?,
                untold: state::bool(from)?,
                figures: Figures::decode(from, self.wants)?,
            });
        }
        for _ in 0..state::len(from)? {
            let start = from.zigzag()?;
            let told = Told {
                revision: state::u32(from)?,
                said_final: state::bool(from)?,
            };
            key.told.insert(start, told);
        }
        let scope = common.routes.scope_of(slot);
        if let Some(pane) = key.panes.front() {
            let gone_at = self.final_at(common, self.grid.last_start(pane.start));
            common.timers.sooner(scope, gone_at);
        }
        if let Some((start, _)) = key.told.first_key_value() {
            common.timers.sooner(scope, self.final_at(common, *start));
        }
        if let Some(next) = self.next_close(common, &key) {
            common.timers.sooner(scope, next);
        }
        self.keys[slot as usize] = key;
        self.parts.decode(slot, self.wants, from)
    }
}

/// The pane that starts there, made when there is none.
fn pane_of(panes: &mut VecDeque<Pane>, start: i64, wants: Wants) -> &mut Pane {
    let found = match panes.back() {
        Some(newest) if newest.start == start => Ok(panes.len() - 1),
        Some(newest) if newest.start > start => panes.binary_search_by_key(&start, |p| p.start),
        Some(_) | None => Err(panes.len()),
    };
    let at = match found {
        Ok(at) => at,
        Err(at) => {
            let figures = Figures::new(wants);
            panes.insert(
                at,
                Pane {
                    start,
                    untold: false,
                    figures,
                },
            );
            at
        }
    };
    &mut panes[at]
}
