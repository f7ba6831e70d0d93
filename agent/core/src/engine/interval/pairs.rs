//! Two sides under one key, in pairs: `t + lower <= t' <= t + upper`, both inclusive,
//! where t is of the left side. What is in no pair is told once, when nothing can come
//! any more that it would be in a pair with, or when its scope has fallen silent; then it
//! is gone.
//!
//! Always: an item is held no longer than until a watermark says that nothing can match
//! it. Bound: [`JOIN_HELD_MAX`] items of all keys; of one more the soonest of all to be
//! dropped is decided as if its time had come. Knows no names and writes no lines.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::held::{Held, Ordered};
use crate::engine::config::JoinType;
use crate::engine::route::{Scope, Slot, push_tight};
use crate::engine::state::Pages;
use crate::limits::JOIN_HELD_MAX;
use crate::log::bytes::{Malformed, Reader};

/// Which input of a join.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::engine) enum Side {
    Left = 0,
    Right = 1,
}

impl Side {
    pub(in crate::engine) const BOTH: [Self; 2] = [Self::Left, Self::Right];

    pub(super) fn other(self) -> Self {
        match self {
            Self::Left => Self::Right,
            Self::Right => Self::Left,
        }
    }
}

/// What is paired with what. All times in us.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rule {
    /// Not above `upper`.
    pub(super) lower: i64,
    pub(super) upper: i64,
    pub(super) join_type: JoinType,
    /// How far behind its mark each side still comes.
    pub(super) delays: [i64; 2],
}

/// The marks of a scope, by side: nothing of that side is still expected that is more than
/// its delay below.
pub(super) type Marks = [i64; 2];

impl Rule {
    /// First and last time of the other side that this one goes with.
    fn reach(&self, side: Side, time: i64) -> (i64, i64) {
        let (from, to) = match side {
            Side::Left => (self.lower, self.upper),
            Side::Right => (self.upper.saturating_neg(), self.lower.saturating_neg()),
        };
        (time.saturating_add(from), time.saturating_add(to))
    }

    /// The first mark of the other side at which nothing can match any more. The end of
    /// time is the end of all.
    fn due(&self, side: Side, time: i64) -> i64 {
        let (_, last) = self.reach(side, time);
        let delay = self.delays[side.other() as usize];
        last.saturating_add(1).saturating_add(delay)
    }

    /// Whether what found nobody is told.
    fn is_kept(&self, side: Side) -> bool {
        match (self.join_type, side) {
            (JoinType::Inner, _) | (JoinType::Left, Side::Right) => false,
            (JoinType::Left, Side::Left) | (JoinType::Full, _) => true,
        }
    }
}

/// A pair, or an item without one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine) struct Found {
    pub(in crate::engine) slot: Slot,
    pub(in crate::engine) left: Option<Held>,
    pub(in crate::engine) right: Option<Held>,
    /// Told because its scope fell silent.
    pub(in crate::engine) idle: bool,
}

impl Found {
    fn alone(slot: Slot, side: Side, held: Held, idle: bool) -> Self {
        let (left, right) = match side {
            Side::Left => (Some(held), None),
            Side::Right => (None, Some(held)),
        };
        Self {
            slot,
            left,
            right,
            idle,
        }
    }

    /// The later of both times.
    pub(in crate::engine) fn time(&self) -> i64 {
        let times = self.left.iter().chain(&self.right).map(|held| held.time);
        times.max().unwrap_or(i64::MIN)
    }
}

/// A key with what it holds.
#[derive(Debug)]
struct Key {
    scope: Scope,
    sides: [Ordered; 2],
    /// Of each side, the soonest of its entries among those that are due.
    armed: [i64; 2],
}

/// Nothing is due. The end of time is as large, and then all is looked at.
const NEVER: i64 = i64::MAX;

/// Of one side.
type Due = BinaryHeap<Reverse<(i64, Slot)>>;

/// All keys of one join.
#[derive(Debug)]
pub(super) struct Pairs {
    rule: Rule,
    keys: Vec<Key>,
    /// Of each scope and side, when a key is to be looked at: at the latest when its
    /// first item is due. Entries that are not the armed ones say nothing.
    due: Vec<[Due; 2]>,
    /// The soonest of each.
    soonest: Vec<[i64; 2]>,
    held: usize,
    held_max: usize,
    /// Items that were decided early for want of room.
    pub(super) crowded: u64,
    pub(super) pages: Pages,
}

