//! Partitions by time: made when they are needed, in bounded number, and around what is
//! there already.

use std::time::{SystemTime, UNIX_EPOCH};

use forebay_core::payload::DataBody;
use forebay_core::record::Record;
use forebay_node::config::PartitionSize;
use forebay_node::upstream::{PostgresSink, RowFilter};
use forebay_tests::postgres::Postgres;

use super::made::{batch, commit, config, id, open, reading, readings, rows, scaled, whole};

const DAY_US: i64 = 86_400_000_000;

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(since.as_micros()).unwrap()
}

fn partitions(server: &Postgres) -> i64 {
    server.number("SELECT count(*) FROM pg_inherits WHERE inhparent = 'forebay.samples'::regclass")
}

fn in_default(server: &Postgres) -> i64 {
    server.number("SELECT count(*) FROM forebay.samples_default")
}

/// Readings at these times.
fn at(first: u64, times: &[i64]) -> forebay_core::upstream::batch::Applied {
    let records = (first..).zip(times);
    let records = records.map(|(n, time)| Record::Reading(reading(n, *time, 1)));
    let body = DataBody::Readings {
        series: vec![scaled("temperature")],
        records: records.collect(),
    };
    whole(id("gw", "readings", first, times.len() as u64), body)
}

#[test]
fn times_without_a_limit_make_partitions_with_one() {
    let server = Postgres::start_with("fsync = off");
    let mut sink = open(&server);
    let now = now();
    // Every day from long ago to far ahead, and the ends of time.
    let mut times: Vec<i64> = (-600..600).map(|day| now + day * DAY_US).collect();
    let year_9999 = 253_402_300_799_000_000;
    times.extend([year_9999, i64::MAX, i64::MIN, 0]);
    let mut first = 0;
    // A batch makes some; what comes later finds the others missing.
    for version in 0..30 {
        let applied = at(first, &times);
        first += times.len() as u64;
        commit(&mut sink, &batch("gw", version, vec![applied]));
    }
    // 400 days back, today, two days ahead, and the default partition.
    assert_eq!(partitions(&server), 400 + 1 + 2 + 1);
    let total = rows(&mut sink, &RowFilter::default()).len();
    assert_eq!(total, times.len() * 30);
    // What had gone to the default partition before has moved.
    let days = server.number(&format!(
        "SELECT count(*) FROM forebay.samples_default WHERE \"time\" BETWEEN \
         to_timestamp({}) AND to_timestamp({})",
        (now - 399 * DAY_US) / 1_000_000,
        (now + DAY_US) / 1_000_000
    ));
    assert_eq!(days, 0);
}

#[test]
fn the_next_partition_is_there_before_it_begins() {
    let server = Postgres::start_with("fsync = off");
    let mut sink = open(&server);
    let body = readings(0, 1, now());
    commit(
        &mut sink,
        &batch("gw", 0, vec![whole(id("gw", "readings", 0, 1), body)]),
    );
    // Today, tomorrow, default; midnight may pass meanwhile.
    assert!((3..=4).contains(&partitions(&server)));
    assert_eq!(in_default(&server), 0);
}

#[test]
fn the_size_may_change_and_partitions_may_go() {
    let server = Postgres::start_with("fsync = off");
    let now = now();
    let times = [now - 3 * DAY_US, now - 40 * DAY_US, now];
    commit(&mut open(&server), &batch("gw", 0, vec![at(0, &times)]));
    let mut config = config(&server);
    config.partition = PartitionSize::Month;
    let mut sink = PostgresSink::open(&config).unwrap();
    let all: Vec<i64> = (-70..=1).map(|day| now + day * DAY_US).collect();
    for version in 1..6 {
        let first = 1000 * version;
        commit(&mut sink, &batch("gw", version, vec![at(first, &all)]));
    }
    assert_eq!(in_default(&server), 0);
    // Retention is the operator's: a partition is dropped, and its days come to the
    // default partition until the receiver starts again.
    let name: String = {
        let sql = "SELECT inhrelid::regclass::text FROM pg_inherits \
                   WHERE inhparent = 'forebay.samples'::regclass \
                   AND inhrelid::regclass::text LIKE '%samples_2%' ORDER BY 1 LIMIT 1";
        server.admin().query_one(sql, &[]).unwrap().get(0)
    };
    server
        .admin()
        .batch_execute(&format!("DROP TABLE {name}"))
        .unwrap();
    commit(&mut sink, &batch("gw", 6, vec![at(9000, &all)]));
    assert!(in_default(&server) > 0);
    let mut again = PostgresSink::open(&config).unwrap();
    commit(&mut again, &batch("gw", 7, vec![at(9900, &all)]));
    assert_eq!(in_default(&server), 0);
}

#[test]
fn a_reader_that_holds_locks_stops_no_writing() {
    let server = Postgres::start_with("fsync = off");
    let mut sink = open(&server);
    let mut reader = server.admin();
    let mut reading = reader.transaction().unwrap();
    reading
        .query("SELECT count(*) FROM forebay.samples", &[])
        .unwrap();
    let body = readings(0, 5, now());
    commit(
        &mut sink,
        &batch("gw", 0, vec![whole(id("gw", "readings", 0, 5), body)]),
    );
    assert_eq!(in_default(&server), 5);
    reading.rollback().unwrap();
    // The next sink makes the partition, and the rows move.
    let body = readings(5, 5, now());
    commit(
        &mut open(&server),
        &batch("gw", 1, vec![whole(id("gw", "readings", 5, 5), body)]),
    );
    assert_eq!(in_default(&server), 0);
    assert_eq!(rows(&mut sink, &RowFilter::default()).len(), 10);
}

/// The extension cannot be had from Debian: a stand-in shows what it would be asked.
#[test]
fn with_timescaledb_the_table_is_made_a_hypertable() {
    let server = Postgres::start_with("fsync = off\nallow_system_table_mods = on");
    server
        .admin()
        .batch_execute(
            "CREATE SCHEMA ts; GRANT USAGE ON SCHEMA ts TO PUBLIC;
             CREATE TABLE ts.asked (what text); GRANT INSERT ON ts.asked TO PUBLIC;
             CREATE FUNCTION ts.create_hypertable(relation regclass, time_column_name name,
                 chunk_time_interval interval, create_default_indexes bool)
             RETURNS void LANGUAGE sql AS
             $$ INSERT INTO ts.asked VALUES (relation::text || ' ' || time_column_name || ' '
                 || chunk_time_interval || ' ' || create_default_indexes) $$;
             INSERT INTO pg_extension (oid, extname, extowner, extnamespace, extrelocatable, extversion)
             VALUES (999999, 'timescaledb', 10, 'ts'::regnamespace, false, '2')",
        )
        .unwrap();
    let mut sink = open(&server);
    let body = readings(0, 5, now());
    commit(
        &mut sink,
        &batch("gw", 0, vec![whole(id("gw", "readings", 0, 5), body)]),
    );
    let asked: String = server
        .admin()
        .query_one("SELECT string_agg(what, ';') FROM ts.asked", &[])
        .unwrap()
        .get(0);
    assert_eq!(asked, "samples time 1 day false");
    assert_eq!(server.number("SELECT count(*) FROM forebay.samples"), 5);
    assert_eq!(partitions(&server), 0);
    // A stand-in is no extension that a start may find again.
    drop(sink);
    assert_eq!(rows(&mut open(&server), &RowFilter::default()).len(), 5);
}
