//! Orders and settings, with two simulated devices behind ptys.

use forebay_tests::process::Running;
use serde_json::{Value, json};

use super::site::Site;

/// Of the simulated devices, in order.
const BOILER: &str = "f0bea00000000001";
const PUMP: &str = "f0bea00000000002";

pub(crate) fn site() -> Site {
    Site::new(
        r#"
[[device_port]]
kind = "serial"
path = "dev"
[[device_port]]
kind = "serial"
path = "dev-2"
[[device]]
uid = "f0bea00000000001"
name = "boiler"
"#,
    )
}

pub(crate) fn devices(site: &Site) -> Running {
    let link = site.path("dev");
    let link = link.to_str().unwrap();
    let args = [
        "device",
        "sim",
        "--devices",
        "2",
        "--no-host-sensors",
        "--link",
        link,
    ];
    site.start("devices", &args)
}

pub(crate) fn is_open(device: &Value) -> bool {
    device["open"] == true && device["health"].is_object()
}

fn channel<'a>(device: &'a Value, name: &str) -> &'a Value {
    let channels = device["channels"].as_array().unwrap();
    channels
        .iter()
        .find(|channel| channel["channel"] == name)
        .unwrap()
}

#[test]
fn devices_are_listed_and_take_orders_and_settings() {
    let site = site();
    let devices = devices(&site);
    let agent = site.agent();
    let boiler = site.until("the boiler is there", "boiler", is_open);
    site.until("the pump is there", PUMP, is_open);
    assert_eq!(boiler["uid"], BOILER);

    let listed = site.text(&["device", "ls"]).unwrap();
    let lines: Vec<&str> = listed.lines().collect();
    assert_eq!(lines.len(), 3, "{listed}");
    assert!(
        lines[1].starts_with("boiler") && lines[2].starts_with(PUMP),
        "{listed}"
    );

    // Settings, in the channel's own unit, in use when the command ends.
    let set = |more: &[&str]| {
        let set = ["device", "set", "boiler", "--channel", "temperature"];
        site.json(&[&set, more].concat()).unwrap()
    };
    let said = set(&["--period", "250ms", "--threshold", "0.5"]);
    assert_eq!(
        (&said["applied"], &said["version"]),
        (&json!(true), &json!(1))
    );
    let shown = site.until("its Channel says so", "boiler", |device| {
        channel(device, "temperature")["period_us"] == 250_000
    });
    let wanted = &channel(&shown, "temperature")["desired"];
    assert_eq!(wanted, &json!({ "period_us": 250_000, "threshold": 0.5 }));
    let other = channel(&shown, "humidity");
    assert_eq!(other["desired"]["period_us"], Value::Null, "{other}");

    // Once: nothing is kept.
    let once = [
        "device",
        "set",
        "boiler",
        "--channel",
        "humidity",
        "--period",
        "2s",
        "--once",
    ];
    let said = site.text(&once).unwrap();
    assert_eq!(said, "boiler humidity: done, until the device is reset\n");
    site.until("its Channel says so", "boiler", |device| {
        channel(device, "humidity")["period_us"] == 2_000_000 && device["config"]["desired"] == 1
    });

    assert_eq!(
        site.text(&["device", "identify", BOILER]).unwrap(),
        "boiler: done\n"
    );
    let boot = shown["boot"].as_u64().unwrap();
    assert_eq!(
        site.text(&["device", "reboot", "boiler"]).unwrap(),
        "boiler: done\n"
    );
    let again = site.until("the next boot has the settings", "boiler", |device| {
        device["boot"].as_u64() > Some(boot)
            && is_open(device)
            && device["config"]["active"] == 1
            && channel(device, "temperature")["period_us"] == 250_000
    });
    assert_eq!(again["reset_cause"], "software");
    // What was set once went with the boot.
    assert_ne!(channel(&again, "humidity")["period_us"], 2_000_000);

    let ledger = site.text(&["status", "--ledger"]).unwrap();
    let closes = ledger.lines().skip(1).filter(|line| line.ends_with("yes"));
    assert_eq!(closes.count(), 2, "{ledger}");
    assert!(agent.end_by("TERM").success());
    assert!(devices.end_by("INT").success());
}

#[test]
fn a_device_that_is_away_gets_kept_settings_when_it_is_back_and_no_orders() {
    let site = site();
    let first = devices(&site);
    let agent = site.agent();
    site.until("the boiler is there", "boiler", is_open);
    // Not killed: a link that is left behind may soon name the pty of another test.
    assert!(first.end_by("INT").success());
    site.until("the boiler is gone", "boiler", |device| {
        device["connected"].is_null()
    });

    let set = [
        "device",
        "set",
        "boiler",
        "--channel",
        "temperature",
        "--period",
        "1s",
    ];
    let said = site.text(&set).unwrap();
    assert_eq!(
        said,
        "boiler temperature: settings version 1 kept; the device is not connected: it gets it when it is\n"
    );
    let once = [&set[..], &["--once"]].concat();
    for order in [
        &["device", "identify", "boiler"][..],
        &["device", "reboot", "boiler"],
        &once,
    ] {
        let said = site.refused(order);
        assert_eq!(said, "forebay: boiler is not connected\n", "{order:?}");
    }
    // Kept over a restart of the agent, too.
    agent.kill_9();
    let agent = site.agent();
    let _again = devices(&site);
    site.until("it has the settings", "boiler", |device| {
        device["config"]["active"] == 1 && channel(device, "temperature")["period_us"] == 1_000_000
    });
    assert!(agent.end_by("TERM").success());
}

#[test]
fn what_cannot_be_done_is_said_with_what_there_is() {
    let site = site();
    let nobody = site.ended(&["device", "ls"], 3);
    assert!(nobody.contains("nobody answers at"), "{nobody}");
    let _devices = devices(&site);
    let agent = site.agent();
    site.until("the boiler is there", "boiler", is_open);
    site.until("the pump is there", PUMP, is_open);
    for (args, want) in [
        (
            &["device", "show", "boilr"][..],
            "no device is called \"boilr\" (did you mean \"boiler\"?): connected are boiler, f0bea00000000002",
        ),
        (
            &["device", "reboot", "0000000000000000"],
            "connected are boiler",
        ),
        (
            &["device", "log", "boilr"],
            "no device is called \"boilr\" (did you mean \"boiler\"?): connected are boiler, f0bea00000000002",
        ),
        (
            &[
                "device",
                "set",
                "boiler",
                "--channel",
                "temprature",
                "--period",
                "1s",
            ],
            "boiler has no channel \"temprature\" (did you mean \"temperature\"?): it has temperature, humidity",
        ),
    ] {
        let said = site.refused(args);
        assert!(said.contains(want), "{args:?}: {said}");
    }
    for (args, want) in [
        (
            &["device", "set", "boiler", "--channel", "temperature"][..],
            "--period <DURATION>",
        ),
        (
            &[
                "device",
                "set",
                "boiler",
                "--channel",
                "temperature",
                "--period",
                "5h",
            ],
            "must be from 1ms to 1h, or built",
        ),
    ] {
        let output = site.run(args);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(want), "{args:?}: {said}");
    }
    assert!(agent.end_by("TERM").success());
}
