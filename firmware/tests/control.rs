//! How a device does and what it is told: Health, commands, configs, thresholds,
//! logs, against a line that this test holds in its hands.

// Helpers of a test are tests too.
#![allow(clippy::unwrap_used)]

mod rig;

use forebay_firmware::wire::ids::{BootId, ChannelNo, Tick};
use forebay_firmware::wire::limits::{
    CONFIG_BYTES_MAX, LOG_FRAME_BYTES_MAX, PERIOD_US_MAX, PERIOD_US_MIN,
};
use forebay_firmware::wire::message::{
    Ack, Cmd, ConfigChunk, GapReason, Health, HelloAck, Operation, Quality,
};
use forebay_firmware::wire::{ChannelSetting, DeviceMessage, GatewayMessage, Settings};
use forebay_firmware::{Action, Sampler};
use rig::{CONFIG, Rig, SECOND_US, channels};

const A: ChannelNo = ChannelNo(0);
const B: ChannelNo = ChannelNo(1);

fn cmd(id: u32, operation: Operation) -> GatewayMessage<'static> {
    GatewayMessage::Cmd(Cmd { id, operation })
}

fn period(channel: ChannelNo, period_us: u32) -> Operation {
    Operation::SetPeriod { channel, period_us }
}

fn config(entries: &[(u8, u32, u32)]) -> Vec<u8> {
    let mut settings = Settings::default();
    for (channel, period_us, threshold) in entries {
        let entry = ChannelSetting {
            channel: ChannelNo(*channel),
            period_us: *period_us,
            threshold: *threshold,
        };
        settings.entries.push(entry).unwrap();
    }
    let mut out = [0; CONFIG_BYTES_MAX];
    let bytes = settings.encode(&mut out).unwrap();
    out[..bytes].to_vec()
}

/// Says a config; the Health that follows at once.
fn configure(rig: &mut Rig<64>, version: u32, config: &[u8]) -> Health {
    let before = rig.healths.len();
    for chunk in ConfigChunk::split(version, config) {
        rig.say(GatewayMessage::Config(chunk));
    }
    rig.poll_messages();
    assert_eq!(rig.healths.len(), before + 1, "at once, and once");
    rig.healths.last().unwrap().1.clone()
}

/// Periods as the Channel frames on the line name them, since the last call.
fn announced(rig: &mut Rig<64>) -> Vec<(u8, u32)> {
    let mut periods = Vec::new();
    rig::decode(&std::mem::take(&mut rig.line_to_gateway), |message| {
        if let DeviceMessage::Channel(info) = message {
            periods.push((info.channel.0, info.period_us));
        }
    });
    periods
}

#[test]
fn health_follows_the_channels_and_then_the_clock() {
    let mut rig = Rig::<64>::new();
    rig.poll_messages();
    assert!(rig.healths.is_empty(), "not before the session");
    rig.say(GatewayMessage::HelloAck(rig.hello_ack(0)));
    rig.poll_messages();
    assert_eq!(rig.healths.len(), 1);
    for round in 1..=3 {
        let due = round * 10 * SECOND_US;
        assert_eq!(rig.deadline(), due);
        rig.advance_to(due - 1);
        rig.poll_messages();
        assert_eq!(rig.healths.len() as u64, round);
        rig.advance_to(due);
        rig.poll_messages();
        assert_eq!(rig.healths.last().unwrap().0, due);
    }
    let health = &rig.healths.last().unwrap().1;
    assert_eq!((health.boot, health.stack_free), (CONFIG.boot, u32::MAX));
    assert_eq!(health.received.ok, 1);
}

#[test]
fn an_idle_device_learns_from_its_health_that_nobody_knows_it() {
    let mut rig = Rig::<64>::open();
    rig.advance_to(10 * SECOND_US);
    rig.poll_messages();
    assert_eq!(rig.healths.len(), 2);
    let boot_low = CONFIG.boot.0 as u8;
    rig.say(GatewayMessage::Ack(Ack::to_unknown(boot_low)));
    assert_eq!(rig.poll_messages(), ["Hello"]);
    rig.say(GatewayMessage::HelloAck(rig.hello_ack(0)));
    assert_eq!(rig.poll_messages(), ["Channel 0", "Channel 1"]);
    assert_eq!(rig.healths.len(), 3, "the next gateway learns it at once");
}

