//! Answers as a person reads them.

use std::fmt::Write as _;
use std::process::ExitCode;

use serde_json::Value;

use crate::terminal::print_line;

/// A figure with at most three decimals; a dash for none.
#[must_use]
pub(super) fn number(value: &Value) -> String {
    match value.as_f64() {
        Some(figure) if figure.fract() == 0.0 && figure.abs() < 1e9 => format!("{figure:.0}"),
        Some(figure) => format!("{figure:.3}"),
        None => String::from("-"),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("-")
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
pub(super) fn rolling(answer: &Value) -> ExitCode {
    print_line(&format!(
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
    ))
}

/// A line per window.
pub(super) fn rollup(answer: &Value) -> ExitCode {
    let mut out = format!(
        "{} {} [{}], windows of {}\n",
        text(&answer["device"]),
        text(&answer["channel"]),
        text(&answer["unit"]),
        seconds(&answer["size_us"]),
    );
    let head = ["start", "count", "mean", "min", "max"];
    let [start, count, mean, min, max] = head;
    let _ = write!(out, "{start:<28} {count:>8} {mean:>12} {min:>12} {max:>12}");
    for line in answer["windows"].as_array().into_iter().flatten() {
        let _ = write!(
            out,
            "\n{:<28} {:>8} {:>12} {:>12} {:>12}{}",
            text(&line["start"]),
            number(&line["count"]),
            number(&line["mean"]),
            number(&line["min"]),
            number(&line["max"]),
            preliminary(&line["preliminary"]),
        );
    }
    print_line(&out)
}

/// A line per reading.
pub(super) fn readings(answer: &Value) -> ExitCode {
    let mut out = format!(
        "{} {} [{}]",
        text(&answer["device"]),
        text(&answer["channel"]),
        text(&answer["unit"]),
    );
    for line in answer["readings"].as_array().into_iter().flatten() {
        let fault = line["quality"].as_str().unwrap_or_default();
        let value = number(&line["value"]);
        let _ = write!(out, "\n{:<28} {value:>12} {fault}", text(&line["time"]));
    }
    if answer["older_left_out"].as_bool() == Some(true) {
        let _ = write!(out, "\n(older ones are left out: give --from and --to)");
    }
    print_line(&out)
}

fn port_line(port: &Value) -> String {
    let mut line = format!(
        "port {}  {}  in {} bytes  out {} bytes  bad frames {}  opened {}",
        text(&port["name"]),
        text(&port["state"]),
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

/// Where forwarding stands, on one line; what is wrong with it, on a second.
fn forward(status: &Value) -> String {
    if !status.is_object() {
        return String::from("forward: not configured");
    }
    let link = match (&status["connected"], &status["receiver_online"]) {
        (Value::Bool(true), Value::Bool(true)) => "broker and receiver online",
        (Value::Bool(true), _) => "broker online, no receiver of ours",
        _ => "no broker",
    };
    let mut out = format!(
        "forward: {link}  backlog {}  unconfirmed {}  published {}  resent {}  refused {}  parked {}",
        number(&status["backlog"]),
        number(&status["unconfirmed"]),
        number(&status["published"]),
        number(&status["resent"]),
        number(&status["refused"]),
        number(&status["parked"]),
    );
    for reason in ["last_disconnect", "last_refusal"] {
        if let Some(text) = status[reason].as_str() {
            let _ = write!(out, "\n  {}: {text}", reason.replace('_', " "));
        }
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

/// Bytes in the largest unit that keeps a digit before the point; a dash for none.
fn size(value: &Value) -> String {
    let Some(bytes) = value.as_u64() else {
        return String::from("-");
    };
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match units.iter().find(|(_, shift)| bytes >> shift > 0) {
        Some((name, shift)) => format!("{:.1} {name}", bytes as f64 / (1_u64 << shift) as f64),
        None => format!("{bytes} B"),
    }
}

/// The agent at a glance.
pub(super) fn status(answer: &Value) -> ExitCode {
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
    if let Some(health) = answer["health"].as_str() {
        let _ = write!(out, "\n! {health}");
    }
    out.push('\n');
    out.push_str(&forward(&answer["forward"]));
    out.push_str(&space(&answer["space"]));
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
                "\n  {:<20} {:>12} {:<8} {}",
                text(&channel["channel"]),
                number(&channel["value"]),
                text(&channel["unit"]),
                text(&channel["time"]),
            );
        }
    }
    print_line(&out)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
