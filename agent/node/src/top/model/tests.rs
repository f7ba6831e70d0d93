//! What the live view makes of answers of an agent, given by hand.

use serde_json::json;

use super::*;
use crate::top::view;

const SECOND: i64 = 1_000_000;

fn key(channel: &str) -> Key {
    (String::from("00000000000000ab"), String::from(channel))
}

/// A status with `count` readings of each channel, the newest a second old.
fn status(channels: &[(&str, f64, u64)]) -> Value {
    let channels = channels.iter().map(|(channel, value, count)| {
        json!({ "channel": channel, "unit": "degC", "time": "1970-01-01T00:01:39Z",
            "value": value, "quality": "ok", "count": count })
    });
    json!({
        "gateway": "gw-1", "health": null, "received": 10, "stored": 9, "duplicates": 1,
        "gaps": { "total": 2 }, "lost": 0, "rows": 3,
        "devices": [{
            "device": "boiler", "uid": "00000000000000ab",
            "ledger": { "produced": 12, "missing": 1, "closes": true },
            "channels": channels.collect::<Value>(),
        }],
        "ports": [{ "name": "usb", "state": "open" }, { "name": "tty", "state": "waiting" }],
        "destinations": [{ "name": "cloud", "connected": false, "backlog_readings": 7,
            "published": 5, "parked": 0, "eta_s": 3 }],
        "alarms": [{ "code": "port_lost", "subject": "tty", "text": "is gone" }],
    })
}

fn top(channels: &[(&str, f64, u64)]) -> Top {
    let mut top = Top::new("forebay top", "60s");
    top.on_status(status(channels), 0, EventTime(100 * SECOND));
    top
}

fn shown(top: &Top) -> Vec<&str> {
    top.shown().iter().map(|(key, _)| key.1.as_str()).collect()
}

fn text(top: &mut Top, width: usize, height: usize) -> String {
    let lines = view::lines(top, height);
    let lines: Vec<String> = lines.iter().map(|line| line.text(width, false)).collect();
    lines.join("\n")
}

fn press(top: &mut Top, keys: &str) {
    for c in keys.chars() {
        assert!(top.on_press(Press::Char(c)), "{c}");
    }
}

#[test]
fn a_frame_shows_what_matters() {
    let mut top = top(&[("temp", 1.5, 10), ("load", 0.25, 20)]);
    top.on_status(
        status(&[("temp", 2.5, 15), ("load", 0.25, 20)]),
        SECOND,
        EventTime(100 * SECOND),
    );
    top.on_rolling(&key("temp"), Some(2.0));
    top.extra.push(String::from("page: http://127.0.0.1:7380"));
    assert_eq!(
        text(&mut top, 100, usize::MAX),
        "forebay top  gateway gw-1  health ok\n\
         received 10  stored 9  duplicates 1  gaps 2  lost 0  result rows 3  5.0 readings/s\n\
         ledger: 1 devices  produced 12  missing 1  closes: yes\n\
         ports: 1 of 2 open  tty waiting\n\
         forward cloud: no broker  backlog 7 readings  published 5  parked 0  sent in 3 s\n\
         ! port_lost tty is gone\n\
         \n\
         device▾  channel          last    60s mean unit     rate      age recent\n\
         boiler   load            0.250           - degC    0.0/s     1.0s ▁\n\
         boiler   temp            2.500           2 degC    5.0/s     1.0s ▁█\n\
         \n\
         page: http://127.0.0.1:7380"
    );
}

#[test]
fn a_frame_fits_its_screen() {
    let channels: Vec<(String, f64, u64)> = (0..50)
        .map(|n| (format!("❤\u{fe0f}❤\u{fe0f}温度計-{n:02}"), f64::from(n), 1))
        .collect();
    let channels: Vec<(&str, f64, u64)> = channels
        .iter()
        .map(|(name, value, count)| (name.as_str(), *value, *count))
        .collect();
    let mut top = top(&channels);
    let widths = (0..64).map(|width| (width, 24));
    let heights = (0..24).map(|height| (80, height));
    for (width, height) in widths.chain(heights).chain([(200, 60), (1, 1), (10, 3)]) {
        for is_help in [false, true] {
            top.is_help = is_help;
            let text = text(&mut top, width, height);
            let lines: Vec<&str> = text.split('\n').collect();
            assert!(lines.len() <= height.max(1), "{width}x{height}: {text}");
            for line in lines {
                let columns = crate::shell::width::of(line);
                assert!(columns <= width, "{width}x{height}: {columns}: {line}");
            }
        }
    }
    top.is_help = false;
    assert!(text(&mut top, 80, 24).contains("rows 1 to "), "{top:?}");
}

