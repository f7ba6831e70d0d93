//! What lines, boards and peers do to a device: bursts, floods, echoes, noise, lines
//! that never take a byte, resets in the middle of a frame, counters that wrap.
//! Sampling goes on through all of it, and the sums close.

// Helpers of a test are tests too.
#![allow(clippy::unwrap_used)]

mod rig;

use std::collections::VecDeque;

use forebay_firmware::wire::ids::{BootId, ChannelNo, Ordinal, Tick};
use forebay_firmware::wire::limits::LINE_BYTES_MAX;
use forebay_firmware::wire::message::{
    Ack, Cmd, ConfigChunk, GapReason, HelloAck, Operation, SyncReq,
};
use forebay_firmware::wire::{DeviceMessage, GatewayMessage};
use forebay_firmware::{Action, Device, tick};
use rig::world::{Plan, World};
use rig::{CONFIG, Rig, SECOND_US, channels, line_of};

const QUIET: Plan = Plan {
    byte_ns: 86_806,
    damaged_per_mille: 0,
    sample_period_us: 10_000,
    commit_us: 25_000,
    latency_timer_us: 0,
};

/// A burst far longer than any buffer of a board: all that is whole counts.
#[test]
fn four_kilobytes_at_once() {
    let mut rig = Rig::<64>::open();
    let before = rig.device.stats().received;
    let (mut burst, mut sent, mut damaged) = (Vec::new(), 0, 0);
    while burst.len() < 4_096 {
        let mut line = line_of(GatewayMessage::SyncReq(SyncReq { id: sent }));
        if sent % 7 == 3 {
            line[3] ^= 0x40;
            damaged += 1;
        }
        sent += 1;
        burst.extend(line);
    }
    rig.device.on_rx(&burst, rig.now);
    let received = rig.device.stats().received;
    assert_eq!(received.ok - before.ok, u64::from(sent - damaged));
    assert_eq!(received.bad() - before.bad(), u64::from(damaged));
    assert_eq!(
        rig.poll_messages().len(),
        4,
        "as many answers as probes may wait"
    );
}

/// Ten seconds of a line that says more than the board can take in: its queue runs
/// over, which it counts. Nothing else suffers.
#[test]
fn a_flood_of_received_bytes() {
    const QUEUE: usize = 384;
    let mut rig = Rig::<2_730>::open();
    let mut queue: VecDeque<u8> = VecDeque::new();
    let flood: Vec<u8> = (0..2u32)
        .flat_map(|id| line_of(GatewayMessage::SyncReq(SyncReq { id })))
        .chain(*b"\r\nAT\r\0")
        .collect();
    let mut bytes = flood.iter().cycle();
    let (mut samples, mut dropped, mut sent) = (0, 0, 0);
    for now in (0..10 * SECOND_US).step_by(10_000) {
        rig.advance_to(now);
        // Half again of what the queue holds between two turns of the main loop.
        let mut lost = 0;
        for byte in bytes.by_ref().take(QUEUE * 3 / 2) {
            if queue.len() < QUEUE {
                queue.push_back(*byte);
            } else {
                lost += 1;
            }
        }
        rig.device.on_rx_dropped(lost);
        dropped += lost;
        let chunk: Vec<u8> = queue.drain(..).collect();
        rig.device.on_rx(&chunk, rig.now);
        rig.sample(1);
        samples += 1;
        for said in rig.poll_messages() {
            if let Some((_, end)) = said
                .strip_prefix("Data ")
                .and_then(|data| data.split_once(".."))
            {
                sent = end.parse().unwrap();
            }
        }
        // The flood ends in the middle of a frame.
        rig.device.on_rx(&[0], rig.now);
        rig.ack(sent, 8);
    }
    rig.poll_messages();
    let health = rig.device.health();
    assert_eq!((health.produced, health.rx_dropped), (samples, dropped));
    assert!(health.gaps == [0; 4] && health.closes(), "{health:?}");
    assert!(
        health.received.ok > 1_000 && health.received.cobs_bad > 100,
        "{health:?}"
    );
    assert!(rig.device.is_open() && rig.device.boot() == CONFIG.boot);
    let told = &rig.healths.last().unwrap().1;
    assert!(told.rx_dropped > 0, "the gateway knows: {told:?}");
}

/// A UART that hands bytes over one by one, with pauses: the frame is there with its
/// delimiter, not when the next one comes.
#[test]
fn one_byte_at_a_time_with_pauses() {
    let mut rig = Rig::<64>::new();
    rig.poll_messages();
    let line = line_of(GatewayMessage::HelloAck(rig.hello_ack(0)));
    for (at, byte) in line.iter().enumerate() {
        assert!(!rig.device.is_open(), "byte {at}");
        rig.advance_to(rig.now.0 + 4_000);
        rig.device.on_rx(&[*byte], rig.now);
    }
    assert!(rig.device.is_open());
    assert_eq!(rig.deadline(), rig.now.0, "at once");
    assert_eq!(rig.poll_messages(), ["Channel 0", "Channel 1"]);
}

