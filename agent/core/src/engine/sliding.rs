//! Rolling windows: a line for each reading over what came in the time before
//! it. The line is written once, when the watermark has passed the reading, so
//! it does not depend on the order of arrival, and is never revised. A late
//! reading has no line of its own but counts in those still to come.
//!
//! Memory: see [`crate::engine::tail`], and 16 bytes per line to come.

use std::collections::VecDeque;

use crate::engine::config::{Bounds, Emit};
use crate::engine::counters::Taken;
use crate::engine::figures::Wants;
use crate::engine::kernel::{At, Common, Fed, Given, Kernel, Moved, Out};
use crate::engine::route::{Scope, Slot};
use crate::engine::row::{Kind, Row};
use crate::engine::tail::{Reach, Tail};
use crate::engine::value::option;
use crate::log::bytes::{Malformed, Reader};
use crate::units::Span;

/// The operator of one `[[window]]` of this kind.
#[derive(Debug)]
pub(super) struct Sliding {
    reach: Reach,
    wants: Wants,
    keys: Vec<Tail>,
    /// Of each scope the lines to come, by time; equal times in order of arrival.
    lines: Vec<VecDeque<(i64, Slot)>>,
    due: Vec<(i64, Slot)>,
}

impl Sliding {
    pub(super) fn new((size, bounds): (Span, Bounds), wants: Wants) -> Self {
        Self {
            reach: Reach {
                size: size.0,
                bounds,
            },
            wants,
            keys: Vec::new(),
            lines: Vec::new(),
            due: Vec::new(),
        }
    }

    fn lines_of(&mut self, scope: Scope) -> &mut VecDeque<(i64, Slot)> {
        let index = scope as usize;
        if self.lines.len() <= index {
            self.lines.resize_with(index + 1, VecDeque::new);
        }
        &mut self.lines[index]
    }

    fn write(&mut self, common: &Common, (slot, time): (Slot, i64), cause: u32, out: &mut Out) {
        let cells = out.rows.next_cells();
        let tail = &mut self.keys[slot as usize];
        tail.figures_at(time, self.reach, &common.aggregates, &mut out.rows.cells);
        out.rows.rows.push(Row {
            cause,
            stream: common.stream,
            kind: Kind::Line,
            is_final: true,
            idle: false,
            truncated: false,
            slot,
            revision: 0,
            cells,
            start: time,
            end: time,
        });
    }

    /// Takes the lines with time < `before` out.
    fn collect_due(&mut self, common: &mut Common, (scope, before): Moved) {
        let mut due = std::mem::take(&mut self.due);
        let lines = self.lines_of(scope);
        while let Some(line) = lines.pop_front_if(|(time, _)| *time < before) {
            due.push(line);
        }
        if let Some((next, _)) = lines.front() {
            common.timers.sooner(scope, next.saturating_add(1));
        }
        self.due = due;
    }

    fn write_due(&mut self, common: &mut Common, at: At<'_>, out: &mut Out) {
        let mut due = std::mem::take(&mut self.due);
        due.sort_by(|a, b| {
            let by_time = a.0.cmp(&b.0);
            by_time.then_with(|| common.routes.key_order(at.series, a.1, b.1))
        });
        for (time, slot) in due.drain(..) {
            common.pages.touch(slot as usize);
            self.write(common, (slot, time), at.cause, out);
        }
        self.due = due;
    }
}

impl Kernel for Sliding {
    fn add_slot(&mut self) {
        self.keys.push(Tail::new(self.wants));
    }

    fn take(&mut self, common: &mut Common, given: Given, at: At<'_>, out: &mut Out) -> Taken {
        let Given {
            slot,
            scope,
            time,
            watermark,
            ..
        } = given;
        let late = time < watermark;
        if late && !self.reach.covers(time, watermark) {
            return Taken::None;
        }
        common.pages.touch(slot as usize);
        let tail = &mut self.keys[slot as usize];
        tail.prune(watermark, self.reach);
        if let Some(x) = option(given.value) {
            tail.insert(time, x, self.reach);
        }
        if late {
            return Taken::Some;
        }
        match common.emit {
            Emit::EveryUpdate => self.write(common, (slot, time), at.cause, out),
            Emit::OnClose | Emit::FinalOnly => {
                let lines = self.lines_of(scope);
                let place = match lines.back() {
                    Some((newest, _)) if *newest > time => {
                        lines.partition_point(|(t, _)| *t <= time)
                    }
                    Some(_) | None => lines.len(),
                };
                lines.insert(place, (time, slot));
                // Due at the first watermark that is larger.
                common.timers.sooner(scope, time.saturating_add(1));
            }
        }
        Taken::All
    }

    fn take_fed(&mut self, common: &mut Common, fed: Fed<'_>, at: At<'_>, out: &mut Out) -> Taken {
        self.take(common, fed.given, at, out)
    }

    fn advance(&mut self, common: &mut Common, due: &[Moved], at: At<'_>, out: &mut Out) {
        for moved in due {
            self.collect_due(common, *moved);
        }
        self.write_due(common, at, out);
        for (scope, watermark) in due {
            // Readings go as new ones come; at the end of time none comes.
            if *watermark == i64::MAX {
                for slot in common.routes.slots_of(*scope) {
                    self.keys[*slot as usize].prune(*watermark, self.reach);
                }
            }
        }
    }

    fn on_idle(&mut self, common: &mut Common, silent: &[Moved], at: At<'_>, out: &mut Out) {
        for (scope, _) in silent {
            self.collect_due(common, (*scope, i64::MAX));
        }
        self.write_due(common, at, out);
    }

    fn state_rows(&self) -> u64 {
        self.keys.iter().map(Tail::len).sum::<usize>() as u64
    }

    fn encode(&self, _slot: Slot, _out: &mut Vec<u8>) {}

    fn decode(
        &mut self,
        _common: &mut Common,
        _slot: Slot,
        _from: &mut Reader<'_>,
    ) -> Result<(), Malformed> {
        Ok(())
    }
}
