//! All kinds of joins behind one face, with what each has written in a step. The kinds
//! stand in files of their own; a new kind is a variant here.
//!
//! Always: within a step a join is given, per reading, first the rows that windows wrote
//! because of it, then the reading, then the watermark that it moved. In a turn it is
//! given a change first, then the rows of windows, then watermarks and silence. Knows no
//! order between operators: the engine calls windows first, then joins as in the config.

use crate::engine::config::{Aggregate, EngineConfig, JoinInput, JoinKind, JoinSource, JoinSpec};
use crate::engine::device::Step;
use crate::engine::interval::Interval;
use crate::engine::joined::{JoinedRow, SideShape, WindowSide};
use crate::engine::kernel::{SourceRows, Turn};
use crate::engine::lookup::Lookup;
use crate::engine::operator::Operator;
use crate::engine::route::{Routes, Series};
use crate::engine::row::{Row, Rows, Says, Stream, StreamId};
use crate::engine::state::{StateError, StateReader, StateWriter};
use crate::engine::table::{Changed, Tables};
use crate::engine::table_join::TableJoin;
use crate::engine::value::NULL;

/// What a join does. All of it is a function of the order of its calls.
pub(super) trait JoinKernel {
    /// The next series; ids count up from 0.
    fn add_series(&mut self, series: &Series, tables: &mut Tables);

    /// A batch of readings, with the rows that windows wrote because of them. A reading
    /// that this join takes, or that comes too late for it, votes.
    fn on_batch(
        &mut self,
        step: &Step<'_>,
        fed: &FedSides<'_>,
        votes: &mut [u8],
        out: &mut JoinOut,
    );

    /// A row of a table has changed; the tables are as they are after it.
    fn on_change(&mut self, _changed: &Changed, _turn: &Turn<'_>, _out: &mut JoinOut) {}

    /// Watermarks of devices, tables or the clock moved, or devices fell silent.
    fn on_turn(&mut self, turn: &Turn<'_>, fed: &FedSides<'_>, out: &mut JoinOut);

    /// What the gateway's clock said so far does not hold.
    fn on_clock_lost(&mut self) {}

    /// Readings and rows held.
    fn state_rows(&self) -> u64;

    /// Readings and rows that did not wait until all was known, as too many waited.
    fn forced(&self) -> u64;

    /// Rows of windows that came too late.
    fn late_derived(&self) -> u64 {
        0
    }

    /// Bytes that the next checkpoint takes, about.
    fn changed_bytes(&self) -> usize;

    /// Keeps what has changed, under keys that begin with the prefix.
    fn encode(&mut self, prefix: [u8; 3], writer: &mut StateWriter<'_>);

    /// Reads what was kept into a join that has all series and has seen nothing else.
    fn decode(&mut self, prefix: [u8; 3], reader: &StateReader) -> Result<(), StateError>;
}

/// Where a join writes its rows.
#[derive(Debug)]
pub(super) struct JoinOut {
    stream: StreamId,
    pub(super) rows: Rows,
}

impl JoinOut {
    /// Rows come in order of cause; those of one cause by time, then key, then as they
    /// came.
    pub(super) fn push(&mut self, cause: u32, time: i64, row: JoinedRow) {
        self.rows.push_joined(self.stream, cause, time, row);
    }
}

/// The rows that the windows wrote in this step which a join reads.
pub(super) struct FedSides<'a> {
    /// `None`: the side reads no window.
    pub(super) left: Option<FedRows<'a>>,
    pub(super) right: Option<FedRows<'a>>,
}

/// Rows of a window, in order of cause.
#[derive(Clone, Copy)]
pub(super) struct FedRows<'a> {
    source: SourceRows<'a>,
    routes: &'a Routes,
    value_at: usize,
}

/// A row of a window as a join takes it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FedRow {
    pub(super) cause: u32,
    /// Its last microsecond; of a line that of its reading.
    pub(super) time: i64,
    /// What it was before is out already.
    pub(super) is_revision: bool,
    /// It is taken back: its window is no more.
    pub(super) is_gone: bool,
    /// Of its filter.
    pub(super) value: Option<f64>,
    pub(super) side: WindowSide,
}

impl FedRows<'_> {
    pub(super) fn len(&self) -> usize {
        self.source.out.rows.len()
    }

    /// Cause of the row at this place.
    pub(super) fn cause(&self, at: usize) -> Option<u32> {
        self.source.out.rows.rows.get(at).map(|row| row.cause)
    }

    /// The row at this place; `None` where it says nothing new but that it is final.
    pub(super) fn get(&self, at: usize) -> Option<FedRow> {
        let row: &Row = self.source.out.rows.rows.get(at)?;
        let is_gone = match row.says {
            Says::OnlyFinal => return None,
            Says::Figures => false,
            Says::Gone => true,
        };
        let cells = &self.source.out.rows.cells;
        let bits = cells.get(row.cells as usize + self.value_at).copied();
        let bits = bits.unwrap_or(NULL.to_bits());
        let value = match self.source.counts {
            true => Some(bits as f64),
            false => crate::engine::value::option(f64::from_bits(bits)),
        };
        let columns = self.routes.columns_of(row.slot);
        Some(FedRow {
            cause: row.cause,
            time: row.time().0,
            is_revision: row.revision > 0,
            is_gone,
            value,
            side: WindowSide {
                series: self.routes.series_of(row.slot),
                columns: (!columns.is_empty()).then(|| columns.concat().into()),
                start: row.start,
                end: row.end,
                value: bits,
            },
        })
    }
}

