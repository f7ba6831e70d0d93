//! What comes in now goes before what waited, and a cap on the latter.

use super::super::{ForwardConfig, Order};
use super::world::{World, at, config};
use crate::limits::FORWARD_RANGES_MAX;

pub(super) fn live_first(window: u16) -> ForwardConfig {
    ForwardConfig {
        order: Order::LiveFirst,
        ..config(window)
    }
}

/// Offsets in the order in which the broker takes them, for so many rounds in each of
/// which one record comes in.
fn taken_in_order(world: &mut World, rounds: u64) -> Vec<u64> {
    let mut order = Vec::new();
    for _ in 0..rounds {
        world.append(at(0), 1);
        world.commit();
        world.pump();
        let before = world.truth[&at(0)].taken.clone();
        world.broker_takes();
        let after = &world.truth[&at(0)].taken;
        order.extend(after.difference(&before));
        world.deliver_answer();
    }
    order
}

/// Known fault a38.
#[test]
fn a38_what_is_live_goes_first_and_what_waited_is_flagged() {
    let mut world = World::with(live_first(1));
    for _ in 0..40 {
        world.append(at(0), 1);
    }
    world.commit();
    world.greet();
    let order = taken_in_order(&mut world, 20);
    let live: Vec<u64> = order.iter().copied().filter(|n| *n >= 40).collect();
    assert!(live.len() >= 15, "{order:?}");
    assert!(live.is_sorted(), "{live:?}");
    world.settle();
    let truth = &world.truth[&at(0)];
    assert_eq!(truth.received.len(), 60);
    for (offset, replayed) in &truth.replayed {
        assert_eq!(*replayed, *offset < 40, "{offset}");
    }
    assert!(truth.sends.values().all(|n| *n == 1), "{:?}", truth.sends);
}

#[test]
fn what_was_acked_above_the_mark_is_known_after_a_kill() {
    let mut world = World::with(live_first(2));
    for _ in 0..60 {
        world.append(at(0), 1);
    }
    world.commit();
    world.connect();
    taken_in_order(&mut world, 20);
    world.wait(1_000_000);
    world.commit();
    let acked = world.forward.places[0].marks.acked.total();
    assert!(acked >= 15, "{acked}");
    world.crash(0);
    assert_eq!(world.forward.places[0].marks.acked.total(), acked);
    world.connect();
    for _ in 0..100 {
        world.pump();
        world.broker_takes();
        world.deliver_answer();
        world.commit();
    }
    assert_eq!(world.truth[&at(0)].taken.len(), 80);
    let again = world.truth[&at(0)].sends.values().filter(|n| **n > 1);
    assert!(again.count() <= 4, "only what was on its way");
}

/// Each outage leaves a hole; there are never more than are kept.
#[test]
fn ranges_above_the_mark_at_their_limit() {
    let mut world = World::with(live_first(1));
    let rounds = FORWARD_RANGES_MAX + 3;
    for _ in 0..2 * rounds {
        world.append(at(0), 1);
    }
    for round in 1..=rounds {
        world.append(at(0), 1);
        world.commit();
        world.connect();
        // One record that waited is on its way already; then a live one gets through.
        world.append(at(0), 1);
        world.commit();
        for _ in 0..2 {
            world.pump();
            world.broker_takes();
            world.deliver_answer();
        }
        world.disconnect(0);
        let ranges = world.forward.places[0].marks.acked.len();
        assert_eq!(ranges, round.min(FORWARD_RANGES_MAX), "{round}");
    }
    world.receiver_connects();
    world.settle();
    assert_eq!(world.forward.places[0].marks.acked.len(), 0);
}

#[test]
fn a_resend_of_what_was_never_sent_is_no_loss() {
    let mut world = World::with(live_first(1));
    for _ in 0..30 {
        world.append(at(0), 1);
    }
    world.commit();
    world.receiver_connects();
    world.connect();
    taken_in_order(&mut world, 10);
    // The receiver sees a hole at the front and asks for it.
    while !world.broker.queue.is_empty() {
        world.receiver_takes();
    }
    while !world.broker.to_gateway.is_empty() {
        world.deliver_message();
    }
    assert_eq!(world.count("rewinds"), 1, "only its first hello");
    world.settle();
}

#[test]
fn a_cap_holds_what_waited_and_not_what_is_live() {
    for order in [Order::OldestFirst, Order::LiveFirst] {
        let mut world = World::with(ForwardConfig {
            rate: Some(10),
            order,
            ..config(8)
        });
        for _ in 0..100 {
            world.append(at(0), 1);
        }
        world.commit();
        world.connect();
        let mut at_second = Vec::new();
        for second in 1..=12 {
            for _ in 0..40 {
                world.wait(25_000);
                world.broker_takes();
                world.deliver_answer();
                world.commit();
            }
            let taken = &world.truth[&at(0)].taken;
            let waited = taken.iter().filter(|n| **n < 100).count();
            at_second.push(waited);
            assert!(waited <= 10 * (second + 1) + 1, "{order:?} {at_second:?}");
        }
        assert!(
            at_second[8] >= 85,
            "{order:?}: no slower than it may: {at_second:?}"
        );
        // What comes in now is not capped.
        let before = world.truth[&at(1)].taken.len();
        for _ in 0..50 {
            world.append(at(1), 1);
        }
        world.commit();
        for _ in 0..60 {
            world.pump();
            world.broker_takes();
            world.deliver_answer();
            world.commit();
        }
        assert_eq!(world.truth[&at(1)].taken.len() - before, 50, "{order:?}");
    }
}
