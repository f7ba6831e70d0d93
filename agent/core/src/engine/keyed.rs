//! Windows whose key has columns of tables: each reading goes under what the tables say
//! as of its time, once they are known past it. Until then it waits.
//!
//! Always: the operator's watermark is that of the readings or that up to which its
//! tables are known, whichever is less, and never goes back. So no reading that waits is
//! late, and a window closes only when all its readings have their keys.
//!
//! Bound: the readings that wait, [`crate::limits::JOIN_HELD_MAX`]; beyond, the oldest
//! goes under what is known. Keys, [`KEYED_SLOTS_MAX`]; beyond, readings of
//! new ones go under nulls.

use std::sync::Arc;

use crate::engine::config::{EngineConfig, JoinColumn, Source, WindowSpec};
use crate::engine::counters::Taken;
use crate::engine::device::Step;
use crate::engine::kernel::{At, Common, Given, Kernel, Moved, Out, Turn};
use crate::engine::lookup::{key_text, table_columns};
use crate::engine::route::{Columns, Scope, Series, Slot};
use crate::engine::state::{self, StateError, StateReader, StateWriter};
use crate::engine::table::{KeyNo, Tables};
use crate::engine::waiting::{Waiting, Waits};
use crate::json::scan::{members, text_of};
use crate::json::write_text;
use crate::limits::KEYED_SLOTS_MAX;
use crate::log::bytes::{Malformed, Reader, put_varint, put_zigzag};

/// The columns of an operator's key, and what waits for them.
#[derive(Debug)]
pub(super) struct Keyed {
    tables: Box<[OfTable]>,
    columns: Box<[Column]>,
    /// Of each series and table, one after the other; empty of a series that is not taken.
    keys: Vec<Box<[Option<KeyNo>]>>,
    /// Of each series where its last reading went.
    last: Vec<Option<Last>>,
    /// Up to where all tables are known; never goes back.
    known: i64,
    /// Watermarks of devices, where the key has the device.
    marks: Vec<i64>,
    waiting: Waiting<HeldReading>,
    /// Readings that did not wait, as too many waited, and those for which there was no
    /// key any more.
    forced: u64,
    is_touched: bool,
    kept_slots: usize,
}

#[derive(Debug)]
struct OfTable {
    table: u16,
    on: Vec<JoinColumn>,
}

#[derive(Debug)]
struct Column {
    /// Place in the operator's tables.
    table: usize,
    name: String,
    /// `,"sites.building":`
    label: String,
}

/// The rows of all tables that made a key, and its slot.
#[derive(Debug)]
struct Last {
    rows: Box<[Option<Arc<str>>]>,
    slot: Slot,
}

/// A reading that waits.
#[derive(Debug, Clone, Copy, PartialEq)]
struct HeldReading {
    input: u32,
    value: f64,
}

impl Waits for HeldReading {
    fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.input.into());
        state::put_f64(out, self.value);
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (input, value) = (state::u32(from)?, state::f64(from)?);
        Ok(Self { input, value })
    }
}

impl Keyed {
    /// `None`: the key has no column of its own; those of a window over a window are in
    /// the key of that.
    pub(super) fn new(spec: &WindowSpec, config: &EngineConfig) -> Option<Box<Self>> {
        if spec.key_columns.is_empty() || spec.from != Source::Readings {
            return None;
        }
        let mut tables: Vec<OfTable> = Vec::new();
        let mut columns = Vec::new();
        for column in &spec.key_columns {
            let of = &config.tables[usize::from(column.table)];
            let known = tables.iter().position(|t| t.table == column.table);
            let table = known.unwrap_or_else(|| {
                tables.push(OfTable {
                    table: column.table,
                    on: table_columns(of),
                });
                tables.len() - 1
            });
            let mut label = b",".to_vec();
            write_text(&format!("{}.{}", of.name, column.column), &mut label);
            label.push(b':');
            columns.push(Column {
                table,
                name: column.column.clone(),
                label: String::from_utf8_lossy(&label).into_owned(),
            });
        }
        Some(Box::new(Self {
            tables: tables.into(),
            columns: columns.into(),
            keys: Vec::new(),
            last: Vec::new(),
            known: i64::MIN,
            marks: Vec::new(),
            waiting: Waiting::default(),
            forced: 0,
            is_touched: true,
            kept_slots: 0,
        }))
    }

