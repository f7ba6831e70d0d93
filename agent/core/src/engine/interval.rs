//! Interval joins: readings, or rows of windows, of two sides under one key, in pairs
//! where `left + lower <= right <= left + upper`, both inclusive. A reading may be on both
//! sides, and in a pair with itself. What finds nobody is written once, if at all: when
//! the watermark of the other side has passed its reach, or when its scope falls silent.
//!
//! Always: the lines are the same in any order of arrival inside the out-of-order bound.
//! A reading below the watermark of its scope is late. Where the device is in the key each
//! device has its own watermark, else all share one. A row of a window comes in when it is
//! final, as a pair that was written is not taken back; where tables are in its key, once
//! they are known: so each side has a mark of its own, and waits for the tables of the
//! other one no longer than that does.
//!
//! Bound: what can still match, at most [`crate::limits::JOIN_HELD_MAX`] items; of a
//! series 6 bytes. Knows no tables.

mod held;
mod input;
mod pairs;
mod unfinished;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use self::held::Held;
use self::input::{Input, tables_of};
use self::pairs::{Found, Marks, Pairs, Rule, Side};
use self::unfinished::{Unfinished, WindowId, WindowRow};
use crate::engine::config::{EngineConfig, JoinColumn, JoinSpec};
use crate::engine::counters::Taken;
use crate::engine::device::Step;
use crate::engine::join::{FedRow, FedRows, FedSides, JoinKernel, JoinOut};
use crate::engine::joined::{self, JoinKey, JoinedRow, Mark};
use crate::engine::kernel::Turn;
use crate::engine::lookup::key_text;
use crate::engine::route::{DeviceId, Scope, Series, Slot, push_tight};
use crate::engine::state::{self, StateError, StateReader, StateWriter};
use crate::engine::table::Tables;
use crate::log::bytes::{put_varint, put_zigzag};
use crate::units::Span;

/// See the module.
#[derive(Debug)]
pub(super) struct Interval {
    on: Vec<JoinColumn>,
    by_device: bool,
    sides: [Input; 2],
    /// By series.
    slot_of: Vec<Slot>,
    slots: BTreeMap<(Option<DeviceId>, Option<Arc<str>>), Slot>,
    /// By slot.
    keys: Vec<JoinKey>,
    pairs: Pairs,
    unfinished: Unfinished,
    /// Watermark over all devices as this join last saw it.
    all: i64,
    /// By side, the tables in the key of the window that it reads: its rows come no sooner
    /// than these are known.
    tables: [Vec<u16>; 2],
    /// Up to where all of these are; never goes back.
    known: [i64; 2],
    /// Rows of windows that came too late.
    late_derived: u64,
    /// What this step has found so far.
    found: Vec<Found>,
    is_touched: bool,
}

const NOT_TAKEN: Slot = Slot::MAX;

impl Interval {
    /// `lower` is not above `upper`.
    pub(super) fn new(
        spec: &JoinSpec,
        (lower, upper): (Span, Span),
        config: &EngineConfig,
    ) -> Self {
        let sides = [&spec.left, &spec.right].map(|input| Input::new(input, config));
        let tables = [&spec.left, &spec.right].map(|input| tables_of(input.from, config));
        let rule = Rule {
            lower: lower.0,
            upper: upper.0,
            join_type: spec.join_type,
            delays: [sides[0].delay, sides[1].delay],
        };
        Self {
            on: spec.on.clone(),
            by_device: !spec.crosses_devices(),
            sides,
            slot_of: Vec::new(),
            slots: BTreeMap::new(),
            keys: Vec::new(),
            pairs: Pairs::new(rule),
            unfinished: Unfinished::default(),
            all: i64::MIN,
            known: [0, 1].map(|side: usize| match tables[side].is_empty() {
                true => i64::MAX,
                false => i64::MIN,
            }),
            tables,
            late_derived: 0,
            found: Vec::new(),
            is_touched: false,
        }
    }

    /// The slot of a key, made when there is none.
    fn slot(&mut self, series: &Series) -> Slot {
        let device = self.on.contains(&JoinColumn::Device);
        let channel = self.on.contains(&JoinColumn::Channel);
        let key = (
            device.then_some(series.device),
            channel.then(|| series.names.channel.clone()),
        );
        if let Some(slot) = self.slots.get(&key) {
            return *slot;
        }
        let next = Slot::try_from(self.keys.len()).expect("fewer keys than series");
        self.slots.insert(key, next);
        let key = match &self.on[..] {
            [JoinColumn::Device] => JoinKey::Device(series.id),
            on => {
                let text = key_text(on, &series.names.device, &series.names.channel);
                text.map_or(JoinKey::Null, JoinKey::Text)
            }
        };
        push_tight(&mut self.keys, key);
        self.pairs
            .add_slot(if self.by_device { series.device.0 } else { 0 });
        next
    }

