//! A device that is out of reach for ten minutes of simulated time, with the whole
//! gateway and the receiver: what its ring holds arrives with the device's own times,
//! what it does not is lost, and each ledger says how much.

use forebay_core::record::GapReason;
use forebay_core::upstream::tally::Tally;
use forebay_firmware::{ChannelSpec, Stats};
use forebay_tests::world::archive::Entry;
use forebay_tests::world::gateway::UTC_0;
use forebay_tests::world::plain::Plain;
use serde_json::Value;

const SECOND: u64 = 1_000_000;
const UNPLUGGED_AT: u64 = 20 * SECOND;
const AWAY: u64 = 600 * SECOND;
/// Sampling ends so long after the device is back.
const AFTER: u64 = 30 * SECOND;
/// Everything must have arrived so long after that.
const PATIENCE: u64 = 300 * SECOND;
const UID: u64 = 0xd7;
/// What a stamp may be off, us: the line's delay is not symmetric.
const CLOCK_ERROR_US: i64 = 5_000;

const fn channel(period_us: u32) -> ChannelSpec {
    ChannelSpec {
        quantity: "temperature",
        unit: "degC",
        scale: 2,
        range: (-4000, 12_500),
        period_us,
    }
}

/// What is left at the end.
struct End {
    device: Stats,
    /// What the gateway says of it.
    ledger: Value,
    upstream: Tally,
    /// Times of its readings, by ordinal, us of the world's clock.
    times: Vec<i64>,
}

/// Unplugs a device for ten minutes.
fn unplugged<const RING: usize>(channels: &'static [ChannelSpec]) -> End {
    let mut world = Plain::<RING>::new([UID].into_iter(), channels);
    world.run_to(UNPLUGGED_AT);
    world.unplug(0);
    world.run_to(UNPLUGGED_AT + AWAY);
    world.plug(0);
    world.run_to(UNPLUGGED_AT + AWAY + AFTER);
    world.finish(PATIENCE);
    let readings = world.gateway.archive().readings();
    let times = readings.filter_map(|entry| match entry {
        Entry::Reading(_, reading) => Some(reading.time.0 - UTC_0),
        Entry::Gap(_) | Entry::Clock(_) | Entry::Tables(_) | Entry::Row(_) => None,
    });
    End {
        times: times.collect(),
        ledger: world.ledger(UID),
        upstream: world.tally(UID),
        device: world.devices[0].stats(),
    }
}

/// The three ledgers say the same, and each closes.
fn check(end: &End) {
    let End {
        device,
        ledger,
        upstream,
        ..
    } = end;
    let ring_full = device.gap(forebay_wire::message::GapReason::RingFull);
    assert_eq!(device.lost(), ring_full, "for no other reason");
    assert!(
        device.closes() && upstream.closes(),
        "{device:?} {upstream:?}"
    );
    assert_eq!(ledger["closes"], true, "{ledger}");
    assert_eq!(ledger["produced"], device.produced, "{ledger}");
    assert_eq!(ledger["readings"], device.acked, "{ledger}");
    assert_eq!(ledger["gaps"]["total"], ring_full, "{ledger}");
    let said = ledger["gaps"]["by_reason"]["ring_full"].as_u64();
    assert_eq!(said.unwrap_or(0), ring_full, "{ledger}");
    assert_eq!(upstream.readings, device.acked);
    assert_eq!(upstream.gaps[GapReason::RingFull as usize], ring_full);
}

#[test]
fn a_device_with_room_for_ten_minutes_comes_back_with_nothing_missing() {
    const PERIOD: i64 = 100_000;
    static CHANNEL: [ChannelSpec; 1] = [channel(PERIOD as u32)];
    let end = unplugged::<8192>(&CHANNEL);
    check(&end);
    assert_eq!(end.device.lost(), 0);
    let sampled = (UNPLUGGED_AT + AWAY + AFTER) / PERIOD as u64;
    assert!(end.device.produced >= sampled - 1, "{:?}", end.device);
    // Each at the time when it was taken, not when it came.
    for (nth, time) in (0..).zip(&end.times) {
        let off = time - nth * PERIOD;
        // The device's clock is up to 50 ppm off, and never steered.
        let drift = nth * PERIOD / 20_000;
        assert!(off.abs() <= CLOCK_ERROR_US + drift, "{nth}: {off} us");
    }
    assert_eq!(end.times.len() as u64, end.device.produced);
}

#[test]
fn a_device_that_is_too_fast_for_its_ring_has_lost_a_known_number() {
    const RING: usize = 2730;
    static CHANNEL: [ChannelSpec; 1] = [channel(1_000)];
    let end = unplugged::<RING>(&CHANNEL);
    check(&end);
    let away = AWAY / 1_000;
    let lost = end.device.lost();
    // What it took while nobody was there, less what the ring still held.
    assert!(lost < away, "{lost} of {away}");
    assert!(lost > away - RING as u64 - 1_000, "{lost} of {away}");
    assert_eq!(end.times.len() as u64 + lost, end.device.produced);
}
