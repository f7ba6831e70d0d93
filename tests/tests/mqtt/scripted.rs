//! A broker that says exactly what a test tells it to, byte by byte, and what the
//! clients make of it.

use forebay_core::forward::{Refusal, SendNo};
use forebay_node::config::Protocol;
use forebay_node::mqtt::publisher::LinkEvent;
use forebay_node::mqtt::subscriber::SubscriberEvent;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::forwarder::{Forwarder, PARTITIONS, WINDOW};
use super::support::{Publisher, Subscriber, WAIT_MAX};

const DATA: &str = "forebay/v1/g/data/readings/0";
const CONNECT: u8 = 1;
const PUBLISH: u8 = 3;
const PUBACK: u8 = 4;
const SUBSCRIBE: u8 = 8;
/// Success, no session, receive maximum 20.
const CONNACK: [u8; 8] = [0x20, 6, 0, 0, 3, 33, 0, 20];
/// Success, no session.
const CONNACK_3_1_1: [u8; 4] = [0x20, 2, 0, 0];
const VERSIONS: [Protocol; 2] = [Protocol::V5, Protocol::V311];

struct Script {
    listener: TcpListener,
    protocol: Protocol,
}

struct Link {
    stream: TcpStream,
    protocol: Protocol,
}

struct Packet {
    kind: u8,
    body: Vec<u8>,
}

impl Packet {
    /// Packet number of a SUBSCRIBE or PUBACK, or of a PUBLISH with QoS 1.
    fn id(&self) -> u16 {
        let at = match self.kind {
            PUBLISH => 2 + usize::from(u16::from_be_bytes([self.body[0], self.body[1]])),
            _ => 0,
        };
        u16::from_be_bytes([self.body[at], self.body[at + 1]])
    }

    fn is_status(&self) -> bool {
        String::from_utf8_lossy(&self.body).contains("/status")
    }
}

impl Script {
    async fn new() -> (Self, u16) {
        Self::by(Protocol::V5).await
    }

    async fn by(protocol: Protocol) -> (Self, u16) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        (Self { listener, protocol }, port)
    }

    /// The next connection, after its CONNECT.
    async fn accept(&self) -> Link {
        let (stream, _) = timeout(WAIT_MAX, self.listener.accept())
            .await
            .unwrap()
            .unwrap();
        let protocol = self.protocol;
        let mut link = Link { stream, protocol };
        let connect = link.read().await.unwrap();
        assert_eq!(connect.kind, CONNECT);
        let level = match protocol {
            Protocol::V5 => 5,
            Protocol::V311 => 4,
        };
        assert_eq!(connect.body[..7], [0, 4, b'M', b'Q', b'T', b'T', level]);
        link
    }

    /// The next connection, with its subscription and birth acked.
    async fn ready(&self) -> Link {
        let mut link = self.accept().await;
        match self.protocol {
            Protocol::V5 => link.say(&CONNACK).await,
            Protocol::V311 => link.say(&CONNACK_3_1_1).await,
        }
        loop {
            let packet = link.read().await.unwrap();
            let [high, low] = packet.id().to_be_bytes();
            match packet.kind {
                SUBSCRIBE if self.protocol == Protocol::V311 => {
                    link.say(&[0x90, 3, high, low, 1]).await;
                }
                SUBSCRIBE => link.say(&[0x90, 4, high, low, 0, 1]).await,
                PUBLISH => {
                    link.say(&[0x40, 2, high, low]).await;
                    return link;
                }
                other => panic!("packet {other} before the birth"),
            }
        }
    }
}

impl Link {
    /// The next packet; `None` when the client has ended the connection.
    async fn read(&mut self) -> Option<Packet> {
        let kind = timeout(WAIT_MAX, self.stream.read_u8())
            .await
            .unwrap()
            .ok()?
            >> 4;
        let (mut len, mut shift) = (0usize, 0);
        loop {
            let byte = self.stream.read_u8().await.ok()?;
            len |= usize::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
        }
        let mut body = vec![0; len];
        self.stream.read_exact(&mut body).await.ok()?;
        Some(Packet { kind, body })
    }

    async fn say(&mut self, bytes: &[u8]) {
        // The client may have ended the connection.
        let _ = self.stream.write_all(bytes).await;
    }

    /// Sends a message of one byte on the topic "t" with quality of service 1.
    async fn publish(&mut self, id: u16, payload: u8) {
        let [high, low] = id.to_be_bytes();
        match self.protocol {
            Protocol::V5 => {
                self.say(&[0x32, 7, 0, 1, b't', high, low, 0, payload])
                    .await
            }
            Protocol::V311 => self.say(&[0x32, 6, 0, 1, b't', high, low, payload]).await,
        }
    }

