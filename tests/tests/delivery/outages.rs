//! Faults of delivery that others have had, each by its label in `tests/FAULTS.md`, with
//! the real binaries and a broker that a test holds in its hand.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use forebay_tests::judge::{each_once, offsets_once};
use forebay_tests::scripted::{Act, Broker, Disk, Faults, Seen};
use forebay_tests::wait;

use serde_json::Value;

use super::rig::{LIMIT, Plan, Rig};

/// The figure: from CONNACK to the first message of a backlog.
const FIRST_DATA_MAX: Duration = Duration::from_secs(1);

fn good() -> Faults {
    Faults::default()
}

/// Good, and what comes is kept.
fn watched() -> Faults {
    Faults {
        watch: true,
        ..good()
    }
}

fn down() -> Faults {
    Faults {
        down: true,
        ..watched()
    }
}

/// All that was produced is upstream once.
#[track_caller]
fn check(rig: &mut Rig) {
    rig.settle();
    let heard = rig.heard();
    rig.stop();
    assert_eq!(rig.broker.facts().violations, [""; 0]);
    let rows = rig.export();
    each_once(&heard, &rows).unwrap();
    offsets_once(&rows, &[]).unwrap();
}

/// With many small messages, and time for acks that are held.
fn patient() -> Plan {
    Plan {
        partitions: 4,
        forward: "ack_timeout = \"20s\"\nbackoff_max = \"200ms\"\n".to_owned(),
        ..Plan::default()
    }
}

fn data(seen: Vec<Seen>) -> Vec<Seen> {
    seen.into_iter().filter(Seen::is_data).collect()
}

/// Offsets of a message: its stream and partition, the first and the last.
type Range = (String, u64, u64, u64);

fn range(seen: &Seen) -> Range {
    let message: Value = serde_json::from_slice(&seen.payload).unwrap();
    let number = |key: &str| message[key].as_u64().unwrap();
    let stream = message["stream"].as_str().unwrap().to_owned();
    let (first, last) = (number("first_offset"), number("last_offset"));
    (stream, number("partition"), first, last)
}

/// Blocks may come again merged: each offset of `before` is in one of `after`.
fn all_again(before: &[Seen], after: &[Seen]) -> Result<(), String> {
    let after: Vec<Range> = after.iter().map(range).collect();
    let is_in = |stream: &str, partition: u64, offset: u64| {
        let holds = |one: &Range| {
            one.0 == stream && one.1 == partition && (one.2..=one.3).contains(&offset)
        };
        after.iter().any(holds)
    };
    for (stream, partition, first, last) in before.iter().map(range) {
        if let Some(away) = (first..=last).find(|at| !is_in(&stream, partition, *at)) {
            return Err(format!(
                "{stream} {partition} {away} of {:?} not in {after:?}",
                before.iter().map(range).collect::<Vec<_>>()
            ));
        }
    }
    Ok(())
}

/// The gateway holds so many readings that the broker has not acked.
#[track_caller]
fn backlog(rig: &Rig, readings: u64) {
    wait::until("a backlog grows", LIMIT, || {
        let forward = rig.agent_says()?["forward"].take();
        let there = forward["backlog_readings"].as_u64() >= Some(readings);
        there.then_some(()).ok_or_else(|| forward.to_string())
    });
}

/// Messages of data that came, until there are so many.
#[track_caller]
fn watch(rig: &Rig, what: &str, enough: usize) -> Vec<Seen> {
    let mut all = Vec::new();
    wait::until(what, LIMIT, || {
        all.extend(data(rig.broker.take_seen()));
        (all.len() >= enough).then_some(()).ok_or(all.len())
    });
    all
}

#[test]
fn a20_a37_a_backlog_moves_within_a_second_of_the_connack_without_new_data() {
    let mut rig = Rig::start(&Plan::default());
    rig.connected();
    rig.broker.set(down());
    rig.broker.act(Act::Cut);
    rig.goes_on(300);
    rig.sampling_stops();
    backlog(&rig, 300);
    drop(rig.broker.take_seen());
    rig.broker.set(watched());
    let first = watch(&rig, "the backlog moves", 1);
    assert!(first[0].after < FIRST_DATA_MAX, "{:?}", first[0].after);
    check(&mut rig);
}

