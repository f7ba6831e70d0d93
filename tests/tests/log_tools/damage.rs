//! `forebay log check` and `repair` on logs that are damaged in each way.

use std::fs;
use std::path::{Path, PathBuf};

use forebay_core::log::scan::next_block;
use forebay_core::log::segment::SEGMENT_FOOTER_BYTES;
use serde_json::Value;

use crate::support::{Site, csv, filled};

/// Changes a file; gives the part of the path that a check has to name.
type Damage = fn(&Site) -> PathBuf;

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).expect("a file");
    bytes[at] ^= 0x10;
    fs::write(path, bytes).expect("written");
}

/// Start and end of the nth block in a file, from its end when `back`.
fn block(path: &Path, nth: usize, back: bool) -> (usize, usize) {
    let bytes = fs::read(path).expect("a file");
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(block) = next_block(&bytes, from) {
        found.push((block.position, block.end()));
        from = block.end();
    }
    let nth = if back { found.len() - 1 - nth } else { nth };
    found[nth]
}

fn cut(path: &Path, len: u64) {
    let file = fs::File::options().write(true).open(path);
    file.and_then(|file| file.set_len(len)).expect("cut");
}

fn len(path: &Path) -> u64 {
    fs::metadata(path).expect("a file").len()
}

fn segment(site: &Site) -> PathBuf {
    site.one("s-", "-t00000.seg")
}

/// The database of the newest generation that holds something: no segment has it yet.
fn database(site: &Site) -> PathBuf {
    let all = site.all("g-", "").into_iter().map(|dir| dir.join("db"));
    let holds = |db: &PathBuf| {
        let bytes = fs::read(db).expect("a file");
        next_block(&bytes, 0).is_some()
    };
    all.rev().find(holds).expect("a database with blocks")
}

/// Every way, and whether records are lost by it for sure.
const DAMAGES: [(&str, Damage, bool); 14] = [
    (
        "a bit in a block",
        |site| {
            let path = segment(site);
            let (start, end) = block(&path, 3, false);
            flip(&path, start.midpoint(end));
            path
        },
        true,
    ),
    (
        "a bit in the head of a block",
        |site| {
            let path = segment(site);
            flip(&path, block(&path, 2, false).0 + 1);
            path
        },
        true,
    ),
    (
        "a bit in the last block",
        |site| {
            let path = segment(site);
            flip(&path, block(&path, 0, true).1 - 1);
            path
        },
        true,
    ),
    (
        "a bit in the head of a segment",
        |site| {
            let path = segment(site);
            flip(&path, 20);
            path
        },
        false,
    ),
    (
        "a bit in the index",
        |site| {
            let path = segment(site);
            flip(&path, block(&path, 0, true).1 + 3);
            path
        },
        false,
    ),
    (
        "a bit in the footer",
        |site| {
            let path = segment(site);
            flip(&path, len(&path) as usize - SEGMENT_FOOTER_BYTES / 2);
            path
        },
        false,
    ),
    (
        "a segment without its last byte",
        |site| {
            let path = segment(site);
            cut(&path, len(&path) - 1);
            path
        },
        false,
    ),
    (
        "half a segment",
        |site| {
            let path = segment(site);
            cut(&path, len(&path) / 2);
            path
        },
        true,
    ),
    (
        "an empty segment",
        |site| {
            let path = segment(site);
            cut(&path, 0);
            path
        },
        true,
    ),
    (
        "a segment that is gone",
        |site| {
            let path = segment(site);
            fs::remove_file(&path).expect("removed");
            path
        },
        true,
    ),
    (
        "an empty database",
        |site| {
            let path = database(site);
            cut(&path, 0);
            path.parent().expect("a folder").to_owned()
        },
        true,
    ),
    (
        "the identity",
        |site| {
            let path = site.path("data/log/identity");
            flip(&path, 40);
            path
        },
        false,
    ),
    (
        "the meta database",
        |site| {
            let path = site.path("data/meta/db");
            cut(&path, 100);
            site.path("data/meta")
        },
        false,
    ),
    (
        "the meta database gone",
        |site| {
            fs::remove_dir_all(site.path("data/meta")).expect("removed");
            site.path("data/meta")
        },
        false,
    ),
];

/// Offsets that a report names as unreadable, in damages and in holes.
fn named(report: &Value) -> Vec<(u64, u64, u64, u64)> {
    let damages = report["damages"].as_array().expect("a list").iter();
    let in_damages = damages.flat_map(|damage| damage["lost"].as_array().expect("a list"));
    let holes = report["holes"].as_array().expect("a list").iter();
    let number = |value: &Value| value.as_u64().expect("a number");
    in_damages
        .chain(holes)
        .map(|loss| {
            let at = |name: &str| number(&loss[name]);
            (at("topic"), at("partition"), at("first"), at("end"))
        })
        .collect()
}

fn is_named(named: &[(u64, u64, u64, u64)], (partition, offset): (u64, u64)) -> bool {
    let mut of_readings = named.iter().filter(|(topic, ..)| *topic == 0);
    of_readings.any(|(_, at, first, end)| *at == partition && (*first..*end).contains(&offset))
}