#[test]
fn columns_line_up_whatever_stands_in_them() {
    let long = "x".repeat(64);
    let channels = [
        ("huge", -f64::MAX),
        ("tiny", -1.23456e-300),
        ("long", -99_999_999.999),
        ("e\u{301}\u{301}", 0.0),
        ("温度", 1e15),
        (&long, 1e-9),
    ];
    let of = |count: u64| {
        let channels = channels.map(|(name, value)| (name, value, count));
        status(&channels)
    };
    let years = i64::MAX / SECOND / 86_400 / 365;
    for (now, count, age) in [
        (i64::MAX, 123_456_789, format!("!{years}y")),
        (i64::MIN, 999_999, format!("-{years}y")),
        (98 * SECOND, 12_345, String::from("-1.0s")),
        (400 * 86_400 * SECOND, 9_999, String::from("!1y")),
        (300 * 86_400 * SECOND, 0, String::from("!299d")),
    ] {
        let mut top = Top::new("forebay top", "3600000000us");
        top.on_status(of(0), 0, EventTime(100 * SECOND));
        top.on_status(of(count), SECOND, EventTime(now));
        for (name, value) in channels {
            top.on_rolling(&key(name), Some(value));
        }
        let text = text(&mut top, 200, usize::MAX);
        let table = text.lines().skip_while(|line| !line.starts_with("device"));
        let table: Vec<&str> = table.take_while(|line| !line.is_empty()).collect();
        assert_eq!(table.len(), 1 + channels.len(), "{text}");
        let before = |line: &&str| {
            let end = line.find(['▁', '▂', '█']).or(line.find("recent"));
            crate::shell::width::of(&line[..end.expect("the last column")])
        };
        let columns: Vec<usize> = table.iter().map(before).collect();
        assert!(columns.iter().all(|at| *at == columns[0]), "{text}");
        assert!(table[1].contains(&age), "{age}: {text}");
    }
}

#[test]
fn of_more_channels_than_are_kept_those_that_are_looked_for_are_and_the_others_told() {
    for (count, more) in [
        (CHANNELS_MAX - 1, 0),
        (CHANNELS_MAX, 0),
        (CHANNELS_MAX + 1, 1),
    ] {
        let names: Vec<String> = (0..count).map(|n| format!("c{n:06}")).collect();
        let channels: Vec<_> = names.iter().map(|name| (name.as_str(), 1.0, 1)).collect();
        let mut top = top(&channels);
        assert_eq!((top.channels(), top.left_out()), (count - more, more));
        let text = text(&mut top, 120, 24);
        let said = text.contains("and 1 channel more: / finds it");
        assert_eq!(said, more > 0, "{text}");
        let last = names.last().expect("some");
        top.filter = last.to_uppercase();
        top.on_status(status(&channels), SECOND, EventTime(0));
        assert_eq!(shown(&top), [last.as_str()], "{count}");
    }
}

#[test]
fn rows_are_sorted_and_turned_round() {
    let mut top = top(&[("a", 1.0, 10), ("b", 3.0, 10), ("c", 2.0, 10)]);
    let next = status(&[("a", 1.0, 20), ("b", 3.0, 11), ("c", 2.0, 15)]);
    top.on_status(next, SECOND, EventTime(100 * SECOND));
    for (name, keys, want) in [
        ("by device", "", ["a", "b", "c"]),
        ("by channel", "s", ["a", "b", "c"]),
        ("by value", "s", ["b", "c", "a"]),
        ("by rate", "s", ["a", "c", "b"]),
        ("the other way", "r", ["b", "c", "a"]),
        ("by age", "rs", ["a", "b", "c"]),
        ("by device again", "s", ["a", "b", "c"]),
    ] {
        press(&mut top, keys);
        assert_eq!(shown(&top), want, "{name}: {:?}", top.sort);
    }
}