#[test]
fn a_modem_manager_between_the_frames() {
    let mut world = World::<512>::new(2, QUIET);
    for round in 0..200 {
        world.run_for(SECOND_US / 10);
        let noise: &[u8] = if round % 2 == 0 {
            b"AT\r"
        } else {
            b"AT\r\0\0\0"
        };
        world.reply(noise.to_vec());
    }
    world.drain();
    world.check();
    let stats = world.device.stats();
    assert_eq!((stats.acked, stats.lost()), (stats.produced, 0));
    assert!(
        stats.received.crc_bad + stats.received.cobs_bad >= 100,
        "{stats:?}"
    );
    assert_eq!((world.device.boot(), stats.link.sessions), (CONFIG.boot, 1));
}

/// A line that gives everything back: nothing is done because of it, and no more is
/// sent than without.
#[test]
fn an_echo_commands_nothing_and_makes_no_storm() {
    let run = |echoes| {
        let mut world = World::<512>::new(4, QUIET);
        world.echoes = echoes;
        world.run_for(5 * SECOND_US);
        for id in 1..=3 {
            let operation = Operation::Identify { seconds: 7 };
            world.reply(line_of(GatewayMessage::Cmd(Cmd { id, operation })));
        }
        world.run_for(20 * SECOND_US);
        // Nobody there: it greets, and hears itself.
        world.unplugged = true;
        world.run_for(20 * SECOND_US);
        world.unplugged = false;
        let mut actions = 0;
        while let Some(action) = world.device.take_action() {
            assert_eq!(action, Action::Identify { seconds: 7 });
            actions += 1;
        }
        world.drain();
        world.check();
        let stats = world.device.stats();
        (stats.link.tx_frames, actions, stats.received.unknown_kind)
    };
    let (silent, echoing) = (run(false), run(true));
    assert_eq!(echoing.0, silent.0, "frames");
    assert_eq!((echoing.1, silent.1), (1, 1), "the last one, once");
    assert!(echoing.2 > 500 && silent.2 == 0, "{echoing:?} {silent:?}");
}

#[test]
fn a_device_that_hears_itself_greets_no_faster() {
    let mut rig = Rig::<64>::new();
    let mut hellos = 0;
    for now in (0..20 * SECOND_US).step_by(1_000) {
        rig.advance_to(now);
        rig.line_to_gateway.clear();
        let mut line = [0; LINE_BYTES_MAX];
        loop {
            let bytes = rig.device.poll_tx(rig.now, &mut line);
            if bytes == 0 {
                break;
            }
            hellos += u32::from(bytes > 1);
            rig.device.on_rx(&line[..bytes], rig.now);
        }
    }
    assert!((20..=21).contains(&hellos), "{hellos}");
}

/// A transmitter that never finishes, as a USB line after an unplug: the board never
/// asks for the next line.
#[test]
fn a_line_that_never_takes_a_byte() {
    let mut rig = Rig::<64>::open();
    rig.sample(16);
    let mut line = [0; LINE_BYTES_MAX];
    assert!(
        rig.device.poll_tx(rig.now, &mut line) > 0,
        "the last that was taken"
    );
    for round in 0..6_000u64 {
        rig.advance_to(round * 100_000);
        rig.sample(1);
        assert_eq!(
            rig.device.next_deadline(rig.now).map(|at| at >= rig.now),
            Some(true)
        );
    }
    let stats = rig.device.stats();
    assert_eq!((stats.produced, stats.waiting), (6_016, 64));
    assert_eq!(stats.gap(GapReason::RingFull), 6_016 - 64);
    // It is plugged in again: who it is, and exactly what is gone.
    assert_eq!(rig.poll_messages(), ["Hello"]);
    rig.say(GatewayMessage::HelloAck(rig.hello_ack(0)));
    let said = rig.poll_messages();
    assert_eq!(
        said[2..5],
        [
            "Gap RingFull 0..16",
            "Gap RingFull 16..5952",
            "Data 5952..5984"
        ]
    );
}

/// The half frame that a reset leaves on the line costs that frame and no other.
#[test]
fn resets_in_the_middle_of_a_frame() {
    let mut world = World::<512>::new(6, QUIET);
    for round in 0..40u64 {
        world.run_for(SECOND_US / 2 + round * 1_313);
        world.reboot_device();
    }
    world.run_for(SECOND_US);
    world.drain();
    world.check();
    let counters = world.gateway.counters();
    assert!((1..=40).contains(&counters.bad()), "{counters:?}");
}

