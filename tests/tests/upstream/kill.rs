//! kill -9 of the receiver while a gateway sends through Mosquitto: what Mosquitto
//! had not been told is on disk comes again, and nothing counts twice.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use forebay_tests::mosquitto::Mosquitto;

use super::gateway::{Gateway, messages};
use super::process::{check_exactly_once, config_of, exported_of, spawn_with};

const DIR_VAR: &str = "FOREBAY_TEST_UPSTREAM_DIR";
const PORT_VAR: &str = "FOREBAY_TEST_UPSTREAM_PORT";
const SINK_VAR: &str = "FOREBAY_TEST_UPSTREAM_SINK";
const KILLS: usize = 8;

/// The child: runs only when the parent set the variables.
#[test]
fn child_receives_until_it_is_killed() {
    let Some(dir) = std::env::var_os(DIR_VAR) else {
        return;
    };
    let port = std::env::var(PORT_VAR).unwrap().parse().unwrap();
    let sink = std::env::var(SINK_VAR).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let process = spawn_with(&config_of(&sink, Path::new(&dir), port));
        let mut last = 0;
        loop {
            process.wait_until(|now| now.readings > last).await;
            last = process.snapshot().readings;
            println!("applied {last}");
        }
    });
}

fn start_child(sink: &str, dir: &Path, port: u16) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "kill::child_receives_until_it_is_killed",
            "--nocapture",
        ])
        .env(DIR_VAR, dir)
        .env(SINK_VAR, sink)
        .env(PORT_VAR, port.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Lets a child apply until it says so many readings, kills it, and gives the last
/// number that it said.
fn run_and_kill(sink: &str, dir: &Path, port: u16, readings: u64) -> u64 {
    let mut child = start_child(sink, dir, port);
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut last = 0;
    for line in lines {
        // The test harness prints the name of the test without a line end.
        if let Some((_, count)) = line.unwrap().split_once("applied ") {
            let before = std::mem::replace(&mut last, count.parse().unwrap());
            if before < readings && last >= readings {
                child.kill().unwrap();
            }
        }
    }
    child.wait().unwrap();
    assert!(last >= readings, "the child ended by itself at {last}");
    last
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_or_doubled_by_kills() {
    kill_again_and_again("embedded", 4000, 5).await;
}

/// Messages of 100 kB: a transaction spans segments of the database.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_or_doubled_by_kills_in_large_transactions() {
    kill_again_and_again("embedded", 20_000, 500).await;
}

/// A roll each few hundred rows: kills come between all steps of it.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_or_doubled_by_kills_in_parquet_files() {
    kill_again_and_again("parquet", 4000, 5).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_or_doubled_by_kills_in_ndjson_files() {
    kill_again_and_again("ndjson", 4000, 5).await;
}

async fn kill_again_and_again(sink: &'static str, offsets: u64, per_block: u64) {
    let dir = tempfile::tempdir().unwrap();
    let broker = Mosquitto::start_with("max_queued_messages 0");
    let port = broker.port();
    // The session must exist before the gateway sends: Mosquitto keeps nothing for
    // those that it does not know.
    let config = config_of(sink, dir.path(), port);
    let first = spawn_with(&config);
    let mut gateway = Gateway::start(port);
    gateway.greeted().await;
    first.stop().await;

    let messages = messages(offsets, per_block, 2);
    let mut before = 0;
    for (round, part) in (0..).zip(messages.chunks(messages.len() / KILLS)) {
        let data = dir.path().to_owned();
        // Somewhere in this part, which has far more than these.
        let readings = before + 1 + round * 37 % 400;
        let killed = tokio::task::spawn_blocking(move || run_and_kill(sink, &data, port, readings));
        gateway.send(part, |_| {}).await;
        before = killed.await.unwrap();
    }
    let process = spawn_with(&config);
    gateway
        .listen_until(|gateway| gateway.is_acked(2, offsets))
        .await;
    gateway.stop().await;
    process.stop().await;
    check_exactly_once(&exported_of(&config), offsets, 2);
}
