//! Lookup joins: a reading, or a row of a window, with the row of a table as of its time.
//! It waits until the table is known past its time, or for so long of the gateway's clock
//! as the config says; what has not waited says so.
//!
//! A reading below its device's watermark is late and finds nothing. Bound: the readings
//! that wait, [`crate::limits::JOIN_HELD_MAX`]; of a series 16 bytes and its key.

use std::sync::Arc;

use crate::engine::config::{
    EngineConfig, JoinColumn, JoinSource, JoinSpec, JoinType, KeySpec, TableSpec,
};
use crate::engine::counters::Taken;
use crate::engine::device::Step;
use crate::engine::filter::{Filter, Maybe};
use crate::engine::join::{FedRow, FedRows, FedSides, JoinKernel, JoinOut};
use crate::engine::joined::{JoinKey, JoinedRow, Mark, Side, WindowSide};
use crate::engine::kernel::Turn;
use crate::engine::route::{Series, SeriesId};
use crate::engine::state::{self, StateError, StateReader, StateWriter};
use crate::engine::table::{KeyNo, Tables};
use crate::engine::value;
use crate::engine::waiting::{Seq, Waiting, Waits};
use crate::json::write_text;
use crate::log::bytes::{Malformed, Reader, put_varint, put_zigzag};
use crate::units::Span;

/// See the module.
#[derive(Debug)]
pub(super) struct Lookup {
    table: u16,
    on: Vec<JoinColumn>,
    is_inner: bool,
    /// What of a left side's series is in its key: of equal times it goes by that.
    left_key: KeySpec,
    filter: Option<Filter>,
    /// us
    wait: Option<i64>,
    keys: Vec<Key>,
    waiting: Waiting<HeldLeft>,
    /// Room for what leaves at once.
    due: Vec<(i64, Seq, HeldLeft, Mark)>,
    forced: u64,
    is_touched: bool,
}

/// What a series is to the join.
#[derive(Debug)]
struct Key {
    taken: Maybe,
    no: Option<KeyNo>,
    /// `None`: its device.
    text: Option<Arc<str>>,
}

/// A left side that waits.
#[derive(Debug)]
enum HeldLeft {
    Reading {
        series: SeriesId,
        value: f64,
    },
    /// Apart, as it is long and few wait.
    Window(Box<WindowSide>),
}

impl Lookup {
    pub(super) fn new(spec: &JoinSpec, wait: Option<Span>, config: &EngineConfig) -> Self {
        Self {
            table: match spec.right.from {
                JoinSource::Table(table) => table,
                JoinSource::Readings | JoinSource::Window(_) => 0,
            },
            on: spec.on.clone(),
            is_inner: spec.join_type == JoinType::Inner,
            left_key: match spec.left.from {
                JoinSource::Window(from) => config.windows[usize::from(from)].key,
                JoinSource::Readings | JoinSource::Table(_) => KeySpec::DEVICE_CHANNEL,
            },
            filter: spec.left.filter.clone(),
            wait: wait.map(|wait| wait.0),
            keys: Vec::new(),
            waiting: Waiting::default(),
            due: Vec::new(),
            forced: 0,
            is_touched: false,
        }
    }

    /// Takes a left side, or lets it wait.
    #[inline]
    fn take(
        &mut self,
        left: HeldLeft,
        (cause, time): (u32, i64),
        (tables, known_until, now): (&Tables, i64, Option<i64>),
        out: &mut JoinOut,
    ) {
        if let Some(mark) = self.at_once(time, known_until, now) {
            return self.find(left, (cause, time), mark, tables, out);
        }
        self.hold(left, (cause, time), (tables, now), out);
    }

    /// How a left side is written that does not wait; `None`: it waits.
    #[inline]
    fn at_once(&self, time: i64, known_until: i64, now: Option<i64>) -> Option<Mark> {
        if time < known_until {
            return Some(Mark::None);
        }
        // By a clock that says something no time at all is over at once.
        (self.wait == Some(0) && now.is_some()).then_some(Mark::Stale)
    }

    /// Lets a left side wait; the oldest does not any longer where too many do.
    fn hold(
        &mut self,
        left: HeldLeft,
        (cause, time): (u32, i64),
        (tables, now): (&Tables, Option<i64>),
        out: &mut JoinOut,
    ) {
        self.waiting.push(time, left, now);
        if self.waiting.is_over()
            && let Some((time, _, left)) = self.waiting.pop()
        {
            self.forced += 1;
            self.is_touched = true;
            self.find(left, (cause, time), Mark::Stale, tables, out);
        }
    }

