//! What arrives: each change once, in the order of commits.

use forebay_core::effect::SourceEvent;

use super::rig::{Rig, changes, fed, rows};

#[test]
fn every_step_between_two_commits_is_seen() {
    let mut rig = Rig::new();
    let mut running = rig.start(None);
    running.until_streaming();
    rig.sql("BEGIN; INSERT INTO places VALUES (1, 'a'); DELETE FROM places WHERE id = 1; COMMIT");
    rig.sql("INSERT INTO places VALUES (2, 'a')");
    for name in ["b", "c", "d", "e"] {
        rig.sql(&format!("UPDATE places SET name = '{name}' WHERE id = 2"));
    }
    rig.sql("DELETE FROM places WHERE id = 2");
    running.until_changes(8);
    assert_eq!(
        changes(&running.events),
        [
            r#"insert places {"id":1,"name":"a"}"#,
            "delete places 1",
            r#"insert places {"id":2,"name":"a"}"#,
            r#"update places {"id":2,"name":"b"}"#,
            r#"update places {"id":2,"name":"c"}"#,
            r#"update places {"id":2,"name":"d"}"#,
            r#"update places {"id":2,"name":"e"}"#,
            "delete places 2",
        ]
    );
}

#[test]
fn a_snapshot_comes_before_the_changes_behind_it() {
    let mut rig = Rig::new();
    rig.sql("INSERT INTO places SELECT n, 'old ' || n FROM generate_series(1, 10000) n");
    rig.sql("INSERT INTO limits VALUES ('d1', 1.5)");
    let mut running = rig.start(None);
    let mut n = 0;
    // While it is taken, rows change.
    let begun = |events: &[SourceEvent]| {
        let is_begin = |event: &SourceEvent| matches!(event, SourceEvent::SnapshotBegin { .. });
        events.iter().any(is_begin)
    };
    running.until("the snapshot begins", |seen| begun(&seen.events));
    for _ in 0..50 {
        n += 1;
        rig.sql(&format!("UPDATE places SET name = 'new' WHERE id = {n}"));
        rig.sql(&format!("DELETE FROM places WHERE id = {}", 5000 + n));
    }
    running.until_changes(100);
    let got = rows(&running.events, "places", "id");
    assert_eq!(got.len(), 9950);
    assert_eq!(got["50"], r#"{"id":50,"name":"new"}"#);
    assert_eq!(got["51"], r#"{"id":51,"name":"old 51"}"#);
    assert_eq!(rows(&running.events, "limits", "device").len(), 1);
    // No change looks older than the rows that it changes.
    let mut snapshot = None;
    for event in &running.events {
        match event {
            SourceEvent::SnapshotRow { time, .. } => snapshot = Some(*time),
            SourceEvent::Upsert { time, .. } | SourceEvent::Delete { time, .. } => {
                assert!(Some(*time) >= snapshot);
            }
            SourceEvent::SnapshotBegin { .. }
            | SourceEvent::SnapshotEnd { .. }
            | SourceEvent::Truncate { .. }
            | SourceEvent::Heartbeat { .. } => {}
        }
    }
}

#[test]
fn keys_that_change_and_tables_that_are_emptied() {
    let mut rig = Rig::new();
    let mut running = rig.start(None);
    running.until_streaming();
    rig.sql("INSERT INTO places VALUES (1, 'a'); UPDATE places SET id = 2 WHERE id = 1");
    rig.sql("INSERT INTO limits VALUES ('d1', 2); TRUNCATE places, limits");
    rig.sql("INSERT INTO places VALUES (3, NULL)");
    running.until_changes(7);
    let mut got = changes(&running.events);
    got[4..6].sort();
    assert_eq!(
        got,
        [
            r#"insert places {"id":1,"name":"a"}"#,
            "delete places 1",
            r#"insert places {"id":2,"name":"a"}"#,
            r#"insert limits {"device":"d1","most":2}"#,
            "truncate limits",
            "truncate places",
            r#"insert places {"id":3,"name":null}"#,
        ]
    );
    assert_eq!(rows(&running.events, "places", "id").len(), 1);
}

#[test]
fn what_is_rolled_back_or_of_other_tables_does_not_arrive() {
    let mut rig = Rig::new();
    rig.sql(
        "CREATE TABLE others (id int4 PRIMARY KEY); ALTER PUBLICATION forebay ADD TABLE others",
    );
    let mut running = rig.start_with(None, vec![fed("places", "id")]);
    running.until_streaming();
    rig.sql("BEGIN; INSERT INTO places VALUES (1, 'no'); ROLLBACK");
    rig.sql("INSERT INTO others VALUES (1); INSERT INTO limits VALUES ('d', 1)");
    rig.sql("BEGIN; INSERT INTO places VALUES (2, 'a'); SAVEPOINT s; INSERT INTO places VALUES (3, 'no'); ROLLBACK TO s; COMMIT");
    running.until_changes(1);
    assert_eq!(
        changes(&running.events),
        [r#"insert places {"id":2,"name":"a"}"#]
    );
}

#[test]
fn a_large_transaction_arrives_whole() {
    let mut rig = Rig::new();
    let mut running = rig.start(None);
    running.until_streaming();
    rig.sql("INSERT INTO places SELECT n, repeat('x', 100) FROM generate_series(1, 100000) n");
    running.until_changes(100_000);
    assert_eq!(rows(&running.events, "places", "id").len(), 100_000);
}

#[test]
fn a_stream_goes_on_where_it_was() {
    let mut rig = Rig::new();
    let mut running = rig.start(None);
    running.until_streaming();
    rig.sql("INSERT INTO places VALUES (1, 'a')");
    running.until_changes(1);
    let ended = running.end();
    rig.sql("INSERT INTO places VALUES (2, 'b'); UPDATE places SET name = 'c' WHERE id = 2");
    let mut running = rig.start(ended.position);
    running.until_changes(2);
    assert_eq!(
        changes(&running.events),
        [
            r#"insert places {"id":2,"name":"b"}"#,
            r#"update places {"id":2,"name":"c"}"#,
        ]
    );
    assert_eq!(running.notes, Vec::<String>::new());
}

#[test]
fn a_quiet_database_says_so() {
    let rig = Rig::new();
    let mut running = rig.start(None);
    running.until_streaming();
    let beats = |events: &[SourceEvent]| {
        let time = |event: &SourceEvent| match event {
            SourceEvent::Heartbeat { time, .. } => Some(*time),
            SourceEvent::Upsert { .. }
            | SourceEvent::Delete { .. }
            | SourceEvent::Truncate { .. }
            | SourceEvent::SnapshotBegin { .. }
            | SourceEvent::SnapshotRow { .. }
            | SourceEvent::SnapshotEnd { .. } => None,
        };
        events.iter().filter_map(time).collect::<Vec<_>>()
    };
    running.until("heartbeats", |seen| beats(&seen.events).len() > 5);
    let beats = beats(&running.events);
    assert!(beats.is_sorted());
    assert!(beats.first() < beats.last());
}

#[test]
fn the_server_forgets_only_what_is_durable() {
    let mut rig = Rig::new();
    let mut running = rig.start(None);
    running.until_streaming();
    let confirmed = |rig: &mut Rig| -> String {
        let sql = "SELECT confirmed_flush_lsn::text FROM pg_replication_slots";
        rig.admin.query_one(sql, &[]).unwrap().get(0)
    };
    running.acks = false;
    let held = running.position.clone();
    let before = confirmed(&mut rig);
    for n in 0..20 {
        rig.sql(&format!("INSERT INTO places VALUES ({n}, 'a')"));
    }
    running.until_changes(1);
    // More than a time of confirming goes by, which looks at the database show.
    let heard = running.states.len();
    running.until("looks", |seen| seen.states.len() > heard + 6);
    assert_eq!(confirmed(&mut rig), before);
    running.end();
    // Nothing of it was durable: it comes again, and then the server may forget it.
    let mut running = rig.start(held);
    running.until_changes(20);
    running.until("it is confirmed", |_| confirmed(&mut rig) > before);
}

#[test]
fn partitions_come_as_their_table() {
    let mut rig = Rig::new();
    rig.sql("CREATE TABLE parts (id int4, at int4, PRIMARY KEY (id, at)) PARTITION BY RANGE (at)");
    rig.sql("CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (10)");
    rig.sql("CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (10) TO (20)");
    rig.sql("GRANT SELECT ON parts TO forebay; ALTER PUBLICATION forebay ADD TABLE parts");
    rig.sql("INSERT INTO parts VALUES (1, 5)");
    let mut parts = fed("parts", "id");
    parts.key.push("at".into());
    let mut running = rig.start_with(None, vec![parts]);
    running.until_said("SET (publish_via_partition_root = true);");
    rig.sql("ALTER PUBLICATION forebay SET (publish_via_partition_root = true)");
    running.until_streaming();
    rig.sql("INSERT INTO parts VALUES (1, 15); DELETE FROM parts WHERE at = 5");
    running.until_changes(2);
    assert_eq!(
        changes(&running.events),
        [
            r#"insert parts {"id":1,"at":15}"#,
            r#"delete parts ["1","5"]"#,
        ]
    );
}

#[test]
fn names_that_need_quotes_and_keys_by_an_index() {
    let mut rig = Rig::new();
    rig.sql(r#"CREATE SCHEMA "My ""Plant"; CREATE TABLE "My ""Plant"."Site's" ("The Key" text NOT NULL, n int4)"#);
    rig.sql(r#"CREATE UNIQUE INDEX by_key ON "My ""Plant"."Site's" ("The Key")"#);
    rig.sql(r#"GRANT USAGE ON SCHEMA "My ""Plant" TO forebay; GRANT SELECT ON "My ""Plant"."Site's" TO forebay"#);
    rig.sql(r#"CREATE PUBLICATION "It's ""ours" FOR TABLE "My ""Plant"."Site's""#);
    let mut config = rig.config();
    config.publication = r#"It's "ours"#.into();
    let mut sites = fed("sites", "The Key");
    sites.schema = r#"My "Plant"#.into();
    sites.table = "Site's".into();
    let source = super::rig::source(config, rig.home.path(), None, vec![sites]);
    let mut running = super::rig::Running::start(source);
    running.until_said("REPLICA IDENTITY USING INDEX");
    rig.sql(r#"ALTER TABLE "My ""Plant"."Site's" REPLICA IDENTITY USING INDEX by_key"#);
    rig.sql(r#"INSERT INTO "My ""Plant"."Site's" VALUES ('a b', 1)"#);
    running.until_streaming();
    rig.sql(
        r#"UPDATE "My ""Plant"."Site's" SET "The Key" = 'c"d'; DELETE FROM "My ""Plant"."Site's""#,
    );
    running.until_changes(3);
    assert_eq!(
        changes(&running.events),
        [
            "delete sites a b",
            r#"insert sites {"The Key":"c\"d","n":1}"#,
            "delete sites c\"d",
        ]
    );
}
