//! All kinds of operators behind one face: the choice of the kind is made once per
//! batch. A new kind is a variant here.

use std::sync::Arc;

use crate::engine::config::{Aggregate, EngineConfig, JoinSource, Source, WindowKind, WindowSpec};
use crate::engine::device::Step;
use crate::engine::figures::Wants;
use crate::engine::hopping::Hopping;
use crate::engine::inner::{InnerRows, Span};
use crate::engine::kernel::{self, Common, Kernel, Out, SourceRows, Turn};
use crate::engine::keyed::{self, Keyed};
use crate::engine::route::{Scope, Series, Slot};
use crate::engine::row::{Row, Stream, StreamId};
use crate::engine::rows::LastRows;
use crate::engine::session::Sessions;
use crate::engine::sliding::Sliding;
use crate::engine::state::{self, StateError, StateReader, StateWriter};
use crate::engine::table::Tables;
use crate::engine::tail::{Reach, Tail};
use crate::engine::tumbling::Tumbling;
use crate::log::bytes::{put_varint, put_zigzag};

/// One operator with what it has written in this step.
#[derive(Debug)]
pub(super) struct Operator {
    pub(super) common: Common,
    kind: Kind,
    pub(super) stream: Stream,
    pub(super) out: Out,
    keyed: Option<Box<Keyed>>,
    prefix: [u8; 3],
}

#[derive(Debug)]
enum Kind {
    Tumbling(Tumbling),
    Hopping(Hopping),
    Sliding(Sliding<Tail>),
    Rows(Sliding<LastRows>),
    /// Both of them, over windows.
    Over(Sliding<InnerRows>),
    Session(Sessions),
}

/// Calls a generic function with the kind's own type.
macro_rules! with_kernel {
    ($kind:expr, $kernel:ident => $call:expr) => {
        match $kind {
            Kind::Tumbling($kernel) => $call,
            Kind::Hopping($kernel) => $call,
            Kind::Sliding($kernel) => $call,
            Kind::Rows($kernel) => $call,
            Kind::Over($kernel) => $call,
            Kind::Session($kernel) => $call,
        }
    };
}

/// Keys of the state, before the operator's place.
const COMMON_KEY: u8 = b'c';
const PAGE_KEY: u8 = b'o';
const MORE_KEY: u8 = b'm';
const KEYED_KEY: u8 = b'k';

impl Operator {
    /// The operator at this place of the pipeline.
    pub(super) fn new(at: usize, spec: &WindowSpec, config: &EngineConfig) -> Self {
        let at = u16::try_from(at).expect("at most WINDOWS_MAX windows");
        let aggregates = aggregates(at, spec, config);
        let stream = Stream::new(&spec.name, spec.key, &aggregates, spec.aggregates.len());
        let value_at = match spec.from {
            Source::Readings => 0,
            Source::Window(_) if spec.merge => 0,
            Source::Window(from) => {
                let source = &config.windows[usize::from(from)];
                let of_source = self::aggregates(from, source, config);
                let at = of_source.iter().position(|a| *a == spec.value);
                at.expect("a source makes what its readers want")
            }
        };
        let wants = Wants::of(&kept_for(at, spec, config));
        let common = Common::new(
            (StreamId::Window(at), spec, config),
            (aggregates, value_at),
            wants,
        );
        let kind = match &spec.kind {
            WindowKind::Tumbling(grid) => Kind::Tumbling(Tumbling::new(grid.clone(), common.wants)),
            WindowKind::Hopping { size, hop, offset } => {
                Kind::Hopping(Hopping::new((*size, *hop, *offset), common.wants))
            }
            WindowKind::Sliding { size, bounds } => {
                let reach = Reach {
                    size: size.0,
                    bounds: *bounds,
                };
                match over_windows(spec, config) {
                    false => Kind::Sliding(Sliding::new(reach, common.wants)),
                    true => Kind::Over(Sliding::new(Span::Time(reach), common.wants)),
                }
            }
            WindowKind::Session { gap } => Kind::Session(Sessions::new(*gap, common.wants)),
            WindowKind::Rows { n } => match over_windows(spec, config) {
                false => Kind::Rows(Sliding::new(*n as usize, common.wants)),
                true => Kind::Over(Sliding::new(Span::Last(*n as usize), common.wants)),
            },
        };
        let [high, low] = at.to_be_bytes();
        Self {
            common,
            kind,
            stream,
            out: Out {
                keeps_figures: reads(at, config).any(|(_, reader)| reader.merge),
                ..Out::default()
            },
            keyed: Keyed::new(spec, config),
            prefix: [PAGE_KEY, high, low],
        }
    }