/// An unplugged device forgets a half-received frame with the next lone delimiter.
#[test]
fn half_a_frame_from_the_gateway_spoils_no_other() {
    let whole = line_of(GatewayMessage::SyncReq(SyncReq { id: 5 }));
    for cut in 1..whole.len() - 1 {
        let mut rig = Rig::<64>::open();
        rig.device.on_rx(&whole[..cut], rig.now);
        rig.device.on_rx(&[0], rig.now);
        rig.device.on_rx(&whole, rig.now);
        assert_eq!(rig.poll_messages().len(), 1, "cut at {cut}");
    }
}

/// A gateway of protocol minor 0 says three kinds and knows five: bytes that were
/// written by one are still understood, and nothing that it does not know is needed.
#[test]
fn a_gateway_of_the_first_version() {
    const GOLDEN: &str = include_str!("../../shared/tests/golden/v1.txt");
    let golden = |name: &str| -> Vec<u8> {
        let line = GOLDEN
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .unwrap();
        let bytes = line.trim_start_matches(" = ").split(' ');
        bytes
            .map(|byte| u8::from_str_radix(byte, 16).unwrap())
            .collect()
    };
    let config = forebay_firmware::DeviceConfig {
        boot: BootId(0x0A0B_0C0D),
        ..CONFIG
    };
    let mut device = Device::<2_730>::new(config, &channels()).unwrap();
    for _ in 0..1_400 {
        device.on_sample(ChannelNo(0), Tick(0), Ok(1)).unwrap();
    }
    for name in ["hello_ack", "sync_req", "ack"] {
        device.on_rx(&golden(name), Tick(1_000));
    }
    assert_eq!(device.stats().received.ok, 3);
    let stats = device.stats();
    assert_eq!(
        (stats.acked, stats.link.stale_acks),
        (300, 1),
        "the ack is of what was not sent"
    );
    assert_eq!(device.log_level(), 3);
    let (mut line, mut known, mut new) = ([0; LINE_BYTES_MAX], Vec::new(), 0);
    loop {
        let bytes = device.poll_tx(Tick(2_000), &mut line);
        if bytes == 0 {
            break;
        }
        rig::decode(&line[..bytes], |message| match message {
            DeviceMessage::Hello(_) => known.push(1),
            DeviceMessage::Channel(_) => known.push(2),
            DeviceMessage::Data(_) => known.push(3),
            DeviceMessage::Gap(_) => known.push(4),
            DeviceMessage::SyncReply(_) => known.push(6),
            // A minor 0 counts these and goes on.
            DeviceMessage::Health(_) | DeviceMessage::CmdResult(_) | DeviceMessage::Log(_) => {
                new += 1;
            }
        });
    }
    assert_eq!((known, new), (vec![6, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3], 1));
}

/// A 16-bit counter at 1 MHz wraps each 66 ms: a hundred wraps, read at every phase.
#[test]
fn a_hundred_wraps() {
    for (name, bits, step_us) in [("16 bits", 16, 30_011), ("24 bits", 24, 4_194_301)] {
        let mut rig = Rig::<64>::open();
        let (mut at, mut last, mut ticks) = (0u64, 0, Vec::new());
        while at >> bits < 101 {
            at += step_us + at % 7;
            let raw = (at & ((1 << bits) - 1)) as u32;
            last = tick::extend_polled(last, raw, bits);
            assert_eq!(last, at, "{name}");
            rig.advance_to(at);
            rig.sample_on(ChannelNo(0), Ok(1));
            rig.advance_to(at + 20_000);
            rig.line_to_gateway.clear();
            rig.poll_messages();
            rig::decode(&rig.line_to_gateway, |message| {
                if let DeviceMessage::Data(data) = message {
                    ticks.extend(data.records().map(|reading| reading.unwrap().tick));
                }
            });
            if rig.device.is_open() {
                rig.ack(rig.device.stats().produced, 8);
            } else {
                rig.say(GatewayMessage::HelloAck(
                    rig.hello_ack(rig.device.stats().produced),
                ));
            }
        }
        assert!(ticks.len() > 200, "{name}: {}", ticks.len());
        assert!(
            ticks.is_sorted_by(|a, b| a < b),
            "{name}: never back, never twice"
        );
    }
}

