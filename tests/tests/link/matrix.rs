//! The table of faults: each row names a test that exists, or the bench.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use forebay_tests::process::root;

const TABLE: &str = "tests/FAULTS.md";
const BENCH: &str = "firmware/boards/HARDWARE.md";

/// Every Rust source below a folder.
fn sources(dir: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            sources(&path, found);
        } else if name.ends_with(".rs") {
            found.push(fs::read_to_string(&path).unwrap());
        }
    }
}

/// Names of functions that follow a test attribute.
fn tests_of(source: &str, names: &mut BTreeSet<String>) {
    let mut after_attribute = false;
    for line in source.lines().map(str::trim) {
        let attribute = ["#[test]", "#[tokio::test", "#[should_panic"];
        if attribute.iter().any(|start| line.starts_with(start)) {
            after_attribute = true;
        } else if let Some(rest) = line.strip_prefix("fn ").or(line.strip_prefix("async fn ")) {
            if after_attribute {
                names.extend(rest.split(['(', '<']).next().map(str::to_owned));
            }
            after_attribute = false;
        }
    }
}

/// Rows of the table: what is between the pipes.
fn rows(text: &str) -> Vec<Vec<String>> {
    text.lines()
        .filter(|line| line.starts_with('|') && !line.starts_with("|---"))
        .map(|line| {
            let cells = line.trim_matches('|').split('|');
            cells.map(|cell| cell.trim().to_owned()).collect()
        })
        .collect()
}

/// What stands between backticks.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

#[test]
fn every_row_of_the_table_names_a_test_that_exists_or_the_bench() {
    let mut all = Vec::new();
    for folder in ["shared", "firmware", "agent", "tests", "tools"] {
        sources(&root().join(folder), &mut all);
    }
    let mut names = BTreeSet::new();
    for source in &all {
        tests_of(source, &mut names);
    }
    let table = fs::read_to_string(root().join(TABLE)).unwrap();
    let bench = fs::read_to_string(root().join(BENCH)).unwrap();
    let mut wrong = Vec::new();
    let mut seen = BTreeSet::new();
    for row in rows(&table).iter().filter(|row| row[0] != "row") {
        let [id, _, by] = row.as_slice() else {
            panic!("three cells: {row:?}")
        };
        assert!(seen.insert(id.clone()), "{id} stands twice");
        let tests = quoted(by);
        let bench_only = by.starts_with("hardware: ");
        if bench_only && !bench.contains(&format!("| {id} |")) {
            wrong.push(format!("{id}: no such row in {BENCH}"));
        }
        if !bench_only && tests.is_empty() {
            wrong.push(format!("{id}: no test is named"));
        }
        for test in tests.iter().filter(|name| !name.contains('/')) {
            if !names.contains(*test) {
                wrong.push(format!("{id}: there is no test {test}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{TABLE}:\n{}", wrong.join("\n"));
    assert!(seen.len() > 75, "only {} rows", seen.len());
}

#[test]
fn tests_are_found_by_their_attribute() {
    let source = "#[test]\nfn one() {\n}\nfn helper() {}\n    #[tokio::test(flavor = \"x\")]\n    async fn two<T>() {}";
    let mut names = BTreeSet::new();
    tests_of(source, &mut names);
    assert_eq!(names.into_iter().collect::<Vec<_>>(), ["one", "two"]);
    assert_eq!(quoted("a `b` and `c`"), ["b", "c"]);
}