impl Pairs {
    pub(super) fn new(rule: Rule) -> Self {
        Self {
            rule,
            keys: Vec::new(),
            due: Vec::new(),
            soonest: Vec::new(),
            held: 0,
            held_max: JOIN_HELD_MAX,
            crowded: 0,
            pages: Pages::default(),
        }
    }

    #[cfg(test)]
    pub(super) fn with_room(rule: Rule, held_max: usize) -> Self {
        Self {
            held_max,
            ..Self::new(rule)
        }
    }

    /// One key more; its slot is the count of those before.
    pub(super) fn add_slot(&mut self, scope: Scope) {
        while self.due.len() <= scope as usize {
            push_tight(&mut self.due, [Due::new(), Due::new()]);
            push_tight(&mut self.soonest, [NEVER; 2]);
        }
        // So that every slot has a page in the state.
        self.pages.touch(self.keys.len());
        let key = Key {
            scope,
            sides: [Ordered::default(), Ordered::default()],
            armed: [NEVER; 2],
        };
        push_tight(&mut self.keys, key);
    }

    pub(super) fn slots(&self) -> usize {
        self.keys.len()
    }

    pub(super) fn scopes(&self) -> Scope {
        Scope::try_from(self.due.len()).expect("as many as devices")
    }

    pub(super) fn held(&self) -> usize {
        self.held
    }

    pub(super) fn scope_of(&self, slot: Slot) -> Scope {
        self.keys[slot as usize].scope
    }

    /// Takes an item that is not late, and tells of its pairs in order of the other side.
    #[inline]
    pub(super) fn take(&mut self, slot: Slot, side: Side, mut held: Held, found: &mut Vec<Found>) {
        self.pages.touch(slot as usize);
        let reach = self.rule.reach(side, held.time);
        let key = &mut self.keys[slot as usize];
        let before = found.len();
        key.sides[side.other() as usize].each_within(reach, |other| {
            other.matched = true;
            let (left, right) = match side {
                Side::Left => (Some(held), Some(*other)),
                Side::Right => (Some(*other), Some(held)),
            };
            found.push(Found {
                slot,
                left,
                right,
                idle: false,
            });
        });
        held.matched = found.len() > before;
        key.sides[side as usize].insert(held);
        self.held += 1;
        self.arm(slot, side, self.rule.due(side, held.time));
        if self.held > self.held_max {
            self.make_room(found);
        }
    }

    /// A side of a key is to be looked at then, if not sooner.
    #[inline]
    fn arm(&mut self, slot: Slot, side: Side, due: i64) {
        let key = &mut self.keys[slot as usize];
        let armed = &mut key.armed[side as usize];
        // The first entry also where it is due at the end of time only.
        if due < *armed || (due == NEVER && key.sides[side as usize].len() == 1) {
            *armed = due;
            let scope = key.scope as usize;
            self.due[scope][side as usize].push(Reverse((due, slot)));
            let soonest = &mut self.soonest[scope][side as usize];
            *soonest = due.min(*soonest);
        }
    }

    /// Whether something is due at these marks.
    #[inline]
    pub(super) fn is_due(&self, scope: Scope, [left, right]: Marks) -> bool {
        let soonest = self.soonest.get(scope as usize);
        soonest.is_some_and(|[of_left, of_right]| *of_left <= right || *of_right <= left)
    }

    /// The marks of a scope are here now: drops what nothing can match any more.
    pub(super) fn advance(&mut self, scope: Scope, marks: Marks, found: &mut Vec<Found>) {
        let index = scope as usize;
        for side in Side::BOTH {
            let mark = marks[side.other() as usize];
            while let Some(Reverse((due, slot))) = self.due[index][side as usize].peek().copied()
                && due <= mark
            {
                self.due[index][side as usize].pop();
                if self.keys[slot as usize].armed[side as usize] == due {
                    self.drop_due((slot, side), mark, found);
                }
            }
            self.note_soonest(index, side);
        }
    }

    fn note_soonest(&mut self, scope: usize, side: Side) {
        let first = self.due[scope][side as usize].peek();
        let soonest = first.map_or(NEVER, |Reverse((due, _))| *due);
        self.soonest[scope][side as usize] = soonest;
    }