    /// Writes what there is at a time.
    #[inline]
    fn find(
        &self,
        left: HeldLeft,
        (cause, time): (u32, i64),
        mark: Mark,
        tables: &Tables,
        out: &mut JoinOut,
    ) {
        let series = left.series();
        let key = &self.keys[series.index()];
        let row = key.no.and_then(|no| tables.as_of(self.table, no, time));
        if row.is_none() && self.is_inner {
            return;
        }
        let row = JoinedRow {
            key: match (&key.text, key.no) {
                (Some(text), _) => JoinKey::Text(text.clone()),
                (None, Some(_)) => JoinKey::Device(series),
                (None, None) => JoinKey::Null,
            },
            mark,
            left: left.into_side(time),
            right: row.map_or(Side::Null, |row| Side::Row(row.clone())),
        };
        out.push(cause, time, row);
    }

    /// Takes the rows that a window wrote because of readings.
    fn on_fed(
        &mut self,
        rows: &FedRows<'_>,
        around: (&Tables, i64, Option<i64>),
        series: &[Series],
        out: &mut JoinOut,
    ) {
        for row in (0..rows.len()).filter_map(|at| rows.get(at)) {
            if self.takes_row(&row, series) {
                let at = (row.cause, row.time);
                self.take(HeldLeft::Window(Box::new(row.side)), at, around, out);
            }
        }
    }

    /// Takes the rows that a window wrote in a turn: those that do not wait are written
    /// with what has waited until now.
    fn on_fed_in_turn(&mut self, rows: &FedRows<'_>, turn: &Turn<'_>, out: &mut JoinOut) {
        let known_until = turn.tables.known_until(self.table);
        for row in (0..rows.len()).filter_map(|at| rows.get(at)) {
            if !self.takes_row(&row, turn.series) {
                continue;
            }
            let (time, left) = (row.time, HeldLeft::Window(Box::new(row.side)));
            match self.at_once(time, known_until, turn.now) {
                // They came after all that waits; among themselves as they are here.
                Some(mark) => self.due.push((time, Seq::MAX, left, mark)),
                None => self.hold(left, (0, time), (turn.tables, turn.now), out),
            }
        }
    }

    fn takes_row(&self, row: &FedRow, series: &[Series]) -> bool {
        // One that is taken back has no figures.
        !row.is_gone && self.takes(row.side.series, row.value, series)
    }

    #[inline]
    fn takes(&self, of: SeriesId, value: Option<f64>, series: &[Series]) -> bool {
        match self.keys[of.index()].taken {
            Maybe::Yes => true,
            Maybe::No => false,
            Maybe::ByValue => {
                let names = &series[of.index()].names;
                let filter = self.filter.as_ref();
                filter.is_none_or(|filter| filter.takes(&names.device, &names.channel, value))
            }
        }
    }

    /// Writes what does not wait any longer, by time and key.
    fn release(&mut self, turn: &Turn<'_>, out: &mut JoinOut) {
        let known_until = turn.tables.known_until(self.table);
        let mut due = std::mem::take(&mut self.due);
        while let Some((time, seq, left)) = self.waiting.pop_before(known_until) {
            due.push((time, seq, left, Mark::None));
        }
        if known_until == i64::MAX {
            // Nothing is as late as the end of time.
            while let Some((time, seq, left)) = self.waiting.pop() {
                due.push((time, seq, left, Mark::None));
            }
        }
        if let (Some(wait), Some(now)) = (self.wait, turn.now) {
            self.waiting.on_clock(now);
            while let Some((time, seq, left)) = self.waiting.pop_expired(now, wait) {
                due.push((time, seq, left, Mark::Stale));
            }
        }
        let key = self.left_key;
        // The series of a row is the first that came under its key: the rest of it says nothing.
        let names = |left: &HeldLeft| {
            let names = &turn.series[left.series().index()].names;
            let device = key.device.then_some(&*names.device);
            (device, key.channel.then_some(&*names.channel))
        };
        due.sort_by(|(a, m, x, _), (b, n, y, _)| {
            let by_key = || names(x).cmp(&names(y)).then(m.cmp(n));
            a.cmp(b).then_with(by_key)
        });
        for (time, _, left, mark) in due.drain(..) {
            self.find(left, (0, time), mark, turn.tables, out);
        }
        self.due = due;
    }
}

impl JoinKernel for Lookup {
    fn add_series(&mut self, series: &Series, tables: &mut Tables) {
        let (device, channel) = (&*series.names.device, &*series.names.channel);
        let taken = match &self.filter {
            None => Maybe::Yes,
            Some(filter) => filter.takes_series(device, channel),
        };
        let text = key_text(&self.on, device, channel);
        self.keys.push(Key {
            taken,
            no: text.as_deref().map(|text| tables.watch(self.table, text)),
            text: text.filter(|_| self.on != [JoinColumn::Device]),
        });
    }

