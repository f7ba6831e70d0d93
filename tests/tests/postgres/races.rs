//! Several workers and processes on one database.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

use forebay_node::upstream::{Committed, PostgresSink, RowFilter, Sink};
use forebay_tests::postgres::Postgres;

use super::made::{batch, commit, config, extents, gateway, id, open, readings, rows, whole};

#[test]
fn receivers_that_start_at_once_make_the_tables_once() {
    let server = Postgres::start_with("fsync = off");
    let config = config(&server);
    let barrier = Barrier::new(6);
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                barrier.wait();
                PostgresSink::open(&config).unwrap();
            });
        }
    });
    let twice = "SELECT count(*) - count(DISTINCT version) FROM forebay.schema_version";
    assert_eq!(server.number(twice), 0, "each version is noted once");
    let all = "SELECT count(*) - max(version) FROM forebay.schema_version";
    assert_eq!(server.number(all), 0, "all of them");
}

#[test]
fn tables_of_a_newer_version_are_left_alone() {
    let server = Postgres::start_with("fsync = off");
    drop(open(&server));
    let note = "INSERT INTO forebay.schema_version (version, program) VALUES (1000, 'newer')";
    server.admin().batch_execute(note).unwrap();
    let error = PostgresSink::open(&config(&server)).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("version 1000"), "{error}");
}

#[test]
fn a_batch_judged_on_an_older_state_is_refused_whole() {
    let server = Postgres::start_with("fsync = off");
    let (mut one, mut two) = (open(&server), open(&server));
    let message = |first| {
        let body = readings(first, 10, 1_764_482_400_000_000);
        whole(id("gw", "readings", first, 10), body)
    };
    commit(&mut one, &batch("gw", 0, vec![message(0)]));
    let mut late = batch("gw", 0, vec![message(0)]);
    late.gateways.push((gateway("other"), 0));
    assert_eq!(
        two.commit(&late).unwrap(),
        Committed::Conflict(vec![gateway("gw")])
    );
    assert_eq!(rows(&mut two, &RowFilter::default()).len(), 10);
    let loaded = two.load(Some(&gateway("gw"))).unwrap();
    assert_eq!(loaded.versions[&gateway("gw")], 1);
    commit(&mut two, &batch("gw", 1, vec![message(10)]));
    commit(&mut one, &batch("other", 0, Vec::new()));
}

/// Many workers write to overlapping sets of gateways: each message counts once, none
/// waits for ever.
#[test]
fn workers_that_race_apply_each_message_once() {
    const WORKERS: u64 = 4;
    const MESSAGES: u64 = 40;
    let server = Postgres::start_with("fsync = off");
    drop(open(&server));
    let conflicts = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for worker in 0..WORKERS {
            let (server, conflicts) = (&server, &conflicts);
            scope.spawn(move || {
                let mut sink = open(server);
                for n in 0..MESSAGES {
                    // In turn forwards and backwards: in which order they are named is of no matter.
                    let names = match (n + worker) % 2 {
                        0 => ["a", "b", "c"],
                        _ => ["c", "b", "a"],
                    };
                    write_when_free(&mut sink, names, worker * MESSAGES + n, conflicts);
                }
            });
        }
    });
    let mut sink = open(&server);
    let found = extents(&mut sink);
    assert_eq!(found.len(), 3, "{found:?}");
    for extent in found {
        assert_eq!((extent.first.0, extent.count), (0, WORKERS * MESSAGES * 10));
    }
    assert!(conflicts.load(Ordering::Relaxed) > 0, "nobody raced");
}

/// Writes message `n` of each gateway as often as others come first.
fn write_when_free(sink: &mut PostgresSink, names: [&str; 3], n: u64, conflicts: &AtomicU64) {
    loop {
        let loaded = sink.load(None).unwrap().versions;
        let mut all = batch("a", 0, Vec::new());
        all.gateways.clear();
        for name in names {
            let body = readings(n * 10, 10, 1_764_482_400_000_000);
            all.applied
                .push(whole(id(name, "readings", n * 10, 10), body));
            let version = loaded.get(&gateway(name)).copied().unwrap_or(0);
            all.gateways.push((gateway(name), version));
        }
        match sink.commit(&all).unwrap() {
            Committed::Done => return,
            Committed::Conflict(_) => conflicts.fetch_add(1, Ordering::Relaxed),
        };
    }
}
