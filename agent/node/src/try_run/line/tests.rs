//! Good and bad lines by name, then any text at all.

use super::*;

fn reading(time: i64, value: Option<f64>) -> Line {
    Line::Reading(Reading {
        device: "d".into(),
        channel: "c".into(),
        time: EventTime(time),
        value,
        id: None,
    })
}

#[test]
fn good_json_lines() {
    let base = r#"{"device":"d","channel":"c","time":5,"value":"#;
    for (value, want) in [
        ("1", Some(1.0)),
        ("-0.0", Some(-0.0)),
        ("0.1", Some(0.1)),
        ("123.45599999999934", Some(123.455_999_999_999_34)),
        ("5e-324", Some(5e-324)),
        ("1.7976931348623157e308", Some(f64::MAX)),
        ("null", None),
        ("\"-inf\"", Some(f64::NEG_INFINITY)),
        ("\"Infinity\"", Some(f64::INFINITY)),
    ] {
        assert_eq!(
            json(&format!("{base}{value}}}")),
            Ok(reading(5, want)),
            "{value}"
        );
    }
    assert_eq!(json(r#"{"control":"restart"}"#), Ok(Line::Restart));
    assert_eq!(json(r#"{"control":"crash"}"#), Ok(Line::Crash));
    let clock = json(r#"{"control":"clock","time":"1970-01-01T00:00:01Z"}"#);
    assert_eq!(clock, Ok(Line::Clock(EventTime(1_000_000))));
    let all = json(r#"{"control":"watermark","time":7}"#);
    assert_eq!(
        all,
        Ok(Line::Watermark {
            device: None,
            time: EventTime(7)
        })
    );
}

#[test]
fn bad_json_lines_say_why() {
    for (text, want) in [
        ("{", "is not JSON"),
        ("[]", "is not a JSON object"),
        (r#"{"channel":"c","time":1,"value":1}"#, "has no device"),
        (
            r#"{"device":1,"channel":"c","time":1,"value":1}"#,
            "device that is no text",
        ),
        (r#"{"device":"d","channel":"c","value":1}"#, "has no time"),
        (
            r#"{"device":"d","channel":"c","time":1.5,"value":1}"#,
            "no usable time 1.5",
        ),
        (
            r#"{"device":"d","channel":"c","time":"yesterday","value":1}"#,
            "no usable time yesterday",
        ),
        (
            r#"{"device":"d","channel":"c","time":9223372036854775807,"value":1}"#,
            "beyond",
        ),
        (r#"{"device":"d","channel":"c","time":1}"#, "has no value"),
        (
            r#"{"device":"d","channel":"c","time":1,"value":true}"#,
            "no number: true",
        ),
        (
            r#"{"device":"d","channel":"c","time":1,"value":"hot"}"#,
            "no number",
        ),
        (
            r#"{"device":"d","channel":"c","time":1,"value":1,"seq":1}"#,
            "seq but no boot",
        ),
        (r#"{"control":"reboot"}"#, "unknown control \"reboot\""),
        (r#"{"table":"t"}"#, "has no op"),
    ] {
        let error = json(text).expect_err(text);
        assert!(error.contains(want), "{text}: {error}");
    }
}

#[test]
fn csv_lines() {
    let header = csv_header("value,time,extra,device,channel").expect("a header");
    for (text, want) in [
        ("1.5,5,x,d,c", Some(Some(1.5))),
        (",5,,d,c", Some(None)),
        ("NaN,5,x,d,c", None),
        ("+Inf,5,x,d,c", Some(Some(f64::INFINITY))),
        ("\"1\",\"5\",\"a,\"\"b\",d,c", Some(Some(1.0))),
    ] {
        let line = csv(&header, text).expect(text);
        if let Some(value) = want {
            assert_eq!(line, reading(5, value), "{text}");
        }
    }
    for (text, want) in [
        ("1,5,x,d", "has 4 columns where the header has 5"),
        ("1,5,x,,c", "has no device"),
        ("x,5,x,d,c", "no number: x"),
        ("nanometre,5,x,d,c", "no number"),
        ("1,noon,x,d,c", "no usable time noon"),
        ("\"1,5,x,d,c", "quote that does not close"),
        ("\"1\"2,5,x,d,c", "after a closing quote"),
    ] {
        let error = csv(&header, text).expect_err(text);
        assert!(error.contains(want), "{text}: {error}");
    }
    for bad in ["device,channel,time", "device,channel,time,value,value", ""] {
        csv_header(bad).expect_err(bad);
    }
}

proptest::proptest! {
    #[test]
    fn any_text_is_a_line_or_an_error(text in ".{0,80}", cut in 0_usize..60, more in ".{0,6}") {
        let _ = json(&text);
        let mut good = r#"{"device":"d","channel":"c","time":"1970-01-01T00:00:01Z","value":1}"#.to_owned();
        good.replace_range(cut..cut + 3, &more);
        let _ = json(&good);
        if let Ok(header) = csv_header("device,channel,time,value") {
            let _ = csv(&header, &text);
        }
        let _ = csv_header(&text);
    }
}
