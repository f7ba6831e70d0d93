//! Windows over event time: a pure function of the readings it is given, and of
//! the control lines between them. Equal input gives equal rows, byte for byte,
//! in any batches; any order of arrival inside the out-of-order bound gives the
//! same final rows.
//!
//! A batch goes through in passes. The first, in `device`, judges each reading and moves
//! its device's watermark; then each operator runs over the whole batch, sources before
//! readers; last, their rows are put in order of cause. Memory is bounded by the number
//! of series and by what their windows hold. Knows no clock, no log and no text format.

mod batch;
pub mod calendar;
mod chain;
pub mod config;
pub mod counters;
mod device;
mod figures;
pub mod filter;
mod grid;
mod hopping;
pub mod identity;
mod inner;
mod interval;
mod join;
mod joined;
mod kernel;
mod keyed;
mod least;
mod lookup;
mod operator;
pub mod rolling;
mod route;
pub mod row;
mod rows;
mod session;
mod sliding;
pub mod state;
mod table;
mod table_join;
mod tail;
mod tumbling;
pub mod value;
mod waiting;

use std::fmt;
use std::sync::Arc;

use crate::change::Change;
use crate::engine::config::{EngineConfig, Source};
use crate::engine::counters::{Counters, Verdict};
use crate::engine::device::{Devices, Passed, Step};
use crate::engine::join::Join;
use crate::engine::kernel::Turn;
use crate::engine::operator::Operator;
use crate::engine::row::{Aside, Row, RowView, Rows, Stream, StreamId};
use crate::engine::state::{Parts, StateEntry, StateError, StateReader, StateWriter};
use crate::engine::table::{Changed, Tables};
use crate::limits::{SERIES_MAX, SERIES_NAME_BYTES_MAX};
use crate::log::bytes::{put_varint, put_zigzag};
use crate::units::{EventTime, Span};

pub use self::batch::Batch;
pub use self::route::{DeviceId, SeriesId};
pub use self::table::{TableCounters, TableSummary};

/// A series that the engine does not take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeriesError {
    /// There are [`SERIES_MAX`] already.
    TooMany,
    /// A name is empty or longer than [`SERIES_NAME_BYTES_MAX`].
    BadName,
}

impl fmt::Display for SeriesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany => write!(f, "more than {SERIES_MAX} series"),
            Self::BadName => write!(
                f,
                "device and channel need names of 1 to {SERIES_NAME_BYTES_MAX} bytes"
            ),
        }
    }
}

impl std::error::Error for SeriesError {}

/// All windows of a pipeline.
#[derive(Debug)]
pub struct Engine {
    /// What one reads stands before it.
    operators: Vec<Operator>,
    joins: Vec<Join>,
    tables: Tables,
    devices: Devices,
    /// Streams `late` and `quarantine`.
    asides: [Stream; 2],
    future_guard: Span,
    /// The gateway's clock as the input told it; never goes back while it holds.
    now: Option<EventTime>,
    /// It did not hold, and has said nothing since.
    lost: bool,
    passed: Passed,
    votes: Vec<u8>,
    set_aside: Rows,
    order: Vec<(u32, u16, u32)>,
    parts: Parts,
    /// Something came since the last changes were taken.
    changed: bool,
}

/// What a turn does to watermarks of devices.
#[derive(Debug, Clone, Copy, Default)]
struct Moves<'a> {
    /// Device, watermark before and after.
    moved: &'a [(u32, i64, i64)],
    /// Devices that fell silent, with their watermarks.
    silent: &'a [(u32, i64)],
    all_silent: bool,
}

/// Version of the entries of [`Engine::take_changes`].
pub const STATE_VERSION: u8 = 1;
const HEAD_KEY: &[u8] = b"e";

