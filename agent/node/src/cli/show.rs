//! Answers as a person reads them.

use std::fmt::Write as _;

use forebay_core::limits::LIVE_SERIES_MAX;
use serde_json::Value;

use crate::shell::output::{Sheet, bytes as size, figure as number};
use crate::shell::{sheets, spark, width};

fn text(value: &Value) -> String {
    width::clean(value.as_str().unwrap_or("-"))
}

fn seconds(micros: &Value) -> String {
    let micros = micros.as_i64().unwrap_or_default();
    format!("{} s", micros as f64 / 1e6)
}

fn preliminary(value: &Value) -> &'static str {
    if value.as_bool() == Some(true) {
        "  preliminary"
    } else {
        ""
    }
}

/// One rolling figure.
pub(super) fn rolling(answer: &Value) -> String {
    format!(
        "{} {}  mean {} {}  (min {}, max {}, {} readings in {} to {}){}",
        text(&answer["device"]),
        text(&answer["channel"]),
        number(&answer["mean"]),
        text(&answer["unit"]),
        number(&answer["min"]),
        number(&answer["max"]),
        number(&answer["count"]),
        seconds(&answer["window_us"]),
        text(&answer["time"]),
        preliminary(&answer["preliminary"]),
    )
}

/// A line per window, under the means as bars.
pub(super) fn rollup(answer: &Value) -> String {
    let size = seconds(&answer["size_us"]);
    let windows = format!(", windows of {size}");
    let mut out = series(answer, &sheets::ROLLUP, ("windows", "mean"), &windows);
    if let Some(stream) = answer["source"].as_str().filter(|name| *name != "readings") {
        let _ = write!(out, "\n(from the rows of {stream})");
    }
    out
}

/// A line per reading, under the values as bars.
pub(super) fn readings(answer: &Value) -> String {
    let mut out = series(answer, &sheets::READINGS, ("readings", "value"), "");
    if answer["older_left_out"].as_bool() == Some(true) {
        out.push_str("\n(older ones are left out: give --from and --to)");
    }
    out
}

/// Whose figures they are, how they went, and the figures.
fn series(answer: &Value, sheet: &Sheet, (list, figure): (&str, &str), more: &str) -> String {
    let (device, channel) = (text(&answer["device"]), text(&answer["channel"]));
    let unit = text(&answer["unit"]);
    let mut out = format!("{device} {channel} [{unit}]{more}");
    let rows = answer[list].as_array().map_or(&[][..], Vec::as_slice);
    let values: Vec<Option<f64>> = rows.iter().map(|row| row[figure].as_f64()).collect();
    if values.len() > 1 {
        let _ = write!(out, "\n{}", spark::fitted(&values, spark::WIDE));
    }
    let _ = write!(out, "\n{}", sheet.text(answer));
    if let Some(from) = answer["complete_from"].as_str() {
        let _ = write!(out, "\n(complete from {from} on only)");
    }
    out
}

fn port_line(port: &Value) -> String {
    let mut line = format!(
        "port {}  {}{}  in {} bytes  out {} bytes  bad frames {}  opened {}",
        text(&port["name"]),
        text(&port["state"]),
        behind(port),
        number(&port["bytes_in"]),
        number(&port["bytes_out"]),
        number(&port["frames_bad"]),
        number(&port["opens"]),
    );
    if let Some(error) = port["last_error"].as_str() {
        let _ = write!(line, "\n  last error: {error}");
    }
    line
}

/// For how long a port has been as it is, what is open, and who is behind it.
fn behind(port: &Value) -> String {
    let mut out = String::new();
    if let Some(seconds) = port["state_s"].as_u64() {
        let _ = write!(out, " for {seconds} s");
    }
    if let Some(tty) = port["tty"].as_str().filter(|tty| port["place"] != **tty) {
        let _ = write!(out, "  {tty}");
    }
    if let Some(usb) = port["usb"]["usb"].as_str() {
        let _ = write!(out, "  usb {usb}");
        if let Some(interface) = port["usb"]["interface"].as_u64() {
            let _ = write!(out, " interface {interface}");
        }
    }
    if let Some(baud) = port["baud"].as_u64() {
        let _ = write!(out, "  {baud} baud");
    }
    if let Some(held) = port["latency_ms"].as_u64().filter(|held| *held > 1) {
        let _ = write!(out, "  its USB adapter holds bytes back for {held} ms");
    }
    out
}

/// Where forwarding to each destination stands.
fn destinations(answer: &Value) -> String {
    let all = answer["destinations"].as_array();
    let lines: Vec<String> = all.into_iter().flatten().map(forward).collect();
    if lines.is_empty() {
        return String::from("forward: not configured");
    }
    lines.join("\n")
}