    async fn ack(&mut self, id: u16) {
        let [high, low] = id.to_be_bytes();
        self.say(&[0x40, 2, high, low]).await;
    }
}

/// Known fault b14: a broker that repeats its acks ends a connection each time,
/// and each time something was done.
#[tokio::test]
async fn repeated_acks_end_a_connection_and_not_the_progress() {
    for protocol in VERSIONS {
        let (script, port) = Script::by(protocol).await;
        repeats_its_acks(&script, Publisher::by(protocol, port, 10, &[])).await;
    }
}

async fn repeats_its_acks(script: &Script, mut publisher: Publisher) {
    for _ in 0..5 {
        let mut link = script.ready().await;
        let (conn, _) = publisher.connected().await;
        publisher.send(conn, 0, DATA, b"x".to_vec());
        let id = link.read().await.unwrap().id();
        link.ack(id).await;
        assert_eq!(
            publisher.next().await,
            LinkEvent::Acked {
                conn,
                send: SendNo(0)
            }
        );
        link.ack(id).await;
        let reason = publisher.disconnected().await;
        assert!(reason.contains("nsolicited"), "{reason}");
    }
}

/// Known fault b10: one message is never acked.
#[tokio::test]
async fn a_message_that_is_never_acked_wedges_nothing() {
    for protocol in VERSIONS {
        let (script, port) = Script::by(protocol).await;
        never_acks_one(script, Forwarder::by(protocol, port)).await;
    }
}

async fn never_acks_one(script: Script, mut forwarder: Forwarder) {
    let window = match script.protocol {
        Protocol::V5 => 20,
        // It cannot say how many it takes: ours is the window.
        Protocol::V311 => u32::from(WINDOW),
    };
    forwarder.append(30);
    let broker = tokio::spawn(async move {
        let mut link = script.ready().await;
        let mut seen = 0;
        while let Some(packet) = link.read().await {
            if packet.kind == PUBLISH {
                seen += 1;
                if seen != 3 {
                    link.ack(packet.id()).await;
                }
            }
        }
        // It was given up; the next connection is served well.
        let first = seen;
        let mut link = script.ready().await;
        let mut seen = 0;
        while let Some(packet) = link.read().await {
            if packet.kind == PUBLISH && !packet.is_status() {
                seen += 1;
                link.ack(packet.id()).await;
            }
        }
        (first, seen)
    });
    forwarder.work_until(|f| f.count("backlog") == 0).await;
    assert_eq!(forwarder.count("disconnects"), 1);
    drop(forwarder);
    let (first, second) = broker.await.unwrap();
    // Two and a window from the third on; the third holds it up.
    assert_eq!(first, 2 + window);
    assert!(first + second >= 30 * u32::from(PARTITIONS) + window);
}

#[tokio::test]
async fn acks_in_any_order_are_taken() {
    for protocol in VERSIONS {
        let (script, port) = Script::by(protocol).await;
        turns_acks_round(&script, Publisher::by(protocol, port, 10, &[])).await;
    }
}

async fn turns_acks_round(script: &Script, mut publisher: Publisher) {
    let mut link = script.ready().await;
    let (conn, window) = publisher.connected().await;
    assert_eq!(window, 10);
    for round in 0..50u64 {
        for send in 0..10 {
            publisher.send(conn, round * 10 + send, DATA, b"x".to_vec());
        }
        let mut ids = Vec::new();
        for _ in 0..10 {
            ids.push(link.read().await.unwrap().id());
        }
        for place in [3, 9, 0, 1, 7, 2, 8, 4, 6, 5] {
            link.ack(ids[place]).await;
            let send = SendNo(round * 10 + place as u64);
            assert_eq!(publisher.next().await, LinkEvent::Acked { conn, send });
        }
    }
}

#[tokio::test]
async fn every_refusal_is_told_with_its_reason() {
    let (script, port) = Script::new().await;
    let mut publisher = Publisher::start(port, 10, &[]);
    let mut link = script.ready().await;
    let (conn, _) = publisher.connected().await;
    let cases = [
        (0x80, Refusal::Unspecified),
        (0x83, Refusal::Implementation),
        (0x87, Refusal::NotAuthorized),
        (0x90, Refusal::TopicInvalid),
        (0x91, Refusal::PacketIdInUse),
        (0x97, Refusal::Quota),
        (0x99, Refusal::PayloadInvalid),
    ];
    for (send, (code, reason)) in (0..).zip(cases) {
        publisher.send(conn, send, DATA, b"x".to_vec());
        let [high, low] = link.read().await.unwrap().id().to_be_bytes();
        link.say(&[0x40, 3, high, low, code]).await;
        let event = publisher.next().await;
        assert_eq!(
            event,
            LinkEvent::Refused {
                conn,
                send: SendNo(send),
                reason
            },
            "{code:#x}"
        );
    }
    // Nobody listens: that is no refusal.
    publisher.send(conn, 7, DATA, b"x".to_vec());
    let [high, low] = link.read().await.unwrap().id().to_be_bytes();
    link.say(&[0x40, 3, high, low, 0x10]).await;
    assert_eq!(
        publisher.next().await,
        LinkEvent::Acked {
            conn,
            send: SendNo(7)
        }
    );
}

