//! Connections that share the messages out, with Mosquitto: each reading is applied
//! once, whichever connection brings it.

use std::sync::Arc;

use forebay_node::config::ShareConfig;
use forebay_node::upstream::UpstreamProcess;
use forebay_tests::mosquitto::Mosquitto;

use super::gateway::{Gateway, expected, messages};
use super::process::{check_exactly_once, config, exported, wait};

#[tokio::test(flavor = "multi_thread")]
async fn three_connections_share_the_messages_out() {
    const OFFSETS: u64 = 2000;
    let dir = tempfile::tempdir().unwrap();
    let mosquitto = Mosquitto::start();
    let start = |workers| {
        let mut config = config(dir.path(), mosquitto.port());
        config.share = ShareConfig {
            workers,
            group: None,
        };
        UpstreamProcess::spawn(&config, &(Arc::new(|text: &str| eprintln!("{text}")) as _)).unwrap()
    };
    let process = start(3);
    wait(&process, |now| now.connected).await;
    let mut gateway = Gateway::start(mosquitto.port());
    gateway.greeted().await;
    let messages = messages(OFFSETS, 10, 2);
    let (first, second) = messages.split_at(messages.len() / 2);
    gateway.send(first, |_| {}).await;
    let last = process.stop().await;
    assert_eq!(last.sink_said, None);
    // Its three queues are there when it comes back.
    gateway.send(second, |_| {}).await;
    let process = start(3);
    let want = expected(OFFSETS, 2);
    wait(&process, |now| now.readings == want.readings).await;
    gateway.send(&messages, |_| {}).await;
    wait(&process, |now| now.duplicates >= 2 * OFFSETS).await;
    gateway
        .listen_until(|gateway| gateway.is_acked(2, OFFSETS))
        .await;
    gateway.stop().await;
    let last = process.stop().await;
    let counted = (
        last.readings,
        last.gap_records,
        last.rejected,
        last.conflicts,
    );
    assert_eq!(counted, (want.readings, want.gap_records, 0, 0));
    check_exactly_once(&exported(dir.path()), OFFSETS, 2);
}
