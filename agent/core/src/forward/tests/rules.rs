//! One rule each.

use std::collections::BTreeMap;

use super::super::machine::Forward;
use super::super::{ConnNo, Refusal, SendNo};
use super::world::{ACK_TIMEOUT_US, WINDOW, World, at};
use crate::limits::{
    FORWARD_AHEAD_MAX, FORWARD_AHEAD_WAIT_US, FORWARD_REFUSALS_MAX, FORWARD_RETRY_MIN_US,
    FORWARD_STALL_MIN_US, FORWARD_UNKEPT_WINDOWS,
};
use crate::payload::{Command, DataMessage, UPSTREAM_TOPIC};
use crate::record::Missing;
use crate::units::{Offset, PartitionId};

/// A connected world with `blocks` blocks of two records in one partition.
fn with_backlog(blocks: usize) -> World {
    let mut world = World::new();
    for _ in 0..blocks {
        world.append(at(0), 2);
    }
    world.commit();
    world.connect();
    world
}

fn all_through(world: &mut World) {
    // A read of the log, its answer, what follows from it.
    for _ in 0..3 {
        world.pump();
    }
    while !world.broker.inbound.is_empty() || !world.broker.answers.is_empty() {
        world.broker_takes();
        world.deliver_answer();
        world.commit();
    }
}

fn most_sends(world: &World) -> u32 {
    world
        .truth
        .values()
        .flat_map(|t| t.sends.values().copied())
        .max()
        .unwrap_or(0)
}

#[test]
fn the_window_is_full_and_no_fuller() {
    let mut world = with_backlog(30);
    world.pump();
    world.pump();
    world.pump();
    assert_eq!(world.broker.inbound.len(), usize::from(WINDOW));
}

#[test]
fn a_backlog_drains_on_connect_without_new_data() {
    let mut world = World::new();
    for n in 0..100 {
        world.append(at(n % 4), 2);
    }
    world.commit();
    world.connect();
    all_through(&mut world);
    assert!(
        world
            .truth
            .values()
            .all(|t| t.taken.len() as u64 == t.durable)
    );
    assert_eq!(most_sends(&world), 1);
}

#[test]
fn a_clean_restart_sends_nothing_again() {
    let mut world = with_backlog(20);
    all_through(&mut world);
    world.forward.drain();
    world.commit();
    world.commit();
    assert!(world.forward.is_drained());
    world.crash(0);
    world.append(at(0), 2);
    world.commit();
    world.connect();
    all_through(&mut world);
    assert_eq!(most_sends(&world), 1);
    assert_eq!(world.truth[&at(0)].taken.len(), 42);
}

#[test]
fn a_crash_sends_at_most_what_is_not_kept_again() {
    let unkept = usize::from(WINDOW) * FORWARD_UNKEPT_WINDOWS;
    let mut most = 0;
    for stop in (0..300).step_by(7) {
        let mut world = with_backlog(400);
        for step in 0..stop {
            world.broker_takes();
            world.deliver_answer();
            if step % 50 == 0 {
                world.commit();
            }
        }
        world.crash(usize::from(WINDOW));
        world.connect();
        all_through(&mut world);
        let again = world.truth[&at(0)]
            .sends
            .values()
            .filter(|n| **n > 1)
            .count();
        assert!(again <= 2 * unkept, "{again} records after {stop} steps");
        assert_eq!(world.truth[&at(0)].taken.len(), 800);
        most = most.max(again);
    }
    assert!(
        most > 2 * usize::from(WINDOW),
        "it never goes on without the disk"
    );
}

#[test]
fn ten_thousand_disconnects_stall_nothing() {
    let mut world = World::new();
    for n in 0..200 {
        world.append(at(n % 4), 1);
    }
    world.commit();
    for n in 0..10_000 {
        world.connect();
        world.commit();
        if n % 3 == 0 {
            world.broker_takes();
        }
        if n % 7 == 0 {
            world.deliver_answer();
        }
        world.disconnect(n % 2);
    }
    assert_eq!(world.count("disconnects"), 10_000);
    world.receiver_connects();
    world.settle();
}

