//! What is wrong with a gateway, told by the shell and by HTTP: devices that are
//! unplugged and a broker that is not there; and that every number of its status is a
//! metric that Prometheus's own tool takes.

use std::fs;

use forebay_node::api::metrics::{AGENT, coverage};
use forebay_tests::http;
use forebay_tests::process::{ANSWER_LIMIT, Running};
use forebay_tests::wait;
use serde_json::Value;

use super::site::Site;

/// Two partitions with windows over both, a source of tables, a broker that is not there.
fn site() -> Site {
    let site = Site::new(
        r#"
partitions = 2
[alarms]
stalled_min = "3s"
stalled_periods = 2
port_lost_after = "1s"
broker_away_after = "1s"
card_endurance = "30TB"
[api]
listen = "off"
[[device_port]]
kind = "serial"
path = "dev"
[[device_port]]
kind = "serial"
path = "dev-2"
[[device]]
uid = "f0bea00000000001"
name = "boiler"
[[window]]
name = "minute"
kind = "tumbling"
size = "1m"
[[window]]
name = "all"
kind = "tumbling"
size = "1m"
key = ["channel"]
[[table]]
name = "sites"
key = "device"
source = "file"
path = "sites.ndjson"
[forward]
broker = "127.0.0.1:1"
"#,
    );
    fs::write(site.path("sites.ndjson"), "").unwrap();
    site
}

fn devices(site: &Site) -> Running {
    let link = site.path("dev");
    let link = link.to_str().unwrap();
    let args = ["device", "sim", "--devices", "2", "--no-host-sensors"];
    site.start("devices", &[&args[..], &["--link", link]].concat())
}

/// Codes and subjects that there are.
fn alarms(site: &Site) -> Result<Vec<(String, String)>, String> {
    let output = site.run(&["alarms", "--json"]);
    let answer: Value =
        serde_json::from_slice(&output.stdout).map_err(|error| format!("{error}: {output:?}"))?;
    let failed = answer["health"] == "failed";
    assert_eq!(output.status.code(), Some(if failed { 4 } else { 0 }));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = answer["alarms"].as_array().ok_or("no list")?.iter();
    Ok(all
        .map(|alarm| (text(&alarm["code"]), text(&alarm["subject"])))
        .collect())
}

#[track_caller]
fn until(site: &Site, what: &str, wanted: impl Fn(&[(String, String)]) -> bool) {
    wait::until(what, ANSWER_LIMIT, || {
        let alarms = alarms(site)?;
        if wanted(&alarms) {
            Ok(())
        } else {
            Err(format!("{alarms:?}"))
        }
    });
}

fn has(alarms: &[(String, String)], code: &str, subject: &str) -> bool {
    alarms.iter().any(|(c, s)| c == code && s == subject)
}

/// The body of what the socket of HTTP answers.
fn http(site: &Site, path: &str) -> String {
    let (status, body) = http::get(&site.path("data/api.sock"), path);
    assert_eq!(status, 200, "{body}");
    body
}

/// Metrics of which a gateway that was just started has no figure yet, or of parts that
/// this one does not have.
const NOT_HERE: [&str; 9] = [
    "forebay_gap_readings_total",
    "forebay_device_gap_readings_total",
    "forebay_device_boot_gap_readings_total",
    "forebay_port_baud",
    "forebay_port_latency_seconds",
    "forebay_topic_age_limit_seconds",
    "forebay_forward_backlog_eta_seconds",
    "forebay_card_years_left",
    "forebay_device_stack_free_bytes",
];

/// Those that come with time alone: a checkpoint, an hour, a sealed segment, a table's row.
const LATER: [&str; 8] = [
    "forebay_card_written_bytes_per_day",
    "forebay_checkpoint_age_seconds",
    "forebay_checkpoint_interval_seconds",
    "forebay_checkpoint_ingest_per_second",
    "forebay_checkpoint_replay_per_second",
    "forebay_checkpoint_recovery_seconds",
    "forebay_checkpoint_wear_bytes_per_day",
    "forebay_table_watermark_timestamp_seconds",
];

#[test]
fn every_number_of_the_status_is_a_metric_that_prometheus_takes() {
    let site = site();
    let devices = devices(&site);
    let agent = site.agent();
    let status = wait::until("a status with all its parts", ANSWER_LIMIT, || {
        let status = site.json(&["status"])?;
        let all = status["devices"].as_array().is_some_and(|devices| {
            devices.len() == 2 && devices.iter().all(|d| d["ledger"]["device"].is_object())
        });
        let read = status["sources"][0]["lag_bytes"].is_number();
        let wrote = status["card"]["measured"] == true;
        let alarms = !status["alarms"][0].is_null();
        if all && read && wrote && alarms {
            Ok(status)
        } else {
            Err(status.to_string())
        }
    });
    let coverage = coverage(&AGENT, &status);
    assert_eq!(coverage.numbers, Vec::<String>::new());
    let missing = coverage.metrics.iter();
    let missing: Vec<_> = missing
        .filter(|name| !NOT_HERE.contains(name) && !LATER.contains(name))
        .collect();
    assert!(missing.is_empty(), "no source has a figure for {missing:?}");
    let text = http(&site, "/metrics");
    assert_eq!(http::promtool(&text), "", "{text}");
    assert!(text.contains("forebay_device_readings_total{device=\"boiler\"}"));
    assert!(text.contains("\nprocess_resident_memory_bytes "));
    drop(devices);
    assert!(agent.end_by("TERM").success());
}

