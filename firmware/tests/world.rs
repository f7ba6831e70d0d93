//! The link as a whole under load and faults, in simulated time. Each failure says
//! the seed that repeats it.

// Helpers of a test are tests too.
#![allow(clippy::unwrap_used)]

mod rig;

use forebay_firmware::wire::message::GapReason;
use rig::SECOND_US;
use rig::world::{Plan, World};

/// 115,200 baud, ten bits a byte.
const BYTE_NS: u64 = 86_806;
/// 921,600 baud.
const FAST_BYTE_NS: u64 = 10_851;

const QUIET: Plan = Plan {
    byte_ns: BYTE_NS,
    damaged_per_mille: 0,
    sample_period_us: 10_000,
    commit_us: 25_000,
    latency_timer_us: 0,
};

/// Readings per second at which 16 to a frame fill the line.
const LINE_RATE: u64 = 1_000_000_000 * 16 / (94 * BYTE_NS);

#[test]
fn a_quiet_line_loses_and_repeats_nothing() {
    let mut world = World::<512>::new(1, QUIET);
    world.run_for(60 * SECOND_US);
    world.drain();
    world.check();
    let stats = world.device.stats();
    assert_eq!(
        (stats.acked, stats.lost(), stats.link.resends),
        (stats.produced, 0, 0)
    );
    assert_eq!(
        (
            world.gateway.duplicate_frames,
            world.gateway.counters().bad()
        ),
        (0, 0)
    );
}

/// 95 % of the line's rate with 1 % of all frames damaged: no collapse.
#[test]
fn goodput_under_load_and_loss() {
    for (name, damaged_per_mille, commit_us, most_duplicates_percent) in [
        ("no loss", 0, 25_000, 0),
        ("1 % loss", 10, 25_000, 10),
        ("1 % loss, slow disk", 10, 60_000, 10),
    ] {
        let sample_period_us = 1_000_000 * 100 / (LINE_RATE * 95);
        let plan = Plan {
            damaged_per_mille,
            sample_period_us,
            commit_us,
            ..QUIET
        };
        let mut world = World::<2_730>::new(7, plan);
        world.run_for(120 * SECOND_US);
        let stats = world.device.stats();
        let goodput_percent = 100 * stats.acked / stats.produced;
        let duplicates_percent = 100 * world.gateway.duplicate_frames / world.gateway.data_frames;
        println!(
            "{name}: {LINE_RATE} readings/s fill the line, goodput {goodput_percent} %, duplicates \
             {duplicates_percent} % of {} frames, {} resends",
            world.gateway.data_frames, stats.link.resends
        );
        assert!(
            goodput_percent >= 80,
            "{name}: {goodput_percent} %, {stats:?}"
        );
        assert!(
            duplicates_percent <= most_duplicates_percent,
            "{name}: {duplicates_percent} %"
        );
        world.drain();
        world.check();
    }
}

/// Acks come late behind the 16 ms latency timer of a USB bridge: the window is large
/// enough to keep the line full all the same.
#[test]
fn the_latency_timer_of_a_bridge_takes_under_five_percent_of_the_line() {
    let plan = Plan {
        sample_period_us: 1_000_000 * 100 / (LINE_RATE * 98),
        latency_timer_us: 16_000,
        ..QUIET
    };
    let mut world = World::<2_730>::new(13, plan);
    world.run_for(60 * SECOND_US);
    let stats = world.device.stats();
    assert!(stats.acked * 100 >= LINE_RATE * 60 * 95, "{stats:?}");
    world.drain();
    world.check();
    let stats = world.device.stats();
    assert_eq!((stats.acked, stats.lost()), (stats.produced, 0));
}

/// Rates that the link carries with 1 % of all frames damaged, none missing. A full
/// window is 256 readings: at 12,000/s the gateway has to ack within 21 ms.
#[test]
fn none_missing_at_the_promised_rates() {
    for (name, rate, byte_ns, commit_us) in [
        ("115,200 baud, 1,500/s", 1_500, BYTE_NS, 25_000),
        ("921,600 baud, 12,000/s", 12_000, FAST_BYTE_NS, 5_000),
    ] {
        let plan = Plan {
            byte_ns,
            damaged_per_mille: 10,
            sample_period_us: 1_000_000 / rate,
            commit_us,
            latency_timer_us: 0,
        };
        let mut world = World::<6_144>::new(11, plan);
        world.run_for(30 * SECOND_US);
        let stats = world.device.stats();
        println!(
            "{name}: {} of {} readings acked after 30 s, most waiting {}, {} resends, {:?}",
            stats.acked,
            stats.produced,
            world.device.health().ring_high,
            stats.link.resends,
            world.gateway.counters()
        );
        assert!(
            world.gateway.counters().bad() > 0,
            "{name}: nothing was damaged"
        );
        assert!(stats.produced >= rate * 30, "{name}: {stats:?}");
        assert!(
            stats.acked + rate >= stats.produced,
            "{name}: it falls behind: {stats:?}"
        );
        world.drain();
        world.check();
        let stats = world.device.stats();
        assert_eq!((stats.acked, stats.lost()), (stats.produced, 0), "{name}");
        assert_eq!(
            world.readings(world.device.boot()),
            stats.produced,
            "{name}"
        );
    }
}

