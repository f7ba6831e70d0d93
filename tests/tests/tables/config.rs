//! Rows of the config, and what a changed config does to them.

use serde_json::json;

use crate::site::Site;

fn config(rows: &str) -> String {
    format!(
        r#"
[[table]]
name = "sites"
key = "device"
source = "config"
rows = [{rows}]
"#
    )
}

#[test]
fn a_changed_config_is_a_change() {
    let north = r#"{ device = "d1", building = "north" }, { device = "d2", building = "west" }"#;
    let mut site = Site::new(&config(north));
    site.start();
    let first = json!({ "device": "d1", "building": "north" });
    site.wait_for_history("sites", "d1", &[("insert", first.clone())]);
    assert_eq!(site.rows("sites").unwrap().len(), 2);
    // The same config again changes nothing, also after a kill.
    site.kill_9();
    site.start();
    site.wait_for_history("sites", "d1", &[("insert", first.clone())]);
    site.stop();

    site.configure(&config(r#"{ device = "d1", building = "south" }"#));
    site.start();
    let second = json!({ "device": "d1", "building": "south" });
    let history = [("insert", first), ("update", second.clone())];
    site.wait_for_history("sites", "d1", &history);
    let gone = json!({ "device": "d2", "building": "west" });
    let history = [("insert", gone.clone()), ("delete", gone)];
    site.wait_for_history("sites", "d2", &history);
    assert_eq!(site.rows("sites").unwrap(), [(String::from("d1"), second)]);
    // As it was before: rows of the first config hold from the beginning of time.
    let then = ["table", "show", "sites", "--at", "2026-03-01T00:00:00Z"];
    let then = site
        .ask(&[&then[..], &["--config", "gw.toml"]].concat())
        .unwrap();
    assert!(then.contains("north") && then.contains("west"), "{then}");
    site.stop();
}
