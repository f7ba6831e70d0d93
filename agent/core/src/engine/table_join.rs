//! Table-table joins: the rows of two tables in pairs, told as differences. The left row
//! names the key of the right one, by its own key or by other columns. Each change says at
//! once what is no more and what is now, in the order of the log.
//!
//! Always: the differences told so far add up to the pairs of the newest rows, by time, so
//! that a change that comes after a newer one says nothing. Only what was told is taken
//! back. Bound: an entry per left row that names a right one. Keeps no rows and no state of
//! its own: both are the tables'.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use crate::change::row_key;
use crate::engine::config::{EngineConfig, JoinColumn, JoinSource, JoinSpec, JoinType};
use crate::engine::device::Step;
use crate::engine::join::{FedSides, JoinKernel, JoinOut};
use crate::engine::joined::{JoinKey, JoinedRow, Mark, Side};
use crate::engine::kernel::Turn;
use crate::engine::route::Series;
use crate::engine::state::{StateError, StateReader, StateWriter};
use crate::engine::table::{Changed, Tables, Version};

/// See the module.
#[derive(Debug)]
pub(super) struct TableJoin {
    left: u16,
    right: u16,
    join_type: JoinType,
    on: Reference,
    /// Which left rows name which right ones; `None` until a change asks.
    refs: Option<Refs>,
}

/// How a left row names a right one.
#[derive(Debug)]
enum Reference {
    /// By its own key.
    Key,
    Columns(Vec<String>),
}

impl Reference {
    /// The key of the right row; `None` where a column is null.
    fn of(&self, key: &Arc<str>, row: &str) -> Option<Arc<str>> {
        match self {
            Self::Key => Some(key.clone()),
            Self::Columns(columns) => row_key(row, columns).map(Arc::from),
        }
    }
}

/// The key of a right row, and that of a left row that names it.
#[derive(Debug, Default)]
struct Refs(BTreeSet<(Arc<str>, Arc<str>)>);

impl Refs {
    /// Left rows that name this right one.
    fn to<'a>(&'a self, right: &'a Arc<str>) -> impl Iterator<Item = &'a Arc<str>> {
        let first = (right.clone(), Arc::from(""));
        let from = self.0.range((Bound::Included(first), Bound::Unbounded));
        from.take_while(move |(to, _)| to == right)
            .map(|(_, left)| left)
    }
}

/// A pair, or a row without one.
#[derive(Debug, Clone)]
struct Pair {
    left: Option<Arc<str>>,
    right: Option<Arc<str>>,
    /// The later of both rows, us.
    time: i64,
}

impl Pair {
    fn says_the_same(&self, other: &Self) -> bool {
        (&self.left, &self.right) == (&other.left, &other.right)
    }
}

/// The tables before or after a change.
#[derive(Clone, Copy)]
struct View<'a> {
    tables: &'a Tables,
    changed: &'a Changed,
    is_before: bool,
}

impl<'a> View<'a> {
    /// The newest row of a key, with the time from which it holds.
    fn row(&self, table: u16, key: &str) -> Option<(&'a Arc<str>, i64)> {
        let version: Option<&Version> = if table != self.changed.table || *key != *self.changed.key
        {
            self.tables.newest(table, key)
        } else if self.is_before {
            self.changed.before.as_ref()
        } else {
            self.changed.after.as_ref()
        };
        let version = version?;
        version.row.as_ref().map(|row| (row, version.from))
    }
}

impl TableJoin {
    pub(super) fn new(spec: &JoinSpec, config: &EngineConfig) -> Self {
        let table = |from: JoinSource| match from {
            JoinSource::Table(table) => table,
            // The config refuses these.
            JoinSource::Readings | JoinSource::Window(_) => 0,
        };
        let left = table(spec.left.from);
        let columns: Vec<String> = spec.on.iter().map(name_of).collect();
        let is_key = config
            .tables
            .get(usize::from(left))
            .is_some_and(|table| table.key == columns);
        Self {
            left,
            right: table(spec.right.from),
            join_type: spec.join_type,
            on: if is_key {
                Reference::Key
            } else {
                Reference::Columns(columns)
            },
            refs: None,
        }
    }

    /// What a left row makes.
    fn of_left(&self, view: View<'_>, key: &Arc<str>) -> Option<Pair> {
        let (left, from) = view.row(self.left, key)?;
        let to = self.on.of(key, left);
        let right = to.and_then(|to| view.row(self.right, &to));
        if right.is_none() && self.join_type == JoinType::Inner {
            return None;
        }
        Some(Pair {
            left: Some(left.clone()),
            right: right.map(|(row, _)| row.clone()),
            time: right.map_or(from, |(_, of_right)| from.max(of_right)),
        })
    }

    /// What a right row makes that no left one names.
    fn of_right(&self, view: View<'_>, refs: &Refs, key: &Arc<str>) -> Option<Pair> {
        let (right, time) = view.row(self.right, key)?;
        let is_named = refs.to(key).next().is_some();
        (!is_named).then(|| Pair {
            left: None,
            right: Some(right.clone()),
            time,
        })
    }

    /// The right row that a version of the changed left row names.
    fn names(&self, changed: &Changed, version: &Option<Version>) -> Option<Arc<str>> {
        let row = version.as_ref()?.row.as_ref()?;
        self.on.of(&changed.key, row)
    }