#[test]
fn twice_the_lines_rate_loses_half_and_says_so() {
    let plan = Plan {
        sample_period_us: 1_000_000 / (2 * LINE_RATE),
        ..QUIET
    };
    let mut world = World::<256>::new(3, plan);
    world.run_for(30 * SECOND_US);
    world.drain();
    world.check();
    let stats = world.device.stats();
    let came = world.readings(world.device.boot());
    assert!(came * 100 / stats.produced >= 40, "{stats:?}");
    assert_eq!(
        came + stats.gap(GapReason::RingFull),
        stats.produced,
        "{stats:?}"
    );
}

/// Ten minutes without a line; what was lost, and what the gateway has of the rest.
fn ten_minutes_unplugged<const N: usize>(sample_period_us: u64) -> u64 {
    let plan = Plan {
        sample_period_us,
        ..QUIET
    };
    let mut world = World::<N>::new(5, plan);
    world.run_for(10 * SECOND_US);
    world.unplugged = true;
    world.run_for(600 * SECOND_US);
    // Sampling goes on while what waited is sent.
    world.unplugged = false;
    world.run_for(10 * SECOND_US);
    world.drain();
    world.check();
    let stats = world.device.stats();
    assert_eq!(stats.lost(), stats.gap(GapReason::RingFull));
    let came = world.readings(world.device.boot());
    assert_eq!(came + stats.lost(), stats.produced);
    let told = world
        .gateway
        .healths
        .last()
        .map(|health| (health.produced, health.gaps));
    assert_eq!(
        told,
        Some((stats.produced, stats.gaps)),
        "as Health tells it"
    );
    stats.lost()
}

#[test]
fn unplugged_for_ten_minutes() {
    assert_eq!(ten_minutes_unplugged::<2_730>(1_000_000), 0, "1/s, 32 KiB");
    assert_eq!(ten_minutes_unplugged::<6_144>(100_000), 0, "10/s, 72 KiB");
    // What is being sent when the line goes is sent again: the ring is what is kept.
    let lost = ten_minutes_unplugged::<2_730>(100_000);
    assert!(
        (6_000 - 2_730..6_000 - 2_730 + 32).contains(&lost),
        "10/s, 32 KiB: {lost}"
    );
    let lost = ten_minutes_unplugged::<6_144>(1_000);
    let least = 600_000 - 6_144;
    assert!((least..least + 6_144).contains(&lost), "1,000/s: {lost}");
}

#[test]
fn a_peer_that_never_reads() {
    let mut world = World::<64>::new(9, QUIET);
    world.unplugged = true;
    world.run_for(600 * SECOND_US);
    let stats = world.device.stats();
    assert_eq!(
        (stats.acked, stats.waiting, stats.produced),
        (0, 64, 60_001)
    );
    assert_eq!(stats.gap(GapReason::RingFull), 60_001 - 64);
    assert!(
        (600..=601).contains(&stats.link.tx_frames),
        "a Hello each second: {stats:?}"
    );
    world.unplugged = false;
    world.drain();
    world.check();
    assert_eq!(world.readings(world.device.boot()), 64);
}

#[test]
fn a_reboot_with_a_backlog_mixes_no_boots() {
    for seed in 0..20 {
        let mut world = World::<512>::new(
            seed,
            Plan {
                damaged_per_mille: 50,
                ..QUIET
            },
        );
        for _ in 0..5 {
            world.run_for(3 * SECOND_US + seed * 7_777);
            world.reboot_device();
        }
        world.run_for(3 * SECOND_US);
        world.drain();
        world.check();
    }
}

/// Everything at once; whatever happens, the gateway ends up with every ordinal of
/// the last boot, each as the reading that was taken or as a gap.
fn everything<const N: usize>(seed: u64) -> (u64, u64) {
    let mut world = World::<N>::new(seed, QUIET);
    world.plan.sample_period_us = 1_000 + world.random.below(40_000);
    for _ in 0..12 {
        world.plan.damaged_per_mille = world.random.below(300);
        world.plan.commit_us = 1_000 + world.random.below(400_000);
        let span_us = world.random.below(3 * SECOND_US);
        world.run_for(span_us);
        match world.random.below(8) {
            0 => world.reboot_device(),
            1 => world.gateway.restart(),
            2 => world.unplugged = true,
            3 => {
                let count = 1 + world.random.below(50) as u32;
                world.lose_samples(GapReason::IsrFull, count);
            }
            4 => world.lose_samples(GapReason::SensorOff, 1),
            _ => world.unplugged = false,
        }
    }
    world.drain();
    world.check();
    let stats = world.device.stats();
    assert_eq!(
        (stats.waiting, stats.acked + stats.lost()),
        (0, stats.produced),
        "seed {seed}"
    );
    // What the device thinks lost may have come; what it thinks acked has come.
    assert!(
        stats.acked <= world.readings(world.device.boot()),
        "seed {seed}: {stats:?}"
    );
    (stats.produced, stats.link.tx_bytes)
}

#[test]
fn everything_at_once() {
    for seed in 0..60 {
        let run = std::panic::catch_unwind(|| {
            assert_eq!(
                everything::<3>(seed),
                everything::<3>(seed),
                "one seed, one run"
            );
            everything::<5>(seed);
            everything::<64>(seed);
            everything::<1_000>(seed);
        });
        assert!(run.is_ok(), "seed {seed}");
    }
}