#[test]
fn a_broker_that_acks_nothing_is_given_up_at_the_timeout_and_not_before() {
    for (name, wait, resets) in [
        ("before", ACK_TIMEOUT_US - 1, 0),
        ("at", ACK_TIMEOUT_US, 1),
        ("after", ACK_TIMEOUT_US + 1, 1),
    ] {
        let mut world = with_backlog(3);
        world.pump();
        assert!(!world.broker.inbound.is_empty());
        world.wait(wait);
        assert_eq!(world.resets, resets, "{name}");
    }
}

#[test]
fn each_ack_starts_the_timeout_anew_for_the_message_after_it() {
    let mut world = with_backlog(3);
    world.pump();
    for _ in 0..2 {
        world.wait(ACK_TIMEOUT_US - 1);
        world.broker_takes();
        world.deliver_answer();
    }
    world.wait(ACK_TIMEOUT_US - 1);
    assert_eq!(world.resets, 0);
    world.wait(1);
    assert_eq!(world.resets, 1);
}

#[test]
fn a_broker_gets_so_far_ahead_of_the_receiver_and_no_further() {
    let mut world = with_backlog(FORWARD_AHEAD_MAX + 100);
    world.receiver_connects();
    world.deliver_message();
    world.deliver_message();
    let broker_acks_all = |world: &mut World| {
        for n in 0..2 * FORWARD_AHEAD_MAX {
            world.pump();
            world.broker_takes();
            world.deliver_answer();
            if n % 20 == 0 {
                world.commit();
            }
        }
    };
    broker_acks_all(&mut world);
    // Some had left before the receiver was heard of.
    let taken = world.truth[&at(0)].taken.len() / 2;
    let before = taken.checked_sub(FORWARD_AHEAD_MAX);
    assert!(before.is_some_and(|n| n <= usize::from(WINDOW)), "{taken}");
    world.wait(FORWARD_AHEAD_WAIT_US);
    broker_acks_all(&mut world);
    let taken = world.truth[&at(0)].taken.len() / 2;
    assert_eq!(taken, FORWARD_AHEAD_MAX + 100);
}

#[test]
fn acks_of_another_connection_and_of_nothing_change_nothing() {
    let mut world = with_backlog(3);
    world.pump();
    world.forward.on_acked(ConnNo(99), SendNo(0), world.now);
    world.forward.on_acked(ConnNo(1), SendNo(99), world.now);
    world
        .forward
        .on_refused(ConnNo(99), SendNo(0), Refusal::Quota, world.now);
    assert_eq!(world.forward.places[0].marks.sent, Offset(0));
    assert_eq!(world.count("refused"), 0);
}

#[test]
fn partitions_take_turns() {
    let mut world = World::new();
    for n in [0, 1, 2, 3] {
        for _ in 0..20 {
            world.append(at(n), 1);
        }
    }
    world.commit();
    world.connect();
    for _ in 0..40 {
        world.pump();
        world.broker_takes();
        world.deliver_answer();
        world.commit();
    }
    let taken: Vec<usize> = world.truth.values().map(|t| t.taken.len()).collect();
    assert!(taken.iter().all(|n| (8..=12).contains(n)), "{taken:?}");
}

/// Lets a broker refuse each message of partition 0 whose records hold `offset`, for so
/// many rounds; how often it did.
fn refusing(world: &mut World, offset: u64, why: Refusal, rounds: usize) -> u32 {
    let mut refusals = 0;
    for _ in 0..rounds {
        world.pump();
        let bad = world
            .broker
            .inbound
            .front()
            .is_some_and(|(_, topic, payload)| {
                let message = DataMessage::parse(payload).expect("our own");
                let holds = message.id.first.0 <= offset && offset <= message.id.last.0;
                topic.ends_with("readings/0") && message.body.records().is_some() && holds
            });
        if bad {
            refusals += 1;
            world.broker_refuses(why);
        } else {
            world.broker_takes();
        }
        world.deliver_answer();
        world.commit();
        let quiet = world.broker.inbound.is_empty() && world.broker.answers.is_empty();
        if let Some(deadline) = world.forward.next_deadline().filter(|_| quiet) {
            world.now = world.now.max(deadline);
            world.deadline();
        }
    }
    refusals
}