    /// The next series.
    pub(super) fn add_series(&mut self, series: &Series, is_taken: bool, tables: &mut Tables) {
        let (device, channel) = (&*series.names.device, &*series.names.channel);
        let of = self.tables.iter().filter(|_| is_taken).map(|of| {
            let text = key_text(&of.on, device, channel)?;
            Some(tables.watch(of.table, &text))
        });
        self.keys.push(of.collect());
        self.last.push(None);
    }

    /// Up to where all tables are known.
    pub(super) fn known(&self) -> i64 {
        self.known
    }

    pub(super) fn state_rows(&self) -> u64 {
        self.waiting.len() as u64
    }

    pub(super) fn forced(&self) -> u64 {
        self.forced
    }

    pub(super) fn changed_bytes(&self) -> usize {
        self.waiting.changed_bytes()
    }

    /// The watermarks of all devices, where they went back or are not known here.
    pub(super) fn set_marks(&mut self, series: &[Series], watermark: impl Fn(Scope) -> i64) {
        for of in series {
            self.set_mark(of.device.0, watermark(of.device.0));
        }
    }

    /// How far all tables are known now, where that is further than before.
    fn move_on(&mut self, tables: &Tables) {
        let known = self.tables.iter().map(|of| tables.known_until(of.table));
        let known = known.min().unwrap_or(i64::MAX);
        if known > self.known {
            (self.known, self.is_touched) = (known, true);
        }
    }

    fn set_mark(&mut self, scope: Scope, at: i64) {
        let index = scope as usize;
        if self.marks.len() <= index {
            self.marks.resize(index + 1, i64::MIN);
        }
        self.marks[index] = at;
    }

    fn mark(&self, scope: Scope) -> i64 {
        self.marks.get(scope as usize).copied().unwrap_or(i64::MIN)
    }

    /// The slot of a series as of a time.
    #[inline]
    fn slot<K: Kernel>(
        &mut self,
        (common, kernel): (&mut Common, &mut K),
        (input, time): (usize, i64),
        (series, tables): (&[Series], &Tables),
    ) -> Slot {
        let keys = &self.keys[input];
        let of_tables = self.tables.iter().zip(keys);
        let rows = of_tables.map(|(of, key)| key.and_then(|no| tables.as_of(of.table, no, time)));
        if let Some(last) = &self.last[input] {
            let mut pairs = rows.clone().zip(&last.rows);
            let is_same = |(now, then): (Option<&Arc<str>>, &Option<Arc<str>>)| match (now, then) {
                (Some(now), Some(then)) => Arc::ptr_eq(now, then),
                (None, None) => true,
                (Some(_), None) | (None, Some(_)) => false,
            };
            if pairs.all(is_same) {
                return last.slot;
            }
        }
        let rows: Box<[Option<Arc<str>>]> = rows.map(|row| row.cloned()).collect();
        let of_rows = |column: &Column| column.json(rows[column.table].as_deref());
        let mut columns: Columns = self.columns.iter().map(of_rows).collect();
        let series = &series[input];
        let has_room = common.routes.has_room(series, &columns, KEYED_SLOTS_MAX);
        if !has_room {
            columns = self
                .columns
                .iter()
                .map(|column| column.json(None))
                .collect();
            (self.forced, self.is_touched) = (self.forced + 1, true);
        }
        let (slot, is_new) = common.routes.slot_for(series, columns);
        if is_new {
            common.pages.touch(common.routes.len() - 1);
            kernel.add_slot();
        }
        // Not of nulls for want of room: the next one is counted as well.
        self.last[input] = has_room.then_some(Last { rows, slot });
        slot
    }

