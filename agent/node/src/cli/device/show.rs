//! Devices as a person reads them.

use std::fmt::Write as _;

use serde_json::Value;

use crate::shell::output::figure as number;
use crate::shell::{sheets, width};

fn text(value: &Value) -> String {
    width::clean(value.as_str().unwrap_or("-"))
}

/// A count; a dash for none.
fn count(value: &Value) -> String {
    let count = value.as_u64().or(value.as_i64().map(i64::unsigned_abs));
    count.map_or(String::from("-"), |count| count.to_string())
}

fn connection(device: &Value) -> String {
    match (device["connected"].as_u64(), device["open"].as_bool()) {
        (Some(port), Some(true)) => format!("port {port}"),
        (Some(port), _) => format!("port {port}, opening"),
        (None, _) => String::from("no"),
    }
}

fn closes(ledger: &Value) -> &'static str {
    match ledger["closes"].as_bool() {
        Some(true) => "yes",
        Some(false) => "NO",
        None => "-",
    }
}

/// All of one device.
pub(super) fn whole(device: &Value) -> String {
    let mut out = format!(
        "{}  uid {}  connected {}",
        text(&device["device"]),
        text(&device["uid"]),
        connection(device),
    );
    if device["firmware"].is_string() {
        let _ = write!(
            out,
            "\nfirmware {}  build id {}  schema {}  protocol 1.{}\
             \nboot {}  reset {}  ring {} readings",
            text(&device["firmware"]),
            text(&device["build_id"]),
            text(&device["schema"]),
            count(&device["protocol_minor"]),
            count(&device["boot"]),
            text(&device["reset_cause"]),
            count(&device["ring_capacity"]),
        );
    }
    out.push_str(&clock(&device["clock"]));
    out.push_str(&config(&device["config"]));
    out.push_str(&health(&device["health"]));
    out.push_str(&ledger(&device["ledger"]));
    out.push_str(&channels(device));
    out
}

fn clock(clock: &Value) -> String {
    if !clock.is_object() {
        return String::new();
    }
    let mut out = format!("\nclock {} samples", count(&clock["samples"]));
    for (name, said) in [
        ("round_trip_us", "round trip"),
        ("uncertainty_us", "uncertainty"),
    ] {
        if !clock[name].is_null() {
            let _ = write!(out, "  {said} {} us", number(&clock[name]));
        }
    }
    if !clock["drift_ppm"].is_null() {
        let _ = write!(out, "  drift {} ppm", number(&clock["drift_ppm"]));
    }
    out
}

fn config(config: &Value) -> String {
    let (active, desired) = (&config["active"], &config["desired"]);
    let refused = config["refused"].as_u64().unwrap_or_default();
    if desired.as_u64().unwrap_or_default() == 0 {
        return String::new();
    }
    let mut out = format!("\nsettings version {}", count(desired));
    if active == desired {
        out.push_str(", in use");
    } else if desired.as_u64() == Some(refused) {
        out.push_str(", REFUSED by the device");
    } else {
        let _ = write!(out, ", not there yet (it runs {})", count(active));
    }
    out
}

fn health(health: &Value) -> String {
    if !health.is_object() {
        return String::new();
    }
    let received = &health["received"];
    let bad = [
        "cobs_bad",
        "crc_bad",
        "overlong",
        "unknown_kind",
        "body_bad",
    ];
    let bad: u64 = bad.iter().filter_map(|name| received[*name].as_u64()).sum();
    let age = health["age_us"].as_f64().unwrap_or_default() / 1e6;
    let mut out = format!(
        "\nhealth {age:.0} s ago: produced {}  acked {}  waiting {}  gaps {}  suppressed {}\
         \n  ring at most {}  frames {} good, {bad} bad  resends {}  missed {}  log lines dropped {}",
        count(&health["produced"]),
        count(&health["acked"]),
        count(&health["waiting"]),
        count(&health["gaps"]["total"]),
        count(&health["suppressed"]),
        count(&health["ring_high"]),
        count(&received["ok"]),
        count(&health["resends"]),
        count(&health["missed"]),
        count(&health["log_dropped"]),
    );
    if health["stack_free"].is_u64() {
        let _ = write!(out, "  stack free {} bytes", count(&health["stack_free"]));
    }
    if health["rx_dropped"].as_u64() > Some(0) {
        let _ = write!(out, "  bytes lost {}", count(&health["rx_dropped"]));
    }
    out
}

