//! What holds of both clients with any broker, and what brokers may do to them.

use forebay_core::forward::{Refusal, SendNo};
use forebay_node::config::Protocol;
use forebay_node::mqtt::broker::EmbeddedBroker;
use forebay_node::mqtt::client::MqttConfig;
use forebay_node::mqtt::publisher::LinkEvent;
use forebay_node::mqtt::subscriber::{SubscriberEvent, shared};
use forebay_tests::mosquitto::Mosquitto;

use super::support::{Publisher, Subscriber, mqtt};

const DATA: &str = "forebay/v1/g/data/readings/0";

/// Runs a test against Mosquitto by both versions of MQTT, and against the embedded
/// broker, which speaks version 5.
macro_rules! with_each_broker {
    ($name:ident, $body:expr) => {
        mod $name {
            use super::*;

            async fn by(protocol: Protocol) {
                // By default it drops what is more than a thousand messages ahead of
                // a slow subscriber, without a word to the publisher.
                let broker = Mosquitto::start_with("max_queued_messages 0\n");
                ($body)(broker.port(), protocol).await;
            }

            #[tokio::test]
            async fn mosquitto() {
                by(Protocol::V5).await;
            }

            #[tokio::test]
            async fn mosquitto_by_3_1_1() {
                by(Protocol::V311).await;
            }

            #[tokio::test]
            async fn embedded() {
                let broker = EmbeddedBroker::start().unwrap();
                ($body)(broker.port(), Protocol::V5).await;
                broker.stop().await;
            }
        }
    };
}

with_each_broker!(
    every_message_arrives_once_and_in_order,
    async |port: u16, protocol| {
        const COUNT: u64 = 3000;
        let mut upstream = Subscriber::by(protocol, port, 64, &["forebay/v1/+/data/#"]);
        assert!(!upstream.connected().await, "a new broker knows no session");
        let sending = tokio::spawn(async move {
            let mut publisher = Publisher::by(protocol, port, 100, &[]);
            publisher.send_all(DATA, COUNT).await;
            publisher.handle.stop().await;
        });
        for n in 0..COUNT {
            let (token, topic, payload) = upstream.message().await;
            assert_eq!((topic.as_str(), payload), (DATA, n.to_string()));
            upstream.handle.ack(token).unwrap();
        }
        sending.await.unwrap();
        upstream.handle.stop().await;
    }
);

with_each_broker!(
    what_was_not_acked_comes_again,
    async |port: u16, protocol| {
        let mut upstream = Subscriber::by(protocol, port, 10, &["forebay/v1/+/data/#"]);
        upstream.connected().await;
        let mut publisher = Publisher::by(protocol, port, 100, &[]);
        publisher.send_all(DATA, 20).await;
        for n in 0..5 {
            let (token, _, payload) = upstream.message().await;
            assert_eq!(payload, n.to_string());
            upstream.handle.ack(token).unwrap();
        }
        let (unacked, _, payload) = upstream.message().await;
        assert_eq!(payload, "5");
        upstream.handle.stop().await;
        let mut upstream = Subscriber::by(protocol, port, 10, &["forebay/v1/+/data/#"]);
        assert!(upstream.connected().await, "the broker kept the session");
        // The token of the other connection acks nothing here.
        upstream.handle.ack(unacked).unwrap();
        for n in 5..20 {
            let (token, _, payload) = upstream.message().await;
            assert_eq!(payload, n.to_string());
            upstream.handle.ack(token).unwrap();
        }
    }
);

with_each_broker!(
    status_follows_the_connection,
    async |port: u16, protocol| {
        let topic = "forebay/v1/gateway-1/status";
        let mut upstream = Subscriber::by(protocol, port, 10, &[topic]);
        upstream.connected().await;
        let mut seen = async || {
            let (token, _, payload) = upstream.message().await;
            upstream.handle.ack(token).unwrap();
            payload
        };
        let mut publisher = Publisher::by(protocol, port, 10, &[]);
        publisher.connected().await;
        assert_eq!(seen().await, "online");
        publisher.handle.stop().await;
        assert_eq!(seen().await, "offline", "said before a clean stop");
        let mut publisher = Publisher::by(protocol, port, 10, &[]);
        publisher.connected().await;
        assert_eq!(seen().await, "online");
        // The same name once more: the broker drops the older connection and
        // speaks its last will before the newer one is born.
        let mut taker = Publisher::by(protocol, port, 10, &[]);
        taker.connected().await;
        assert_eq!(seen().await, "offline");
        assert_eq!(seen().await, "online");
        drop(publisher);
    }
);

