//! Golden bytes of each message, as a PostgreSQL 15 sent them, and all bytes that are none.

use proptest::prelude::*;

use super::*;

fn bytes(hex: &str) -> Vec<u8> {
    let hex: Vec<u8> = hex.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    hex.chunks(2).map(pair).collect()
}

const BEGIN: &str = "42 00000000016b3748 0002e3a5c1d2e3f4 000002dc";
const COMMIT: &str = "43 00 00000000016b3748 00000000016b3778 0002e3a5c1d2e3f4";
const ORIGIN: &str = "4f 00000000016b3748 6e6f646500";
const TEXT: &str = "4d 01 00000000016b3748 707265 00 00000003 616263";
/// `public.sites (device text PRIMARY KEY, floor int4)`
const RELATION: &str = "52 00004001 7075626c696300 736974657300 64 0002 \
    01 64657669636500 00000019 ffffffff 00 666c6f6f7200 00000017 ffffffff";
const TYPE: &str = "59 00004002 7075626c696300 6b696e6400";
const INSERT: &str = "49 00004001 4e 0002 74 00000002 6431 6e";
const UPDATE: &str = "55 00004001 4e 0002 74 00000002 6431 75";
const UPDATE_KEY: &str =
    "55 00004001 4b 0002 74 00000002 6431 6e 4e 0002 74 00000002 6432 74 00000001 37";
const UPDATE_FULL: &str =
    "55 00004001 4f 0002 74 00000002 6431 74 00000001 36 4e 0002 74 00000002 6431 74 00000001 37";
const DELETE: &str = "44 00004001 4b 0002 74 00000002 6431 6e";
const TRUNCATE: &str = "54 00000002 01 00004001 00004002";

const ALL: [&str; 12] = [
    BEGIN,
    COMMIT,
    ORIGIN,
    TEXT,
    RELATION,
    TYPE,
    INSERT,
    UPDATE,
    UPDATE_KEY,
    UPDATE_FULL,
    DELETE,
    TRUNCATE,
];

fn tuple<const N: usize>(values: [Option<&str>; N]) -> Tuple<'_> {
    let value = |value: Option<_>| value.map_or(Value::Null, Value::Text);
    Tuple(values.map(value).into())
}

#[test]
fn golden_bytes_are_read() {
    let commit = Lsn(0x016b_3748);
    let time = ServerTime(0x0002_e3a5_c1d2_e3f4);
    let sites = RelationId(0x4001);
    let column = |is_key, name, id| Column {
        is_key,
        name,
        type_id: TypeId(id),
    };
    let wants = [
        (BEGIN, Message::Begin { commit, time }),
        (
            COMMIT,
            Message::Commit {
                commit,
                end: Lsn(0x016b_3778),
                time,
            },
        ),
        (ORIGIN, Message::Origin { name: "node" }),
        (TEXT, Message::Text { prefix: "pre" }),
        (
            RELATION,
            Message::Relation(RelationMessage {
                id: sites,
                schema: "public",
                name: "sites",
                identity: ReplicaIdentity::Default,
                columns: vec![column(true, "device", 25), column(false, "floor", 23)],
            }),
        ),
        (
            TYPE,
            Message::Type {
                id: TypeId(0x4002),
                schema: "public",
                name: "kind",
            },
        ),
        (
            INSERT,
            Message::Insert {
                relation: sites,
                new: tuple([Some("d1"), None]),
            },
        ),
        (
            UPDATE,
            Message::Update {
                relation: sites,
                old: Old::None,
                new: Tuple(vec![Value::Text("d1"), Value::Unchanged]),
            },
        ),
        (
            UPDATE_KEY,
            Message::Update {
                relation: sites,
                old: Old::Key(tuple([Some("d1"), None])),
                new: tuple([Some("d2"), Some("7")]),
            },
        ),
        (
            UPDATE_FULL,
            Message::Update {
                relation: sites,
                old: Old::Full(tuple([Some("d1"), Some("6")])),
                new: tuple([Some("d1"), Some("7")]),
            },
        ),
        (
            DELETE,
            Message::Delete {
                relation: sites,
                old: Old::Key(tuple([Some("d1"), None])),
            },
        ),
        (
            TRUNCATE,
            Message::Truncate {
                relations: vec![sites, RelationId(0x4002)],
            },
        ),
    ];
    assert_eq!(wants.len(), ALL.len(), "every message has its bytes");
    for (hex, want) in wants {
        assert_eq!(decode(&bytes(hex)), Ok(want), "{hex}");
    }
}

#[test]
fn a_message_that_is_cut_says_where() {
    for hex in ALL {
        let whole = bytes(hex);
        for len in 0..whole.len() {
            let error = decode(&whole[..len]).expect_err(hex);
            assert!(error.at <= len, "{hex}: {len}: {error}");
        }
        let longer = [&whole[..], &[0]].concat();
        let error = decode(&longer).expect_err(hex);
        assert_eq!(error.at, whole.len(), "{hex}: {error}");
    }
}

#[test]
fn wrong_bytes_say_where() {
    for (name, hex, at) in [
        ("no kind", "", 0),
        ("unknown kind", "5a", 0),
        ("identity", "52 00004001 70 00 73 00 78 0000", 9),
        ("insert without its mark", "49 00004001 4b 0000", 5),
        ("update without its mark", "55 00004001 58 0000", 5),
        ("update with two old rows", "55 00004001 4b 0000 4b 0000", 8),
        ("delete of a new row", "44 00004001 4e 0000", 5),
        ("a binary value", "49 00004001 4e 0001 62 00000000", 8),
        ("a negative length", "49 00004001 4e 0001 74 ffffffff", 9),
        ("not UTF-8", "49 00004001 4e 0001 74 00000002 41ff", 14),
        ("a name that is not UTF-8", "59 00004002 ff00 6b00", 5),
        ("a name without end", "4f 0000000000000000 6e", 9),
        ("more tables than bytes", "54 7fffffff 00 00004001", 10),
    ] {
        let error = decode(&bytes(hex)).expect_err(name);
        assert_eq!(error.at, at, "{name}: {error}");
    }
}

#[test]
fn columns_have_a_bound() {
    for (count, is_good) in [
        (COLUMNS_MAX - 1, true),
        (COLUMNS_MAX, true),
        (COLUMNS_MAX + 1, false),
    ] {
        let mut message = bytes("49 00004001 4e");
        message.extend(u16::try_from(count).unwrap().to_be_bytes());
        message.extend(vec![b'n'; count]);
        assert_eq!(decode(&message).is_ok(), is_good, "{count}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_a_message_or_an_error(kind in 0usize..12, at in 0usize..64, with: Vec<u8>, tail: Vec<u8>) {
        let mut message = bytes(ALL[kind]);
        let at = at % message.len();
        for (place, b) in message[at..].iter_mut().zip(&with) {
            *place = *b;
        }
        message.extend(tail);
        if let Err(error) = decode(&message) {
            prop_assert!(error.at <= message.len());
        }
        let _ = decode(&with);
    }
}