/// Where one stands, on one line; what is wrong with it, on the next ones.
fn forward(status: &Value) -> String {
    let link = match (&status["connected"], &status["receiver_online"]) {
        (Value::Bool(true), Value::Bool(true)) => "broker and receiver online",
        (Value::Bool(true), _) => "broker online, no receiver of ours",
        _ => "no broker",
    };
    let name = match status["name"].as_str() {
        None | Some("default") => String::new(),
        Some(name) => format!(" {name}"),
    };
    let mut out = format!(
        "forward{name}: {link}  backlog {}  unconfirmed {}  published {}  resent {}  refused {}  parked {}",
        number(&status["backlog"]),
        number(&status["unconfirmed"]),
        number(&status["published"]),
        number(&status["resent"]),
        number(&status["refused"]),
        number(&status["parked"]),
    );
    if status["backlog"].as_u64().is_some_and(|n| n > 0) {
        let _ = write!(out, "\n  {}", backlog(status));
    }
    for reason in ["stall", "last_disconnect", "last_refusal"] {
        if let Some(text) = status[reason].as_str() {
            let _ = write!(out, "\n  {}: {text}", reason.replace('_', " "));
        }
    }
    out
}

/// How much waits, since when, and how long it takes.
fn backlog(status: &Value) -> String {
    let mut out = format!("waiting: about {}", size(&status["backlog_bytes"]));
    if let Some(oldest) = status["oldest_unsent"].as_str() {
        let _ = write!(out, " from {oldest}");
    }
    let _ = write!(out, "  {} readings/s", number(&status["rate"]));
    if let Some(seconds) = status["eta_s"].as_u64() {
        let _ = write!(out, "  sent in {seconds} s");
    }
    out
}

/// How full the disk and each topic that holds anything is.
fn space(space: &Value) -> String {
    let mut out = format!(
        "\ndisk: free {}  reserve {}  not sealed {}",
        size(&space["free_bytes"]),
        size(&space["reserve_bytes"]),
        size(&space["live_bytes"]),
    );
    for topic in space["topics"].as_array().into_iter().flatten() {
        let count = |name: &str| topic[name].as_u64().unwrap_or_default();
        let (dropped, rejected) = (count("dropped"), count("rejected"));
        if count("used_bytes") + dropped + rejected == 0 {
            continue;
        }
        let _ = write!(
            out,
            "\n  {:<16} {} of {} ({} %)  {}  from {}",
            text(&topic["topic"]),
            size(&topic["used_bytes"]),
            size(&topic["quota_bytes"]),
            number(&topic["used_percent"]),
            text(&topic["when_full"]),
            text(&topic["oldest"]),
        );
        if dropped > 0 {
            let unsent = count("dropped_unsent");
            let _ = write!(out, "  dropped {dropped} ({unsent} not forwarded)");
        }
        if rejected > 0 {
            let _ = write!(out, "  rejected {rejected}");
        }
        match (&topic["full"], &topic["alarm"]) {
            (Value::Bool(true), _) => out.push_str("  FULL"),
            (_, Value::Bool(true)) => out.push_str("  nearly full"),
            _ => {}
        }
    }
    out
}

/// How the state of each engine is kept, a line each.
fn checkpoints(status: &Value) -> String {
    let mut out = String::new();
    for kept in status.as_array().into_iter().flatten() {
        let partition = number(&kept["partition"]);
        let _ = write!(out, "\ncheckpoint of partition {partition}: ");
        if kept["epoch"].as_u64().unwrap_or_default() == 0 {
            out.push_str("none yet");
        } else {
            let _ = write!(
                out,
                "number {} at offset {}, {:.0} s old, {}",
                number(&kept["epoch"]),
                number(&kept["offset"]),
                kept["age_us"].as_f64().unwrap_or_default() / 1e6,
                size(&kept["bytes"]),
            );
        }
        let since = number(&kept["readings_since"]);
        let wear = size(&kept["wear_bytes_per_day"]);
        let _ = write!(out, "; {since} readings since, {wear} a day written");
    }
    out
}

/// Tables with the rows that they have, a line each, and what is wrong with their sources.
fn tables(answer: &Value) -> String {
    let mut out = String::new();
    for table in answer["tables"].as_array().into_iter().flatten() {
        let source = &table["source"];
        let _ = write!(
            out,
            "\ntable {}  {} {}  rows {}  changes {}  known until {}",
            text(&table["table"]),
            text(&source["kind"]),
            text(&source["state"]),
            number(&table["rows"]),
            number(&table["changes"]),
            text(&table["watermark"]),
        );
        if source["lag_bytes"].as_u64().is_some_and(|bytes| bytes > 0) {
            let _ = write!(out, "  behind {}", size(&source["lag_bytes"]));
        }
        if source["malformed"].as_u64().is_some_and(|count| count > 0) {
            let _ = write!(out, "  malformed {}", number(&source["malformed"]));
        }
        for name in ["why", "last_error"] {
            if let Some(text) = source[name].as_str() {
                let _ = write!(out, "\n  {text}");
            }
        }
    }
    out
}

