//! Golden events of Debezium for PostgreSQL and MySQL, every shape and every refusal.

use forebay_core::units::EventTime;
use proptest::prelude::*;

use super::*;

fn rules(key: &[&str]) -> Rules {
    Rules {
        table: String::from("sites"),
        key: key.iter().map(|column| (*column).to_owned()).collect(),
        only: None,
        plain_rows: false,
    }
}

/// What Debezium 2.5 writes for PostgreSQL, with the schema left in.
const POSTGRES_UPDATE: &str = r#"{
  "schema": {"type": "struct", "fields": [{"type": "struct", "field": "before"}], "optional": false, "name": "pg.public.sites.Envelope"},
  "payload": {
    "before": {"id": 7, "building": "north", "floor": 1.50, "note": null},
    "after": {"id": 7, "building": "south", "floor": 1.50, "note": "__debezium_unavailable_value"},
    "source": {"version": "2.5.0.Final", "connector": "postgresql", "name": "pg", "ts_ms": 1772323200123,
      "snapshot": "false", "db": "plant", "sequence": "[\"24023119\",\"24023128\"]", "schema": "public",
      "table": "sites", "txId": 771, "lsn": 24023128, "xmin": null},
    "op": "u", "ts_ms": 1772323200456, "transaction": null
  }
}"#;

/// What Debezium 2.7 writes for MySQL, without.
const MYSQL_INSERT: &str = r#"{"before":null,"after":{"id":9223372036854775807,"building":"w\u00fcste","limit":12345678901234567890.10},"source":{"version":"2.7.0.Final","connector":"mysql","name":"my","ts_ms":1772323200000,"snapshot":"false","db":"plant","sequence":null,"ts_us":1772323200000000,"ts_ns":1772323200000000999,"table":"sites","server_id":223344,"gtid":null,"file":"mysql-bin.000003","pos":484,"row":2,"thread":7,"query":null},"transaction":null,"op":"c","ts_ms":1772323200456,"ts_us":1772323200456001,"ts_ns":1772323200456001002}"#;

fn one(said: Result<Said, String>) -> Event {
    match said.unwrap() {
        Said::Events(mut events) if events.len() == 1 => events.remove(0),
        said @ (Said::Events(_) | Said::Passed(_)) => panic!("{said:?}"),
    }
}

