//! Which readings an operator takes, and under which key it keeps them: dense
//! numbers, so that a reading costs one look-up and no allocation. Knows no time.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::engine::config::{EngineConfig, KeyColumn, KeySpec, Source, WindowSpec};
use crate::engine::row::SeriesNames;

/// A device in the engine, from 0 in order of first sight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId(pub(super) u32);

/// A channel of a device in the engine, from 0 in order of first sight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeriesId(pub(super) u32);

impl DeviceId {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

impl SeriesId {
    /// The id as a number that can be kept, see [`crate::engine::Engine::series_at`].
    #[must_use]
    pub fn number(self) -> u32 {
        self.0
    }

    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A series with its device and names.
#[derive(Debug, Clone)]
pub(super) struct Series {
    pub(super) id: SeriesId,
    pub(super) device: DeviceId,
    pub(super) names: SeriesNames,
}

/// Place of a key's state in its operator, from 0 in order of first sight.
pub(super) type Slot = u32;
const NOT_TAKEN: Slot = Slot::MAX;
/// Its slot depends on what a table says at the time of each reading.
const BY_TABLE: Slot = Slot::MAX - 1;

/// The columns of tables in a key, as they stand in a line: `,"sites.building":"north"`
/// each.
pub(super) type Columns = Arc<[Arc<str>]>;

/// What is in a key: device, channel, columns of tables.
type SharedKey = (Option<DeviceId>, Option<Arc<str>>, Columns);

/// What shares one watermark in an operator: a device, by its number, or, where the
/// key holds no device, all of them, as 0.
pub(super) type Scope = u32;

/// The input side of one operator. Its inputs are series, or the slots of another
/// operator.
#[derive(Debug)]
pub(super) struct Routes {
    channels: Option<BTreeSet<String>>,
    devices: Option<BTreeSet<String>>,
    key: KeySpec,
    columns: ColumnsFrom,
    /// Every input has a key of its own.
    is_plain: bool,
    /// By input.
    slot_of: Vec<Slot>,
    /// By key, where several inputs share one.
    shared: BTreeMap<SharedKey, Slot>,
    /// Of each slot, where the key has any.
    columns_of: Vec<Columns>,
    slots_of: Vec<Slots>,
    scope_of: Vec<Scope>,
    /// The first series of each slot: its names are those of the key.
    series_of: Vec<SeriesId>,
}

/// Where the columns of tables in the key come from.
#[derive(Debug)]
enum ColumnsFrom {
    /// There are none.
    Nowhere,
    /// From tables, at the time of each reading.
    Tables,
    /// From those of the source, at these places.
    Source(Box<[usize]>),
}

impl ColumnsFrom {
    fn new(spec: &WindowSpec, config: &EngineConfig) -> Self {
        if spec.key_columns.is_empty() {
            return Self::Nowhere;
        }
        let Source::Window(from) = spec.from else {
            return Self::Tables;
        };
        let of_source = &config.windows[usize::from(from)].key_columns;
        let place = |column: &KeyColumn| of_source.iter().position(|c| c == column);
        Self::Source(spec.key_columns.iter().filter_map(place).collect())
    }
}

/// The slots of a scope: most devices have one.
#[derive(Debug)]
enum Slots {
    One(Slot),
    Some(Box<Many>),
}

#[derive(Debug)]
struct Many(Vec<Slot>);

impl Slots {
    const NONE: Self = Self::One(NOT_TAKEN);

    fn push(&mut self, slot: Slot) {
        match self {
            Self::One(NOT_TAKEN) => *self = Self::One(slot),
            Self::One(first) => *self = Self::Some(Box::new(Many(vec![*first, slot]))),
            Self::Some(many) => many.0.push(slot),
        }
    }

    fn as_slice(&self) -> &[Slot] {
        match self {
            Self::One(NOT_TAKEN) => &[],
            Self::One(slot) => std::slice::from_ref(slot),
            Self::Some(many) => &many.0,
        }
    }
}

/// Appends, and makes room by an eighth: doubling would take as much again as there is.
pub(super) fn push_tight<T>(to: &mut Vec<T>, one: T) {
    if to.len() == to.capacity() {
        to.reserve_exact(to.len() / 8 + 4);
    }
    to.push(one);
}

impl Routes {
    pub(super) fn new(spec: &WindowSpec, config: &EngineConfig) -> Self {
        let columns = ColumnsFrom::new(spec, config);
        let source_has_columns = match spec.from {
            Source::Readings => false,
            Source::Window(from) => !config.windows[usize::from(from)].key_columns.is_empty(),
        };
        let has_columns = source_has_columns || !spec.key_columns.is_empty();
        let set = |names: &Option<Vec<String>>| names.as_ref().map(|n| n.iter().cloned().collect());
        Self {
            channels: set(&spec.channels),
            devices: set(&spec.devices),
            key: spec.key,
            columns,
            is_plain: spec.key.device && spec.key.channel && !has_columns,
            slot_of: Vec::new(),
            shared: BTreeMap::new(),
            columns_of: Vec::new(),
            slots_of: Vec::new(),
            scope_of: Vec::new(),
            series_of: Vec::new(),
        }
    }