fn ledger(ledger: &Value) -> String {
    if !ledger.is_object() {
        return String::new();
    }
    let mut out = format!(
        "\nledger: produced {}  readings {}  gaps {}  lost {}  missing {}  duplicates {}  closes {}",
        count(&ledger["produced"]),
        count(&ledger["readings"]),
        count(&ledger["gaps"]["total"]),
        count(&ledger["lost"]),
        count(&ledger["missing"]),
        count(&ledger["duplicates"]),
        closes(ledger),
    );
    for boot in ledger["boots"].as_array().into_iter().flatten() {
        let _ = write!(
            out,
            "\n  boot {}  reset {}  produced {}  readings {}  gaps {}  lost {}  {} to {}",
            count(&boot["boot"]),
            text(&boot["reset_cause"]),
            count(&boot["produced"]),
            count(&boot["readings"]),
            count(&boot["gaps"]["total"]),
            count(&boot["lost"]),
            text(&boot["first"]),
            text(&boot["last"]),
        );
    }
    out
}

fn channels(device: &Value) -> String {
    match device["channels"].as_array() {
        Some(channels) if !channels.is_empty() => {
            format!("\n{}", sheets::DEVICE_CHANNELS.text(device))
        }
        Some(_) | None => String::new(),
    }
}

/// What became of a setting.
pub(super) fn set(answer: &Value) -> String {
    let mut out = format!("{} {}: ", text(&answer["device"]), text(&answer["channel"]));
    if answer["once"] == true {
        out.push_str("done, until the device is reset");
        return out;
    }
    let _ = write!(out, "settings version {} ", count(&answer["version"]));
    match (answer["applied"].as_bool(), answer["note"].as_str()) {
        (Some(true), _) => out.push_str("in use"),
        (_, Some(note)) => out.push_str(note),
        (_, None) => out.push_str("kept"),
    }
    out
}