impl Engine {
    /// An engine that has seen nothing.
    ///
    /// # Panics
    /// When there are more windows than [`crate::limits::WINDOWS_MAX`], or more joins than
    /// [`crate::limits::JOINS_MAX`], which the config refuses.
    #[must_use]
    pub fn new(config: &EngineConfig) -> Self {
        let operators = config.windows.iter().enumerate();
        let crossed = config.windows.iter().any(|window| !window.key.device)
            || config.joins.iter().any(config::JoinSpec::crosses_devices);
        let joins = config.joins.iter().enumerate();
        let aside = |name| Stream::new(name, config::KeySpec::DEVICE_CHANNEL, &[], 0);
        Self {
            operators: operators
                .map(|(at, spec)| Operator::new(at, spec, config))
                .collect(),
            joins: joins
                .map(|(at, spec)| Join::new(at, spec, config))
                .collect(),
            tables: Tables::new(&config.tables),
            devices: Devices::new(&config.time, crossed),
            asides: [aside("late"), aside("quarantine")],
            future_guard: config.time.future_guard,
            now: None,
            lost: false,
            passed: Passed::default(),
            votes: Vec::new(),
            set_aside: Rows::new(),
            order: Vec::new(),
            parts: Parts::default(),
            changed: false,
        }
    }

    /// The id of a series, the same at every call. Ids count up from 0.
    ///
    /// # Errors
    /// When the series is not known yet and cannot be taken.
    pub fn series(&mut self, device: &str, channel: &str) -> Result<SeriesId, SeriesError> {
        if let Some(id) = self.devices.find(device, channel) {
            return Ok(id);
        }
        let fits = |name: &str| (1..=SERIES_NAME_BYTES_MAX).contains(&name.len());
        if !fits(device) || !fits(channel) {
            return Err(SeriesError::BadName);
        }
        self.changed = true;
        let added = self.devices.add(device, channel);
        let id = added.ok_or(SeriesError::TooMany)?.id;
        let all = self.devices.series();
        let series = &all[id.index()];
        for at in 0..self.operators.len() {
            let (before, rest) = self.operators.split_at_mut(at);
            match rest[0].source() {
                Source::Readings => rest[0].add_series(series, &mut self.tables),
                Source::Window(from) => rest[0].add_slots_of(&before[usize::from(from)], all),
            }
        }
        for join in &mut self.joins {
            join.add_series(series, &mut self.tables);
        }
        Ok(id)
    }

    /// The id of a series that was seen before.
    #[must_use]
    pub fn find_series(&self, device: &str, channel: &str) -> Option<SeriesId> {
        self.devices.find(device, channel)
    }

    /// The id with this number, if it was given.
    #[must_use]
    pub fn series_at(&self, number: u32) -> Option<SeriesId> {
        let known = self.devices.series().len();
        ((number as usize) < known).then_some(SeriesId(number))
    }

    /// Takes readings in order; the rows are the same as one by one. Rows are appended
    /// to `out`, whose causes are places in this batch.
    pub fn on_batch(&mut self, batch: &Batch, out: &mut Rows) {
        if batch.is_empty() {
            return;
        }
        self.changed = true;
        let clock = (self.now, self.future_guard);
        let (passed, set_aside) = (&mut self.passed, &mut self.set_aside);
        self.devices.pass(batch, clock, passed, set_aside);
        self.votes.clear();
        self.votes.resize(batch.len(), 0);
        let step = Step {
            batch,
            moves: &passed.moves,
            all: &passed.all,
            series: self.devices.series(),
            tables: &self.tables,
            now: self.now.map(|now| now.0),
        };
        for at in 0..self.operators.len() {
            let (before, rest) = self.operators.split_at_mut(at);
            let operator = &mut rest[0];
            match operator.source() {
                Source::Readings => operator.on_readings(&step, &mut self.votes),
                Source::Window(from) => {
                    let source = &before[usize::from(from)];
                    operator.add_slots_of(source, step.series);
                    let source = source.as_source(operator.common.value_at);
                    operator.on_fed(&step, source);
                }
            }
        }
        for join in &mut self.joins {
            join.on_batch(&step, &self.operators, &mut self.votes);
        }
        self.judge(batch);
        self.put_in_order(out);
    }

