//! The broker by its bytes: without faults a plain one, and each fault by name.

use std::time::Duration;

use super::codec::Version;
use super::faults::{Act, Disk, Faults, Forget};
use super::hub::{Hub, LinkNo, Out};

const NOW: Duration = Duration::from_secs(1);
const GATEWAY: LinkNo = LinkNo(1);
const RECEIVER: LinkNo = LinkNo(2);
const TOPIC: &str = "forebay/v1/g/data/readings/0";

fn text(text: &str) -> Vec<u8> {
    let mut out = (text.len() as u16).to_be_bytes().to_vec();
    out.extend(text.as_bytes());
    out
}

fn packet(first: u8, body: &[u8]) -> Vec<u8> {
    assert!(body.len() < 128);
    [&[first, body.len() as u8], body].concat()
}

/// With a session that stays.
fn connect(version: Version, id: &str) -> Vec<u8> {
    let (level, properties): (u8, &[u8]) = match version {
        Version::V311 => (4, &[]),
        // Session expiry an hour, receive maximum 2.
        Version::V5 => (5, &[8, 0x11, 0, 0, 14, 16, 0x21, 0, 2]),
    };
    let body = [&text("MQTT")[..], &[level, 0, 0, 0], properties, &text(id)].concat();
    packet(0x10, &body)
}

fn publish(version: Version, id: u16, payload: &[u8]) -> Vec<u8> {
    let none: &[u8] = if version == Version::V5 { &[0] } else { &[] };
    let body = [&text(TOPIC)[..], &id.to_be_bytes(), none, payload].concat();
    packet(0x32, &body)
}

fn subscribe(version: Version, filter: &str) -> Vec<u8> {
    let none: &[u8] = if version == Version::V5 { &[0] } else { &[] };
    packet(0x82, &[&[0, 9][..], none, &text(filter), &[1]].concat())
}

struct Rig {
    hub: Hub,
    version: Version,
    said: Vec<Out>,
}

impl Rig {
    fn new(version: Version) -> Self {
        let (hub, said) = (Hub::new(1), Vec::new());
        let mut rig = Self { hub, version, said };
        rig.joins(GATEWAY, "gateway");
        rig.joins(RECEIVER, "receiver");
        rig.hub
            .on_bytes(RECEIVER, &subscribe(version, "forebay/v1/+/data/#"), NOW);
        rig.said();
        rig
    }

    fn joins(&mut self, no: LinkNo, id: &str) {
        self.hub.on_open(no, NOW);
        self.hub.on_bytes(no, &connect(self.version, id), NOW);
    }

    fn publishes(&mut self, id: u16, payload: &[u8]) {
        self.hub
            .on_bytes(GATEWAY, &publish(self.version, id, payload), NOW);
    }

    fn said(&mut self) -> Vec<Out> {
        self.said.extend(self.hub.take_out());
        std::mem::take(&mut self.said)
    }

    /// Numbers and reasons of the acks to the gateway, and payloads to the receiver.
    fn heard(&mut self) -> (Vec<(u8, u8)>, Vec<String>) {
        let (mut acks, mut payloads) = (Vec::new(), Vec::new());
        for out in self.said() {
            let Out::Write(no, bytes) = out else { continue };
            if no == GATEWAY && bytes[0] == 0x40 {
                acks.push((bytes[3], bytes.get(4).copied().unwrap_or(0)));
            } else if no == RECEIVER && bytes[0] & 0xf0 == 0x30 {
                let at = 4 + TOPIC.len() + 2 + usize::from(self.version == Version::V5);
                payloads.push(String::from_utf8(bytes[at..].to_vec()).unwrap());
            }
        }
        (acks, payloads)
    }

    fn is_cut(&mut self, no: LinkNo) -> bool {
        let said = self.said();
        said.iter()
            .any(|out| matches!(out, Out::Cut(of, _) if *of == no))
    }
}

const BOTH: [Version; 2] = [Version::V311, Version::V5];

