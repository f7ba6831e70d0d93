//! Two hundred devices on two hundred ports: each is heard, acked and told what is for
//! it, and one that is unplugged holds up no other.

use forebay_core::devices::{DeviceRequest, SetRequest};
use forebay_core::effect::QueryId;
use forebay_firmware::ChannelSpec;
use forebay_tests::world::plain::Plain;

const SECOND: u64 = 1_000_000;
const DEVICES: u64 = 200;

static CHANNEL: [ChannelSpec; 1] = [ChannelSpec {
    quantity: "temperature",
    unit: "degC",
    scale: 2,
    range: (-4000, 12_500),
    period_us: 400_000,
}];

#[test]
fn two_hundred_devices_are_heard_and_told_each_for_itself() {
    let mut world = Plain::<128>::new(0..DEVICES, &CHANNEL);
    world.run_to(3 * SECOND);
    let list = world.gateway.devices(world.now);
    let devices = list["devices"].as_array().expect("a list").clone();
    assert_eq!(devices.len() as u64, DEVICES);
    for (uid, device) in (0..DEVICES).zip(&devices) {
        assert_eq!(device["connected"], uid, "device n is on port n: {device}");
        assert_eq!(device["open"], true, "{device}");
    }
    // Every tenth goes away, and every tenth beside it gets other settings.
    for uid in (0..DEVICES).step_by(10) {
        world.unplug(uid as usize);
        let request = DeviceRequest::Set(SetRequest {
            device: format!("{:016x}", uid + 1),
            channel: "temperature".to_owned(),
            period_us: Some(200_000),
            threshold: None,
            once: false,
        });
        world.gateway.ask(world.now, QueryId(uid + 1), request);
    }
    world.run_to(5 * SECOND);
    let answers = std::mem::take(&mut world.gateway.answers);
    assert_eq!(answers.len() as u64, DEVICES / 10);
    for (id, answer) in answers {
        let answer = answer.expect("it is taken");
        assert_eq!(answer.object()["applied"], true, "{answer}");
        assert_eq!(answer.object()["uid"], format!("{:016x}", id.0));
    }
    let list = world.gateway.devices(world.now);
    for device in list["devices"].as_array().expect("a list") {
        let uid = device["uid"]
            .as_str()
            .and_then(|u| u64::from_str_radix(u, 16).ok());
        let uid = uid.expect("a uid");
        assert_eq!(device["connected"].is_null(), uid % 10 == 0, "{device}");
        let period = if uid % 10 == 1 { 200_000 } else { 400_000 };
        assert_eq!(device["channels"][0]["period_us"], period, "{device}");
    }
    for uid in (0..DEVICES).step_by(10) {
        world.plug(uid as usize);
    }
    world.finish(60 * SECOND);
    for uid in 0..DEVICES {
        let (stats, ledger) = (world.devices[uid as usize].stats(), world.ledger(uid));
        assert_eq!(ledger["closes"], true, "{ledger}");
        assert_eq!(
            ledger["readings"], stats.produced,
            "nothing is lost: {ledger}"
        );
        assert_eq!(world.tally(uid).readings, stats.produced);
    }
}