    /// The verdicts of the readings that operators saw.
    fn judge(&mut self, batch: &Batch) {
        for (index, votes) in self.votes.iter().enumerate() {
            match Verdict::of(*votes) {
                Verdict::Accepted => {}
                Verdict::LatePartial => {
                    self.devices
                        .count(batch.series[index], |counters| counters.late_partial += 1);
                }
                Verdict::LateAll => {
                    self.devices
                        .count(batch.series[index], |counters| counters.late_all += 1);
                    device::aside(batch, index, Aside::LateAll, &mut self.set_aside);
                }
            }
        }
        // The first pass set readings aside that came between these.
        self.set_aside.rows.sort_by_key(|row| row.cause);
    }

    /// Gives the rows of all operators in order of cause, then of the pipeline; what
    /// stands aside comes last.
    fn put_in_order(&mut self, out: &mut Rows) {
        for operator in &mut self.operators {
            operator.out.figures.clear();
        }
        let filled = self.lists().filter(|rows| !rows.is_empty()).count();
        if filled < 2 {
            let windows = self.operators.iter_mut().map(|op| &mut op.out.rows);
            let joins = self.joins.iter_mut().map(|join| &mut join.out.rows);
            let lists = windows.chain(joins).chain([&mut self.set_aside]);
            lists
                .filter(|rows| !rows.is_empty())
                .for_each(|rows| out.append(rows));
            return;
        }
        let mut order = std::mem::take(&mut self.order);
        order.clear();
        for (list, rows) in (0..).zip(self.lists()) {
            let places = (0..).zip(rows.as_slice());
            order.extend(places.map(|(at, row)| (row.cause, list, at)));
        }
        // By cause; stable, and made of few lists that are in order.
        order.sort_by_key(|(cause, _, _)| *cause);
        let windows = self.operators.len();
        for (_, list, at) in &order {
            let (list, at) = (usize::from(*list), *at as usize);
            if let Some(join) = list
                .checked_sub(windows)
                .and_then(|at| self.joins.get_mut(at))
            {
                let rows = &mut join.out.rows;
                let row = rows.rows[at];
                let joined = std::mem::take(&mut rows.joined[row.cells as usize]);
                let cells = out.next_joined();
                out.joined.push(joined);
                out.rows.push(Row { cells, ..row });
                continue;
            }
            let (rows, cells) = match self.operators.get(list) {
                Some(operator) => (&operator.out.rows, operator.common.aggregates.len()),
                None => (&self.set_aside, 1),
            };
            let row = rows.rows[at];
            let first = row.cells as usize;
            let next = out.next_cells();
            out.cells
                .extend_from_slice(&rows.cells[first..first + cells]);
            out.rows.push(Row { cells: next, ..row });
        }
        self.order = order;
        for operator in &mut self.operators {
            operator.out.rows.clear();
        }
        for join in &mut self.joins {
            join.out.rows.clear();
        }
        self.set_aside.clear();
    }

    /// What all operators have written in this step, in the order of the pipeline.
    fn lists(&self) -> impl Iterator<Item = &Rows> {
        let windows = self.operators.iter().map(|op| &op.out.rows);
        let joins = self.joins.iter().map(|join| &join.out.rows);
        windows.chain(joins).chain([&self.set_aside])
    }

    /// Nothing with a smaller time is still expected of a device, or of all,
    /// also of those first seen later. Never goes back.
    pub fn on_watermark(&mut self, device: Option<&str>, time: EventTime, out: &mut Rows) {
        let moved = self.devices.raise_floor(device, time);
        if device.is_none() {
            self.tables.raise_floor(time);
        }
        let moves = Moves {
            moved: &moved,
            ..Moves::default()
        };
        self.turn(moves, None, out);
    }