#[tokio::test]
async fn a_refused_connection_says_why_and_is_tried_again() {
    let (script, port) = Script::new().await;
    let mut publisher = Publisher::start(port, 10, &[]);
    for (code, word) in [(0x86, "BadUserNamePassword"), (0x87, "NotAuthorized")] {
        let mut link = script.accept().await;
        link.say(&[0x20, 3, 0, code, 0]).await;
        let reason = publisher.disconnected().await;
        assert!(reason.contains(word), "{reason}");
    }
    let _link = script.ready().await;
    publisher.connected().await;
}

/// A broker that answers pings and never the birth holds nobody for ever.
#[tokio::test]
async fn a_connection_that_is_never_ready_is_given_up() {
    let (script, port) = Script::new().await;
    let mut publisher = Publisher::start(port, 10, &["t"]);
    let mut link = script.accept().await;
    link.say(&CONNACK).await;
    let chatter = tokio::spawn(async move {
        let ticks = tokio::time::interval(std::time::Duration::from_millis(100));
        tokio::pin!(ticks);
        loop {
            ticks.tick().await;
            // A message, so that the connection is anything but silent.
            if link
                .stream
                .write_all(&[0x30, 5, 0, 1, b't', 0, b'x'])
                .await
                .is_err()
            {
                return;
            }
        }
    });
    let reason = publisher.disconnected().await;
    assert!(reason.contains("does not answer"), "{reason}");
    chatter.await.unwrap();
    let _link = script.ready().await;
    publisher.connected().await;
}

/// Whatever a broker sends, the client says that the connection ended and goes on.
#[tokio::test]
async fn nonsense_from_a_broker_ends_one_connection() {
    let cases: [(&str, &[u8]); 9] = [
        ("not MQTT", &[b'H'; 200]),
        ("a type that is none", &[0x00, 0]),
        (
            "a length that never ends",
            &[0x30, 0xff, 0xff, 0xff, 0xff, 0xff],
        ),
        ("a packet of 256 MB", &[0x30, 0xff, 0xff, 0xff, 0x7f]),
        (
            "a topic longer than its packet",
            &[0x30, 4, 0xff, 0xff, b'a', 0],
        ),
        (
            "properties longer than their packet",
            &[0x30, 5, 0, 1, b'a', 0x7f, 0x26],
        ),
        (
            "a text longer than its properties",
            &[0x30, 8, 0, 1, b'a', 4, 0x03, 0xff, 0xff, b'x'],
        ),
        ("an ack of nothing", &[0x40, 2, 0xff, 0xff]),
        ("goodbye", &[0xe0, 2, 0x8b, 0]),
    ];
    let (script, port) = Script::new().await;
    let mut publisher = Publisher::start(port, 10, &[]);
    for (name, bytes) in cases {
        let mut link = script.ready().await;
        publisher.connected().await;
        link.say(bytes).await;
        let reason = publisher.disconnected().await;
        assert!(!reason.is_empty(), "{name}");
    }
    let _link = script.ready().await;
    publisher.connected().await;
}

/// Known fault b11: the acks that a reader gives after a reconnect are of the
/// connection before, where the same number was another message.
#[tokio::test]
async fn a_stale_ack_is_not_sent() {
    for protocol in VERSIONS {
        let (script, port) = Script::by(protocol).await;
        breaks_before_the_ack(&script, Subscriber::by(protocol, port, 10, &["t"])).await;
    }
}

async fn breaks_before_the_ack(script: &Script, mut subscriber: Subscriber) {
    let mut link = script.ready().await;
    subscriber.connected().await;
    link.publish(1, b'1').await;
    let (stale, _, _) = subscriber.message().await;
    drop(link);
    while !matches!(
        subscriber.next().await,
        SubscriberEvent::Disconnected { .. }
    ) {}
    let mut link = script.ready().await;
    subscriber.connected().await;
    link.publish(1, b'1').await;
    link.publish(2, b'2').await;
    let (first, _, _) = subscriber.message().await;
    let (second, _, _) = subscriber.message().await;
    subscriber.handle.ack(stale).unwrap();
    subscriber.handle.ack(second).unwrap();
    subscriber.handle.ack(first).unwrap();
    subscriber.handle.ack(first).unwrap();
    // In the order of receipt, each once.
    for id in [1, 2] {
        let packet = link.read().await.unwrap();
        assert_eq!((packet.kind, packet.id()), (PUBACK, id));
    }
    subscriber
        .handle
        .publish("after", b"x".to_vec(), false)
        .unwrap();
    let packet = link.read().await.unwrap();
    assert_eq!(packet.kind, PUBLISH, "no third ack");
}