with_each_broker!(
    retained_acks_reach_a_gateway_that_comes_later,
    async |port: u16, protocol| {
        let mut upstream = Subscriber::by(protocol, port, 10, &["forebay/v1/+/data/#"]);
        upstream
            .handle
            .publish("forebay/v1/g/ack", b"old".to_vec(), true)
            .unwrap();
        upstream
            .handle
            .publish("forebay/v1/g/ack", b"new".to_vec(), true)
            .unwrap();
        upstream.connected().await;
        let mut watcher = Publisher::by(
            protocol,
            port,
            10,
            &["forebay/v1/g/ack", "forebay/v1/g/cmd"],
        );
        loop {
            if let LinkEvent::Message { topic, payload } = watcher.next().await {
                assert_eq!(topic, "forebay/v1/g/ack");
                if payload == b"new" {
                    break;
                }
            }
        }
    }
);

with_each_broker!(
    a_flood_from_the_broker_stops_nothing,
    async |port: u16, protocol| {
        const COUNT: u64 = 2000;
        let filter = "forebay/v1/g/cmd";
        // Its own messages come back to it while its window is full.
        let mut publisher = Publisher::by(protocol, port, 8, &[filter]);
        publisher.send_all(filter, COUNT).await;
    }
);

#[tokio::test]
async fn the_brokers_receive_maximum_is_kept() {
    let broker = Mosquitto::start_with("max_inflight_messages 5");
    let mut publisher = Publisher::start(broker.port(), 100, &[]);
    let (conn, window) = publisher.connected().await;
    assert_eq!(window, 5);
    publisher.handle.reset(conn).unwrap();
    // All over one connection: `send_all` takes no other event.
    publisher.send_all(DATA, 20_000).await;
}

#[tokio::test]
async fn a_packet_over_the_brokers_limit_is_refused_here() {
    let broker = Mosquitto::start_with("max_packet_size 2000");
    let mut publisher = Publisher::start(broker.port(), 100, &[]);
    let (conn, _) = publisher.connected().await;
    publisher.send(conn, 0, DATA, vec![b'x'; 3000]);
    publisher.send(conn, 1, DATA, vec![b'x'; 1000]);
    let refused = publisher.next().await;
    let LinkEvent::Refused {
        send,
        reason: Refusal::TooLarge { bytes_max, .. },
        ..
    } = refused
    else {
        panic!("{refused:?}")
    };
    assert_eq!((send, bytes_max), (SendNo(0), 2000));
    assert_eq!(
        publisher.next().await,
        LinkEvent::Acked {
            conn,
            send: SendNo(1)
        }
    );
}

#[tokio::test]
async fn the_packet_limit_is_exact() {
    let broker = Mosquitto::start_with("max_packet_size 2000");
    let mut publisher = Publisher::start(broker.port(), 100, &[]);
    let (conn, _) = publisher.connected().await;
    publisher.send(conn, 0, DATA, vec![b'x'; 2500]);
    let refused = publisher.next().await;
    let LinkEvent::Refused {
        reason: Refusal::TooLarge { packet_bytes, .. },
        ..
    } = refused
    else {
        panic!("{refused:?}")
    };
    let room = 2500 - (packet_bytes - 2000);
    for (send, bytes, fits) in [(1, room - 1, true), (2, room, true), (3, room + 1, false)] {
        publisher.send(conn, send, DATA, vec![b'x'; bytes]);
        let event = publisher.next().await;
        let acked = event
            == LinkEvent::Acked {
                conn,
                send: SendNo(send),
            };
        assert_eq!(acked, fits, "{bytes}: {event:?}");
    }
}

#[tokio::test]
async fn a_topic_that_is_not_ours_is_refused_and_the_rest_goes_on() {
    let broker = Mosquitto::start_with("");
    let acl = broker.dir().join("acl");
    std::fs::write(
        &acl,
        "topic readwrite forebay/v1/g/#\ntopic readwrite forebay/v1/gateway-1/#\n",
    )
    .unwrap();
    let extra = format!("acl_file {}", acl.display());
    let broker = Mosquitto::start_with(&extra);
    let mut publisher = Publisher::start(broker.port(), 100, &[]);
    let (conn, _) = publisher.connected().await;
    publisher.send(conn, 0, "forebay/v1/other/data/readings/0", b"x".to_vec());
    publisher.send(conn, 1, DATA, b"x".to_vec());
    let refused = LinkEvent::Refused {
        conn,
        send: SendNo(0),
        reason: Refusal::NotAuthorized,
    };
    assert_eq!(publisher.next().await, refused);
    assert_eq!(
        publisher.next().await,
        LinkEvent::Acked {
            conn,
            send: SendNo(1)
        }
    );
}

#[tokio::test]
async fn a_topic_with_a_wildcard_is_refused_here() {
    let broker = EmbeddedBroker::start().unwrap();
    let mut publisher = Publisher::start(broker.port(), 100, &[]);
    let (conn, _) = publisher.connected().await;
    publisher.send(conn, 0, "forebay/v1/+/data", b"x".to_vec());
    let refused = LinkEvent::Refused {
        conn,
        send: SendNo(0),
        reason: Refusal::TopicInvalid,
    };
    assert_eq!(publisher.next().await, refused);
}

