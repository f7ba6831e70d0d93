//! Acks about a log that somebody else has opened a copy of.

use super::world::{LOG, World, at, gateway, stream_name};
use crate::payload::{AckMark, AckMessage, AckRun, SessionNonce};
use crate::units::{Epoch, EpochNonce, Offset};

/// A world in its third opening: in the first it wrote up to 10, in the second up to 20,
/// now up to 30. The broker has all.
fn third_opening() -> World {
    let mut world = World::new();
    for opening in 1..=3 {
        world.append(at(0), 10);
        world.commit();
        if opening < 3 {
            world.crash(0);
        }
    }
    world.connect();
    for _ in 0..30 {
        world.pump();
        world.broker_takes();
        world.deliver_answer();
        world.commit();
    }
    world
}

fn run((epoch, nonce): (u32, u64), first: u64, next: u64) -> AckRun {
    AckRun {
        epoch: Epoch(epoch),
        nonce: EpochNonce(nonce),
        first: Offset(first),
        next: Offset(next),
    }
}

fn ack(world: &mut World, seq: u64, mark: (u32, u64, u64), runs: Vec<AckRun>) -> u64 {
    let (epoch, nonce, next) = mark;
    let ack = AckMessage {
        gateway: gateway(),
        session: SessionNonce([9; 16]),
        seq,
        log_id: LOG,
        marks: vec![AckMark {
            stream: stream_name(at(0)),
            partition: at(0).partition,
            epoch: Epoch(epoch),
            nonce: EpochNonce(nonce),
            next: Offset(next),
            runs,
        }],
    };
    let topic = gateway().ack_topic();
    world.forward.on_message(&topic, &ack.render(), world.now);
    world.forward.places[0].marks.confirmed.0
}

#[test]
fn only_openings_of_our_own_confirm() {
    for (name, mark, want) in [
        ("this one", (3, 3, 25), 25),
        ("this one, past our head", (3, 3, 99), 30),
        (
            "an earlier one counts up to where this began",
            (2, 2, 25),
            20,
        ),
        ("this epoch of a clone", (3, 7, 25), 0),
        ("an earlier epoch of a clone", (2, 7, 15), 0),
        ("an epoch that is still to come", (4, 4, 25), 0),
    ] {
        let mut world = third_opening();
        assert_eq!(ack(&mut world, 1, mark, Vec::new()), want, "{name}");
        let foreign = u64::from(want == 0);
        assert_eq!(world.count("acks_foreign"), foreign, "{name}");
        assert_eq!(world.forward.take_note().is_some(), want == 0, "{name}");
        ack(&mut world, 2, mark, Vec::new());
        assert_eq!(world.forward.take_note(), None, "{name}: said once");
    }
}

#[test]
fn where_there_are_several_histories_our_own_is_walked() {
    let own = [run((1, 1), 0, 10), run((2, 2), 10, 20), run((3, 3), 20, 27)];
    for (name, runs, want) in [
        ("all ours", own.to_vec(), 27),
        (
            "a clone beside",
            [&own[..2], &[run((3, 8), 20, 99)]].concat(),
            20,
        ),
        ("a hole", vec![own[0], own[2]], 10),
        ("only a clone's", vec![run((1, 5), 0, 30)], 0),
    ] {
        let mut world = third_opening();
        assert_eq!(ack(&mut world, 1, (3, 8, 99), runs), want, "{name}");
    }
}

#[test]
fn an_ack_that_was_overtaken_changes_nothing() {
    let mut world = third_opening();
    assert_eq!(ack(&mut world, 5, (3, 3, 22), Vec::new()), 22);
    assert_eq!(ack(&mut world, 4, (3, 3, 28), Vec::new()), 22);
    assert_eq!(world.count("acks_late"), 1);
    assert_eq!(ack(&mut world, 5, (3, 3, 24), Vec::new()), 24);
}
