//! Lines over what came before: one for each reading, over the time before it (sliding)
//! or the readings before it (rows). A line is written once, when the watermark has
//! passed its reading, so it does not depend on the order of arrival, and is never
//! revised. A late reading has no line of its own but counts in those still to come.
//!
//! What the readings are kept in is a [`History`]. Memory: that, and 16 bytes per line
//! to come.

use std::collections::VecDeque;
use std::fmt::Debug;

use crate::engine::config::{Aggregate, Emit};
use crate::engine::counters::Taken;
use crate::engine::figures::Wants;
use crate::engine::kernel::{At, Common, Fed, Given, Kernel, Moved, Out};
use crate::engine::route::{Scope, Slot};
use crate::engine::row::{Kind, Row, Says};
use crate::engine::state::{self, Pages, StateError, StateReader, StateWriter};
use crate::engine::tail::{Reach, Tail};
use crate::engine::value::is_null;
use crate::limits::{TAIL_READINGS_MAX, TAILS_READINGS_MAX};
use crate::log::bytes::{Malformed, Reader, put_varint, put_zigzag};

/// Where a reading went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Put {
    /// Into its place.
    New,
    /// Nowhere: no line for a reading at the watermark or later reaches it.
    Refused,
    /// Into the place of the row that it replaces.
    Replaced,
    /// Into its place, out of another one; the time of a line to come that goes with it.
    Moved(Option<i64>),
    /// Out of its place, and nowhere else; the same.
    Gone(Option<i64>),
}

/// The readings of one key that lines to come can reach.
pub(super) trait History: Debug {
    /// What a line reaches back to.
    type Rule: Copy + Debug;

    fn new(wants: Wants) -> Self;

