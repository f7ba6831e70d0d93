//! The form of the exposition, the table, and the page of the manual.

use std::collections::BTreeSet;

use serde_json::json;

use super::*;
use crate::shell::docs;

#[test]
fn docs_of_metrics_are_current() {
    assert_eq!(docs::checked("metrics.md", &page()), Ok(()));
}

#[test]
fn names_say_what_they_are() {
    for table in [&AGENT, &RECEIVER] {
        let metrics = table.metrics();
        let unique: BTreeSet<_> = metrics.map(|metric| metric.name).collect();
        assert_eq!(unique.len(), table.metrics().count(), "a name stands twice");
    }
    for metric in AGENT.metrics().chain(RECEIVER.metrics()) {
        let name = metric.name;
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
        assert!(
            name.starts_with("forebay_") && name.bytes().all(plain),
            "{name}"
        );
        assert_eq!(
            name.ends_with("_total"),
            metric.kind == Kind::Counter,
            "{name}"
        );
        assert!(
            metric.help.ends_with('.') && !metric.help.contains('|'),
            "{name}"
        );
        assert!(!metric.sources.is_empty(), "{name} has no source");
    }
}

#[test]
fn a_name_with_anything_in_it_stays_one_line() {
    let status = json!({ "alarms": [
        { "code": "port-lost", "subject": "a\"b\\c\nd", "severity": "degraded", "age_us": 1_500_000 },
    ], "health": "degraded", "received": 12 });
    let text = render(&AGENT, &status, &Process::default());
    let labels = r#"{code="port-lost",subject="a\"b\\c\nd",severity="degraded"}"#;
    assert!(
        text.contains(&format!("\nforebay_alarm{labels} 1\n")),
        "{text}"
    );
    assert!(text.contains(&format!("\nforebay_alarm_age_seconds{labels} 1.5\n")));
    assert!(text.contains("\nforebay_health{health=\"ok\"} 0\n"));
    assert!(text.contains("\nforebay_health{health=\"degraded\"} 1\n"));
    assert!(text.contains(
        "# HELP forebay_readings_total Readings taken from devices and imports.\n\
         # TYPE forebay_readings_total counter\nforebay_readings_total 12\n"
    ));
    assert!(!text.contains("forebay_port_open"), "no port, no sample");
    assert!(text.contains("forebay_build_info{version="));
}
