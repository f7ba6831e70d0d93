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

use super::device::{Scripted, UID, value};
use super::plan;

const LIMIT: Duration = Duration::from_secs(60);
/// How long a start may take, to the first ack.
const START_LIMIT: Duration = Duration::from_secs(10);
const READ_BYTES: usize = 64 * 1024;
const ROUNDS: u64 = 6;

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
    let seen = device.seen();
    let copy = tempfile::tempdir().unwrap();
    copy_out(disk, copy.path());
    let readings = readings(&copy.path().join("data"));
    for ordinal in 0..seen.acked {
        let got = readings.get(&(seen.boot, ordinal));
        let want = i64::from(value(ordinal));
        assert_eq!(got, Some(&want), "ordinal {ordinal} of {seen:?}");
    }
    seen.acked
}

fn start(mounted: &Mounted, home: &Path, device: &Scripted) -> Running {
    let path = home.join("forebay.toml");
    let data_dir = mounted.path().join("data");
    let text = config(&data_dir, &home.join("sock"), &device.addr.to_string());
    fs::write(&path, text).unwrap();
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
        let mut agent = start(&mounted, home.path(), &device);
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