    fn on_batch(
        &mut self,
        step: &Step<'_>,
        fed: &FedSides<'_>,
        votes: &mut [u8],
        out: &mut JoinOut,
    ) {
        let around = (step.tables, step.tables.known_until(self.table), step.now);
        if let Some(rows) = &fed.left {
            return self.on_fed(rows, around, step.series, out);
        }
        for (index, vote) in votes.iter_mut().enumerate() {
            let (series, time) = (step.batch.series[index], step.batch.time[index]);
            let value = step.batch.value[index];
            let moved = &step.moves[index];
            if !moved.is_seen || !self.takes(series, value::option(value), step.series) {
                continue;
            }
            if time < moved.before {
                *vote |= Taken::None as u8;
                continue;
            }
            *vote |= Taken::All as u8;
            let left = HeldLeft::Reading { series, value };
            self.take(left, (index as u32, time), around, out);
        }
    }

    fn on_turn(&mut self, turn: &Turn<'_>, fed: &FedSides<'_>, out: &mut JoinOut) {
        if let Some(rows) = &fed.left {
            self.on_fed_in_turn(rows, turn, out);
        }
        if self.waiting.len() > 0 || !self.due.is_empty() {
            self.release(turn, out);
        }
    }

    fn on_clock_lost(&mut self) {
        self.waiting.on_clock_lost();
    }

    fn state_rows(&self) -> u64 {
        self.waiting.len() as u64
    }

    fn forced(&self) -> u64 {
        self.forced
    }

    fn changed_bytes(&self) -> usize {
        self.waiting.changed_bytes()
    }

    fn encode(&mut self, prefix: [u8; 3], writer: &mut StateWriter<'_>) {
        if std::mem::take(&mut self.is_touched) {
            let mut blob = Vec::new();
            put_varint(&mut blob, self.forced);
            writer.put(&[&prefix[..], &[HEAD]].concat(), &blob);
        }
        self.waiting
            .encode(&[&prefix[..], &[HELD]].concat(), writer);
    }

    fn decode(&mut self, prefix: [u8; 3], reader: &StateReader) -> Result<(), StateError> {
        reader.each(&[&prefix[..], &[HEAD]].concat(), |_, from| {
            self.forced = from.varint()?;
            Ok(())
        })?;
        self.waiting
            .decode(&[&prefix[..], &[HELD]].concat(), reader)
    }
}

/// Keys of the state, behind the join's place.
const HEAD: u8 = 0;
const HELD: u8 = 1;

/// The key of a series as a table has it: its text, or of several columns a JSON array of
/// the texts. `None`: a column that a series does not have, which nothing is equal to.
pub(super) fn key_text(on: &[JoinColumn], device: &str, channel: &str) -> Option<Arc<str>> {
    let text = |column: &JoinColumn| match column {
        JoinColumn::Device => Some(device.to_owned()),
        JoinColumn::Channel => Some(channel.to_owned()),
        JoinColumn::Column(_) => None,
    };
    if let [one] = on {
        return text(one).map(Into::into);
    }
    let mut out = vec![b'['];
    for (nth, column) in on.iter().enumerate() {
        if nth > 0 {
            out.push(b',');
        }
        write_text(&text(column)?, &mut out);
    }
    out.push(b']');
    String::from_utf8(out).ok().map(Into::into)
}

/// What the key columns of a table are of a series: where one is named `channel` its
/// channel, else its device.
pub(super) fn table_columns(spec: &TableSpec) -> Vec<JoinColumn> {
    let columns = spec.key.iter().map(|name| match name.as_str() {
        "channel" => JoinColumn::Channel,
        _ => JoinColumn::Device,
    });
    columns.collect()
}

impl HeldLeft {
    fn series(&self) -> SeriesId {
        match self {
            Self::Reading { series, .. } => *series,
            Self::Window(side) => side.series,
        }
    }

    fn into_side(self, time: i64) -> Side {
        match self {
            Self::Reading { series, value } => Side::Reading {
                series,
                time,
                value: value.to_bits(),
            },
            Self::Window(side) => Side::Window(*side),
        }
    }
}

impl Waits for HeldLeft {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Reading { series, value } => {
                out.push(0);
                put_varint(out, series.0.into());
                state::put_f64(out, *value);
            }
            Self::Window(side) => {
                out.push(1);
                side.encode(out);
            }
        }
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        match from.byte()? {
            0 => Ok(Self::Reading {
                series: SeriesId(state::u32(from)?),
                value: state::f64(from)?,
            }),
            1 => WindowSide::decode(from).map(|side| Self::Window(Box::new(side))),
            _ => Err(from.malformed()),
        }
    }
}

impl Waits for WindowSide {
    fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.series.0.into());
        state::put_long(out, self.columns.as_deref().unwrap_or(""));
        put_zigzag(out, self.start);
        put_zigzag(out, self.end);
        put_varint(out, self.value);
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let series = SeriesId(state::u32(from)?);
        let columns = state::long(from)?;
        Ok(Self {
            series,
            columns: (!columns.is_empty()).then(|| columns.into()),
            start: from.zigzag()?,
            end: from.zigzag()?,
            value: from.varint()?,
        })
    }
}
