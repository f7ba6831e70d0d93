//! The receiver in this process: cut connections, restarts, a broker without
//! memory, a sink that fails.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use forebay_core::upstream::apply::Applier;
use forebay_node::config::{
    BrokerConfig, FilesConfig, FilesFormat, ShareConfig, SinkKind, UpstreamConfig,
};
use forebay_node::local;
use forebay_node::mqtt::broker::EmbeddedBroker;
use forebay_node::ports::Say;
use forebay_node::upstream::sink::{self, Sink as _};
use forebay_node::upstream::{EmbeddedSink, RowFilter, UpstreamProcess, UpstreamSnapshot};
use forebay_tests::mosquitto::Mosquitto;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::gateway::{Gateway, expected, messages};

const WAIT_MAX: Duration = Duration::from_secs(60);

pub(super) fn config(dir: &Path, port: u16) -> UpstreamConfig {
    UpstreamConfig {
        data_dir: dir.to_owned(),
        broker: BrokerConfig {
            backoff_max: Duration::from_secs(1),
            ..BrokerConfig::plain(&format!("127.0.0.1:{port}"), "upstream-1")
        },
        sink: SinkKind::Embedded,
        postgres: None,
        files: FilesConfig::new(dir.join("files")),
        share: ShareConfig::default(),
        socket: dir.join("upstream.sock"),
        api: None,
        alarms: forebay_core::alarms::AlarmRules::default(),
    }
}

/// A receiver with a sink by name; files are rolled often.
pub(super) fn config_of(sink: &str, dir: &Path, port: u16) -> UpstreamConfig {
    let config = config(dir, port);
    let format = match sink {
        "embedded" => return config,
        "parquet" => FilesFormat::Parquet,
        "ndjson" => FilesFormat::Ndjson,
        other => panic!("no sink {other}"),
    };
    UpstreamConfig {
        sink: SinkKind::Files,
        files: FilesConfig {
            format,
            rows: 300,
            roll: Duration::from_secs(1),
            ..config.files.clone()
        },
        ..config
    }
}

pub(super) fn spawn(dir: &Path, port: u16) -> UpstreamProcess {
    spawn_with(&config(dir, port))
}

pub(super) fn spawn_with(config: &UpstreamConfig) -> UpstreamProcess {
    let say: Say = Arc::new(|text: &str| eprintln!("{text}"));
    UpstreamProcess::spawn(config, &say).unwrap()
}

pub(super) async fn wait(process: &UpstreamProcess, wanted: impl FnMut(&UpstreamSnapshot) -> bool) {
    let waited = timeout(WAIT_MAX, process.wait_until(wanted)).await;
    assert!(waited.is_ok(), "last: {:?}", process.snapshot());
}

/// All rows of a sink that is closed, each a JSON object.
pub(super) fn exported(dir: &Path) -> Vec<Value> {
    exported_of(&config(dir, 0))
}

