//! The real agent on the disk whose power is cut: every reading that its device saw
//! acked is in the log afterwards, once and equal.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use forebay_core::log::block::Body;
use forebay_core::log::decode::decode;
use forebay_core::log::key::TopicPartition;
use forebay_core::log::topic::READINGS;
use forebay_core::record::Record;
use forebay_core::store::Store;
use forebay_core::units::Offset;
use forebay_node::store::{LogStore, StoreSettings};
use forebay_tests::powercut::cut::Kind;
use forebay_tests::powercut::disk::Disk;
use forebay_tests::powercut::mount::Mounted;
use forebay_tests::process::Running;
use forebay_tests::wait;
use forebay_tests::world::dice::Dice;

use super::damage::{Harm, class, copy_dir, walk};
use super::device::{Scripted, UID, value};
use super::plan;

const LIMIT: Duration = Duration::from_secs(60);
/// How long a start may take, to the first ack.
const START_LIMIT: Duration = Duration::from_secs(10);
const READ_BYTES: usize = 64 * 1024;
const ROUNDS: u64 = 6;
/// Generations that fill within a round.
const SMALL: &str = "[log]\ngeneration = \"256KiB\"\n";

fn config(data_dir: &Path, socket: &Path, device: &str) -> String {
    format!(
        r#"
[agent]
gateway = "gw-torture"
data_dir = "{}"

[[device_port]]
kind = "tcp"
address = "{device}"

[[window]]
name = "second"
kind = "tumbling"
size = "1s"
aggregates = ["count", "mean"]

[query]
socket = "{}"
"#,
        data_dir.display(),
        socket.display()
    )
}

/// Values in the log by boot and ordinal.
fn readings(data_dir: &Path) -> BTreeMap<(u32, u64), i64> {
    let opened = LogStore::open(data_dir, StoreSettings::default());
    let (store, opened) = opened.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(opened.losses, [], "a power cut is no damage");
    let mut out = BTreeMap::new();
    let heads = opened.heads.iter().filter(|(at, _)| at.topic == READINGS);
    for (at, head) in heads {
        let mut next = Offset(0);
        while next < *head {
            next = read_some(&store, *at, next, &mut out);
        }
    }
    out
}

fn read_some(
    store: &LogStore,
    at: TopicPartition,
    from: Offset,
    out: &mut BTreeMap<(u32, u64), i64>,
) -> Offset {
    let mut next = from;
    for stored in store.read(at, from, READ_BYTES).unwrap() {
        let block = decode(stored.key, &stored.bytes).unwrap();
        let end = block.end();
        if end <= next {
            continue;
        }
        assert_eq!(block.base, next, "{at:?}: a hole");
        next = end;
        let Body::Readings { series, records } = block.body else {
            panic!("rows among the readings");
        };
        for record in records {
            if let Record::Reading(reading) = record {
                let series = &series[usize::from(reading.series)];
                assert_eq!(series.uid, UID);
                let key = (series.boot.0, reading.ordinal.0);
                let twice = out.insert(key, reading.value);
                assert_eq!(twice, None, "ordinal {key:?} stands twice");
            }
        }
    }
    assert!(next > from, "{at:?}: nothing to read at {}", from.0);
    next
}

