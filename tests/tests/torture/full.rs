//! A disk that is full from some write on, and a full one at the start: nothing that
//! was acked is lost, nothing is acked meanwhile that is not on disk, and all goes on
//! by itself when there is space again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use forebay_tests::powercut::disk::Disk;
use forebay_tests::powercut::mount::Mounted;
use forebay_tests::wait;
use forebay_tests::world::dice::Dice;

use super::agent;
use super::device::Scripted;
use super::ledger::Ledger;
use super::plan;
use super::rig::{self, Failed};

const LIMIT: Duration = Duration::from_secs(60);
/// More batches than a round reaches.
const BATCHES: u64 = 100_000;
/// A child that writes so many batches on a full disk lives on what retention frees.
const BATCHES_FULL: u64 = 60;
/// A child has failed to go on so often, once a second, that it waits for space: where
/// the disk was full for the meta database only, no recovery comes to the fault point.
const TROUBLES_ENOUGH: u64 = 3;
/// Batches that must follow when there is space again.
const BATCHES_AFTER: u64 = 3;
/// Steps of the disk at which it is full, in every run of the tests.
const STEPS: [u64; 8] = [0, 1, 3, 8, 20, 45, 90, 200];
/// The steps of a long run lie below.
const STEPS_MAX: u64 = 400;

#[derive(Debug, Default)]
struct Sum {
    rounds: u64,
    refused: u64,
    troubled: u64,
    acks: u64,
}

/// Runs a child on a disk that is full `step` steps from now; the disk afterwards.
fn full_at(
    disk: Disk,
    step: u64,
    home: &Path,
    (ledger, seed): (&mut Ledger, u64),
    sum: &mut Sum,
) -> Result<Disk, String> {
    let mounted = Mounted::over(disk)?;
    mounted.disk(|disk| disk.full_at_step(disk.steps() + step));
    let mut child = rig::start(mounted.path(), home, ledger, seed, BATCHES, None);
    let enough = |round: &rig::Round| round.troubles > 0 || round.acks >= BATCHES_FULL;
    if !child.follow(ledger, enough) {
        return Err(format!("it neither fails nor goes on: {}", child.said()));
    }
    mounted.disk(Disk::has_space_again);
    let before = child.round.acks;
    if !child.follow(ledger, |round| round.acks >= before + BATCHES_AFTER) {
        return Err(format!("it does not go on by itself: {}", child.said()));
    }
    sum.troubled += u64::from(child.round.troubles > 0);
    child.kill();
    match child.end(ledger) {
        Ok((round, _)) => sum.acks += round.acks,
        // A start on a full disk says so, and is tried again by who asked for it.
        Err(Failed::Other(said)) if is_refusal(&said) => sum.refused += 1,
        Err(error) => return Err(error.to_string()),
    }
    // With space, the start finds all of it.
    let child = rig::start(mounted.path(), home, ledger, seed + 2, BATCHES_AFTER, None);
    let (round, _) = child
        .end(ledger)
        .map_err(|error| format!("the next start: {error}"))?;
    if round.acks != BATCHES_AFTER || !round.losses.is_empty() {
        return Err(format!("the next start: {round:?}"));
    }
    sum.rounds += 1;
    Ok(mounted.into_disk())
}

fn is_refusal(said: &str) -> bool {
    said.contains("start refused") && said.contains("No space left")
}

#[test]
fn a_disk_that_is_full_at_any_write_loses_nothing() {
    let seed = plan::seed();
    let mut dice = Dice::new(seed);
    let steps: Vec<u64> = match plan::rounds(0, 30) {
        0 => STEPS.to_vec(),
        rounds => (0..rounds).map(|_| dice.below(STEPS_MAX)).collect(),
    };
    let home = rig::home();
    let mut ledger = Ledger::default();
    let mut disk = Disk::new();
    let mut sum = Sum::default();
    for step in &steps {
        let child_seed = dice.below(1_000) * 6 + 1;
        let done = full_at(
            disk,
            *step,
            home.path(),
            (&mut ledger, child_seed),
            &mut sum,
        );
        disk = done.unwrap_or_else(|error| {
            let replay = plan::replay("full", seed, steps.len() as u64 * 100 / 30 + 1);
            panic!("full at step {step}: {error}\n{replay}")
        });
    }
    let Sum {
        rounds,
        refused,
        troubled,
        acks,
    } = sum;
    plan::report(
        "full",
        format!(
            "{rounds} times, {refused} starts refused, {troubled} writes failed and were made \
             again; {acks} batches acked, all there"
        ),
    );
    assert!(troubled > 0, "no write failed");
}

