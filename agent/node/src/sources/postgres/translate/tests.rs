//! Transactions as a server sends them, and what becomes of them.

use super::*;
use crate::sources::postgres::pgoutput::Column;
use crate::sources::postgres::value::Kind;

const SITES: RelationId = RelationId(1);
const OTHER: RelationId = RelationId(2);
const TIME: EventTime = EventTime(SERVER_EPOCH_US + 5);

fn fed() -> Vec<Fed> {
    vec![Fed {
        name: "sites".into(),
        schema: "public".into(),
        table: "places".into(),
        key: vec!["id".into()],
    }]
}

fn at(lsn: u64, index: u32) -> At {
    At {
        life: Life(0),
        lsn: Lsn(lsn),
        index,
    }
}

fn translator(held: At) -> Translator {
    Translator::new(fed(), Kinds::default(), held)
}

fn relation(id: RelationId, name: &str, identity: ReplicaIdentity) -> Message<'_> {
    let column = |is_key, name, id| Column {
        is_key,
        name,
        type_id: TypeId(id),
    };
    Message::Relation(RelationMessage {
        id,
        schema: "public",
        name,
        identity,
        columns: vec![
            column(identity != ReplicaIdentity::Nothing, "id", 23),
            column(identity == ReplicaIdentity::Full, "name", 25),
        ],
    })
}

fn row<'a>(id: &'a str, name: Value<'a>) -> Tuple<'a> {
    Tuple(vec![Value::Text(id), name])
}

fn text<'a>(id: &'a str, name: &'a str) -> Tuple<'a> {
    row(id, Value::Text(name))
}

fn begin(lsn: u64) -> Message<'static> {
    Message::Begin {
        commit: Lsn(lsn),
        time: ServerTime(5),
    }
}

fn commit(lsn: u64) -> Message<'static> {
    Message::Commit {
        commit: Lsn(lsn),
        end: Lsn(lsn + 8),
        time: ServerTime(5),
    }
}

fn insert<'a>(relation: RelationId, new: Tuple<'a>) -> Message<'a> {
    Message::Insert { relation, new }
}

/// Short forms of what is handed on.
fn shown(events: Vec<SourceEvent>) -> Vec<String> {
    let show = |event| match event {
        SourceEvent::Upsert {
            table,
            key,
            time,
            before,
            after,
            position,
            is_insert,
            unchanged,
        } => {
            assert_eq!((&*table, key, time), ("sites", None, TIME));
            let op = if is_insert == Some(true) {
                "insert"
            } else {
                "update"
            };
            let before = before.unwrap_or_else(|| "-".into());
            format!("{op} {before} {after} {unchanged:?} {}", short(&position))
        }
        SourceEvent::Delete {
            table,
            key,
            time,
            before,
            position,
        } => {
            assert_eq!((&*table, time), ("sites", TIME));
            let before = before.unwrap_or_else(|| "-".into());
            format!("delete {key} {before} {}", short(&position))
        }
        SourceEvent::Truncate {
            table, position, ..
        } => format!("truncate {table} {}", short(&position)),
        SourceEvent::Heartbeat { time, position } => {
            format!("heartbeat {} {}", time.0, short(&position))
        }
        SourceEvent::SnapshotBegin { .. }
        | SourceEvent::SnapshotRow { .. }
        | SourceEvent::SnapshotEnd { .. } => panic!("a stream has no {event:?}"),
    };
    events.into_iter().map(show).collect()
}

fn short(position: &SourcePosition) -> String {
    let at = At::parse(position).expect("of our form");
    format!("{}/{}", at.lsn.0, at.index)
}

fn run(translator: &mut Translator, messages: Vec<Message<'_>>) -> Vec<String> {
    for message in messages {
        translator
            .on(message.clone())
            .unwrap_or_else(|trouble| panic!("{message:?}: {trouble:?}"));
    }
    shown(translator.take())
}

