//! What a bad line can do to a stream of frames: whatever happens, no wrong
//! reading is accepted and the next whole frame decodes.
// Helpers of a test are tests too.
#![allow(clippy::unwrap_used)]

use forebay_wire::ids::{BootId, ChannelNo, DeviceUid, Ordinal, Tick};
use forebay_wire::limits::LINE_BYTES_MAX;
use forebay_wire::message::{
    Ack, ChannelInfo, Cmd, CmdResult, CmdStatus, ConfigChunk, Gap, GapReason, Health, Hello,
    HelloAck, Log, Operation, Quality, Reading, ReceiveCounts, ResetCause, SyncReply, SyncReq,
};
use forebay_wire::{Counters, DataBuilder, Deframer, DeviceMessage, GatewayMessage, frame};
use proptest::prelude::*;

const BOOT: BootId = BootId(9);
const PER_FRAME: u64 = 4;

/// Reading `ordinal` of the test's device: all of it follows from the ordinal, so
/// that a wrong one is seen.
fn reading(ordinal: u64) -> Reading {
    let value = (ordinal as i32).wrapping_mul(1_000_003);
    Reading {
        channel: ChannelNo((ordinal % 5) as u8),
        tick: Tick(ordinal * 10_000),
        value,
        quality: Quality::Ok,
    }
}

fn data_line(first: u64) -> Vec<u8> {
    let mut line = [0u8; LINE_BYTES_MAX];
    let mut builder = DataBuilder::new(&mut line, BOOT, Ordinal(first));
    for ordinal in first..first + PER_FRAME {
        assert!(builder.push(&reading(ordinal)));
    }
    let bytes = builder.finish().unwrap();
    line[..bytes].to_vec()
}

/// Ordinals accepted from `stream`, each checked against what the device wrote.
fn accepted(stream: &[u8]) -> (Vec<u64>, Counters) {
    let mut deframer = Deframer::new();
    let mut ordinals = Vec::new();
    deframer.receive_device(stream, |message| {
        if let Ok(DeviceMessage::Data(data)) = message {
            for (ordinal, got) in (data.first.0..).zip(data.records()) {
                assert_eq!(got, Ok(reading(ordinal)), "a wrong reading was accepted");
                ordinals.push(ordinal);
            }
        }
    });
    (ordinals, *deframer.counters())
}

fn stream(frames: u64) -> (Vec<u8>, Vec<usize>) {
    let mut bytes = Vec::new();
    let mut ends = Vec::new();
    for frame in 0..frames {
        bytes.extend(data_line(frame * PER_FRAME));
        ends.push(bytes.len());
    }
    (bytes, ends)
}

/// Checks that all frames which lie wholly outside the damage arrived, where a
/// damaged delimiter costs the frame behind it too, and no others.
fn check_damage(name: &str, at: usize, damaged: &[u8], ends: &[usize]) {
    let (ordinals, counters) = accepted(damaged);
    let hit = ends
        .iter()
        .position(|end| at < *end)
        .expect("the damage is inside the stream") as u64;
    let frames: Vec<u64> = (0..ends.len() as u64)
        .filter(|frame| ordinals.contains(&(frame * PER_FRAME)))
        .collect();
    for frame in 0..ends.len() as u64 {
        let may_be_lost = frame == hit || frame == hit + 1 && at + 1 == ends[hit as usize];
        assert!(
            may_be_lost || frames.contains(&frame),
            "{name} at {at}: frame {frame} lost, {counters:?}"
        );
    }
    assert_eq!(
        ordinals.len() as u64,
        frames.len() as u64 * PER_FRAME,
        "{name} at {at}: torn frame"
    );
}

#[test]
fn every_bit_flipped_at_every_offset() {
    let (good, ends) = stream(4);
    for at in 0..good.len() {
        for bit in 0..8 {
            let mut damaged = good.clone();
            damaged[at] ^= 1 << bit;
            check_damage("flip", at, &damaged, &ends);
        }
    }
}

#[test]
fn every_byte_inserted_at_every_offset() {
    let (good, ends) = stream(3);
    for at in 0..good.len() {
        for byte in 0..=u8::MAX {
            let mut damaged = good.clone();
            damaged.insert(at, byte);
            check_damage("insert", at, &damaged, &ends);
        }
    }
}

