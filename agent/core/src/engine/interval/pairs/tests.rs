//! Pairs against a list that is looked at as a whole at every step.

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Step {
    Take(Slot, Side, i64),
    Advance(Scope, Side, i64),
    Idle(Scope),
    Restart,
}

/// An item of the model, with what it was given as.
#[derive(Debug, Clone)]
struct Item {
    slot: Slot,
    side: Side,
    held: Held,
    matched: bool,
}

struct Model {
    rule: Rule,
    items: Vec<Item>,
}

impl Model {
    fn is_pair(&self, left: i64, right: i64) -> bool {
        left + self.rule.lower <= right && right <= left + self.rule.upper
    }

    fn take(&mut self, slot: Slot, side: Side, held: Held) -> Vec<String> {
        let (mut out, mut matched) = (Vec::new(), false);
        let rule = self.rule;
        let is_pair = |other: i64| match side {
            Side::Left => held.time + rule.lower <= other && other <= held.time + rule.upper,
            Side::Right => other + rule.lower <= held.time && held.time <= other + rule.upper,
        };
        for item in &mut self.items {
            if item.slot == slot && item.side != side && is_pair(item.held.time) {
                item.matched = true;
                matched = true;
                out.push(match side {
                    Side::Left => words(slot, Some(held.of), Some(item.held.of), false),
                    Side::Right => words(slot, Some(item.held.of), Some(held.of), false),
                });
            }
        }
        self.items.push(Item {
            slot,
            side,
            held,
            matched,
        });
        out
    }

    /// Whether an item to come on the other side, at its mark or later, can match.
    fn can_match(&self, item: &Item, marks: Marks) -> bool {
        let watermark = marks[item.side.other() as usize];
        let delay = self.rule.delays[item.side.other() as usize];
        let reach = match item.side {
            Side::Left => (item.held.time - 300)..=(item.held.time + 300),
            Side::Right => (item.held.time - 300)..=(item.held.time + 300),
        };
        watermark < i64::MAX
            && reach.into_iter().any(|other| {
                other >= watermark.saturating_sub(delay)
                    && match item.side {
                        Side::Left => self.is_pair(item.held.time, other),
                        Side::Right => self.is_pair(other, item.held.time),
                    }
            })
    }

    fn advance(&mut self, scope: Scope, marks: Marks) -> Vec<String> {
        let items = std::mem::take(&mut self.items);
        let mut out = Vec::new();
        for item in items {
            if scope_of(item.slot) != scope || self.can_match(&item, marks) {
                self.items.push(item);
            } else if !item.matched && self.rule.is_kept(item.side) {
                out.push(alone(&item, false));
            }
        }
        out
    }

    fn idle(&mut self, scope: Scope) -> Vec<String> {
        let told = |item: &Item| {
            scope_of(item.slot) == scope && !item.matched && self.rule.is_kept(item.side)
        };
        let out = self
            .items
            .iter()
            .filter(|i| told(i))
            .map(|i| alone(i, true))
            .collect();
        let items = std::mem::take(&mut self.items);
        let rule = self.rule;
        self.items = items
            .into_iter()
            .filter(|i| !(scope_of(i.slot) == scope && !i.matched && rule.is_kept(i.side)))
            .collect();
        out
    }
}

fn alone(item: &Item, idle: bool) -> String {
    match item.side {
        Side::Left => words(item.slot, Some(item.held.of), None, idle),
        Side::Right => words(item.slot, None, Some(item.held.of), idle),
    }
}

fn words(slot: Slot, left: Option<u32>, right: Option<u32>, idle: bool) -> String {
    format!("{slot} {left:?} {right:?} {idle}")
}

const SLOTS: u32 = 6;

/// Two slots to a scope.
fn scope_of(slot: Slot) -> Scope {
    slot / 2
}

fn told(found: &mut Vec<Found>) -> Vec<String> {
    let of = |held: Option<Held>| held.map(|held| held.of);
    let words = found
        .drain(..)
        .map(|f| words(f.slot, of(f.left), of(f.right), f.idle));
    sorted(words.collect())
}

fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort();
    lines
}

fn fresh(rule: Rule, room: usize) -> Pairs {
    let mut pairs = Pairs::with_room(rule, room);
    (0..SLOTS).for_each(|slot| pairs.add_slot(scope_of(slot)));
    pairs
}

/// As it would be after its state was read back.
fn restarted(pairs: &Pairs, room: usize) -> Pairs {
    let mut back = fresh(pairs.rule, room);
    for slot in 0..SLOTS {
        let mut bytes = Vec::new();
        pairs.encode(slot, [false, true], &mut bytes);
        let mut from = Reader::new(&bytes);
        back.decode(slot, [false, true], [usize::MAX; 2], &mut from)
            .expect("it was written so");
        assert!(from.is_at_end());
    }
    back.crowded = pairs.crowded;
    back
}

fn step() -> impl Strategy<Value = Step> {
    let side = || prop_oneof![Just(Side::Left), Just(Side::Right)];
    let mark = (0..SLOTS / 2, side(), -90_i64..90);
    prop_oneof![
        20 => (0..SLOTS, side(), -60_i64..60).prop_map(|(slot, side, t)| Step::Take(slot, side, t)),
        5 => mark.prop_map(|(scope, side, mark)| Step::Advance(scope, side, mark)),
        1 => (0..SLOTS / 2).prop_map(Step::Idle),
        1 => Just(Step::Restart),
    ]
}

fn rule() -> impl Strategy<Value = Rule> {
    let join_type = prop_oneof![
        Just(JoinType::Inner),
        Just(JoinType::Left),
        Just(JoinType::Full)
    ];
    let delays = [
        prop_oneof![3 => Just(0_i64), 1 => 0_i64..20],
        prop_oneof![3 => Just(0_i64), 1 => 0_i64..20],
    ];
    (-25_i64..25, 0_i64..30, join_type, delays).prop_map(|(lower, width, join_type, delays)| Rule {
        lower,
        upper: lower + width,
        join_type,
        delays,
    })
}

proptest! {
    #[test]
    fn agrees_with_the_model(steps in prop::collection::vec(step(), 0..120), rule in rule()) {
        let mut pairs = fresh(rule, JOIN_HELD_MAX);
        let mut model = Model { rule, items: Vec::new() };
        let mut marks = [[i64::MIN; 2]; SLOTS as usize / 2];
        let mut found = Vec::new();
        let scopes = 0..SLOTS / 2;
        let end = scopes.flat_map(|scope| Side::BOTH.map(|side| Step::Advance(scope, side, i64::MAX)));
        for (n, step) in (0..).zip(steps.into_iter().chain(end)) {
            let want = match step {
                Step::Take(slot, side, time) => {
                    let scope = scope_of(slot);
                    let marks = marks[scope as usize];
                    if time < marks[side as usize] {
                        continue;
                    }
                    pairs.take(slot, side, Held::reading(n, time, 0), &mut found);
                    let mut want = model.take(slot, side, Held::reading(n, time, 0));
                    prop_assert!(pairs.is_due(scope, marks) || model.items.iter().all(
                        |i| scope_of(i.slot) != scope || model.can_match(i, marks)));
                    pairs.advance(scope, marks, &mut found);
                    want.extend(model.advance(scope, marks));
                    want
                }
                Step::Advance(scope, side, mark) => {
                    let marks = &mut marks[scope as usize];
                    let now = &mut marks[side as usize];
                    *now = mark.max(*now);
                    pairs.advance(scope, *marks, &mut found);
                    model.advance(scope, *marks)
                }
                Step::Idle(scope) => {
                    pairs.on_idle(scope, &mut found);
                    model.idle(scope)
                }
                Step::Restart => {
                    pairs = restarted(&pairs, JOIN_HELD_MAX);
                    Vec::new()
                }
            };
            prop_assert_eq!(told(&mut found), sorted(want));
            prop_assert_eq!(pairs.held(), model.items.len());
        }
        prop_assert_eq!(pairs.held(), 0);
    }

    /// With little room what is decided early is the same with a restart at any place.
    #[test]
    fn a_restart_changes_nothing_where_room_is_short(
        steps in prop::collection::vec(step(), 0..120), rule in rule(), room in 1_usize..12,
    ) {
        let run = |restarts: bool| {
            let mut pairs = fresh(rule, room);
            let (mut found, mut out) = (Vec::new(), Vec::new());
            for (n, step) in (0..).zip(&steps) {
                match *step {
                    Step::Take(slot, side, time) => {
                        pairs.take(slot, side, Held::reading(n, time, 0), &mut found);
                        assert!(pairs.held() <= room);
                    }
                    Step::Advance(scope, side, mark) => {
                        let mut marks = [mark; 2];
                        marks[side.other() as usize] -= 5;
                        pairs.advance(scope, marks, &mut found);
                    }
                    Step::Idle(scope) => pairs.on_idle(scope, &mut found),
                    Step::Restart if restarts => pairs = restarted(&pairs, room),
                    Step::Restart => {}
                }
                // Ways through equal items may differ within a step; lines are put in order.
                out.push(told(&mut found));
            }
            (out, pairs.crowded, pairs.held())
        };
        prop_assert_eq!(run(true), run(false));
    }
}

