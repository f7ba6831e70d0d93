//! Both formats by name, then the short way against the whole parser on any line.

use std::io::Cursor;

use forebay_core::engine::Engine;
use forebay_core::engine::config::{EngineConfig, TimeRules};
use forebay_core::engine::identity::ReadingId;
use proptest::prelude::*;

use super::super::line::Boot;
use super::*;

fn engine() -> Engine {
    Engine::new(&EngineConfig {
        time: TimeRules::default(),
        windows: Vec::new(),
        ..EngineConfig::default()
    })
}

fn input(text: &[u8]) -> Input {
    let stream = Source::stream(Box::new(Cursor::new(text.to_vec())));
    Input::new("in".into(), stream)
}

/// What every line gave, with its readings written out, and how many of them took
/// the short way.
fn outcomes(text: &[u8], short: bool) -> (Vec<String>, usize) {
    let (mut input, mut engine) = (input(text), engine());
    let (mut seen, mut quick) = (Vec::new(), 0);
    loop {
        let event = match input.next() {
            Next::Nothing => continue,
            Next::Plain(plain) => {
                quick += 1;
                seen.push(format!("{plain:?}"));
                continue;
            }
            Next::Event(event) => event,
        };
        match event {
            Event::Full | Event::Json => {}
            Event::Reading(reading) => {
                let series = engine.series(&reading.device, &reading.channel);
                let series = series.expect("few series");
                if short {
                    input.learn(&reading, series);
                }
                let id = reading.id.map(|(boot, seq)| match boot {
                    Boot::Number(boot) => ReadingId { boot, seq },
                    Boot::Text(text) => ReadingId {
                        boot: u64::MAX - text.len() as u64,
                        seq,
                    },
                });
                let plain = Plain {
                    series,
                    time: reading.time,
                    value: reading.value,
                    id,
                };
                seen.push(format!("{plain:?}"));
            }
            Event::Control(line) => seen.push(format!("{line:?}")),
            Event::Bad(what) => seen.push(what),
            Event::Dry => {
                if !input.fill().expect("memory can be read") {
                    return (seen, quick);
                }
            }
        }
    }
}

fn bad(text: &str) -> Vec<String> {
    let (seen, _) = outcomes(text.as_bytes(), true);
    let good = |line: &String| line.starts_with("Plain");
    seen.into_iter()
        .map(|line| if good(&line) { "ok".into() } else { line })
        .collect()
}

#[test]
fn both_formats_with_their_line_numbers() {
    let good = r#"{"device":"d","channel":"c","time":1,"value":1}"#;
    let json = bad(&format!("\u{feff}{good}\n\n{{}}\n{good}"));
    assert_eq!(json, ["ok", "in:3: has no device", "ok"]);
    let csv = bad("device,channel,time,value\r\nd,c,1,1\r\nd,c,1\r\n");
    assert_eq!(csv, ["ok", "in:3: has 3 columns where the header has 4"]);
    assert_eq!(bad(""), Vec::<String>::new());
    assert_eq!(bad(&format!("garbage\n{good}\n")).len(), 2);
}

#[test]
fn a_line_over_the_limit_is_skipped_whole() {
    for (name, len, fits) in [
        ("limit - 1", LINE_BYTES_MAX - 1, true),
        ("limit", LINE_BYTES_MAX, true),
        ("limit + 1", LINE_BYTES_MAX + 1, false),
    ] {
        let good = r#"{"device":"d","channel":"c","time":1,"value":1}"#;
        let long = format!("{good}{}", " ".repeat(len - good.len()));
        for end in ["\n", ""] {
            let seen = bad(&format!("{good}\n{long}{end}"));
            let want = if fits {
                "ok"
            } else {
                "in:2: is longer than 65536 bytes"
            };
            assert_eq!(seen, ["ok", want], "{name}");
        }
    }
}

#[test]
fn usual_lines_go_the_short_way() {
    let mut csv = "device,channel,time,value\n".to_owned();
    let mut other = "time,x,value,channel,device,boot,seq\r\n".to_owned();
    let (mut json, mut spaced) = (String::new(), String::new());
    for n in 0..100 {
        let (device, minute) = (n % 7, n / 2);
        let time = format!("2026-03-01T00:{minute:02}:07.25Z");
        csv += &format!("d{device},temp,{time},{n}.5\n");
        other += &format!("{n},a,-{n},temp,d{device},3,{n}\r\n");
        json += &format!(
            "{{\"device\":\"d{device}\",\"channel\":\"temp\",\"time\":\"{time}\",\"value\":null}}\n"
        );
        spaced += &format!(
            "{{\"time\": {n}, \"value\": -0.{n}, \"seq\": {n}, \"unit\": \"C\", \"boot\": 1, \"ok\": true, \"channel\": \"é\", \"device\": \"d{device}\"}}\n"
        );
    }
    for (name, text) in [
        ("csv", csv),
        ("other", other),
        ("json", json),
        ("spaced", spaced),
    ] {
        let (short, quick) = outcomes(text.as_bytes(), true);
        assert_eq!(quick, 93, "{name}: all but the first of each device");
        assert_eq!((short, 0), outcomes(text.as_bytes(), false), "{name}");
    }
}

