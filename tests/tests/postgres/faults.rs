//! What the sink says when the server does not do as it should: each sentence names
//! what to do, and none shows the password.

use forebay_node::config::{PostgresConfig, PostgresPassword};
use forebay_node::upstream::{PostgresSink, RowFilter, Sink};
use forebay_tests::postgres::{DATABASE, PASSWORD, Postgres, USER};

use super::made::{batch, commit, config, id, open, readings, rows, whole};

fn refused(config: &PostgresConfig) -> String {
    let error = PostgresSink::open(config).unwrap_err().to_string();
    assert!(!error.contains(PASSWORD), "{error}");
    error
}

#[test]
fn a_server_that_does_not_let_us_in() {
    let server = Postgres::start_with(
        "fsync = off\nmax_connections = 5\nsuperuser_reserved_connections = 1",
    );
    let wrong = server.dir().join("wrong");
    std::fs::write(&wrong, "another-password").unwrap();
    type Change = Box<dyn Fn(&mut PostgresConfig)>;
    let cases: Vec<(&str, Change, &str)> = vec![
        (
            "wrong password",
            Box::new(move |c| c.password = Some(PostgresPassword::File(wrong.clone()))),
            "see password_file or password_env",
        ),
        (
            "no password",
            Box::new(|c| c.password = None),
            "give password_file or password_env",
        ),
        (
            "no such database",
            Box::new(|c| c.database = "nowhere".into()),
            "CREATE DATABASE nowhere OWNER forebay;",
        ),
        (
            "nobody listens",
            Box::new(|c| c.port = 1),
            "Is the server running",
        ),
        ("no TLS", Box::new(|c| c.tls = true), "tls = \"off\""),
        (
            "not by this table of hosts",
            Box::new(|c| {
                c.user = "admin".into();
                c.host = "127.0.0.2".into();
            }),
            "127.0.0.2",
        ),
    ];
    for (name, change, want) in cases {
        let mut config = config(&server);
        change(&mut config);
        let error = refused(&config);
        assert!(error.contains(want), "{name}: {error}");
        assert!(!error.contains("another-password"), "{name}: {error}");
    }
    let held: Vec<_> = (0..4).map(|_| server.admin()).collect();
    let error = refused(&config(&server));
    assert!(error.contains("max_connections"), "{error}");
    drop(held);
}

#[test]
fn a_missing_grant_is_named_and_what_it_names_helps() {
    let server = Postgres::start_with("fsync = off");
    let mut admin = server.admin();
    let message = |first: u64| {
        let body = readings(first, 10, 1_764_482_400_000_000);
        whole(id("gw", "readings", first, 10), body)
    };
    // Not the right to make a schema.
    let revoke = format!("REVOKE CREATE ON DATABASE {DATABASE} FROM {USER}");
    admin.batch_execute(&revoke).unwrap();
    let error = refused(&config(&server));
    run_named(&mut admin, &error, "GRANT CREATE ON DATABASE");
    let mut sink = open(&server);
    commit(&mut sink, &batch("gw", 0, vec![message(0)]));
    // A table that another role has taken over.
    admin
        .batch_execute(
            "ALTER TABLE forebay.sources OWNER TO admin; \
             REVOKE ALL ON forebay.sources FROM forebay",
        )
        .unwrap();
    let mut other = open(&server);
    let error = other
        .commit(&batch("gw", 1, vec![message(10)]))
        .unwrap_err();
    run_named(
        &mut admin,
        &error.to_string(),
        "GRANT SELECT, INSERT, UPDATE, DELETE ON forebay.sources",
    );
    commit(&mut open(&server), &batch("gw", 1, vec![message(10)]));
    // The table of readings, of which only an owner makes partitions.
    admin
        .batch_execute(
            "ALTER TABLE forebay.samples OWNER TO admin; \
             GRANT ALL ON forebay.samples TO forebay; GRANT ALL ON forebay.samples_default TO forebay",
        )
        .unwrap();
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let body = readings(20, 10, now.as_micros() as i64 - 5 * 86_400_000_000);
    let recent = whole(id("gw", "readings", 20, 10), body);
    let error = open(&server)
        .commit(&batch("gw", 2, vec![recent.clone()]))
        .unwrap_err();
    run_named(
        &mut admin,
        &error.to_string(),
        "ALTER TABLE forebay.samples OWNER TO",
    );
    commit(&mut open(&server), &batch("gw", 2, vec![recent]));
}