    /// Gives a reading to the kernel under its key; `watermark`: of its scope.
    fn take<K: Kernel>(
        &mut self,
        (common, kernel): (&mut Common, &mut K),
        (held, time, watermark): (HeldReading, i64, i64),
        (at, tables): (At<'_>, &Tables),
        out: &mut Out,
    ) -> Taken {
        let input = held.input as usize;
        let place = (input, time);
        let slot = self.slot((&mut *common, &mut *kernel), place, (at.series, tables));
        let given = Given {
            slot,
            scope: common.routes.scope_of(slot),
            time,
            value: held.value,
            watermark,
        };
        kernel.take(common, given, at, out)
    }

    /// Lets a reading wait; the oldest does not any longer where too many do.
    fn hold<K: Kernel>(
        &mut self,
        (common, kernel): (&mut Common, &mut K),
        (held, time): (HeldReading, i64),
        (at, tables): (At<'_>, &Tables),
        out: &mut Out,
    ) {
        self.waiting.push(time, held, None);
        if !self.waiting.is_over() {
            return;
        }
        if let Some((time, _, held)) = self.waiting.pop() {
            (self.forced, self.is_touched) = (self.forced + 1, true);
            let scope = at.series[held.input as usize].device.0;
            let watermark = match common.routes.by_device() {
                true => self.mark(scope),
                false => common.all(),
            };
            let held = (held, time, watermark.min(self.known));
            self.take((common, kernel), held, (at, tables), out);
        }
    }
}

/// The value of a column of a row as JSON, equal texts in one form.
fn column_json(row: &str, column: &str) -> Option<String> {
    let of_column = members(row).find_map(|member| match member {
        Ok((key, value)) => (key == column).then_some(value),
        Err(_) => None,
    });
    of_column.map(|value| match text_of(value) {
        Some(text) => {
            let mut json = Vec::new();
            write_text(&text, &mut json);
            String::from_utf8_lossy(&json).into_owned()
        }
        None => value.to_owned(),
    })
}

impl Column {
    fn json(&self, row: Option<&str>) -> Arc<str> {
        let value = row.and_then(|row| column_json(row, &self.name));
        let value = value.as_deref().unwrap_or("null");
        format!("{}{value}", self.label).into()
    }
}

/// Feeds a batch of readings.
pub(super) fn run_readings<K: Kernel>(
    (common, kernel): (&mut Common, &mut K),
    keyed: &mut Keyed,
    step: &Step<'_>,
    votes: &mut [u8],
    out: &mut Out,
) {
    let by_device = common.routes.by_device();
    // They move in turns; only before the first one this says something new.
    keyed.move_on(step.tables);
    for (index, vote) in votes.iter_mut().enumerate() {
        let move_of = step.moves[index];
        let (scope, before, after) = match by_device {
            true => (move_of.device.0, move_of.before, move_of.after),
            false => (0, common.all(), step.all[index]),
        };
        let at = At {
            cause: index as u32,
            series: step.series,
        };
        let input = step.batch.series[index];
        if move_of.is_seen && common.routes.takes(input.index()) {
            let time = step.batch.time[index];
            let held = HeldReading {
                input: input.0,
                value: step.batch.value[index],
            };
            let around = (at, step.tables);
            *vote |= if time < keyed.known || keyed.known == i64::MAX {
                let held = (held, time, before.min(keyed.known));
                keyed.take((&mut *common, &mut *kernel), held, around, out) as u8
            } else if !kernel.has_window_at(time) {
                Taken::Nothing as u8
            } else {
                keyed.hold((&mut *common, &mut *kernel), (held, time), around, out);
                Taken::All as u8
            };
        }
        if by_device {
            keyed.set_mark(scope, after);
        } else {
            common.set_all(after);
        }
        let after = after.min(keyed.known);
        if after > before.min(keyed.known) && common.timers.take_due(scope, after) {
            kernel.advance(common, &[(scope, after)], at, out);
        }
    }
}

/// One turn: what does not wait any longer, then watermarks, then silence.
pub(super) fn run_turn<K: Kernel>(
    (common, kernel): (&mut Common, &mut K),
    keyed: &mut Keyed,
    turn: &Turn<'_>,
    out: &mut Out,
) {
    let at = At {
        cause: 0,
        series: turn.series,
    };
    let by_device = common.routes.by_device();
    let (known_before, all_before) = (keyed.known, common.all());
    keyed.move_on(turn.tables);
    let known = keyed.known;
    loop {
        let next = match known {
            i64::MAX => keyed.waiting.pop(),
            known => keyed.waiting.pop_before(known),
        };
        let Some((time, _, held)) = next else {
            break;
        };
        let watermark = match by_device {
            true => keyed.mark(turn.series[held.input as usize].device.0),
            false => all_before,
        };
        let held = (held, time, watermark.min(known_before));
        keyed.take((&mut *common, &mut *kernel), held, (at, turn.tables), out);
    }
    for (scope, _, after) in turn.moved.iter().filter(|_| by_device) {
        keyed.set_mark(*scope, *after);
    }
    if !by_device {
        common.set_all(turn.all);
    }
    let due: Vec<Moved> = if !by_device {
        let all = turn.all.min(known);
        let due = common.timers.take_due(0, all);
        due.then_some((0, all)).into_iter().collect()
    } else if known > known_before {
        let mark = |scope| keyed.mark(scope).min(known);
        common.timers.take_all_due(known, mark)
    } else {
        let moved = turn.moved.iter();
        let moved = moved.map(|(scope, _, after)| (*scope, (*after).min(known)));
        moved
            .filter(|(scope, after)| common.timers.take_due(*scope, *after))
            .collect()
    };
    if !due.is_empty() {
        kernel.advance(common, &due, at, out);
    }
    let silent: Vec<Moved> = match by_device {
        true => turn
            .silent
            .iter()
            .map(|(s, w)| (*s, (*w).min(known)))
            .collect(),
        false if turn.all_silent => vec![(0, turn.all.min(known))],
        false => Vec::new(),
    };
    if !silent.is_empty() {
        kernel.on_idle(common, &silent, at, out);
    }
}

/// Keys of the state, behind the operator's place.
const HEAD: u8 = 0;
const SLOTS: u8 = 1;
const HELD: u8 = 2;

impl Keyed {
    pub(super) fn encode(
        &mut self,
        common: &Common,
        prefix: [u8; 3],
        writer: &mut StateWriter<'_>,
    ) {
        let key = |kind: u8| [&prefix[..], &[kind]].concat();
        if std::mem::take(&mut self.is_touched) {
            let mut blob = Vec::new();
            put_zigzag(&mut blob, self.known);
            put_varint(&mut blob, self.forced);
            writer.put(&key(HEAD), &blob);
        }
        let slots = common.routes.len();
        for page in state::new_pages(self.kept_slots, slots) {
            let mut blob = Vec::new();
            for slot in state::of_page(page, slots) {
                let slot = slot as u32;
                put_varint(&mut blob, common.routes.series_of(slot).0.into());
                let columns = common.routes.columns_of(slot).iter().zip(&self.columns);
                for (text, column) in columns {
                    let value = text.get(column.label.len()..).unwrap_or("");
                    state::put_long(&mut blob, value);
                }
            }
            writer.put(&[&key(SLOTS)[..], &page.to_be_bytes()].concat(), &blob);
        }
        self.kept_slots = slots;
        self.waiting.encode(&key(HELD), writer);
    }

    /// Reads what was kept, once all series are there; makes the slots.
    pub(super) fn decode<K: Kernel>(
        &mut self,
        (common, kernel): (&mut Common, &mut K),
        (prefix, reader): ([u8; 3], &StateReader),
        series: &[Series],
    ) -> Result<(), StateError> {
        let key = |kind: u8| [&prefix[..], &[kind]].concat();
        reader.each(&key(HEAD), |_, from| {
            (self.known, self.forced) = (from.zigzag()?, from.varint()?);
            Ok(())
        })?;
        reader.each(&key(SLOTS), |rest, from| {
            if state::page_of(rest, from)? as usize * state::PAGE != common.routes.len() {
                return Err(from.malformed());
            }
            while !from.is_at_end() {
                let of = series.get(state::u32(from)? as usize);
                let of = of.ok_or_else(|| from.malformed())?;
                let mut columns: Vec<Arc<str>> = Vec::new();
                for column in &self.columns {
                    columns.push(format!("{}{}", column.label, state::long(from)?).into());
                }
                let (_, is_new) = common.routes.slot_for(of, Columns::from(columns));
                if !is_new {
                    return Err(from.malformed());
                }
                kernel.add_slot();
            }
            Ok(())
        })?;
        self.kept_slots = common.routes.len();
        self.waiting.decode(&key(HELD), reader)?;
        self.is_touched = false;
        Ok(())
    }
}
