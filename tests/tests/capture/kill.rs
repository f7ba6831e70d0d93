//! kill -9 at every step of snapshot and stream, while rows change: each change is in the
//! log once.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use forebay_node::store::fault::SOURCE_POINTS;
use forebay_tests::postgres::Postgres;
use forebay_tests::wait;

use super::child::{DIR_VAR, PASSWORD_VAR, PORT_VAR, TEST, read};
use super::rig::{LIMIT, Rig, SLOT};

/// Rows whose versions are counted.
pub(crate) const ROWS: i32 = 5000;
/// Of these the writer changes so many, each again and again.
const CHANGED: i32 = 20;

/// Starts a test of this program as a process that a fault point may kill.
pub(crate) fn start(test: &str, server: &Postgres, dir: &Path, fault: Option<&str>) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(DIR_VAR, dir)
        .env(PORT_VAR, server.port().to_string())
        .env(PASSWORD_VAR, server.password_file())
        .envs(fault.map(|fault| ("FOREBAY_FAULT", fault)))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(dir.join("errors")).unwrap())
        .spawn()
        .unwrap()
}

/// Changes rows until it is told to end: two of them in each transaction.
pub(crate) fn write(server: &Postgres, ends: &AtomicBool) {
    let mut client = server.admin();
    let mut n = 0;
    while !ends.load(Ordering::Relaxed) {
        let (a, b) = (n % CHANGED, (n * 7 + 3) % CHANGED);
        client
            .batch_execute(&format!(
                "BEGIN; UPDATE places SET name = (name::int8 + 1)::text WHERE id = {a}; \
                 UPDATE places SET name = (name::int8 + 1)::text WHERE id = {b}; COMMIT"
            ))
            .unwrap();
        n += 1;
    }
}

/// Holds the log against itself: behind a snapshot each version of a row follows the one
/// before it. Gives the rows at its end, and how many changes there were.
fn judge(lines: &[String], what: &str) -> (BTreeMap<i64, i64>, usize) {
    let mut rows: BTreeMap<i64, i64> = BTreeMap::new();
    let mut snapshot = BTreeMap::new();
    let mut changes = 0;
    let parse = |row: &str| -> (i64, i64) {
        let row: serde_json::Value = serde_json::from_str(row).unwrap();
        let version = row["name"].as_str().unwrap().parse().unwrap();
        (row["id"].as_i64().unwrap(), version)
    };
    for line in lines {
        if line == "begin places" {
            snapshot.clear();
        } else if let Some(row) = line.strip_prefix("row places ") {
            let (id, version) = parse(row);
            assert_eq!(snapshot.insert(id, version), None, "{what}: {line}");
        } else if line == "end places" {
            rows = std::mem::take(&mut snapshot);
        } else if let Some(row) = line.strip_prefix("update places ") {
            let (id, version) = parse(row);
            let before = rows.insert(id, version);
            assert_eq!(before, Some(version - 1), "{what}: {line}");
            changes += 1;
        }
    }
    (rows, changes)
}

fn killed_at(rig: &mut Rig, fault: &str) {
    let dir = tempfile::TempDir::new().unwrap();
    let server = &rig.server;
    let ends = Arc::new(AtomicBool::new(false));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| write(server, &ends));
        let mut child = start(TEST, server, dir.path(), Some(fault));
        wait::until(&format!("{fault} is passed"), LIMIT, || {
            child.try_wait().unwrap().ok_or("it runs")
        });
        let mut child = start(TEST, server, dir.path(), None);
        let log = dir.path().join("log");
        let wanted = judge(&read(&log).0, fault).1 + 50;
        wait::until("changes go on", LIMIT, || {
            let (_, changes) = judge(&read(&log).0, fault);
            if changes >= wanted {
                Ok(())
            } else {
                Err(changes)
            }
        });
        // And once more at any moment.
        child.kill().unwrap();
        child.wait().unwrap();
        let mut child = start(TEST, server, dir.path(), None);
        ends.store(true, Ordering::Relaxed);
        writer.join().unwrap();
        let sql = "SELECT id::int8, name::int8 FROM places";
        let all = server.admin().query(sql, &[]).unwrap();
        let want: BTreeMap<i64, i64> = all.iter().map(|row| (row.get(0), row.get(1))).collect();
        wait::until("the log has all", LIMIT, || {
            let (rows, _) = judge(&read(&log).0, fault);
            if rows == want {
                Ok(())
            } else {
                Err(format!("{} rows", rows.len()))
            }
        });
        child.kill().unwrap();
        child.wait().unwrap();
    });
    drop_slot(rig);
}

/// The slot is that of one agent, and the next round is another one's.
pub(crate) fn drop_slot(rig: &mut Rig) {
    wait::until("the slot is free", LIMIT, || {
        let sql = format!("SELECT pg_drop_replication_slot('{SLOT}')");
        rig.admin.batch_execute(&sql)
    });
}

#[test]
fn a_kill_at_any_step_loses_no_change_and_gives_none_twice() {
    let mut rig = Rig::new();
    rig.sql(&format!(
        "INSERT INTO places SELECT n, '0' FROM generate_series(0, {ROWS} - 1) n"
    ));
    for point in SOURCE_POINTS {
        for n in [1, 2] {
            // Without a slot nothing is dropped or made twice.
            let once = [
                "source.recorded",
                "source.slot-dropped",
                "source.slot-made",
                "source.snapshot-durable",
                "source.snapshot-recorded",
                "source.started",
            ];
            if n == 1 || !once.contains(&point) {
                killed_at(&mut rig, &format!("{point}:{n}"));
            }
        }
    }
}