#[test]
fn health_comes_sooner_while_something_is_lost() {
    let mut rig = Rig::<64>::open();
    rig.device.on_lost(GapReason::IsrFull, 3, rig.now);
    rig.poll_messages();
    rig.ack(3, 8);
    assert_eq!(rig.deadline(), 4 * SECOND_US);
    rig.advance_to(4 * SECOND_US);
    rig.poll_messages();
    let (at, health) = rig.healths.last().unwrap();
    assert_eq!((*at, health.gaps), (4 * SECOND_US, [0, 3, 0, 0]));
    assert_eq!(rig.deadline(), 14 * SECOND_US, "it was told");
    for (name, lose) in [
        (
            "bytes",
            (|rig| rig.device.on_rx_dropped(1)) as fn(&mut Rig<64>),
        ),
        ("slots", |rig| rig.device.on_missed(1)),
        ("readings", |rig| rig.sample(70)),
    ] {
        let last = rig.healths.last().unwrap().0;
        lose(&mut rig);
        rig.poll_messages();
        rig.ack(rig.device.stats().produced, 8);
        assert_eq!(rig.deadline(), last + 4 * SECOND_US, "{name}");
        rig.advance_to(rig.deadline());
        rig.poll_messages();
    }
}

#[test]
fn health_counts_what_it_says() {
    let mut rig = Rig::<64>::open();
    rig.sample(10);
    for quality in [Quality::BusError, Quality::Stale] {
        rig.sample_on(B, Err(quality));
    }
    rig.sample_on(B, Ok(9_999));
    rig.device.on_rx_dropped(5);
    rig.device.on_rx_dropped(u32::MAX);
    rig.device.on_missed(7);
    rig.device.set_stack_free(1_234);
    rig.device.on_rx(b"AT\r\0", rig.now);
    let health = rig.device.health();
    assert!(health.closes());
    assert_eq!(
        (health.produced, health.waiting, health.ring_high),
        (13, 13, 13)
    );
    assert_eq!(health.errors[..], [0, 3]);
    assert_eq!((health.rx_dropped, health.missed), (u32::MAX, 7));
    assert_eq!(health.stack_free, 1_234);
    assert_eq!(health.received.cobs_bad + health.received.crc_bad, 1);
    rig.advance_to(rig.now.0 + 20_000);
    rig.poll_messages();
    rig.ack(13, 8);
    let health = rig.device.health();
    assert_eq!(
        (health.acked, health.waiting, health.ring_high),
        (13, 0, 13)
    );
}

#[test]
fn every_command_has_its_result() {
    let boot = CONFIG.boot;
    let threshold = |channel| Operation::SetThreshold {
        channel,
        threshold: 9,
    };
    for (name, operation, want) in [
        ("shortest period", period(A, PERIOD_US_MIN), "Done"),
        ("longest period", period(A, PERIOD_US_MAX), "Done"),
        ("period under", period(A, PERIOD_US_MIN - 1), "BadArgument"),
        ("period over", period(A, PERIOD_US_MAX + 1), "BadArgument"),
        (
            "period of no channel",
            period(ChannelNo(2), 5_000),
            "BadArgument",
        ),
        ("channel 255", period(ChannelNo(255), 5_000), "BadArgument"),
        ("threshold", threshold(B), "Done"),
        (
            "threshold of no channel",
            threshold(ChannelNo(2)),
            "BadArgument",
        ),
        ("identify", Operation::Identify { seconds: 3 }, "Done"),
        ("reboot", Operation::Reboot { boot }, "Done"),
        (
            "another boot",
            Operation::Reboot { boot: BootId(1) },
            "WrongBoot",
        ),
        ("unknown", Operation::Unknown { op: 9 }, "UnknownOperation"),
    ] {
        let mut rig = Rig::<64>::open();
        rig.say(cmd(77, operation));
        let said = rig.poll_messages();
        assert_eq!(said[0], format!("CmdResult 77 {want}"), "{name}");
    }
}