/// All rows of any sink that is closed, each a JSON object.
pub(super) fn exported_of(config: &UpstreamConfig) -> Vec<Value> {
    let mut sink = sink::open_existing(config).unwrap();
    let mut out = Vec::new();
    sink::export(sink.as_mut(), &RowFilter::default(), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let rows = text.lines().map(serde_json::from_str);
    rows.collect::<Result<_, _>>().unwrap()
}

/// The rows are each offset of each partition and each reading's ordinal, once.
pub(super) fn check_exactly_once(rows: &[Value], offsets: u64, partitions: u64) {
    let want = expected(offsets, partitions);
    let mut places = BTreeSet::new();
    let mut ordinals = BTreeSet::new();
    let mut gap_readings = 0;
    for row in rows {
        let number = |value: &Value| value.as_u64().unwrap();
        let place = (number(&row["partition"]), number(&row["offset"]));
        assert!(places.insert(place), "{place:?} was applied twice");
        let record = &row["record"];
        match record.get("gap") {
            Some(_) => gap_readings += number(&record["count"]),
            None => {
                let ordinal = number(&record["ordinal"]);
                assert!(ordinals.insert(ordinal), "ordinal {ordinal} twice");
                assert_eq!(record["channel"], "temperature");
            }
        }
    }
    assert_eq!(places.len() as u64, offsets * partitions);
    assert_eq!(ordinals.len() as u64, want.readings);
    assert_eq!(gap_readings, want.gap_readings);
}

/// Connections are cut, the receiver is stopped and started, and everything is
/// sent twice.
#[tokio::test(flavor = "multi_thread")]
async fn each_reading_is_applied_once_whatever_is_cut() {
    const OFFSETS: u64 = 3000;
    let dir = tempfile::tempdir().unwrap();
    let broker = EmbeddedBroker::start().unwrap();
    let mut process = spawn(dir.path(), broker.port());
    let mut gateway = Gateway::start(broker.port());
    gateway.greeted().await;
    let messages = messages(OFFSETS, 10, 2);
    for part in messages.chunks(150) {
        gateway
            .send(part, |floor| {
                if floor == 70 {
                    broker.disconnect_clients();
                }
            })
            .await;
        let last = process.stop().await;
        assert_eq!(last.sink_said, None);
        process = spawn(dir.path(), broker.port());
        // What comes now was acked to the gateway: the broker keeps it for us.
        gateway.send(&part[100..], |_| {}).await;
    }
    let want = expected(OFFSETS, 2);
    wait(&process, |now| now.readings == want.readings).await;
    gateway.send(&messages, |_| {}).await;
    wait(&process, |now| now.duplicates >= 2 * OFFSETS).await;
    gateway
        .listen_until(|gateway| gateway.is_acked(2, OFFSETS))
        .await;
    gateway.stop().await;
    let last = process.stop().await;
    broker.stop().await;
    let counted = (last.readings, last.gap_records, last.gap_readings);
    assert_eq!(
        counted,
        (want.readings, want.gap_records, want.gap_readings)
    );
    assert_eq!(
        (last.rejected, last.beyond, last.gateways, last.partitions),
        (0, 0, 1, 2)
    );
    let mut sink = EmbeddedSink::open_existing(dir.path()).unwrap();
    let applier = Applier::load(sink.load(None).unwrap()).unwrap();
    let (_, _, tally) = applier.ledger().devices().next().expect("one device");
    let total = tally.total();
    assert_eq!(
        (total.readings, total.gap_total()),
        (want.readings, want.gap_readings)
    );
    drop(sink);
    check_exactly_once(&exported(dir.path()), OFFSETS, 2);
}

/// A broker that has lost everything: the session changes, the gateway hears it,
/// and what it sends again is applied once.
#[tokio::test(flavor = "multi_thread")]
async fn a_broker_without_memory_makes_a_new_session() {
    const OFFSETS: u64 = 400;
    let dir = tempfile::tempdir().unwrap();
    let broker = EmbeddedBroker::start().unwrap();
    let port = broker.port();
    let process = spawn(dir.path(), port);
    let mut gateway = Gateway::start(port);
    gateway.greeted().await;
    let messages = messages(OFFSETS, 10, 1);
    gateway.send(&messages[..20], |_| {}).await;
    gateway
        .listen_until(|gateway| gateway.is_acked(1, 200))
        .await;
    gateway
        .listen_until(|gateway| gateway.sessions.len() == 1)
        .await;

    // A lost connection alone is no new session.
    broker.disconnect_clients();
    gateway.send(&messages[..21], |_| {}).await;
    gateway
        .listen_until(|gateway| gateway.is_acked(1, 210))
        .await;
    assert_eq!(gateway.sessions.len(), 1);

    broker.stop().await;
    let broker = EmbeddedBroker::start_on(port).unwrap();
    gateway.ack = None;
    gateway
        .listen_until(|gateway| gateway.sessions.len() == 2)
        .await;
    // Marks stand in the new broker too, without a new message.
    gateway
        .listen_until(|gateway| gateway.is_acked(1, 210))
        .await;
    let ack = gateway.ack.clone().unwrap();
    assert_eq!(Some(&ack.session), gateway.sessions.last());
    gateway.send(&messages, |_| {}).await;
    gateway
        .listen_until(|gateway| gateway.is_acked(1, OFFSETS))
        .await;
    gateway.stop().await;
    process.stop().await;
    broker.stop().await;
    check_exactly_once(&exported(dir.path()), OFFSETS, 1);
}

/// A broker whose queue for us was full dropped messages that it had acked, and
/// kept the session: the hole is seen and asked for.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_full_queue_dropped_is_asked_for_again() {
    const PER_BLOCK: u64 = 10;
    const OFFSETS: u64 = 3000;
    let dir = tempfile::tempdir().unwrap();
    // A hundred messages wait, and those that are on the way come on top.
    let broker = Mosquitto::start_with("max_queued_messages 100\nmax_inflight_messages 20");
    let process = spawn(dir.path(), broker.port());
    let mut gateway = Gateway::start(broker.port());
    gateway.greeted().await;
    process.stop().await;
    let messages = messages(OFFSETS, PER_BLOCK, 1);
    gateway.send(&messages, |_| {}).await;
    let process = spawn(dir.path(), broker.port());
    // When the queue is empty again, something beyond the hole comes.
    gateway
        .listen_until(|gateway| gateway.is_acked(1, 1000))
        .await;
    gateway.send(&messages[messages.len() - 1..], |_| {}).await;
    let mut asked = 0;
    while !gateway.is_acked(1, OFFSETS) {
        gateway
            .listen_until(|gateway| gateway.resend.is_some() || gateway.is_acked(1, OFFSETS))
            .await;
        if let Some(from) = gateway.resend.take() {
            asked += 1;
            let first = usize::try_from(from / PER_BLOCK).unwrap();
            gateway.send(&messages[first..], |_| {}).await;
        }
    }
    assert!(asked > 0);
    gateway.stop().await;
    let last = process.stop().await;
    assert_eq!((last.holes, last.resends), (0, asked));
    check_exactly_once(&exported(dir.path()), OFFSETS, 1);
}

