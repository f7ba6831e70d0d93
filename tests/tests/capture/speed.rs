//! How many changes a second arrive, and how late one is.

use std::time::{Duration, Instant};

use forebay_core::effect::SourceEvent;

use super::rig::{Rig, changes};

const CHANGES: usize = 200_000;
/// Changes a second that must arrive; a debug build and a computer that does other things
/// beside get a quarter of it.
const PER_SECOND: usize = 20_000;
const LATE: Duration = Duration::from_millis(250);

#[test]
fn changes_arrive_as_fast_as_they_must() {
    let mut rig = Rig::new();
    let mut running = rig.start(None);
    running.until_streaming();
    let (mut looked, mut seen) = (running.events.len(), 0);
    let began = Instant::now();
    rig.sql(&format!(
        "INSERT INTO places SELECT n, 'x' FROM generate_series(1, {CHANGES}) n"
    ));
    running.until("all changes", |running| {
        let new = &running.events[looked..];
        let is_change = |event: &&SourceEvent| matches!(event, SourceEvent::Upsert { .. });
        seen += new.iter().filter(is_change).count();
        looked += new.len();
        seen >= CHANGES
    });
    let took = began.elapsed();
    let rate = CHANGES as f64 / took.as_secs_f64();
    println!("{rate:.0} changes/s, with their writing");
    assert!(rate > (PER_SECOND / 4) as f64, "{rate} changes/s");
}

#[test]
fn a_change_arrives_soon() {
    let mut rig = Rig::new();
    let mut running = rig.start(None);
    running.until_streaming();
    let mut late: Vec<Duration> = Vec::new();
    for n in 0..200 {
        rig.sql(&format!("INSERT INTO places VALUES ({n}, 'a')"));
        let committed = Instant::now();
        running.until_changes(n + 1);
        late.push(committed.elapsed());
    }
    assert_eq!(changes(&running.events).len(), 200);
    late.sort();
    println!("median {:?}, p99 {:?}", late[100], late[197]);
    assert!(late[197] < LATE, "p99 {:?}", late[197]);
}
