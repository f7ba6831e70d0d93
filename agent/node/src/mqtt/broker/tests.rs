//! The hub by hand: no socket, time as an argument.

use std::sync::Arc;
use std::time::Duration;

use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::{
    ConnectReturnCode, Filter, LastWill, PubAckReason, Publish, SubscribeReasonCode,
};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::super::limits::{
    BROKER_FILTERS_MAX, BROKER_QUEUE_BYTES_MAX, BROKER_RETAINED_MAX, BROKER_SESSIONS_MAX,
    PACKET_BYTES_MAX,
};
use super::hub::{Hub, LinkNo, Opening};

const HOUR: Duration = Duration::from_secs(3600);

struct Bench {
    hub: Hub,
    now: Instant,
}

impl Bench {
    fn new() -> Self {
        Self {
            hub: Hub::default(),
            now: Instant::now(),
        }
    }

    fn try_open(&mut self, opening: Opening) -> Result<(LinkNo, bool), ConnectReturnCode> {
        self.hub.open(opening, Arc::new(Notify::new()), self.now)
    }

    fn open(&mut self, id: &str) -> (LinkNo, bool) {
        self.try_open(opening(id)).unwrap()
    }

    fn subscribed(&mut self, id: &str, filter: &str) -> LinkNo {
        let (link, _) = self.open(id);
        let codes = self
            .hub
            .subscribe(id, link, vec![Filter::new(filter, QoS::AtLeastOnce)]);
        assert_eq!(codes, [SubscribeReasonCode::Success(QoS::AtLeastOnce)]);
        link
    }

    fn publish(&mut self, topic: &str, payload: &[u8]) -> PubAckReason {
        self.hub.publish("p", message(topic, payload))
    }

    fn retain(&mut self, topic: &str, payload: &[u8]) -> PubAckReason {
        self.hub.publish(
            "p",
            Publish {
                retain: true,
                ..message(topic, payload)
            },
        )
    }

    fn payloads(&mut self, id: &str, link: LinkNo) -> Vec<String> {
        let next = std::iter::from_fn(|| self.hub.next(id, link));
        next.map(|p| String::from_utf8(p.payload.to_vec()).unwrap())
            .collect()
    }
}

fn opening(id: &str) -> Opening {
    Opening {
        client_id: id.to_owned(),
        clean_start: false,
        expiry: HOUR,
        receive_max: 10,
        packet_bytes_max: PACKET_BYTES_MAX,
        will: None,
    }
}

fn message(topic: &str, payload: &[u8]) -> Publish {
    Publish::new(topic, QoS::AtLeastOnce, payload.to_vec(), None)
}

#[test]
fn unacked_messages_come_again_in_order_and_marked() {
    let mut b = Bench::new();
    let link = b.subscribed("s", "t");
    for payload in [b"1", b"2", b"3"] {
        assert_eq!(b.publish("t", payload), PubAckReason::Success);
    }
    let first = b.hub.next("s", link).unwrap();
    let second = b.hub.next("s", link).unwrap();
    assert!(!first.dup && !second.dup);
    b.hub.acked("s", link, first.pkid);
    b.hub.close("s", link, true, b.now);
    b.publish("t", b"4");
    let (link, present) = b.open("s");
    assert!(present);
    let again = b.hub.next("s", link).unwrap();
    assert_eq!(
        (again.pkid, again.dup, &again.payload[..]),
        (second.pkid, true, &b"2"[..])
    );
    assert_eq!(b.payloads("s", link), ["3", "4"]);
}

#[test]
fn acks_between_resends_keep_the_order() {
    let mut b = Bench::new();
    let link = b.subscribed("s", "t");
    for payload in [b"1", b"2", b"3"] {
        b.publish("t", payload);
    }
    let sent: Vec<u16> = (0..3)
        .map(|_| b.hub.next("s", link).unwrap().pkid)
        .collect();
    let (link, _) = b.open("s");
    assert_eq!(b.hub.next("s", link).unwrap().pkid, sent[0]);
    // A late ack of one that is yet to go out, and of one that went out.
    b.hub.acked("s", link, sent[1]);
    b.hub.acked("s", link, sent[0]);
    assert_eq!(b.hub.next("s", link).unwrap().pkid, sent[2]);
    assert!(b.hub.next("s", link).is_none());
}