    /// Which left rows named which right ones before a change.
    fn refs_before(&self, tables: &Tables, changed: &Changed) -> Refs {
        let rows = tables.rows(self.left);
        let named = rows.filter_map(|(key, version)| {
            let to = self.on.of(key, version.row.as_ref()?)?;
            Some((to, key.clone()))
        });
        let mut refs = Refs(named.collect());
        if changed.table == self.left {
            let (before, after) = (&changed.before, &changed.after);
            refs.turn(
                &changed.key,
                self.names(changed, after),
                self.names(changed, before),
            );
        }
        refs
    }

    fn apply(&self, refs: &mut Refs, view: View<'_>, out: &mut JoinOut) {
        let changed = view.changed;
        let (is_left, is_right) = (changed.table == self.left, changed.table == self.right);
        let (before, after) = (&changed.before, &changed.after);
        let (was, is) = match is_left {
            true => (self.names(changed, before), self.names(changed, after)),
            false => (None, None),
        };
        let mut lefts: BTreeSet<Arc<str>> = BTreeSet::new();
        let mut rights: BTreeSet<Arc<str>> = BTreeSet::new();
        if is_left {
            lefts.insert(changed.key.clone());
            rights.extend(was.iter().chain(&is).cloned());
        }
        if is_right {
            lefts.extend(refs.to(&changed.key).cloned());
            rights.insert(changed.key.clone());
        }
        if self.join_type != JoinType::Full {
            rights.clear();
        }
        let at = |is_before| View { is_before, ..view };
        let of_rights = |refs: &Refs, is_before| {
            let keys = rights.iter();
            let pairs = keys.map(|key| self.of_right(at(is_before), refs, key));
            pairs.collect::<Vec<_>>()
        };
        let rights_before = of_rights(refs, true);
        if is_left {
            refs.turn(&changed.key, was, is);
        }
        let rights_after = of_rights(refs, false);
        let lefts = lefts.into_iter().map(|key| {
            let (before, after) = (self.of_left(at(true), &key), self.of_left(at(false), &key));
            (key, before, after)
        });
        let alone = rights.iter().zip(rights_before).zip(rights_after);
        let alone = alone.map(|((key, before), after)| (key.clone(), before, after));
        let mut told = Vec::new();
        for (key, before, after) in lefts.chain(alone) {
            match (&before, &after) {
                (Some(before), Some(after)) if before.says_the_same(after) => continue,
                (Some(_) | None, Some(_) | None) => {}
            }
            let (before, after) = (before.map(|p| (0, p)), after.map(|p| (1, p)));
            told.extend(
                before
                    .into_iter()
                    .chain(after)
                    .map(|(nth, p)| (key.clone(), nth, p)),
            );
        }
        // By key, what is no more before what is now.
        told.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
        for (key, nth, pair) in told {
            let shown = |row: Option<Arc<str>>| row.map_or(Side::Null, Side::Row);
            let row = JoinedRow {
                key: JoinKey::Text(key),
                mark: if nth == 0 { Mark::Removed } else { Mark::Added },
                left: shown(pair.left),
                right: shown(pair.right),
            };
            out.push(0, pair.time.max(changed.time), row);
        }
    }
}

impl Refs {
    /// A left row names another right one than before.
    fn turn(&mut self, left: &Arc<str>, was: Option<Arc<str>>, is: Option<Arc<str>>) {
        if was == is {
            return;
        }
        if let Some(was) = was {
            self.0.remove(&(was, left.clone()));
        }
        if let Some(is) = is {
            self.0.insert((is, left.clone()));
        }
    }
}

/// The name of a column: a device or a channel is one like others in a row of a table.
fn name_of(column: &JoinColumn) -> String {
    match column {
        JoinColumn::Device => "device".to_owned(),
        JoinColumn::Channel => "channel".to_owned(),
        JoinColumn::Column(name) => name.clone(),
    }
}

fn row_of(version: &Option<Version>) -> Option<&Arc<str>> {
    version.as_ref()?.row.as_ref()
}

impl JoinKernel for TableJoin {
    fn add_series(&mut self, _series: &Series, _tables: &mut Tables) {}

    fn on_batch(&mut self, _: &Step<'_>, _: &FedSides<'_>, _: &mut [u8], _: &mut JoinOut) {}

    fn on_change(&mut self, changed: &Changed, turn: &Turn<'_>, out: &mut JoinOut) {
        let is_ours = changed.table == self.left || changed.table == self.right;
        if !is_ours || row_of(&changed.before) == row_of(&changed.after) {
            return;
        }
        let refs = self.refs.take();
        let mut refs = refs.unwrap_or_else(|| self.refs_before(turn.tables, changed));
        let view = View {
            tables: turn.tables,
            changed,
            is_before: false,
        };
        self.apply(&mut refs, view, out);
        self.refs = Some(refs);
    }

    fn on_turn(&mut self, _: &Turn<'_>, _: &FedSides<'_>, _: &mut JoinOut) {}

    /// None: rows of tables are not its own.
    fn state_rows(&self) -> u64 {
        0
    }

    fn forced(&self) -> u64 {
        0
    }

    fn changed_bytes(&self) -> usize {
        0
    }

    fn encode(&mut self, _prefix: [u8; 3], _writer: &mut StateWriter<'_>) {}

    fn decode(&mut self, _prefix: [u8; 3], _reader: &StateReader) -> Result<(), StateError> {
        self.refs = None;
        Ok(())
    }
}
