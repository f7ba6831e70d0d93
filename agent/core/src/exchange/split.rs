//! Which windows and joins are computed partition by partition, and which need all devices
//! in one order.
//!
//! Holds always: each stream is written by one of both; what one reads, it computes itself.

use crate::engine::config::{
    EngineConfig, JoinInput, JoinKind, JoinSource, JoinSpec, Source, WindowSpec,
};

/// Windows and joins by whether they can be computed partition by partition.
#[derive(Debug, Clone, PartialEq)]
pub struct Split {
    /// Windows whose key has the device, and joins by device; lookups, as each partition
    /// has all tables.
    pub by_device: EngineConfig,
    /// What crosses devices, and what it reads.
    pub across: EngineConfig,
    /// Of each stream of `by_device` and `across`, windows, then joins, its place among those
    /// of the whole.
    pub by_device_of: Vec<usize>,
    pub across_of: Vec<usize>,
}

impl Split {
    /// `None` where nothing crosses devices.
    #[must_use]
    pub fn of(whole: &EngineConfig) -> Option<Self> {
        let windows = &whole.windows;
        let is_across = |join: &JoinSpec| join_crosses(whole, join);
        let joins: Vec<bool> = whole.joins.iter().map(is_across).collect();
        let mut crosses: Vec<bool> = windows.iter().map(|w| !w.key.device).collect();
        if !crosses.contains(&true) && !joins.contains(&true) {
            return None;
        }
        for (join, _) in whole
            .joins
            .iter()
            .zip(&joins)
            .filter(|(_, across)| **across)
        {
            for window in windows_of(join) {
                crosses[window] = true;
            }
        }
        // What one reads stands before it.
        for at in (0..windows.len()).rev() {
            if let (true, Source::Window(from)) = (crosses[at], windows[at].from) {
                crosses[usize::from(from)] = true;
            }
        }
        let places = |of: &dyn Fn(usize) -> bool| -> Vec<usize> {
            (0..windows.len()).filter(|at| of(*at)).collect()
        };
        let of = |across: bool| -> Vec<usize> {
            (0..joins.len()).filter(|at| joins[*at] == across).collect()
        };
        let by_device = (places(&|at| windows[at].key.device), of(false));
        let across = (places(&|at| crosses[at]), of(true));
        let all = |(windows_of, joins_of): &(Vec<usize>, Vec<usize>)| -> Vec<usize> {
            let joins = joins_of.iter().map(|at| windows.len() + at);
            windows_of.iter().copied().chain(joins).collect()
        };
        Some(Self {
            by_device: part_of(whole, &by_device),
            across: part_of(whole, &across),
            by_device_of: all(&by_device),
            across_of: all(&across),
        })
    }
}

fn sides(join: &JoinSpec) -> [&JoinInput; 2] {
    [&join.left, &join.right]
}

fn windows_of(join: &JoinSpec) -> impl Iterator<Item = usize> {
    sides(join)
        .into_iter()
        .filter_map(|input| match input.from {
            JoinSource::Window(at) => Some(usize::from(at)),
            JoinSource::Readings | JoinSource::Table(_) => None,
        })
}

/// Whether a join, or a window that it reads, needs more than the readings of one device
/// at a time.
fn join_crosses(whole: &EngineConfig, join: &JoinSpec) -> bool {
    let itself = match join.kind {
        JoinKind::Interval { .. } | JoinKind::Table => join.crosses_devices(),
        JoinKind::Lookup { .. } => false,
    };
    itself || windows_of(join).any(|at| !whole.windows[at].key.device)
}

/// The new number of what stood at a place.
fn renumbered(places: &[usize], of: u16) -> u16 {
    let at = places.iter().position(|place| *place == usize::from(of));
    let at = at.expect("a source goes with its reader");
    u16::try_from(at).expect("as small as the one before")
}

/// These windows and joins, each with its sources under their new numbers, and the tables
/// that they use.
fn part_of(whole: &EngineConfig, (windows, joins): &(Vec<usize>, Vec<usize>)) -> EngineConfig {
    let mut part = EngineConfig {
        time: whole.time.clone(),
        windows: windows
            .iter()
            .map(|at| whole.windows[*at].clone())
            .collect(),
        tables: Vec::new(),
        joins: joins.iter().map(|at| whole.joins[*at].clone()).collect(),
    };
    let tables = tables_of(whole, &part);
    part.tables = tables.iter().map(|at| whole.tables[*at].clone()).collect();
    for window in &mut part.windows {
        renumber_window(window, windows, &tables);
    }
    for join in &mut part.joins {
        for input in [&mut join.left, &mut join.right] {
            input.from = match input.from {
                JoinSource::Readings => JoinSource::Readings,
                JoinSource::Window(at) => JoinSource::Window(renumbered(windows, at)),
                JoinSource::Table(at) => JoinSource::Table(renumbered(&tables, at)),
            };
        }
    }
    part
}

fn renumber_window(window: &mut WindowSpec, windows: &[usize], tables: &[usize]) {
    if let Source::Window(from) = window.from {
        window.from = Source::Window(renumbered(windows, from));
    }
    for column in &mut window.key_columns {
        column.table = renumbered(tables, column.table);
    }
}

/// Tables that a part uses, in their order.
fn tables_of(whole: &EngineConfig, part: &EngineConfig) -> Vec<usize> {
    let inputs = part.joins.iter().flat_map(sides);
    let of_joins = inputs.filter_map(|input| match input.from {
        JoinSource::Table(at) => Some(at),
        JoinSource::Readings | JoinSource::Window(_) => None,
    });
    let columns = part.windows.iter().flat_map(|window| &window.key_columns);
    let used: Vec<u16> = of_joins.chain(columns.map(|column| column.table)).collect();
    let is_used = |at: &usize| used.iter().any(|used| usize::from(*used) == *at);
    (0..whole.tables.len()).filter(is_used).collect()
}
