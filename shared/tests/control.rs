//! Health, commands, configs and logs as bytes: whatever is written is read back,
//! nothing outside its range is written or taken, no bytes make a panic.
// Helpers of a test are tests too.
#![allow(clippy::unwrap_used)]

use forebay_wire::crc::crc32;
use forebay_wire::ids::{BootId, ChannelNo};
use forebay_wire::limits::{
    CMD_ARGS_BYTES_MAX, CMD_RESULT_BYTES_MAX, CONFIG_CHUNK_BYTES_MAX, CONFIG_CHUNKS_MAX,
    ERRORS_MAX, LINE_BYTES_MAX, LOG_FRAME_BYTES_MAX,
};
use forebay_wire::message::{
    Cmd, CmdResult, CmdStatus, ConfigChunk, Health, Log, Operation, ReceiveCounts,
};
use forebay_wire::{DecodeError, DeviceMessage, EncodeError, GatewayMessage, Kind, frame};
use proptest::prelude::*;

fn health(errors: &[u16]) -> Health {
    Health {
        boot: BootId(u32::MAX),
        config: u32::MAX,
        config_refused: u32::MAX,
        produced: u64::MAX,
        acked: u64::MAX,
        waiting: u32::MAX,
        gaps: [u64::MAX; 4],
        suppressed: u64::MAX,
        ring_high: u32::MAX,
        received: ReceiveCounts {
            ok: u32::MAX,
            cobs_bad: u32::MAX,
            crc_bad: u32::MAX,
            overlong: u32::MAX,
            unknown_kind: u32::MAX,
            body_bad: u32::MAX,
        },
        rx_dropped: u32::MAX,
        resends: u32::MAX,
        missed: u32::MAX,
        log_dropped: u32::MAX,
        stack_free: u32::MAX,
        errors: errors.try_into().unwrap(),
    }
}

/// Writes a message of a device, reads it back, and hands out its length.
fn device(message: &DeviceMessage<'_>) -> Result<usize, EncodeError> {
    let mut line = [0; LINE_BYTES_MAX];
    let length = message.encode(&mut line)?;
    let frame = frame::open(&mut line[..length - 1]).unwrap();
    assert_eq!(DeviceMessage::decode(frame).as_ref(), Ok(message));
    Ok(length)
}

/// As [`device`], for a gateway.
fn gateway(message: &GatewayMessage<'_>) -> Result<usize, EncodeError> {
    let mut line = [0; LINE_BYTES_MAX];
    let length = message.encode(&mut line)?;
    let frame = frame::open(&mut line[..length - 1]).unwrap();
    assert_eq!(GatewayMessage::decode(frame).as_ref(), Ok(message));
    Ok(length)
}

fn decode_device(kind: Kind, body: &[u8]) -> Result<(), DecodeError> {
    let kind_byte = kind.byte();
    DeviceMessage::decode(frame::Frame { kind_byte, body }).map(drop)
}

fn decode_gateway(kind: Kind, body: &[u8]) -> Result<(), DecodeError> {
    let kind_byte = kind.byte();
    GatewayMessage::decode(frame::Frame { kind_byte, body }).map(drop)
}

#[test]
fn the_largest_health_fits() {
    let length = device(&DeviceMessage::Health(health(&[ERRORS_MAX; 32]))).unwrap();
    assert!(length <= LINE_BYTES_MAX, "{length}");
}

#[test]
fn errors_around_their_limits() {
    let refused = Err(EncodeError::OutOfRange { kind: Kind::Health });
    for (name, count, ok) in [
        ("under", ERRORS_MAX - 1, true),
        ("at", ERRORS_MAX, true),
        ("over", ERRORS_MAX + 1, false),
    ] {
        let written = device(&DeviceMessage::Health(health(&[count])));
        assert_eq!(written.is_ok(), ok, "{name}");
        assert!(ok || written == refused, "{name}");
    }
    // 23 numbers of one byte, then the list.
    for (channels, ok) in [(31usize, true), (32, true), (33, false)] {
        let mut body = vec![0; 23];
        body.push(channels as u8);
        body.resize(24 + channels, 1);
        let read = decode_device(Kind::Health, &body);
        assert_eq!(read.is_ok(), ok, "{channels} channels");
    }
    let mut body = vec![0; 23];
    body.extend([1, 0x80, 0x80, 0x01]);
    assert!(decode_device(Kind::Health, &body).is_err(), "16,384 errors");
}

