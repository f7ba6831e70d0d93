//! What must be lost is counted to the reading, at the device, at the gateway and
//! upstream; what need not be is there, under its own boot and with its own time.

use std::time::Duration;

use forebay_tests::wait;
use forebay_wire::limits::{DATA_RECORDS_MAX, WINDOW_FRAMES_MAX};
use serde_json::{Value, json};

use super::rig::{LIMIT, PLAN, Plan, Rig};

/// Ten minutes at 10 readings/s are 6,000: as many pile up here within seconds. All
/// of them come, each at the device's own pace.
#[test]
fn ten_minutes_of_readings_come_after_a_replug_and_none_is_missing() {
    let plan = Plan {
        hz: 1_000.0,
        ring: 8192,
        upstream: true,
        ..PLAN
    };
    let mut rig = Rig::start(&plan);
    rig.goes_on(100);
    rig.cables[0].unplug();
    rig.until("6,000 readings wait", |all| all[0].waiting >= 6_000);
    rig.agent_dies();
    rig.agent_starts();
    rig.cables[0].plug_in();
    let ledger = rig.settle_upstream("").remove(0);
    let device = rig.device(0);
    assert_eq!(ledger["gaps"]["total"], 0, "{ledger}");
    assert_eq!(ledger["readings"], device.produced, "{ledger}");
    times_are_the_devices(&mut rig);
}

/// Upstream, the times of a channel follow one another as its samples did.
fn times_are_the_devices(rig: &mut Rig) {
    for part in [rig.agent.take(), rig.upstream.take()]
        .into_iter()
        .flatten()
    {
        assert!(part.end_by("TERM").success());
    }
    let rows = rig.ask(&["upstream", "export"]).unwrap();
    let rows = rows.lines().map(|line| serde_json::from_str(line).unwrap());
    let records = rows.map(|mut row: Value| row["record"].take());
    let mut times: Vec<jiff::Timestamp> = records
        .filter(|record| record["channel"] == "temperature")
        .filter_map(|record| record["time"].as_str()?.parse().ok())
        .collect();
    times.sort_unstable();
    assert!(times.len() > 3_000, "{}", times.len());
    let steps = times.windows(2).map(|pair| pair[1].duration_since(pair[0]));
    // The gateway was away for seconds, and this computer may miss some samples.
    let longest = steps.max().unwrap();
    assert!(
        longest < jiff::SignedDuration::from_millis(500),
        "{longest:?}"
    );
}

/// What a device may have sent without hearing that it came: a window of frames.
const UNHEARD_MAX: u64 = WINDOW_FRAMES_MAX as u64 * DATA_RECORDS_MAX as u64;

/// More than the ring holds: the exact number is lost, and gateway and receiver say
/// so. The device declares what it overwrote; what of that had come all the same,
/// with the ack lost, is a reading and no gap.
#[test]
fn what_a_small_ring_lost_is_the_same_number_everywhere() {
    let plan = Plan {
        hz: 500.0,
        ring: 256,
        upstream: true,
        ..PLAN
    };
    let mut rig = Rig::start(&plan);
    rig.goes_on(100);
    rig.cables[0].unplug();
    rig.until("1,000 readings are overwritten", |all| all[0].gaps >= 1_000);
    rig.agent_dies();
    rig.agent_starts();
    rig.cables[0].plug_in();
    let applied = rig.settle_upstream("").remove(0);
    let device = rig.device(0);
    let gaps = applied["gaps"]["total"].as_u64().unwrap();
    let by_reason = json!({ "ring_full": gaps });
    assert_eq!(applied["gaps"]["by_reason"], by_reason, "{applied}");
    let came = device.gaps.checked_sub(gaps);
    assert!(
        came.is_some_and(|came| came <= UNHEARD_MAX),
        "{applied} {device:?}"
    );
    let ledger = wait::until("the gateway's ledger is settled", LIMIT, || {
        let ledger = rig.known(0)?["ledger"].take();
        let all = ledger["taken"] == device.produced;
        all.then(|| ledger.clone()).ok_or(ledger.to_string())
    });
    assert_eq!(ledger["gaps"]["by_reason"], by_reason, "{ledger}");
    assert_eq!(ledger["lost"], 0, "{ledger}");
    assert_ne!(ledger["closes"], false, "{ledger}");
    let text = rig.ask(&["status", "--ledger"]).unwrap();
    assert!(text.contains(&gaps.to_string()), "{text}");
    let text = rig.ask(&["upstream", "status", "--ledger"]).unwrap();
    assert!(text.contains(&gaps.to_string()), "{text}");
}

/// Resets in the middle of a frame, with a backlog that nobody has acked: at most
/// one frame is spoilt by each, and no reading stands under another's boot.
#[test]
fn a_reset_spoils_one_frame_and_mixes_no_boots() {
    let plan = Plan {
        hz: 200.0,
        resets: Some(Duration::from_millis(1_500)),
        upstream: true,
        ..PLAN
    };
    let mut rig = Rig::start(&plan);
    rig.until("three resets with the line in", |all| {
        all[0].earlier.boots >= 3
    });
    rig.cables[0].unplug();
    rig.until("two resets without it", |all| all[0].earlier.boots >= 5);
    rig.cables[0].plug_in();
    rig.until("two more", |all| all[0].earlier.boots >= 7);
    let ledger = rig.settle_upstream("").remove(0);
    let device = rig.device(0);
    let port = rig.port(0).unwrap();
    assert_eq!(port["opens"], 2, "{port}");
    let bad = port["frames_bad"].as_u64().unwrap();
    assert!(
        bad <= u64::from(device.earlier.boots),
        "{bad} by {device:?}"
    );
    // What the device does not know to be acked may have come.
    let lost = ledger["gaps"]["by_reason"]["power_loss"]
        .as_u64()
        .unwrap_or(0);
    assert!(
        0 < lost && lost <= device.earlier.reset,
        "{ledger} {device:?}"
    );
    let boots = ledger["boots"].as_array().unwrap();
    assert_eq!(boots.len() as u32, device.earlier.boots + 1, "{ledger}");
    for boot in boots {
        assert_eq!(boot["closes"], true, "{ledger}");
    }
}

/// The device ends while nobody has heard it at all, then comes back.
#[test]
fn a_gateway_that_lost_its_log_is_told_what_is_gone() {
    let mut rig = Rig::start(&Plan {
        upstream: true,
        ..PLAN
    });
    rig.goes_on(100);
    rig.agent_dies();
    rig.lose_log();
    rig.agent_starts();
    rig.goes_on(100);
    rig.settle();
    // The new log begins where the device's memory does: what was acked is no gap of
    // the device, but what came before has to be accounted for.
    let device = rig.device(0);
    let ledger = wait::until("the new log has it all", LIMIT, || {
        let ledger = rig.known(0)?["ledger"].take();
        let all = ledger["taken"] == device.produced;
        all.then(|| ledger.clone()).ok_or(ledger.to_string())
    });
    let count = |value: &Value| value.as_u64().unwrap();
    let sum = count(&ledger["readings"]) + count(&ledger["gaps"]["total"]) + count(&ledger["lost"]);
    assert_eq!(sum, device.produced, "{ledger}");
}