/// Runs the statement that an error names.
#[track_caller]
fn run_named(admin: &mut postgres::Client, error: &str, starts: &str) {
    let (_, rest) = error
        .split_once(starts)
        .unwrap_or_else(|| panic!("{starts}: {error}"));
    let (rest, _) = rest.split_once(';').unwrap();
    admin.batch_execute(&format!("{starts}{rest}")).unwrap();
}

#[test]
fn a_server_that_takes_no_writes() {
    let mut server = Postgres::start();
    server.restart_with("default_transaction_read_only = on");
    let error = refused(&config(&server));
    assert!(error.contains("Name the primary"), "{error}");
}

#[test]
fn a_full_disk_costs_nothing_that_was_applied() {
    let server = Postgres::start_with("fsync = off");
    let mut sink = open(&server);
    let body = readings(0, 10, 1_764_482_400_000_000);
    commit(
        &mut sink,
        &batch("gw", 0, vec![whole(id("gw", "readings", 0, 10), body)]),
    );
    // What the server says of a full disk, said by a trigger.
    server
        .admin()
        .batch_execute(
            "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
             RAISE EXCEPTION 'could not extend file \"base/1/2\": No space left on device' \
             USING ERRCODE = '53100'; END $$; \
             CREATE TRIGGER full_disk BEFORE INSERT ON forebay.samples \
             FOR EACH ROW EXECUTE FUNCTION full_disk()",
        )
        .unwrap();
    let body = || readings(10, 10, 1_764_482_400_000_000);
    let next = || batch("gw", 1, vec![whole(id("gw", "readings", 10, 10), body())]);
    let error = sink.commit(&next()).unwrap_err().to_string();
    assert!(error.contains("Make room on the server's disk"), "{error}");
    assert_eq!(rows(&mut open(&server), &RowFilter::default()).len(), 10);
    server
        .admin()
        .batch_execute("DROP TRIGGER full_disk ON forebay.samples")
        .unwrap();
    commit(&mut open(&server), &next());
}

#[test]
fn a_server_that_ends_and_comes_back() {
    let mut server = Postgres::start();
    let mut sink = open(&server);
    let message = |first: u64| {
        let body = readings(first, 10, 1_764_482_400_000_000);
        whole(id("gw", "readings", first, 10), body)
    };
    commit(&mut sink, &batch("gw", 0, vec![message(0)]));
    server.kill();
    let lost = sink.commit(&batch("gw", 1, vec![message(10)])).unwrap_err();
    assert!(!lost.to_string().contains(PASSWORD), "{lost}");
    let error = refused(&config(&server));
    assert!(error.contains("Is the server running"), "{error}");
    server.restart();
    let mut sink = open(&server);
    assert_eq!(rows(&mut sink, &RowFilter::default()).len(), 10);
    commit(&mut sink, &batch("gw", 1, vec![message(10)]));
}

#[test]
fn a_sink_that_nobody_has_written_to_is_not_made_by_asking() {
    let server = Postgres::start_with("fsync = off");
    let error = PostgresSink::open_existing(&config(&server)).unwrap_err();
    assert!(error.to_string().contains("nothing was applied"), "{error}");
    let schemas = "SELECT count(*) FROM pg_namespace WHERE nspname = 'forebay'";
    assert_eq!(server.number(schemas), 0);
}