/// Filled and emptied from every place of the ring: what a ring holds always gets
/// out, and there is never a place where it stops.
fn from_every_place<const N: usize>() {
    for start in 0..=2 * N as u64 {
        let mut rig = Rig::<N>::open();
        for _ in 0..start {
            rig.sample(1);
            rig.advance_to(rig.now.0 + 20_000);
            rig.poll_messages();
            rig.ack(rig.device.stats().produced, 8);
        }
        rig.sample(N as u64);
        let mut rounds = 0;
        while rig.device.stats().waiting > 0 {
            rig.advance_to(rig.now.0 + 20_000);
            rig.poll_messages();
            rig.ack(
                rig.device.stats().produced.min(start + 32 * (rounds + 1)),
                8,
            );
            rounds += 1;
            assert!(rounds < 10, "{N} from place {start}: it stopped");
        }
        assert_eq!(
            rig.device.stats().acked,
            start + N as u64,
            "{N} from place {start}"
        );
        assert_eq!(rig.device.stats().lost(), 0);
    }
}

#[test]
fn rings_of_any_size_fill_and_empty_from_every_place() {
    from_every_place::<1>();
    from_every_place::<3>();
    from_every_place::<5>();
    from_every_place::<64>();
}

/// The line is full, and one frame of a hundred is damaged: the gateway knows of the
/// first loss within ten seconds.
#[test]
fn losses_are_told_within_ten_seconds_at_full_load() {
    for seed in 0..5 {
        let plan = Plan {
            damaged_per_mille: 10,
            // Half more than the line carries.
            sample_period_us: 340,
            ..QUIET
        };
        let mut world = World::<512>::new(seed, plan);
        let (mut lost_at, mut told) = (None, 0);
        while world.now < 60 * SECOND_US {
            world.run_for(10_000);
            let lost = world.device.stats().lost() > 0;
            lost_at = lost_at.or(lost.then_some(world.now));
        }
        let healths = world.healths_at.iter().zip(&world.gateway.healths);
        let first = healths.clone().find(|(_, health)| health.gaps[0] > 0);
        let (first, lost_at) = (*first.unwrap().0, lost_at.unwrap());
        assert!(
            first <= lost_at + 10 * SECOND_US,
            "seed {seed}: {lost_at} {first}"
        );
        // And goes on: each Health knows of more.
        for (_, health) in healths {
            assert!(health.gaps[0] >= told && health.closes(), "seed {seed}");
            told = health.gaps[0];
        }
        assert!(world.healths_at.len() >= 6, "seed {seed}");
        println!(
            "seed {seed}: lost {} ms, told {} ms",
            lost_at / 1_000,
            first / 1_000
        );
    }
}

/// Commands, configs and probes over a line that damages a tenth of all frames, each
/// said again until it is answered: done once, whatever was lost.
#[test]
fn commands_over_a_bad_line() {
    for seed in 0..10 {
        let plan = Plan {
            damaged_per_mille: 100,
            ..QUIET
        };
        let mut world = World::<512>::new(seed, plan);
        let config = [1, 1, 0, 0x88, 0x27, 9];
        for id in 0..20u32 {
            let identify = Operation::Identify { seconds: id as u8 };
            let mut done = 0;
            for _ in 0..40 {
                let cmd = Cmd {
                    id,
                    operation: identify,
                };
                world.reply(line_of(GatewayMessage::Cmd(cmd)));
                for chunk in ConfigChunk::split(id + 1, &config) {
                    world.reply(line_of(GatewayMessage::Config(chunk)));
                }
                world.run_for(SECOND_US / 2);
                done += u32::from(world.device.take_action().is_some());
                let answered = world.gateway.results.iter().any(|result| result.id == id);
                let applied =
                    |health: &forebay_firmware::wire::message::Health| health.config == id + 1;
                if answered && world.gateway.healths.iter().any(applied) {
                    break;
                }
            }
            assert_eq!(done, 1, "seed {seed}, command {id}");
            assert_eq!(world.device.health().config, id + 1, "seed {seed}");
        }
        world.drain();
        world.check();
    }
}

/// Acks and HelloAcks of every shape that decodes, in any order: the sums close.
#[test]
fn whatever_a_gateway_says_the_sums_close() {
    let mut rig = Rig::<20>::open();
    let mut random = rig::world::Random(3);
    for _ in 0..20_000 {
        let samples = random.below(8);
        rig.sample(samples);
        rig.advance_to(rig.now.0 + random.below(300_000));
        let produced = rig.device.stats().produced;
        let next = Ordinal(random.below(produced + 2));
        let boot = BootId(rig.device.boot().0 + u32::from(random.chance(50)));
        let credit = random.below(9) as u8;
        if random.chance(500) {
            rig.say(GatewayMessage::Ack(Ack { boot, next, credit }));
        } else {
            rig.say(GatewayMessage::HelloAck(HelloAck {
                boot,
                next,
                window: 1 + credit % 8,
                reliable: random.chance(900),
                log_level: 0,
            }));
        }
        rig.poll_messages();
    }
}
