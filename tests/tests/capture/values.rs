//! Types: the stream and the snapshot give the same text, and it is the one of the table
//! in `agent/node/docs/tables-postgres.md`.

use forebay_core::effect::SourceEvent;

use super::rig::{Rig, fed, rows};

/// Type, a value as SQL, and as JSON.
const TYPES: [(&str, &str, &str); 30] = [
    ("bool", "true", "true"),
    ("int2", "-32768", "-32768"),
    ("int4", "2147483647", "2147483647"),
    ("int8", "9223372036854775807", "9223372036854775807"),
    ("oid", "7", "7"),
    ("float4", "0.1", "0.1"),
    ("float8", "1e300", "1e+300"),
    ("float8", "'NaN'", r#""NaN""#),
    ("float8", "'-Infinity'", r#""-Infinity""#),
    ("numeric(10,2)", "12.5", "12.50"),
    (
        "numeric",
        "12345678901234567890.5",
        r#""12345678901234567890.5""#,
    ),
    ("text", "E'a\\tb\\n\"c\\\\'", r#""a\tb\n\"c\\""#),
    ("varchar(5)", "'été'", r#""été""#),
    ("char(4)", "'ab'", r#""ab  ""#),
    (
        "timestamptz",
        "'2026-11-30 10:00:00.5+01'",
        r#""2026-11-30T09:00:00.5Z""#,
    ),
    ("timestamptz", "'infinity'", r#""infinity""#),
    (
        "timestamp",
        "'2026-11-30 10:00:00'",
        r#""2026-11-30T10:00:00""#,
    ),
    ("date", "'2026-11-30'", r#""2026-11-30""#),
    ("time", "'10:00:00.25'", r#""10:00:00.25""#),
    ("interval", "'1 day 02:00'", r#""P1DT2H""#),
    ("bytea", "'\\x00ff'", r#""\\x00ff""#),
    (
        "uuid",
        "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'",
        r#""a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11""#,
    ),
    ("json", "E'{\"a\" :\\n [1, null]}'", r#"{"a":[1,null]}"#),
    ("jsonb", "'{\"b\": {\"c\": 1.50}}'", r#"{"b":{"c":1.50}}"#),
    ("int4[]", "'{1,2,NULL}'", r#""{1,2,NULL}""#),
    ("inet", "'10.0.0.1/8'", r#""10.0.0.1/8""#),
    ("mood", "'good'", r#""good""#),
    ("level", "3", "3"),
    ("int4range", "'[1,5)'", r#""[1,5)""#),
    ("text", "NULL", "null"),
];

#[test]
fn types_are_written_as_the_table_says() {
    let mut rig = Rig::new();
    let columns: Vec<String> = (TYPES.iter().enumerate())
        .map(|(n, (name, ..))| format!("c{n} {name}"))
        .collect();
    let values: Vec<&str> = TYPES.iter().map(|(_, value, _)| *value).collect();
    rig.sql("CREATE TYPE mood AS ENUM ('bad', 'good'); CREATE DOMAIN low AS int4; CREATE DOMAIN level AS low");
    rig.sql(&format!(
        "CREATE TABLE many (id int4 PRIMARY KEY, {}, twice int4 GENERATED ALWAYS AS (id * 2) STORED)",
        columns.join(", ")
    ));
    rig.sql("GRANT SELECT ON many TO forebay; ALTER PUBLICATION forebay ADD TABLE many");
    let row = |id: u8| format!("INSERT INTO many VALUES ({id}, {})", values.join(", "));
    rig.sql(&row(1));
    let mut running = rig.start_with(None, vec![fed("many", "id")]);
    running.until_streaming();
    rig.sql(&row(2));
    running.until_changes(1);
    let got = rows(&running.events, "many", "id");
    let members: Vec<String> = (TYPES.iter().enumerate())
        .map(|(n, (.., json))| format!("\"c{n}\":{json}"))
        .collect();
    for id in ["1", "2"] {
        assert_eq!(
            got[id],
            format!("{{\"id\":{id},{}}}", members.join(",")),
            "row {id}"
        );
    }
}

#[test]
fn large_values_that_did_not_change_are_named() {
    let mut rig = Rig::new();
    rig.sql("ALTER TABLE places ALTER name SET STORAGE EXTERNAL");
    rig.sql("INSERT INTO places VALUES (1, repeat('x', 100000))");
    rig.sql("ALTER TABLE places ADD COLUMN floor int4");
    let mut running = rig.start(None);
    running.until_streaming();
    rig.sql("UPDATE places SET floor = 3 WHERE id = 1");
    running.until_changes(1);
    let large = running.events.iter().find_map(|event| {
        let SourceEvent::Upsert {
            after, unchanged, ..
        } = event
        else {
            return None;
        };
        Some((after.clone(), unchanged.clone()))
    });
    let (after, unchanged) = large.unwrap();
    assert_eq!(&*after, r#"{"id":1,"floor":3}"#);
    assert_eq!(unchanged, ["name".into()]);
    // With the whole old row in the write log it is there.
    rig.sql("ALTER TABLE places REPLICA IDENTITY FULL; UPDATE places SET floor = 4 WHERE id = 1");
    running.until_changes(2);
    let got = rows(&running.events, "places", "id");
    assert_eq!(
        got["1"].len(),
        100_000 + r#"{"id":1,"name":"","floor":4}"#.len()
    );
}

#[test]
fn column_lists_and_row_filters_hold_in_both() {
    let mut rig = Rig::new();
    rig.sql("CREATE TABLE part (id int4 PRIMARY KEY, secret text, shown text)");
    rig.sql("GRANT SELECT ON part TO forebay");
    rig.sql("ALTER PUBLICATION forebay ADD TABLE part (id, shown) WHERE (id > 10)");
    rig.sql("INSERT INTO part VALUES (1, 's', 'a'), (11, 's', 'b')");
    let mut running = rig.start_with(None, vec![fed("part", "id")]);
    running.until_streaming();
    rig.sql("INSERT INTO part VALUES (2, 's', 'c'), (12, 's', 'd')");
    running.until_changes(1);
    let got: Vec<String> = rows(&running.events, "part", "id").into_values().collect();
    assert_eq!(
        got,
        [r#"{"id":11,"shown":"b"}"#, r#"{"id":12,"shown":"d"}"#]
    );
}
