//! A receiver over HTTP: its figures as Prometheus takes them, and whether it does its work.

use std::fs::Permissions;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use forebay_node::api::Api;
use forebay_node::api::metrics::{RECEIVER, coverage};
use forebay_node::config::Config;
use forebay_node::local;
use forebay_node::mqtt::broker::EmbeddedBroker;
use forebay_node::ports::Say;
use forebay_node::upstream::UpstreamProcess;
use forebay_tests::http;
use serde_json::{Value, json};

use super::gateway::{Gateway, expected, messages};
use super::process::wait;

const OFFSETS: u64 = 300;

/// Metrics of what did not happen here.
const NOT_HERE: [&str; 5] = [
    "forebay_alarm",
    "forebay_alarm_age_seconds",
    "forebay_upstream_device_gap_readings_total",
    "forebay_upstream_forked",
    "forebay_upstream_other_gap_readings_total",
];

/// A receiver that serves, and its socket of HTTP.
async fn serve(dir: &Path, port: u16, more: &str) -> (UpstreamProcess, Api) {
    let text = format!(
        "[upstream]\nbroker = \"127.0.0.1:{port}\"\ndata_dir = \"data\"\n\
         [upstream_api]\nlisten = \"127.0.0.1:0\"\n{more}"
    );
    let config = Config::from_text(&dir.join("upstream.toml"), &text).unwrap();
    let config = config.upstream().unwrap();
    let say: Say = Arc::new(|text: &str| eprintln!("{text}"));
    let process = UpstreamProcess::spawn(config, &say).unwrap();
    let api = Api::start_receiver(config.api.as_ref().unwrap(), process.asked(), &say);
    (process, api.await.unwrap())
}

/// Asked beside the runtime, on which the receiver answers.
async fn get(dir: &Path, path: &str) -> (u16, String) {
    let (socket, path) = (dir.join("data/api.sock"), path.to_owned());
    let asked = tokio::task::spawn_blocking(move || http::get(&socket, &path));
    asked.await.unwrap()
}

async fn json_of(dir: &Path, path: &str) -> Value {
    let (status, body) = get(dir, path).await;
    assert_eq!(status, 200, "{path}: {body}");
    serde_json::from_str(&body).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_number_of_a_receiver_is_a_metric_that_prometheus_takes() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let broker = EmbeddedBroker::start().unwrap();
    let (process, api) = serve(dir, broker.port(), "").await;
    let mut gateway = Gateway::start(broker.port());
    gateway.greeted().await;
    gateway.send(&messages(OFFSETS, 10, 2), |_| {}).await;
    let want = expected(OFFSETS, 2);
    wait(&process, |now| now.readings == want.readings).await;

    let socket = dir.join("data/upstream.sock");
    let asked = json!({ "status": { "ledger": true } });
    let asked = tokio::task::spawn_blocking(move || local::ask(&socket, &asked));
    let status = asked.await.unwrap().unwrap();
    let fit = coverage(&RECEIVER, &status);
    assert_eq!(fit.numbers, Vec::<String>::new());
    let missing = fit.metrics.iter().filter(|name| !NOT_HERE.contains(name));
    let missing: Vec<_> = missing.collect();
    assert!(missing.is_empty(), "no source has a figure for {missing:?}");

    let (code, text) = get(dir, "/metrics").await;
    assert_eq!(code, 200);
    assert_eq!(http::promtool(&text), "", "{text}");
    let figure = format!("\nforebay_upstream_readings_total {}\n", want.readings);
    assert!(text.contains(&figure), "{text}");
    assert!(
        text.contains("\nforebay_upstream_device_closes{gateway=\"gw-1\",device="),
        "{text}"
    );
    assert!(text.contains("\nforebay_health{health=\"ok\"} 1\n"));
    assert!(text.contains("\nprocess_resident_memory_bytes "));

    assert_eq!(get(dir, "/healthz").await, (200, "ok\n".to_owned()));
    assert_eq!(get(dir, "/readyz").await, (200, "ready\n".to_owned()));
    let shown = json_of(dir, "/api/v1/status").await;
    assert_eq!(shown["readings"], json!(want.readings));
    let ledger = json_of(dir, "/api/v1/ledger").await;
    assert_eq!(ledger, status["ledger"]);
    assert_eq!(ledger["devices"][0]["readings"], json!(want.readings));
    let alarms = json_of(dir, "/api/v1/alarms").await;
    assert_eq!(alarms["health"], "ok");

    for (path, code, said) in [
        ("/metric", 404, "did you mean \\\"/metrics\\\"?"),
        ("/api/v1/readings", 404, "a receiver answers /healthz"),
        ("/metrics?x=1", 400, "no parameter"),
        ("/", 404, "a receiver answers"),
    ] {
        let (got, body) = get(dir, path).await;
        assert_eq!(got, code, "{path}: {body}");
        assert!(body.contains(said), "{path}: {body}");
    }

    gateway.stop().await;
    drop(api);
    process.stop().await;
    broker.stop().await;
}

/// The guard is the agent's; what it says names the receiver's section.
#[tokio::test(flavor = "multi_thread")]
async fn over_the_network_a_receiver_wants_its_token() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let token = dir.join("token");
    std::fs::write(&token, "0123456789abcdef\n").unwrap();
    std::fs::set_permissions(&token, Permissions::from_mode(0o600)).unwrap();
    let (process, api) = serve(dir, 1, "token_file = \"token\"\n").await;
    let address = api.address().unwrap();
    let get = async |path: &'static str, more: &'static str| {
        let asked = tokio::task::spawn_blocking(move || {
            http::get_of(TcpStream::connect(address).unwrap(), path, more)
        });
        asked.await.unwrap()
    };
    let (code, body) = get("/metrics", "").await;
    assert_eq!(code, 401, "{body}");
    assert!(body.contains("token_file in [upstream_api]"), "{body}");
    let bearer = "Authorization: Bearer 0123456789abcdef\r\n";
    assert_eq!(get("/metrics", bearer).await.0, 200);
    assert_eq!(get("/healthz", "").await.0, 200);
    drop(api);
    process.stop().await;
}

/// A load balancer or a supervisor asks `/readyz`: it says nothing of why.
#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_without_a_broker_is_alive_and_not_ready() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let broker = EmbeddedBroker::start().unwrap();
    let (process, api) = serve(dir, broker.port(), "").await;
    wait(&process, |now| now.connected).await;
    assert_eq!(get(dir, "/readyz").await.0, 200);
    broker.stop().await;
    wait(&process, |now| !now.connected).await;
    let (code, body) = get(dir, "/readyz").await;
    assert_eq!(code, 503, "{body}");
    assert!(body.contains("urn:forebay:problem:not-ready"), "{body}");
    assert!(!body.contains("127.0.0.1"), "{body}");
    assert_eq!(get(dir, "/healthz").await.0, 200);
    let (_, text) = get(dir, "/metrics").await;
    assert!(text.contains("\nforebay_upstream_connected 0\n"), "{text}");

    // Whoever asks at its end is told.
    process.stop().await;
    let (code, body) = get(dir, "/api/v1/status").await;
    assert_eq!(code, 503, "{body}");
    drop(api);
}
