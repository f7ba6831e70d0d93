//! The whole road with real parts: the firmware in QEMU, the agent's own binary,
//! Mosquitto, and the receiver. Three temperatures go in at the sensor; each must
//! be seen where an operator looks, and at the end the receiver must hold exactly
//! what the device produced, whatever was killed on the way.
// Helpers of tests are tests too; clippy's own exception ends at `#[test]`.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod judge;
mod rig;

use rig::Rig;

/// Degrees, in the sensor's steps of a half.
const FIRST: f64 = 21.5;
const SECOND: f64 = 36.0;
const THIRD: f64 = -7.5;

#[test]
fn what_the_device_produced_is_upstream_each_once() {
    let mut rig = Rig::start(FIRST);
    rig.sees(FIRST);

    rig.feels(SECOND);
    rig.sees(SECOND);

    // The sensor changes while nobody is there: the device's ring keeps it.
    rig.agent_dies();
    rig.feels(THIRD);
    rig.device_goes_on(20);
    rig.agent_starts();
    rig.sees(THIRD);
    rig.upstream_catches_up();

    rig.broker_stops();
    rig.gateway_goes_on(20);
    rig.broker_starts();
    rig.upstream_catches_up();

    rig.broker_loses_all();
    rig.gateway_goes_on(20);
    rig.broker_starts();
    rig.upstream_catches_up();

    rig.device_resets();
    rig.feels(FIRST);
    rig.sees(FIRST);
    rig.a_minute_closes();

    // What the ring held is gone for good: the next boot has to say so.
    rig.agent_dies();
    rig.device_goes_on(20);
    let ended = rig.device_resets();
    rig.agent_starts();
    rig.feels(SECOND);
    rig.sees(SECOND);

    rig.device_halts();
    rig.upstream_catches_up();
    let heard = rig.heard();
    let rows = rig.export();
    assert_eq!(heard.boots.len(), 3, "two resets make three boots");
    assert!(heard.boots[&ended].end.is_some(), "its readings were lost");
    forebay_tests::judge::each_once(&heard, &rows).unwrap();
    forebay_tests::judge::offsets_once(&rows, &[]).unwrap();
    judge::windows_are_right(&rows);
}
