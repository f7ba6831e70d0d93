//! The real agent on a PostgreSQL, killed at every step of snapshot and stream and at those
//! of its store: topic `changes` has each change once.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use forebay_core::change::{Change, ChangeOp};
use forebay_core::log::block::Body;
use forebay_core::log::decode::decode;
use forebay_core::log::key::TopicPartition;
use forebay_core::log::topic::CHANGES;
use forebay_core::store::Store as _;
use forebay_core::units::Offset;
use forebay_node::agent::Agent;
use forebay_node::config::Config;
use forebay_node::ports::Say;
use forebay_node::store::fault::SOURCE_POINTS;
use forebay_node::store::{LogStore, StoreSettings};
use forebay_tests::postgres::{DATABASE, USER};
use forebay_tests::wait;

use super::child::{DIR_VAR, PASSWORD_VAR, PORT_VAR};
use super::kill::{ROWS, drop_slot, start, write};
use super::rig::{LIMIT, Rig};

const TEST: &str = "agent::child_agent_runs_until_it_is_killed";
const READ_BYTES: usize = 256 * 1024;
/// Steps of the store, and for how many times each is passed before it kills.
const STORE_POINTS: [(&str, u32); 6] = [
    ("append.written", 3),
    ("append.written", 20),
    ("sync.flushed", 12),
    ("sync.synced", 12),
    ("sync.meta-written", 3),
    ("sync.meta-synced", 3),
];

fn config(dir: &Path, port: u16, password_file: &Path) -> Config {
    let text = format!(
        r#"
[agent]
gateway = "gw1"
data_dir = {:?}

[[database]]
name = "main"
host = "127.0.0.1"
port = {port}
user = "{USER}"
database = "{DATABASE}"
password_file = {password_file:?}
heartbeat = "200ms"

[[table]]
name = "places"
key = "id"
source = "postgres"
database = "main"
"#,
        dir.join("data")
    );
    Config::from_text(&dir.join("agent.toml"), &text).unwrap()
}

/// The child: runs only when the parent set the variables.
#[test]
fn child_agent_runs_until_it_is_killed() {
    let Some(dir) = std::env::var_os(DIR_VAR) else {
        return;
    };
    let port = std::env::var(PORT_VAR).unwrap().parse().unwrap();
    let password = std::env::var_os(PASSWORD_VAR).unwrap();
    let config = config(Path::new(&dir), port, Path::new(&password));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let say: Say = Arc::new(|text: &str| eprintln!("{text}"));
        let mut agent = Agent::start(&config, &say).await.unwrap();
        panic!("the agent ended: {:?}", agent.failed().await);
    });
}

/// All changes in the log of an agent that does not run.
fn changes(data_dir: &Path) -> Vec<Change> {
    let (store, opened) = LogStore::open(data_dir, StoreSettings::default()).unwrap();
    assert_eq!(opened.losses, [], "a kill is no damage");
    let mut found = Vec::new();
    for (at, head) in opened.heads.iter().filter(|(at, _)| at.topic == CHANGES) {
        let mut next = Offset(0);
        while next < *head {
            next = read_some(&store, *at, next, &mut found);
        }
    }
    found
}

fn read_some(store: &LogStore, at: TopicPartition, from: Offset, out: &mut Vec<Change>) -> Offset {
    let mut next = from;
    for stored in store.read(at, from, READ_BYTES).unwrap() {
        let block = decode(stored.key, &stored.bytes).unwrap();
        if block.end() <= next {
            continue;
        }
        assert_eq!(block.base, next, "{at:?}: a hole");
        next = block.end();
        let Body::Rows(rows) = block.body else {
            panic!("readings among the changes");
        };
        let read = |line: &[u8]| {
            let shown = String::from_utf8_lossy(line);
            Change::parse(line).unwrap_or_else(|error| panic!("{shown}: {error}"))
        };
        out.extend(rows.iter().map(|row| read(&row.line)));
    }
    assert!(next > from, "{at:?}: nothing to read at {}", from.0);
    next
}

/// Number and version of a row.
fn parse(row: &str) -> (i64, i64) {
    let row: serde_json::Value = serde_json::from_str(row).unwrap();
    let version = row["name"].as_str().unwrap().parse().unwrap();
    (row["id"].as_i64().unwrap(), version)
}