#[test]
fn a_byte_deleted_at_every_offset() {
    let (good, ends) = stream(4);
    for at in 0..good.len() {
        let mut damaged = good.clone();
        damaged.remove(at);
        check_damage("delete", at, &damaged, &ends);
    }
}

#[test]
fn cut_at_every_offset_then_a_lone_delimiter() {
    let (good, _) = stream(2);
    for at in 0..good.len() {
        let mut bytes = good[..at].to_vec();
        bytes.push(0);
        bytes.extend(data_line(100));
        let (ordinals, _) = accepted(&bytes);
        assert!(ordinals.ends_with(&[100, 101, 102, 103]), "cut at {at}");
    }
}

#[test]
fn overlong_frame_with_a_valid_tail() {
    let tail = data_line(0);
    for run in 251..=4000 {
        let mut bytes: Vec<u8> = (0..run).map(|i| 1 + (i % 255) as u8).collect();
        bytes.extend(&tail);
        let (ordinals, counters) = accepted(&bytes);
        assert!(ordinals.is_empty(), "run of {run}");
        assert_eq!(
            counters,
            Counters {
                overlong: 1,
                ..Counters::default()
            },
            "run of {run}"
        );
        bytes.extend(&tail);
        assert_eq!(
            accepted(&bytes).0.len() as u64,
            PER_FRAME,
            "the frame after a run of {run}"
        );
    }
}

#[test]
fn modem_manager_noise_between_frames() {
    let mut bytes = b"AT\r\0AT+CGMI\rAT\r\0".to_vec();
    bytes.extend(data_line(0));
    bytes.extend(b"\0\0AT\r\0");
    bytes.extend(data_line(4));
    let (ordinals, counters) = accepted(&bytes);
    assert_eq!((ordinals.len(), counters.ok), (8, 2));
    assert_eq!(counters.crc_bad + counters.cobs_bad, 3);
}

fn hello() -> Hello {
    Hello {
        uid: DeviceUid([7; 8]),
        boot: BOOT,
        protocol_minor: 0,
        schema_hash: 1,
        firmware_version: [0, 1, 0],
        build_id: [0; 8],
        reset_cause: ResetCause::PowerOn,
        tick_hz: 1_000_000,
        ring_capacity: 64,
        channel_count: 1,
    }
}

fn channel(quantity: &str) -> ChannelInfo {
    ChannelInfo {
        channel: ChannelNo(0),
        quantity: quantity.try_into().unwrap(),
        unit: "degC".try_into().unwrap(),
        scale: 2,
        range: (-100, 100),
        period_us: 1,
    }
}

fn health() -> Health {
    Health {
        boot: BOOT,
        config: 1,
        config_refused: 0,
        produced: 10,
        acked: 4,
        waiting: 5,
        gaps: [1, 0, 0, 0],
        suppressed: 0,
        ring_high: 5,
        received: ReceiveCounts::default(),
        rx_dropped: 0,
        resends: 0,
        missed: 0,
        log_dropped: 0,
        stack_free: 100,
        errors: [3, 0].into(),
    }
}

fn result() -> CmdResult {
    CmdResult {
        id: 9,
        status: CmdStatus::Done,
        payload: [1, 2].as_slice().try_into().unwrap(),
    }
}

fn device_messages() -> Vec<DeviceMessage<'static>> {
    let gap = Gap {
        boot: BOOT,
        reason: GapReason::RingFull,
        first: Ordinal(1),
        count: 2,
        first_tick: Tick(3),
        last_tick: Tick(4),
    };
    vec![
        DeviceMessage::Hello(hello()),
        DeviceMessage::Channel(channel("load")),
        DeviceMessage::Gap(gap),
        DeviceMessage::SyncReply(SyncReply {
            id: 1,
            received: Tick(5),
            sent: Tick(6),
        }),
        DeviceMessage::Health(health()),
        DeviceMessage::CmdResult(result()),
        DeviceMessage::Log(Log(&[1, 2, 3])),
    ]
}

fn gateway_messages() -> Vec<GatewayMessage<'static>> {
    vec![
        GatewayMessage::HelloAck(HelloAck {
            boot: BOOT,
            next: Ordinal(0),
            window: 8,
            reliable: true,
            log_level: 0,
        }),
        GatewayMessage::Ack(Ack {
            boot: BOOT,
            next: Ordinal(10),
            credit: 8,
        }),
        GatewayMessage::SyncReq(SyncReq { id: 3 }),
        GatewayMessage::Cmd(Cmd {
            id: 4,
            operation: Operation::Reboot { boot: BOOT },
        }),
        GatewayMessage::Config(ConfigChunk::split(1, &[1, 0]).next().unwrap()),
    ]
}