#[test]
fn every_change_of_a_transaction_is_one_in_its_order() {
    let mut translator = translator(At::default());
    let update = |old, name| Message::Update {
        relation: SITES,
        old,
        new: text("1", name),
    };
    let got = run(
        &mut translator,
        vec![
            begin(100),
            relation(SITES, "places", ReplicaIdentity::Default),
            relation(OTHER, "others", ReplicaIdentity::Default),
            insert(SITES, text("1", "a")),
            insert(OTHER, text("9", "x")),
            update(Old::None, "b"),
            update(Old::None, "b"),
            Message::Update {
                relation: SITES,
                old: Old::None,
                new: row("1", Value::Unchanged),
            },
            Message::Delete {
                relation: SITES,
                old: Old::Key(row("1", Value::Null)),
            },
            Message::Truncate {
                relations: vec![OTHER, SITES],
            },
            commit(100),
        ],
    );
    assert_eq!(
        got,
        [
            r#"insert - {"id":1,"name":"a"} [] 100/2"#,
            r#"update - {"id":1,"name":"b"} [] 100/6"#,
            r#"update - {"id":1,"name":"b"} [] 100/8"#,
            r#"update - {"id":1} ["name"] 100/10"#,
            "delete 1 - 100/12",
            "truncate sites 100/16",
        ]
    );
    assert_eq!(translator.held(), at(100, 16));
}