/// Puts a disk's files into a directory.
fn copy_out(disk: &Disk, to: &Path) {
    for (path, bytes) in disk.files() {
        let path = to.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

fn check(disk: &Disk, device: &Scripted) -> u64 {
    let copy = tempfile::tempdir().unwrap();
    copy_out(disk, copy.path());
    check_dir(&copy.path().join("data"), device)
}

/// Holds a log to what the device saw acked; how much that was.
pub(crate) fn check_dir(data_dir: &Path, device: &Scripted) -> u64 {
    let seen = device.seen();
    assert_eq!(seen.lost, 0, "the ring is large enough: {seen:?}");
    let readings = readings(data_dir);
    for ordinal in 0..seen.acked {
        let got = readings.get(&(seen.boot, ordinal));
        let want = i64::from(value(ordinal));
        assert_eq!(got, Some(&want), "ordinal {ordinal} of {seen:?}");
    }
    seen.acked
}

pub(crate) fn start(data_dir: &Path, home: &Path, device: &Scripted, more: &str) -> Running {
    let path = home.join("forebay.toml");
    let text = config(data_dir, &home.join("sock"), &device.addr.to_string());
    fs::write(&path, text + more).unwrap();
    Running::forebay("agent", &["run", "--config", path.to_str().unwrap()], home)
}

fn run(rounds: u64, seed: u64) -> u64 {
    let mut dice = Dice::new(seed);
    let home = tempfile::tempdir().unwrap();
    let device = Scripted::start();
    let mut disk = Disk::new();
    let mut acked = 0;
    for round in 0..=rounds {
        let mounted = Mounted::over(disk).unwrap_or_else(|error| panic!("{error}"));
        let since = Instant::now();
        let data = mounted.path().join("data");
        let mut agent = start(&data, home.path(), &device, SMALL);
        let before = device.seen().acked;
        let more = 1 + dice.below(8_000);
        wait::until("the agent acks", LIMIT, || {
            agent.must_run();
            let acked = device.seen().acked;
            (acked > before).then_some(()).ok_or(acked)
        });
        let took = since.elapsed();
        assert!(
            took < START_LIMIT,
            "seed {seed} round {round}: start took {took:?}"
        );
        wait::until("the agent acks more", LIMIT, || {
            agent.must_run();
            let acked = device.seen().acked;
            (acked > before + more).then_some(()).ok_or(acked)
        });
        if round == rounds {
            assert!(agent.end_by("TERM").success());
            return check(&mounted.into_disk(), &device);
        }
        let kind = Kind::ALL[(round % 3) as usize];
        mounted.disk(|disk| disk.cut_at_step(disk.steps() + dice.below(40)));
        assert!(mounted.wait_for_cut(LIMIT), "a running agent writes");
        agent.kill_9();
        wait::until("the device notices", LIMIT, || {
            let connected = device.seen().connected;
            (!connected).then_some(()).ok_or("connected")
        });
        disk = mounted.cut(kind, &mut dice);
        let now = check(&disk, &device);
        assert!(now > acked, "seed {seed} round {round}: {now} acked");
        acked = now;
    }
    acked
}

#[test]
fn what_the_device_saw_acked_survives_power_cuts() {
    let rounds = plan::rounds(ROUNDS, 20);
    let seed = plan::seed();
    let done = std::panic::catch_unwind(|| run(rounds, seed));
    let acked = done.unwrap_or_else(|_| panic!("{}", plan::replay("agent", seed, rounds * 5)));
    let text = format!("{rounds} power cuts; {acked} readings acked to their device, all there");
    plan::report("agent", text);
}

/// A short run takes each so many of the kinds.
const EVERY: usize = 6;
/// How long a stop may take.
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// What was damaged stops neither the start, nor the readings, nor the end.
#[test]
fn the_agent_starts_on_every_kind_of_damage_and_ends_when_asked() {
    let home = super::rig::home();
    let device = Scripted::start();
    let whole = home.path().join("whole");
    let mut agent = start(&whole, home.path(), &device, SMALL);
    wait::until("some generations are full", LIMIT, || {
        agent.must_run();
        let acked = device.seen().acked;
        (acked > 20_000).then_some(()).ok_or(acked)
    });
    agent.kill_9();
    let mut slowest = Duration::ZERO;
    let every = if plan::rounds(0, 100) == 0 { EVERY } else { 1 };
    for (kind, harm) in kinds(&whole).into_iter().step_by(every) {
        let data = home.path().join("harmed");
        copy_dir(&whole, &data);
        harm.apply(&data);
        let before = device.seen().acked;
        let since = Instant::now();
        let mut agent = start(&data, home.path(), &device, SMALL);
        wait::until(&format!("{kind}: the agent runs"), START_LIMIT, || {
            agent.must_run();
            let said = agent.printed();
            said.contains("is running").then_some(()).ok_or(said)
        });
        slowest = slowest.max(since.elapsed());
        wait::until(&format!("{kind}: the agent acks"), LIMIT, || {
            agent.must_run();
            let acked = device.seen().acked;
            (acked > before).then_some(()).ok_or(acked)
        });
        let since = Instant::now();
        assert!(agent.end_by("TERM").success(), "{kind}");
        let took = since.elapsed();
        assert!(took < STOP_LIMIT, "{kind}: the stop took {took:?}");
        fs::remove_dir_all(&data).unwrap();
    }
    plan::report(
        "agent",
        format!("started on each damage, at the latest after {slowest:?}"),
    );
}

/// One harm of each kind of file that is there.
fn kinds(data: &Path) -> Vec<(String, Harm)> {
    let mut files = Vec::new();
    walk(data, data, &mut files);
    files.sort();
    let mut out = BTreeMap::new();
    for path in files {
        let len = fs::metadata(data.join(&path)).unwrap().len();
        let kind = class(&path);
        for harm in [
            Harm::Gone(path.clone()),
            Harm::Keep(path.clone(), 0),
            Harm::Keep(path.clone(), len.saturating_sub(1)),
            Harm::Flip(path.clone(), len / 2, 3),
        ] {
            if len > 0 || !matches!(harm, Harm::Flip(..)) {
                let what = harm.to_string().replace(&path.display().to_string(), "");
                let place = what
                    .split(char::is_numeric)
                    .next()
                    .unwrap_or_default()
                    .to_owned();
                out.insert(format!("{kind}{place}"), harm);
            }
        }
    }
    out.into_iter().collect()
}