#[test]
fn an_echo_is_never_a_message() {
    let mut line = [0u8; LINE_BYTES_MAX];
    let mut said_by_device = data_line(0);
    for message in device_messages() {
        let bytes = message.encode(&mut line).unwrap();
        said_by_device.extend(&line[..bytes]);
    }
    let mut device = Deframer::new();
    device.receive_gateway(&said_by_device, |message| {
        assert!(message.is_err(), "{message:?}")
    });
    assert_eq!(
        *device.counters(),
        Counters {
            unknown_kind: 8,
            ..Counters::default()
        }
    );

    let mut gateway = Deframer::new();
    for message in gateway_messages() {
        let bytes = message.encode(&mut line).unwrap();
        gateway.receive_device(&line[..bytes], |message| {
            assert!(message.is_err(), "{message:?}")
        });
    }
    assert_eq!(
        *gateway.counters(),
        Counters {
            unknown_kind: 5,
            ..Counters::default()
        }
    );
}

#[test]
fn other_versions_and_unknown_kinds_are_skipped_and_counted() {
    let mut line = [0u8; LINE_BYTES_MAX];
    let mut bytes = Vec::new();
    for kind_byte in [0x01, 0x23, 0x1E, 0x1F, 0x10, 0xF3] {
        let length = frame::encode_raw(&mut line, kind_byte, &[1, 2]).unwrap();
        bytes.extend(&line[..length]);
    }
    bytes.extend(data_line(0));
    let (ordinals, counters) = accepted(&bytes);
    assert_eq!(ordinals.len() as u64, PER_FRAME);
    assert_eq!(
        counters,
        Counters {
            ok: 1,
            unknown_kind: 6,
            ..Counters::default()
        }
    );
}

/// A known kind whose body is cut or has bytes behind it is bad, whatever it is.
#[test]
fn bodies_are_exact() {
    let mut line = [0u8; LINE_BYTES_MAX];
    let mut lines = vec![data_line(0)];
    // A log frame is raw: any length is one.
    let exact = |message: &DeviceMessage<'_>| !matches!(message, DeviceMessage::Log(_));
    for message in device_messages().into_iter().filter(exact) {
        let length = message.encode(&mut line).unwrap();
        lines.push(line[..length].to_vec());
    }
    for mut whole in lines {
        let end = whole.len() - 1;
        let good = frame::open(&mut whole[..end]).unwrap();
        let (kind_byte, body) = (good.kind_byte, good.body.to_vec());
        let mut variants = vec![body[..body.len() - 1].to_vec(), vec![]];
        variants.push([&body[..], &[0]].concat());
        for body in variants {
            let length = frame::encode_raw(&mut line, kind_byte, &body).unwrap();
            let mut deframer = Deframer::new();
            deframer.receive_device(&line[..length], |message| {
                assert!(message.is_err(), "{message:?}")
            });
            assert_eq!(
                *deframer.counters(),
                Counters {
                    body_bad: 1,
                    ..Counters::default()
                },
                "kind {kind_byte:#x}"
            );
        }
    }
}

#[test]
fn fields_out_of_range_are_refused_when_written() {
    let mut line = [0u8; LINE_BYTES_MAX];
    for (name, quantity) in [
        ("empty", ""),
        ("capital", "Temp"),
        ("digit first", "2d"),
        ("dash", "a-b"),
        ("slash", "a/b"),
    ] {
        assert!(
            DeviceMessage::Channel(channel(quantity))
                .encode(&mut line)
                .is_err(),
            "{name}"
        );
    }
    let with = |change: fn(&mut ChannelInfo)| {
        let mut info = channel("load");
        change(&mut info);
        DeviceMessage::Channel(info)
            .encode(&mut [0u8; LINE_BYTES_MAX])
            .is_ok()
    };
    for (name, ok, change) in [
        (
            "scale at the limit",
            true,
            (|info| info.scale = 9) as fn(&mut ChannelInfo),
        ),
        ("scale over", false, |info| info.scale = 10),
        ("last channel", true, |info| info.channel = ChannelNo(31)),
        ("channel over", false, |info| info.channel = ChannelNo(32)),
        ("range of one", true, |info| info.range = (5, 5)),
        ("range upside down", false, |info| info.range = (6, 5)),
        ("newline in a unit", false, |info| {
            info.unit = "a\nb".try_into().unwrap()
        }),
        ("no unit", true, |info| info.unit = "".try_into().unwrap()),
    ] {
        assert_eq!(with(change), ok, "{name}");
    }
    for (name, window, ok) in [
        ("no window", 0, false),
        ("one", 1, true),
        ("most", 8, true),
        ("over", 9, false),
    ] {
        let ack = HelloAck {
            boot: BOOT,
            next: Ordinal(0),
            window,
            reliable: true,
            log_level: 5,
        };
        assert_eq!(
            GatewayMessage::HelloAck(ack).encode(&mut line).is_ok(),
            ok,
            "{name}"
        );
    }
}

