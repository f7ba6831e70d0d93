//! What a device's ring could not keep: counted by the device, by its gateway and by the
//! receiver, and the same everywhere.

use std::fs;

use forebay_tests::mosquitto::Mosquitto;
use forebay_tests::process::ANSWER_LIMIT;
use forebay_tests::wait;
use serde_json::Value;

use super::site::Site;

const DEVICE: &str = "f0bea00000000001";

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

#[test]
fn what_a_ring_could_not_keep_is_in_all_three_ledgers() {
    let broker = Mosquitto::start();
    let port = broker.port();
    let site = Site::new(&format!(
        "[[device_port]]\nkind = \"serial\"\npath = \"dev\"\n\
         [forward]\nbroker = \"127.0.0.1:{port}\"\n"
    ));
    let upstream = format!("[upstream]\ndata_dir = \"up\"\nbroker = \"127.0.0.1:{port}\"\n");
    fs::write(site.path("up.toml"), upstream).unwrap();
    let link = site.path("dev");
    let link = link.to_str().unwrap();
    let args = [
        "--no-host-sensors",
        "--rate",
        "1000",
        "--ring",
        "64",
        "--link",
        link,
    ];
    // 64 readings are there in 32 ms: the ring runs over before anybody asks.
    let mut devices = site.start("devices", &[&["device", "sim"], &args[..]].concat());
    wait::until("the device is there", ANSWER_LIMIT, || {
        devices.must_run();
        fs::symlink_metadata(link)
    });
    let agent = site.agent();
    let receiver = site.start("upstream", &["upstream", "--config", "up.toml"]);
    site.until("its readings come", DEVICE, |device| {
        count(&device["ledger"]["readings"]) > 1000
    });
    // It hands over what it still holds, and ends.
    let sim = devices.end_by("INT");
    assert!(sim.success(), "{sim}");
    let device = site.until("it is gone", DEVICE, |device| device["connected"].is_null());
    let here = &device["ledger"];
    let lost = count(&here["gaps"]["by_reason"]["ring_full"]);
    assert!(lost > 0, "{here}");
    assert_eq!(here["closes"], true, "{here}");
    let sums = [&here["readings"], &here["gaps"]["total"], &here["lost"]];
    let taken: u64 = sums.map(count).iter().sum();
    assert_eq!(count(&here["taken"]), taken, "{here}");

    // The receiver's own word, by its config: the same figures once all has come.
    let there = wait::until("all of it is upstream", ANSWER_LIMIT, || {
        let status = site.json(&["status", "--ledger", "--config", "up.toml"])?;
        let device = &status["ledger"]["devices"][0];
        if count(&device["readings"]) == count(&here["readings"]) {
            Ok(device.clone())
        } else {
            Err(status.to_string())
        }
    });
    assert_eq!(
        (&there["device"], &there["gateway"]),
        (&DEVICE.into(), &"g".into())
    );
    assert_eq!(there["gaps"], here["gaps"]);
    assert_eq!(count(&there["produced"]), taken);
    assert_eq!(
        (&there["missing"], &there["closes"]),
        (&0.into(), &true.into())
    );
    assert_eq!(count(&there["boots"][0]["produced"]), taken);
    for args in [
        &["status", "--ledger"][..],
        &["status", "--ledger", "--config", "up.toml"],
        &["upstream", "status", "--ledger", "--config", "up.toml"],
    ] {
        let text = site.text(args).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(
            lines[0].contains("  ring_full  ") && lines[1].starts_with(DEVICE),
            "{text}"
        );
        assert!(lines[1].contains(&format!("  {lost}  ")), "{text}");
        assert!(lines[1].ends_with("yes"), "{text}");
    }
    // Without the ledger it is the receiver's status.
    let status = site.text(&["status", "--config", "up.toml"]).unwrap();
    assert!(
        status.contains("gap_readings") && !status.contains("ledger"),
        "{status}"
    );
    assert!(receiver.end_by("TERM").success());
    assert!(agent.end_by("TERM").success());
}