/// Killed while it makes good a write that failed.
#[test]
fn a_kill_in_a_recovery_loses_nothing() {
    let mut killed = 0;
    for step in STEPS {
        let home = rig::home();
        let mut ledger = Ledger::default();
        let mounted = Mounted::empty().unwrap_or_else(|error| panic!("{error}"));
        let first = rig::start(mounted.path(), home.path(), &ledger, 1, BATCHES_AFTER, None);
        first
            .end(&mut ledger)
            .unwrap_or_else(|error| panic!("{error}"));
        mounted.disk(|disk| disk.full_at_step(disk.steps() + step));
        let fault = Some("recover.closed:1");
        let mut child = rig::start(mounted.path(), home.path(), &ledger, 7, BATCHES, fault);
        let enough =
            |round: &rig::Round| round.acks >= BATCHES_FULL || round.troubles >= TROUBLES_ENOUGH;
        let followed = child.follow(&mut ledger, enough);
        assert!(
            followed,
            "full at step {step}: it neither ends nor goes on: {:?}\n{}",
            child.round,
            child.said()
        );
        killed += u64::from(child.was_killed());
        child.kill();
        match child.end(&mut ledger) {
            Err(Failed::Other(said)) if is_refusal(&said) => {}
            Ok(_) => {}
            Err(error) => panic!("full at step {step}: {error}"),
        }
        mounted.disk(Disk::has_space_again);
        let child = rig::start(
            mounted.path(),
            home.path(),
            &ledger,
            13,
            BATCHES_AFTER,
            None,
        );
        let (round, _) = child
            .end(&mut ledger)
            .unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(round.acks, BATCHES_AFTER, "full at step {step}");
        assert!(round.losses.is_empty(), "full at step {step}: {round:?}");
    }
    assert!(killed > 0, "no run came to the point");
}

/// A small disk of the kernel's own; unmounted when dropped.
struct SmallDisk {
    at: tempfile::TempDir,
}

impl SmallDisk {
    fn new(size: &str) -> Self {
        let at = tempfile::tempdir().unwrap();
        let options = format!("size={size}");
        let status = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "forebay-small"])
            .arg(at.path())
            .status();
        let mounted = status.is_ok_and(|status| status.success());
        assert!(
            mounted,
            "a tmpfs cannot be mounted here: this test needs root with CAP_SYS_ADMIN (in a \
             container: --cap-add SYS_ADMIN)"
        );
        Self { at }
    }

    fn filler(&self) -> PathBuf {
        self.at.path().join("somebody-elses")
    }

    /// Somebody else takes all that is left.
    fn fill(&self) {
        use std::io::Write as _;
        let mut file = fs::File::create(self.filler()).unwrap();
        for piece in [64 * 1024, 4096, 1] {
            while file.write_all(&vec![1; piece]).is_ok() {}
        }
    }

    fn free(&self) {
        fs::remove_file(self.filler()).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount")
            .arg("-l")
            .arg(self.at.path())
            .status();
    }
}

/// What is full is not acked, and what is acked stays.
const BLOCK: &str = "
[log]
ballast = \"1MiB\"

[[topic]]
name = \"readings\"
when_full = \"block\"
";

#[test]
fn the_agent_waits_on_a_full_disk_and_goes_on_by_itself() {
    let home = tempfile::tempdir().unwrap();
    let disk = SmallDisk::new("24m");
    let data = disk.at.path().join("data");
    let device = Scripted::start();
    let acks_more = |agent: &mut forebay_tests::process::Running, what: &str| {
        let before = device.seen().acked;
        wait::until(what, LIMIT, || {
            agent.must_run();
            let acked = device.seen().acked;
            (acked > before + 1_000).then_some(()).ok_or(acked)
        });
    };
    // Full at the start: it waits, and starts when there is space.
    disk.fill();
    let mut agent = agent::start(&data, home.path(), &device, BLOCK);
    wait::until("it says that the disk is full", LIMIT, || {
        agent.must_run();
        let said = agent.printed();
        said.contains("o space").then_some(()).ok_or(said)
    });
    assert_eq!(device.seen().acked, 0, "nothing is on disk yet");
    disk.free();
    acks_more(&mut agent, "the agent starts when there is space");
    // Full while it runs: acks end, and go on.
    for _ in 0..2 {
        disk.fill();
        let mut last = (u64::MAX, 0);
        wait::until("no more is acked", LIMIT, || {
            agent.must_run();
            let acked = device.seen().acked;
            last = if acked == last.0 {
                (acked, last.1 + 1)
            } else {
                (acked, 0)
            };
            (last.1 > 100).then_some(()).ok_or(acked)
        });
        disk.free();
        acks_more(&mut agent, "it goes on when there is space");
    }
    assert!(agent.end_by("TERM").success());
    let acked = agent::check_dir(&data, &device);
    plan::report(
        "full",
        format!("the agent: {acked} readings acked to their device, all there"),
    );
}