proptest! {
    #[test]
    fn random_bytes_before_the_first_frame(noise in prop::collection::vec(any::<u8>(), 1..=300)) {
        // The sender opens with a lone delimiter, which ends the noise.
        let mut bytes = noise;
        bytes.push(0);
        bytes.extend(data_line(0));
        prop_assert!(accepted(&bytes).0.ends_with(&[0, 1, 2, 3]));
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(prop_oneof![1 => Just(0u8), 6 => any::<u8>()], 0..2000)) {
        let mut deframer = Deframer::new();
        deframer.receive_device(&bytes, |_| ());
        deframer.receive_gateway(&bytes, |_| ());
        let runs = bytes.split(|byte| *byte == 0).filter(|run| !run.is_empty()).count() as u64;
        prop_assert!(deframer.counters().total() <= 2 * runs);
    }

    /// With the CRC made right, so that the bodies are reached.
    #[test]
    fn arbitrary_bodies_never_panic(number in 0u8..16, body in prop::collection::vec(any::<u8>(), 0..=60)) {
        let mut line = [0u8; LINE_BYTES_MAX];
        let length = frame::encode_raw(&mut line, 0x10 | number, &body).unwrap();
        let mut deframer = Deframer::new();
        deframer.receive_device(&line[..length], |message| {
            if let Ok(message) = message {
                assert!(message.encode(&mut [0u8; LINE_BYTES_MAX]).is_ok(), "{message:?}");
            }
        });
        deframer.receive_gateway(&line[..length], |message| {
            if let Ok(message) = message {
                assert!(message.encode(&mut [0u8; LINE_BYTES_MAX]).is_ok(), "{message:?}");
            }
        });
        prop_assert_eq!(deframer.counters().total(), 2);
    }

    #[test]
    fn messages_round_trip(boot in any::<u32>(), a in any::<u64>(), b in any::<u64>(), id in any::<u32>(), byte in 0u8..=8) {
        let (low, high) = (a.min(b), a.max(b));
        let device = [
            DeviceMessage::Hello(Hello { boot: BootId(boot), uid: DeviceUid(a.to_le_bytes()), schema_hash: id, tick_hz: boot, channel_count: byte, ..hello() }),
            DeviceMessage::Gap(Gap { boot: BootId(boot), reason: GapReason::SensorOff, first: Ordinal(a >> 1), count: 1 + (b >> 1), first_tick: Tick(low), last_tick: Tick(high) }),
            DeviceMessage::SyncReply(SyncReply { id, received: Tick(low), sent: Tick(high) }),
        ];
        let gateway = [
            GatewayMessage::HelloAck(HelloAck { boot: BootId(boot), next: Ordinal(a), window: byte.max(1), reliable: id % 2 == 0, log_level: byte.min(5) }),
            GatewayMessage::Ack(Ack { boot: BootId(boot), next: Ordinal(b), credit: byte }),
            GatewayMessage::SyncReq(SyncReq { id }),
        ];
        let mut line = [0u8; LINE_BYTES_MAX];
        let mut deframer = Deframer::new();
        for sent in &device {
            let bytes = sent.encode(&mut line).unwrap();
            deframer.receive_device(&line[..bytes], |got| assert_eq!(got.as_ref(), Ok(sent)));
        }
        for sent in gateway {
            let bytes = sent.encode(&mut line).unwrap();
            deframer.receive_gateway(&line[..bytes], |got| assert_eq!(got, Ok(sent)));
        }
        prop_assert_eq!(deframer.counters().ok, 6);
    }
}