    /// Takes note of the next input, a series or a slot of another operator that has
    /// this one as its first; true when it needs a new slot, whose number is the count
    /// of slots before. `of_source`: the columns that are in the key of that slot.
    pub(super) fn add(&mut self, series: &Series, of_source: &[Arc<str>]) -> bool {
        let takes = |set: &Option<BTreeSet<String>>, name: &str| {
            set.as_ref().is_none_or(|set| set.contains(name))
        };
        if !takes(&self.channels, &series.names.channel)
            || !takes(&self.devices, &series.names.device)
        {
            push_tight(&mut self.slot_of, NOT_TAKEN);
            return false;
        }
        let columns: Columns = match &self.columns {
            ColumnsFrom::Nowhere => Arc::default(),
            ColumnsFrom::Tables => {
                push_tight(&mut self.slot_of, BY_TABLE);
                return false;
            }
            ColumnsFrom::Source(places) => {
                let columns = places.iter().filter_map(|at| of_source.get(*at).cloned());
                columns.collect()
            }
        };
        let (slot, is_new) = self.slot_for(series, columns);
        push_tight(&mut self.slot_of, slot);
        is_new
    }

    fn shared_key(&self, series: &Series, columns: Columns) -> SharedKey {
        let device = self.key.device.then_some(series.device);
        let channel = self.key.channel.then(|| series.names.channel.clone());
        (device, channel, columns)
    }

    /// Whether a series has a slot with these columns, or may have one more while there
    /// are no more than `max`.
    pub(super) fn has_room(&self, series: &Series, columns: &Columns, max: usize) -> bool {
        let is_known = || {
            let key = self.shared_key(series, columns.clone());
            self.shared.contains_key(&key)
        };
        self.len() < max || is_known()
    }

    /// The slot of a series with these columns, and whether it is new.
    pub(super) fn slot_for(&mut self, series: &Series, columns: Columns) -> (Slot, bool) {
        let next = Slot::try_from(self.series_of.len()).expect("fewer slots than series");
        if !self.is_plain {
            let key = self.shared_key(series, columns.clone());
            let slot = *self.shared.entry(key).or_insert(next);
            if slot != next {
                return (slot, false);
            }
        }
        match self.columns {
            ColumnsFrom::Nowhere => {}
            ColumnsFrom::Tables | ColumnsFrom::Source(_) => self.columns_of.push(columns),
        }
        let scope = if self.key.device { series.device.0 } else { 0 };
        push_tight(&mut self.scope_of, scope);
        push_tight(&mut self.series_of, series.id);
        while self.slots_of.len() <= scope as usize {
            push_tight(&mut self.slots_of, Slots::NONE);
        }
        self.slots_of[scope as usize].push(next);
        (next, true)
    }

    /// Inputs so far.
    pub(super) fn inputs(&self) -> usize {
        self.slot_of.len()
    }

    /// Whether readings of an input are taken.
    #[inline]
    pub(super) fn takes(&self, input: usize) -> bool {
        self.slot_of
            .get(input)
            .is_some_and(|slot| *slot != NOT_TAKEN)
    }

    /// The columns of tables in the key of a slot.
    pub(super) fn columns_of(&self, slot: Slot) -> &[Arc<str>] {
        let columns = self.columns_of.get(slot as usize);
        columns.map_or(&[], |columns| columns)
    }

    #[inline]
    pub(super) fn slot(&self, input: usize) -> Option<Slot> {
        let slot = *self.slot_of.get(input)?;
        (slot != NOT_TAKEN).then_some(slot)
    }

    /// Slots so far.
    pub(super) fn len(&self) -> usize {
        self.series_of.len()
    }

    /// Whether each device has its own watermark here.
    pub(super) fn by_device(&self) -> bool {
        self.key.device
    }

    pub(super) fn slots_of(&self, scope: Scope) -> &[Slot] {
        self.slots_of
            .get(scope as usize)
            .map_or(&[], Slots::as_slice)
    }

    pub(super) fn scope_of(&self, slot: Slot) -> Scope {
        self.scope_of[slot as usize]
    }

    pub(super) fn series_of(&self, slot: Slot) -> SeriesId {
        self.series_of[slot as usize]
    }

