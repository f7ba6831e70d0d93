//! `forebay log export`, and back through `forebay ingest`.

use std::fs;

use crate::support::{Site, filled};

/// The columns that an import reads, of each line of a CSV file.
fn columns(text: &str) -> Vec<String> {
    let cut = |line: &str| line.split(',').take(6).collect::<Vec<_>>().join(",");
    let mut lines: Vec<String> = text.lines().map(cut).collect();
    // Each partition has its own order.
    lines.sort();
    lines
}

#[test]
fn what_is_exported_is_imported_as_it_was() {
    let site = filled();
    let original = site.log("export", &[]);
    assert_eq!(original.code, 0, "{}", original.errors);
    let want = columns(&original.out);
    assert_eq!(want.len(), 16_501);
    for format in ["csv", "ndjson"] {
        let name = format!("out.{format}");
        let ended = site.log("export", &["--output", &name]);
        assert_eq!(ended.code, 0, "{ended:?}");
        assert!(ended.out.contains("16500 records"), "{ended:?}");
        let other = Site::new();
        fs::copy(site.path(&name), other.path(&name)).expect("copied");
        let ended = other.ingest(&name, &[]);
        assert_eq!(ended.code, 0, "{format}: {ended:?}");
        let again = other.log("export", &[]);
        assert_eq!(columns(&again.out), want, "{format}");
    }
}

#[test]
fn a_parquet_file_is_whole() {
    let site = filled();
    let ended = site.log("export", &["--output", "out.parquet", "--json"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!(ended.json()["records"], 16_500);
    let bytes = fs::read(site.path("out.parquet")).expect("written");
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
    assert!(!site.path("out.parquet.unfinished").exists());
}

#[test]
fn rows_of_windows_are_exported_too() {
    let site = filled();
    let ended = site.log("export", &["--topic", "w", "--format", "ndjson"]);
    assert_eq!(ended.code, 0, "{}", ended.errors);
    let first = ended.out.lines().next().expect("a row");
    assert!(first.starts_with("{\"stream\":\"w\""), "{first}");
    let csv = site.log("export", &["--topic", "w"]);
    assert_eq!(csv.out.lines().next(), Some("partition,offset,time,row"));
    assert_eq!(csv.out.lines().count(), ended.out.lines().count() + 1);
}

#[test]
fn an_output_that_cannot_be_written_leaves_nothing() {
    let site = filled();
    let ended = site.log("export", &["--output", "none/out.csv"]);
    assert_eq!(ended.code, 2, "{ended:?}");
    assert!(
        ended.errors.contains("none/out.csv: cannot be written"),
        "{ended:?}"
    );
    let ended = site.log("export", &["--topic", "none", "--output", "out.csv"]);
    assert_eq!(ended.code, 2, "{ended:?}");
    assert!(!site.path("out.csv").exists());
}