#[test]
fn a_changed_key_is_a_delete_and_an_insert() {
    for (name, identity, full) in [
        ("key", ReplicaIdentity::Default, false),
        ("full", ReplicaIdentity::Full, true),
    ] {
        let old = match full {
            true => Old::Full(text("1", "a")),
            false => Old::Key(row("1", Value::Null)),
        };
        let got = run(
            &mut translator(At::default()),
            vec![
                begin(100),
                relation(SITES, "places", identity),
                Message::Update {
                    relation: SITES,
                    old,
                    new: text("2", "a"),
                },
            ],
        );
        let before = if full { r#"{"id":1,"name":"a"}"# } else { "-" };
        assert_eq!(
            got,
            [
                format!("delete 1 {before} 100/1"),
                r#"insert - {"id":2,"name":"a"} [] 100/2"#.to_owned(),
            ],
            "{name}"
        );
    }
}

#[test]
fn a_full_old_row_has_what_did_not_change() {
    let got = run(
        &mut translator(At::default()),
        vec![
            begin(100),
            relation(SITES, "places", ReplicaIdentity::Full),
            Message::Update {
                relation: SITES,
                old: Old::Full(text("1", "large")),
                new: row("1", Value::Unchanged),
            },
            Message::Delete {
                relation: SITES,
                old: Old::Full(text("1", "large")),
            },
        ],
    );
    assert_eq!(
        got,
        [
            r#"update {"id":1,"name":"large"} {"id":1,"name":"large"} [] 100/2"#,
            r#"delete 1 {"id":1,"name":"large"} 100/4"#,
        ]
    );
}

#[test]
fn what_is_held_is_not_handed_on_again() {
    let transaction = |lsn| {
        vec![
            begin(lsn),
            relation(SITES, "places", ReplicaIdentity::Default),
            insert(SITES, text("1", "a")),
            insert(SITES, text("2", "a")),
            commit(lsn),
        ]
    };
    for (name, held, count) in [
        ("nothing", at(99, 0), 2),
        ("before its first", at(100, 0), 2),
        ("a delete before its first", at(100, 1), 2),
        ("its first", at(100, 2), 1),
        ("all of it", at(100, 4), 0),
        ("more", at(101, 0), 0),
    ] {
        let got = run(&mut translator(held), transaction(100));
        assert_eq!(got.len(), count, "{name}: {got:?}");
    }
}

#[test]
fn columns_may_change_and_the_key_must_stay() {
    let mut translator = translator(At::default());
    run(
        &mut translator,
        vec![
            begin(1),
            relation(SITES, "places", ReplicaIdentity::Default),
            commit(1),
            begin(9),
        ],
    );
    assert_eq!(translator.notes(), Vec::<String>::new());
    let mut message = RelationMessage {
        id: SITES,
        schema: "public",
        name: "places",
        identity: ReplicaIdentity::Default,
        columns: vec![Column {
            is_key: true,
            name: "id",
            type_id: TypeId(23),
        }],
    };
    translator.on(Message::Relation(message.clone())).unwrap();
    assert!(translator.notes()[0].contains("other columns"));
    let got = run(
        &mut translator,
        vec![insert(SITES, Tuple(vec![Value::Text("7")]))],
    );
    assert_eq!(got, [r#"insert - {"id":7} [] 9/2"#]);

    // Only a change that is not held minds.
    let trouble = |translator: &mut Translator, message: &RelationMessage<'static>| {
        translator.on(Message::Relation(message.clone())).unwrap();
        let held = translator.held();
        let done = translator.on(insert(SITES, Tuple(vec![Value::Text("8")])));
        assert_eq!(translator.held(), held, "nothing was handed on");
        translator.held = at(9, u32::MAX);
        let known = translator.on(insert(SITES, Tuple(vec![Value::Text("8")])));
        assert_eq!(known, Ok(Step::Within));
        translator.held = held;
        done.unwrap_err()
    };
    message.columns[0].name = "number";
    let no_key = Trouble::NoKeyColumn {
        table: "public.places".into(),
        column: "id".into(),
    };
    assert_eq!(trouble(&mut translator, &message), no_key);
    message.columns[0].name = "id";
    message.columns[0].is_key = false;
    let not_logged = Trouble::KeyNotLogged {
        table: "public.places".into(),
        column: "id".into(),
    };
    assert_eq!(trouble(&mut translator, &message), not_logged);
    message.columns[0].is_key = true;
    message.identity = ReplicaIdentity::Nothing;
    assert_eq!(trouble(&mut translator, &message), not_logged);
    message.identity = ReplicaIdentity::Index;
    message.columns[0].type_id = TypeId(20_000);
    let unknown = Trouble::UnknownTypes(vec![TypeId(20_000)]);
    let done = translator.on(Message::Relation(message.clone()));
    assert_eq!(done, Err(unknown));
    translator.kinds.learn(TypeId(20_000), Some(TypeId(25)));
    translator.on(Message::Relation(message)).unwrap();
    assert_eq!(translator.kinds.of(TypeId(20_000)), Some(Kind::Text));
}

#[test]
fn what_the_protocol_does_not_let_be_is_an_error() {
    let known = relation(SITES, "places", ReplicaIdentity::Default);
    for (name, messages) in [
        ("two beginnings", vec![begin(1), begin(2)]),
        ("an end alone", vec![commit(1)]),
        (
            "no transaction",
            vec![known.clone(), insert(SITES, text("1", "a"))],
        ),
        ("no columns", vec![begin(1), insert(SITES, text("1", "a"))]),
        (
            "too few values",
            vec![begin(1), known.clone(), insert(SITES, Tuple(vec![]))],
        ),
        ("a place too far", vec![begin(LSN_MAX.0 + 1)]),
    ] {
        let mut translator = translator(At::default());
        let last = messages.len() - 1;
        for (n, message) in messages.into_iter().enumerate() {
            let done = translator.on(message);
            assert_eq!(done.is_err(), n == last, "{name}: {done:?}");
        }
    }
}

#[test]
fn a_transaction_has_a_bound() {
    let mut translator = translator(At::default());
    run(
        &mut translator,
        vec![
            begin(1),
            relation(SITES, "places", ReplicaIdentity::Default),
        ],
    );
    let count = |translator: &mut Translator, changes| {
        let transaction = translator.transaction.as_mut().unwrap();
        transaction.changes = changes;
        translator.next(SITES).map(|(at, _)| at.index)
    };
    let last = TRANSACTION_CHANGES_MAX - 1;
    assert_eq!(count(&mut translator, last - 1), Ok(u32::MAX - 3));
    assert_eq!(count(&mut translator, last), Ok(u32::MAX - 1));
    let one_more = count(&mut translator, TRANSACTION_CHANGES_MAX);
    assert_eq!(one_more, Err(Trouble::TooLong(Lsn(1))));
}

#[test]
fn heartbeats_have_places_that_grow() {
    let mut translator = translator(at(50, 3));
    for (received, time, is_said) in [
        (0, 1, false),
        (50, 2, false),
        (51, 3, true),
        (60, 4, true),
        (60, 5, true),
        (59, 6, false),
    ] {
        let said = translator.heartbeat(Lsn(received), EventTime(time));
        assert_eq!(said, is_said, "{received}");
    }
    let got = shown(translator.take());
    assert_eq!(
        got,
        ["heartbeat 3 50/4", "heartbeat 4 59/0", "heartbeat 5 59/1"]
    );
    // The next commit may stand at the very place that the stream had come to.
    let got = run(
        &mut translator,
        vec![
            begin(60),
            relation(SITES, "places", ReplicaIdentity::Default),
            insert(SITES, text("1", "a")),
        ],
    );
    assert_eq!(got.len(), 1);
    translator.held = at(99, u32::MAX);
    assert!(!translator.heartbeat(Lsn(100), EventTime(7)));
}
