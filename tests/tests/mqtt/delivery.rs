//! From a log through a broker to the real receiver, with everything on the way
//! cut, frozen, killed and emptied: each record is applied once.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_node::config::{BrokerConfig, FilesConfig, ShareConfig, SinkKind, UpstreamConfig};
use forebay_node::mqtt::broker::EmbeddedBroker;
use forebay_node::upstream::UpstreamProcess;
use forebay_tests::mosquitto::Mosquitto;
use forebay_tests::proxy::Proxy;
use tempfile::TempDir;

use super::forwarder::{Forwarder, PARTITIONS, WINDOW};

fn receiver(dir: &Path, port: u16) -> UpstreamProcess {
    let config = UpstreamConfig {
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
    };
    UpstreamProcess::spawn(&config, &(Arc::new(|_: &str| {}) as _)).unwrap()
}

async fn all_applied(forwarder: &mut Forwarder, receiver: &UpstreamProcess, records: u64) {
    forwarder
        .work_until(|f| {
            assert!(receiver.snapshot().rows <= records, "more than there is");
            receiver.snapshot().rows == records && f.count("unconfirmed") == 0
        })
        .await;
    assert_eq!(forwarder.count("parked"), 0);
}

#[tokio::test]
async fn a_hundred_cuts_in_the_resend_lose_nothing() {
    let (broker, dir) = (Mosquitto::start(), TempDir::new().unwrap());
    let proxy = Proxy::to(broker.port());
    let receiver = receiver(dir.path(), broker.port());
    let mut forwarder = Forwarder::start(proxy.port());
    let records = forwarder.append(2000);
    for cut in 1..=100 {
        let target = forwarder.count("published") + 50;
        forwarder
            .work_until(|f| f.count("published") >= target)
            .await;
        proxy.cut();
        forwarder
            .work_until(|f| f.count("disconnects") >= cut)
            .await;
    }
    all_applied(&mut forwarder, &receiver, records).await;
    let again = forwarder.count("resent");
    assert!(
        again <= 100 * u64::from(WINDOW),
        "{again} messages again in 100 cuts"
    );
}

#[tokio::test]
async fn a_link_that_goes_silent_is_given_up_and_taken_up() {
    let (broker, dir) = (Mosquitto::start(), TempDir::new().unwrap());
    let proxy = Proxy::to(broker.port());
    let receiver = receiver(dir.path(), broker.port());
    let mut forwarder = Forwarder::start(proxy.port());
    let mut records = forwarder.append(200);
    forwarder.work_until(|f| f.count("published") > 100).await;
    proxy.freeze();
    records += forwarder.append(200);
    forwarder.work_until(|f| f.count("disconnects") >= 1).await;
    proxy.thaw();
    all_applied(&mut forwarder, &receiver, records).await;
}

#[tokio::test]
async fn a_broker_killed_again_and_again_loses_nothing() {
    let (mut broker, dir) = (Mosquitto::start(), TempDir::new().unwrap());
    let receiver = receiver(dir.path(), broker.port());
    let mut forwarder = Forwarder::start(broker.port());
    let mut records = forwarder.append(500);
    for kill in 1..=4 {
        let target = forwarder.count("published") + 200;
        forwarder
            .work_until(|f| f.count("published") >= target)
            .await;
        broker.kill();
        forwarder
            .work_until(|f| f.count("disconnects") >= kill)
            .await;
        broker.restart();
        records += forwarder.append(100);
    }
    // What it had acked and not written shows as holes before what follows.
    forwarder.work_until(|f| f.count("backlog") == 0).await;
    records += forwarder.append(1);
    all_applied(&mut forwarder, &receiver, records).await;
}

#[tokio::test]
async fn a_broker_that_lost_its_disk_gets_everything_unconfirmed_again() {
    let (mut broker, dir) = (Mosquitto::start(), TempDir::new().unwrap());
    let first = receiver(dir.path(), broker.port());
    let mut forwarder = Forwarder::start(broker.port());
    let mut records = forwarder.append(50);
    all_applied(&mut forwarder, &first, records).await;
    first.stop().await;
    // The broker takes these for a receiver that is away, and loses them.
    records += forwarder.append(50);
    forwarder.work_until(|f| f.count("backlog") == 0).await;
    assert!(forwarder.count("unconfirmed") > 0);
    broker.lose_disk();
    broker.restart();
    let second = receiver(dir.path(), broker.port());
    all_applied(&mut forwarder, &second, records).await;
    assert_eq!(
        forwarder.count("rewinds"),
        2,
        "the first session and this one"
    );
}

#[tokio::test]
async fn what_a_full_queue_dropped_is_asked_for_again() {
    let broker = Mosquitto::start_with("max_queued_messages 100");
    let dir = TempDir::new().unwrap();
    let first = receiver(dir.path(), broker.port());
    let mut forwarder = Forwarder::start(broker.port());
    let mut records = forwarder.append(20);
    all_applied(&mut forwarder, &first, records).await;
    first.stop().await;
    records += forwarder.append(500);
    forwarder.work_until(|f| f.count("backlog") == 0).await;
    let second = receiver(dir.path(), broker.port());
    forwarder.work_until(|_| second.snapshot().connected).await;
    records += forwarder.append(1);
    all_applied(&mut forwarder, &second, records).await;
}

#[tokio::test]
async fn the_embedded_broker_refuses_when_it_is_full_and_loses_nothing() {
    let (broker, dir) = (EmbeddedBroker::start().unwrap(), TempDir::new().unwrap());
    let first = receiver(dir.path(), broker.port());
    let mut forwarder = Forwarder::start(broker.port());
    let mut records = forwarder.append(20);
    all_applied(&mut forwarder, &first, records).await;
    for _ in 0..5 {
        broker.disconnect_clients();
        records += forwarder.append(100);
        all_applied(&mut forwarder, &first, records).await;
    }
    first.stop().await;
    broker.stop().await;
}

/// Known faults a22, a25 and b23: a backlog drains over one connection at the
/// speed of the link, here at least a thousand messages a second in a debug build.
#[tokio::test]
async fn a_backlog_drains_over_one_connection() {
    const BLOCKS: u64 = 5000;
    let broker = Mosquitto::start();
    let mut forwarder = Forwarder::start(broker.port());
    forwarder.append(BLOCKS);
    forwarder.work_until(|f| f.count("published") > 0).await;
    let start = Instant::now();
    forwarder.work_until(|f| f.count("backlog") == 0).await;
    let messages = BLOCKS * u64::from(PARTITIONS);
    let rate = messages as f64 / start.elapsed().as_secs_f64();
    assert_eq!(forwarder.count("disconnects"), 0);
    assert_eq!(forwarder.count("resent"), 0);
    assert!(rate > 1000.0, "{rate:.0} messages a second");
    println!("{rate:.0} messages a second");
}