#[test]
fn results_around_their_limits() {
    for bytes in [0, CMD_RESULT_BYTES_MAX - 1, CMD_RESULT_BYTES_MAX] {
        let result = CmdResult {
            id: u32::MAX,
            status: CmdStatus::Refused,
            payload: vec![7; bytes].as_slice().try_into().unwrap(),
        };
        assert!(
            device(&DeviceMessage::CmdResult(result)).is_ok(),
            "{bytes} bytes"
        );
    }
    let over = CMD_RESULT_BYTES_MAX + 1;
    let body = [&[1, 0, over as u8][..], &vec![7; over]].concat();
    assert!(decode_device(Kind::CmdResult, &body).is_err());
    assert!(decode_device(Kind::CmdResult, &[1, 4, 0]).is_ok());
    assert!(
        decode_device(Kind::CmdResult, &[1, 5, 0]).is_err(),
        "a status that is not known"
    );
}

#[test]
fn log_frames_around_their_limits() {
    let bytes = [3; LOG_FRAME_BYTES_MAX + 1];
    for (length, ok) in [
        (0, false),
        (1, true),
        (LOG_FRAME_BYTES_MAX - 1, true),
        (LOG_FRAME_BYTES_MAX, true),
        (LOG_FRAME_BYTES_MAX + 1, false),
    ] {
        let written = device(&DeviceMessage::Log(Log(&bytes[..length])));
        assert_eq!(written.is_ok(), ok, "{length} bytes");
    }
    assert!(decode_device(Kind::Log, &[]).is_err());
}

#[test]
fn commands_have_exactly_their_arguments() {
    for (name, body, ok) in [
        ("period", &[1, 0, 2, 31, 5][..], true),
        ("period cut", &[1, 0, 1, 31], false),
        ("period with more", &[1, 0, 3, 31, 5, 0], false),
        (
            "period over 32 bits",
            &[1, 0, 6, 31, 0x80, 0x80, 0x80, 0x80, 0x10],
            false,
        ),
        ("threshold", &[1, 1, 2, 31, 5], true),
        ("identify", &[1, 2, 1, 9], true),
        ("identify without seconds", &[1, 2, 0], false),
        ("reboot", &[1, 3, 1, 9], true),
        ("unknown without arguments", &[1, 4, 0], true),
        ("unknown with some", &[1, 255, 3, 1, 2, 3], true),
        ("arguments cut", &[1, 255, 3, 1, 2], false),
        ("bytes behind", &[1, 2, 1, 9, 0], false),
    ] {
        assert_eq!(decode_gateway(Kind::Cmd, body).is_ok(), ok, "{name}");
    }
    for (bytes, ok) in [
        (CMD_ARGS_BYTES_MAX - 1, true),
        (CMD_ARGS_BYTES_MAX, true),
        (CMD_ARGS_BYTES_MAX + 1, false),
    ] {
        let body = [&[1, 9, bytes as u8][..], &vec![7; bytes]].concat();
        assert_eq!(
            decode_gateway(Kind::Cmd, &body).is_ok(),
            ok,
            "{bytes} bytes"
        );
    }
    let cmd = |op| {
        GatewayMessage::Cmd(Cmd {
            id: 1,
            operation: Operation::Unknown { op },
        })
    };
    assert!(gateway(&cmd(Operation::KNOWN)).is_ok());
    assert!(
        gateway(&cmd(Operation::KNOWN - 1)).is_err(),
        "it has a name"
    );
}

#[test]
fn chunks_around_their_limits() {
    let bytes = [5; CONFIG_CHUNK_BYTES_MAX + 1];
    let full = CONFIG_CHUNK_BYTES_MAX;
    let most = CONFIG_CHUNKS_MAX as u8;
    for (name, version, chunk, chunks, length, ok) in [
        ("version 0", 0, 0, 1, 1, false),
        ("first version", 1, 0, 1, 1, true),
        ("last version", u32::MAX, 0, 1, 1, true),
        ("no chunks", 1, 0, 0, 1, false),
        ("chunk beyond", 1, 1, 1, 1, false),
        ("most chunks", 1, most - 1, most, 1, true),
        ("chunks over", 1, most, most + 1, 1, false),
        ("last empty", 1, 0, 1, 0, false),
        ("last full", 1, 0, 1, full, true),
        ("last over", 1, 0, 1, full + 1, false),
        ("first short", 1, 0, 2, full - 1, false),
        ("first full", 1, 0, 2, full, true),
        ("number 255", 1, 255, 0, full, false),
    ] {
        let chunk = ConfigChunk {
            version,
            chunk,
            chunks,
            crc: 1,
            bytes: &bytes[..length],
        };
        assert_eq!(
            gateway(&GatewayMessage::Config(chunk)).is_ok(),
            ok,
            "{name}"
        );
        let mut body = vec![version as u8 & 0x7F, chunk.chunk, chunks, 1];
        match length {
            0..128 => body.push(length as u8),
            _ => body.extend([length as u8 | 0x80, 1]),
        }
        body.extend(&bytes[..length]);
        let read = decode_gateway(Kind::Config, &body);
        assert_eq!(read.is_ok(), ok, "{name}, read");
    }
}

