//! What breaks: the database restarted, its slot dropped or invalid, its tables altered,
//! dropped, unpublished. Each ends in the state that the docs name.

use forebay_core::effect::SourceState;

use super::rig::{Rig, Running, SLOT, changes, rows};

fn is_streaming(running: &Running) -> bool {
    running.states.last() == Some(&SourceState::Streaming)
}

#[test]
fn a_database_that_is_killed_and_comes_back_is_followed() {
    let mut rig = Rig::new();
    let mut running = rig.start(None);
    running.until_streaming();
    for round in 0..3 {
        rig.sql(&format!("INSERT INTO places VALUES ({round}, 'a')"));
        if round == 1 {
            rig.server.stop();
        } else {
            rig.server.kill();
        }
        running.until("it says that the database is gone", |seen| {
            matches!(seen.states.last(), Some(SourceState::Waiting(_)))
        });
        rig.server.restart();
        rig.reconnect();
        rig.sql(&format!("UPDATE places SET name = 'b' WHERE id = {round}"));
        let count = 2 * (round + 1);
        running.until("all changes", |seen| {
            changes(&seen.events).len() == count && is_streaming(seen)
        });
    }
    assert_eq!(running.notes, Vec::<String>::new(), "nothing is read anew");
    assert_eq!(changes(&running.events).len(), 6);
}

#[test]
fn a_connection_that_is_cut_is_made_again() {
    let mut rig = Rig::new();
    let mut running = rig.start(None);
    running.until_streaming();
    for n in 0..5 {
        rig.sql(&format!("INSERT INTO places VALUES ({n}, 'a')"));
        rig.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'forebay'");
    }
    running.until_changes(5);
    assert_eq!(changes(&running.events).len(), 5);
    assert_eq!(running.notes, Vec::<String>::new());
}

