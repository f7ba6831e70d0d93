//! Golden byte vectors of link version 1: what was written once must always be
//! read, and be written the same again. `golden/v1.txt` has one line per message,
//! `name = hex`; [`SCHEMA_HASH`] is the CRC-32 of the vectors one after another.
// Helpers of a test are tests too.
#![allow(clippy::unwrap_used)]

use forebay_wire::crc::crc32;
use forebay_wire::ids::{BootId, ChannelNo, DeviceUid, Ordinal, Tick};
use forebay_wire::limits::{CONFIG_BYTES_MAX, ERRORS_MAX, LINE_BYTES_MAX};
use forebay_wire::message::{
    Ack, ChannelInfo, Cmd, CmdResult, CmdStatus, ConfigChunk, Gap, GapReason, Health, Hello,
    HelloAck, Log, Operation, Quality, Reading, ReceiveCounts, ResetCause, SyncReply, SyncReq,
};
use forebay_wire::settings::{ChannelSetting, Settings};
use forebay_wire::{DataBuilder, Deframer, DeviceMessage, GatewayMessage, SCHEMA_HASH};

const GOLDEN: &str = include_str!("golden/v1.txt");
const BOOT: BootId = BootId(0x0A0B_0C0D);

fn hello() -> Hello {
    Hello {
        uid: DeviceUid([1, 2, 3, 4, 5, 6, 7, 8]),
        boot: BOOT,
        protocol_minor: 0,
        schema_hash: 0x1122_3344,
        firmware_version: [1, 2, 3],
        build_id: [0xAA, 0xBB, 0xCC, 0xDD, 0xEE, 0xFF, 0, 1],
        reset_cause: ResetCause::Watchdog,
        tick_hz: 1_000_000,
        ring_capacity: 2_730,
        channel_count: 2,
    }
}

fn channel() -> ChannelInfo {
    ChannelInfo {
        channel: ChannelNo(1),
        quantity: "temperature".try_into().unwrap(),
        unit: "degC".try_into().unwrap(),
        scale: 2,
        range: (-5_500, 12_500),
        period_us: 100_000,
    }
}

fn data(line: &mut [u8]) -> usize {
    let reading = |channel, tick, value, quality| Reading {
        channel: ChannelNo(channel),
        tick: Tick(tick),
        value,
        quality,
    };
    let mut builder = DataBuilder::new(line, BOOT, Ordinal(300));
    for reading in [
        reading(0, 5_000_000, 2_150, Quality::Ok),
        reading(1, 5_000_000, -40, Quality::Ok),
        reading(0, 5_100_000, 0, Quality::BusError),
        reading(31, 5_099_990, i32::MIN, Quality::Ok),
    ] {
        assert!(builder.push(&reading));
    }
    builder.finish().unwrap()
}

fn gap() -> Gap {
    Gap {
        boot: BOOT,
        reason: GapReason::IsrFull,
        first: Ordinal(304),
        count: 1_000,
        first_tick: Tick(5_100_000),
        last_tick: Tick(6_100_000),
    }
}

fn health() -> Health {
    Health {
        boot: BOOT,
        config: 3,
        config_refused: 4,
        produced: 100_000,
        acked: 90_000,
        waiting: 2_730,
        gaps: [7_000, 200, 70, 0],
        suppressed: 12,
        ring_high: 2_730,
        received: ReceiveCounts {
            ok: 5_000,
            cobs_bad: 1,
            crc_bad: 2,
            overlong: 3,
            unknown_kind: 4,
            body_bad: 5,
        },
        rx_dropped: 6,
        resends: 300,
        missed: 8,
        log_dropped: 9,
        stack_free: u32::MAX,
        errors: [0, 130, ERRORS_MAX].into(),
    }
}

fn result() -> CmdResult {
    CmdResult {
        id: 70_000,
        status: CmdStatus::WrongBoot,
        payload: [0xCA, 0xFE].as_slice().try_into().unwrap(),
    }
}

const LOG: Log<'static> = Log(&[0x0B, 0x00, 0x80, 0x01]);

/// One command of each operation of this version.
fn cmds() -> [(&'static str, Cmd); 4] {
    let channel = ChannelNo(1);
    [
        (
            "cmd_set_period",
            Operation::SetPeriod {
                channel,
                period_us: 500_000,
            },
        ),
        (
            "cmd_set_threshold",
            Operation::SetThreshold {
                channel,
                threshold: 50,
            },
        ),
        ("cmd_identify", Operation::Identify { seconds: 10 }),
        ("cmd_reboot", Operation::Reboot { boot: BOOT }),
    ]
    .map(|(name, operation)| {
        (
            name,
            Cmd {
                id: 70_000,
                operation,
            },
        )
    })
}

/// The config of which the vector is the only chunk.
fn settings() -> Vec<u8> {
    let setting = |channel, period_us, threshold| ChannelSetting {
        channel: ChannelNo(channel),
        period_us,
        threshold,
    };
    let settings = Settings {
        entries: [setting(0, 500_000, 0), setting(1, 0, 50)]
            .as_slice()
            .try_into()
            .unwrap(),
    };
    let mut out = [0; CONFIG_BYTES_MAX];
    let bytes = settings.encode(&mut out).unwrap();
    out[..bytes].to_vec()
}

fn config(whole: &[u8]) -> ConfigChunk<'_> {
    ConfigChunk::split(3, whole).next().unwrap()
}

