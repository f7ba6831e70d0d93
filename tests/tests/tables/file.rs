//! A file that grows, is moved away and is cut; the agent killed at any time.

use std::fmt::Write as _;

use forebay_tests::wait;
use serde_json::{Value, json};

use crate::site::{LIMIT, Site};

const CONFIG: &str = r#"
[engine]
out_of_order = "0s"

[[table]]
name = "sites"
key = "device"
source = "file"
path = "sites.ndjson"
"#;

fn row(n: u64) -> Value {
    json!({ "device": "d1", "building": format!("b{n}") })
}

/// Debezium's event of the n-th state of one row.
fn event(n: u64) -> String {
    let before = if n == 0 { Value::Null } else { row(n - 1) };
    let event = json!({
        "before": before,
        "after": row(n),
        "source": {
            "connector": "postgresql", "name": "pg", "schema": "public", "table": "sites",
            "ts_ms": 1_772_323_200_000_u64 + n,
            "lsn": 1000 + n,
            "sequence": format!("[\"{}\",\"{}\"]", 900 + n, 1000 + n),
        },
        "op": if n == 0 { "c" } else { "u" },
        "ts_ms": 1_772_323_200_500_u64 + n,
    });
    format!("{event}\n")
}

fn events(range: std::ops::Range<u64>) -> String {
    range.fold(String::new(), |mut text, n| {
        let _ = write!(text, "{}", event(n));
        text
    })
}

/// What the changes of the row are after so many events.
fn history(events: u64) -> Vec<(&'static str, Value)> {
    (0..events)
        .map(|n| (if n == 0 { "insert" } else { "update" }, row(n)))
        .collect()
}

#[test]
fn each_line_is_one_change_through_kills_and_rotation() {
    let mut site = Site::new(CONFIG);
    site.append("sites.ndjson", &events(0..100));
    site.start();
    // A file that was never read is not looked for where it is moved to.
    site.wait_for_history("sites", "d1", &history(100));
    let mut written = 100;
    for round in 0..4 {
        // Killed while it reads.
        site.append("sites.ndjson", &events(written..written + 50));
        written += 50;
        site.kill_9();
        if round == 1 {
            let (from, to) = (site.path("sites.ndjson"), site.path("sites.ndjson.1"));
            std::fs::rename(from, to).unwrap();
            site.append("sites.ndjson", &events(written..written + 50));
            written += 50;
        }
        site.start();
    }
    site.wait_for_history("sites", "d1", &history(written));
    // Debezium, started anew, says its last events again.
    site.append("sites.ndjson", &events(written - 20..written + 1));
    written += 1;
    site.wait_for_history("sites", "d1", &history(written));
    let table = site.table("sites").unwrap();
    assert_eq!(table["rows"], 1, "{table}");
    assert_eq!(table["source"]["state"], "streaming", "{table}");
    assert_eq!(table["source"]["sent_again"], 19, "{table}");
    site.stop();
    let changes = site.stream("changes");
    assert_eq!(changes.len() as u64, written);
}

#[test]
fn a_file_that_is_not_there_is_waited_for_and_bad_lines_are_told() {
    let mut site = Site::new(CONFIG);
    site.start();
    wait::until("the source says what it waits for", LIMIT, || {
        let table = site.table("sites")?;
        let why = table["source"]["why"].as_str().unwrap_or_default();
        let told = why.contains("sites.ndjson: No such file");
        told.then_some(()).ok_or(table.to_string())
    });
    site.append("sites.ndjson", "{\"op\":\"c\"\n{\"id\":1}\n");
    site.append(
        "sites.ndjson",
        "{\"op\":\"insert\",\"key\":\"d1\",\"time\":\"2026-03-01T00:00:00Z\",\"row\":{\"device\":\"d1\",\"building\":\"b0\"}}\n",
    );
    site.wait_for_history("sites", "d1", &history(1));
    let table = site.table("sites").unwrap();
    assert_eq!(table["source"]["malformed"], 2, "{table}");
    let printed = site.printed();
    assert!(
        printed.contains("sites.ndjson line 1 is no JSON"),
        "{printed}"
    );
    assert!(
        printed.contains("sites.ndjson line 2 is no change"),
        "{printed}"
    );
    site.append("sites.ndjson", "{\"op\":\"delete\",\"key\":\"d1\"}\n");
    let want = [("insert", row(0)), ("delete", row(0))];
    site.wait_for_history("sites", "d1", &want);
    assert_eq!(site.rows("sites").unwrap(), []);
    site.stop();
}
