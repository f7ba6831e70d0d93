//! All formats over whole inputs: whatever a line is, it costs no other.

use std::io::{BufReader, Cursor};

use forebay_core::units::EventTime;
use proptest::prelude::*;

use super::*;

fn read_as(text: &[u8], format: Option<Format>, buffer: usize) -> Vec<Next> {
    let reader = BufReader::with_capacity(buffer, Cursor::new(text.to_vec()));
    let mut records = Records::new(Box::new(reader), format, InfluxRules::default());
    let mut seen = Vec::new();
    loop {
        match records.read_next() {
            Ok(Next::End) => return seen,
            Ok(next) => seen.push(next),
            Err(error) => {
                let why = format!("stopped: {error}");
                seen.push(Next::Bad(BadLine { line: 0, why }));
                return seen;
            }
        }
    }
}

/// Line numbers of the readings and of the bad lines.
fn lines_of(seen: &[Next]) -> (Vec<u64>, Vec<u64>) {
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    for next in seen {
        match next {
            Next::Record(line, _) => good.push(*line),
            Next::Bad(line) => bad.push(line.line),
            Next::End => {}
        }
    }
    (good, bad)
}

const JSON: &str = r#"{"device":"d","channel":"c","time":1,"value":1}"#;
const HEADER: &str = "device,channel,time,value";

#[test]
fn inputs_with_their_good_and_bad_lines() {
    let long = "x".repeat(LINE_BYTES_MAX + 1);
    for (name, text, good, bad) in [
        ("nothing", String::new(), &[][..], &[][..]),
        ("only empty lines", "\n\r\n \n".into(), &[], &[]),
        ("json", format!("{JSON}\n{JSON}"), &[1, 2], &[]),
        (
            "json with a mark and CRLF",
            format!("\u{feff}{JSON}\r\n\r\n{JSON}\r\n"),
            &[1, 3],
            &[],
        ),
        (
            "json, broken later",
            format!("{JSON}\n{{\n{JSON}"),
            &[1, 3],
            &[2],
        ),
        (
            "json, a long line",
            format!("{JSON}\n{long}\n{JSON}"),
            &[1, 3],
            &[2],
        ),
        ("csv", format!("{HEADER}\nd,c,1,1\nd,c,2,2\n"), &[2, 3], &[]),
        (
            "csv with a mark and CRLF",
            format!("\u{feff}{HEADER}\r\nd,c,1,1\r\n"),
            &[2],
            &[],
        ),
        (
            "csv, quoted header",
            "\"device\",\"channel\",\"time\",\"value\"\nd,c,1,1".into(),
            &[2],
            &[],
        ),
        (
            "csv, other order",
            "Value, time ,x,channel,device\n1,1,,c,d".into(),
            &[2],
            &[],
        ),
        (
            "csv, too few",
            format!("{HEADER}\nd,c,1\nd,c,1,1"),
            &[3],
            &[2],
        ),
        (
            "csv, an open quote",
            format!("{HEADER}\n\"d,c,1,1\nd,c,1,1\nd,c,2,1\n"),
            &[3, 4],
            &[2],
        ),
        (
            "csv, an open quote at the end",
            format!("{HEADER}\nd,c,1,1\n\"d,c,1,1"),
            &[2],
            &[3],
        ),
        (
            "csv, two stray quotes",
            format!("{HEADER}\n\"d,c,1,1\nd,c,1,1\nd\",c,2,1\nd,c,3,1"),
            &[3, 5],
            &[2, 4],
        ),
        (
            "csv, a quote before a long line",
            format!("{HEADER}\n\"d,c,1,1\nd,c,1,1\n{long}\nd,c,3,1"),
            &[3, 5],
            &[2, 4],
        ),
        (
            "csv, a note over lines",
            format!("{HEADER},note\nd,c,1,1,\"a\n\"\"b\"\"\nc\"\nd,c,1,1,"),
            &[2, 5],
            &[],
        ),
        (
            "csv, a long record",
            format!(
                "{HEADER},note\nd,c,1,1,\"{}\n{}\"\nd,c,2,2,",
                &long[..40_000],
                &long[..40_000]
            ),
            &[4],
            &[2, 3],
        ),
        (
            "influx",
            "# c\nt,device=d value=1 1\nt,device=d value= 1\n\nt,device=d a=1,b=2 1".into(),
            &[2, 5, 5],
            &[3],
        ),
    ] {
        for buffer in [7, 64 * 1024] {
            let seen = read_as(text.as_bytes(), None, buffer);
            assert_eq!(
                lines_of(&seen),
                (good.to_vec(), bad.to_vec()),
                "{name}: {seen:?}"
            );
        }
    }
}

