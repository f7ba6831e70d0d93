//! Golden bytes of each message, as a PostgreSQL 15 sent them, and all bytes that are none.

use proptest::prelude::*;

use super::*;

fn bytes(hex: &str) -> Vec<u8> {
    let hex: Vec<u8> = hex.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    hex.chunks(2).map(pair).collect()
}

const BEGIN: &str = "4200000000015312a80003047abd94b04d000002d9";
const COMMIT: &str = "430000000000015312a800000000015312d80003047abd94b04d";
const ORIGIN: &str = "4f0000000000aabbcc6e6f646500";
/// `pg_logical_emit_message(true, 'pre', 'abc')`
const TEXT: &str = "4d010000000001533ed07072650000000003616263";
/// `public.sites (device text PRIMARY KEY, floor int4, large text)`
const RELATION: &str = "52000040007075626c696300736974657300640003016465766963650000000019\
    ffffffff00666c6f6f720000000017ffffffff006c617267650000000019ffffffff";
const TYPE: &str = "59000040087075626c6963006b696e6400";
const INSERT: &str = "49000040004e0003740000000264316e740000000178";
const UPDATE: &str = "55000040004e00037400000002643174000000013275";
const UPDATE_KEY: &str =
    "55000040004b0003740000000264316e6e4e000374000000026432740000000137740000000178";
const UPDATE_FULL: &str = "55000040004f0003740000000264327400000001377400000001784e000374\
    000000026432740000000138740000000178";
const DELETE: &str = "44000040004b0003740000000264326e6e";
const TRUNCATE: &str = "540000000200000040000000400b";

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
    let commit = Lsn(0x0153_12a8);
    let time = ServerTime(0x0003_047a_bd94_b04d);
    let sites = RelationId(0x4000);
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
                end: Lsn(0x0153_12d8),
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
                columns: vec![
                    column(true, "device", 25),
                    column(false, "floor", 23),
                    column(false, "large", 25),
                ],
            }),
        ),
        (
            TYPE,
            Message::Type {
                id: TypeId(0x4008),
                schema: "public",
                name: "kind",
            },
        ),
        (
            INSERT,
            Message::Insert {
                relation: sites,
                new: tuple([Some("d1"), None, Some("x")]),
            },
        ),
        (
            UPDATE,
            Message::Update {
                relation: sites,
                old: Old::None,
                new: Tuple(vec![Value::Text("d1"), Value::Text("2"), Value::Unchanged]),
            },
        ),
        (
            UPDATE_KEY,
            Message::Update {
                relation: sites,
                old: Old::Key(tuple([Some("d1"), None, None])),
                new: tuple([Some("d2"), Some("7"), Some("x")]),
            },
        ),
        (
            UPDATE_FULL,
            Message::Update {
                relation: sites,
                old: Old::Full(tuple([Some("d2"), Some("7"), Some("x")])),
                new: tuple([Some("d2"), Some("8"), Some("x")]),
            },
        ),
        (
            DELETE,
            Message::Delete {
                relation: sites,
                old: Old::Key(tuple([Some("d2"), None, None])),
            },
        ),
        (
            TRUNCATE,
            Message::Truncate {
                relations: vec![sites, RelationId(0x400b)],
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
