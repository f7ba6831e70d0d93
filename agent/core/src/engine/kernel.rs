//! What every kind of operator is to the engine: keyed state that takes readings or
//! another operator's rows, and writes rows when a watermark has come or a scope has
//! fallen silent. The loops over a batch stand here, once per kind, without a dynamic
//! call. Knows no kind of window.

use crate::engine::config::{Aggregate, Emit, EngineConfig, Source, WindowKind, WindowSpec};
use crate::engine::counters::Taken;
use crate::engine::device::Step;
use crate::engine::figures::{Figures, Wants};
use crate::engine::route::{Routes, Scope, Series, Slot, Timers};
use crate::engine::row::{Kind, Row, Rows, Says, StreamId};
use crate::engine::state::{Pages, StateReader, StateWriter};
use crate::engine::table::Tables;
use crate::engine::value::NULL;
use crate::log::bytes::{Malformed, Reader};

/// A reading under its key.
#[derive(Debug, Clone, Copy)]
pub(super) struct Given {
    pub(super) slot: Slot,
    pub(super) scope: Scope,
    pub(super) time: i64,
    /// [`NULL`] where there is none.
    pub(super) value: f64,
    /// Of its scope, before this reading.
    pub(super) watermark: i64,
}

/// A row of another operator under its key here.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fed<'a> {
    /// As a reading.
    pub(super) given: Given,
    /// Its slot there and the start of its window: another row of the same replaces it.
    /// `None` for lines, which are never revised.
    pub(super) part: Option<(Slot, i64)>,
    /// It was out before.
    pub(super) is_revision: bool,
    /// The window is no more: what it said is taken back.
    pub(super) is_gone: bool,
    /// All that it was made of, where the operator merges.
    pub(super) figures: Option<&'a Figures>,
}

impl Fed<'_> {
    /// A reading, or a line, which nothing replaces.
    pub(super) fn reading(given: Given) -> Self {
        Self {
            given,
            part: None,
            is_revision: false,
            is_gone: false,
            figures: None,
        }
    }
}

/// What an operator has written in one step.
#[derive(Debug, Default)]
pub(super) struct Out {
    pub(super) rows: Rows,
    /// Of each row, where a reader merges; else empty.
    pub(super) figures: Vec<Figures>,
    pub(super) keeps_figures: bool,
}

/// What all kinds have.
#[derive(Debug)]
pub(super) struct Common {
    pub(super) stream: StreamId,
    pub(super) emit: Emit,
    pub(super) finalize: bool,
    /// us
    pub(super) lateness: i64,
    pub(super) wants: Wants,
    /// Those of the config, then those that readers of this stream want.
    pub(super) aggregates: Box<[Aggregate]>,
    pub(super) source: Source,
    /// How far its watermarks are behind those of the readings, us: what is fed to it was
    /// written late.
    pub(super) lag: i64,
    /// Place of the figure that a row of the source counts with.
    pub(super) value_at: usize,
    pub(super) merge: bool,
    /// Rows of the source may move, as a session's end does when it grows, or be taken back.
    pub(super) source_moves: bool,
    pub(super) routes: Routes,
    pub(super) timers: Timers,
    pub(super) pages: Pages,
    /// Watermark over all devices as this operator last saw it.
    all: i64,
    /// Up to where its source knows the tables in its key, as this operator last saw it:
    /// what is behind that may still come. The end of time where none has any.
    pub(super) known: i64,
    /// Rows of the source that no window took.
    pub(super) late_derived: u64,
}

impl Common {
    pub(super) fn new(
        (stream, spec, config): (StreamId, &WindowSpec, &EngineConfig),
        (aggregates, value_at): (Box<[Aggregate]>, usize),
        wants: Wants,
    ) -> Self {
        Self {
            stream,
            emit: spec.emit,
            finalize: spec.finalize,
            lateness: config.time.allowed_lateness.0,
            wants,
            aggregates,
            source: spec.from,
            lag: lag_and_delay(spec, config).0,
            value_at,
            merge: spec.merge,
            source_moves: source_moves(spec, config),
            routes: Routes::new(spec, config),
            timers: Timers::default(),
            pages: Pages::default(),
            all: i64::MIN,
            known: match spec.from {
                Source::Window(from) if has_tables(from, config) => i64::MIN,
                Source::Readings | Source::Window(_) => i64::MAX,
            },
            late_derived: 0,
        }
    }

