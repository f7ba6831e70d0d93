//! More bytes than a gateway ever sends, at a board that has other things to do. QEMU
//! hands over as fast as the board takes; a true overrun needs hardware.

use forebay_tests::qemu::Options;
use forebay_wire::GatewayMessage;
use forebay_wire::limits::LINE_BYTES_MAX;
use forebay_wire::message::{Health, SyncReq};

use super::session::{Session, start};

/// Bytes of the burst.
const BURST_BYTES: usize = 4096;
/// How long the flood lasts, on the device's clock.
const FLOOD_US: u64 = 10_000_000;

fn heard(health: &Health) -> u32 {
    let counts = &health.received;
    counts.ok + counts.cobs_bad + counts.crc_bad + counts.overlong + counts.unknown_kind
}

#[test]
fn a_burst_of_four_kilobytes_reaches_the_board_whole() {
    let qemu = start(&Options::default());
    let mut session = Session::open(&qemu);
    let before = session.health();
    let mut burst = Vec::new();
    let mut frames = 0;
    while burst.len() < BURST_BYTES {
        let mut line = [0; LINE_BYTES_MAX];
        let probe = GatewayMessage::SyncReq(SyncReq { id: frames });
        let count = probe.encode(&mut line).unwrap();
        burst.extend_from_slice(&line[..count]);
        frames += 1;
    }
    session.line.say_raw(&burst).unwrap();
    let after = session.health();
    let dropped = after.rx_dropped - before.rx_dropped;
    let heard = heard(&after) - heard(&before);
    // Besides, there were the frames of the sessions. What did not arrive was counted.
    assert!(
        heard >= frames || dropped > 0,
        "{heard} of {frames} frames, {dropped} bytes dropped: {after:?}"
    );
    assert!(after.received.ok > before.received.ok, "{after:?}");
}

#[test]
fn a_flood_for_seconds_stops_no_sampling_and_resets_nothing() {
    let mut qemu = start(&Options::default());
    let mut session = Session::open(&qemu);
    let before = session.health();
    let start = session.until(|_| true).tick.0;
    let (mut seed, mut now) = (1_u64, start);
    while now < start + FLOOD_US {
        let mut noise: Vec<u8> = (0..4096)
            .map(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (seed >> 56) as u8
            })
            .collect();
        // So that the next ack is a frame of its own.
        noise.push(0);
        session.line.say_raw(&noise).unwrap();
        now = session.until(|_| true).tick.0;
    }
    // Ten samples a second of the one channel and one of the other, whatever comes in;
    // the session wants all of them, and the same boot.
    let after = session.health();
    assert!(
        after.produced - before.produced >= 11 * FLOOD_US / 1_000_000 - 2,
        "{after:?}"
    );
    assert_eq!(
        (after.boot, after.missed),
        (before.boot, before.missed),
        "{after:?}"
    );
    let bad = heard(&after) - after.received.ok;
    assert!(bad > 0 || after.rx_dropped > before.rx_dropped, "{after:?}");
    assert_eq!(qemu.ended().unwrap(), None);
}