#[test]
fn a_split_config_is_whole_again() {
    let whole: Vec<u8> = (0..300).map(|n| n as u8).collect();
    let chunks: Vec<_> = ConfigChunk::split(7, &whole).collect();
    let joined: Vec<u8> = chunks
        .iter()
        .flat_map(|chunk| chunk.bytes)
        .copied()
        .collect();
    assert_eq!((chunks.len(), joined), (3, whole.clone()));
    assert!(
        chunks
            .iter()
            .all(|chunk| chunk.crc == crc32(&whole) && chunk.chunks == 3)
    );
    assert!(
        chunks
            .iter()
            .all(|chunk| gateway(&GatewayMessage::Config(*chunk)).is_ok())
    );
    assert_eq!(chunks[2].offset(), 256);
}

fn operation() -> impl Strategy<Value = Operation> {
    let channel = any::<u8>().prop_map(ChannelNo);
    prop_oneof![
        (channel.clone(), any::<u32>())
            .prop_map(|(channel, period_us)| Operation::SetPeriod { channel, period_us }),
        (channel, any::<u32>())
            .prop_map(|(channel, threshold)| Operation::SetThreshold { channel, threshold }),
        any::<u8>().prop_map(|seconds| Operation::Identify { seconds }),
        any::<u32>().prop_map(|boot| Operation::Reboot { boot: BootId(boot) }),
        (Operation::KNOWN..=u8::MAX).prop_map(|op| Operation::Unknown { op }),
    ]
}

proptest! {
    #[test]
    fn commands_round_trip(id in any::<u32>(), operation in operation()) {
        let cmd = Cmd { id, operation };
        prop_assert!(gateway(&GatewayMessage::Cmd(cmd)).is_ok());
    }

    #[test]
    fn health_round_trips(
        n in prop::array::uniform32(any::<u32>()),
        wide in prop::array::uniform8(any::<u64>()),
        errors in prop::collection::vec(0..=ERRORS_MAX, 0..=32),
    ) {
        let sent = Health {
            boot: BootId(n[0]),
            config: n[1],
            config_refused: n[2],
            produced: wide[0],
            acked: wide[1],
            waiting: n[3],
            gaps: [wide[2], wide[3], wide[4], wide[5]],
            suppressed: wide[6],
            ring_high: n[4],
            received: ReceiveCounts {
                ok: n[5], cobs_bad: n[6], crc_bad: n[7], overlong: n[8], unknown_kind: n[9], body_bad: n[10],
            },
            rx_dropped: n[11],
            resends: n[12],
            missed: n[13],
            log_dropped: n[14],
            stack_free: n[15],
            errors: errors.as_slice().try_into().unwrap(),
        };
        prop_assert!(device(&DeviceMessage::Health(sent)).is_ok());
    }

    #[test]
    fn results_logs_and_chunks_round_trip(
        id in any::<u32>(),
        status in 0usize..CmdStatus::ALL.len(),
        payload in prop::collection::vec(any::<u8>(), 0..=CMD_RESULT_BYTES_MAX),
        log in prop::collection::vec(any::<u8>(), 1..=LOG_FRAME_BYTES_MAX),
        whole in prop::collection::vec(any::<u8>(), 1..=384),
    ) {
        let result = CmdResult { id, status: CmdStatus::ALL[status], payload: payload.as_slice().try_into().unwrap() };
        prop_assert!(device(&DeviceMessage::CmdResult(result)).is_ok());
        prop_assert!(device(&DeviceMessage::Log(Log(&log))).is_ok());
        for chunk in ConfigChunk::split(id.max(1), &whole) {
            prop_assert!(gateway(&GatewayMessage::Config(chunk)).is_ok());
        }
    }

    /// Each of these bodies has one encoding: what is taken is written the same again.
    #[test]
    fn arbitrary_bodies_have_one_encoding(
        kind in prop::sample::select(&[Kind::Health, Kind::CmdResult, Kind::Log, Kind::Cmd, Kind::Config][..]),
        body in prop::collection::vec(prop_oneof![3 => 0u8..4, 1 => any::<u8>()], 0..=60),
    ) {
        let mut line = [0; LINE_BYTES_MAX];
        let frame = frame::Frame { kind_byte: kind.byte(), body: &body };
        let written = if kind.is_from_device() {
            DeviceMessage::decode(frame).map(|message| message.encode(&mut line))
        } else {
            let known = |message: &GatewayMessage<'_>| !matches!(
                message,
                GatewayMessage::Cmd(Cmd { operation: Operation::Unknown { .. }, .. })
            );
            match GatewayMessage::decode(frame) {
                // The arguments of an unknown operation are not kept.
                Ok(message) if !known(&message) => return Ok(()),
                message => message.map(|message| message.encode(&mut line)),
            }
        };
        if let Ok(length) = written {
            let length = length.unwrap();
            let again = frame::open(&mut line[..length - 1]).unwrap();
            prop_assert_eq!(again.body, &body[..]);
        }
    }
}