/// Ends the source, lets `harm` happen, and starts it again: all rows are read anew, and
/// it says why.
#[track_caller]
fn reads_anew(rig: &mut Rig, harm: impl FnOnce(&mut Rig), why: &str) {
    let mut running = rig.start(None);
    running.until_streaming();
    rig.sql("INSERT INTO places VALUES (1, 'a'), (2, 'b')");
    running.until_changes(2);
    let mut ended = running.end();
    rig.until_free();
    harm(rig);
    rig.sql("DELETE FROM places WHERE id = 1; UPDATE places SET name = 'c' WHERE id = 2");
    let mut running = rig.start(ended.position.take());
    running.until_said(why);
    running.until_streaming();
    assert!(
        running.notes[0].contains("as what they amount to"),
        "{:?}",
        running.notes
    );
    rig.sql("INSERT INTO places VALUES (3, 'd')");
    running.until_changes(1);
    let got: Vec<String> = rows(&running.events, "places", "id")
        .into_values()
        .collect();
    assert_eq!(got, [r#"{"id":2,"name":"c"}"#, r#"{"id":3,"name":"d"}"#]);
}

#[test]
fn a_slot_that_is_dropped_is_made_anew() {
    let harm = |rig: &mut Rig| rig.sql(&format!("SELECT pg_drop_replication_slot('{SLOT}')"));
    reads_anew(&mut Rig::new(), harm, "the slot forebay_gw1_main is gone");
}

#[test]
fn a_slot_that_is_dropped_under_the_stream_is_made_anew() {
    let mut rig = Rig::new();
    let mut running = rig.start(None);
    running.until_streaming();
    // Dropped in the moment in which it is not in use.
    rig.sql(&format!(
        "DO $$ BEGIN PERFORM pg_terminate_backend(active_pid) FROM pg_replication_slots; \
         LOOP BEGIN PERFORM pg_drop_replication_slot('{SLOT}'); EXIT; \
         EXCEPTION WHEN object_in_use THEN END; END LOOP; END $$"
    ));
    running.until_said("is gone");
    running.until("it streams again", is_streaming);
}

#[test]
fn a_slot_that_the_server_gave_up_is_made_anew() {
    let mut rig =
        Rig::with("max_slot_wal_keep_size = 1MB\nmin_wal_size = 32MB\nmax_wal_size = 32MB\n");
    let harm = |rig: &mut Rig| {
        for _ in 0..5 {
            rig.sql("SELECT pg_switch_wal(); CREATE TABLE x (n int4); DROP TABLE x");
        }
        rig.sql("CHECKPOINT");
        let sql = "SELECT coalesce(wal_status, '-') FROM pg_replication_slots";
        let status: String = rig.admin.query_one(sql, &[]).unwrap().get(0);
        assert_eq!(status, "lost");
    };
    reads_anew(&mut rig, harm, "max_slot_wal_keep_size");
}

#[test]
fn a_slot_that_is_ahead_of_the_log_is_made_anew() {
    let harm = |rig: &mut Rig| {
        rig.sql("INSERT INTO limits VALUES ('x', 1)");
        rig.sql(&format!(
            "SELECT pg_replication_slot_advance('{SLOT}', pg_current_wal_lsn())"
        ));
    };
    reads_anew(&mut Rig::new(), harm, "ahead of the log");
}

#[test]
fn a_record_that_is_lost_begins_anew() {
    let harm = |rig: &mut Rig| {
        std::fs::remove_dir_all(rig.home.path().join("sources")).unwrap();
    };
    reads_anew(&mut Rig::new(), harm, "nothing is remembered");
}

#[test]
fn another_database_in_its_place_begins_anew() {
    let mut rig = Rig::new();
    let mut running = rig.start(None);
    running.until_streaming();
    // So that the places of the other one are before those that were seen.
    rig.sql("CREATE TABLE filler AS SELECT repeat('x', 1000) FROM generate_series(1, 20000)");
    rig.sql("INSERT INTO places VALUES (1, 'a')");
    running.until_changes(1);
    let ended = running.end();
    let mut other = Rig::new();
    other.sql("INSERT INTO places VALUES (2, 'b')");
    let source = super::rig::source(
        other.config(),
        rig.home.path(),
        ended.position.clone(),
        super::rig::tables(),
    );
    let mut running = Running::start(source);
    running.until_said("another database than before");
    running.until_streaming();
    other.sql("INSERT INTO places VALUES (3, 'c')");
    running.until_changes(1);
    assert!(
        running.position > ended.position,
        "what follows compares as later"
    );
    assert_eq!(rows(&running.events, "places", "id").len(), 2);
}

#[test]
fn columns_that_come_and_go_are_followed() {
    let mut rig = Rig::new();
    let mut running = rig.start(None);
    running.until_streaming();
    for sql in [
        "INSERT INTO places VALUES (1, 'a')",
        "ALTER TABLE places ADD COLUMN floor int4 DEFAULT 7",
        "INSERT INTO places VALUES (2, 'b')",
        "ALTER TABLE places ALTER floor TYPE text",
        "INSERT INTO places VALUES (3, 'c', 'x')",
        "ALTER TABLE places RENAME floor TO level",
        "INSERT INTO places VALUES (4, 'd', 'y')",
        "ALTER TABLE places DROP COLUMN name",
        "CREATE DOMAIN score AS int4; ALTER TABLE places ADD COLUMN points score",
        "INSERT INTO places VALUES (5, 'z', 9)",
    ] {
        rig.sql(sql);
    }
    running.until_changes(5);
    assert_eq!(
        changes(&running.events),
        [
            r#"insert places {"id":1,"name":"a"}"#,
            r#"insert places {"id":2,"name":"b","floor":7}"#,
            r#"insert places {"id":3,"name":"c","floor":"x"}"#,
            r#"insert places {"id":4,"name":"d","level":"y"}"#,
            r#"insert places {"id":5,"level":"z","points":9}"#,
        ]
    );
    assert!(
        running
            .notes
            .iter()
            .any(|note| note.contains("other columns")),
        "{:?}",
        running.notes
    );
}

#[test]
fn a_key_column_that_goes_stops_the_stream_until_the_config_knows() {
    let mut rig = Rig::new();
    let mut running = rig.start(None);
    running.until_streaming();
    rig.sql("INSERT INTO places VALUES (1, 'a')");
    running.until_changes(1);
    rig.sql("ALTER TABLE places RENAME id TO number; INSERT INTO places VALUES (2, 'b')");
    running.until_said("key");
    running.until("it says that somebody must act", |seen| {
        matches!(seen.states.last(), Some(SourceState::Failed(_)))
    });
    let ended = running.end();
    assert_eq!(changes(&ended.events).len(), 1);
    let tables = vec![
        super::rig::fed("places", "number"),
        super::rig::fed("limits", "device"),
    ];
    let mut running = rig.start_with(ended.position, tables);
    running.until_changes(1);
    assert_eq!(
        changes(&running.events),
        [r#"insert places {"number":2,"name":"b"}"#]
    );
}

#[test]
fn a_table_that_is_dropped_is_said_and_the_others_go_on() {
    let mut rig = Rig::new();
    let mut running = rig.start(None);
    running.until_streaming();
    rig.sql("INSERT INTO places VALUES (1, 'a'); DROP TABLE places");
    running.until_said("table public.places is not there");
    running.until_said("other tables go on");
    rig.sql("INSERT INTO limits VALUES ('d1', 1)");
    running.until_changes(2);
    // It comes back as another one.
    rig.sql(
        "CREATE TABLE places (id int4 PRIMARY KEY, name text); INSERT INTO places VALUES (9, 'z')",
    );
    rig.sql("GRANT SELECT ON places TO forebay; ALTER PUBLICATION forebay ADD TABLE places");
    running.until_said("made or published anew");
    running.until("it streams", is_streaming);
    let got: Vec<String> = rows(&running.events, "places", "id")
        .into_values()
        .collect();
    assert_eq!(got, [r#"{"id":9,"name":"z"}"#]);
}

#[test]
fn a_table_that_leaves_the_publication_is_read_anew_when_it_is_back() {
    let mut rig = Rig::new();
    let mut running = rig.start(None);
    running.until_streaming();
    rig.sql("INSERT INTO places VALUES (1, 'a'); ALTER PUBLICATION forebay DROP TABLE places");
    running.until_said("is not in the publication");
    rig.sql("INSERT INTO places VALUES (2, 'missed')");
    rig.sql("ALTER PUBLICATION forebay ADD TABLE places");
    running.until_said("made or published anew");
    running.until("it streams", is_streaming);
    assert_eq!(rows(&running.events, "places", "id").len(), 2);
}

#[test]
fn a_publication_that_is_dropped_is_said() {
    let mut rig = Rig::new();
    let mut running = rig.start(None);
    running.until_streaming();
    rig.sql("DROP PUBLICATION forebay");
    running.until_said("the publication forebay is missing");
    rig.sql("CREATE PUBLICATION forebay FOR TABLE places, limits");
    running.until("it streams", is_streaming);
    rig.sql("INSERT INTO places VALUES (1, 'a')");
    running.until("the row", |seen| {
        rows(&seen.events, "places", "id").len() == 1
    });
}

#[test]
fn rights_that_are_taken_away_are_said() {
    let mut rig = Rig::new();
    let mut running = rig.start(None);
    running.until_streaming();
    rig.sql("REVOKE SELECT ON places FROM forebay");
    running.until_said("GRANT SELECT ON \"public\".\"places\" TO \"forebay\";");
    rig.sql("GRANT SELECT ON places TO forebay");
    running.until("it streams", is_streaming);
}