    /// What a line of a sliding window over readings reaches back to.
    pub(super) fn reach(&self) -> Option<Reach> {
        match &self.kind {
            Kind::Sliding(kernel) => Some(kernel.rule()),
            Kind::Tumbling(_)
            | Kind::Hopping(_)
            | Kind::Rows(_)
            | Kind::Over(_)
            | Kind::Session(_) => None,
        }
    }

    /// The slot of an input whose key no table has a part in.
    pub(super) fn plain_slot(&self, input: usize) -> Option<Slot> {
        let is_plain = self.keyed.is_none();
        self.common.routes.slot(input).filter(|_| is_plain)
    }

    /// Count, mean, min, max and sum of the sliding window that ends at `time`, where it
    /// keeps both ends and no reading of it has left early.
    pub(super) fn figures_at(&mut self, slot: Slot, time: i64) -> Option<[u64; 5]> {
        let wants = self.common.wants;
        match &mut self.kind {
            Kind::Sliding(kernel) if wants.low || wants.high => kernel.look(slot, time),
            Kind::Sliding(_)
            | Kind::Tumbling(_)
            | Kind::Hopping(_)
            | Kind::Rows(_)
            | Kind::Over(_)
            | Kind::Session(_) => None,
        }
    }

    /// Takes note of the next series.
    pub(super) fn add_series(&mut self, series: &Series, tables: &mut Tables) {
        self.add_input(series, &[]);
        if let Some(keyed) = &mut self.keyed {
            let is_taken = self.common.routes.takes(series.id.index());
            keyed.add_series(series, is_taken, tables);
        }
    }

    /// Takes note of the slots that its source has more than before.
    pub(super) fn add_slots_of(&mut self, source: &Self, series: &[Series]) {
        let routes = &source.common.routes;
        for slot in self.common.routes.inputs()..routes.len() {
            let slot = slot as u32;
            let first = &series[routes.series_of(slot).index()];
            self.add_input(first, routes.columns_of(slot));
        }
    }

    fn add_input(&mut self, series: &Series, columns: &[Arc<str>]) {
        if self.common.routes.add(series, columns) {
            // So that every slot has a page in the state.
            self.common.pages.touch(self.common.routes.len() - 1);
            with_kernel!(&mut self.kind, kernel => kernel.add_slot());
        }
    }

    pub(super) fn source(&self) -> Source {
        self.common.source
    }