    /// From this watermark on nothing changes a window with this end. Saturates at the
    /// end of time, which is as good as the exact figure: only it is as large.
    pub(super) fn final_at(&self, end: i64) -> i64 {
        end.saturating_add(self.lateness)
    }

    /// From this watermark on the window is closed, as far as lines go.
    pub(super) fn leaves_at(&self, end: i64) -> i64 {
        match self.emit {
            Emit::OnClose => end,
            Emit::EveryUpdate | Emit::FinalOnly | Emit::Never => self.final_at(end),
        }
    }

    /// Whether it reads another operator's rows.
    pub(super) fn is_chained(&self) -> bool {
        self.source != Source::Readings
    }

    /// Writes a row of a window.
    pub(super) fn write(&self, line: &WindowLine, figures: &mut Figures, out: &mut Out) {
        let cells = out.rows.next_cells();
        figures.write(&self.aggregates, &mut out.rows.cells);
        out.rows.rows.push(Row {
            cause: line.cause,
            stream: self.stream,
            kind: Kind::Window,
            says: line.says,
            is_final: line.is_final,
            idle: line.idle,
            truncated: false,
            slot: line.slot,
            revision: line.revision,
            cells,
            start: line.start,
            end: line.end,
        });
        if out.keeps_figures {
            out.figures.push(figures.clone());
        }
    }

    /// Watermark over all devices as this operator last saw it.
    pub(super) fn all(&self) -> i64 {
        self.all
    }

    pub(super) fn set_all(&mut self, all: i64) {
        self.all = all;
    }

    /// What a row of the source counts with.
    fn value_of(&self, row: &Row, (cells, counts): (&[u64], bool)) -> f64 {
        let bits = cells.get(row.cells as usize + self.value_at);
        match bits {
            Some(n) if counts => *n as f64,
            Some(bits) => f64::from_bits(*bits),
            None => NULL,
        }
    }
}

/// Whether rows of a window's source may move or be taken back: those of sessions do, and
/// windows over such rows take theirs back when all that was in them has moved on.
fn source_moves(spec: &WindowSpec, config: &EngineConfig) -> bool {
    let Source::Window(from) = spec.from else {
        return false;
    };
    let source = &config.windows[usize::from(from)];
    match source.kind {
        WindowKind::Session { .. } => true,
        WindowKind::Tumbling(_) | WindowKind::Hopping { .. } => source_moves(source, config),
        WindowKind::Sliding { .. } | WindowKind::Rows { .. } => false,
    }
}

/// How far an operator's watermarks are behind those of the readings, and how far behind
/// them it writes a row at the latest, as long as no reading is late. A line would find
/// rows late that its source, or what that reads, writes only when they are final: it
/// waits for them. Windows take such rows as revisions.
fn lag_and_delay(spec: &WindowSpec, config: &EngineConfig) -> (i64, i64) {
    let (source_lag, source_delay) = match spec.from {
        Source::Readings => (0, 0),
        Source::Window(from) => lag_and_delay(&config.windows[usize::from(from)], config),
    };
    let lag = match spec.kind {
        WindowKind::Sliding { .. } | WindowKind::Rows { .. } => source_delay,
        WindowKind::Tumbling(_) | WindowKind::Hopping { .. } | WindowKind::Session { .. } => {
            source_lag
        }
    };
    let delay = match spec.emit {
        Emit::FinalOnly => lag.saturating_add(config.time.allowed_lateness.0),
        Emit::OnClose | Emit::EveryUpdate | Emit::Never => lag.max(source_delay),
    };
    (lag, delay)
}