#[test]
fn what_is_one_too_many_is_decided_early() {
    let rule = Rule {
        lower: 0,
        upper: 100,
        join_type: JoinType::Left,
        delays: [0; 2],
    };
    for (name, count, early) in [("limit - 1", 2, 0), ("limit", 3, 0), ("limit + 1", 4, 1)] {
        let (mut pairs, mut found) = (fresh(rule, 3), Vec::new());
        for n in 0..count {
            let time = 10 - i64::from(n);
            pairs.take(n % 2, Side::Left, Held::reading(n, time, 0), &mut found);
        }
        assert_eq!(pairs.crowded, early, "{name}");
        assert_eq!(pairs.held(), 3.min(count as usize), "{name}");
        // The oldest of all came last.
        let want: Vec<_> = (0..early).map(|_| words(1, Some(3), None, false)).collect();
        assert_eq!(told(&mut found), want, "{name}");
    }
}

#[test]
fn saturates_at_both_ends_of_time() {
    for (lower, upper) in [
        (i64::MIN, i64::MAX),
        (i64::MIN, 0),
        (0, i64::MAX),
        (i64::MAX, i64::MAX),
    ] {
        let rule = Rule {
            lower,
            upper,
            join_type: JoinType::Full,
            delays: [i64::MAX, 0],
        };
        let (mut pairs, mut found) = (fresh(rule, 9), Vec::new());
        for (n, time) in (0..).zip([i64::MIN, -1, 0, 1, i64::MAX]) {
            for side in Side::BOTH {
                pairs.take(0, side, Held::reading(n, time, 0), &mut found);
            }
        }
        pairs.advance(0, [i64::MAX; 2], &mut found);
        assert_eq!(pairs.held(), 0, "{lower} {upper}");
    }
}

/// A key with very many items costs what its pairs cost.
#[test]
fn one_key_with_many_items_is_not_quadratic() {
    let rule = Rule {
        lower: 0,
        upper: 0,
        join_type: JoinType::Inner,
        delays: [0; 2],
    };
    let (mut pairs, mut found) = (fresh(rule, JOIN_HELD_MAX), Vec::new());
    let n = 100_000_i64;
    // In an order that is as bad as any: each next one lies between others.
    for i in 0..n {
        let time = (i * 48_271) % n;
        pairs.take(0, Side::Left, Held::reading(0, time, 0), &mut found);
        pairs.take(0, Side::Right, Held::reading(1, n - time, 0), &mut found);
    }
    assert_eq!(found.len() as i64, n - 1);
    for at in (0..=n + 1).step_by(7) {
        pairs.advance(0, [at; 2], &mut found);
    }
    pairs.advance(0, [n + 1; 2], &mut found);
    assert_eq!(pairs.held(), 0);
}
