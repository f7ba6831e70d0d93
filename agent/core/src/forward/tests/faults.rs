//! Random faults in any order; then everything durable must have been applied.

use proptest::prelude::*;

use super::super::{ForwardConfig, Order, Refusal};
use super::world::{World, at, config};
use crate::record::Missing;

#[derive(Debug, Clone)]
enum Op {
    Append {
        stream: usize,
        records: u64,
    },
    Commit,
    Connect,
    Disconnect {
        taken: usize,
    },
    Crash {
        taken: usize,
    },
    BrokerTakes(usize),
    BrokerRefuses(Refusal),
    Answers(usize),
    Messages(usize),
    ReceiverConnects,
    ReceiverLeaves,
    ReceiverTakes(usize),
    ReceiverAcks,
    BrokerLosesAll,
    /// The broker drops what it has acked, as one does with a full queue.
    QueueDropped(usize),
    Trim {
        stream: usize,
        blocks: usize,
    },
    Wait(u64),
}

fn refusal() -> impl Strategy<Value = Refusal> {
    prop_oneof![
        Just(Refusal::Quota),
        Just(Refusal::NotAuthorized),
        Just(Refusal::TopicInvalid),
        Just(Refusal::PacketIdInUse),
        Just(Refusal::Unspecified),
        Just(Refusal::PayloadInvalid),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0..4usize, 1..5u64).prop_map(|(stream, records)| Op::Append { stream, records }),
        6 => Just(Op::Commit),
        4 => Just(Op::Connect),
        1 => (0..4usize).prop_map(|taken| Op::Disconnect { taken }),
        1 => (0..4usize).prop_map(|taken| Op::Crash { taken }),
        6 => (1..6usize).prop_map(Op::BrokerTakes),
        1 => refusal().prop_map(Op::BrokerRefuses),
        6 => (1..6usize).prop_map(Op::Answers),
        4 => (1..4usize).prop_map(Op::Messages),
        2 => Just(Op::ReceiverConnects),
        1 => Just(Op::ReceiverLeaves),
        6 => (1..6usize).prop_map(Op::ReceiverTakes),
        3 => Just(Op::ReceiverAcks),
        1 => Just(Op::BrokerLosesAll),
        1 => (1..6usize).prop_map(Op::QueueDropped),
        1 => (0..4usize, 1..4usize).prop_map(|(stream, blocks)| Op::Trim { stream, blocks }),
        3 => prop_oneof![1..1000u64, 100_000..2_000_000u64, 10_000_000..200_000_000u64]
            .prop_map(Op::Wait),
    ]
}

fn times(n: usize, mut act: impl FnMut()) {
    (0..n).for_each(|_| act());
}

fn apply(world: &mut World, op: &Op) {
    match *op {
        Op::Append { stream, records } => world.append(at(stream), records),
        Op::Commit => world.commit(),
        Op::Connect => world.connect(),
        Op::Disconnect { taken } => world.disconnect(taken),
        Op::Crash { taken } => world.crash(taken),
        Op::BrokerTakes(n) => times(n, || world.broker_takes()),
        Op::BrokerRefuses(why) => world.broker_refuses(why),
        Op::Answers(n) => times(n, || world.deliver_answer()),
        Op::Messages(n) => times(n, || world.deliver_message()),
        Op::ReceiverConnects => world.receiver_connects(),
        Op::ReceiverLeaves => world.receiver_leaves(),
        Op::ReceiverTakes(n) => times(n, || world.receiver_takes()),
        Op::ReceiverAcks => world.receiver_acks(),
        Op::BrokerLosesAll => world.broker_loses_all(),
        Op::QueueDropped(n) => times(n, || drop(world.broker.queue.pop_back())),
        Op::Trim { stream, blocks } => world.trim(at(stream), blocks),
        Op::Wait(us) => world.wait(us),
    }
}

/// All that is durable was received, or is declared as gone; dead letters when they are
/// sent once more.
fn all_is_there(world: &mut World) -> Result<(), TestCaseError> {
    prop_assert_eq!(world.count("backlog"), 0);
    for _ in 0..3 {
        if world.forward.retry_dead_letters() == 0 {
            break;
        }
        world.run_for(100);
    }
    prop_assert_eq!(
        world.forward.dead_letters(),
        Vec::<serde_json::Value>::new()
    );
    for (at, truth) in &world.truth {
        for offset in 0..truth.durable {
            let gone = matches!(
                truth.declared.get(&offset),
                Some(Missing::Trimmed | Missing::Lost)
            );
            prop_assert!(
                truth.received.contains(&offset) || gone,
                "{:?} {}",
                at,
                offset
            );
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn everything_durable_is_applied_in_the_end(
        ops in proptest::collection::vec(op(), 0..250),
        window in 1..12u16,
        live_first in any::<bool>(),
        rate in prop_oneof![2 => Just(None), 1 => (1..50u32).prop_map(Some)],
    ) {
        let order = if live_first { Order::LiveFirst } else { Order::OldestFirst };
        let mut world = World::with(ForwardConfig { order, rate, ..config(window) });
        for op in &ops {
            apply(&mut world, op);
        }
        world.settle();
        all_is_there(&mut world)?;
    }
}