#[tokio::test]
async fn messages_for_an_older_connection_are_dropped() {
    let broker = EmbeddedBroker::start().unwrap();
    let mut publisher = Publisher::start(broker.port(), 100, &[]);
    let (old, _) = publisher.connected().await;
    broker.disconnect_clients();
    let (new, _) = publisher.connected().await;
    assert_ne!(old, new);
    publisher.send(old, 0, DATA, b"stale".to_vec());
    publisher.send(new, 0, DATA, b"fresh".to_vec());
    assert_eq!(
        publisher.next().await,
        LinkEvent::Acked {
            conn: new,
            send: SendNo(0)
        }
    );
}

#[tokio::test]
async fn a_broker_that_lost_its_disk_is_seen() {
    let mut broker = Mosquitto::start();
    let mut upstream = Subscriber::start(broker.port(), 10, &["forebay/v1/+/data/#"]);
    assert!(!upstream.connected().await);
    broker.restart();
    assert!(upstream.connected().await, "it kept its disk");
    broker.lose_disk();
    broker.restart();
    assert!(!upstream.connected().await, "it lost its disk");
}

#[tokio::test]
async fn the_subscriber_survives_a_hundred_cuts() {
    const COUNT: u64 = 2000;
    let broker = EmbeddedBroker::start().unwrap();
    let mut upstream = Subscriber::start(broker.port(), 16, &["forebay/v1/+/data/#"]);
    upstream.connected().await;
    let mut publisher = Publisher::start(broker.port(), 100, &[]);
    publisher.send_all(DATA, COUNT).await;
    drop(publisher);
    // Acks in two out of three cases; everything must come until it is acked.
    let mut done = vec![false; usize::try_from(COUNT).unwrap()];
    let (mut left, mut steps, mut cuts) = (COUNT, 0u64, 0);
    while left > 0 {
        match upstream.next().await {
            SubscriberEvent::Message { token, payload, .. } => {
                steps += 1;
                let n: usize = String::from_utf8(payload).unwrap().parse().unwrap();
                if !std::mem::replace(&mut done[n], true) {
                    left -= 1;
                }
                if steps % 3 != 0 {
                    upstream.handle.ack(token).unwrap();
                }
                if steps % 7 == 0 && cuts < 100 {
                    cuts += 1;
                    broker.disconnect_clients();
                }
                if cuts == 100 {
                    upstream.handle.ack(token).unwrap();
                }
            }
            SubscriberEvent::Connected {
                session_present, ..
            } => assert!(session_present),
            SubscriberEvent::Disconnected { .. } => {}
            event @ (SubscriberEvent::Unfit { .. }
            | SubscriberEvent::Note(_)
            | SubscriberEvent::Denied(_)
            | SubscriberEvent::SubscriptionRefused { .. }) => panic!("{event:?}"),
        }
    }
    assert_eq!(cuts, 100);
}

/// Two workers of one group share the messages out; what one leaves unacked waits for
/// it at the broker.
#[tokio::test]
async fn a_group_of_subscribers_gets_each_message_once() {
    const COUNT: usize = 1000;
    for protocol in [Protocol::V5, Protocol::V311] {
        let broker = Mosquitto::start_with("max_queued_messages 0\n");
        let port = broker.port();
        let filter = shared("workers", "forebay/v1/+/data/#");
        let worker = |name: &str| {
            let mqtt = MqttConfig {
                protocol,
                ..mqtt(port, name)
            };
            Subscriber::with(mqtt, 16, &[&filter])
        };
        let (mut one, mut two) = (worker("worker-1"), worker("worker-2"));
        one.connected().await;
        two.connected().await;
        let mut publisher = Publisher::by(protocol, port, 100, &[]);
        // Acked by the broker, whoever has it now.
        publisher.send_all(DATA, COUNT as u64).await;
        let (mut got, mut by_two) = (vec![0; COUNT], 0);
        let mut left = COUNT;
        while left > 0 {
            let (worker, event) = tokio::select! {
                event = one.next() => (&one, event),
                event = two.next() => (&two, event),
            };
            let SubscriberEvent::Message { token, payload, .. } = event else {
                panic!("{event:?}")
            };
            by_two += usize::from(std::ptr::eq(worker, &two));
            worker.handle.ack(token).unwrap();
            let n: usize = String::from_utf8(payload).unwrap().parse().unwrap();
            got[n] += 1;
            left -= 1;
        }
        assert!(got.iter().all(|times| *times == 1), "{protocol:?}");
        assert!(
            (1..COUNT).contains(&by_two),
            "one worker had {by_two} of {COUNT}"
        );
    }
}