/// How far behind the end of a window the watermark of the readings is when nothing can
/// change its row any more; of a line, when it is written at the latest.
pub(super) fn final_delay(spec: &WindowSpec, config: &EngineConfig) -> i64 {
    let (lag, delay) = lag_and_delay(spec, config);
    match spec.kind {
        WindowKind::Sliding { .. } | WindowKind::Rows { .. } => delay,
        WindowKind::Tumbling(_) | WindowKind::Hopping { .. } | WindowKind::Session { .. } => {
            lag.saturating_add(config.time.allowed_lateness.0)
        }
    }
}

/// Whether the key of a window, or of what it reads, has columns of tables.
fn has_tables(window: u16, config: &EngineConfig) -> bool {
    let spec = &config.windows[usize::from(window)];
    !spec.key_columns.is_empty()
        || match spec.from {
            Source::Readings => false,
            Source::Window(from) => has_tables(from, config),
        }
}

/// A watermark as it is passed on; the end of time is the end of all.
fn behind(watermark: i64, lag: i64) -> i64 {
    match watermark {
        i64::MAX => watermark,
        _ => watermark.saturating_sub(lag),
    }
}

/// Which row of a window is written.
#[derive(Debug, Clone, Copy)]
pub(super) struct WindowLine {
    pub(super) cause: u32,
    pub(super) slot: Slot,
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) revision: u32,
    pub(super) is_final: bool,
    pub(super) idle: bool,
    pub(super) says: Says,
}

/// A watermark that a scope has come to.
pub(super) type Moved = (Scope, i64);

/// What one step lets an operator see beside its input.
#[derive(Clone, Copy)]
pub(super) struct At<'a> {
    pub(super) cause: u32,
    /// For the order of keys.
    pub(super) series: &'a [Series],
}

/// One kind of operator.
pub(super) trait Kernel {
    /// One key more; its slot is the count of those before.
    fn add_slot(&mut self);

    /// Whether any window is at this time: where none is, nothing takes a reading and
    /// nothing refuses it.
    fn has_window_at(&self, _time: i64) -> bool {
        true
    }