    /// What a reader of this one is fed, whose figure is `value`.
    pub(super) fn as_source(&self, value_at: usize) -> SourceRows<'_> {
        SourceRows {
            out: &self.out,
            counts: self.common.aggregates.get(value_at) == Some(&Aggregate::Count),
            known: self.known(),
        }
    }

    pub(super) fn on_readings(&mut self, step: &Step<'_>, votes: &mut [u8]) {
        let (common, out) = (&mut self.common, &mut self.out);
        with_kernel!(&mut self.kind, kernel => match &mut self.keyed {
            None => kernel::run_readings((common, kernel), step, votes, out),
            Some(keyed) => keyed::run_readings((common, kernel), keyed, step, votes, out),
        });
    }

    pub(super) fn on_fed(&mut self, step: &Step<'_>, source: SourceRows<'_>) {
        let (common, out) = (&mut self.common, &mut self.out);
        with_kernel!(&mut self.kind, kernel => {
            kernel::run_fed((common, kernel), step, source, out);
        });
        self.put_in_order(step.series);
    }

    pub(super) fn on_turn(&mut self, turn: &Turn<'_>, source: Option<SourceRows<'_>>) {
        let (common, out) = (&mut self.common, &mut self.out);
        with_kernel!(&mut self.kind, kernel => match &mut self.keyed {
            None => kernel::run_turn((common, kernel), turn, source, out),
            Some(keyed) => keyed::run_turn((common, kernel), keyed, turn, out),
        });
        if self.common.is_chained() || self.keyed.is_some() {
            self.put_in_order(turn.series);
        }
    }

    /// Rows of one cause go by (end, start, key), whichever row of the source they are of.
    fn put_in_order(&mut self, series: &[Series]) {
        let (routes, rows) = (&self.common.routes, &self.out.rows.rows);
        let order = |a: &Row, b: &Row| {
            let by_time = (a.cause, a.end, a.start).cmp(&(b.cause, b.end, b.start));
            by_time.then_with(|| routes.key_order(series, a.slot, b.slot))
        };
        if rows.is_sorted_by(|a, b| order(a, b).is_le()) {
            return;
        }
        let mut places: Vec<usize> = (0..rows.len()).collect();
        places.sort_by(|a, b| order(&rows[*a], &rows[*b]));
        let figures = &self.out.figures;
        let sorted = places.iter().filter_map(|at| figures.get(*at).cloned());
        let (rows, figures) = (
            places.iter().map(|at| rows[*at]).collect(),
            sorted.collect(),
        );
        (self.out.rows.rows, self.out.figures) = (rows, figures);
    }

    pub(super) fn state_rows(&self) -> u64 {
        let waiting = self.keyed.as_ref().map_or(0, |keyed| keyed.state_rows());
        waiting + with_kernel!(&self.kind, kernel => kernel.state_rows())
    }

    /// Whether readings wait until a table of its key is known.
    pub(super) fn waits(&self) -> bool {
        self.keyed
            .as_ref()
            .is_some_and(|keyed| keyed.state_rows() > 0)
    }

    /// Readings that did not wait until their key was known.
    pub(super) fn forced(&self) -> u64 {
        self.keyed.as_ref().map_or(0, |keyed| keyed.forced())
    }

    /// Bytes that the next checkpoint takes, about.
    pub(super) fn changed_bytes(&self) -> usize {
        let waiting = self.keyed.as_ref().map_or(0, |keyed| keyed.changed_bytes());
        waiting + self.common.pages.changed() * state::PAGE * 48
    }

    pub(super) fn encode(&mut self, writer: &mut StateWriter<'_>) {
        let [_, high, low] = self.prefix;
        let mut blob = Vec::new();
        put_zigzag(&mut blob, self.common.all());
        put_varint(&mut blob, self.common.late_derived);
        writer.put(&[COMMON_KEY, high, low], &blob);
        let slots = self.common.routes.len();
        while let Some(page) = writer.next(&mut self.common.pages) {
            blob.clear();
            for slot in state::of_page(page, slots) {
                with_kernel!(&self.kind, kernel => kernel.encode(slot as u32, &mut blob));
            }
            writer.put(&[&self.prefix[..], &page.to_be_bytes()].concat(), &blob);
        }
        with_kernel!(&mut self.kind, kernel => {
            kernel.encode_more(&[MORE_KEY, high, low], writer);
        });
        if let Some(keyed) = &mut self.keyed {
            keyed.encode(&self.common, [KEYED_KEY, high, low], writer);
        }
    }

    /// Up to where the tables in its key, and in those of what it reads, are known.
    pub(super) fn known(&self) -> i64 {
        let of_key = self.keyed.as_ref().map(|keyed| keyed.known());
        of_key.unwrap_or(self.common.known)
    }

    /// Watermarks of devices that are not what they were when this operator saw them last.
    pub(super) fn set_watermarks(&mut self, series: &[Series], watermark: impl Fn(Scope) -> i64) {
        if let Some(keyed) = &mut self.keyed {
            keyed.set_marks(series, watermark);
        }
    }

    /// Reads what [`Operator::encode`] wrote, once all series are there, and all slots of
    /// its source; [`Operator::set_watermarks`] comes behind it.
    pub(super) fn decode(
        &mut self,
        reader: &StateReader,
        series: &[Series],
    ) -> Result<(), StateError> {
        let [_, high, low] = self.prefix;
        if let Some(keyed) = &mut self.keyed {
            let place = ([KEYED_KEY, high, low], reader);
            let common = &mut self.common;
            with_kernel!(&mut self.kind, kernel => {
                keyed.decode((common, kernel), place, series)
            })?;
        }
        let (common, kind) = (&mut self.common, &mut self.kind);
        reader.each(&[COMMON_KEY, high, low], |_, from| {
            common.set_all(from.zigzag()?);
            common.late_derived = from.varint()?;
            Ok(())
        })?;
        reader.each(&self.prefix, |rest, from| {
            let page = state::page_of(rest, from)?;
            for slot in state::of_page(page, common.routes.len()) {
                let slot = slot as u32;
                with_kernel!(&mut *kind, kernel => kernel.decode(common, slot, from))?;
            }
            Ok(())
        })?;
        with_kernel!(&mut self.kind, kernel => {
            kernel.decode_more(&mut self.common, &[MORE_KEY, high, low], reader)
        })
    }
}

