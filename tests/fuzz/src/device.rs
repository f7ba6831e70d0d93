//! A whole device under a script of bytes: samples, time, noise and every message
//! of a gateway, in any order. Its sums close after each step.

use forebay_firmware::wire::ids::{BootId, ChannelNo, DeviceUid, Tick};
use forebay_firmware::wire::limits::LINE_BYTES_MAX;
use forebay_firmware::wire::message::{GapReason, Quality, ResetCause};
use forebay_firmware::wire::{DeviceMessage, Frame, LINK_VERSION, frame};
use forebay_firmware::{Accounts, ChannelSpec, Device, DeviceConfig};

const CONFIG: DeviceConfig = DeviceConfig {
    uid: DeviceUid([3; 8]),
    boot: BootId(0x0A0B_0C0D), // that of the golden vectors, so that their acks are for it
    firmware_version: [0, 1, 0],
    build_id: [0; 8],
    reset_cause: ResetCause::PowerOn,
    tick_hz: 1_000_000,
    linger_us: 20_000,
};

const fn spec(quantity: &'static str) -> ChannelSpec {
    ChannelSpec {
        quantity,
        unit: "",
        scale: 0,
        range: (-1_000_000, 1_000_000),
        period_us: 1_000,
    }
}

/// A record as a board keeps it over a reset.
pub(crate) fn accounts(bytes: &[u8]) {
    let mut record = [0; Accounts::BYTES];
    let length = bytes.len().min(record.len());
    record[..length].copy_from_slice(&bytes[..length]);
    if let Some(accounts) = Accounts::from_bytes(&record) {
        let again = accounts.to_bytes();
        assert_eq!(Accounts::from_bytes(&again), Some(accounts));
    }
}

/// Steps of a number and its arguments.
pub(crate) fn device(script: &[u8]) {
    let mut device = Device::<24, 2>::new(CONFIG, &[spec("a"), spec("b")]).unwrap();
    let mut now = Tick(0);
    let mut rest = script;
    let mut line = [0; LINE_BYTES_MAX];
    while let Some((step, after)) = rest.split_first() {
        rest = after;
        let argument = rest.first().copied().unwrap_or(0);
        match step % 8 {
            0 => sample(&mut device, now, argument),
            1 => now.0 += u64::from(argument) << (step >> 3),
            2 => {
                let most = usize::from(argument) % 64;
                let (noise, after) = rest.split_at(most.min(rest.len()));
                device.on_rx(noise, now);
                rest = after;
            }
            3 => {
                // A kind of a gateway, a body, and the CRC made right.
                let most = usize::from(argument) % 64;
                let body = rest.get(1..).unwrap_or_default();
                let (body, after) = body.split_at(most.min(body.len()));
                let kind_byte = LINK_VERSION << 4 | 8 | step >> 3 & 7;
                let length = frame::encode_raw(&mut line, kind_byte, body).unwrap();
                device.on_rx(&line[..length], now);
                rest = after;
            }
            4 => device.on_lost(GapReason::IsrFull, u32::from(argument), now),
            5 => device.on_log(&rest[..rest.len().min(usize::from(argument))]),
            _ => poll(&mut device, now),
        }
        assert!(device.stats().closes(), "{:?}", device.stats());
        assert!(device.health().closes());
    }
    poll(&mut device, now);
}

fn sample(device: &mut Device<24, 2>, now: Tick, argument: u8) {
    let value = match Quality::from_byte(argument & 7) {
        Some(quality) if quality != Quality::Ok => Err(quality),
        Some(_) | None => Ok(i32::from(argument)),
    };
    let channel = ChannelNo(argument >> 3 & 1);
    device.on_sample(channel, now, value).unwrap();
}

/// Says all that it has to say: each line is a message, and there is an end to it.
fn poll(device: &mut Device<24, 2>, now: Tick) {
    let mut line = [0; LINE_BYTES_MAX];
    for _ in 0..100 {
        let length = device.poll_tx(now, &mut line);
        if length == 0 {
            let due = device.next_deadline(now);
            assert!(
                due.is_none_or(|at| at > now),
                "due at once, and nothing to say"
            );
            let _ = device.take_action();
            return;
        }
        if length > 1 {
            let frame = frame::open(&mut line[..length - 1]).unwrap();
            let Frame { kind_byte, body } = frame;
            let message = DeviceMessage::decode(Frame { kind_byte, body });
            assert!(message.is_ok(), "{message:?}");
        }
    }
    panic!("it never stops talking");
}