/// Known faults a40 and a41: one record that no broker takes blocks nothing, is tried
/// again and then kept where operators find it.
#[test]
fn a40_a41_a_record_that_is_always_refused_is_parked_and_holds_up_nothing() {
    let tries = FORWARD_REFUSALS_MAX;
    for (why, reason) in [
        (Refusal::PayloadInvalid, "payload_invalid"),
        (Refusal::Unspecified, "unspecified"),
        (Refusal::Implementation, "implementation"),
        (Refusal::NotAuthorized, "not_authorized"),
    ] {
        let mut world = World::new();
        for _ in 0..3 {
            world.append(at(0), 4);
        }
        world.append(at(1), 1);
        world.commit();
        world.connect();
        let refusals = refusing(&mut world, 6, why, 200);
        // All of the block, then its halves, down to the record.
        assert_eq!(
            refusals,
            tries + 2,
            "{why:?} {}",
            world.forward.status(world.now)
        );
        assert!(world.forward.is_drained(), "{why:?}");
        assert_eq!((world.count("parked"), world.resets), (1, 0));
        let letters = world.forward.dead_letters();
        assert_eq!(letters.len(), 1);
        assert_eq!(letters[0]["first_offset"], 6);
        assert_eq!(letters[0]["last_offset"], 6);
        assert_eq!(letters[0]["reason"], reason);
        let truth = &world.truth[&at(0)];
        assert_eq!(truth.declared, BTreeMap::from([(6, Missing::Refused)]));
        // It is remembered over a restart, and sent when an operator says so.
        world.crash(0);
        assert_eq!(world.count("parked_ever"), 1);
        world.connect();
        assert_eq!(world.forward.retry_dead_letters(), 1);
        assert_eq!(refusing(&mut world, 6, why, 20), 1, "{why:?}: it stays");
        assert_eq!(world.forward.dead_letters().len(), 1);
        world.receiver_connects();
        world.forward.retry_dead_letters();
        world.run_for(20);
        assert_eq!(world.forward.dead_letters().len(), 0);
        assert!(world.truth[&at(0)].received.contains(&6), "{why:?}");
    }
}

#[test]
fn a_topic_that_is_refused_waits_for_ever_and_the_others_go_on() {
    let mut world = with_backlog(2);
    for _ in 0..50 {
        world.append(at(1), 1);
    }
    world.commit();
    for _ in 0..400 {
        world.pump();
        let bad = |w: &World| {
            w.broker
                .inbound
                .front()
                .is_some_and(|(_, topic, _)| topic.ends_with("readings/0"))
        };
        if bad(&world) {
            world.broker_refuses(Refusal::NotAuthorized);
        } else {
            world.broker_takes();
        }
        world.deliver_answer();
        world.commit();
        world.wait(50_000);
    }
    assert_eq!(world.truth[&at(1)].taken.len(), 50);
    assert!(world.truth[&at(0)].taken.is_empty());
    assert_eq!((world.count("parked"), world.resets), (0, 0));
    assert!(world.count("refused") < 20, "each wait is longer");
    // The broker's rules are put right.
    world.receiver_connects();
    world.settle();
}

#[test]
fn a_full_broker_pauses_all_and_loses_nothing() {
    let mut world = with_backlog(20);
    world.pump();
    world.pump();
    world.broker_takes();
    while !world.broker.inbound.is_empty() {
        world.broker_refuses(Refusal::Quota);
    }
    while !world.broker.answers.is_empty() {
        world.deliver_answer();
    }
    // What the first ack made room for was ahead of the refusals.
    let ahead = world.broker.inbound.len();
    world.wait(FORWARD_RETRY_MIN_US - 1);
    assert_eq!(world.broker.inbound.len(), ahead);
    world.wait(1);
    world.pump();
    assert!(world.broker.inbound.len() > ahead);
    all_through(&mut world);
    assert_eq!(world.truth[&at(0)].taken.len(), 40);
    assert_eq!((world.count("parked"), world.resets), (0, 0));
}

#[test]
fn a_new_session_of_the_receiver_brings_back_what_is_not_confirmed() {
    let mut world = World::new();
    world.receiver_connects();
    for _ in 0..10 {
        world.append(at(0), 1);
    }
    world.connect();
    while !world.broker.to_gateway.is_empty() {
        world.deliver_message();
    }
    world.commit();
    all_through(&mut world);
    for _ in 0..6 {
        world.receiver_takes();
    }
    world.receiver_acks();
    while !world.broker.to_gateway.is_empty() {
        world.deliver_message();
    }
    assert_eq!(world.forward.places[0].marks.confirmed, Offset(6));
    world.broker_loses_all();
    world.connect();
    world.receiver_connects();
    world.settle();
    let sends = &world.truth[&at(0)].sends;
    assert!((0..6).all(|offset| sends[&offset] == 1), "{sends:?}");
    assert!((6..10).all(|offset| sends[&offset] == 2), "{sends:?}");
}