/// Each setting of how things are sent that the reference names, beside the defaults.
#[test]
fn a23_an_outage_costs_nothing_under_each_setting() {
    for (forward, upstream) in [
        ("format = \"compact\"\norder = \"live_first\"\n", ""),
        ("format = \"json\"\ncompress = \"zstd\"\nwindow = 4\n", ""),
        ("protocol = \"3.1.1\"\n", "protocol = \"3.1.1\"\n"),
        ("rate = 2000\nmax_message = \"4KiB\"\n", "workers = 2\n"),
    ] {
        let mut plan = Plan::default();
        plan.forward.push_str(forward);
        plan.upstream.push_str(upstream);
        let mut rig = Rig::start(&plan);
        rig.connected();
        rig.broker.set(down());
        rig.broker.act(Act::Cut);
        rig.goes_on(300);
        rig.broker.set(good());
        check(&mut rig);
    }
}

#[test]
fn a26_a_reconnect_sends_what_was_not_acked_once() {
    let mut rig = Rig::start(&patient());
    rig.connected();
    // What a receiver has confirmed need not come again.
    rig.receiver_dies();
    rig.broker.set(Faults {
        hold_acks: true,
        ..watched()
    });
    let before = watch(&rig, "messages without acks", 8);
    rig.sampling_stops();
    rig.broker.set(watched());
    rig.broker.act(Act::Cut);
    let mut after = Vec::new();
    wait::until("they come again", LIMIT, || {
        after.extend(data(rig.broker.take_seen()));
        all_again(&before, &after)
    });
    rig.receiver_starts();
    check(&mut rig);
    after.extend(data(rig.broker.take_seen()));
    let mut once = BTreeSet::new();
    for seen in &after {
        let (stream, partition, first, last) = range(seen);
        for offset in first..=last {
            let is_new = once.insert((seen.link, stream.clone(), partition, offset));
            assert!(
                is_new,
                "{stream} {partition} {offset}: twice over one connection"
            );
        }
    }
}

#[test]
fn a32_a_full_window_survives_kill_9() {
    let mut plan = patient();
    plan.forward += "window = 16\n";
    let mut rig = Rig::start(&plan);
    rig.connected();
    rig.receiver_dies();
    rig.broker.set(Faults {
        hold_acks: true,
        ..watched()
    });
    let before = watch(&rig, "a full window", 16);
    rig.agent_dies();
    rig.broker.set(watched());
    rig.agent_starts();
    let mut after = Vec::new();
    wait::until("all of it comes again", LIMIT, || {
        after.extend(data(rig.broker.take_seen()));
        all_again(&before, &after)
    });
    rig.receiver_starts();
    check(&mut rig);
}

#[test]
fn a34_a_destination_that_is_away_holds_up_no_other_and_repeats_nothing_there() {
    let second = Broker::start(2);
    second.set(watched());
    let plan = Plan {
        sections: format!(
            "[[forward]]\nname = \"second\"\nbroker = \"127.0.0.1:{}\"\nbackoff_max = \"200ms\"\n",
            second.port()
        ),
        ..Plan::default()
    };
    let mut rig = Rig::start(&plan);
    rig.connected();
    rig.broker.set(down());
    rig.broker.act(Act::Cut);
    rig.goes_on(300);
    let mut seen = Vec::new();
    wait::until("the other goes on", LIMIT, || {
        seen.extend(data(second.take_seen()));
        (seen.len() > 10).then_some(()).ok_or(seen.len())
    });
    rig.broker.set(watched());
    check(&mut rig);
    seen.extend(data(second.take_seen()));
    let payloads: BTreeSet<&[u8]> = seen.iter().map(|seen| &seen.payload[..]).collect();
    assert_eq!(payloads.len(), seen.len(), "each once to the second");
}

#[test]
fn a38_live_first_sends_what_is_new_before_the_backlog_and_flags_what_waited() {
    let mut plan = Plan::default();
    plan.forward += "order = \"live_first\"\nwindow = 4\nrate = 400\n";
    let mut rig = Rig::start(&plan);
    rig.connected();
    rig.broker.set(down());
    rig.broker.act(Act::Cut);
    rig.goes_on(2_000);
    drop(rig.broker.take_seen());
    rig.broker.set(watched());
    let mut seen = Vec::new();
    wait::until("new ones come before the last that waited", LIMIT, || {
        seen.extend(data(rig.broker.take_seen()));
        let replayed = |seen: &Seen| seen.says("replayed", "true");
        let fresh = seen.iter().position(|seen| !replayed(seen));
        let last = seen.iter().rposition(replayed);
        let between = fresh.is_some() && fresh < last;
        between
            .then_some(())
            .ok_or_else(|| format!("{fresh:?}, {last:?}: {:?}", rig.agent_says()))
    });
    check(&mut rig);
}