/// Each change of the stream follows the one before it; gives the rows at the end.
fn judge(changes: &[Change], what: &str) -> BTreeMap<i64, i64> {
    let mut rows: BTreeMap<i64, i64> = BTreeMap::new();
    let mut last = None;
    for change in changes {
        assert_eq!(&*change.table, "places", "{what}");
        match change.op {
            ChangeOp::Heartbeat => continue,
            ChangeOp::Insert => assert!(!rows.contains_key(&change.key.parse().unwrap()), "{what}"),
            ChangeOp::Update => {}
            ChangeOp::Delete => panic!("{what}: nothing is deleted: {change:?}"),
        }
        let (id, version) = parse(change.after.as_ref().unwrap());
        assert_eq!(change.key.parse(), Ok(id), "{what}");
        let before = rows.insert(id, version);
        let said = change.before.as_ref().map(|row| parse(row).1);
        assert_eq!(before, said, "{what}: what was before");
        // A row of a snapshot has no position, and may be any number of steps later.
        if let Some(position) = &change.position {
            assert_eq!(before, Some(version - 1), "{what}: {change:?}");
            assert!(
                last.as_ref() < Some(position),
                "{what}: {last:?} {position}"
            );
            last = Some(position.clone());
        }
    }
    rows
}

fn killed_at(rig: &mut Rig, fault: &str) {
    let dir = tempfile::TempDir::new().unwrap();
    let server = &rig.server;
    let mut admin = server.admin();
    let mut confirmed_behind = |what: &str| {
        let end: String = admin
            .query_one("SELECT pg_current_wal_flush_lsn()::text", &[])
            .unwrap()
            .get(0);
        let sql = format!(
            "SELECT coalesce(bool_or(confirmed_flush_lsn >= '{end}'), false) \
             FROM pg_replication_slots"
        );
        wait::until(&format!("{fault}: {what}"), LIMIT, || {
            match admin.query_one(&sql, &[]).unwrap().get::<_, bool>(0) {
                true => Ok(()),
                false => Err(std::fs::read_to_string(dir.path().join("errors")).unwrap()),
            }
        });
    };
    let ends = AtomicBool::new(false);
    let (rows, want) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| write(server, &ends));
        let mut child = start(TEST, server, dir.path(), Some(fault));
        wait::until(&format!("{fault} is passed"), LIMIT, || {
            let errors = || std::fs::read_to_string(dir.path().join("errors")).unwrap();
            child.try_wait().unwrap().ok_or_else(errors)
        });
        let mut child = start(TEST, server, dir.path(), None);
        // A slot begins confirmed: what it is told behind that is the stream.
        for _ in 0..3 {
            confirmed_behind("changes go on");
        }
        // And once more at any moment.
        child.kill().unwrap();
        child.wait().unwrap();
        let mut child = start(TEST, server, dir.path(), None);
        ends.store(true, Ordering::Relaxed);
        writer.join().unwrap();
        confirmed_behind("all is there");
        child.kill().unwrap();
        child.wait().unwrap();
        let sql = "SELECT id::int8, name::int8 FROM places";
        let all = server.admin().query(sql, &[]).unwrap();
        let want: BTreeMap<i64, i64> = all.iter().map(|row| (row.get(0), row.get(1))).collect();
        let changes = changes(&dir.path().join("data"));
        let streamed = changes.iter().filter(|change| change.position.is_some());
        assert!(streamed.count() > 10, "{fault}: the stream was tested");
        (judge(&changes, fault), want)
    });
    assert_eq!(rows, want, "{fault}");
    drop_slot(rig);
}

#[test]
fn the_agent_killed_at_any_step_loses_no_change_and_has_none_twice() {
    let mut rig = Rig::new();
    rig.sql(&format!(
        "INSERT INTO places SELECT n, '0' FROM generate_series(0, {ROWS} - 1) n"
    ));
    for point in SOURCE_POINTS {
        killed_at(&mut rig, &format!("{point}:1"));
    }
    for point in [
        "source.snapshot-rows",
        "source.handed-on",
        "source.confirmed",
    ] {
        killed_at(&mut rig, &format!("{point}:2"));
    }
    for (point, n) in STORE_POINTS {
        killed_at(&mut rig, &format!("{point}:{n}"));
    }
}