/// A sink that cannot be written: nothing is acked, and when it can again, nothing
/// is missing.
#[tokio::test(flavor = "multi_thread")]
async fn a_sink_that_fails_is_opened_again() {
    const OFFSETS: u64 = 300;
    let dir = tempfile::tempdir().unwrap();
    let broker = EmbeddedBroker::start().unwrap();
    let process = spawn(dir.path(), broker.port());
    let mut gateway = Gateway::start(broker.port());
    gateway.greeted().await;
    let messages = messages(OFFSETS, 10, 1);
    gateway.send(&messages[..10], |_| {}).await;
    wait(&process, |now| now.readings == 98).await;
    let spilled = dir.path().join("sink/blobs/1");
    std::fs::write(&spilled, b"").unwrap();
    gateway.send(&messages[10..], |_| {}).await;
    wait(&process, |now| now.sink_said.is_some()).await;
    std::fs::remove_file(&spilled).unwrap();
    let want = expected(OFFSETS, 1);
    wait(&process, |now| now.readings == want.readings).await;
    wait(&process, |now| now.sink_said.is_none() && now.connected).await;
    gateway.stop().await;
    process.stop().await;
    broker.stop().await;
    check_exactly_once(&exported(dir.path()), OFFSETS, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn status_is_answered_rejects_are_kept_and_a_second_opening_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let broker = EmbeddedBroker::start().unwrap();
    let process = spawn(dir.path(), broker.port());
    let mut gateway = Gateway::start(broker.port());
    gateway.greeted().await;
    let (topic, payload) = messages(10, 10, 1).remove(0);
    let rubbish = (topic.clone(), b"rubbish".to_vec());
    gateway.send(&[rubbish, (topic, payload)], |_| {}).await;
    wait(&process, |now| now.readings == 9).await;

    let socket = dir.path().join("upstream.sock");
    let asked = socket.clone();
    let ask = move |request: Value| local::ask(&asked, &request);
    let questions = [
        json!({ "status": {} }),
        json!({ "status": { "ledger": true } }),
        json!({ "query": "status", "ledger": true }),
        json!({ "query": "rollup" }),
    ];
    let answers = tokio::task::spawn_blocking(move || questions.map(ask));
    let [status, ledger, as_agent, refused] = answers.await.unwrap();
    let (mut status, ledger) = (status.unwrap(), ledger.unwrap());
    assert_eq!(
        (&status["readings"], &status["rejected"]),
        (&json!(9), &json!(1))
    );
    status["ledger"] = ledger["ledger"].clone();
    assert_eq!(status, ledger);
    assert_eq!(as_agent.unwrap(), ledger);
    // Ordinals 0 to 9, of which the first gap names 0 to 2 as well.
    let device = &ledger["ledger"]["devices"][0];
    assert_eq!(
        (
            &device["readings"],
            &device["gaps"]["by_reason"]["ring_full"],
            &device["twice"]
        ),
        (&json!(9), &json!(3), &json!(2))
    );
    assert!(refused.unwrap_err().text.contains("status"));

    let say: Say = Arc::new(|_: &str| {});
    let second = UpstreamProcess::spawn(&config(dir.path(), broker.port()), &say).unwrap_err();
    assert!(second.contains(&std::process::id().to_string()), "{second}");
    let export = EmbeddedSink::open_existing(dir.path())
        .unwrap_err()
        .to_string();
    assert!(export.contains(&std::process::id().to_string()), "{export}");

    gateway.stop().await;
    process.stop().await;
    broker.stop().await;
    assert!(!socket.exists());
    let mut sink = EmbeddedSink::open_existing(dir.path()).unwrap();
    let applier = Applier::load(sink.load(None).unwrap()).unwrap();
    let mut rejected = Vec::new();
    sink::export_rejected(&mut sink, &mut rejected).unwrap();
    let rejected: Value = serde_json::from_slice(&rejected).unwrap();
    assert_eq!(rejected["payload"], "rubbish");
    assert_eq!(applier.counters().rejected, 1);
    let missing = EmbeddedSink::open_existing(&dir.path().join("other")).unwrap_err();
    assert!(missing.to_string().contains("data_dir"), "{missing}");
}
