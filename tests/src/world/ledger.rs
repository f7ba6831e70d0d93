//! Whether the ledgers of all devices close at the end of a world, and say the same at
//! the device, at its gateway and at the receiver.

use forebay_core::payload::GatewayName;
use forebay_core::record::GAPS;
use forebay_core::upstream::tally::DeviceTally;
use forebay_wire::ids::DeviceUid;
use forebay_wire::message::ResetCause;
use serde_json::Value;

use super::device::{Boot, WorldDevice};
use super::model::Ends;
use super::receiver::Receiver;

fn view(list: &Value, uid: u64) -> Option<&Value> {
    let devices = list["devices"].as_array().expect("a list");
    let name = format!("{uid:016x}");
    devices.iter().find(|device| device["uid"] == name.as_str())
}

fn count(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("no count: {value}"))
}

/// Whether the gateway has heard the last word of each device.
#[must_use]
pub fn is_final(devices: &[WorldDevice], list: &Value) -> bool {
    devices.iter().all(|device| {
        let stats = device.stats();
        view(list, device.uid()).is_some_and(|view| {
            let said = &view["ledger"]["device"];
            said["produced"] == stats.produced
                && said["acked"] == stats.acked
                && said["waiting"] == 0
                && view["config"]["active"] == view["config"]["desired"]
        })
    })
}

/// Compares all ledgers.
///
/// # Panics
/// At the first difference, with the seed to replay.
pub fn judge(
    seed: u64,
    devices: &[WorldDevice],
    list: &Value,
    (receiver, ends): (&Receiver, &Ends),
) {
    let replay = format!("replay: cargo xtask sim --seed {seed}");
    for device in devices {
        let view = view(list, device.uid()).expect("the gateway knows it");
        let ledger = &view["ledger"];
        assert_eq!(ledger["closes"], true, "{ledger}; {replay}");
        assert_eq!(ledger["missing"], 0, "{ledger}; {replay}");
        let produced: u64 = device.boots.iter().map(|boot| boot.produced).sum();
        for sum in ["produced", "taken"] {
            assert_eq!(count(&ledger[sum]), produced, "{sum}: {ledger}; {replay}");
        }
        let gaps = count(&ledger["gaps"]["total"]);
        let sum = count(&ledger["readings"]) + gaps + count(&ledger["lost"]);
        assert_eq!(sum, produced, "{ledger}; {replay}");
        for boot in &device.boots {
            judge_boot(boot, ledger, &replay);
        }
        // What was dropped before it was sent, or that the gateway's accounts forgot, is
        // not the same on both sides.
        if ends.never_arrived == 0 && ledger["lost"] == 0 {
            judge_upstream(device.uid(), ledger, receiver, &replay);
        }
    }
}

/// A boot that is told apart has what the device gave out in it.
fn judge_boot(boot: &Boot, ledger: &Value, replay: &str) {
    let boots = ledger["boots"].as_array().expect("a list");
    let Some(said) = boots.iter().find(|said| said["boot"] == boot.id) else {
        // Nothing of it ever came, or it is folded.
        assert!(
            boot.produced == 0 || boots.len() >= 16,
            "{ledger}; {replay}"
        );
        return;
    };
    // A boot of which only a gap speaks never said why it began.
    if count(&said["readings"]) > 0 {
        let cause = match boot.cause {
            ResetCause::PowerOn => "power_on",
            ResetCause::Software => "software",
            ResetCause::Watchdog => "watchdog",
            ResetCause::Unknown | ResetCause::Pin | ResetCause::Brownout => {
                panic!("no boot of this world begins so")
            }
        };
        assert_eq!(said["reset_cause"], cause, "{said}; {replay}");
    }
    assert_eq!(count(&said["taken"]), boot.produced, "{said}; {replay}");
    assert_eq!(count(&said["produced"]), boot.produced, "{said}; {replay}");
}

/// The receiver counted what the gateway counted.
fn judge_upstream(uid: u64, ledger: &Value, receiver: &Receiver, replay: &str) {
    let gateway = GatewayName::new("world").expect("a name");
    let ledgers = receiver.ledger();
    let tally = ledgers.get(&gateway, DeviceUid(uid.to_be_bytes()));
    let tally = tally.map(DeviceTally::total).unwrap_or_default();
    assert!(tally.closes(), "{tally:?}; {replay}");
    let counts = [tally.produced, tally.readings];
    let here = [&ledger["taken"], &ledger["readings"]].map(count);
    assert_eq!(counts, here, "{ledger}; {replay}");
    for ((_, name), gap) in GAPS.iter().zip(tally.gaps) {
        let here = ledger["gaps"]["by_reason"][*name].as_u64().unwrap_or(0);
        assert_eq!(gap, here, "{name}: {ledger}; {replay}");
    }
}
