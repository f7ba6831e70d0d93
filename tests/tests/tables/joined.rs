//! Readings that meet rows of tables, in the log and at a broker.

use forebay_tests::wait;
use serde_json::{Value, json};

use crate::site::{LIMIT, Site};

/// A table of the config, one of a file, and a join with each.
const CONFIG: &str = r#"
[engine]
out_of_order = "0s"

[[table]]
name = "limits"
key = "device"
source = "config"
rows = [{ device = "08917f07b53bf526", max = 5 }]

[[table]]
name = "sites"
key = "device"
source = "file"
path = "sites.ndjson"
history = "900d"

[[join]]
name = "limited"
kind = "lookup"
left = { from = "readings" }
right = { from = "limits" }
on = "device"
type = "left"

[[join]]
name = "located"
kind = "lookup"
left = { from = "readings" }
right = { from = "sites" }
on = "device"
type = "left"
wait = "1s"
"#;

/// What the log calls the imported device `d1`: joins go by it.
const UID: &str = "08917f07b53bf526";

fn line(time: &str, building: &str) -> String {
    let row = json!({ "device": UID, "building": building });
    let change = json!({ "op": "upsert", "key": UID, "time": time, "row": row });
    format!("{change}\n")
}

fn column(site: &Site, stream: &str, name: &str) -> Vec<Value> {
    let rows = site.stream(stream);
    rows.iter().map(|row| row["right"][name].clone()).collect()
}

#[test]
fn readings_meet_the_row_that_held_at_their_time_through_a_kill() {
    let mut site = Site::new(CONFIG);
    site.append("sites.ndjson", &line("2026-03-01T00:00:00Z", "b0"));
    site.append("sites.ndjson", &line("2026-03-01T01:00:00Z", "b1"));
    site.start();
    let row = |building: &str| json!({ "device": UID, "building": building });
    let history = [("insert", row("b0")), ("update", row("b1"))];
    site.wait_for_history("sites", UID, &history);
    site.ingest(
        "d1",
        &[
            ("2026-02-28T00:00:00Z", 1.0),
            ("2026-03-01T00:30:00Z", 2.0),
            ("2026-03-01T01:30:00Z", 3.0),
        ],
    );
    site.kill_9();
    site.start();
    wait::until("all three are joined twice", LIMIT, || {
        site.must_run();
        let status = site.status()?;
        let space = status["space"]["topics"].to_string();
        let both = ["limited", "located"]
            .iter()
            .all(|name| space.contains(name));
        let settled = both && status["readings_behind"] == 0 && status["drained"] == true;
        settled.then_some(()).ok_or(status.to_string())
    });
    site.stop();
    assert_eq!(
        column(&site, "limited", "max"),
        [json!(5), json!(5), json!(5)]
    );
    let buildings = column(&site, "located", "building");
    assert_eq!(buildings, [json!(null), json!("b0"), json!("b1")]);
}
