//! One disk after the other.

use std::fs;

use forebay_tests::judge::offsets_once;
use forebay_tests::namespace;

use super::rig::{Rig, check_no_offset_twice, check_none_missing, copy, readings};

const SOME: u64 = 1000;

/// Every reading is upstream exactly once.
#[track_caller]
fn check_each_once(rows: &[serde_json::Value]) {
    for (boot, ordinals) in readings(rows) {
        let twice = ordinals.iter().find(|(_, times)| **times != 1);
        assert_eq!(twice, None, "{boot:?}");
    }
}

/// Messages that the broker has acked and lost, before the receiver had them.
#[test]
fn the_broker_loses_its_disk() {
    let mut rig = Rig::start();
    rig.goes_on(SOME);
    rig.receiver_dies();
    rig.goes_on(SOME);
    rig.broker.lose_disk();
    rig.broker.restart();
    rig.goes_on(SOME);
    rig.receiver_starts();
    rig.goes_on(SOME);
    rig.broker.lose_disk();
    rig.broker.restart();
    rig.goes_on(SOME);
    rig.settle();
    let produced = rig.produced();
    let rows = rig.rows();
    check_none_missing(&rows, &produced, &[]);
    check_each_once(&rows);
    offsets_once(&rows, &[]).unwrap();
}

#[test]
fn the_gateway_loses_its_disk() {
    let mut rig = Rig::start();
    rig.goes_on(SOME);
    let safe = rig.safe();
    rig.agent_dies();
    let until = rig.produced();
    fs::remove_dir_all(rig.path("gateway")).unwrap();
    rig.agent_starts("gateway");
    rig.goes_on(SOME);
    rig.settle();
    let produced = rig.produced();
    let rows = rig.rows();
    check_none_missing(&rows, &produced, &[(safe, until)]);
    check_no_offset_twice(&rows);
}

#[test]
fn the_gateways_disk_is_put_back_from_an_old_backup() {
    let mut rig = Rig::start();
    rig.goes_on(SOME);
    rig.agent_dies();
    copy(&rig.path("gateway"), &rig.path("backup"));
    rig.agent_starts("gateway");
    rig.goes_on(SOME);
    let safe = rig.safe();
    rig.agent_dies();
    let until = rig.produced();
    fs::remove_dir_all(rig.path("gateway")).unwrap();
    copy(&rig.path("backup"), &rig.path("gateway"));
    rig.agent_starts("gateway");
    rig.goes_on(2 * SOME);
    rig.settle();
    let clones = rig.receiver_says().unwrap()["clones"].as_u64();
    let produced = rig.produced();
    let rows = rig.rows();
    check_none_missing(&rows, &produced, &[(safe, until)]);
    check_no_offset_twice(&rows);
    assert!(clones.is_some_and(|clones| clones > 0), "{clones:?}");
}

/// Two gateways of one name, the one from a copy of the other's disk, by turns.
#[test]
fn the_gateways_disk_is_cloned_and_both_run() {
    let mut rig = Rig::start();
    rig.goes_on(SOME);
    rig.agent_dies();
    copy(&rig.path("gateway"), &rig.path("clone"));
    let mut lost = Vec::new();
    for disk in ["clone", "gateway", "clone"] {
        rig.agent_starts(disk);
        rig.goes_on(SOME);
        let safe = rig.safe();
        rig.agent_dies();
        lost.push((safe, rig.produced()));
    }
    rig.agent_starts("gateway");
    rig.goes_on(SOME);
    rig.settle();
    let clones = rig.receiver_says().unwrap()["clones"].as_u64();
    let produced = rig.produced();
    let rows = rig.rows();
    // What one of them had acked, and not sent when its turn ended, is on its disk.
    check_none_missing(&rows, &produced, &lost);
    check_no_offset_twice(&rows);
    assert!(clones.is_some_and(|clones| clones > 0), "{clones:?}");
}

/// A new sink: all that the gateway still has comes again.
#[test]
fn the_receiver_loses_its_sink() {
    let mut rig = Rig::start();
    rig.goes_on(SOME);
    rig.safe();
    rig.receiver_dies();
    fs::remove_dir_all(rig.path("upstream")).unwrap();
    rig.receiver_starts();
    rig.goes_on(SOME);
    rig.settle();
    let produced = rig.produced();
    let rows = rig.rows();
    check_none_missing(&rows, &produced, &[]);
    check_each_once(&rows);
    offsets_once(&rows, &[]).unwrap();
}

/// No FIN and no RST: neither side is told, also not while a backlog is on its way.
#[test]
fn b22_a_link_cut_without_a_word_loses_nothing() {
    if !namespace::may_open("cases::b22_a_link_cut_without_a_word_loses_nothing") {
        return;
    }
    let mut rig = Rig::start_apart();
    rig.goes_on(SOME);
    for _ in 0..3 {
        rig.link_is_cut();
        rig.goes_on(SOME);
        rig.link_is_mended();
        rig.forward_says("the backlog is on its way", |forward| {
            forward["backlog_readings"].as_u64() < Some(SOME)
        });
        rig.link_is_cut();
        rig.link_is_mended();
    }
    rig.settle();
    let produced = rig.produced();
    let rows = rig.rows();
    check_none_missing(&rows, &produced, &[]);
    check_each_once(&rows);
    offsets_once(&rows, &[]).unwrap();
}