/// Whether a window takes rows that may be revised.
fn over_windows(spec: &WindowSpec, config: &EngineConfig) -> bool {
    match spec.from {
        Source::Readings => false,
        Source::Window(from) => match config.windows[usize::from(from)].kind {
            WindowKind::Tumbling(_) | WindowKind::Hopping { .. } | WindowKind::Session { .. } => {
                true
            }
            WindowKind::Sliding { .. } | WindowKind::Rows { .. } => false,
        },
    }
}

/// Windows that read the rows of the one at this place, with their own places.
fn reads(at: u16, config: &EngineConfig) -> impl Iterator<Item = (u16, &WindowSpec)> {
    let windows = (0..).zip(&config.windows);
    windows.filter(move |(_, window)| window.from == Source::Window(at))
}

/// The figures of a window's rows: its own, and what its readers count with.
fn aggregates(at: u16, spec: &WindowSpec, config: &EngineConfig) -> Box<[Aggregate]> {
    let values = reads(at, config).filter(|(_, reader)| !reader.merge);
    let values = values.map(|(_, reader)| reader.value);
    let inputs = config
        .joins
        .iter()
        .flat_map(|join| [&join.left, &join.right]);
    let joined = inputs.filter(|input| input.from == JoinSource::Window(at));
    let joined = joined.map(|input| input.value);
    without_repeats(spec.aggregates.iter().copied().chain(values).chain(joined))
}

/// What a window has to keep for: its own figures, and those of all that is merged of
/// it, however far behind.
fn kept_for(at: u16, spec: &WindowSpec, config: &EngineConfig) -> Box<[Aggregate]> {
    let own = aggregates(at, spec, config);
    let merged = reads(at, config).filter(|(_, reader)| reader.merge);
    let merged = merged.flat_map(|(at, reader)| kept_for(at, reader, config));
    without_repeats(own.iter().copied().chain(merged))
}

fn without_repeats(aggregates: impl Iterator<Item = Aggregate>) -> Box<[Aggregate]> {
    let mut all: Vec<Aggregate> = Vec::new();
    for aggregate in aggregates {
        if !all.contains(&aggregate) {
            all.push(aggregate);
        }
    }
    all.into()
}