#[test]
fn a_repeated_command_is_answered_again_and_not_done_again() {
    let mut rig = Rig::<64>::open();
    let identify = Operation::Identify { seconds: 3 };
    rig.say(cmd(1, identify));
    assert_eq!(rig.poll_messages(), ["CmdResult 1 Done"]);
    assert_eq!(
        rig.device.take_action(),
        Some(Action::Identify { seconds: 3 })
    );
    rig.say(cmd(1, identify));
    rig.say(cmd(1, identify));
    assert_eq!(
        rig.poll_messages(),
        ["CmdResult 1 Done"],
        "asked twice before it was said"
    );
    assert_eq!(rig.device.take_action(), None);
    // Seven more, and it is still known; with one more it is another command.
    for id in 2..=8 {
        rig.say(cmd(id, Operation::Unknown { op: 200 }));
    }
    assert_eq!(rig.poll_messages().len(), 7);
    rig.say(cmd(1, identify));
    rig.poll_messages();
    assert_eq!(rig.device.take_action(), None);
    rig.say(cmd(9, Operation::Unknown { op: 200 }));
    rig.say(cmd(1, identify));
    rig.poll_messages();
    assert_eq!(
        rig.device.take_action(),
        Some(Action::Identify { seconds: 3 })
    );
}

#[test]
fn a_command_outside_of_a_session_is_for_somebody_else() {
    let mut rig = Rig::<64>::new();
    rig.poll_messages();
    rig.say(cmd(1, Operation::Identify { seconds: 3 }));
    for chunk in ConfigChunk::split(5, &config(&[(0, 5_000, 0)])) {
        rig.say(GatewayMessage::Config(chunk));
    }
    rig.say(GatewayMessage::HelloAck(rig.hello_ack(0)));
    assert_eq!(rig.poll_messages(), ["Channel 0", "Channel 1"]);
    assert_eq!(rig.device.take_action(), None);
    assert_eq!(rig.device.health().config, 0);
}

#[test]
fn a_reboot_waits_until_its_result_has_left() {
    let mut rig = Rig::<64>::open();
    let boot = CONFIG.boot;
    rig.sample(16);
    rig.say(cmd(4, Operation::Reboot { boot }));
    assert_eq!(rig.device.take_action(), None, "nobody was told yet");
    let mut line = [0; 252];
    let bytes = rig.device.poll_tx(rig.now, &mut line);
    assert!(bytes > 0);
    assert_eq!(rig.device.take_action(), None, "the result is on the line");
    assert_eq!(
        rig.deadline(),
        rig.now.0,
        "the board asks again as soon as the line is free"
    );
    rig.device.poll_tx(rig.now, &mut line);
    assert_eq!(rig.device.take_action(), Some(Action::Reboot));
    assert_eq!(rig.device.take_action(), None);
}

#[test]
fn a_period_that_is_set_is_announced_and_followed() {
    let mut rig = Rig::<64>::open();
    let mut sampler = Sampler::<2>::new(&channels(), Tick(0));
    let mut taken = Vec::new();
    for now in (0..20_000).step_by(500) {
        rig.advance_to(now);
        if now == 6_000 {
            rig.say(cmd(1, period(B, 4_000)));
            assert_eq!(rig.device.period_us(B), 4_000);
        }
        sampler.follow(&mut rig.device, rig.now);
        while let Some(channel) = sampler.poll(rig.now) {
            rig.sample_on(channel, Ok(1));
            taken.push((channel, now));
        }
        rig.poll_messages();
        rig.ack(rig.device.stats().produced, 8);
    }
    let of_b: Vec<_> = taken.iter().filter(|(channel, _)| *channel == B).collect();
    let want = [
        0, 1_000, 2_000, 3_000, 4_000, 5_000, 6_000, 10_000, 14_000, 18_000,
    ];
    assert!(of_b.iter().map(|(_, at)| *at).eq(want), "{of_b:?}");
    assert_eq!(taken.len() - of_b.len(), 20, "the other goes on");
    assert_eq!(announced(&mut rig), [(1, 4_000)]);
    assert_eq!(rig.device.period_us(ChannelNo(2)), 0);
}

#[test]
fn a_change_is_said_again_behind_the_next_healths_as_nothing_acks_it() {
    let mut rig = Rig::<64>::open();
    rig.poll_messages();
    rig.say(cmd(1, period(B, 4_000)));
    rig.poll_messages();
    assert_eq!(announced(&mut rig), [(1, 4_000)]);
    for (name, want) in [
        ("first", &[(1, 4_000)][..]),
        ("second", &[(1, 4_000)]),
        ("third", &[(1, 4_000)]),
        ("fourth", &[]),
    ] {
        let healths = rig.healths.len();
        rig.advance_to(rig.now.0 + 10 * SECOND_US);
        rig.poll_messages();
        assert_eq!(rig.healths.len(), healths + 1, "{name}");
        assert_eq!(announced(&mut rig), want, "{name}");
    }
}