#[test]
fn a43_a_broker_that_reads_nothing_stops_neither_devices_nor_the_log() {
    let mut rig = Rig::start(&Plan {
        // Full after a second or two: a reading lost would show.
        ring: 256,
        ..Plan::default()
    });
    rig.connected();
    rig.broker.set(Faults {
        deaf: true,
        ..good()
    });
    let before = rig.acked();
    rig.goes_on(3_000);
    let acked = rig.acked() - before;
    assert!(acked > 2_000, "{acked} of 3000 readings were taken");
    rig.broker.set(good());
    check(&mut rig);
    assert_eq!(rig.lost(), 0, "no device had to drop a reading");
}

#[test]
fn b17_acks_that_stop_for_long_and_then_come_stall_nothing() {
    let mut rig = Rig::start(&Plan::default());
    rig.connected();
    for round in 0..3 {
        let connects = rig.broker.facts().connects;
        rig.broker.set(Faults {
            hold_acks: true,
            ..good()
        });
        wait::until("the connection is given up", LIMIT, || {
            let now = rig.broker.facts().connects;
            (now > connects).then_some(()).ok_or(now)
        });
        rig.broker.act(if round == 1 {
            Act::ReleaseReversed
        } else {
            Act::Release
        });
        rig.broker.set(good());
        rig.goes_on(200);
    }
    check(&mut rig);
}

#[test]
fn a_broker_that_acks_and_forgets_costs_nothing() {
    let mut rig = Rig::start(&Plan::default());
    rig.connected();
    rig.broker.set(Faults {
        drop: 1_000,
        ..good()
    });
    rig.goes_on(1_000);
    rig.broker.set(good());
    rig.goes_on(100);
    check(&mut rig);
    assert!(rig.broker.facts().dropped > 5);
}

#[test]
fn a_broker_that_starts_with_an_older_disk_costs_nothing() {
    for disk in [Disk::Old, Disk::Wiped] {
        let mut rig = Rig::start(&Plan::default());
        rig.connected();
        rig.broker.act(Act::Save);
        rig.receiver_dies();
        rig.goes_on(300);
        rig.broker.act(Act::Restart(disk));
        rig.receiver_starts();
        rig.goes_on(100);
        check(&mut rig);
    }
}

/// Kilobytes of memory that a process has, and has had at the most.
fn memory_kb(pid: u32) -> (u64, u64) {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let of = |key: &str| {
        let line = text.lines().find(|line| line.starts_with(key)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    (of("VmRSS:"), of("VmHWM:"))
}

/// What an outage may cost in memory: reads of the log, never its backlog.
const OUTAGE_KB_MAX: u64 = 48 * 1024;
const QUOTA_BYTES: u64 = 4_000_000;

#[test]
fn b19_an_outage_costs_neither_memory_nor_more_disk_than_the_quota() {
    let mut rig = Rig::start(&Plan {
        hz: 200.0,
        sections: format!(
            "[[topic]]\nname = \"readings\"\nquota = \"{QUOTA_BYTES}B\"\n\
             [[topic]]\nname = \"second\"\nquota = \"{QUOTA_BYTES}B\"\n"
        ),
        log: "generation = \"256KiB\"\n".to_owned(),
        ..Plan::default()
    });
    rig.connected();
    let pid = rig.agent.as_ref().unwrap().id();
    let (before, _) = memory_kb(pid);
    rig.broker.set(down());
    rig.broker.act(Act::Cut);
    rig.goes_on(40_000);
    let (_, most) = memory_kb(pid);
    assert!(
        most - before < OUTAGE_KB_MAX,
        "{before} kB, then up to {most} kB"
    );
    let bytes = rig.log_bytes();
    assert!(bytes < 3 * QUOTA_BYTES, "{bytes} bytes");
    rig.broker.set(good());
    check(&mut rig);
}