/// What is wrong; `forebay alarms` says more of it.
fn alarms(answer: &Value) -> String {
    let mut out = String::new();
    if let Some(trouble) = answer["space"]["trouble"].as_str() {
        let _ = write!(out, "\n! {trouble}");
    }
    for alarm in answer["alarms"].as_array().into_iter().flatten() {
        let _ = write!(
            out,
            "\n! {}, {}: {}",
            text(&alarm["code"]),
            text(&alarm["subject"]),
            text(&alarm["text"]),
        );
    }
    out
}

/// That there are more channels than are told of.
fn not_shown(answer: &Value) -> String {
    match answer["readings_not_shown"].as_u64() {
        None | Some(0) => String::new(),
        Some(count) => format!(
            "\n! {count} readings are of channels beyond the first {LIVE_SERIES_MAX} of a partition: \
             stored and computed, but neither shown here nor found by queries; see them with \
             forebay tail --device, or give [agent] more partitions for those to come"
        ),
    }
}

/// The agent at a glance.
pub(super) fn status(answer: &Value) -> String {
    let mut out = format!(
        "gateway {}  log {} epoch {}\nreceived {}  stored {}  duplicates {}  gaps {}  result rows {}",
        text(&answer["gateway"]),
        text(&answer["log_id"]),
        number(&answer["epoch"]),
        number(&answer["received"]),
        number(&answer["stored"]),
        number(&answer["duplicates"]),
        number(&answer["gaps"]["total"]),
        number(&answer["rows"]),
    );
    out.push_str(&alarms(answer));
    out.push_str(&not_shown(answer));
    out.push('\n');
    out.push_str(&destinations(answer));
    out.push_str(&space(&answer["space"]));
    out.push_str(&checkpoints(&answer["checkpoints"]));
    out.push_str(&tables(answer));
    for port in answer["ports"].as_array().into_iter().flatten() {
        let _ = write!(out, "\n{}", port_line(port));
    }
    for device in answer["devices"].as_array().into_iter().flatten() {
        let _ = write!(
            out,
            "\n{}  received {}  gaps {}",
            text(&device["device"]),
            number(&device["received"]),
            number(&device["gaps"]["total"]),
        );
        for channel in device["channels"].as_array().into_iter().flatten() {
            let _ = write!(
                out,
                "\n  {} {} {} {}",
                width::left(&text(&channel["channel"]), 20),
                width::right(&number(&channel["value"]), 12),
                width::left(&text(&channel["unit"]), 8),
                text(&channel["time"]),
            );
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_status_lines_up_wide_names_and_says_what_it_does_not_show() {
        let mut answer = json!({ "gateway": "gw", "devices": [{ "device": "d", "channels": [
            { "channel": "温度計", "value": 1e300, "unit": "度", "time": "t" },
            { "channel": "temperature", "value": 1.5, "unit": "degC", "time": "t" },
        ] }] });
        let told = status(&answer);
        let lines: Vec<&str> = told.lines().rev().take(2).collect();
        assert_eq!(lines[1], "  温度計                  1.000e300 度       t");
        assert_eq!(lines[0], "  temperature                 1.500 degC     t");
        assert!(!told.contains("beyond"), "{told}");
        answer["readings_not_shown"] = json!(7);
        let told = status(&answer);
        let said = "! 7 readings are of channels beyond the first 16384 of a partition";
        assert!(told.contains(said), "{told}");
    }

    #[test]
    fn tables_show_where_they_come_from_and_what_is_wrong() {
        let sites = json!({
            "table": "sites", "rows": 3, "changes": 9, "watermark": "2026-03-01T00:00:00Z",
            "source": {
                "kind": "file", "state": "waiting", "why": "s.ndjson: No such file",
                "lag_bytes": 2048, "malformed": 1, "last_error": "s.ndjson line 4 is no change",
            },
        });
        let limits = json!({
            "table": "limits", "rows": 1, "changes": 1, "watermark": "always",
            "source": { "kind": "config", "state": "streaming" },
        });
        assert_eq!(
            tables(&json!({ "tables": [sites, limits] })),
            "\ntable sites  file waiting  rows 3  changes 9  known until 2026-03-01T00:00:00Z  \
             behind 2.0 KiB  malformed 1\n  s.ndjson: No such file\n  s.ndjson line 4 is no change\
             \ntable limits  config streaming  rows 1  changes 1  known until always"
        );
        assert_eq!(tables(&json!({})), "");
    }

    #[test]
    fn checkpoints_show_how_old_they_are_and_what_they_cost() {
        let kept = |partition: u64, epoch: u64| {
            json!({
                "partition": partition, "epoch": epoch, "offset": 1234, "age_us": 4_600_000,
                "bytes": 2048, "readings_since": 7, "wear_bytes_per_day": 3145728.5,
            })
        };
        assert_eq!(
            checkpoints(&json!([kept(0, 3), kept(1, 0)])),
            "\ncheckpoint of partition 0: number 3 at offset 1234, 5 s old, 2.0 KiB; \
             7 readings since, 3.0 MiB a day written\
             \ncheckpoint of partition 1: none yet; 7 readings since, 3.0 MiB a day written"
        );
        assert_eq!(checkpoints(&Value::Null), "");
    }

    #[test]
    fn ports_show_who_is_there_and_since_when() {
        let port = |state: &str, open: Value| {
            let mut port = json!({
                "name": "usb 0403:6001", "place": "usb 0403:6001", "state": state, "state_s": 20,
                "bytes_in": 5, "bytes_out": 6, "opens": 2, "frames_bad": 0,
            });
            for (name, value) in open.as_object().into_iter().flatten() {
                port[name] = value.clone();
            }
            port_line(&port)
        };
        let usb = json!({ "usb": "0403:6001:FT1", "interface": 0 });
        for (name, line, want) in [
            (
                "open",
                port(
                    "open",
                    json!({ "tty": "/dev/ttyUSB3", "usb": usb, "baud": 115_200, "latency_ms": 16 }),
                ),
                "port usb 0403:6001  open for 20 s  /dev/ttyUSB3  usb 0403:6001:FT1 interface 0  \
                 115200 baud  its USB adapter holds bytes back for 16 ms  \
                 in 5 bytes  out 6 bytes  bad frames 0  opened 2",
            ),
            (
                "gone",
                port(
                    "waiting",
                    json!({ "usb": usb, "last_error": "the device is gone" }),
                ),
                "port usb 0403:6001  waiting for 20 s  usb 0403:6001:FT1 interface 0  \
                 in 5 bytes  out 6 bytes  bad frames 0  opened 2\n  last error: the device is gone",
            ),
            (
                "a path is not said twice",
                port(
                    "open",
                    json!({ "place": "/dev/ttyS0", "tty": "/dev/ttyS0" }),
                ),
                "port usb 0403:6001  open for 20 s  \
                 in 5 bytes  out 6 bytes  bad frames 0  opened 2",
            ),
        ] {
            assert_eq!(line, want, "{name}");
        }
    }

    #[test]
    fn each_destination_says_what_waits_and_why() {
        let cloud = json!({
            "name": "cloud", "connected": false, "backlog": 7, "unconfirmed": 9,
            "published": 5, "resent": 1, "refused": 0, "parked": 0,
            "backlog_bytes": 2048, "oldest_unsent": "2026-01-01T00:00:00Z",
            "rate": 3, "eta_s": 3, "stall": "no connection",
        });
        let mut near = cloud.clone();
        near["name"] = json!("default");
        near["connected"] = json!(true);
        near["backlog"] = json!(0);
        near["stall"] = Value::Null;
        let shown = destinations(&json!({ "destinations": [near, cloud] }));
        assert_eq!(
            shown,
            "forward: broker online, no receiver of ours  backlog 0  unconfirmed 9  published 5  \
             resent 1  refused 0  parked 0\n\
             forward cloud: no broker  backlog 7  unconfirmed 9  published 5  resent 1  refused 0  \
             parked 0\n  waiting: about 2.0 KiB from 2026-01-01T00:00:00Z  3 readings/s  \
             sent in 3 s\n  stall: no connection"
        );
        assert_eq!(destinations(&json!({})), "forward: not configured");
    }

    #[test]
    fn topics_show_what_an_operator_has_to_know() {
        let topic = |name: &str, used: u64, dropped: u64, full: bool| {
            json!({
                "topic": name, "used_bytes": used, "quota_bytes": 8_u64 << 30,
                "used_percent": 83, "when_full": "drop_oldest",
                "oldest": "2026-01-01T00:00:00Z", "dropped": dropped,
                "dropped_unsent": 2, "rejected": 0, "alarm": true, "full": full,
            })
        };
        let answer = json!({
            "free_bytes": null, "reserve_bytes": 1 << 20, "live_bytes": 1023,
            "topics": [
                topic("readings", 7 << 30, 5, false),
                topic("late", 0, 0, false),
                topic("w", 1536, 0, true),
            ],
        });
        assert_eq!(
            space(&answer),
            "\ndisk: free -  reserve 1.0 MiB  not sealed 1023 B\
             \n  readings         7.0 GiB of 8.0 GiB (83 %)  drop_oldest  \
             from 2026-01-01T00:00:00Z  dropped 5 (2 not forwarded)  nearly full\
             \n  w                1.5 KiB of 8.0 GiB (83 %)  drop_oldest  \
             from 2026-01-01T00:00:00Z  FULL"
        );
    }
}
