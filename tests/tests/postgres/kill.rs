//! kill -9 of the receiver, and of PostgreSQL with all its processes, while a gateway
//! sends through Mosquitto: each offset is there once.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use forebay_node::config::{BrokerConfig, FilesConfig, PostgresPassword, SinkKind, UpstreamConfig};
use forebay_node::ports::Say;
use forebay_node::upstream::{ExtentKind, RowFilter, UpstreamProcess};
use forebay_tests::mosquitto::Mosquitto;
use forebay_tests::postgres::Postgres;

use super::gateway::{Gateway, expected, messages};
use super::made::{extents, open, rows};

const DIR_VAR: &str = "FOREBAY_TEST_POSTGRES_DIR";
const BROKER_VAR: &str = "FOREBAY_TEST_POSTGRES_BROKER";
const PORT_VAR: &str = "FOREBAY_TEST_POSTGRES_PORT";
const PASSWORD_VAR: &str = "FOREBAY_TEST_POSTGRES_PASSWORD_FILE";
const ROUNDS: usize = 8;
const OFFSETS: u64 = 8000;
const PARTITIONS: u16 = 2;

/// A receiver of `client` on a sink that others may have open too.
fn config(
    (dir, client): (&Path, &str),
    broker: u16,
    port: u16,
    password_file: &Path,
) -> UpstreamConfig {
    UpstreamConfig {
        data_dir: dir.to_owned(),
        broker: BrokerConfig {
            backoff_max: Duration::from_secs(1),
            ..BrokerConfig::plain(&format!("127.0.0.1:{broker}"), client)
        },
        sink: SinkKind::Postgres,
        share: forebay_node::config::ShareConfig::default(),
        postgres: Some(forebay_tests::postgres::config_of(
            port,
            PostgresPassword::File(password_file.to_owned()),
        )),
        files: FilesConfig::new(dir.join("files")),
        socket: dir.join("upstream.sock"),
        api: None,
        alarms: forebay_core::alarms::AlarmRules::default(),
    }
}

/// The child: runs only when the parent set the variables.
#[test]
fn child_receives_until_it_is_killed() {
    let Some(dir) = std::env::var_os(DIR_VAR) else {
        return;
    };
    let number = |name| std::env::var(name).unwrap().parse().unwrap();
    let password = std::env::var_os(PASSWORD_VAR).unwrap();
    let config = config(
        (Path::new(&dir), "upstream-1"),
        number(BROKER_VAR),
        number(PORT_VAR),
        Path::new(&password),
    );
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let say: Say = Arc::new(|text: &str| eprintln!("{text}"));
        let process = UpstreamProcess::spawn(&config, &say).unwrap();
        let mut last = 0;
        loop {
            process.wait_until(|now| now.readings > last).await;
            last = process.snapshot().readings;
            println!("applied {last}");
        }
    });
}

fn start_child(dir: &Path, broker: u16, server: &Postgres) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "kill::child_receives_until_it_is_killed",
            "--nocapture",
        ])
        .env(DIR_VAR, dir)
        .env(BROKER_VAR, broker.to_string())
        .env(PORT_VAR, server.port().to_string())
        .env(PASSWORD_VAR, server.password_file())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Lets a child apply until it says so many readings; kills the server then, in
/// between, and goes on to `last`; kills the child. Gives what it said last.
fn run_and_kill(
    (dir, broker): (&Path, u16),
    server: &mut Postgres,
    kill_server_at: Option<u64>,
    kill_at: u64,
) -> u64 {
    let mut child = start_child(dir, broker, server);
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (mut last, mut server_at, mut killed) = (0, kill_server_at, false);
    for line in lines {
        // The test harness prints the name of the test without a line end.
        let line = line.unwrap();
        let Some((_, count)) = line.split_once("applied ") else {
            continue;
        };
        last = count.parse().unwrap();
        if server_at.is_some_and(|at| last >= at) {
            server_at = None;
            server.kill();
            server.restart();
        }
        // No line need come after that: it may have said all of its part at once.
        if server_at.is_none() && last >= kill_at && !killed {
            killed = true;
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(killed, "the child ended by itself at {last}");
    last
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_or_doubled_by_kills_of_receiver_and_server() {
    let dir = tempfile::tempdir().unwrap();
    // A kill loses nothing that the system has: only a power cut would need the sync, and
    // with it a start looks through all files first.
    let start = || Postgres::start_with("fsync = off");
    let mut server = tokio::task::spawn_blocking(start).await.unwrap();
    let broker = Mosquitto::start_with("max_queued_messages 0");
    let port = broker.port();
    let receiver = |server: &Postgres| {
        let place = (dir.path(), "upstream-1");
        let config = config(place, port, server.port(), &server.password_file());
        let say: Say = Arc::new(|text: &str| eprintln!("{text}"));
        UpstreamProcess::spawn(&config, &say).unwrap()
    };
    // The session must exist before the gateway sends: Mosquitto keeps nothing for
    // those that it does not know.
    let first = receiver(&server);
    let mut gateway = Gateway::start(port);
    gateway.greeted().await;
    first.stop().await;

    let messages = messages(OFFSETS, 10, PARTITIONS);
    let mut before = 0;
    for (round, part) in (0..).zip(messages.chunks(messages.len() / ROUNDS)) {
        let data = dir.path().to_owned();
        // Somewhere in this part, which has far more than these.
        let first = before + 1 + round * 37 % 200;
        let server_at = (round % 2 == 1).then_some(first);
        let killed = tokio::task::spawn_blocking(move || {
            let last = run_and_kill((&data, port), &mut server, server_at, first + 100);
            (server, last)
        });
        gateway.send(part, |_| {}).await;
        (server, before) = killed.await.unwrap();
    }
    let process = receiver(&server);
    gateway
        .listen_until(|gateway| gateway.is_acked(usize::from(PARTITIONS), OFFSETS))
        .await;
    gateway.stop().await;
    let last = process.stop().await;
    let want = expected(OFFSETS, u64::from(PARTITIONS));
    assert_eq!(
        (last.readings, last.gap_records, last.gap_readings),
        (want.readings, want.gap_records, want.gap_readings)
    );
    tokio::task::spawn_blocking(move || check(&server))
        .await
        .unwrap();
}

/// Each offset stands in exactly one table, once.
fn check(server: &Postgres) {
    let mut sink = open(server);
    let mut next = std::collections::BTreeMap::new();
    for extent in extents(&mut sink) {
        assert_eq!(extent.kind, ExtentKind::Rows);
        let at = next.entry(extent.source.partition).or_insert(0);
        assert_eq!(extent.first.0, *at, "{extent:?}");
        *at += extent.count;
    }
    let all = next.into_values().collect::<Vec<_>>();
    assert_eq!(all, vec![OFFSETS; usize::from(PARTITIONS)]);
    let found = rows(&mut sink, &RowFilter::default()).len() as u64;
    assert_eq!(found, OFFSETS * u64::from(PARTITIONS));
}