#[test]
fn the_clients_receive_maximum_is_kept() {
    let mut b = Bench::new();
    let link = b.subscribed("s", "t");
    for n in 0..12u8 {
        b.publish("t", &[b'a' + n]);
    }
    let sent: Vec<Publish> = std::iter::from_fn(|| b.hub.next("s", link)).collect();
    assert_eq!(sent.len(), 10);
    b.hub.acked("s", link, sent[4].pkid);
    assert!(b.hub.next("s", link).is_some());
    assert!(b.hub.next("s", link).is_none());
    let (link, _) = b
        .try_open(Opening {
            receive_max: 3,
            ..opening("s")
        })
        .unwrap();
    assert_eq!(b.payloads("s", link).len(), 3, "also of what comes again");
}

#[test]
fn a_message_that_one_session_has_no_room_for_is_refused_for_all() {
    let mut b = Bench::new();
    let slow = b.subscribed("slow", "t");
    let payload = vec![b'x'; 200_000];
    let mut taken = 0;
    while b.publish("t", &payload) == PubAckReason::Success {
        taken += 1;
    }
    assert!(taken * payload.len() <= BROKER_QUEUE_BYTES_MAX);
    assert!((taken + 1) * (payload.len() + 100) > BROKER_QUEUE_BYTES_MAX);
    let quick = b.subscribed("quick", "t");
    assert_eq!(b.publish("t", &payload), PubAckReason::QuotaExceeded);
    assert!(b.payloads("quick", quick).is_empty());
    // Room comes back with acks only.
    let sent = b.hub.next("slow", slow).unwrap();
    assert_eq!(b.publish("t", &payload), PubAckReason::QuotaExceeded);
    b.hub.acked("slow", slow, sent.pkid);
    assert_eq!(b.publish("t", &payload), PubAckReason::Success);
}

#[test]
fn a_session_ends_with_its_expiry() {
    for (name, later, present) in [
        ("before", HOUR - Duration::from_micros(1), true),
        ("at", HOUR, false),
        ("after", HOUR + Duration::from_micros(1), false),
    ] {
        let mut b = Bench::new();
        let link = b.subscribed("s", "t");
        b.hub.close("s", link, true, b.now);
        b.now += later;
        assert_eq!(b.open("s").1, present, "{name}");
    }
    let mut b = Bench::new();
    let (link, _) = b
        .try_open(Opening {
            expiry: Duration::ZERO,
            ..opening("s")
        })
        .unwrap();
    b.hub.close("s", link, true, b.now);
    assert!(!b.open("s").1, "no expiry");
    assert!(
        !b.try_open(Opening {
            clean_start: true,
            ..opening("s")
        })
        .unwrap()
        .1,
        "clean start"
    );
}

#[test]
fn wills_speak_before_the_one_who_takes_over() {
    let mut b = Bench::new();
    let watcher = b.subscribed("w", "status");
    let will = |text: &str| {
        let will = LastWill::new("status", text.to_owned(), QoS::AtLeastOnce, true, None);
        Opening {
            will: Some(will),
            expiry: Duration::ZERO,
            ..opening("g")
        }
    };
    let (old, _) = b.try_open(will("off 1")).unwrap();
    b.retain("status", b"on 1");
    let (new, _) = b.try_open(will("off 2")).unwrap();
    b.retain("status", b"on 2");
    // The end of the old connection, seen late, says nothing more.
    b.hub.close("g", old, true, b.now);
    assert!(!b.hub.is_open("g", old) && b.hub.is_open("g", new));
    assert_eq!(b.payloads("w", watcher), ["on 1", "off 1", "on 2"]);
    let late = b.subscribed("late", "status");
    assert_eq!(b.payloads("late", late), ["on 2"], "retained");
    b.hub.close("g", new, false, b.now);
    assert!(
        b.payloads("late", late).is_empty(),
        "no will after a goodbye"
    );
}