    /// Takes a reading, or a row of another operator that is never revised.
    fn take(&mut self, common: &mut Common, given: Given, at: At<'_>, out: &mut Out) -> Taken;

    /// Takes a row of another operator.
    fn take_fed(&mut self, common: &mut Common, fed: Fed<'_>, at: At<'_>, out: &mut Out) -> Taken;

    /// The watermarks of these scopes are there now, and a timer of each is due: writes
    /// by (end, start, key), forgets what nothing can change any more and sets the
    /// timers anew.
    fn advance(&mut self, common: &mut Common, due: &[Moved], at: At<'_>, out: &mut Out);

    /// These scopes fell silent: what is open there is written without its watermark
    /// moving, by (end, start, key).
    fn on_idle(&mut self, common: &mut Common, silent: &[Moved], at: At<'_>, out: &mut Out);

    /// Rows held.
    fn state_rows(&self) -> u64;

    /// Appends the state of a slot.
    fn encode(&self, slot: Slot, out: &mut Vec<u8>);

    /// Reads the state of a slot that has none, and sets its timers.
    fn decode(
        &mut self,
        common: &mut Common,
        slot: Slot,
        reader: &mut Reader<'_>,
    ) -> Result<(), Malformed>;

    /// State that is kept outside of the pages of slots.
    fn encode_more(&mut self, _prefix: &[u8], _writer: &mut StateWriter<'_>) {}

    fn decode_more(
        &mut self,
        _common: &mut Common,
        _prefix: &[u8],
        _reader: &StateReader,
    ) -> Result<(), crate::engine::state::StateError> {
        Ok(())
    }
}

/// A kind whose windows close: what is due is noted over all scopes first, so that it
/// is written in one order.
pub(super) trait Closing {
    /// Notes what this watermark closes, or makes final.
    fn collect_due(&mut self, common: &Common, moved: Moved);

    /// Writes what is noted, by (end, start, key).
    fn write_due(&mut self, common: &mut Common, at: At<'_>, out: &mut Out);

    /// Forgets what nothing can change any more, and sets the scope's timer anew.
    fn drop_final(&mut self, common: &mut Common, moved: Moved);

    /// All three, for the watermarks of some scopes.
    fn close_due(&mut self, common: &mut Common, due: &[Moved], at: At<'_>, out: &mut Out) {
        due.iter()
            .for_each(|moved| self.collect_due(common, *moved));
        self.write_due(common, at, out);
        due.iter().for_each(|moved| self.drop_final(common, *moved));
    }
}

/// Rows of the operator that one reads.
#[derive(Clone, Copy)]
pub(super) struct SourceRows<'a> {
    pub(super) out: &'a Out,
    /// The figure that counts is a count.
    pub(super) counts: bool,
    /// Up to where the tables in its key are known.
    pub(super) known: i64,
}

/// Feeds a batch of readings.
pub(super) fn run_readings<K: Kernel>(
    (common, kernel): (&mut Common, &mut K),
    step: &Step<'_>,
    votes: &mut [u8],
    out: &mut Out,
) {
    if common.routes.by_device() {
        readings::<K, true>(common, kernel, step, votes, out);
    } else {
        readings::<K, false>(common, kernel, step, votes, out);
    }
}

fn readings<K: Kernel, const BY_DEVICE: bool>(
    common: &mut Common,
    kernel: &mut K,
    step: &Step<'_>,
    votes: &mut [u8],
    out: &mut Out,
) {
    for (index, vote) in votes.iter_mut().enumerate() {
        let (scope, before, after) = if BY_DEVICE {
            let move_of = step.moves[index];
            (move_of.device.0, move_of.before, move_of.after)
        } else {
            (0, common.all, step.all[index])
        };
        let at = At {
            cause: index as u32,
            series: step.series,
        };
        if step.moves[index].is_seen
            && let Some(slot) = common.routes.slot(step.batch.series[index].index())
        {
            let given = Given {
                slot,
                scope,
                time: step.batch.time[index],
                value: step.batch.value[index],
                watermark: before,
            };
            *vote |= kernel.take(common, given, at, out) as u8;
        }
        if !BY_DEVICE {
            common.all = after;
        }
        if after > before && common.timers.take_due(scope, after) {
            kernel.advance(common, &[(scope, after)], at, out);
        }
    }
}

/// Feeds the rows that another operator wrote in a batch.
pub(super) fn run_fed<K: Kernel>(
    (common, kernel): (&mut Common, &mut K),
    step: &Step<'_>,
    source: SourceRows<'_>,
    out: &mut Out,
) {
    let mut fed = 0;
    // It moves in turns; only before the first one this says something new.
    common.known = source.known;
    for index in 0..step.moves.len() {
        let (scope, before, after) = if common.routes.by_device() {
            let move_of = step.moves[index];
            (move_of.device.0, move_of.before, move_of.after)
        } else {
            (0, common.all, step.all[index])
        };
        let at = At {
            cause: index as u32,
            series: step.series,
        };
        while source
            .out
            .rows
            .rows
            .get(fed)
            .is_some_and(|row| row.cause == at.cause)
        {
            let watermark = behind(before.min(common.known), common.lag);
            feed(common, kernel, source, fed, |_| watermark, at, out);
            fed += 1;
        }
        if !common.routes.by_device() {
            common.all = after;
        }
        let known = |watermark: i64| behind(watermark.min(common.known), common.lag);
        let (before, after) = (known(before), known(after));
        if after > before && common.timers.take_due(scope, after) {
            kernel.advance(common, &[(scope, after)], at, out);
        }
    }
}

/// Feeds one row of the source. A row comes before the watermark that caused it.
fn feed<K: Kernel>(
    common: &mut Common,
    kernel: &mut K,
    source: SourceRows<'_>,
    index: usize,
    watermark: impl Fn(Scope) -> i64,
    at: At<'_>,
    out: &mut Out,
) {
    let row = &source.out.rows.rows[index];
    if row.says == Says::OnlyFinal {
        // It changes no figure.
        return;
    }
    let Some(slot) = common.routes.slot(row.slot as usize) else {
        return;
    };
    let scope = common.routes.scope_of(slot);
    let given = Given {
        slot,
        scope,
        time: row.time().0,
        value: match row.says {
            Says::Gone => NULL,
            Says::Figures | Says::OnlyFinal => {
                common.value_of(row, (&source.out.rows.cells, source.counts))
            }
        },
        watermark: watermark(scope),
    };
    let fed = Fed {
        given,
        part: (row.kind == Kind::Window).then_some((row.slot, row.start)),
        is_revision: row.revision > 0,
        is_gone: row.says == Says::Gone,
        figures: source.out.figures.get(index).filter(|_| common.merge),
    };
    let taken = if fed.part.is_none() && fed.figures.is_none() {
        kernel.take(common, given, at, out)
    } else {
        kernel.take_fed(common, fed, at, out)
    };
    common.late_derived += u64::from(taken == Taken::None);
}

/// Watermarks that moved, and devices that fell silent, by what is not a reading.
#[derive(Clone, Copy)]
pub(super) struct Turn<'a> {
    /// Device, watermark before and after.
    pub(super) moved: &'a [(Scope, i64, i64)],
    /// Over all devices, after.
    pub(super) all: i64,
    /// Devices that fell silent, with their watermarks.
    pub(super) silent: &'a [Moved],
    /// No device is left that is not silent, and there was one before.
    pub(super) all_silent: bool,
    pub(super) series: &'a [Series],
    /// Watermark of a device before.
    pub(super) before: &'a dyn Fn(Scope) -> i64,
    pub(super) tables: &'a Tables,
    /// The gateway's clock, us.
    pub(super) now: Option<i64>,
}

impl Turn<'_> {
    /// Watermark of a device after it.
    fn after(&self, scope: Scope) -> i64 {
        let at = self
            .moved
            .binary_search_by_key(&scope, |(scope, _, _)| *scope);
        at.map_or_else(|_| (self.before)(scope), |at| self.moved[at].2)
    }
}

/// One turn of an operator; first what its source wrote in it.
pub(super) fn run_turn<K: Kernel>(
    (common, kernel): (&mut Common, &mut K),
    turn: &Turn<'_>,
    source: Option<SourceRows<'_>>,
    out: &mut Out,
) {
    let at = At {
        cause: 0,
        series: turn.series,
    };
    let all_before = common.all;
    let by_device = common.routes.by_device();
    let lag = common.lag;
    let known_before = common.known;
    if let Some(source) = source {
        common.known = source.known;
        for index in 0..source.out.rows.len() {
            let watermark = |scope| match by_device {
                true => behind((turn.before)(scope).min(known_before), lag),
                false => behind(all_before.min(known_before), lag),
            };
            feed(common, kernel, source, index, watermark, at, out);
        }
    }
    let known = common.known;
    let due: Vec<Moved> = if by_device && known > known_before {
        let now = |scope| behind(turn.after(scope).min(known), lag);
        common.timers.take_all_due(behind(known, lag), now)
    } else if by_device {
        let moved = turn.moved.iter();
        let moved = moved.map(|(scope, _, after)| (*scope, behind((*after).min(known), lag)));
        moved
            .filter(|(scope, after)| common.timers.take_due(*scope, *after))
            .collect()
    } else {
        common.all = turn.all;
        let all = turn.all.min(known);
        let has_moved = all > all_before.min(known_before);
        let all = behind(all, lag);
        let due = has_moved && common.timers.take_due(0, all);
        due.then_some((0, all)).into_iter().collect()
    };
    if !due.is_empty() {
        kernel.advance(common, &due, at, out);
    }
    if by_device {
        if !turn.silent.is_empty() {
            let silent = turn
                .silent
                .iter()
                .map(|(scope, at)| (*scope, behind((*at).min(known), lag)));
            let silent: Vec<Moved> = silent.collect();
            kernel.on_idle(common, &silent, at, out);
        }
    } else if turn.all_silent {
        kernel.on_idle(common, &[(0, behind(turn.all.min(known), lag))], at, out);
    }
}