#[test]
fn a_log_without_a_receiver_needs_no_word_from_one() {
    let mut world = with_backlog(5);
    all_through(&mut world);
    world.forward.drain();
    world.commit();
    world.commit();
    assert!(world.forward.is_drained());
    world.wait(100 * FORWARD_STALL_MIN_US);
    assert_eq!(world.count("probes"), 0);
}

#[test]
fn what_a_broker_dropped_silently_is_found_by_one_block() {
    let mut world = World::new();
    world.receiver_connects();
    world.connect();
    while !world.broker.to_gateway.is_empty() {
        world.deliver_message();
    }
    for _ in 0..12 {
        world.append(at(0), 1);
    }
    world.commit();
    all_through(&mut world);
    // All acked, nothing kept: the receiver sees no hole.
    world.broker.queue.clear();
    world.wait(FORWARD_STALL_MIN_US - 1);
    assert!(world.broker.inbound.is_empty());
    world.wait(1);
    world.pump();
    assert_eq!(world.broker.inbound.len(), 1, "one block to see");
    assert_eq!(world.count("probes"), 1);
    world.settle();
}

#[test]
fn repeated_commands_start_one_resend() {
    let mut world = with_backlog(10);
    all_through(&mut world);
    let command = Command::Resend {
        log_id: super::world::LOG,
        stream: super::world::stream_name(at(0)),
        partition: at(0).partition,
        from: Offset(3),
    };
    let topic = super::world::gateway().cmd_topic();
    for _ in 0..50 {
        world
            .forward
            .on_message(&topic, &command.render(), world.now);
    }
    assert_eq!(world.count("rewinds"), 1);
    all_through(&mut world);
    let sends = &world.truth[&at(0)].sends;
    // The block that holds offset 3 begins at 2, which is not asked for.
    assert!((3..20).all(|offset| sends[&offset] == 2), "{sends:?}");
    assert!((0..3).all(|offset| sends[&offset] == 1), "{sends:?}");
}

#[test]
fn messages_that_do_not_read_are_counted_and_change_nothing() {
    let mut world = with_backlog(2);
    let g = super::world::gateway();
    for topic in [
        UPSTREAM_TOPIC,
        &g.ack_topic(),
        &g.cmd_topic(),
        "something/else",
    ] {
        for payload in [&b""[..], b"{}", b"\xff", b"{\"v\":2}"] {
            world.forward.on_message(topic, payload, world.now);
        }
    }
    assert_eq!(world.count("messages_bad"), 16);
    assert_eq!(world.count("rewinds"), 0);
}

#[test]
fn of_unreadable_blocks_the_receiver_hears_that_they_are_lost() {
    for bad in 0..5usize {
        for whole_head in [true, false] {
            let mut world = World::new();
            for _ in 0..5 {
                world.append(at(0), 2);
            }
            let truth = world.truth.get_mut(&at(0)).unwrap();
            let at_byte = if whole_head {
                truth.blocks[bad].bytes.len() - 1
            } else {
                0
            };
            truth.blocks[bad].bytes[at_byte] ^= 1;
            world.commit();
            world.connect();
            world.settle();
            let name = format!("block {bad}, {whole_head}");
            assert_eq!(world.count("records_unreadable"), 2, "{name}");
            assert_eq!(world.count("records_trimmed"), 0, "{name}");
            let offsets = 2 * bad as u64..2 * bad as u64 + 2;
            let declared = offsets.map(|offset| (offset, Missing::Lost)).collect();
            assert_eq!(world.truth[&at(0)].declared, declared, "{name}");
        }
    }
}

#[test]
fn a_trimmed_front_is_declared_once_and_the_marks_pass_it() {
    let mut world = World::new();
    for _ in 0..6 {
        world.append(at(0), 2);
    }
    world.commit();
    world.trim(at(0), 4);
    world.receiver_connects();
    world.connect();
    while !world.broker.to_gateway.is_empty() {
        world.deliver_message();
    }
    world.settle();
    let truth = &world.truth[&at(0)];
    let declared = (0..8).map(|offset| (offset, Missing::Trimmed)).collect();
    assert_eq!(truth.declared, declared);
    assert_eq!(world.count("records_trimmed"), 8);
    assert_eq!(
        world.count("published"),
        3,
        "one for all of it, one per block"
    );
    assert_eq!(world.count("unconfirmed"), 0);
}