    /// Drops what is due of one side of a key, and arms it anew. `mark`: of the other side.
    fn drop_due(&mut self, (slot, side): (Slot, Side), mark: i64, found: &mut Vec<Found>) {
        let rule = self.rule;
        let key = &mut self.keys[slot as usize];
        key.armed[side as usize] = NEVER;
        let items = &mut key.sides[side as usize];
        let mut next = None;
        while let Some(first) = items.front() {
            let due = rule.due(side, first.time);
            if due > mark {
                next = Some(due);
                break;
            }
            let Some(first) = items.pop_front() else {
                break;
            };
            self.held -= 1;
            if !first.matched && rule.is_kept(side) {
                found.push(Found::alone(slot, side, first, false));
            }
        }
        self.pages.touch(slot as usize);
        if let Some(due) = next {
            key.armed[side as usize] = due;
            self.due[key.scope as usize][side as usize].push(Reverse((due, slot)));
        }
    }

    /// A scope has fallen silent: what is in no pair yet and would be told is told now.
    pub(super) fn on_idle(&mut self, scope: Scope, found: &mut Vec<Found>) {
        let Some(due) = self.due.get(scope as usize) else {
            return;
        };
        // Every side that holds anything has an entry.
        let mut sides = Vec::new();
        for side in Side::BOTH {
            if self.rule.is_kept(side) {
                let slots = due[side as usize].iter();
                sides.extend(slots.map(|Reverse((_, slot))| (*slot, side)));
            }
        }
        sides.sort_unstable();
        sides.dedup();
        for (slot, side) in sides {
            let items = &mut self.keys[slot as usize].sides[side as usize];
            let before = items.len();
            items.take_unmatched(|held| found.push(Found::alone(slot, side, held, true)));
            self.held -= before - items.len();
            self.pages.touch(slot as usize);
        }
    }

    /// Decides the item that would be dropped first; of several, that of the first scope
    /// and key.
    #[cold]
    fn make_room(&mut self, found: &mut Vec<Found>) {
        while self.held > self.held_max {
            let scopes = (0_usize..).zip(&self.soonest);
            let sides = scopes.flat_map(|(scope, soonest)| {
                Side::BOTH.map(|side| (soonest[side as usize], scope, side))
            });
            let Some((_, index, side)) = sides.min() else {
                return;
            };
            let Some(Reverse((due, slot))) = self.due[index][side as usize].pop() else {
                return;
            };
            let rule = self.rule;
            let key = &mut self.keys[slot as usize];
            if key.armed[side as usize] == due {
                key.armed[side as usize] = NEVER;
                let items = &mut key.sides[side as usize];
                // An entry may stand for one that has gone: then it only says so.
                let is_first = |first: &&Held| rule.due(side, first.time) == due;
                if items.front().filter(is_first).is_some()
                    && let Some(first) = items.pop_front()
                {
                    self.held -= 1;
                    self.crowded += 1;
                    if !first.matched && rule.is_kept(side) {
                        found.push(Found::alone(slot, side, first, false));
                    }
                    self.pages.touch(slot as usize);
                }
                let next = key.sides[side as usize].front();
                if let Some(next) = next.map(|first| rule.due(side, first.time)) {
                    key.armed[side as usize] = next;
                    self.due[index][side as usize].push(Reverse((next, slot)));
                }
            }
            self.note_soonest(index, side);
        }
    }

    /// Appends the state of a slot. `has_start`: of each side, whether it is a window's.
    pub(super) fn encode(&self, slot: Slot, has_start: [bool; 2], out: &mut Vec<u8>) {
        for side in Side::BOTH {
            let items = &self.keys[slot as usize].sides[side as usize];
            items.encode(has_start[side as usize], out);
        }
    }

    /// Reads the state of a slot that holds nothing. `known`: how many inputs each side has.
    pub(super) fn decode(
        &mut self,
        slot: Slot,
        has_start: [bool; 2],
        known: [usize; 2],
        from: &mut Reader<'_>,
    ) -> Result<(), Malformed> {
        for side in Side::BOTH {
            let items = Ordered::decode(has_start[side as usize], from)?;
            if items
                .iter()
                .any(|held| held.of as usize >= known[side as usize])
            {
                return Err(from.malformed());
            }
            let key = &mut self.keys[slot as usize];
            if !key.sides[side as usize].is_empty() {
                return Err(from.malformed());
            }
            self.held += items.len();
            let first = items.front().map(|first| self.rule.due(side, first.time));
            key.sides[side as usize] = items;
            if let Some(due) = first {
                let (scope, armed) = (key.scope as usize, &mut key.armed[side as usize]);
                *armed = due;
                self.due[scope][side as usize].push(Reverse((due, slot)));
                self.note_soonest(scope, side);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