    /// Puts a reading in, or a row of another operator, wherever its time is. `again`: a
    /// row that replaces one gets a line of its own.
    fn put(&mut self, rule: Self::Rule, fed: &Fed<'_>, watermark: i64, again: bool) -> Put;

    /// Appends the figures of the line for the reading at this time; of several the
    /// first that was not asked for yet.
    fn write(
        &mut self,
        rule: Self::Rule,
        time: i64,
        aggregates: &[Aggregate],
        cells: &mut Vec<u64>,
    );

    /// The line for the reading at this time is not written: nobody reads it.
    fn pass(&mut self, _rule: Self::Rule, _time: i64) {}

    /// Drops what no line for a reading at the watermark or later reaches.
    fn prune(&mut self, rule: Self::Rule, watermark: i64);

    /// Readings held.
    fn len(&self) -> usize;

    fn encode(&self, out: &mut Vec<u8>);

    /// Reads into one that is empty.
    fn decode(&mut self, from: &mut Reader<'_>) -> Result<(), Malformed>;

    /// The oldest readings leave although lines to come reach them.
    fn drop_oldest(&mut self, _count: usize) {}

    /// Whether the last line written lacks readings that left so.
    fn is_truncated(&self, _rule: Self::Rule) -> bool {
        false
    }

    /// Gives what is kept beside that and changed since the last call, by number; none:
    /// it is gone.
    fn encode_changes(&mut self, _put: &mut dyn FnMut(u64, Option<&[u8]>)) {}

    /// Reads what that gave, in order of numbers.
    fn decode_change(&mut self, _number: u64, _bytes: &[u8]) -> Result<(), Malformed> {
        Err(Malformed { position: 0 })
    }

    /// All was read.
    fn restored(&mut self, _rule: Self::Rule) -> Result<(), Malformed> {
        Ok(())
    }
}

impl History for Tail {
    type Rule = Reach;

    fn new(wants: Wants) -> Self {
        Self::new(wants)
    }

    fn put(&mut self, reach: Reach, fed: &Fed<'_>, watermark: i64, _again: bool) -> Put {
        let (time, value) = (fed.given.time, fed.given.value);
        if time < watermark && !reach.covers(time, watermark) {
            return Put::Refused;
        }
        if !is_null(value) {
            self.insert(time, value, reach);
        }
        Put::New
    }

    fn write(&mut self, reach: Reach, time: i64, aggregates: &[Aggregate], cells: &mut Vec<u64>) {
        self.figures_at(time, reach, aggregates, cells);
    }

    fn pass(&mut self, reach: Reach, time: i64) {
        // So that who asks for a later time does not go through all of the window.
        self.move_to(time, reach);
    }

    fn prune(&mut self, reach: Reach, watermark: i64) {
        self.prune(watermark, reach);
    }

    fn len(&self) -> usize {
        self.len()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        self.encode(out);
    }

    fn decode(&mut self, from: &mut Reader<'_>) -> Result<(), Malformed> {
        self.decode(from)
    }

    fn drop_oldest(&mut self, count: usize) {
        self.drop_oldest(count);
    }

    fn is_truncated(&self, reach: Reach) -> bool {
        self.is_truncated(reach)
    }

    fn encode_changes(&mut self, put: &mut dyn FnMut(u64, Option<&[u8]>)) {
        self.encode_changes(put);
    }

    fn decode_change(&mut self, number: u64, bytes: &[u8]) -> Result<(), Malformed> {
        self.decode_chunk(number, bytes)
    }

    fn restored(&mut self, rule: Reach) -> Result<(), Malformed> {
        self.restored(rule)
    }
}

/// Kinds of entries beside the pages of slots: lines to come, by page of scopes, and
/// what a history keeps by itself, by slot and number.
const LINES: u8 = 0;
const HISTORY: u8 = 1;

/// The operator of one `[[window]]` of these kinds.
#[derive(Debug)]
pub(super) struct Sliding<H: History> {
    rule: H::Rule,
    wants: Wants,
    keys: Vec<H>,
    /// Of each scope the lines to come, by time; equal times in order of arrival.
    lines: Vec<VecDeque<(i64, Slot)>>,
    /// Scopes whose lines changed since the last checkpoint.
    changed: Pages,
    /// Slots whose history did.
    touched: Pages,
    /// Readings of all histories.
    held: usize,
    due: Vec<(i64, Slot)>,
}

/// What is held goes at the end of time.
const HELD_UNTIL: i64 = i64::MAX;

impl Sliding<Tail> {
    /// The figures of the window of a key that ends at `time`: count, mean, min, max and
    /// sum; `None` where readings of it have left early.
    pub(super) fn look(&mut self, slot: Slot, time: i64) -> Option<[u64; 5]> {
        self.keys.get_mut(slot as usize)?.look(time, self.rule)
    }
}

impl<H: History> Sliding<H> {
    pub(super) fn rule(&self) -> H::Rule {
        self.rule
    }

    pub(super) fn new(rule: H::Rule, wants: Wants) -> Self {
        Self {
            rule,
            wants,
            keys: Vec::new(),
            lines: Vec::new(),
            changed: Pages::default(),
            touched: Pages::default(),
            held: 0,
            due: Vec::new(),
        }
    }

    fn lines_of(&mut self, scope: Scope) -> &mut VecDeque<(i64, Slot)> {
        let index = scope as usize;
        self.changed.touch(index);
        if self.lines.len() <= index {
            self.lines.resize_with(index + 1, VecDeque::new);
        }
        &mut self.lines[index]
    }

    fn add_line(&mut self, (scope, slot): (Scope, Slot), time: i64) {
        let lines = self.lines_of(scope);
        let place = match lines.back() {
            Some((newest, _)) if *newest > time => lines.partition_point(|(t, _)| *t <= time),
            Some(_) | None => lines.len(),
        };
        lines.insert(place, (time, slot));
    }

    fn remove_line(&mut self, (scope, slot): (Scope, Slot), time: i64) {
        let lines = self.lines_of(scope);
        let from = lines.partition_point(|(t, _)| *t < time);
        let place = lines.range(from..).position(|line| *line == (time, slot));
        if let Some(place) = place {
            lines.remove(from + place);
        }
    }

    fn write(&mut self, common: &Common, (slot, time): (Slot, i64), cause: u32, out: &mut Out) {
        let history = &mut self.keys[slot as usize];
        if common.emit == Emit::Never {
            return history.pass(self.rule, time);
        }
        let cells = out.rows.next_cells();
        history.write(self.rule, time, &common.aggregates, &mut out.rows.cells);
        out.rows.rows.push(Row {
            cause,
            stream: common.stream,
            kind: Kind::Line,
            says: Says::Figures,
            is_final: true,
            idle: false,
            truncated: history.is_truncated(self.rule),
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
        if due.len() > 1 {
            // Stable: lines of one key at one time stay in order of arrival.
            due.sort_by(|a, b| {
                let by_time = a.0.cmp(&b.0);
                by_time.then_with(|| common.routes.key_order(at.series, a.1, b.1))
            });
        }
        for (time, slot) in due.drain(..) {
            common.pages.touch(slot as usize);
            self.touched.touch(slot as usize);
            self.write(common, (slot, time), at.cause, out);
        }
        self.due = due;
    }
}

impl<H: History> Kernel for Sliding<H> {
    fn add_slot(&mut self) {
        self.keys.push(H::new(self.wants));
    }

    fn take(&mut self, common: &mut Common, given: Given, at: At<'_>, out: &mut Out) -> Taken {
        self.take_fed(common, Fed::reading(given), at, out)
    }

    fn take_fed(&mut self, common: &mut Common, fed: Fed<'_>, at: At<'_>, out: &mut Out) -> Taken {
        let Given {
            slot,
            scope,
            time,
            watermark,
            ..
        } = fed.given;
        let at_once = common.emit == Emit::EveryUpdate;
        let history = &mut self.keys[slot as usize];
        self.held -= history.len();
        history.prune(self.rule, watermark);
        common.pages.touch(slot as usize);
        self.touched.touch(slot as usize);
        let put = history.put(self.rule, &fed, watermark, at_once);
        let fits = self.held + history.len() <= TAILS_READINGS_MAX;
        if !fits || history.len() > TAIL_READINGS_MAX {
            history.drop_oldest(1);
        }
        self.held += history.len();
        common.timers.sooner(scope, HELD_UNTIL);
        let has_line = match put {
            Put::Refused => return Taken::None,
            Put::New => true,
            Put::Replaced => at_once,
            Put::Gone(line) => {
                if let Some(line) = line {
                    self.remove_line((scope, slot), line);
                }
                return Taken::All;
            }
            Put::Moved(None) => true,
            Put::Moved(Some(line)) => {
                self.remove_line((scope, slot), line);
                true
            }
        };
        if time < watermark {
            return Taken::Some;
        }
        if has_line && at_once {
            self.write(common, (slot, time), at.cause, out);
        } else if has_line {
            self.add_line((scope, slot), time);
            // Due at the first watermark that is larger.
            common.timers.sooner(scope, time.saturating_add(1));
        }
        Taken::All
    }

    fn advance(&mut self, common: &mut Common, due: &[Moved], at: At<'_>, out: &mut Out) {
        for moved in due {
            self.collect_due(common, *moved);
        }
        self.write_due(common, at, out);
        for (scope, watermark) in due {
            // Readings go as new ones come; then none comes.
            if *watermark == HELD_UNTIL {
                for slot in common.routes.slots_of(*scope) {
                    common.pages.touch(*slot as usize);
                    self.touched.touch(*slot as usize);
                    let history = &mut self.keys[*slot as usize];
                    self.held -= history.len();
                    history.prune(self.rule, *watermark);
                    self.held += history.len();
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
        self.held as u64
    }

    fn encode(&self, slot: Slot, out: &mut Vec<u8>) {
        self.keys[slot as usize].encode(out);
    }

    fn decode(
        &mut self,
        _common: &mut Common,
        slot: Slot,
        from: &mut Reader<'_>,
    ) -> Result<(), Malformed> {
        self.keys[slot as usize].decode(from)
    }

    fn encode_more(&mut self, prefix: &[u8], writer: &mut StateWriter<'_>) {
        while let Some(page) = writer.next(&mut self.touched) {
            for slot in state::of_page(page, self.keys.len()) {
                let slot_key = (slot as u32).to_be_bytes();
                self.keys[slot].encode_changes(&mut |number, bytes| {
                    let key = [prefix, &[HISTORY], &slot_key, &number.to_be_bytes()].concat();
                    match bytes {
                        Some(bytes) => writer.put(&key, bytes),
                        None => writer.gone(&key),
                    }
                });
            }
        }
        while let Some(page) = writer.next(&mut self.changed) {
            let mut blob = Vec::new();
            for scope in state::of_page(page, self.lines.len()) {
                state::put_len(&mut blob, self.lines[scope].len());
                for (time, slot) in &self.lines[scope] {
                    put_zigzag(&mut blob, *time);
                    put_varint(&mut blob, (*slot).into());
                }
            }
            writer.put(&[prefix, &[LINES], &page.to_be_bytes()].concat(), &blob);
        }
    }

    fn decode_more(
        &mut self,
        common: &mut Common,
        prefix: &[u8],
        reader: &StateReader,
    ) -> Result<(), StateError> {
        reader.each(&[prefix, &[HISTORY]].concat(), |rest, from| {
            let bad = from.malformed();
            let (slot, number) = rest.split_first_chunk().ok_or(bad)?;
            let number = u64::from_be_bytes(number.try_into().map_err(|_| bad)?);
            let slot = u32::from_be_bytes(*slot) as usize;
            let history = self.keys.get_mut(slot).ok_or(bad)?;
            history.decode_change(number, from.take(from.remaining())?)
        })?;
        for (slot, history) in (0..).zip(&mut self.keys) {
            history.restored(self.rule).map_err(|at| StateError {
                key: prefix.to_vec(),
                position: at.position,
            })?;
            self.held += history.len();
            if history.len() > 0 {
                let scope = common.routes.scope_of(slot);
                common.timers.sooner(scope, HELD_UNTIL);
            }
        }
        reader.each(&[prefix, &[LINES]].concat(), |rest, from| {
            let page = state::page_of(rest, from)?;
            for scope in state::of_page(page, usize::MAX) {
                if from.is_at_end() {
                    break;
                }
                let scope = Scope::try_from(scope).map_err(|_| from.malformed())?;
                for _ in 0..state::len(from)? {
                    let line = (from.zigzag()?, state::u32(from)?);
                    let known = (line.1 as usize) < self.keys.len();
                    if !known || common.routes.scope_of(line.1) != scope {
                        return Err(from.malformed());
                    }
                    self.lines_of(scope).push_back(line);
                    common.timers.sooner(scope, line.0.saturating_add(1));
                }
            }
            Ok(())
        })?;
        self.changed.clear();
        Ok(())
    }
}
