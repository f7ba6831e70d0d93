//! A topic of Mosquitto: events and retained rows; agent and broker killed.

use std::future::Future;
use std::time::Duration;

use forebay_core::forward::SendNo;
use forebay_node::mqtt::client::MqttConfig;
use forebay_node::mqtt::publisher::{LinkEvent, MqttPublisher, OutMessage, PublisherConfig};
use forebay_node::mqtt::subscriber::{MqttSubscriber, SubscriberConfig};
use forebay_tests::mosquitto::Mosquitto;
use forebay_tests::wait;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::site::{LIMIT, Site};

fn config(port: u16, topic: &str, more: &str) -> String {
    format!(
        r#"
[[table]]
name = "sites"
key = "device"
source = "mqtt"
broker = "127.0.0.1:{port}"
topic = "{topic}"
backoff_max = "1s"
{more}
"#
    )
}

fn on_runtime<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(work)
}

/// Publishes and waits until the broker has all of it.
fn publish(port: u16, topic: &str, payloads: &[String]) {
    on_runtime(async {
        let (sender, mut events) = mpsc::channel(64);
        let publisher = MqttPublisher::spawn(
            PublisherConfig {
                mqtt: MqttConfig::new("127.0.0.1", port, "test"),
                sparkplug: None,
                status: None,
                filters: Vec::new(),
                window: 1000,
            },
            sender,
        );
        let mut acked = 0;
        while acked < payloads.len() {
            let event = timeout(LIMIT, events.recv())
                .await
                .expect("the broker answers");
            match event.expect("the publisher runs") {
                LinkEvent::Connected { conn, .. } => {
                    acked = 0;
                    for (n, payload) in (0..).zip(payloads) {
                        let message = OutMessage {
                            conn,
                            send: SendNo(n),
                            topic: topic.to_owned(),
                            payload: payload.clone().into_bytes(),
                            user_properties: Vec::new(),
                        };
                        publisher.publish(message).expect("room for all");
                    }
                }
                LinkEvent::Acked { .. } => acked += 1,
                LinkEvent::Refused { .. }
                | LinkEvent::Disconnected { .. }
                | LinkEvent::SubscriptionRefused { .. }
                | LinkEvent::Denied(_)
                | LinkEvent::Note(_)
                | LinkEvent::Message { .. } => {}
            }
        }
        publisher.stop().await;
    });
}

/// Publishes retained messages; an empty one takes the retained one away.
fn retain(port: u16, messages: &[(&str, &str)]) {
    on_runtime(async {
        let (sender, mut events) = mpsc::channel(64);
        let client = MqttSubscriber::spawn(
            SubscriberConfig {
                mqtt: MqttConfig::new("127.0.0.1", port, "retainer"),
                status: None,
                filters: vec![String::from("sites/+")],
                receive_max: 16,
                session_expiry_s: 0,
            },
            sender,
        );
        for (topic, payload) in messages {
            let payload = payload.as_bytes().to_vec();
            client.publish(topic, payload, true).expect("room");
        }
        // It hears its own messages once the broker has them.
        let mut heard = 0;
        while heard < messages.len() {
            use forebay_node::mqtt::subscriber::SubscriberEvent;
            let event = timeout(LIMIT, events.recv())
                .await
                .expect("the broker answers");
            if let SubscriberEvent::Message { token, .. } = event.expect("it runs") {
                heard += 1;
                client.ack(token).expect("room");
            }
        }
        client.stop().await;
    });
}

fn row(n: usize) -> Value {
    json!({ "device": "d1", "building": format!("b{n}") })
}

/// Without a position of a database: only the broker says what it sends again.
fn lines(range: std::ops::Range<usize>) -> Vec<String> {
    range
        .map(|n| json!({ "op": "upsert", "key": "d1", "row": row(n) }).to_string())
        .collect()
}

fn history(count: usize) -> Vec<(&'static str, Value)> {
    (0..count)
        .map(|n| (if n == 0 { "insert" } else { "update" }, row(n)))
        .collect()
}

#[test]
fn each_message_is_one_change_through_kills_of_agent_and_broker() {
    let mut broker = Mosquitto::start_with("max_queued_messages 0\n");
    let mut site = Site::new(&config(broker.port(), "cdc/sites", ""));
    site.start();
    wait::until("the topic is subscribed", LIMIT, || {
        let table = site.table("sites")?;
        let is = table["source"]["state"] == "streaming";
        is.then_some(()).ok_or(table.to_string())
    });
    let mut sent = 0;
    for round in 0..4 {
        publish(broker.port(), "cdc/sites", &lines(sent..sent + 40));
        sent += 40;
        site.kill_9();
        // Kept by the broker for the session.
        publish(broker.port(), "cdc/sites", &lines(sent..sent + 40));
        sent += 40;
        if round == 2 {
            broker.stop();
            broker.restart();
        }
        site.start();
    }
    site.wait_for_history("sites", "d1", &history(sent));
    publish(broker.port(), "cdc/sites", &[String::from("{\"op\":\"c\"")]);
    wait::until("a malformed message is told", LIMIT, || {
        let printed = site.printed();
        let told = printed.contains("a message of cdc/sites is no JSON");
        told.then_some(()).ok_or(printed)
    });
    assert_eq!(site.table("sites").unwrap()["source"]["malformed"], 1);
    site.stop();
    assert_eq!(site.stream("changes").len(), sent);
}

#[test]
fn retained_rows_have_their_key_in_the_topic() {
    let broker = Mosquitto::start();
    let port = broker.port();
    retain(
        port,
        &[
            ("sites/d1", r#"{"building":"north"}"#),
            ("sites/d2", r#"{"building":"west"}"#),
        ],
    );
    let mut site = Site::new(&config(port, "sites/+", "key_from = \"topic\""));
    site.start();
    let north = json!({ "building": "north" });
    site.wait_for_history("sites", "d1", &[("insert", north.clone())]);
    site.wait_for_history("sites", "d2", &[("insert", json!({ "building": "west" }))]);
    // Retained messages come again with each connection, and change nothing.
    site.kill_9();
    site.start();
    retain(port, &[("sites/d2", "")]);
    let west = json!({ "building": "west" });
    site.wait_for_history("sites", "d2", &[("insert", west.clone()), ("delete", west)]);
    site.wait_for_history("sites", "d1", &[("insert", north.clone())]);
    assert_eq!(site.rows("sites").unwrap(), [(String::from("d1"), north)]);
    site.stop();
}

#[test]
fn a_broker_that_is_not_there_is_said() {
    let mut broker = Mosquitto::start();
    let mut site = Site::new(&config(broker.port(), "cdc/sites", ""));
    broker.stop();
    site.start();
    wait::until(
        "the source waits for its broker",
        Duration::from_secs(60),
        || {
            let table = site.table("sites")?;
            let why = table["source"]["why"].as_str().unwrap_or_default();
            let is = table["source"]["state"] == "waiting" && why.starts_with("no broker: ");
            is.then_some(()).ok_or(table.to_string())
        },
    );
    broker.restart();
    publish(broker.port(), "other", &[]);
    wait::until("and finds it", Duration::from_secs(60), || {
        let table = site.table("sites")?;
        let is = table["source"]["state"] == "streaming";
        is.then_some(()).ok_or(table.to_string())
    });
    site.stop();
}
