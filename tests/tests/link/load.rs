//! A line that is nearly full, and loses frames.

use forebay_node::sim::FaultRates;
use forebay_tests::cable::Way;
use forebay_tests::wait;

use super::rig::{LIMIT, PLAN, Plan, Rig};

/// Bytes of a full frame of readings on the line.
const FRAME_BYTES: f64 = 97.0;
/// Readings that a device takes on a line that loses frames.
const READINGS: u64 = 6_000;

/// The rates that a line must carry with every hundredth frame lost, none missing.
/// A device has a window of frames on the way: at thousands of readings a second it
/// is acked in time only by a gateway that syncs each block.
#[test]
fn nearly_full_lines_that_lose_a_frame_in_a_hundred_lose_no_reading() {
    for (name, baud, readings_per_s, log) in [
        ("115,200", 115_200, 1_500_u32, ""),
        ("921,600", 921_600, 6_000, "sync = \"every_block\"\n"),
    ] {
        let plan = Plan {
            hz: f64::from(readings_per_s) / 2.0,
            ring: 8192,
            log,
            ..PLAN
        };
        let mut rig = Rig::start(&plan);
        rig.goes_on(100);
        let cable = &rig.cables[0];
        cable.pace(baud);
        cable.rates(FaultRates {
            flip: 0.01 / FRAME_BYTES,
            ..FaultRates::default()
        });
        let faults = |rig: &Rig| rig.cables[0].counts(Way::ToGateway).faults.flips;
        // So few that the ring would hold all of them: how fast the line is, the bench
        // says, and the library's test in virtual time.
        let enough = rig.device(0).produced + READINGS;
        rig.until("readings on a line that loses frames", |all| {
            all[0].produced >= enough
        });
        assert!(faults(&rig) > 0, "{name}");
        rig.cables[0].rates(FaultRates::default());
        let device = rig.settle()[0];
        assert_eq!((device.gaps, device.acked), (0, device.produced), "{name}");
    }
}

/// A line that is slower than its device: what cannot be sent is lost, and the
/// gateway shows it within seconds, in the middle of the load.
#[test]
fn drops_of_a_device_that_is_too_fast_are_known_while_it_is() {
    let plan = Plan {
        hz: 1_000.0,
        ring: 256,
        ..PLAN
    };
    let mut rig = Rig::start(&plan);
    rig.goes_on(100);
    rig.cables[0].pace(57_600);
    rig.until("the first drop", |all| all[0].gaps > 0);
    // By its own Health, which must not wait behind the readings.
    wait::until("the device has told of it", LIMIT, || {
        let says = rig.known(0)?["ledger"]["device"].take();
        let gaps = says["gaps"]["total"].as_u64().filter(|gaps| *gaps > 0);
        gaps.ok_or(says.to_string())
    });
    let now = rig.device(0);
    assert!(now.gaps > 0 && now.waiting > 0, "still too fast: {now:?}");
    rig.cables[0].pace(0);
    let device = rig.settle()[0];
    assert_eq!(device.acked + device.gaps, device.produced);
}