    /// A row of a table was inserted, updated or deleted, or the table is known up to a
    /// time. Changes of tables that no join and no window uses are passed over.
    pub fn on_change(&mut self, change: &Change, out: &mut Rows) {
        let latest = self
            .now
            .map_or(i64::MAX, |now| now.0.saturating_add(self.future_guard.0));
        let changed = self.tables.apply(change, latest);
        self.turn(Moves::default(), changed.as_ref(), out);
        self.tables.prune();
    }

    /// The gateway's clock says this: drives the future guard and idleness. A
    /// step back is not followed.
    pub fn on_clock(&mut self, time: EventTime, out: &mut Rows) {
        let now = self.now.map_or(time, |now| now.max(time));
        self.now = Some(now);
        if std::mem::take(&mut self.lost) {
            let latest = now.0.saturating_add(self.future_guard.0);
            self.devices.forget_after(latest);
            self.tell_watermarks();
        }
        self.tables.on_clock(Some(now));
        let silent = self.devices.fallen_idle(now);
        let all_silent = !silent.is_empty() && self.devices.all_silent();
        let moves = Moves {
            silent: &silent,
            all_silent,
            ..Moves::default()
        };
        self.turn(moves, None, out);
        self.tables.prune();
    }

    /// What the clock said so far does not hold: until it says something again nothing is
    /// judged by it, and who was heard before counts as heard then. Watermarks that are
    /// past what the future guard then lets pass start anew.
    pub fn on_clock_lost(&mut self) {
        self.changed = true;
        (self.now, self.lost) = (None, true);
        self.devices.forget_clock();
        self.tables.on_clock(None);
        self.joins.iter_mut().for_each(Join::on_clock_lost);
    }

    /// Sets readings aside whose time nobody knows. They are not counted.
    pub fn set_aside_all(&mut self, batch: &Batch, out: &mut Rows) {
        (0..batch.len()).for_each(|index| device::aside(batch, index, Aside::Clock, out));
    }

    /// The input is over: everything closes.
    pub fn finish(&mut self, out: &mut Rows) {
        self.on_watermark(None, EventTime(i64::MAX), out);
    }

    /// Watermarks of devices are not what they were in the last step.
    fn tell_watermarks(&mut self) {
        let devices = &self.devices;
        for operator in &mut self.operators {
            let watermark = |scope| devices.watermark(DeviceId(scope));
            operator.set_watermarks(devices.series(), watermark);
        }
    }

    fn turn(
        &mut self,
        Moves {
            moved,
            silent,
            all_silent,
        }: Moves<'_>,
        changed: Option<&Changed>,
        out: &mut Rows,
    ) {
        self.changed = true;
        let devices = &self.devices;
        let before = |scope| {
            let at = moved.binary_search_by_key(&scope, |(scope, _, _)| *scope);
            at.map_or_else(|_| devices.watermark(DeviceId(scope)), |at| moved[at].1)
        };
        let turn = Turn {
            moved,
            all: devices.all(),
            silent,
            all_silent,
            series: devices.series(),
            before: &before,
            tables: &self.tables,
            now: self.now.map(|now| now.0),
        };
        for at in 0..self.operators.len() {
            let (before, rest) = self.operators.split_at_mut(at);
            let operator = &mut rest[0];
            let source = match operator.source() {
                Source::Readings => None,
                Source::Window(from) => {
                    let source = &before[usize::from(from)];
                    operator.add_slots_of(source, turn.series);
                    Some(source.as_source(operator.common.value_at))
                }
            };
            operator.on_turn(&turn, source);
        }
        for join in &mut self.joins {
            join.on_turn(&turn, &self.operators, changed);
        }
        self.put_in_order(out);
    }

