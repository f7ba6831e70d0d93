//! `forebay log ls`, `show` and `check` on an intact log: they say what is there and
//! change nothing.

use std::path::PathBuf;

use serde_json::json;

use crate::support::{Site, filled, tree};

/// All files but the pid of whoever looked last.
fn data(site: &Site) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = tree(&site.path("data"));
    files.retain(|(path, _)| !path.ends_with("lock"));
    files
}

#[test]
fn looking_changes_nothing() {
    let site = filled();
    let before = data(&site);
    for (verb, more) in [
        ("ls", &["--files"][..]),
        ("show", &["--limit", "0"]),
        ("show", &["--topic", "w", "--limit", "0"]),
        ("check", &[]),
        ("export", &["--output", "out.parquet"]),
    ] {
        let ended = site.log(verb, more);
        assert_eq!(
            (ended.code, ended.errors.len()),
            (0, 0),
            "{verb}: {ended:?}"
        );
    }
    let after = data(&site);
    assert!(before == after, "a file changed");
}

#[test]
fn an_intact_log_is_said_to_be_so() {
    let site = filled();
    let ended = site.log("check", &[]);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.out.contains("data: intact: "), "{ended:?}");
    let report = site.log("check", &["--json"]).json();
    assert_eq!(
        (&report["intact"], &report["damages"]),
        (&json!(true), &json!([]))
    );
    assert_eq!(report["holes"], json!([]));
    let ended = site.log("repair", &[]);
    assert_eq!(ended.code, 0);
    assert!(ended.out.contains("nothing to repair"), "{ended:?}");
}

#[test]
fn the_listing_adds_up() {
    let site = filled();
    let listing = site.log("ls", &["--json"]).json();
    let topics = listing["topics"].as_array().expect("a list");
    let sum = |stream: &str| {
        let of = topics.iter().filter(|topic| topic["stream"] == stream);
        of.filter_map(|topic| topic["records"].as_u64())
            .sum::<u64>()
    };
    // Beside what the gateway's clock said.
    let shown = site.log("show", &["--limit", "0", "--json"]).out;
    let clocks = shown.lines().filter(|line| line.contains("\"clock\""));
    assert_eq!(sum("readings"), 16_500 + clocks.count() as u64);
    let files = listing["files"].as_array().expect("a list");
    let records: u64 = files
        .iter()
        .filter_map(|file| file["records"].as_u64())
        .sum();
    let in_topics: u64 = topics.iter().filter_map(|t| t["records"].as_u64()).sum();
    assert_eq!(records, in_topics);
    assert!(files.iter().any(|file| file["sealed"] == true), "{listing}");
    assert!(
        files.iter().any(|file| file["sealed"] == false),
        "{listing}"
    );
    let one = site
        .log("ls", &["--json", "--topic", "readings", "--partition", "1"])
        .json();
    assert_eq!(one["topics"].as_array().map(Vec::len), Some(1), "{one}");
}

#[test]
fn records_are_chosen_by_what_they_are() {
    let site = filled();
    let count = |more: &[&str]| {
        let all = [&["--limit", "0", "--json"], more].concat();
        let ended = site.log("show", &all);
        assert_eq!(ended.code, 0, "{more:?}: {ended:?}");
        let lines = ended.out.lines();
        lines.filter(|line| line.contains("\"device\"")).count()
    };
    for (more, want) in [
        (&[][..], 16_500),
        (&["--device", "m1"], 12_000),
        (&["--device", "boiler", "--channel", "temp"], 4_000),
        (&["--device", "00000000000000ab"], 4_000),
        (&["--channel", "none"], 0),
        (
            &["--device", "m1", "--from", "1970-01-01T01:00:00Z"],
            11_940,
        ),
        (&["--device", "m1", "--to", "3600000000"], 60),
        (
            &["--device", "m1", "--from", "60000000", "--to", "120000000"],
            1,
        ),
    ] {
        assert_eq!(count(more), want, "{more:?}");
    }
    let by_partition = ["0", "1"].map(|partition| count(&["--partition", partition]));
    assert_eq!(by_partition.iter().sum::<usize>(), 16_500);
    assert_eq!(count(&["--topic", "0"]), 16_500);
    let ended = site.log("show", &["--limit", "7"]);
    assert_eq!(ended.out.lines().count(), 7);
    assert!(ended.errors.contains("--limit 0"), "{ended:?}");
}

#[test]
fn what_is_asked_for_wrongly_is_answered_with_what_there_is() {
    let site = filled();
    for (args, word) in [
        (&["--topic", "rollup"][..], "the log holds readings"),
        (&["--device", "nobody"], "no device is called"),
        (&["--from", "yesterday"], "2026-03-01T00:00:00Z"),
    ] {
        let ended = site.log("show", args);
        assert_eq!(ended.code, 2, "{ended:?}");
        assert!(ended.errors.contains(word), "{ended:?}");
    }
    let ended = site.run(&["log", "ls", "--data-dir", "nothing"], "");
    assert_eq!(ended.code, 2);
    assert!(ended.errors.contains("nothing/log"), "{ended:?}");
    assert_eq!(tree(&site.path("nothing")), []);
}

#[test]
fn a_running_agent_is_not_disturbed() {
    let site = filled();
    let agent = site.agent();
    for verb in ["ls", "show", "check", "repair", "export"] {
        let ended = site.log(verb, &[]);
        assert_eq!(ended.code, 2, "{verb}: {ended:?}");
        let named = ended.errors.contains(&format!("(pid {})", agent.id()));
        assert!(named && ended.errors.contains("stop it first"), "{ended:?}");
    }
    assert!(agent.end_by("TERM").success());
}
