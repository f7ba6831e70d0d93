//! `forebay verify`, `forebay replay` and `forebay checkpoint` on the log of a stopped
//! agent.

use std::fs;

use serde_json::json;

use crate::support::{Site, csv};

/// A site whose agent has taken readings and computed its windows.
fn computed() -> Site {
    let site = Site::new();
    site.file("in.csv", &csv("m1", 2000));
    let ended = site.ingest("in.csv", &[]);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(site.agent().end_by("TERM").success());
    site
}

#[test]
fn a_window_is_built_anew_beside_its_rows() {
    let site = computed();
    let lines = |stream: &str| -> Vec<String> {
        let args = ["log", "export", "--config", "gw.toml", "--topic", stream];
        let ended = site.run(&args, "");
        assert_eq!(ended.code, 0, "{ended:?}");
        // Behind the header.
        ended.out.lines().skip(1).map(str::to_owned).collect()
    };
    let verified = || {
        let ended = site.run(&["verify", "--config", "gw.toml", "--json"], "");
        assert_eq!(ended.code, 0, "{ended:?}");
    };
    verified();
    let before = lines("w");
    assert!(before.len() > 1900, "{}", before.len());
    for nth in 1..3 {
        let args = ["replay", "--config", "gw.toml", "--view", "w", "--json"];
        let ended = site.run(&args, "");
        assert_eq!(ended.code, 0, "{ended:?}");
        let said = ended.json();
        let name = format!("w.{nth}");
        assert_eq!(said["stream"], json!(name));
        assert_eq!(said["rows"], json!(before.len()), "{said}");
        assert_eq!(lines(&name), before);
        assert_eq!(lines("w"), before, "what stood stands");
        verified();
    }
    // The agent goes on with it, and writes nothing twice.
    assert!(site.agent().end_by("TERM").success());
    assert_eq!(lines("w.2"), before);
    let args = ["replay", "--config", "gw.toml", "--view", "x"];
    let ended = site.run(&args, "");
    assert_eq!(ended.code, 2);
    assert!(
        ended.errors.contains("no window or join \"x\"; it has: w"),
        "{ended:?}"
    );
}

#[test]
fn the_state_of_windows_moves_with_a_copy_of_the_log() {
    let site = computed();
    let export = |to: &str| site.run(&["checkpoint", "export", to, "--config", "gw.toml"], "");
    let ended = export("one.state");
    assert_eq!(ended.code, 0, "{ended:?}");
    // As where only the log was saved.
    fs::remove_dir_all(site.path("data/meta")).expect("it is there");
    let args = ["checkpoint", "import", "one.state", "--config", "gw.toml"];
    let ended = site.run(&args, "");
    assert_eq!(ended.code, 0, "{ended:?}");
    let agent = site.agent();
    let status = site.status().expect("it answers");
    assert_eq!(status["start"]["readings_replayed"], json!(0), "{status}");
    assert!(agent.end_by("TERM").success());
    let ended = site.run(&["verify", "--config", "gw.toml"], "");
    assert_eq!(ended.code, 0, "{ended:?}");
}