#[test]
fn missed_slots_are_counted() {
    let mut rig = Rig::<64>::open();
    let mut sampler = Sampler::<2>::new(&channels(), Tick(0));
    // Late by ten slots of each channel.
    for now in [0, 11_000, 11_500] {
        rig.advance_to(now);
        let clock = rig.now;
        sampler.run(|| clock, &mut [], &mut rig.device);
    }
    assert_eq!(rig.device.health().missed, 20);
}

#[test]
fn a_config_is_applied_as_a_whole_and_sets_every_channel() {
    let mut rig = Rig::<64>::open();
    rig.say(cmd(1, period(A, 7_000)));
    rig.poll_messages();
    announced(&mut rig);
    let health = configure(&mut rig, 3, &config(&[(1, 5_000, 2)]));
    assert_eq!((health.config, health.config_refused), (3, 0));
    assert_eq!(
        [A, B].map(|channel| rig.device.period_us(channel)),
        [1_000, 5_000]
    );
    assert_eq!(
        announced(&mut rig),
        [(0, 1_000), (1, 5_000)],
        "what a command set is gone"
    );
    // The same again: the Health that told of it was lost.
    let health = configure(&mut rig, 3, &config(&[(1, 5_000, 2)]));
    assert_eq!(health.config, 3);
    assert_eq!(announced(&mut rig), []);
    let health = configure(&mut rig, 4, &config(&[]));
    assert_eq!((health.config, rig.device.period_us(B)), (4, 1_000));
}

#[test]
fn a_config_that_is_not_right_is_refused_as_a_whole() {
    let mut rig = Rig::<64>::open();
    configure(&mut rig, 1, &config(&[(0, 5_000, 0)]));
    announced(&mut rig);
    for (name, version, bytes) in [
        (
            "no such channel",
            2,
            config(&[(0, 9_000, 0), (2, 9_000, 0)]),
        ),
        ("another format", 3, vec![2, 0]),
        ("period too short", 4, vec![1, 1, 0, 1, 0]),
        ("bytes left over", 5, vec![1, 0, 0]),
        ("nothing of it", 6, vec![0; 300]),
    ] {
        let health = configure(&mut rig, version, &bytes);
        assert_eq!(
            (health.config, health.config_refused),
            (1, version),
            "{name}"
        );
        assert_eq!(rig.device.period_us(A), 5_000, "{name}");
        assert_eq!(announced(&mut rig), [], "{name}");
    }
    let bytes = config(&[(0, 9_000, 0)]);
    let mut chunk = ConfigChunk::split(9, &bytes).next().unwrap();
    chunk.crc ^= 1;
    rig.say(GatewayMessage::Config(chunk));
    assert_eq!(rig.device.health().config_refused, 9, "another CRC");
    assert_eq!(rig.device.period_us(A), 5_000);
}

#[test]
fn chunks_in_any_order_repeated_and_with_another_version_between() {
    use forebay_firmware::{ChannelSpec, Device};
    let names: Vec<&'static str> = (0..32).map(|n| &*format!("c{n}").leak()).collect();
    let spec = |quantity: &&'static str| ChannelSpec {
        quantity,
        ..channels()[0]
    };
    let list: Vec<_> = names.iter().map(spec).collect();
    let of = |base: u32| {
        let entries: Vec<_> = (0..32)
            .map(|n| (n, base + u32::from(n), 300_000_000))
            .collect();
        config(&entries)
    };
    let (old, new) = (of(300_000_000), of(400_000_000));
    let old: Vec<_> = ConfigChunk::split(1, &old).collect();
    let new: Vec<_> = ConfigChunk::split(2, &new).collect();
    assert_eq!((old.len(), new.len()), (3, 3));
    for (name, chunks, want) in [
        ("in order", vec![new[0], new[1], new[2]], 2),
        ("backwards", vec![new[2], new[1], new[0]], 2),
        (
            "repeated",
            vec![new[1], new[1], new[0], new[1], new[0], new[2]],
            2,
        ),
        (
            "the old one between",
            vec![new[0], old[0], new[1], new[2], new[0]],
            2,
        ),
        (
            "of two halves",
            vec![old[0], old[1], new[2], old[2], new[0]],
            0,
        ),
        (
            "first one, then the other",
            vec![old[0], old[1], old[2], new[0], new[1], new[2]],
            2,
        ),
    ] {
        let mut device = Device::<64>::new(CONFIG, &list).unwrap();
        let ack = Rig::<64>::new().hello_ack(0);
        device.on_rx(&rig::line_of(GatewayMessage::HelloAck(ack)), Tick(0));
        for chunk in chunks {
            device.on_rx(&rig::line_of(GatewayMessage::Config(chunk)), Tick(0));
        }
        assert_eq!(device.health().config, want, "{name}");
        let period_us = if want == 0 { 1_000 } else { 400_000_031 };
        assert_eq!(device.period_us(ChannelNo(31)), period_us, "{name}");
    }
}