    /// Takes a reading on the sides that it belongs to, if any.
    #[inline]
    fn take_reading(
        &mut self,
        (series, time, value): (&Series, i64, f64),
        watermark: i64,
    ) -> Taken {
        let slot = self.slot_of[series.id.index()];
        if slot == NOT_TAKEN {
            return Taken::Nothing;
        }
        let mut taken = Taken::Nothing;
        for side in Side::BOTH {
            if !self.sides[side as usize].takes(series, value) {
                continue;
            }
            if time < watermark {
                return Taken::None;
            }
            let held = Held::reading(series.id.0, time, value.to_bits());
            self.pairs.take(slot, side, held, &mut self.found);
            taken = Taken::All;
        }
        taken
    }

    /// Takes the row of a window: a line at once, others when they are final.
    fn take_row(&mut self, side: Side, row: &FedRow, series: &[Series], watermark: i64) -> Scope {
        let of = &series[row.side.series.index()];
        let slot = self.slot_of[row.side.series.index()];
        let scope = self.pairs.scope_of(slot);
        let input = &mut self.sides[side as usize];
        let key = (row.side.series, row.side.columns.clone());
        let is_taken = !row.is_gone && input.accepts(of, row.value);
        let number = input.names.number(&key);
        let final_at = row.side.end.saturating_add(input.delay);
        if input.are_lines {
            if !is_taken {
                return scope;
            }
            if final_at < watermark {
                self.late_derived += 1;
                return scope;
            }
            let held = Held::reading(number, row.time, row.side.value);
            self.pairs.take(slot, side, held, &mut self.found);
            return scope;
        }
        let id = WindowId {
            side,
            of: number,
            start: row.side.start,
        };
        // One that is final by now would have come before.
        let is_new = final_at > watermark
            && match is_taken {
                true => {
                    let row = WindowRow::new((slot, scope), (row.time, row.side.value), final_at);
                    self.unfinished.put(id, row)
                }
                // It may have been of a value that the filter takes.
                false => self.unfinished.remove(id),
            };
        self.late_derived += u64::from(!is_new);
        scope
    }

    /// A window's row comes into the join.
    fn take_final(&mut self, (id, row): (WindowId, WindowRow)) {
        let mut held = Held::reading(id.of, row.time, row.value);
        held.start = id.start;
        self.pairs.take(row.slot, id.side, held, &mut self.found);
    }

    /// How far the tables are known now; gives how far they were before.
    fn move_on(&mut self, tables: &Tables) -> [i64; 2] {
        let before = self.known;
        for (known, of_side) in self.known.iter_mut().zip(&self.tables) {
            let until = of_side.iter().map(|table| tables.known_until(*table));
            *known = until.min().unwrap_or(i64::MAX).max(*known);
        }
        before
    }

    /// The marks of a scope are here now.
    #[inline]
    fn settle(&mut self, scope: Scope, marks: Marks) {
        for side in Side::BOTH {
            let of_side = (scope, side);
            while let Some(row) = self.unfinished.next_final(of_side, marks[side as usize]) {
                self.take_final(row);
            }
        }
        if self.pairs.is_due(scope, marks) {
            self.pairs.advance(scope, marks, &mut self.found);
        }
    }

    /// A scope has fallen silent.
    fn on_idle(&mut self, scope: Scope) {
        for row in self.unfinished.take_all(scope) {
            self.take_final(row);
        }
        self.pairs.on_idle(scope, &mut self.found);
    }

