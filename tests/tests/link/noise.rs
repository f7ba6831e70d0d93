//! Bytes that nobody meant: echoes, modem managers, flips, another rate.

use std::time::Instant;

use forebay_node::sim::FaultRates;
use forebay_tests::cable::{Cable, Way};
use forebay_tests::wait;

use super::rig::{LIMIT, PLAN, Plan, Rig};

fn none() -> FaultRates {
    FaultRates::default()
}

/// A terminal in front of either side echoes all that it gets: nothing is taken for
/// a message, and no echo brings another.
#[test]
fn an_echo_of_every_byte_is_no_message_and_no_storm() {
    let mut rig = Rig::start(&PLAN);
    rig.goes_on(50);
    let bytes = |cable: &Cable| Way::BOTH.map(|way| cable.counts(way).bytes_in);
    let boot = rig.device(0).boot;
    let (start, before) = (Instant::now(), bytes(&rig.cables[0]));
    rig.goes_on(200);
    let (quiet, quiet_bytes) = (start.elapsed(), bytes(&rig.cables[0]));
    rig.cables[0].rates(FaultRates {
        echo: 1.0,
        ..none()
    });
    let start = Instant::now();
    rig.goes_on(200);
    let (echoing, after) = (start.elapsed(), bytes(&rig.cables[0]));
    rig.cables[0].rates(none());
    for at in 0..2 {
        // Each side says hardly more than without an echo in the same time.
        let usual = (quiet_bytes[at] - before[at]) as f64 / quiet.as_secs_f64();
        let now = (after[at] - quiet_bytes[at]) as f64 / echoing.as_secs_f64();
        assert!(
            now < 3.0 * usual + 2_000.0,
            "{:?}: {now} of {usual} B/s",
            Way::BOTH[at]
        );
    }
    let device = rig.settle()[0];
    assert_eq!((device.boot, device.gaps), (boot, 0), "{device:?}");
    let port = rig.port(0).unwrap();
    assert!(port["frames_bad"].as_u64() > Some(0), "{port}");
    assert_eq!(port["opens"], 1, "{port}");
}

/// What a modem manager sends, and what an open line picks up.
#[test]
fn modem_managers_noise_resets_nothing_and_is_counted() {
    let mut rig = Rig::start(&PLAN);
    rig.goes_on(20);
    let boot = rig.device(0).boot;
    for _ in 0..20 {
        for noise in [
            &b"AT\r"[..],
            b"\0",
            b"AT+GCAP\r\n",
            b"\x7e\x00\x78\xf0\x7e\0",
        ] {
            for way in Way::BOTH {
                rig.cables[0].inject(way, noise);
            }
        }
        rig.goes_on(4);
    }
    rig.cables[0].rates(FaultRates {
        noise: 0.002,
        ..none()
    });
    rig.goes_on(200);
    rig.cables[0].rates(none());
    let device = rig.settle()[0];
    assert_eq!((device.boot, device.gaps), (boot, 0), "{device:?}");
    assert!(device.bad_frames > 0, "the device counts: {device:?}");
    let port = rig.port(0).unwrap();
    assert!(port["frames_bad"].as_u64() > Some(0), "{port}");
    assert_eq!(port["opens"], 1, "{port}");
}

/// 1 to 300 random bytes stand before the first frame of a line.
#[test]
fn bytes_before_the_first_frame_cost_nothing_but_time() {
    let mut rig = Rig::start(&PLAN);
    for length in [1, 2, 64, 299, 300] {
        rig.cables[0].unplug();
        let noise: Vec<u8> = (1..=length as u32)
            .map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect();
        rig.cables[0].plug_in();
        rig.cables[0].inject(Way::ToGateway, &noise);
        rig.goes_on(20);
    }
    assert_eq!(rig.settle()[0].gaps, 0);
}

/// Flips, drops and inserts on the way to the agent and back.
#[test]
fn spoilt_bytes_cost_no_reading() {
    let mut rig = Rig::start(&Plan { devices: 2, ..PLAN });
    for cable in &rig.cables {
        cable.rates(FaultRates::even(0.002));
    }
    rig.goes_on(300);
    for cable in &rig.cables {
        cable.rates(none());
    }
    for device in rig.settle() {
        assert_eq!(device.gaps, 0, "{device:?}");
        assert_eq!(device.produced, device.acked, "{device:?}");
    }
    for cable in &rig.cables {
        assert!(cable.counts(Way::ToGateway).faults.total() > 0);
    }
}

/// At a wrong rate bytes come in and never a frame: the agent says so, and the next
/// rate of the list is tried.
#[test]
fn a_wrong_rate_is_said_and_the_next_is_tried() {
    let mut rig = Rig::start(&Plan {
        baud: "[115200, 921600]",
        ..PLAN
    });
    rig.goes_on(20);
    let port = rig.port(0).unwrap();
    let rate = port["baud"].as_u64().unwrap();
    let opens = port["opens"].as_u64().unwrap();
    // The device came back at another rate.
    rig.cables[0].unplug();
    rig.cables[0].garble(true);
    rig.cables[0].plug_in();
    // How soon, a test of the port's judge says, by hand.
    wait::until("the next rate is tried", LIMIT, || {
        let port = rig.port(0)?;
        let baud = port["baud"].as_u64().filter(|baud| *baud != rate);
        baud.filter(|_| port["state"] == "open")
            .ok_or(port.to_string())
    });
    let said = rig.agent.as_ref().unwrap().printed();
    assert!(
        said.contains("921600") || said.contains("921,600"),
        "{said}"
    );
    rig.cables[0].garble(false);
    rig.goes_on(20);
    assert!(rig.port(0).unwrap()["opens"].as_u64().unwrap() > opens);
    assert_eq!(rig.settle()[0].gaps, 0);
}