fn texts(payloads: &[&str]) -> Vec<String> {
    payloads.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn without_faults_it_is_a_broker() {
    for version in BOTH {
        let mut rig = Rig::new(version);
        rig.publishes(1, b"a");
        rig.publishes(2, b"b");
        assert_eq!(rig.heard(), (vec![(1, 0), (2, 0)], texts(&["a", "b"])));
        assert_eq!(rig.hub.facts().violations, Vec::<String>::new());
    }
}

#[test]
fn no_more_than_the_receiver_takes_goes_out_and_what_it_did_not_ack_comes_again() {
    let mut rig = Rig::new(Version::V5);
    for (id, payload) in (1..).zip([b"a", b"b", b"c"]) {
        rig.publishes(id, payload);
    }
    assert_eq!(rig.heard().1, texts(&["a", "b"]), "it takes two");
    // The first number of a session is 20 before the last there is.
    rig.hub.on_bytes(RECEIVER, &[0x40, 2, 0xff, 0xec], NOW);
    assert_eq!(rig.heard().1, texts(&["c"]));
    rig.hub.on_closed(RECEIVER, true, NOW);
    rig.joins(RECEIVER, "receiver");
    assert_eq!(rig.heard().1, texts(&["b", "c"]));
}

#[test]
fn acks_go_wrong_as_they_are_told() {
    let of = |faults: Faults| {
        let mut rig = Rig::new(Version::V5);
        rig.hub.set(faults, NOW);
        for id in 1..=3 {
            rig.publishes(id, b"x");
        }
        rig
    };
    let mut held = of(Faults {
        hold_acks: true,
        ..Faults::default()
    });
    assert_eq!(held.heard().0, []);
    held.hub.act(Act::ReleaseReversed, NOW);
    assert_eq!(held.heard().0, [(3, 0), (2, 0), (1, 0)]);
    let mut late = of(Faults {
        ack_late: Duration::from_millis(100),
        ..Faults::default()
    });
    assert_eq!(late.heard().0, []);
    late.hub.tick(NOW + Duration::from_millis(101));
    assert_eq!(late.heard().0.len(), 3);
    let mut turned = of(Faults {
        reverse_acks: 2,
        ..Faults::default()
    });
    assert_eq!(turned.heard().0, [(2, 0), (1, 0)]);
    turned.hub.tick(turned.hub.deadline().unwrap());
    assert_eq!(turned.heard().0, [(3, 0)], "the rest after a while");
    for (name, faults, acks) in [
        (
            "missing",
            Faults {
                missing_ack: 1000,
                ..Faults::default()
            },
            vec![],
        ),
        (
            "doubled",
            Faults {
                double_ack: 1000,
                ..Faults::default()
            },
            vec![(1, 0), (1, 0), (2, 0), (2, 0), (3, 0), (3, 0)],
        ),
        (
            "of nobody",
            Faults {
                unknown_ack: 1000,
                ..Faults::default()
            },
            vec![(0xff, 0), (1, 0), (0xff, 0), (2, 0), (0xff, 0), (3, 0)],
        ),
        (
            "refused",
            Faults {
                refuse: 1000,
                reasons: vec![0x97],
                ..Faults::default()
            },
            vec![(1, 0x97), (2, 0x97), (3, 0x97)],
        ),
    ] {
        assert_eq!(of(faults).heard().0, acks, "{name}");
    }
}

#[test]
fn deliveries_go_wrong_as_they_are_told() {
    for version in BOTH {
        let of = |faults: Faults| {
            let mut rig = Rig::new(version);
            rig.hub.set(faults, NOW);
            // Nobody takes anything until all is there.
            rig.hub.on_closed(RECEIVER, true, NOW);
            rig.publishes(1, b"a");
            rig.publishes(2, b"b");
            rig.said();
            rig.joins(RECEIVER, "receiver");
            rig.heard().1
        };
        let dropped = of(Faults {
            drop: 1000,
            ..Faults::default()
        });
        assert_eq!(dropped, texts(&[]));
        let early = of(Faults {
            reorder: 1000,
            ..Faults::default()
        });
        assert_eq!(early, texts(&["b", "a"]));
        let twice = of(Faults {
            double: 1000,
            ..Faults::default()
        });
        assert_eq!(twice[..2], texts(&["a", "a"]));
    }
}

#[test]
fn sessions_are_kept_or_forgotten_with_a_word_or_without() {
    for (name, forget, act, present, payloads) in [
        ("kept", Forget::No, None, 1, &["a"][..]),
        ("said", Forget::Said, None, 0, &[]),
        ("silently", Forget::Silently, None, 1, &[]),
        (
            "restarted",
            Forget::No,
            Some(Act::Restart(Disk::Kept)),
            1,
            &["a"],
        ),
        ("wiped", Forget::No, Some(Act::Restart(Disk::Wiped)), 0, &[]),
        (
            "as it was",
            Forget::No,
            Some(Act::Restart(Disk::Old)),
            1,
            &[],
        ),
    ] {
        let mut rig = Rig::new(Version::V5);
        rig.hub.act(Act::Save, NOW);
        rig.hub.on_closed(RECEIVER, true, NOW);
        rig.publishes(1, b"a");
        rig.said();
        if let Some(act) = act {
            rig.hub.act(act, NOW);
            rig.said();
        }
        rig.hub.set(
            Faults {
                forget,
                ..Faults::default()
            },
            NOW,
        );
        rig.joins(RECEIVER, "receiver");
        let said = rig.said();
        let Some(Out::Write(_, hello)) = said.first() else {
            panic!("{name}: {said:?}")
        };
        assert_eq!((hello[0], hello[2]), (0x20, present), "{name}");
        rig.said = said;
        assert_eq!(rig.heard().1, texts(payloads), "{name}");
    }
}

#[test]
fn connections_go_wrong_as_they_are_told() {
    let mut rig = Rig::new(Version::V5);
    let mute = Faults {
        mute: true,
        ..Faults::default()
    };
    rig.hub.set(mute, NOW);
    rig.publishes(1, b"a");
    assert_eq!(rig.said(), []);
    rig.hub.set(Faults::default(), NOW);
    assert!(rig.is_cut(GATEWAY), "its bytes are gone");
    rig.joins(GATEWAY, "gateway");
    rig.hub.act(Act::Goodbye(0x8b), NOW);
    assert!(
        rig.said()
            .contains(&Out::Cut(GATEWAY, vec![0xe0, 2, 0x8b, 0]))
    );
    let refuse = Faults {
        refuse_connect: Some(0x87),
        ..Faults::default()
    };
    rig.hub.set(refuse, NOW);
    rig.joins(GATEWAY, "gateway");
    assert!(matches!(&rig.said()[..], [Out::Cut(GATEWAY, bytes)] if bytes[3] == 0x87));
    let halves = Faults {
        cut_in_packet: 1000,
        ..Faults::default()
    };
    rig.hub.set(halves, NOW);
    rig.joins(GATEWAY, "gateway");
    assert!(matches!(&rig.said()[..], [Out::Cut(GATEWAY, bytes)] if bytes.len() < 4));
    let down = Faults {
        down: true,
        ..Faults::default()
    };
    rig.hub.set(down, NOW);
    rig.joins(GATEWAY, "gateway");
    assert_eq!(rig.said(), [Out::Cut(GATEWAY, Vec::new())]);
}

#[test]
fn what_clients_must_not_do_is_seen() {
    let limits = Faults {
        receive_max: Some(1),
        packet_max: Some(64),
        missing_ack: 1000,
        ..Faults::default()
    };
    for (name, packets, violations) in [
        ("a good one", vec![publish(Version::V5, 1, b"x")], 0),
        (
            "the same number",
            vec![publish(Version::V5, 1, b"x"), publish(Version::V5, 1, b"x")],
            1,
        ),
        (
            "too many",
            vec![publish(Version::V5, 1, b"x"), publish(Version::V5, 2, b"x")],
            1,
        ),
        ("too large", vec![publish(Version::V5, 1, &[b'x'; 40])], 1),
        ("QoS 2", vec![vec![0x34, 6, 0, 1, b'a', 0, 1, 0]], 1),
        ("no packet", vec![vec![0xff, 0]], 1),
    ] {
        let mut rig = Rig::new(Version::V5);
        rig.hub.on_closed(GATEWAY, true, NOW);
        rig.hub.set(limits.clone(), NOW);
        rig.joins(GATEWAY, "gateway");
        for packet in packets {
            rig.hub.on_bytes(GATEWAY, &packet, NOW);
        }
        let seen = &rig.hub.facts().violations;
        assert_eq!(seen.len(), violations, "{name}: {seen:?}");
    }
}

#[test]
fn bytes_of_any_kind_end_at_most_their_connection() {
    let mut dice = crate::world::dice::Dice::new(7);
    for _ in 0..2_000 {
        let mut rig = Rig::new(Version::V5);
        let mut bytes = publish(Version::V5, 1, b"payload");
        for _ in 0..=dice.below(4) {
            let at = dice.below(bytes.len() as u64) as usize;
            bytes[at] = dice.below(256) as u8;
        }
        rig.hub.on_bytes(GATEWAY, &bytes, NOW);
        rig.hub.on_bytes(RECEIVER, &[0x40, 2, 0, 1], NOW);
        assert!(!rig.is_cut(RECEIVER));
    }
}

#[test]
fn a_group_gets_each_message_once() {
    let mut rig = Rig::new(Version::V5);
    for (number, id) in [(11, "worker-1"), (12, "worker-2")] {
        rig.joins(LinkNo(number), id);
        let filter = "$share/up/forebay/v1/+/data/#";
        rig.hub
            .on_bytes(LinkNo(number), &subscribe(Version::V5, filter), NOW);
    }
    rig.said();
    rig.publishes(1, b"a");
    let said = rig.said();
    let to = |no| {
        let is = |out: &&Out| matches!(out, Out::Write(of, bytes) if *of == no && bytes[0] == 0x32);
        said.iter().filter(is).count()
    };
    assert_eq!(to(LinkNo(11)) + to(LinkNo(12)), 1);
    assert_eq!(to(RECEIVER), 1);
}