#[test]
fn a_receiver_that_asks_for_what_was_trimmed_hears_that_it_is_gone() {
    let mut world = World::new();
    for _ in 0..6 {
        world.append(at(0), 2);
    }
    world.commit();
    world.connect();
    world.settle();
    world.trim(at(0), 3);
    let truth = world.truth.get_mut(&at(0)).unwrap();
    assert!(truth.declared.is_empty());
    // It has lost most of what it had applied, and sees so with the next message.
    truth.applied.retain(|offset| *offset < 2);
    world.append(at(0), 2);
    world.commit();
    world.settle();
    let declared = (2..6).map(|offset| (offset, Missing::Trimmed)).collect();
    assert_eq!(world.truth[&at(0)].declared, declared);
}

#[test]
fn what_was_written_under_one_layout_goes_out_before_the_next() {
    for refused in [0, FORWARD_REFUSALS_MAX + 1] {
        let mut world = World::new();
        for _ in 0..2 {
            world.append(at(0), 2);
        }
        // A device of partition 0 goes on in partition 1.
        world
            .forward
            .set_barriers(&[BTreeMap::from([(PartitionId(0), Offset(4))])]);
        world.append(at(0), 2);
        world.append(at(1), 2);
        world.commit();
        world.connect();
        for _ in 0..2 * refused {
            // Partition 0 is in trouble, and holds nobody up for ever.
            for _ in 0..3 {
                world.pump();
            }
            let ours = |(_, topic, _): &(_, String, _)| topic.ends_with("readings/0");
            while world.broker.inbound.front().is_some_and(ours) {
                world.broker_refuses(Refusal::NotAuthorized);
                world.deliver_answer();
            }
            if let Some(waits) = world.forward.next_deadline() {
                world.now = waits.max(world.now);
                world.deadline();
            }
        }
        if refused > 0 {
            assert_eq!(world.truth[&at(1)].sends.len(), 2);
            assert_eq!(world.count("parked"), 0, "the topic is to blame, no record");
        }
        if refused == 0 {
            for _ in 0..3 {
                world.pump();
            }
            assert_eq!(world.truth[&at(0)].sends.len(), 4, "up to the barrier");
            assert_eq!(world.truth[&at(1)].sends.len(), 0);
            world.broker_takes();
            world.deliver_answer();
            assert_eq!(
                world.truth[&at(1)].sends.len(),
                0,
                "the last one is not acked"
            );
        }
        world.settle();
        assert_eq!(world.truth[&at(1)].applied.len(), 2, "{refused}");
        assert_eq!(world.truth[&at(0)].applied.len(), 6, "{refused}");
    }
}

#[test]
fn idle_forwarding_wants_nothing() {
    let mut world = World::new();
    world.connect();
    world.commit();
    assert_eq!(world.forward.poll(world.now), None);
    assert_eq!(Forward::next_deadline(&world.forward), None);
}

#[test]
fn a_stop_in_the_middle_of_a_backlog_sends_nothing_again() {
    let mut world = with_backlog(100);
    for _ in 0..30 {
        world.pump();
        world.broker_takes();
        world.deliver_answer();
        world.commit();
    }
    assert!(!world.broker.inbound.is_empty());
    assert!(!world.forward.is_quiet(), "messages are on their way");
    world.forward.hold();
    all_through(&mut world);
    world.commit();
    assert!(world.forward.is_quiet());
    assert!(
        !world.forward.is_drained(),
        "the backlog stays for the next start"
    );
    world.crash(0);
    world.connect();
    all_through(&mut world);
    assert_eq!(most_sends(&world), 1);
    assert_eq!(world.truth[&at(0)].taken.len(), 200);
}

#[test]
fn a_log_of_which_nothing_reads_is_declared_lost() {
    let mut world = World::new();
    world.append(at(0), 3);
    let truth = world.truth.get_mut(&at(0)).unwrap();
    truth.blocks[0].bytes.truncate(5);
    world.commit();
    world.connect();
    world.settle();
    assert!(world.forward.is_drained());
    assert_eq!(world.count("records_unreadable"), 3);
    assert_eq!(world.truth[&at(0)].declared.len(), 3);
}