    /// Writes what was found, by (time, key, left, right).
    fn write(&mut self, cause: u32, series: &[Series], out: &mut JoinOut) {
        if self.found.len() > 1 {
            let keys = &self.keys;
            let times = |found: &Found| {
                // What is not there comes last.
                let time = |held: Option<Held>| held.map_or((1, 0), |held| (0, held.time));
                (time(found.left), time(found.right))
            };
            let order = |a: &Found, b: &Found| {
                let by_key = || key_order((keys, series), a.slot, b.slot);
                let by_time = a.time().cmp(&b.time());
                by_time
                    .then_with(by_key)
                    .then_with(|| times(a).cmp(&times(b)))
            };
            if !self.found.is_sorted_by(|a, b| order(a, b).is_le()) {
                self.found.sort_by(order);
            }
        }
        for found in self.found.drain(..) {
            let shown = |side: Side, held: Option<Held>| {
                let held = held.as_ref();
                held.map_or(joined::Side::Null, |held| {
                    self.sides[side as usize].shown(held)
                })
            };
            let row = JoinedRow {
                key: self.keys[found.slot as usize].clone(),
                mark: if found.idle { Mark::Idle } else { Mark::None },
                left: shown(Side::Left, found.left),
                right: shown(Side::Right, found.right),
            };
            out.push(cause, found.time(), row);
        }
    }
}

/// The order of keys in the output: by text.
fn key_order((keys, series): (&[JoinKey], &[Series]), a: Slot, b: Slot) -> Ordering {
    if a == b {
        return Ordering::Equal;
    }
    let text = |slot: Slot| match &keys[slot as usize] {
        JoinKey::Device(of) => Some(&series[of.index()].names.device),
        JoinKey::Text(text) => Some(text),
        JoinKey::Null => None,
    };
    text(a).cmp(&text(b))
}

/// The watermark of a device after a turn.
fn after(turn: &Turn<'_>, scope: Scope) -> i64 {
    let moved = turn
        .moved
        .binary_search_by_key(&scope, |(scope, _, _)| *scope);
    moved.map_or_else(|_| (turn.before)(scope), |at| turn.moved[at].2)
}

/// The marks of both sides: no further than the watermark, nor than their tables are known.
#[inline]
fn marks(watermark: i64, known: [i64; 2]) -> Marks {
    known.map(|known| watermark.min(known))
}

fn rows_of<'a>(fed: &FedSides<'a>, side: Side) -> Option<FedRows<'a>> {
    match side {
        Side::Left => fed.left,
        Side::Right => fed.right,
    }
}

impl JoinKernel for Interval {
    fn add_series(&mut self, series: &Series, _tables: &mut Tables) {
        let [left, right] = &mut self.sides;
        let (left, right) = (left.add_series(series), right.add_series(series));
        let slot = if left || right {
            self.slot(series)
        } else {
            NOT_TAKEN
        };
        push_tight(&mut self.slot_of, slot);
    }

    fn on_batch(
        &mut self,
        step: &Step<'_>,
        fed: &FedSides<'_>,
        votes: &mut [u8],
        out: &mut JoinOut,
    ) {
        self.is_touched = true;
        self.move_on(step.tables);
        let mut next = [0; 2];
        for (index, vote) in votes.iter_mut().enumerate() {
            let moved = &step.moves[index];
            let (scope, before, after) = if self.by_device {
                (moved.device.0, moved.before, moved.after)
            } else {
                (0, self.all, step.all[index])
            };
            for side in Side::BOTH {
                let Some(rows) = rows_of(fed, side) else {
                    continue;
                };
                let next = &mut next[side as usize];
                while rows.cause(*next) == Some(index as u32) {
                    if let Some(row) = rows.get(*next) {
                        let before = before.min(self.known[side as usize]);
                        self.take_row(side, &row, step.series, before);
                    }
                    *next += 1;
                }
            }
            if moved.is_seen {
                let series = &step.series[step.batch.series[index].index()];
                let reading = (series, step.batch.time[index], step.batch.value[index]);
                *vote |= self.take_reading(reading, before) as u8;
            }
            if !self.by_device {
                self.all = after;
            }
            self.settle(scope, marks(after, self.known));
            if !self.found.is_empty() {
                self.write(index as u32, step.series, out);
            }
        }
    }

    fn on_turn(&mut self, turn: &Turn<'_>, fed: &FedSides<'_>, out: &mut JoinOut) {
        self.is_touched = true;
        let known_before = self.move_on(turn.tables);
        for side in Side::BOTH {
            let Some(rows) = rows_of(fed, side) else {
                continue;
            };
            for row in (0..rows.len()).filter_map(|at| rows.get(at)) {
                let slot = self.slot_of[row.side.series.index()];
                let before = match self.by_device {
                    true => (turn.before)(self.pairs.scope_of(slot)),
                    false => self.all,
                };
                let before = marks(before, known_before);
                let scope = self.take_row(side, &row, turn.series, before[side as usize]);
                self.settle(scope, before);
            }
        }
        if self.by_device {
            for (scope, _, after) in turn.moved {
                self.settle(*scope, marks(*after, self.known));
            }
            if self.known != known_before {
                // Those whose marks were held back.
                for scope in 0..self.pairs.scopes() {
                    self.settle(scope, marks(after(turn, scope), self.known));
                }
            }
            turn.silent
                .iter()
                .for_each(|(scope, _)| self.on_idle(*scope));
        } else {
            self.all = turn.all;
            self.settle(0, marks(turn.all, self.known));
            if turn.all_silent {
                self.on_idle(0);
            }
        }
        self.write(0, turn.series, out);
    }