    /// The order of keys in the output: by device, then channel, then columns of tables.
    pub(super) fn key_order(&self, series: &[Series], a: Slot, b: Slot) -> Ordering {
        if a == b {
            return Ordering::Equal;
        }
        let by_columns = self.columns_of(a).cmp(self.columns_of(b));
        self.name_order(series, a, b).then(by_columns)
    }

    fn name_order(&self, series: &[Series], a: Slot, b: Slot) -> Ordering {
        let names = |slot| &series[self.series_of(slot).index()].names;
        let (a, b) = (names(a), names(b));
        let by_channel = || a.channel.cmp(&b.channel);
        match (self.key.device, self.key.channel) {
            (true, true) => a.device.cmp(&b.device).then_with(by_channel),
            (true, false) => a.device.cmp(&b.device),
            (false, true) => by_channel(),
            (false, false) => Ordering::Equal,
        }
    }
}

/// When something is due next, per scope: a watermark below that costs one comparison.
#[derive(Debug, Default)]
pub(super) struct Timers {
    at: Vec<i64>,
    /// None is set to less.
    least: Option<i64>,
}

impl Timers {
    /// Nothing is due. The end of time is as large, and then all is looked at.
    const NEVER: i64 = i64::MAX;

    pub(super) fn sooner(&mut self, scope: Scope, at: i64) {
        let index = scope as usize;
        while self.at.len() <= index {
            push_tight(&mut self.at, Self::NEVER);
        }
        self.at[index] = at.min(self.at[index]);
        self.least = Some(self.least.map_or(at, |least| least.min(at)));
    }

    /// The scopes that are due at their watermarks, whose timers are then off. None of
    /// the watermarks is above `largest`.
    pub(super) fn take_all_due(
        &mut self,
        largest: i64,
        watermark: impl Fn(Scope) -> i64,
    ) -> Vec<(Scope, i64)> {
        let mut due = Vec::new();
        // At the end of time all is looked at.
        if largest < Self::NEVER && self.least.is_none_or(|least| least > largest) {
            return due;
        }
        self.least = None;
        for (scope, at) in (0..).zip(&mut self.at) {
            let watermark = watermark(scope);
            if *at <= watermark {
                *at = Self::NEVER;
                due.push((scope, watermark));
            } else if *at != Self::NEVER {
                self.least = Some(self.least.map_or(*at, |least| least.min(*at)));
            }
        }
        due
    }

    /// Whether something is due at this watermark.
    #[inline]
    pub(super) fn is_due(&self, scope: Scope, watermark: i64) -> bool {
        self.at
            .get(scope as usize)
            .is_some_and(|at| *at <= watermark)
    }

    /// The same; if so, the timer is off until it is set again.
    pub(super) fn take_due(&mut self, scope: Scope, watermark: i64) -> bool {
        let due = self.is_due(scope, watermark);
        if due {
            self.at[scope as usize] = Self::NEVER;
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::config::{TableSpec, WindowKind};
    use crate::limits::KEYED_SLOTS_MAX;

    #[test]
    fn beyond_its_bound_only_keys_that_are_known_have_room() {
        let config = EngineConfig {
            tables: vec![TableSpec::new("sites", &["device"])],
            ..EngineConfig::default()
        };
        let kind = WindowKind::Rows { n: 3 };
        let spec = WindowSpec {
            key: KeySpec::NONE,
            key_columns: vec![KeyColumn {
                table: 0,
                column: "building".into(),
            }],
            ..WindowSpec::new("w", kind)
        };
        let mut routes = Routes::new(&spec, &config);
        let series = Series {
            id: SeriesId(0),
            device: DeviceId(0),
            names: SeriesNames::new(&"d".into(), "x"),
        };
        let columns =
            |n: usize| -> Columns { [Arc::from(format!(",\"sites.building\":{n}"))].into() };
        for n in 0..KEYED_SLOTS_MAX - 1 {
            routes.slot_for(&series, columns(n));
        }
        let room = |routes: &Routes, n| routes.has_room(&series, &columns(n), KEYED_SLOTS_MAX);
        assert!(room(&routes, KEYED_SLOTS_MAX), "limit - 1");
        routes.slot_for(&series, columns(KEYED_SLOTS_MAX));
        assert!(!room(&routes, KEYED_SLOTS_MAX + 1), "limit");
        assert!(room(&routes, 7) && room(&routes, KEYED_SLOTS_MAX), "known");
        // The key of nulls may come on top.
        routes.slot_for(&series, [Arc::from(",\"sites.building\":null")].into());
        assert!(!room(&routes, KEYED_SLOTS_MAX + 1), "limit + 1");
        assert_eq!(routes.slot_for(&series, columns(7)), (7, false));
    }
}