#[test]
fn each_damage_is_named_and_repaired_around() {
    let whole = filled();
    let all = whole.all_readings();
    for (name, damage, loses) in DAMAGES {
        let site = whole.copy();
        let path = damage(&site);
        let place = path.strip_prefix(site.dir.path()).expect("in it");
        let check = site.log("check", &["--json"]);
        assert_eq!(check.code, 4, "{name}: {check:?}");
        let report = check.json();
        let damages = report["damages"].as_array().expect("a list");
        let place = place.display().to_string();
        let says = |damage: &Value| {
            damage["file"]
                .as_str()
                .is_some_and(|f| f.starts_with(&place))
        };
        assert!(damages.iter().any(says), "{name}: {place}: {report}");
        let lost = named(&report);
        assert_eq!(!lost.is_empty(), loses, "{name}: {report}");
        let text = site.log("check", &[]);
        assert!(text.out.contains(&place), "{name}: {text:?}");
        assert!(text.out.contains("forebay log repair"), "{name}: {text:?}");

        let repaired = site.log("repair", &["--json"]);
        assert_eq!(repaired.code, 0, "{name}: {repaired:?}");
        let again = site.log("check", &["--json"]);
        assert_eq!(again.code, 0, "{name}: {again:?}");
        assert_eq!(again.json()["intact"], true);
        let export = site.log("export", &["--output", "out.csv"]);
        assert_eq!((export.code, export.errors.as_str()), (0, ""), "{name}");
        // Exactly what was named is missing, and nothing else.
        let left = site.all_readings();
        for (at, line) in &all {
            match left.get(at) {
                Some(kept) => assert!(same(kept, line), "{name}: {kept} {line}"),
                None => assert!(is_named(&lost, *at), "{name}: {at:?} is gone: {report}"),
            }
        }
        assert!(left.keys().all(|at| all.contains_key(at)));
    }
}

/// Whether two rows say the same; without meta entries a device goes by its uid.
fn same(a: &str, b: &str) -> bool {
    let row = |text: &str| {
        let mut row: Value = serde_json::from_str(text).expect("a row");
        row["device"] = Value::Null;
        row
    };
    row(a) == row(b)
}

#[test]
fn a_repaired_log_takes_readings_again_and_reuses_no_offset() {
    let site = filled();
    let before = site.all_readings();
    let path = database(&site);
    let (start, end) = block(&path, 0, true);
    flip(&path, start.midpoint(end));
    site.log("repair", &[]);
    site.file("after.csv", &csv("m9", 300));
    let ended = site.ingest("after.csv", &[]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let after = site.all_readings();
    let new = after
        .iter()
        .filter(|(_, line)| line.contains("\"device\":\"m9\""));
    assert!(new.clone().all(|(at, _)| !before.contains_key(at)));
    assert_eq!(new.count(), 300);
    assert_eq!(site.log("check", &[]).code, 0);
    let agent = site.agent();
    assert_eq!(site.readings("m9", "temp").len(), 300);
    assert!(agent.end_by("TERM").success());
}

#[test]
fn what_stands_in_quarantine_comes_back() {
    let site = filled();
    let before = site.all_readings();
    let path = segment(&site);
    let good = fs::read(&path).expect("a segment");
    let (start, end) = block(&path, 3, false);
    flip(&path, start.midpoint(end));
    assert_eq!(site.log("repair", &[]).code, 0);
    assert!(site.all_readings().len() < before.len());
    let hole = site.log("check", &["--json"]).json();
    assert!(
        !hole["holes"].as_array().expect("a list").is_empty(),
        "{hole}"
    );
    // A backup of the segment turns up; one of another log is not taken for it.
    let foreign = Site::new();
    foreign.file("in.csv", &csv("m1", 12_000));
    assert_eq!(foreign.ingest("in.csv", &[]).code, 0);
    // What a process leaves unsealed at its end, the next ones seal.
    for nth in 0..20 {
        if !foreign.all("s-", "-t00000.seg").is_empty() {
            break;
        }
        foreign.file("more.csv", &csv(&format!("more-{nth}"), 500));
        assert_eq!(foreign.ingest("more.csv", &[]).code, 0);
    }
    fs::copy(segment(&foreign), site.path("data/quarantine/foreign.seg")).expect("copied");
    let repaired = site.log("repair", &["--json"]).json();
    assert_eq!(repaired["records_brought_back"], 0, "{repaired}");
    fs::write(site.path("data/quarantine/backup.seg"), good).expect("written");
    let repaired = site.log("repair", &["--json"]);
    assert_eq!(repaired.code, 0, "{repaired:?}");
    assert!(
        repaired.json()["records_brought_back"].as_u64() > Some(0),
        "{repaired:?}"
    );
    assert_eq!(site.all_readings(), before);
    assert_eq!(
        site.log("check", &["--json"]).json()["holes"],
        serde_json::json!([])
    );
}

#[test]
fn a_damaged_log_is_shown_and_exported_as_far_as_it_reads() {
    let site = filled();
    let path = segment(&site);
    let (start, end) = block(&path, 3, false);
    flip(&path, start.midpoint(end));
    for (verb, more) in [
        ("show", &["--limit", "0"][..]),
        ("export", &["--output", "out.csv"]),
    ] {
        let ended = site.log(verb, more);
        assert_eq!(ended.code, 4, "{verb}: {ended:?}");
        assert!(
            ended
                .errors
                .contains("cannot be read; see: forebay log check"),
            "{ended:?}"
        );
    }
    let lines = fs::read_to_string(site.path("out.csv"))
        .expect("written")
        .lines()
        .count();
    assert!((15_000..16_500).contains(&lines), "{lines}");
}