#[test]
fn an_update_of_postgresql_with_its_schema() {
    let event = one(read(&rules(&["id"]), None, POSTGRES_UPDATE.as_bytes()));
    assert_eq!(
        event.op,
        Op::Upsert {
            key: Some(String::from("7")),
            before: Some(String::from(
                r#"{"id":7,"building":"north","floor":1.50,"note":null}"#
            )),
            // What the database did not log is known from before.
            after: String::from(r#"{"id":7,"building":"south","floor":1.50,"note":null}"#),
            is_insert: Some(false),
            unchanged: Vec::new(),
        }
    );
    assert_eq!(event.time, Some(EventTime(1_772_323_200_123_000)));
    assert_eq!(event.at.unwrap().shown, "lsn 0/16E9058");
}

#[test]
fn an_insert_of_mysql_without() {
    let event = one(read(&rules(&["id"]), None, MYSQL_INSERT.as_bytes()));
    let Op::Upsert {
        key,
        before: None,
        after,
        is_insert: Some(true),
        ..
    } = event.op
    else {
        panic!("{event:?}")
    };
    assert_eq!(key.as_deref(), Some("9223372036854775807"));
    // Digits and escapes stay as they were.
    assert!(after.contains(r#""building":"w\u00fcste","limit":12345678901234567890.10"#));
    assert_eq!(event.time, Some(EventTime(1_772_323_200_000_000)));
    assert_eq!(event.at.unwrap().shown, "mysql-bin.000003:484:2");
}

#[test]
fn all_operations_and_shapes() {
    let after = r#""after":{"id":"d1","b":2}"#;
    let before = r#""before":{"id":"d1","b":1}"#;
    let upsert = |before: Option<&str>, is_insert| Op::Upsert {
        key: Some(String::from("d1")),
        before: before.map(str::to_owned),
        after: String::from(r#"{"id":"d1","b":2}"#),
        is_insert,
        unchanged: Vec::new(),
    };
    let old = r#"{"id":"d1","b":1}"#;
    let delete = |before: Option<&str>| Op::Delete {
        key: String::from("d1"),
        before: before.map(str::to_owned),
    };
    for (name, text, want) in [
        (
            "create",
            format!("{{\"op\":\"c\",{after}}}"),
            upsert(None, Some(true)),
        ),
        (
            "snapshot",
            format!("{{\"op\":\"r\",{after}}}"),
            upsert(None, None),
        ),
        (
            "update",
            format!("{{\"op\":\"u\",{before},{after}}}"),
            upsert(Some(old), Some(false)),
        ),
        (
            "delete",
            format!("{{\"op\":\"d\",{before},\"after\":null}}"),
            delete(Some(old)),
        ),
        (
            "delete by the message's key",
            format!(
                r#"{{"key":{{"schema":{{}},"payload":{{"id":"d1"}}}},"value":{{"op":"d",{}}}}}"#,
                r#""before":null,"source":{}"#
            ),
            delete(None),
        ),
        (
            "tombstone with its key",
            String::from(r#"{"key":{"id":"d1"},"value":null}"#),
            delete(None),
        ),
        (
            "tombstone with its schema",
            String::from(r#"{"key":"d1","value":{"schema":null,"payload":null}}"#),
            delete(None),
        ),
        (
            "truncate",
            String::from(r#"{"op":"t","source":{"table":"sites"}}"#),
            Op::Truncate,
        ),
        (
            "cloud event",
            format!(
                r#"{{"specversion":"1.0","id":"x","data":{{"schema":{{}},"payload":{{"op":"r",{after}}}}}}}"#
            ),
            upsert(None, None),
        ),
        ("heartbeat", String::from(r#"{"ts_ms":1}"#), Op::Heartbeat),
        (
            "flat update",
            String::from(r#"{"id":"d1","b":2,"__op":"u","__deleted":"false","__source_ts_ms":1}"#),
            upsert(None, Some(false)),
        ),
        (
            "flat delete",
            String::from(r#"{"id":"d1","b":1,"__deleted":"true"}"#),
            delete(Some(old)),
        ),
        (
            "our insert",
            String::from(r#"{"op":"insert","key":"d1","time":1,"row":{"id":"d1","b":2}}"#),
            upsert(None, Some(true)),
        ),
        (
            "a line of the topic changes",
            format!(
                r#"{{"table":"sites","op":"update","key":"d1","time":"1970-01-01T00:00:01Z",{before},{after},"position":"x"}}"#
            ),
            upsert(Some(old), Some(false)),
        ),
        (
            "our delete",
            String::from(r#"{"op":"delete","key":"d1"}"#),
            delete(None),
        ),
        (
            "our delete by the row",
            String::from(r#"{"op":"delete","before":{"id":"d1","b":1}}"#),
            delete(Some(old)),
        ),
        (
            "our heartbeat",
            String::from(r#"{"op":"heartbeat","time":1}"#),
            Op::Heartbeat,
        ),
        (
            "our truncate",
            String::from(r#"{"op":"truncate"}"#),
            Op::Truncate,
        ),
    ] {
        assert_eq!(
            one(read(&rules(&["id"]), None, text.as_bytes())).op,
            want,
            "{name}"
        );
    }
}

#[test]
fn what_nobody_says_is_unchanged() {
    let text = r#"{"op":"u","before":{"id":"d1"},"after":{"id":"d1","text":"__debezium_unavailable_value","n":2}}"#;
    let event = one(read(&rules(&["id"]), None, text.as_bytes()));
    let Op::Upsert {
        after, unchanged, ..
    } = event.op
    else {
        panic!("{event:?}")
    };
    assert_eq!(after, r#"{"id":"d1","n":2}"#);
    assert_eq!(unchanged, ["text"]);
}

#[test]
fn what_says_nothing_of_the_table_is_passed_over() {
    let mut rules = rules(&["id"]);
    rules.only = Some(String::from("public.sites"));
    let of = |place: &str, table: &str| {
        format!(r#"{{"op":"c","after":{{"id":1}},"source":{{{place},"table":"{table}"}}}}"#)
    };
    for (name, text, want) in [
        ("tombstone", String::from("null"), Passed::Tombstone),
        ("empty", String::from(" "), Passed::Tombstone),
        (
            "schema change",
            String::from(r#"{"ddl":"ALTER TABLE","databaseName":"plant"}"#),
            Passed::NoRow,
        ),
        (
            "transaction",
            String::from(r#"{"status":"END","id":"1","event_count":1,"data_collections":null}"#),
            Passed::NoRow,
        ),
        (
            "message",
            String::from(r#"{"op":"m","source":{"schema":"public","table":"sites"},"message":{}}"#),
            Passed::NoRow,
        ),
        (
            "other schema",
            of(r#""schema":"private""#, "sites"),
            Passed::OtherTable,
        ),
        (
            "other table",
            of(r#""schema":"public""#, "rooms"),
            Passed::OtherTable,
        ),
        (
            "ours",
            String::from(r#"{"table":"rooms","op":"delete","key":"x"}"#),
            Passed::OtherTable,
        ),
    ] {
        let said = read(&rules, None, text.as_bytes());
        assert_eq!(said, Ok(Said::Passed(want)), "{name}");
    }
    let taken = read(&rules, None, of(r#""schema":"public""#, "sites").as_bytes());
    assert!(matches!(taken, Ok(Said::Events(_))));
    rules.only = Some(String::from("public.sites"));
    let mysql = read(&rules, None, of(r#""db":"public""#, "sites").as_bytes());
    assert!(matches!(mysql, Ok(Said::Events(_))));
}

#[test]
fn a_row_under_another_key_is_taken_away_and_put_there() {
    let text = r#"{"op":"u","before":{"id":"a","n":1},"after":{"id":"b","n":1}}"#;
    let Ok(Said::Events(events)) = read(&rules(&["id"]), None, text.as_bytes()) else {
        panic!("two events")
    };
    let ops: Vec<_> = events.into_iter().map(|event| event.op).collect();
    assert_eq!(
        ops,
        [
            Op::Delete {
                key: String::from("a"),
                before: Some(String::from(r#"{"id":"a","n":1}"#)),
            },
            Op::Upsert {
                key: Some(String::from("b")),
                before: None,
                after: String::from(r#"{"id":"b","n":1}"#),
                is_insert: Some(true),
                unchanged: Vec::new(),
            },
        ]
    );
}

#[test]
fn keys_of_several_columns_and_of_topics() {
    let two = rules(&["site", "n"]);
    let text = r#"{"op":"d","before":{"n":2,"site":"a\"b","x":null}}"#;
    let key = |said| match one(said).op {
        Op::Delete { key, .. } => key,
        Op::Upsert { key, .. } => key.unwrap_or_default(),
        Op::Truncate | Op::Heartbeat => String::new(),
    };
    assert_eq!(key(read(&two, None, text.as_bytes())), r#"["a\"b","2"]"#);
    let mut plain = rules(&["device"]);
    plain.plain_rows = true;
    let row = br#"{ "building": "north" }"#;
    let event = one(read(&plain, Some("d7"), row));
    assert_eq!(
        event.op,
        Op::Upsert {
            key: Some(String::from("d7")),
            before: None,
            after: String::from(r#"{"building":"north"}"#),
            is_insert: None,
            unchanged: Vec::new(),
        }
    );
    assert_eq!(key(read(&plain, Some("d7"), b"")), "d7");
}

#[test]
fn times_are_the_finest_of_the_source() {
    let time = |text: &str| one(read(&rules(&["id"]), None, text.as_bytes())).time;
    let with = |source: &str, more: &str| {
        time(&format!(
            r#"{{"op":"c","after":{{"id":1}},"source":{{{source}}}{more}}}"#
        ))
    };
    for (name, got, want) in [
        (
            "ns",
            with(r#""ts_ms":1,"ts_us":1002,"ts_ns":1002999"#, ""),
            Some(1002),
        ),
        ("before 1970", with(r#""ts_ns":-1"#, ""), Some(-1)),
        ("us", with(r#""ts_ms":1,"ts_us":1002"#, ""), Some(1002)),
        ("ms", with(r#""ts_ms":1"#, ""), Some(1000)),
        (
            "not known: that of the envelope",
            with(r#""ts_ms":0"#, r#","ts_ms":2"#),
            Some(2000),
        ),
        ("none", with("", ""), None),
        (
            "too large",
            with(r#""ts_ms":9223372036854775807"#, ""),
            None,
        ),
        (
            "ours",
            time(r#"{"op":"heartbeat","time":"1970-01-01T01:00:00.5+01:00"}"#),
            Some(500_000),
        ),
        ("ours, none", time(r#"{"op":"heartbeat"}"#), None),
    ] {
        assert_eq!(got, want.map(EventTime), "{name}");
    }
}

#[test]
fn malformed_events_are_told() {
    for (name, text, word) in [
        ("no JSON", "{", "is no JSON object"),
        ("a list", "[]", "is no JSON object"),
        ("no op", r#"{"id":1}"#, "is no change"),
        (
            "an unknown op",
            r#"{"op":"replace","after":{}}"#,
            "unknown op \"replace\"",
        ),
        (
            "no after",
            r#"{"op":"c","after":null}"#,
            "has op c and no after",
        ),
        (
            "after is no row",
            r#"{"op":"c","after":[1]}"#,
            "has after that is no object",
        ),
        (
            "no key to delete",
            r#"{"op":"d","before":{"x":1}}"#,
            "before has no id",
        ),
        (
            "a null key",
            r#"{"op":"d","before":{"id":null}}"#,
            "before has no id",
        ),
        (
            "a key of others",
            r#"{"key":{"x":1},"value":null}"#,
            "without the table's key column id",
        ),
        (
            "ours without a row",
            r#"{"op":"insert","key":"a"}"#,
            "has op insert and no row",
        ),
        (
            "ours without a key",
            r#"{"op":"delete"}"#,
            "there is no key",
        ),
        (
            "ours at no time",
            r#"{"op":"delete","key":"a","time":"noon"}"#,
            "has a time \"noon\"",
        ),
        (
            "payload is no event",
            r#"{"schema":{},"payload":5}"#,
            "has a payload that is no object",
        ),
        (
            "value is no event",
            r#"{"key":1,"value":5}"#,
            "has a value that is no object",
        ),
    ] {
        let error = read(&rules(&["id"]), None, text.as_bytes()).unwrap_err();
        assert!(error.contains(word), "{name}: {error}");
    }
}

fn names() -> impl Strategy<Value = String> {
    let names = [
        "op",
        "before",
        "after",
        "source",
        "key",
        "value",
        "schema",
        "payload",
        "table",
        "row",
        "id",
        "time",
        "ts_ms",
        "__op",
        "__deleted",
        "data",
        "specversion",
        "ddl",
        "sequence",
    ];
    prop::sample::select(names.map(str::to_owned).to_vec())
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        "[a-z\"\\\\]{0,3}".prop_map(Into::into),
        prop::sample::select(vec!["c", "u", "d", "r", "t", "m", "insert", "delete", "[]"])
            .prop_map(Into::into),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            prop::collection::btree_map(names(), inner, 0..6)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn bytes_of_any_kind_never_panic(bytes: Vec<u8>) {
        let _ = read(&rules(&["id"]), None, &bytes);
    }

    #[test]
    fn objects_of_any_kind_give_rows_that_are_objects(value in json(), plain: bool, topic: bool) {
        let mut rules = rules(&["id", "key"]);
        rules.plain_rows = plain;
        let said = read(&rules, topic.then_some("k"), value.to_string().as_bytes());
        if let Ok(Said::Events(events)) = said {
            for event in events {
                let rows = match event.op {
                    Op::Upsert { before, after, .. } => vec![before, Some(after)],
                    Op::Delete { before, .. } => vec![before],
                    Op::Truncate | Op::Heartbeat => Vec::new(),
                };
                for row in rows.into_iter().flatten() {
                    let value: serde_json::Value = serde_json::from_str(&row).unwrap();
                    prop_assert!(value.is_object() && !row.contains('\n'));
                }
            }
        }
    }
}