#[test]
fn a_filter_is_typed_kept_and_dropped() {
    let mut top = top(&[("temp", 1.0, 1), ("load", 1.0, 1)]);
    press(&mut top, "/tq");
    assert_eq!((top.filter.as_str(), shown(&top).len()), ("tq", 0));
    assert!(text(&mut top, 80, 24).contains("filter: tq_"));
    assert!(top.on_press(Press::Backspace));
    press(&mut top, "EM");
    assert!(top.on_press(Press::Enter));
    assert_eq!(shown(&top), ["temp"]);
    assert!(text(&mut top, 80, 24).contains("1 do not match \"tEM\""));
    assert!(top.on_press(Press::Escape));
    assert_eq!(shown(&top).len(), 2);
    // A filter has a bound.
    press(&mut top, "/");
    for (more, want) in [
        (FILTER_CHARS_MAX - 1, FILTER_CHARS_MAX - 1),
        (1, FILTER_CHARS_MAX),
        (1, FILTER_CHARS_MAX),
    ] {
        press(&mut top, &"x".repeat(more));
        assert_eq!(top.filter.len(), want);
    }
    assert!(
        !top.on_press(Press::Interrupt),
        "Ctrl-C ends it all the same"
    );
}

#[test]
fn a_pause_keeps_what_is_shown() {
    let mut top = top(&[("temp", 1.0, 1)]);
    press(&mut top, "p");
    top.on_status(status(&[("temp", 77.0, 2)]), SECOND, EventTime(0));
    top.on_rolling(&key("temp"), Some(77.0));
    let paused = text(&mut top, 80, 24);
    assert!(
        paused.contains("PAUSED") && !paused.contains(" 77 "),
        "{paused}"
    );
    press(&mut top, " ");
    top.on_status(status(&[("temp", 77.0, 2)]), SECOND, EventTime(0));
    assert!(text(&mut top, 80, 24).contains(" 77 "));
}

#[test]
fn help_and_the_end() {
    let mut top = top(&[]);
    press(&mut top, "h");
    assert!(text(&mut top, 80, 24).contains("sort by the next column"));
    // Any key closes it, also one that would end the view.
    assert!(top.on_press(Press::Char('q')) && !top.is_help);
    assert!(!top.on_press(Press::Char('q')));
    assert!(!top.on_press(Press::Interrupt));
}

#[test]
fn rows_scroll_and_stay_in_their_range() {
    let names: Vec<String> = (0..30).map(|n| format!("c{n:02}")).collect();
    let channels: Vec<_> = names.iter().map(|name| (name.as_str(), 0.0, 1)).collect();
    let mut top = top(&channels);
    let _ = text(&mut top, 80, 20);
    for (press, is_first) in [
        (Press::Up, true),
        (Press::Down, false),
        (Press::Home, true),
        (Press::End, false),
        (Press::PageDown, false),
        (Press::PageUp, false),
        (Press::Home, true),
    ] {
        assert!(top.on_press(press));
        assert_eq!(top.scroll == 0, is_first, "{press:?}");
        assert!(top.scroll < 30, "{press:?}");
    }
    assert!(top.on_press(Press::End));
    let text = text(&mut top, 80, 20);
    assert!(text.contains("c29"), "{text}");
    assert!(!top.on_screen().is_empty());
}

#[test]
fn an_agent_that_is_away_is_said_and_one_that_began_anew_has_no_negative_rate() {
    let mut top = top(&[("temp", 1.0, 100)]);
    top.on_trouble(String::from("nobody answers"));
    assert!(text(&mut top, 80, 24).contains("! nobody answers"));
    top.on_status(status(&[("temp", 1.0, 3)]), SECOND, EventTime(0));
    assert!(!text(&mut top, 80, 24).contains("nobody"));
    assert_eq!(top.shown()[0].1.rate, None);
    top.on_status(status(&[("temp", 1.0, 5)]), 2 * SECOND, EventTime(0));
    assert_eq!(top.shown()[0].1.rate, Some(2.0));
}