#[test]
fn a_name_is_never_taken_for_another() {
    // Each line after the first could be mistaken for it.
    for (name, text) in [
        (
            "quotes in CSV",
            "device,channel,time,value\n\"\"\"d\",c,1,1\n\"d,c,1,1\n",
        ),
        (
            "a comma in CSV",
            "device,channel,time,value\n\"d,c\",e,1,1\nd,c,e,1\nd,c,e,1,1\n",
        ),
        (
            "spaces in CSV",
            "device,channel,time,value\n\"d \",c,1,1\n d,c,1,1\nd ,c,1,1\n",
        ),
        (
            "an escape in JSON",
            "{\"device\":\"d\\u0001\",\"channel\":\"c\",\"time\":1,\"value\":1}\n{\"device\":\"d\u{1}\",\"channel\":\"c\",\"time\":1,\"value\":1}\n",
        ),
        (
            "a field twice",
            "{\"device\":\"d\",\"channel\":\"c\",\"time\":1,\"value\":1}\n{\"device\":\"d\",\"channel\":\"c\",\"time\":1,\"value\":1,\"device\":\"e\"}\n",
        ),
        (
            "a control",
            "{\"device\":\"d\",\"channel\":\"c\",\"time\":1,\"value\":1}\n{\"device\":\"d\",\"channel\":\"c\",\"time\":1,\"control\":\"watermark\"}\n",
        ),
    ] {
        let (short, _) = outcomes(text.as_bytes(), true);
        assert_eq!(short, outcomes(text.as_bytes(), false).0, "{name}");
    }
}

/// Cells and tokens as they come, and as they should not.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => prop::sample::select(vec![
            "d1", "d2", "é", "temp", "1970-01-01T00:00:00Z", "1970-01-01T00:00:59.123456Z",
            "1970-01-01T00:01:60Z", "2026-03-01t00:00:00.5+01:00", "5", "-5", "0", "-0", "007", "+5",
            "21.5", "-0.0", "1e3", "9007199254740993", "null", "NaN", "", " ", "\"", "\"d1\"",
            "123456789012345678", "9223372036854775807", "4e18", "\\", "\t", "\u{1}",
        ]).prop_map(str::to_owned),
        1 => "[0-9.eE+-]{1,20}",
        1 => ".{0,4}",
    ]
}

fn csv_text() -> impl Strategy<Value = String> {
    let header = prop::sample::select(vec![
        "device,channel,time,value",
        "time,device,x,channel,value",
        "boot,seq,channel,device,value,time",
    ]);
    let line = prop_oneof![
        prop::collection::vec(piece(), 3..7).prop_map(|cells| cells.join(",")),
        (piece(), piece(), piece(), piece()).prop_map(|(d, c, t, v)| format!("{d},{c},{t},{v}")),
        (0..3, piece(), piece()).prop_map(|(d, t, v)| format!("d{d},c,{t},{v}")),
    ];
    let end = prop::sample::select(vec!["\n", "\r\n"]);
    (header, prop::collection::vec((line, end), 1..20)).prop_map(|(header, lines)| {
        let lines = lines.into_iter().map(|(line, end)| line + end);
        format!("{header}\n") + &lines.collect::<String>()
    })
}

fn token() -> impl Strategy<Value = String> {
    let quoted = |(text, quoted)| match quoted {
        true => format!("\"{text}\""),
        false => text,
    };
    (piece(), any::<bool>()).prop_map(quoted)
}

fn json_text() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec![
        "device", "channel", "time", "value", "boot", "seq", "x", "control",
    ]);
    let space = prop::sample::select(vec!["", "", " ", "  "]);
    let any = prop::collection::vec((name, token(), space), 1..7).prop_map(|fields| {
        let fields = fields
            .iter()
            .map(|(n, v, space)| format!("\"{n}\":{space}{v}"));
        format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
    });
    let usual = (0..3, token(), token()).prop_map(|(d, t, v)| {
        format!("{{\"device\":\"d{d}\",\"channel\":\"c\",\"time\":{t},\"value\":{v}}}")
    });
    let good = (0..3, 0..9).prop_map(|(d, v)| {
        format!("{{\"device\":\"d{d}\",\"channel\":\"c\",\"time\":1,\"value\":{v}}}")
    });
    prop::collection::vec(prop_oneof![any, usual, good], 1..20).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #[test]
    fn both_ways_give_the_same(text in prop_oneof![csv_text(), json_text()]) {
        prop_assert_eq!(outcomes(text.as_bytes(), true).0, outcomes(text.as_bytes(), false).0);
    }

    #[test]
    fn bytes_that_are_no_text_change_nothing(
        text in prop_oneof![csv_text(), json_text()],
        at in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
    ) {
        let mut bytes = text.into_bytes();
        for (at, byte) in at {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        prop_assert_eq!(outcomes(&bytes, true).0, outcomes(&bytes, false).0);
    }
}