#[test]
fn an_input_that_says_nothing_about_itself_is_not_guessed_at() {
    for text in ["garbage\n", "a,b,c\n1,2,3\n", "\u{0}\u{1}\n"] {
        let seen = read_as(text.as_bytes(), None, 64);
        assert!(
            matches!(&seen[..], [Next::Bad(bad)] if bad.why.contains("--format")),
            "{seen:?}"
        );
    }
    let seen = read_as(b"garbage\n", Some(Format::Csv), 64);
    assert!(
        matches!(&seen[..], [Next::Bad(bad)] if bad.why.contains("expected device")),
        "{seen:?}"
    );
    let text = format!("garbage\n{JSON}");
    let seen = read_as(text.as_bytes(), Some(Format::Ndjson), 64);
    assert_eq!(lines_of(&seen), (vec![2], vec![1]));
}

#[test]
fn columns_at_their_limit() {
    for (count, fits) in [
        (limits::CSV_COLUMNS_MAX - 1, true),
        (limits::CSV_COLUMNS_MAX, true),
        (limits::CSV_COLUMNS_MAX + 1, false),
    ] {
        let more = ",x".repeat(count - 4);
        let text = format!("{HEADER}{more}\nd,c,1,1{more}\n");
        let seen = read_as(text.as_bytes(), Some(Format::Csv), 64);
        assert_eq!(
            matches!(seen[0], Next::Record(2, _)),
            fits,
            "{count}: {:?}",
            seen[0]
        );
    }
}

/// A cell as RFC 4180 writes it.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

proptest! {
    #[test]
    fn any_bytes_are_read_to_their_end(
        text in prop::collection::vec(prop_oneof![
            Just(b'\n'), Just(b'"'), Just(b','), Just(b'{'), Just(b'\\'), Just(b'='), Just(b' '), any::<u8>(),
        ], 0..400),
        header in any::<bool>(),
        buffer in 1_usize..50,
    ) {
        for format in [None, Some(Format::Ndjson), Some(Format::Csv), Some(Format::Influx)] {
            let mut all = Vec::new();
            if header {
                all.extend_from_slice(HEADER.as_bytes());
                all.push(b'\n');
            }
            all.extend_from_slice(&text);
            let seen = read_as(&all, format, buffer);
            let lines = all.split(|byte| *byte == b'\n').count() as u64;
            let (good, bad) = lines_of(&seen);
            prop_assert!(good.iter().chain(&bad).all(|line| *line <= lines));
        }
    }

    #[test]
    fn good_csv_records_are_read_whatever_stands_between_them(
        notes in prop::collection::vec("[a-z,\"\n\r é]{0,20}", 1..20),
        junk in prop::collection::vec("[a-z,]{0,12}", 20),
    ) {
        let mut text = format!("{HEADER},note\n");
        let mut want = 0;
        for (n, (note, junk)) in notes.iter().zip(&junk).enumerate() {
            text.push_str(&format!("d,c,{n},0.5,{}\r\n", quoted(note)));
            text.push_str(&format!("{junk}\n"));
            want += 1;
        }
        let seen = read_as(text.as_bytes(), None, 1024);
        let times = seen.iter().filter_map(|next| match next {
            Next::Record(_, record) => Some(record.time),
            Next::Bad(_) | Next::End => None,
        });
        let times: Vec<_> = times.collect();
        let all: Vec<_> = (0..want).map(EventTime).collect();
        prop_assert_eq!(times, all);
    }

    #[test]
    fn a_stray_quote_costs_its_own_line_alone(at in 0_usize..10, cell in 0_usize..4) {
        let mut lines: Vec<String> = (0..10).map(|n| format!("d,c,{n},1")).collect();
        let mut cells: Vec<String> = lines[at].split(',').map(String::from).collect();
        cells[cell].insert(0, '"');
        lines[at] = cells.join(",");
        let text = format!("{HEADER}\n{}\n", lines.join("\n"));
        let (good, bad) = lines_of(&read_as(text.as_bytes(), None, 100));
        prop_assert_eq!(bad, vec![at as u64 + 2]);
        prop_assert_eq!(good.len(), 9);
    }

    #[test]
    fn numbers_come_through_bit_for_bit(value in any::<f64>().prop_filter("finite", |v| v.is_finite())) {
        let csv = format!("{HEADER}\nd,c,1,{value:?}\n");
        let json = format!("{{\"device\":\"d\",\"channel\":\"c\",\"time\":1,\"value\":{value:?}}}");
        let influx = format!("c,device=d value={value:?} 1000");
        for text in [csv, json, influx] {
            let seen = read_as(text.as_bytes(), None, 64);
            prop_assert!(
                matches!(&seen[..], [Next::Record(_, record)] if record.value.to_bits() == value.to_bits()),
                "{}: {:?}", text, seen
            );
        }
    }
}
