//! What users of comparable software reported: one test each, by the label that the list
//! of known faults has for it. a38 stands in `live`, a40 and a41 in `rules`.

use std::collections::BTreeMap;

use super::super::{Forward, ForwardAction, ForwardConfig, Refusal};
use super::world::{ACK_TIMEOUT_US, World, at, config};
use crate::record::Missing;
use crate::units::{EventTime, Span};

const HOUR_US: u64 = 3_600_000_000;

/// Records in one partition, a block each, all durable.
fn backlog(settings: ForwardConfig, records: usize) -> World {
    let mut world = World::with(settings);
    (0..records).for_each(|_| world.append(at(0), 1));
    world.commit();
    world
}

fn one_through(world: &mut World) {
    world.pump();
    world.broker_takes();
    world.deliver_answer();
    world.commit();
}

#[test]
fn a19_links_cut_in_the_middle_of_a_resend_lose_nothing() {
    let mut world = backlog(config(8), 300);
    for n in 0..100 {
        world.connect();
        (0..n % 7).for_each(|_| one_through(&mut world));
        world.pump();
        world.disconnect(n % 3);
    }
    world.receiver_connects();
    world.settle();
    assert_eq!(world.truth[&at(0)].received.len(), 300);
}

#[test]
fn a20_a37_a_backlog_moves_on_connect_without_anything_new() {
    let mut world = backlog(config(8), 50);
    world.wait(24 * HOUR_US);
    world.connect();
    let now = world.now;
    (0..60).for_each(|_| one_through(&mut world));
    assert_eq!(world.now, now, "no time passes");
    assert_eq!(world.truth[&at(0)].taken.len(), 50);
}

#[test]
fn a22_how_long_a_backlog_takes_is_said() {
    let mut world = backlog(config(8), 400);
    world.connect();
    for _ in 0..100 {
        one_through(&mut world);
        world.wait(100_000);
    }
    let status = world.forward.status(world.now);
    assert_eq!(status["backlog_readings"], 300);
    assert!(
        status["backlog_bytes"]
            .as_u64()
            .is_some_and(|bytes| bytes > 0)
    );
    let rate = status["rate"].as_u64().expect("a number");
    assert!((9..=10).contains(&rate), "{status}");
    assert_eq!(status["eta_s"], 300_u64.div_ceil(rate));
}

/// How fast is a matter of `cargo xtask bench delivery`: here nothing but the broker's acks
/// says when the next message goes.
#[test]
fn b23_a_backlog_keeps_the_window_full_and_waits_for_no_interval() {
    for window in [1_u16, 8, 64] {
        let records = 500;
        let mut world = backlog(config(window), records);
        world.window = window;
        world.connect();
        let now = world.now;
        for taken in 0..records {
            // Reads of the log are answered one step later, with some blocks each.
            (0..=window).for_each(|_| world.pump());
            let on_the_way = world.broker.inbound.len();
            let want = usize::from(window).min(records - taken);
            assert_eq!(on_the_way, want, "window {window}, {taken} taken");
            world.broker_takes();
            world.deliver_answer();
            world.commit();
        }
        assert_eq!(world.truth[&at(0)].taken.len(), records, "window {window}");
        assert_eq!(world.now, now, "no time passes");
    }
}

#[test]
fn a25_a_broker_that_takes_few_at_once_gets_all_on_one_connection() {
    for window in [1, 2, 20] {
        let mut world = backlog(config(64), 2000);
        world.window = window;
        world.connect();
        (0..2100).for_each(|_| one_through(&mut world));
        assert_eq!(world.truth[&at(0)].taken.len(), 2000, "{window}");
        assert_eq!((world.count("disconnects"), world.resets), (0, 0));
    }
}

#[test]
fn a26_a_connection_repeats_nothing() {
    let mut world = backlog(config(8), 100);
    for _ in 0..5 {
        let before = world.truth[&at(0)].sends.clone();
        world.connect();
        (0..10).for_each(|_| one_through(&mut world));
        for (offset, sends) in &world.truth[&at(0)].sends {
            let before = before.get(offset).copied().unwrap_or(0);
            assert!(sends - before <= 1, "{offset} twice on one connection");
        }
        world.disconnect(0);
    }
}

#[test]
fn a31_records_that_are_too_old_are_declared_and_counted() {
    let hour = Span(HOUR_US as i64);
    let now = 1_800_000_000_000_000_i64;
    let set_from = EventTime(1_700_000_000_000_000);
    for (name, age, expired) in [
        ("younger", hour.0 - 1, false),
        ("just so old", hour.0, false),
        ("older", hour.0 + 1, true),
        ("of a clock that was never set", now, false),
    ] {
        let mut world = World::with(ForwardConfig {
            within: BTreeMap::from([(String::from("readings"), hour)]),
            ..config(8)
        });
        for _ in 0..3 {
            let time = EventTime(now - age);
            world.append_lines(at(0), time, vec![String::from("{}"); 2]);
        }
        world.append_lines(at(0), EventTime(now), vec![String::from("{}")]);
        world.commit();
        let clock = Some(EventTime(now));
        world.forward.on_clock(clock, set_from);
        world.greet();
        world.settle();
        let want = if expired { 6 } else { 0 };
        assert_eq!(world.count("expired"), want, "{name}");
        let declared = &world.truth[&at(0)].declared;
        assert!(
            declared.values().all(|why| *why == Missing::Expired),
            "{name}"
        );
        assert_eq!(declared.len() as u64, want, "{name}");
        assert_eq!(
            world.truth[&at(0)].received.len() as u64,
            7 - want,
            "{name}"
        );
        let messages = if expired { 2 } else { 4 };
        assert_eq!(world.count("published"), messages, "{name}: said at once");
    }
    let mut world = backlog(config(8), 1);
    assert_eq!(world.forward.status(world.now)["stall"], "no connection");
    world.connect();
    assert_eq!(world.forward.status(world.now)["connected"], true);
}

