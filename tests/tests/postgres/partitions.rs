//! Partitions by time: made when they are needed, in bounded number, and around what is
//! there already.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use forebay_core::payload::DataBody;
use forebay_core::record::Record;
use forebay_core::units::EventTime;
use forebay_core::upstream::batch::{Applied, Batch};
use forebay_node::config::{PartitionSize, PostgresConfig};
use forebay_node::upstream::{PostgresSink, RowFilter};
use forebay_tests::postgres::Postgres;

use super::made::{batch, commit, config, id, reading, readings, rows, scaled, whole};

const DAY_US: i64 = 86_400_000_000;

const MINUTE_US: i64 = 60_000_000;
/// 2026-11-30T12:00:00Z.
const NOON: i64 = 1_796_040_000_000_000;

/// The receiver's clock, driven by hand.
#[derive(Clone)]
struct Clock(Arc<AtomicI64>);

impl Clock {
    fn at(time: i64) -> Self {
        Self(Arc::new(AtomicI64::new(time)))
    }

    fn set(&self, time: i64) {
        self.0.store(time, Ordering::SeqCst);
    }

    fn open(&self, config: &PostgresConfig) -> PostgresSink {
        let time = self.0.clone();
        let clock = move || EventTime(time.load(Ordering::SeqCst));
        PostgresSink::open_with(config, Box::new(clock)).unwrap()
    }
}

fn open(server: &Postgres) -> PostgresSink {
    Clock::at(NOON).open(&config(server))
}

fn partitions(server: &Postgres) -> i64 {
    server.number("SELECT count(*) FROM pg_inherits WHERE inhparent = 'forebay.samples'::regclass")
}

fn in_default(server: &Postgres) -> i64 {
    server.number("SELECT count(*) FROM forebay.samples_default")
}

/// Readings at these times.
fn at(first: u64, times: &[i64]) -> Applied {
    let records = (first..).zip(times);
    let records = records.map(|(n, time)| Record::Reading(reading(n, *time, 1)));
    let body = DataBody::Readings {
        series: vec![scaled("temperature")],
        records: records.collect(),
    };
    whole(id("gw", "readings", first, times.len() as u64), body)
}

/// A batch with five readings, a second apart.
fn five(version: u64, time: i64) -> Batch {
    let first = version * 5;
    let whole = whole(id("gw", "readings", first, 5), readings(first, 5, time));
    batch("gw", version, vec![whole])
}

/// A reader in the midst of a transaction: it has a lock on every partition.
fn holding(reader: &mut postgres::Client) -> postgres::Transaction<'_> {
    let mut reading = reader.transaction().unwrap();
    reading
        .query("SELECT count(*) FROM forebay.samples", &[])
        .unwrap();
    reading
}

#[test]
fn times_without_a_limit_make_partitions_with_one() {
    let server = Postgres::start_with("fsync = off");
    let mut sink = open(&server);
    let now = NOON;
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
    let body = readings(0, 1, NOON);
    commit(
        &mut sink,
        &batch("gw", 0, vec![whole(id("gw", "readings", 0, 1), body)]),
    );
    // Today, tomorrow, default.
    assert_eq!(partitions(&server), 3);
    assert_eq!(in_default(&server), 0);
}

#[test]
fn the_size_may_change_and_partitions_may_go() {
    let server = Postgres::start_with("fsync = off");
    let now = NOON;
    let times = [now - 3 * DAY_US, now - 40 * DAY_US, now];
    commit(&mut open(&server), &batch("gw", 0, vec![at(0, &times)]));
    let mut config = config(&server);
    config.partition = PartitionSize::Month;
    let mut sink = Clock::at(NOON).open(&config);
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
    let mut again = Clock::at(NOON).open(&config);
    commit(&mut again, &batch("gw", 7, vec![at(9900, &all)]));
    assert_eq!(in_default(&server), 0);
}

#[test]
fn a_reader_that_holds_locks_stops_no_writing() {
    let server = Postgres::start_with("fsync = off");
    let midnight = NOON + DAY_US / 2;
    let clock = Clock::at(midnight - MINUTE_US);
    let mut sink = clock.open(&config(&server));
    let mut reader = server.admin();
    let reading = holding(&mut reader);
    // The last seconds of one day, and the first of the next.
    commit(&mut sink, &five(0, midnight - 2_000_000));
    assert_eq!(in_default(&server), 5);
    reading.rollback().unwrap();
    // What could not be made is not tried again at once ...
    clock.set(midnight - 1);
    commit(&mut sink, &five(1, midnight - 1));
    assert_eq!(in_default(&server), 10);
    // ... but after a minute, whether readings of its time still come or not.
    clock.set(midnight);
    commit(&mut sink, &five(2, midnight));
    assert_eq!(in_default(&server), 0);
    // Two days, the day after, and the default partition.
    assert_eq!(partitions(&server), 4);
    assert_eq!(rows(&mut sink, &RowFilter::default()).len(), 15);
}

/// Else a receiver whose clock was set back by a year would try no more for a year.
#[test]
fn a_clock_that_goes_back_does_not_put_off_a_partition() {
    let server = Postgres::start_with("fsync = off");
    let clock = Clock::at(NOON);
    let mut sink = clock.open(&config(&server));
    let mut reader = server.admin();
    let reading = holding(&mut reader);
    commit(&mut sink, &five(0, NOON));
    assert_eq!(in_default(&server), 5);
    reading.rollback().unwrap();
    clock.set(NOON - DAY_US);
    commit(&mut sink, &five(1, NOON));
    assert_eq!(in_default(&server), 0);
}

/// A batch makes some partitions only; those after it make the others.
#[test]
fn a_history_in_one_batch_gets_its_partitions_later() {
    let server = Postgres::start_with("fsync = off");
    let mut sink = open(&server);
    let days: Vec<i64> = (0..100).map(|day| NOON - day * DAY_US).collect();
    commit(&mut sink, &batch("gw", 0, vec![at(0, &days)]));
    // The newest 16, of which one is that of tomorrow.
    assert_eq!(in_default(&server), 100 - 15);
    for version in 1..7 {
        let first = 100 * version;
        commit(&mut sink, &batch("gw", version, vec![at(first, &[NOON])]));
    }
    assert_eq!(in_default(&server), 0);
    assert_eq!(partitions(&server), 100 + 1 + 1);
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
    let body = readings(0, 5, NOON);
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
