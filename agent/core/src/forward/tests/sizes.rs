//! Messages that are longer than somebody takes.

use super::super::{ForwardConfig, Refusal};
use super::world::{World, at, config};
use crate::payload::{DataMessage, Encoding, Format};
use crate::units::{EventTime, Offset};

/// A world with one block of rows of these lengths, about.
fn rows(lengths: &[usize], config: ForwardConfig) -> World {
    let mut world = World::with(config);
    let lines = lengths
        .iter()
        .map(|len| format!("{{\"n\":\"{}\"}}", "x".repeat(*len)));
    world.append_lines(at(0), EventTime(0), lines.collect());
    world.commit();
    world.connect();
    world
}

/// Ranges of all messages that wait for the broker.
fn on_the_way(world: &World) -> Vec<(u64, u64, usize)> {
    let messages = world.broker.inbound.iter();
    let read = messages.map(|(_, _, payload)| {
        let id = DataMessage::parse(payload).expect("our own").id;
        (id.first.0, id.last.0, payload.len())
    });
    read.collect()
}

#[test]
fn a_block_is_split_just_above_the_limit() {
    let whole = {
        let mut world = rows(&[100; 8], config(8));
        world.run_for(0);
        world.pump();
        world.pump();
        on_the_way(&world)[0].2
    };
    for (name, limit, messages) in [
        ("limit + 1", whole + 1, 1),
        ("limit", whole, 1),
        ("limit - 1", whole - 1, 2),
        ("half", whole / 2, 3),
    ] {
        let settings = ForwardConfig {
            message_bytes_max: limit,
            ..config(16)
        };
        let mut world = rows(&[100; 8], settings);
        for _ in 0..4 {
            world.pump();
        }
        let sent = on_the_way(&world);
        assert!(sent.len() >= messages, "{name}: {sent:?}");
        assert!(
            sent.iter().all(|(.., bytes)| *bytes <= limit),
            "{name}: {sent:?}"
        );
        let mut next = 0;
        for (first, last, _) in sent {
            assert_eq!(first, next, "{name}: without a hole");
            next = last + 1;
        }
        assert_eq!(next, 8, "{name}");
        world.receiver_connects();
        world.settle();
        assert_eq!(world.truth[&at(0)].received.len(), 8, "{name}");
        assert_eq!((world.count("parked"), world.count("refused")), (0, 0));
    }
}

/// One record that is longer than the broker takes; the packets of others go through.
#[test]
fn only_the_record_that_is_too_long_is_parked() {
    for format in [Format::Json, Format::Compact] {
        for broker_says in [true, false] {
            let limit = 1500;
            let settings = ForwardConfig {
                encoding: Encoding {
                    format,
                    zstd: false,
                },
                message_bytes_max: if broker_says { 1 << 18 } else { limit },
                ..config(8)
            };
            let mut world = rows(&[20, 20, 3000, 20, 20, 20, 20], settings);
            world.receiver_connects();
            for _ in 0..60 {
                world.pump();
                let long = world
                    .broker
                    .inbound
                    .front()
                    .map(|(_, _, payload)| payload.len());
                match long.filter(|bytes| *bytes > limit) {
                    Some(bytes) => world.broker_refuses(Refusal::TooLarge {
                        packet_bytes: bytes + 50,
                        bytes_max: limit + 50,
                    }),
                    None => world.broker_takes(),
                }
                world.deliver_answer();
                world.commit();
            }
            let name = format!("{format:?} {broker_says}");
            assert_eq!(
                world.count("refused"),
                u64::from(broker_says),
                "{name}: it learns"
            );
            let letters = world.forward.dead_letters();
            assert_eq!(letters.len(), 1, "{name}");
            assert_eq!(letters[0]["first_offset"], 2, "{name}");
            assert_eq!(letters[0]["reason"], "too_large", "{name}");
            while !world.broker.queue.is_empty() {
                world.receiver_takes();
            }
            let truth = &world.truth[&at(0)];
            let received: Vec<u64> = truth.received.iter().copied().collect();
            assert_eq!(received, [0, 1, 3, 4, 5, 6], "{name}");
            assert_eq!(world.forward.places[0].marks.sent, Offset(7), "{name}");
        }
    }
}

/// A broker that ends the connection instead of saying that a message is too long.
#[test]
fn connections_that_end_without_a_word_make_messages_shorter() {
    let mut world = rows(&[300; 8], config(8));
    let mut cuts = 0;
    for _ in 0..200 {
        world.connect();
        for _ in 0..3 {
            world.pump();
        }
        let front = world.broker.inbound.front();
        if front.is_some_and(|(_, _, payload)| payload.len() > 1200) {
            cuts += 1;
            world.disconnect(0);
        } else {
            world.broker_takes();
            world.deliver_answer();
        }
        world.commit();
    }
    assert_eq!(world.truth[&at(0)].taken.len(), 8);
    assert_eq!(world.count("parked"), 0, "nobody refused a record");
    assert!(cuts < 20, "{cuts}");
}