    /// The verdicts over all devices.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.devices.total()
    }

    /// The verdicts per device, by name.
    pub fn device_counters(&self) -> impl Iterator<Item = (&str, Counters)> {
        self.devices.counters()
    }

    /// Rows of other windows that came late, by the stream that refused them; only
    /// where there are any.
    pub fn late_derived(&self) -> impl Iterator<Item = (&str, u64)> {
        let counts = self.operators.iter();
        let counts = counts.map(|op| (&*op.stream.name, op.common.late_derived));
        let of_joins = self.joins.iter();
        let of_joins = of_joins.map(|join| (&*join.stream.name, join.late_derived()));
        let counts = counts.chain(of_joins);
        counts.filter(|(_, count)| *count > 0)
    }

    /// Rows held by windows and joins; those of tables are not counted.
    #[must_use]
    pub fn state_rows(&self) -> u64 {
        let windows = self.operators.iter().map(Operator::state_rows);
        let joins = self.joins.iter().map(Join::state_rows);
        windows.chain(joins).sum()
    }

    /// What each table holds, in config order.
    pub fn tables(&self) -> impl Iterator<Item = TableSummary<'_>> {
        self.tables.summaries()
    }

    /// Readings and rows that a window or join did not let wait until all was known, as too
    /// many waited, by its stream; only where there are any.
    pub fn forced(&self) -> impl Iterator<Item = (&str, u64)> {
        let windows = self.operators.iter();
        let windows = windows.map(|op| (&*op.stream.name, op.forced()));
        let joins = self.joins.iter();
        let joins = joins.map(|join| (&*join.stream.name, join.forced()));
        windows.chain(joins).filter(|(_, count)| *count > 0)
    }

    /// Whether readings or rows wait until a table is known past their time.
    #[must_use]
    pub fn waits_for_tables(&self) -> bool {
        self.joins.iter().any(Join::waits) || self.operators.iter().any(Operator::waits)
    }

    /// Nothing with a smaller time is still expected of this device. `None` when
    /// it is not known or has sent nothing yet.
    #[must_use]
    pub fn watermark(&self, device: &str) -> Option<EventTime> {
        let at = self.devices.watermark(self.devices.id(device)?);
        (at > i64::MIN).then_some(EventTime(at))
    }

    /// The gateway's clock as the input told it last.
    #[must_use]
    pub fn clock(&self) -> Option<EventTime> {
        self.now
    }

    /// The next time of the gateway's clock at which a device falls idle; one that is
    /// later than `now` may be too early. The smallest where the clock is to say anything
    /// at all first. `None`: there is nobody to fall idle.
    pub fn next_idle(&mut self, now: EventTime) -> Option<EventTime> {
        self.devices.next_idle(now)
    }

    /// A row with its names and figures.
    ///
    /// # Panics
    /// When the row is not of this engine, or there is none at this place.
    #[must_use]
    pub fn view<'a>(&'a self, rows: &'a Rows, at: usize) -> RowView<'a> {
        let row = &rows.rows[at];
        let series = self.devices.series();
        let cells = |shown| &rows.cells[row.cells as usize..][..shown];
        let aside = |stream| (stream, Some(SeriesId(row.slot)), cells(1), None);
        let mut columns: &[Arc<str>] = &[];
        let (stream, of, cells, joined) = match row.stream {
            StreamId::Window(window) => {
                let operator = &self.operators[usize::from(window)];
                let series = operator.common.routes.series_of(row.slot);
                columns = operator.common.routes.columns_of(row.slot);
                let stream = &operator.stream;
                (stream, Some(series), cells(stream.shown), None)
            }
            StreamId::Join(join) => {
                let joined = &rows.joined[row.cells as usize];
                let stream = &self.joins[usize::from(join)].stream;
                (stream, None, &[][..], Some(joined))
            }
            StreamId::Late => aside(&self.asides[0]),
            StreamId::Quarantine => aside(&self.asides[1]),
        };
        RowView {
            row,
            stream,
            names: of.map(|of| &series[of.index()].names),
            columns,
            cells,
            joined,
            series,
        }
    }

    /// All rows with their names and figures.
    pub fn views<'a>(&'a self, rows: &'a Rows) -> impl Iterator<Item = RowView<'a>> {
        (0..rows.len()).map(|at| self.view(rows, at))
    }

    /// Bytes that [`Engine::take_changes`] would give, about.
    #[must_use]
    pub fn changed_bytes(&self) -> usize {
        let of_operators = self.operators.iter().map(Operator::changed_bytes);
        let of_joins = self.joins.iter().map(Join::changed_bytes);
        let of_tables = self.tables.changed_bytes();
        self.devices.changed_bytes() + of_operators.chain(of_joins).sum::<usize>() + of_tables
    }

    /// Whether anything came since the last changes were taken.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        self.changed
    }

    /// What of the state has changed since the last call. All entries so far, later
    /// ones over earlier ones, are the whole state: see [`Engine::restore`].
    pub fn take_changes(&mut self) -> Vec<StateEntry> {
        let mut out = Vec::new();
        while !self.take_some_changes(usize::MAX, &mut out) {}
        out
    }

    /// The same in steps of so many pages, between which nothing may be fed; true with the
    /// last one. What stands on no page comes with the first.
    pub fn take_some_changes(&mut self, pages: usize, out: &mut Vec<StateEntry>) -> bool {
        if !self.changed {
            return true;
        }
        let mut writer = StateWriter {
            parts: &mut self.parts,
            out,
            room: pages,
        };
        let mut head = Vec::new();
        put_varint(&mut head, STATE_VERSION.into());
        let known = if self.lost {
            2
        } else {
            self.now.is_some().into()
        };
        put_varint(&mut head, known);
        put_zigzag(&mut head, self.now.map_or(0, |now| now.0));
        writer.put(HEAD_KEY, &head);
        self.devices.encode(&mut writer);
        for operator in &mut self.operators {
            operator.encode(&mut writer);
        }
        self.tables.encode(&mut writer);
        for join in &mut self.joins {
            join.encode(&mut writer);
        }
        self.changed = writer.is_full();
        !self.changed
    }

    /// An engine that goes on where the one that gave these entries was, for the same
    /// config.
    ///
    /// # Errors
    /// When an entry is missing, too much, or damaged.
    pub fn restore(
        config: &EngineConfig,
        entries: impl IntoIterator<Item = (Vec<u8>, Vec<u8>)>,
    ) -> Result<Self, StateError> {
        let mut reader = StateReader::new(entries)?;
        let mut engine = Self::new(config);
        let mut is_known = false;
        reader.each(HEAD_KEY, |_, from| {
            is_known = from.varint()? == u64::from(STATE_VERSION);
            let (some, now) = (from.varint()?, from.zigzag()?);
            engine.now = (some == 1).then_some(EventTime(now));
            engine.lost = some == 2;
            Ok(())
        })?;
        let bad = |key: &[u8]| StateError {
            key: key.to_vec(),
            position: 0,
        };
        if !is_known {
            return Err(bad(HEAD_KEY));
        }
        engine.tables.decode(&reader)?;
        engine.tables.on_clock(engine.now);
        for (device, channel) in engine.devices.decode(&reader)? {
            let added = engine.series(&device, &channel);
            added.map_err(|_| bad(HEAD_KEY))?;
        }
        let (devices, operators) = (&engine.devices, &mut engine.operators);
        for at in 0..operators.len() {
            let (before, rest) = operators.split_at_mut(at);
            if let Source::Window(from) = rest[0].source() {
                let source = &before[usize::from(from)];
                rest[0].add_slots_of(source, devices.series());
                rest[0].common.known = source.known();
            }
            rest[0].decode(&reader, devices.series())?;
        }
        engine.tell_watermarks();
        for join in &mut engine.joins {
            join.decode(&reader)?;
        }
        engine.parts = reader.take_parts();
        engine.changed = false;
        Ok(engine)
    }
}

#[cfg(test)]
mod tests;