#[test]
fn what_is_unplugged_is_missed_and_forgiven() {
    let site = site();
    let first = devices(&site);
    let agent = site.agent();
    until(&site, "the broker is missed", |alarms| {
        has(alarms, "broker-away", "default")
    });
    until(&site, "both devices bring records", |alarms| {
        alarms.len() == 1
    });
    first.kill_9();
    until(&site, "ports and devices are missed", |alarms| {
        let ports = alarms
            .iter()
            .filter(|(code, _)| code == "port-lost")
            .count();
        ports == 2 && has(alarms, "ingest-stalled", "all devices")
    });
    let api: Value = serde_json::from_str(&http(&site, "/api/v1/alarms")).unwrap();
    assert_eq!(api["health"], "failed", "{api}");
    let metrics = http(&site, "/metrics");
    let sample =
        "forebay_alarm{code=\"ingest-stalled\",subject=\"all devices\",severity=\"failed\"} 1";
    assert!(metrics.contains(sample), "{metrics}");
    let second = devices(&site);
    until(&site, "all is forgiven but the broker", |alarms| {
        alarms.len() == 1 && has(alarms, "broker-away", "default")
    });
    drop(second);
    assert!(agent.end_by("TERM").success());
    let rows = site.text(&["log", "show", "--topic", "control"]).unwrap();
    for word in ["raised", "cleared", "ingest-stalled", "port-lost"] {
        assert!(rows.contains(word), "{word} in {rows}");
    }
}

#[test]
fn what_stands_in_quarantine_is_told_until_it_was_seen_to() {
    let site = site();
    let folder = site.path("data/quarantine");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("1-g-00000001"), "damaged").unwrap();
    let agent = site.agent();
    until(&site, "it stood there before", |alarms| {
        has(alarms, "quarantine", "files")
    });
    fs::create_dir(folder.join("kept")).unwrap();
    fs::rename(folder.join("1-g-00000001"), folder.join("kept/1")).unwrap();
    until(&site, "it was seen to", |alarms| {
        !has(alarms, "quarantine", "files")
    });
    fs::write(folder.join("by-hand"), "").unwrap();
    until(&site, "something by hand", |alarms| {
        has(alarms, "quarantine", "files")
    });
    assert!(agent.end_by("TERM").success());
    let repaired = site.json(&["log", "repair", "--data-dir", "data"]).unwrap();
    assert!(repaired.to_string().contains("quarantine"), "{repaired}");
    assert!(folder.join("kept/by-hand").exists());
    let agent = site.agent();
    until(&site, "a repair has seen to it", |alarms| {
        has(alarms, "broker-away", "default") && !has(alarms, "quarantine", "files")
    });
    assert!(agent.end_by("TERM").success());
}

#[test]
fn a_receiver_says_what_is_wrong_with_it() {
    let site = Site::new("");
    let config = "[upstream]\nbroker = \"127.0.0.1:1\"\ndata_dir = \"up\"\n\
                  [alarms]\nbroker_away_after = \"1s\"\n";
    fs::write(site.path("up.toml"), config).unwrap();
    let of = ["alarms", "--config", "up.toml"];
    assert_eq!(site.run(&of).status.code(), Some(3), "nobody answers");
    let receiver = site.start("receiver", &["upstream", "--config", "up.toml"]);
    let told = wait::until("its broker is away", ANSWER_LIMIT, || {
        let told = site.json(&of)?;
        match told["alarms"][0]["code"].as_str() {
            Some("broker-away") => Ok(told),
            Some(_) | None => Err(told.to_string()),
        }
    });
    assert_eq!(told["health"], "degraded", "{told}");
    assert_eq!(told["left_out"], 0, "{told}");
    let strict = site.run(&[&of[..], &["--strict"]].concat());
    assert_eq!(strict.status.code(), Some(4));
    let status = site.json(&["upstream", "status", "--config", "up.toml"]);
    assert_eq!(status.unwrap()["health"], "degraded");
    let looked = site.run(&["doctor", "--config", "up.toml", "--csv"]);
    let looked = String::from_utf8(looked.stdout).unwrap();
    for line in [
        "ok,agent.running,,the receiver answers",
        "warn,agent.alarms,broker,",
    ] {
        assert!(looked.contains(line), "{line} in {looked}");
    }
    assert!(receiver.end_by("TERM").success());
}