/// What a device did.
pub(super) fn done(answer: &Value) -> String {
    format!("{}: done", text(&answer["device"]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn device() -> Value {
        json!({
            "device": "boiler", "uid": "0123456789abcdef", "connected": 2, "open": true,
            "boot": 7, "reset_cause": "watchdog", "firmware": "0.1.0",
            "build_id": "00112233445566ff", "schema": "same", "protocol_minor": 1,
            "ring_capacity": 2048,
            "clock": { "samples": 64, "round_trip_us": 900, "uncertainty_us": 460.5, "drift_ppm": -12.25 },
            "config": { "active": 2, "desired": 3, "refused": 0 },
            "health": {
                "age_us": 1_400_000, "produced": 10, "acked": 7, "waiting": 1,
                "gaps": { "total": 2 }, "suppressed": 4, "ring_high": 5,
                "received": { "ok": 9, "crc_bad": 1, "cobs_bad": 2 }, "rx_dropped": 3,
                "resends": 1, "missed": 0, "log_dropped": 0, "stack_free": 800,
            },
            "ledger": {
                "produced": 10, "readings": 7, "gaps": { "total": 2 }, "lost": 0, "missing": 1,
                "duplicates": 0, "closes": true,
                "boots": [{ "boot": 7, "reset_cause": null, "produced": 10, "readings": 7,
                    "gaps": { "total": 2 }, "lost": 0, "first": "2026-01-01T00:00:00Z", "last": null }],
            },
            "channels": [
                { "channel": "temperature", "unit": "degC", "range": [-55.0, 125.0],
                  "period_us": 500_000, "desired": { "period_us": null, "threshold": 0.5 },
                  "errors": 0, "newest": { "value": 21.5, "time": "2026-01-01T00:00:00Z" } },
                { "channel": "x", "unit": "", "range": [0.0, 1.0], "period_us": 1,
                  "desired": { "period_us": 60_000_000, "threshold": 0.0 }, "errors": 3,
                  "newest": { "value": null, "quality": "bus_error", "time": "2026-01-01T00:00:00Z" } },
            ],
        })
    }

    #[test]
    fn a_device_is_shown_whole() {
        assert_eq!(
            whole(&device()),
            "boiler  uid 0123456789abcdef  connected port 2\n\
             firmware 0.1.0  build id 00112233445566ff  schema same  protocol 1.1\n\
             boot 7  reset watchdog  ring 2048 readings\n\
             clock 64 samples  round trip 900 us  uncertainty 460.500 us  drift -12.250 ppm\n\
             settings version 3, not there yet (it runs 2)\n\
             health 1 s ago: produced 10  acked 7  waiting 1  gaps 2  suppressed 4\n  \
             ring at most 5  frames 9 good, 3 bad  resends 1  missed 0  log lines dropped 0  \
             stack free 800 bytes  bytes lost 3\n\
             ledger: produced 10  readings 7  gaps 2  lost 0  missing 1  duplicates 0  closes yes\n  \
             boot 7  reset -  produced 10  readings 7  gaps 2  lost 0  2026-01-01T00:00:00Z to -\n\
             channel      unit  from   to  period  wanted  threshold  errors  newest  quality    at\n\
             temperature  degC   -55  125  500 ms       -      0.500       0  21.500  ok         2026-01-01T00:00:00Z\n\
             x                     0    1    1 us    60 s          0       3       -  bus_error  2026-01-01T00:00:00Z"
        );
        let unheard = json!({ "device": "d", "uid": "u", "connected": null, "ledger": null });
        assert_eq!(whole(&unheard), "d  uid u  connected no");
    }

    #[test]
    fn devices_are_listed_a_line_each() {
        let unheard = json!({ "device": "old", "uid": "1123456789abcdef", "connected": null });
        assert_eq!(
            sheets::DEVICES.text(&json!({ "devices": [device(), unheard] })),
            "device  uid               port  boot  reset     firmware  channels  waiting  closes\n\
             boiler  0123456789abcdef     2     7  watchdog  0.1.0            2        1  yes\n\
             old     1123456789abcdef     -     -  -         -                -        -  -"
        );
        assert_eq!(
            sheets::DEVICES.text(&json!({ "devices": [] })),
            "no device was heard of yet"
        );
    }

    #[test]
    fn settings_say_where_they_are() {
        let answer = |more: Value| {
            let mut answer =
                json!({ "device": "boiler", "channel": "t", "once": false, "version": 3 });
            for (name, value) in more.as_object().into_iter().flatten() {
                answer[name] = value.clone();
            }
            set(&answer)
        };
        for (more, want) in [
            (
                json!({ "applied": true }),
                "boiler t: settings version 3 in use",
            ),
            (
                json!({ "applied": false, "note": "kept; the device is not connected" }),
                "boiler t: settings version 3 kept; the device is not connected",
            ),
            (
                json!({ "once": true }),
                "boiler t: done, until the device is reset",
            ),
        ] {
            assert_eq!(answer(more), want);
        }
        for (config_is, want) in [
            (
                json!({ "active": 3, "desired": 3 }),
                "\nsettings version 3, in use",
            ),
            (
                json!({ "active": 0, "desired": 3, "refused": 3 }),
                "\nsettings version 3, REFUSED by the device",
            ),
            (json!({ "active": 0, "desired": 0 }), ""),
        ] {
            assert_eq!(config(&config_is), want);
        }
    }
}