fn written(encode: impl FnOnce(&mut [u8]) -> usize) -> Vec<u8> {
    let mut line = [0u8; LINE_BYTES_MAX];
    let bytes = encode(&mut line);
    line[..bytes].to_vec()
}

/// Every message with the bytes that this build writes for it, in file order.
fn now() -> Vec<(&'static str, Vec<u8>)> {
    let device = |message: DeviceMessage<'_>| written(|line| message.encode(line).unwrap());
    let gateway = |message: GatewayMessage<'_>| written(|line| message.encode(line).unwrap());
    let mut all = vec![
        ("hello", device(DeviceMessage::Hello(hello()))),
        ("channel", device(DeviceMessage::Channel(channel()))),
        ("data", written(data)),
        ("gap", device(DeviceMessage::Gap(gap()))),
        (
            "sync_reply",
            device(DeviceMessage::SyncReply(SyncReply {
                id: 77,
                received: Tick(1_000),
                sent: Tick(1_250),
            })),
        ),
        (
            "hello_ack",
            gateway(GatewayMessage::HelloAck(HelloAck {
                boot: BOOT,
                next: Ordinal(300),
                window: 8,
                reliable: true,
                log_level: 3,
            })),
        ),
        (
            "ack",
            gateway(GatewayMessage::Ack(Ack {
                boot: BOOT,
                next: Ordinal(1_304),
                credit: 8,
            })),
        ),
        (
            "sync_req",
            gateway(GatewayMessage::SyncReq(SyncReq { id: 77 })),
        ),
        ("health", device(DeviceMessage::Health(health()))),
        ("cmd_result", device(DeviceMessage::CmdResult(result()))),
        ("log", device(DeviceMessage::Log(LOG))),
    ];
    all.extend(cmds().map(|(name, cmd)| (name, gateway(GatewayMessage::Cmd(cmd)))));
    let whole = settings();
    all.push(("config", gateway(GatewayMessage::Config(config(&whole)))));
    all
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect::<Vec<_>>()
        .join(" ")
}

fn golden() -> Vec<(&'static str, Vec<u8>)> {
    GOLDEN
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .map(|line| {
            let (name, bytes) = line.split_once(" = ").expect("name = hex");
            (
                name,
                bytes
                    .split(' ')
                    .map(|byte| u8::from_str_radix(byte, 16).unwrap())
                    .collect(),
            )
        })
        .collect()
}

#[test]
fn the_same_bytes_as_ever() {
    let now = now();
    let text: String = now
        .iter()
        .map(|(name, bytes)| format!("{name} = {}\n", hex(bytes)))
        .collect();
    assert_eq!(now, golden(), "this build writes:\n{text}");
}

#[test]
fn the_schema_hash_is_that_of_the_vectors() {
    let all: Vec<u8> = golden().into_iter().flat_map(|(_, bytes)| bytes).collect();
    assert_eq!(
        SCHEMA_HASH,
        crc32(&all),
        "SCHEMA_HASH should be {:#010X}",
        crc32(&all)
    );
}

#[test]
fn the_vectors_read_back() {
    let mut deframer = Deframer::new();
    let mut seen = Vec::new();
    for (name, bytes) in golden() {
        let from_gateway = ["hello_ack", "ack", "sync_req", "config"].contains(&name)
            || cmds().iter().any(|(cmd, _)| *cmd == name);
        if from_gateway {
            deframer.receive_gateway(&bytes, |message| {
                let message = message.unwrap();
                if let GatewayMessage::Cmd(cmd) = message {
                    assert!(cmds().contains(&(name, cmd)), "{name}: {cmd:?}");
                }
                if let GatewayMessage::Config(chunk) = message {
                    assert_eq!(chunk, config(&settings()));
                }
                seen.push(format!("{message:?}"));
            });
        } else {
            deframer.receive_device(&bytes, |message| match message.unwrap() {
                DeviceMessage::Data(data) => {
                    seen.push(format!("{:?}", data.records().collect::<Vec<_>>()))
                }
                DeviceMessage::Hello(got) => {
                    assert_eq!(got, hello());
                    seen.push(String::new());
                }
                DeviceMessage::Channel(got) => {
                    assert_eq!(got, channel());
                    seen.push(String::new());
                }
                DeviceMessage::Gap(got) => {
                    assert_eq!(got, gap());
                    seen.push(String::new());
                }
                DeviceMessage::Health(got) => {
                    assert_eq!(got, health());
                    assert!(got.closes());
                    seen.push(String::new());
                }
                DeviceMessage::CmdResult(got) => {
                    assert_eq!(got, result());
                    seen.push(String::new());
                }
                DeviceMessage::Log(got) => {
                    assert_eq!(got, LOG);
                    seen.push(String::new());
                }
                DeviceMessage::SyncReply(got) => {
                    assert_eq!(
                        got,
                        SyncReply {
                            id: 77,
                            received: Tick(1_000),
                            sent: Tick(1_250)
                        }
                    );
                    seen.push(String::new());
                }
            });
        }
    }
    assert_eq!(seen.len(), golden().len());
    assert_eq!(deframer.counters().ok, seen.len() as u64);
    assert_eq!(deframer.counters().bad(), 0);
    assert!(
        seen[2].contains("BusError") && seen[2].contains("-2147483648"),
        "{}",
        seen[2]
    );
}