#[test]
fn a_threshold_holds_samples_back_and_the_sums_close() {
    let mut rig = Rig::<64>::open();
    let threshold = 10;
    rig.say(cmd(
        1,
        Operation::SetThreshold {
            channel: A,
            threshold,
        },
    ));
    rig.poll_messages();
    let mut ordinals = Vec::new();
    for value in [100, 109, 91, 110, 110, 120] {
        let ordinal = rig.device.on_sample(A, rig.now, Ok(value)).unwrap();
        ordinals.push(ordinal.map(|ordinal| ordinal.0));
        // The other channel has no threshold.
        assert!(rig.device.on_sample(B, rig.now, Ok(5)).unwrap().is_some());
    }
    assert_eq!(ordinals, [Some(0), None, None, Some(4), None, Some(7)]);
    let health = rig.device.health();
    assert_eq!((health.produced, health.suppressed), (9, 3));
    assert!(health.closes() && rig.device.stats().closes());
    // Of a thousand samples that do not change, one in 64 is produced.
    let produced = (0..1_024)
        .filter(|_| rig.device.on_sample(A, rig.now, Ok(120)).unwrap().is_some())
        .count();
    assert_eq!(produced, 16);
}

fn open_with_logs(log_level: u8) -> Rig<64> {
    let mut rig = Rig::<64>::new();
    rig.poll_messages();
    let ack = HelloAck {
        log_level,
        ..rig.hello_ack(0)
    };
    rig.device.on_log(&[0xB0, 0x07]);
    rig.say(GatewayMessage::HelloAck(ack));
    rig
}

#[test]
fn logs_go_when_there_is_nothing_else_to_send() {
    let mut rig = open_with_logs(3);
    assert_eq!(rig.device.log_level(), 3);
    let said = rig.poll_messages();
    assert_eq!(
        said,
        ["Channel 0", "Channel 1", "Log [b0, 07]"],
        "from before the session"
    );
    assert_eq!(rig.healths.len(), 1);
    rig.device.on_log(&[1]);
    rig.device.on_log(&[2, 2]);
    rig.sample(1);
    assert!(
        rig.poll_messages().is_empty(),
        "a reading waits for its frame to fill"
    );
    rig.advance_to(rig.deadline());
    assert_eq!(
        rig.poll_messages(),
        ["Data 0..1", "Log [01]", "Log [02, 02]"]
    );
    rig.ack(1, 0);
    rig.sample(16);
    rig.device.on_log(&[3]);
    assert!(rig.poll_messages().is_empty(), "readings wait for credit");
    rig.ack(1, 8);
    assert_eq!(rig.poll_messages(), ["Data 1..17", "Log [03]"]);
}

#[test]
fn nobody_wants_logs() {
    let mut rig = open_with_logs(0);
    rig.device.on_log(&[1]);
    assert_eq!(rig.poll_messages(), ["Channel 0", "Channel 1"]);
    assert_eq!(
        rig.device.health().log_dropped,
        0,
        "not dropped: not wanted"
    );
}

#[test]
fn too_many_logs_are_counted() {
    let mut rig = open_with_logs(5);
    rig.sample(1);
    // Two bytes and their length stand in it already.
    for (name, length, dropped) in [
        ("long", LOG_FRAME_BYTES_MAX, 0),
        ("as long", LOG_FRAME_BYTES_MAX, 0),
        ("no room", 17, 1),
        ("just fits", 16, 1),
        ("full", 1, 2),
        ("too long for the link", LOG_FRAME_BYTES_MAX + 1, 3),
    ] {
        rig.device.on_log(&[7; LOG_FRAME_BYTES_MAX + 1][..length]);
        assert_eq!(rig.device.health().log_dropped, dropped, "{name}");
    }
    rig.advance_to(rig.now.0 + 20_000);
    assert_eq!(rig.poll_messages().len(), 2 + 1 + 4);
}