#[test]
fn a32_a_kill_with_a_full_window_sends_all_of_it_again() {
    let mut world = backlog(config(8), 30);
    world.connect();
    (0..3).for_each(|_| world.pump());
    assert_eq!(world.broker.inbound.len(), 8);
    world.crash(0);
    world.receiver_connects();
    world.settle();
    assert_eq!(world.truth[&at(0)].received.len(), 30);
}

#[test]
fn a34_one_destination_that_fails_makes_none_repeat_elsewhere() {
    let named = |name: &str| ForwardConfig {
        name: name.into(),
        ..config(8)
    };
    let mut near = backlog(named("default"), 20);
    let mut far = backlog(named("far"), 20);
    near.receiver_connects();
    near.settle();
    far.connect();
    for _ in 0..20 {
        far.pump();
        far.broker_refuses(Refusal::NotAuthorized);
        far.deliver_answer();
        far.commit();
    }
    // Both have the same disk.
    assert!(near.meta.keys().all(|key| !far.meta.contains_key(key)));
    near.meta.extend(far.meta.clone());
    near.crash(0);
    near.settle();
    let sends = &near.truth[&at(0)].sends;
    assert!(sends.values().all(|n| *n == 1), "{sends:?}");
}

#[test]
fn a35_every_record_ends_in_one_count() {
    let mut world = backlog(config(8), 40);
    world.trim(at(0), 10);
    let truth = world.truth.get_mut(&at(0)).unwrap();
    truth.blocks[5].bytes[0] ^= 1;
    world.connect();
    world.receiver_connects();
    world.settle();
    let truth = &world.truth[&at(0)];
    assert_eq!(
        (
            world.count("records_trimmed"),
            world.count("records_unreadable")
        ),
        (10, 1)
    );
    assert_eq!(truth.received.len() as u64 + 11, truth.durable);
}

/// A broker that takes nothing costs a window and some blocks read ahead, however long.
#[test]
fn a43_b19_an_outage_costs_no_memory_and_holds_up_nothing() {
    let mut world = World::with(config(8));
    world.connect();
    for _ in 0..3000 {
        world.append(at(0), 1);
        world.commit();
        let held: usize = world.forward.places.iter().map(|place| place.held()).sum();
        assert!(held <= 8 + 4, "{held} blocks are held");
        assert!(world.broker.inbound.len() <= 8);
    }
    assert_eq!(world.truth[&at(0)].durable, 3000);
}

#[test]
fn b16_after_an_hour_without_a_broker_all_comes() {
    let mut world = backlog(config(8), 10);
    for _ in 0..60 {
        world.wait(HOUR_US / 60);
        world.append(at(0), 2);
        world.commit();
    }
    world.receiver_connects();
    world.settle();
    assert_eq!(world.truth[&at(0)].received.len(), 130);
}

#[test]
fn b17_a_broker_that_stops_acking_and_goes_on_stalls_nothing() {
    let mut world = backlog(config(8), 60);
    world.receiver_connects();
    world.connect();
    for _ in 0..10 {
        (0..3).for_each(|_| one_through(&mut world));
        world.wait(ACK_TIMEOUT_US);
        world.wait(ACK_TIMEOUT_US);
        world.connect();
    }
    assert!(world.resets >= 9, "{}", world.resets);
    world.settle();
    assert_eq!(world.truth[&at(0)].received.len(), 60);
    assert_eq!(world.count("parked"), 0);
}

#[test]
fn b40_numbers_near_their_end_stall_nothing() {
    let mut world = backlog(config(8), 40);
    world.conns = u64::MAX - 4;
    for _ in 0..3 {
        world.connect();
        (0..5).for_each(|_| one_through(&mut world));
        world.disconnect(1);
    }
    world.receiver_connects();
    world.settle();
    assert_eq!(world.truth[&at(0)].received.len(), 40);
}

#[test]
fn b43_after_a_day_of_nothing_the_next_record_goes_once() {
    let mut world = backlog(config(8), 5);
    world.receiver_connects();
    world.settle();
    let published = world.count("published");
    for _ in 0..24 {
        world.wait(HOUR_US);
        assert_eq!(world.forward.poll(world.now), None::<ForwardAction>);
        assert_eq!(Forward::next_deadline(&world.forward), None);
    }
    world.append(at(0), 1);
    world.commit();
    world.settle();
    assert_eq!(world.count("published"), published + 1);
    assert_eq!((world.count("refused"), world.resets), (0, 0));
}
