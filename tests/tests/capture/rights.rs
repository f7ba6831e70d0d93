//! What is missing is said, with the statement or the line that gives it; once it is
//! given, the source goes on by itself.

use std::fs;

use forebay_core::effect::SourceState;
use forebay_tests::postgres::USER;

use super::rig::{Rig, Running, fed, tables};

#[test]
fn each_right_that_is_missing_is_named_until_all_are_there() {
    let mut rig = Rig::bare("");
    rig.sql("CREATE SCHEMA plant; CREATE TABLE plant.places (id int4, name text)");
    let mut fed = fed("places", "id");
    fed.schema = "plant".into();
    let mut running = rig.start_with(None, vec![fed.clone()]);
    running.until_said("wal_level = logical");
    running.end();
    rig.server.restart_with("wal_level = logical\n");
    rig.reconnect();
    let mut running = rig.start_with(None, vec![fed]);
    for (want, sql) in [
        (
            "CREATE PUBLICATION \"forebay\" FOR TABLE \"plant\".\"places\";",
            "CREATE PUBLICATION forebay WITH (publish = 'insert')",
        ),
        (
            "SET (publish = 'insert, update, delete, truncate');",
            "ALTER PUBLICATION forebay SET (publish = 'insert, update, delete, truncate')",
        ),
        (
            "ALTER PUBLICATION \"forebay\" ADD TABLE \"plant\".\"places\";",
            "ALTER PUBLICATION forebay ADD TABLE plant.places",
        ),
        (
            "GRANT USAGE ON SCHEMA \"plant\" TO \"forebay\"; GRANT SELECT ON \"plant\".\"places\" \
             TO \"forebay\";",
            "GRANT USAGE ON SCHEMA plant TO forebay; GRANT SELECT ON plant.places TO forebay",
        ),
        (
            "REPLICA IDENTITY",
            "ALTER TABLE plant.places ADD PRIMARY KEY (id)",
        ),
        (
            "ALTER ROLE forebay REPLICATION;",
            "ALTER ROLE forebay REPLICATION",
        ),
    ] {
        running.until_said(want);
        let failed = matches!(running.states.last(), Some(SourceState::Failed(_)));
        assert!(failed, "{want}: somebody must act");
        rig.sql(sql);
    }
    running.until_streaming();
}

#[test]
fn logins_that_are_refused_say_why() {
    let mut rig = Rig::new();
    let config = rig.config();
    let wrong = rig.home.path().join("wrong");
    fs::write(&wrong, "another\n").unwrap();
    let start = |change: &dyn Fn(&mut forebay_node::config::DatabaseConfig)| {
        let mut config = config.clone();
        change(&mut config);
        Running::start(super::rig::source(config, rig.home.path(), None, tables()))
    };
    type Change<'a> = &'a dyn Fn(&mut forebay_node::config::DatabaseConfig);
    let from = forebay_node::config::PostgresPassword::File(wrong.clone());
    let cases: [(Change<'_>, &str); 6] = [
        (
            &|c| c.password = Some(from.clone()),
            "password_file or password_env in [[database]] main",
        ),
        (
            &|c| c.password = None,
            "give password_file or password_env in [[database]] main",
        ),
        (
            &|c| c.database = "no_such".into(),
            "The database no_such is not there",
        ),
        (&|c| c.port = 1, "Is the server running"),
        (&|c| c.tls = true, "set tls = \"off\" in [[database]]"),
        (&|c| c.user = "nobody_here".into(), "nobody_here"),
    ];
    for (change, want) in cases {
        start(change).until_said(want);
    }
    // Nobody may replicate by the rules of the server.
    let rules = rig.server.dir().join("data").join("pg_hba.conf");
    let before = fs::read_to_string(&rules).unwrap();
    fs::write(
        &rules,
        format!("host all {USER} 127.0.0.1/32 reject\n{before}"),
    )
    .unwrap();
    rig.sql("SELECT pg_reload_conf()");
    rig.start(None)
        .until_said("pg_hba.conf needs a line such as: host readings forebay");
}

#[test]
fn no_password_is_ever_said() {
    let mut rig = Rig::new();
    let mut running = rig.start(None);
    running.until_streaming();
    rig.sql("ALTER ROLE forebay PASSWORD 'changed'");
    rig.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'forebay'");
    running.until_said("The password of the role forebay is another one");
    let all = format!("{:?} {:?}", running.states, running.notes);
    assert!(!all.contains(forebay_tests::postgres::PASSWORD));
}

#[test]
fn a_server_without_free_slots_says_so() {
    let mut rig = Rig::with("");
    rig.sql(
        "SELECT pg_create_physical_replication_slot('a'), pg_create_physical_replication_slot('b')",
    );
    let mut running = rig.start(None);
    running.until_said("max_replication_slots");
    rig.sql("SELECT pg_drop_replication_slot('a')");
    running.until_streaming();
}

#[test]
fn a_slot_of_somebody_else_is_left_alone() {
    let mut rig = Rig::new();
    let slot = super::rig::SLOT;
    rig.sql(&format!(
        "SELECT pg_create_physical_replication_slot('{slot}')"
    ));
    let mut running = rig.start(None);
    running.until_said("is not one of pgoutput in this database");
    rig.sql(&format!("SELECT pg_drop_replication_slot('{slot}')"));
    running.until_streaming();
}

#[test]
fn two_agents_on_one_slot_are_told() {
    let rig = Rig::new();
    let mut first = rig.start(None);
    first.until_streaming();
    let other = tempfile::TempDir::new().unwrap();
    let source = super::rig::source(rig.config(), other.path(), None, tables());
    let mut second = Running::start(source);
    second.until_said("One agent alone may use a slot");
    drop(second);
    first.until("it goes on", |seen| !seen.events.is_empty());
}