#[tokio::test]
async fn what_cannot_be_ours_is_acked_and_passed_over() {
    let (script, port) = Script::new().await;
    let mut subscriber = Subscriber::start(port, 10, &["#"]);
    let mut link = script.ready().await;
    subscriber.connected().await;
    // A topic that is no text.
    link.say(&[0x32, 7, 0, 1, 0xff, 0, 1, 0, b'x']).await;
    let event = subscriber.next().await;
    assert_eq!(
        event,
        SubscriberEvent::Unfit {
            topic: String::new(),
            payload_bytes: 1
        }
    );
    let packet = link.read().await.unwrap();
    assert_eq!((packet.kind, packet.id()), (PUBACK, 1));
}

/// Mosquitto 2.0.11 does that under load: more unacked messages than were allowed.
#[tokio::test]
async fn more_messages_than_were_allowed_are_taken_and_acked_in_order() {
    const COUNT: u16 = 2000;
    let (script, port) = Script::new().await;
    let mut subscriber = Subscriber::start(port, 4, &["t"]);
    let link = script.ready().await;
    subscriber.connected().await;
    let (mut read, mut write) = link.stream.into_split();
    let sending = tokio::spawn(async move {
        for id in 1..=COUNT {
            let [high, low] = id.to_be_bytes();
            write
                .write_all(&[0x32, 7, 0, 1, b't', high, low, 0, b'x'])
                .await
                .unwrap();
        }
        write
    });
    let mut tokens = Vec::new();
    for _ in 0..COUNT {
        tokens.push(subscriber.message().await.0);
    }
    let _write = sending.await.unwrap();
    for token in tokens {
        // Its queue is small, as what was allowed; it empties by itself.
        while subscriber.handle.ack(token).is_err() {
            tokio::task::yield_now().await;
        }
    }
    let mut acks = vec![0; 4 * usize::from(COUNT)];
    timeout(WAIT_MAX, read.read_exact(&mut acks))
        .await
        .unwrap()
        .unwrap();
    for (id, ack) in (1..=COUNT).zip(acks.chunks(4)) {
        let [high, low] = id.to_be_bytes();
        assert_eq!(ack, [0x40, 2, high, low]);
    }
}

/// Quality of service 0 wants no ack: giving one must not take the place of another.
#[tokio::test]
async fn messages_without_acks_hold_up_none() {
    for protocol in VERSIONS {
        let (script, port) = Script::by(protocol).await;
        let mut subscriber = Subscriber::by(protocol, port, 4, &["t"]);
        let mut link = script.ready().await;
        subscriber.connected().await;
        for _ in 0..20 {
            match protocol {
                Protocol::V5 => link.say(&[0x30, 5, 0, 1, b't', 0, b'x']).await,
                Protocol::V311 => link.say(&[0x30, 4, 0, 1, b't', b'x']).await,
            }
            let (token, _, _) = subscriber.message().await;
            subscriber.handle.ack(token).unwrap();
        }
        link.publish(9, b'x').await;
        let (token, _, _) = subscriber.message().await;
        subscriber.handle.ack(token).unwrap();
        let packet = link.read().await.unwrap();
        assert_eq!((packet.kind, packet.id()), (PUBACK, 9));
    }
}

/// The library's half for 3.1.1 gives a write five seconds by itself.
#[tokio::test]
async fn a_write_may_take_longer_than_the_library_gives_it() {
    const MESSAGES: u64 = 40;
    let run = async |protocol| {
        let (script, port) = Script::by(protocol).await;
        let mut publisher = Publisher::by(protocol, port, 100, &[]);
        let mut link = script.ready().await;
        let (conn, _) = publisher.connected().await;
        for send in 0..MESSAGES {
            publisher.send(conn, send, DATA, vec![b'x'; 250_000]);
        }
        // Ten megabytes: the system takes a part of them, then the write waits.
        let quiet = timeout(Duration::from_secs(7), publisher.next()).await;
        assert!(quiet.is_err(), "{protocol:?}: {quiet:?}");
        let reading = tokio::spawn(async move {
            for _ in 0..MESSAGES {
                let id = link.read().await.unwrap().id();
                link.ack(id).await;
            }
            link
        });
        for send in 0..MESSAGES {
            let send = SendNo(send);
            assert_eq!(publisher.next().await, LinkEvent::Acked { conn, send });
        }
        reading.await.unwrap();
    };
    tokio::join!(run(Protocol::V5), run(Protocol::V311));
}
