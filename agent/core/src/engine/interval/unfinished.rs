//! Rows of windows that a join has not taken yet. A row may be revised until its window
//! is final, and a pair that is written is not taken back: so a row waits until then, or
//! until its scope falls silent. What revises it after that says nothing to the join.
//!
//! Bound: the rows of windows that are not final. Knows no pairs.

use std::collections::{BTreeMap, BTreeSet};

use super::pairs::Side;
use crate::engine::route::{Scope, Slot};
use crate::engine::state::{self, StateWriter};
use crate::log::bytes::{Malformed, Reader, put_varint, put_zigzag};

/// A window: the side that it is an input of, the number of its key and its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WindowId {
    pub(super) side: Side,
    pub(super) of: u32,
    pub(super) start: i64,
}

/// What it said last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WindowRow {
    /// Under its key in the join.
    pub(super) slot: Slot,
    pub(super) scope: Scope,
    /// Its last microsecond.
    pub(super) time: i64,
    /// A count, or the bits of a double.
    pub(super) value: u64,
    /// The mark of its side from which on it is final.
    pub(super) final_at: i64,
    /// It is in the join already, because its scope fell silent.
    is_taken: bool,
}

impl WindowRow {
    pub(super) fn new(
        (slot, scope): (Slot, Scope),
        (time, value): (i64, u64),
        final_at: i64,
    ) -> Self {
        Self {
            slot,
            scope,
            time,
            value,
            final_at,
            is_taken: false,
        }
    }
}

/// When a row is final, by the mark of its side.
type Due = (Scope, Side, i64, WindowId);

#[derive(Debug, Default)]
pub(super) struct Unfinished {
    rows: BTreeMap<WindowId, WindowRow>,
    due: BTreeSet<Due>,
    changed: bool,
}

impl Unfinished {
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// What a window says now. False when the join has taken it already.
    pub(super) fn put(&mut self, id: WindowId, row: WindowRow) -> bool {
        if !self.remove(id) {
            return false;
        }
        self.rows.insert(id, row);
        self.due.insert((row.scope, id.side, row.final_at, id));
        true
    }

    /// The window is no more. False when the join has taken it already.
    pub(super) fn remove(&mut self, id: WindowId) -> bool {
        self.changed = true;
        match self.rows.get(&id) {
            Some(row) if row.is_taken => false,
            Some(row) => {
                self.due.remove(&(row.scope, id.side, row.final_at, id));
                self.rows.remove(&id);
                true
            }
            None => true,
        }
    }

    /// The next row of a side of a scope that is final at this mark and was not taken.
    pub(super) fn next_final(
        &mut self,
        (scope, side): (Scope, Side),
        mark: i64,
    ) -> Option<(WindowId, WindowRow)> {
        loop {
            let first = self.due.range(of_side(scope, side)).next();
            let first = *first.filter(|(_, _, at, _)| *at <= mark)?;
            let (_, _, _, id) = first;
            self.changed = true;
            self.due.remove(&first);
            if let Some(row) = self.rows.remove(&id).filter(|row| !row.is_taken) {
                return Some((id, row));
            }
        }
    }

    /// Rows to keep anew.
    pub(super) fn changed(&self) -> usize {
        if self.changed { self.rows.len() } else { 0 }
    }

    /// All rows of a scope that were not taken, as they stand; now they are.
    pub(super) fn take_all(&mut self, scope: Scope) -> Vec<(WindowId, WindowRow)> {
        let mut taken = Vec::new();
        for side in Side::BOTH {
            for (_, _, _, id) in self.due.range(of_side(scope, side)) {
                if let Some(row) = self.rows.get_mut(id).filter(|row| !row.is_taken) {
                    row.is_taken = true;
                    taken.push((*id, *row));
                }
            }
        }
        self.changed |= !taken.is_empty();
        taken
    }

    /// Keeps all rows in one blob, where any changed.
    pub(super) fn encode(&mut self, key: &[u8], writer: &mut StateWriter<'_>) {
        if !std::mem::take(&mut self.changed) {
            return;
        }
        let mut blob = Vec::new();
        state::put_len(&mut blob, self.rows.len());
        for (id, row) in &self.rows {
            blob.push(id.side as u8);
            put_varint(&mut blob, id.of.into());
            put_zigzag(&mut blob, id.start);
            put_varint(&mut blob, row.slot.into());
            put_zigzag(&mut blob, row.time);
            put_zigzag(&mut blob, row.final_at);
            blob.extend_from_slice(&row.value.to_le_bytes());
            state::put_bool(&mut blob, row.is_taken);
        }
        writer.put(key, &blob);
    }

    /// Reads what [`Unfinished::encode`] wrote. `scope_of`: the scope of a slot, if it is known.
    pub(super) fn decode(
        &mut self,
        known: [usize; 2],
        scope_of: impl Fn(Slot) -> Option<Scope>,
        from: &mut Reader<'_>,
    ) -> Result<(), Malformed> {
        for _ in 0..state::len(from)? {
            let side = match from.byte()? {
                0 => Side::Left,
                1 => Side::Right,
                _ => return Err(from.malformed()),
            };
            let id = WindowId {
                side,
                of: state::u32(from)?,
                start: from.zigzag()?,
            };
            let slot = state::u32(from)?;
            let scope = scope_of(slot).ok_or_else(|| from.malformed())?;
            let (time, final_at) = (from.zigzag()?, from.zigzag()?);
            let row = WindowRow {
                slot,
                scope,
                time,
                final_at,
                value: u64::from_le_bytes(from.array()?),
                is_taken: state::bool(from)?,
            };
            if id.of as usize >= known[side as usize] || self.rows.insert(id, row).is_some() {
                return Err(from.malformed());
            }
            self.due.insert((scope, id.side, final_at, id));
        }
        Ok(())
    }
}

fn of_side(scope: Scope, side: Side) -> std::ops::RangeInclusive<Due> {
    let id = |of, start| WindowId { side, of, start };
    let first = (scope, side, i64::MIN, id(0, i64::MIN));
    first..=(scope, side, i64::MAX, id(u32::MAX, i64::MAX))
}