    fn state_rows(&self) -> u64 {
        (self.pairs.held() + self.unfinished.len()) as u64
    }

    fn forced(&self) -> u64 {
        self.pairs.crowded
    }

    fn late_derived(&self) -> u64 {
        self.late_derived
    }

    fn changed_bytes(&self) -> usize {
        (self.pairs.pages.changed() * state::PAGE + self.unfinished.changed()) * 48
    }

    fn encode(&mut self, prefix: [u8; 3], writer: &mut StateWriter<'_>) {
        if !std::mem::take(&mut self.is_touched) {
            return;
        }
        let of = |kind: u8| [&prefix[..], &[kind]].concat();
        let mut blob = Vec::new();
        put_zigzag(&mut blob, self.all);
        put_zigzag(&mut blob, self.known[0]);
        put_varint(&mut blob, self.late_derived);
        put_varint(&mut blob, self.pairs.crowded);
        put_zigzag(&mut blob, self.known[1]);
        writer.put(&of(HEAD), &blob);
        let has_start = [0, 1].map(|side| self.sides[side].reads_windows());
        // All of it: what has changed is told once, not page by page.
        while let Some(page) = self.pairs.pages.pop() {
            blob.clear();
            for slot in state::of_page(page, self.pairs.slots()) {
                self.pairs.encode(slot as Slot, has_start, &mut blob);
            }
            writer.put(&[&of(PAGE)[..], &page.to_be_bytes()].concat(), &blob);
        }
        self.unfinished.encode(&of(UNFINISHED), writer);
        for (side, input) in (0..).zip(&mut self.sides) {
            input
                .names
                .encode(&[&of(NAMES)[..], &[side]].concat(), writer);
        }
    }

    fn decode(&mut self, prefix: [u8; 3], reader: &StateReader) -> Result<(), StateError> {
        let of = |kind: u8| [&prefix[..], &[kind]].concat();
        reader.each(&of(HEAD), |_, from| {
            self.all = from.zigzag()?;
            let of_left = from.zigzag()?;
            self.late_derived = from.varint()?;
            self.pairs.crowded = from.varint()?;
            // Once there was one for both sides.
            let of_right = match from.is_at_end() {
                true => of_left,
                false => from.zigzag()?,
            };
            let kept = self.known.iter_mut().zip([of_left, of_right]);
            let waits = self.tables.iter().map(|tables| !tables.is_empty());
            for ((known, kept), _) in kept.zip(waits).filter(|(_, waits)| *waits) {
                *known = kept;
            }
            Ok(())
        })?;
        let series = self.slot_of.len();
        for (side, input) in (0..).zip(&mut self.sides) {
            input
                .names
                .decode(&[&of(NAMES)[..], &[side]].concat(), series, reader)?;
        }
        let has_start = [0, 1].map(|side| self.sides[side].reads_windows());
        let known = [0, 1].map(|side| match has_start[side] {
            true => self.sides[side].names.keys.len(),
            false => series,
        });
        let pairs = &mut self.pairs;
        reader.each(&of(PAGE), |rest, from| {
            let page = state::page_of(rest, from)?;
            for slot in state::of_page(page, pairs.slots()) {
                pairs.decode(slot as Slot, has_start, known, from)?;
            }
            Ok(())
        })?;
        let slots = pairs.slots();
        let scope_of = |slot: Slot| ((slot as usize) < slots).then(|| pairs.scope_of(slot));
        let unfinished = &mut self.unfinished;
        reader.each(&of(UNFINISHED), |_, from| {
            unfinished.decode(known, scope_of, from)
        })
    }
}

/// Keys of the state, behind the join's place.
const HEAD: u8 = 0;
const PAGE: u8 = 1;
const UNFINISHED: u8 = 2;
const NAMES: u8 = 3;
