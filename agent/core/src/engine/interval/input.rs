//! One side of an interval join: which readings and rows of windows come in, how long
//! after the watermark rows of windows still do, and how what is held is shown.
//!
//! Bound: of a series one byte; of a window's key that was seen its number. Knows no pairs.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::held::Held;
use crate::engine::config::{EngineConfig, JoinInput, JoinSource, Source, WindowKind};
use crate::engine::filter::{Filter, Maybe};
use crate::engine::joined::{self, WindowSide};
use crate::engine::kernel::final_delay;
use crate::engine::route::{Series, SeriesId, push_tight};
use crate::engine::state::{self, StateError, StateReader, StateWriter};
use crate::engine::value;
use crate::log::bytes::put_varint;

/// One side.
#[derive(Debug)]
pub(super) struct Input {
    source: JoinSource,
    filter: Option<Filter>,
    /// Of readings, by series.
    taken: Vec<Maybe>,
    /// Of rows of windows: how far they are behind the watermark when they are final.
    pub(super) delay: i64,
    /// They are lines, which are final at once.
    pub(super) are_lines: bool,
    pub(super) names: WindowKeys,
}

/// The keys of a window, in order of first sight.
#[derive(Debug, Default)]
pub(super) struct WindowKeys {
    numbers: BTreeMap<WindowKey, u32>,
    pub(super) keys: Vec<WindowKey>,
    kept: usize,
}

/// A series of the key, and what it has from tables beside.
pub(super) type WindowKey = (SeriesId, Option<Arc<str>>);

impl WindowKeys {
    pub(super) fn number(&mut self, key: &WindowKey) -> u32 {
        if let Some(number) = self.numbers.get(key) {
            return *number;
        }
        let next = u32::try_from(self.keys.len()).expect("fewer keys than rows that were held");
        self.numbers.insert(key.clone(), next);
        self.keys.push(key.clone());
        next
    }
}

impl Input {
    pub(super) fn new(input: &JoinInput, config: &EngineConfig) -> Self {
        let (delay, are_lines) = match input.from {
            JoinSource::Readings | JoinSource::Table(_) => (0, false),
            JoinSource::Window(from) => {
                let window = &config.windows[usize::from(from)];
                let are_lines = match window.kind {
                    WindowKind::Sliding { .. } | WindowKind::Rows { .. } => true,
                    WindowKind::Tumbling(_)
                    | WindowKind::Hopping { .. }
                    | WindowKind::Session { .. } => false,
                };
                (final_delay(window, config), are_lines)
            }
        };
        Self {
            source: input.from,
            filter: input.filter.clone(),
            taken: Vec::new(),
            delay,
            are_lines,
            names: WindowKeys::default(),
        }
    }

    pub(super) fn reads_windows(&self) -> bool {
        matches!(self.source, JoinSource::Window(_))
    }

    /// Takes note of a series; whether anything of it may come in.
    pub(super) fn add_series(&mut self, series: &Series) -> bool {
        let (device, channel) = (&*series.names.device, &*series.names.channel);
        match self.source {
            JoinSource::Window(_) => true,
            JoinSource::Table(_) => false,
            JoinSource::Readings => {
                let filter = self.filter.as_ref();
                let taken = filter.map_or(Maybe::Yes, |f| f.takes_series(device, channel));
                push_tight(&mut self.taken, taken);
                taken != Maybe::No
            }
        }
    }

    /// Whether a reading comes in on this side.
    #[inline]
    pub(super) fn takes(&self, series: &Series, value: f64) -> bool {
        match self.taken.get(series.id.index()) {
            None | Some(Maybe::No) => false,
            Some(Maybe::Yes) => true,
            Some(Maybe::ByValue) => self.accepts(series, value::option(value)),
        }
    }

    pub(super) fn accepts(&self, series: &Series, value: Option<f64>) -> bool {
        let names = &series.names;
        let filter = self.filter.as_ref();
        filter.is_none_or(|filter| filter.takes(&names.device, &names.channel, value))
    }

    pub(super) fn shown(&self, held: &Held) -> joined::Side {
        if !self.reads_windows() {
            return joined::Side::Reading {
                series: SeriesId(held.of),
                time: held.time,
                value: held.value,
            };
        }
        let (series, columns) = self.names.keys[held.of as usize].clone();
        joined::Side::Window(WindowSide {
            series,
            columns,
            start: held.start,
            end: held.time.saturating_add(i64::from(!self.are_lines)),
            value: held.value,
        })
    }
}

/// Tables in the key of a window, or of those that it reads.
pub(super) fn tables_of(from: JoinSource, config: &EngineConfig) -> Vec<u16> {
    let JoinSource::Window(mut at) = from else {
        return Vec::new();
    };
    let mut tables = Vec::new();
    loop {
        let window = &config.windows[usize::from(at)];
        tables.extend(window.key_columns.iter().map(|column| column.table));
        match window.from {
            Source::Readings => return tables,
            Source::Window(from) => at = from,
        }
    }
}

impl WindowKeys {
    pub(super) fn encode(&mut self, key: &[u8], writer: &mut StateWriter<'_>) {
        if self.kept == self.keys.len() {
            return;
        }
        self.kept = self.keys.len();
        let mut blob = Vec::new();
        for (series, columns) in &self.keys {
            put_varint(&mut blob, series.0.into());
            state::put_long(&mut blob, columns.as_deref().unwrap_or(""));
        }
        writer.put(key, &blob);
    }

    pub(super) fn decode(
        &mut self,
        key: &[u8],
        series_known: usize,
        reader: &StateReader,
    ) -> Result<(), StateError> {
        reader.each(key, |_, from| {
            while !from.is_at_end() {
                let series = state::u32(from)?;
                let columns = state::long(from)?;
                let columns = (!columns.is_empty()).then(|| columns.into());
                let number = self.keys.len();
                let given = self.number(&(SeriesId(series), columns)) as usize;
                if series as usize >= series_known || given != number {
                    return Err(from.malformed());
                }
            }
            Ok(())
        })?;
        self.kept = self.keys.len();
        Ok(())
    }
}