/// One join with what it has written in this step.
#[derive(Debug)]
pub(super) struct Join {
    kind: Kind,
    sides: [(JoinSource, Aggregate); 2],
    pub(super) stream: Stream,
    pub(super) out: JoinOut,
    prefix: [u8; 3],
}

#[derive(Debug)]
enum Kind {
    Interval(Interval),
    Lookup(Lookup),
    Table(TableJoin),
}

/// Calls a generic function with the kind's own type.
macro_rules! with_kernel {
    ($kind:expr, $kernel:ident => $call:expr) => {
        match $kind {
            Kind::Interval($kernel) => $call,
            Kind::Lookup($kernel) => $call,
            Kind::Table($kernel) => $call,
        }
    };
}

/// Key of the state, before the join's place.
const JOIN_KEY: u8 = b'j';

impl Join {
    /// The join at this place of the pipeline.
    pub(super) fn new(at: usize, spec: &JoinSpec, config: &EngineConfig) -> Self {
        let at = u16::try_from(at).expect("at most JOINS_MAX joins");
        let kind = match spec.kind {
            JoinKind::Lookup { wait } => Kind::Lookup(Lookup::new(spec, wait, config)),
            JoinKind::Interval { lower, upper } => {
                Kind::Interval(Interval::new(spec, (lower, upper), config))
            }
            JoinKind::Table => Kind::Table(TableJoin::new(spec, config)),
        };
        let shape = |input: &JoinInput| match input.from {
            JoinSource::Readings | JoinSource::Table(_) => SideShape::READING,
            JoinSource::Window(from) => SideShape {
                key: config.windows[usize::from(from)].key,
                counts: input.value == Aggregate::Count,
            },
        };
        let [high, low] = at.to_be_bytes();
        Self {
            kind,
            sides: [&spec.left, &spec.right].map(|input| (input.from, input.value)),
            stream: Stream::of_join(&spec.name, [&spec.left, &spec.right].map(shape)),
            out: JoinOut {
                stream: StreamId::Join(at),
                rows: Rows::new(),
            },
            prefix: [JOIN_KEY, high, low],
        }
    }

    pub(super) fn add_series(&mut self, series: &Series, tables: &mut Tables) {
        with_kernel!(&mut self.kind, kernel => kernel.add_series(series, tables));
    }

    pub(super) fn on_batch(&mut self, step: &Step<'_>, windows: &[Operator], votes: &mut [u8]) {
        let fed = fed_sides(self.sides, windows);
        let out = &mut self.out;
        with_kernel!(&mut self.kind, kernel => kernel.on_batch(step, &fed, votes, out));
    }

    /// `changed`: what a change of a table did, where it is one.
    pub(super) fn on_turn(
        &mut self,
        turn: &Turn<'_>,
        windows: &[Operator],
        changed: Option<&Changed>,
    ) {
        let fed = fed_sides(self.sides, windows);
        let out = &mut self.out;
        with_kernel!(&mut self.kind, kernel => {
            if let Some(changed) = changed {
                kernel.on_change(changed, turn, out);
            }
            kernel.on_turn(turn, &fed, out);
        });
    }

    pub(super) fn on_clock_lost(&mut self) {
        with_kernel!(&mut self.kind, kernel => kernel.on_clock_lost());
    }

    pub(super) fn state_rows(&self) -> u64 {
        with_kernel!(&self.kind, kernel => kernel.state_rows())
    }

    /// Whether something waits until its table is known.
    pub(super) fn waits(&self) -> bool {
        match &self.kind {
            Kind::Lookup(lookup) => lookup.state_rows() > 0,
            Kind::Interval(_) | Kind::Table(_) => false,
        }
    }

    pub(super) fn forced(&self) -> u64 {
        with_kernel!(&self.kind, kernel => kernel.forced())
    }

    pub(super) fn late_derived(&self) -> u64 {
        with_kernel!(&self.kind, kernel => kernel.late_derived())
    }

    pub(super) fn changed_bytes(&self) -> usize {
        with_kernel!(&self.kind, kernel => kernel.changed_bytes())
    }

    pub(super) fn encode(&mut self, writer: &mut StateWriter<'_>) {
        let prefix = self.prefix;
        with_kernel!(&mut self.kind, kernel => kernel.encode(prefix, writer));
    }

    pub(super) fn decode(&mut self, reader: &StateReader) -> Result<(), StateError> {
        let prefix = self.prefix;
        with_kernel!(&mut self.kind, kernel => kernel.decode(prefix, reader))
    }
}

fn fed_sides<'a>(sides: [(JoinSource, Aggregate); 2], windows: &'a [Operator]) -> FedSides<'a> {
    let [left, right] = sides.map(|(from, value)| match from {
        JoinSource::Readings | JoinSource::Table(_) => None,
        JoinSource::Window(from) => {
            let window = &windows[usize::from(from)];
            let aggregates = &window.common.aggregates;
            let value_at = aggregates.iter().position(|a| *a == value);
            let value_at = value_at.expect("a source makes what its readers want");
            Some(FedRows {
                source: window.as_source(value_at),
                routes: &window.common.routes,
                value_at,
            })
        }
    });
    FedSides { left, right }
}