#[test]
fn retained_messages_are_replaced_and_removed() {
    let mut b = Bench::new();
    b.retain("a", b"1");
    b.retain("a", b"2");
    b.retain("b", b"3");
    b.retain("b", b"");
    let link = b.subscribed("s", "#");
    let first = b.hub.next("s", link).unwrap();
    assert!(first.retain);
    assert_eq!(&first.payload[..], b"2");
    b.retain("a", b"4");
    let live = b.hub.next("s", link).unwrap();
    assert!(!live.retain, "live, as it was published");
}

#[test]
fn what_a_client_cannot_take_is_passed_over() {
    let mut b = Bench::new();
    let (link, _) = b
        .try_open(Opening {
            packet_bytes_max: 50,
            ..opening("s")
        })
        .unwrap();
    b.hub
        .subscribe("s", link, vec![Filter::new("t", QoS::AtLeastOnce)]);
    b.publish("t", &[b'x'; 60]);
    b.publish("t", b"small");
    assert_eq!(b.payloads("s", link), ["small"]);
}

#[test]
fn bounds_are_exact() {
    let mut b = Bench::new();
    for n in 0..BROKER_SESSIONS_MAX {
        assert!(b.try_open(opening(&format!("s{n}"))).is_ok(), "{n}");
    }
    assert_eq!(
        b.try_open(opening("more")).unwrap_err(),
        ConnectReturnCode::QuotaExceeded
    );
    assert!(b.try_open(opening("s0")).is_ok(), "a known one");

    let mut b = Bench::new();
    let (link, _) = b.open("s");
    for n in 0..=BROKER_FILTERS_MAX {
        let filter = Filter::new(format!("t{n}"), QoS::AtLeastOnce);
        let fits = b.hub.subscribe("s", link, vec![filter])
            == [SubscribeReasonCode::Success(QoS::AtLeastOnce)];
        assert_eq!(fits, n < BROKER_FILTERS_MAX, "{n}");
    }
    for n in 0..=BROKER_RETAINED_MAX {
        let fits = b.retain(&format!("r{n}"), b"x") != PubAckReason::QuotaExceeded;
        assert_eq!(fits, n < BROKER_RETAINED_MAX, "{n}");
    }
    assert_eq!(
        b.retain("r0", b"y"),
        PubAckReason::NoMatchingSubscribers,
        "a known one"
    );
}

#[test]
fn packet_numbers_go_round_without_meeting() {
    let mut b = Bench::new();
    let link = b.subscribed("s", "t");
    b.publish("t", b"held");
    let held = b.hub.next("s", link).unwrap().pkid;
    for _ in 0..70_000u32 {
        b.publish("t", b"x");
        let pkid = b.hub.next("s", link).unwrap().pkid;
        assert_ne!(pkid, held);
        assert_ne!(pkid, 0);
        b.hub.acked("s", link, pkid);
    }
}

#[test]
fn wrong_filters_and_topics_are_refused() {
    let mut b = Bench::new();
    let (link, _) = b.open("s");
    for (filter, want) in [
        ("a#", SubscribeReasonCode::TopicFilterInvalid),
        (
            "$share/g/t",
            SubscribeReasonCode::SharedSubscriptionsNotSupported,
        ),
    ] {
        let codes = b
            .hub
            .subscribe("s", link, vec![Filter::new(filter, QoS::AtLeastOnce)]);
        assert_eq!(codes, [want]);
    }
    assert_eq!(b.publish("a/+", b"x"), PubAckReason::TopicNameInvalid);
    assert_eq!(b.publish("", b"x"), PubAckReason::TopicNameInvalid);
}
