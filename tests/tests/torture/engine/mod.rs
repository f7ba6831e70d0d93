//! kill -9 in the middle of ingest, at random moments and at the fault points of the
//! store. After each kill the derived topics are byte-equal to what a fresh engine
//! makes of the readings that stand in the log: as far as they go at once, and whole
//! when an agent was started on a copy and has computed its windows; `forebay verify`
//! says so as well. The killed directory itself sees no clean stop between its kills.
//!
//! `cargo xtask torture engine` runs these with more rounds and other seeds.

mod child;
mod feed;
mod process;
mod recompute;

use std::fmt;
use std::path::Path;
use std::time::Duration;

use forebay_node::config::Config;
use forebay_node::store::fault::POINTS;
use forebay_tests::world::dice::Dice;

use self::process::{Job, Running, Said};
use self::recompute::{Found, Reach};
use super::damage::copy_dir;
use super::{plan, rig};

/// Kills on one directory before a new one is taken.
const ROUNDS_PER_DIR: u64 = 20;
/// In every run of the tests: one of each partition count.
const ROUNDS: u64 = 12;
const ROUNDS_PER_DIR_FEW: u64 = 4;
/// More readings than a round reaches.
const READINGS: u64 = 1_000_000;
/// Longest time between a line of the child and the kill.
const DELAY_US_MAX: u64 = 30_000;
/// Batches after which a child is killed that its fault point has not.
const FAULT_BATCHES: u64 = 80;
const BATCHES: u64 = 40;

/// What some rounds came to.
#[derive(Debug, Default)]
struct Sum {
    kills: u64,
    in_opening: u64,
    at_points: u64,
    behind: u64,
    readings: u64,
    clocks: u64,
    rows: u64,
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kills,
            in_opening,
            at_points,
            behind,
            readings,
            clocks,
            rows,
        } = self;
        write!(
            f,
            "{kills} kills, {in_opening} of them in the opening, {at_points} at fault points, \
             {behind} with windows to compute; {readings} readings and {clocks} times gave {rows} \
             rows, all equal"
        )
    }
}

/// When a child is killed.
#[derive(Debug, Clone)]
enum Moment {
    Opening,
    Started,
    Batches(u64),
    Point(String),
}

impl Moment {
    fn throw(dice: &mut Dice) -> Self {
        match dice.below(6) {
            0 => Self::Opening,
            1 => Self::Started,
            2 | 3 => Self::Batches(1 + dice.below(BATCHES)),
            _ => {
                let point = POINTS[dice.below(POINTS.len() as u64) as usize];
                // Most are passed once, some with every batch.
                let pass = [1, 1 + dice.below(3), 1 + dice.below(60)][dice.below(3) as usize];
                Self::Point(format!("{point}:{pass}"))
            }
        }
    }

    fn has_come(&self, said: &Said) -> bool {
        match self {
            Self::Opening => said.opening,
            Self::Started => said.started,
            Self::Batches(count) => said.batches >= *count,
            Self::Point(_) => said.batches >= FAULT_BATCHES,
        }
    }

    fn fault(&self) -> Option<String> {
        match self {
            Self::Point(fault) => Some(fault.clone()),
            Self::Opening | Self::Started | Self::Batches(_) => None,
        }
    }
}

/// A directory that is killed again and again.
struct Site {
    home: tempfile::TempDir,
    seed: u64,
    config: Config,
}

impl Site {
    fn new(seed: u64) -> Self {
        let home = rig::home();
        let data = home.path().join("data");
        let text = feed::config(seed, &data, &home.path().join("sock"));
        let file = home.path().join("forebay.toml");
        std::fs::write(&file, &text).unwrap();
        let config = Config::load(&file).unwrap_or_else(|error| panic!("{error}"));
        let copy = feed::config(seed, &home.path().join("copy"), &home.path().join("sock2"));
        std::fs::write(home.path().join("copy.toml"), copy).unwrap();
        Self { home, seed, config }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.home.path().join(name)
    }

    /// A child that takes readings from the n-th on, killed at that moment.
    fn kill_at(&self, moment: &Moment, from: u64, dice: &mut Dice) -> Result<(Said, bool), String> {
        let config = self.path("forebay.toml");
        let mut child = Running::start(&Job {
            config: &config,
            seed: self.seed,
            from,
            end: from + READINGS,
            fault: moment.fault(),
        });
        child.follow(|said| moment.has_come(said))?;
        std::thread::park_timeout(Duration::from_micros(dice.below(DELAY_US_MAX)));
        child.kill();
        child.end()
    }

    /// Starts an agent on a copy and lets it compute its windows.
    fn settled(&self) -> Result<Found, String> {
        let copy = self.path("copy");
        copy_dir(&self.path("data"), &copy);
        let config = self.path("copy.toml");
        let child = Running::start(&Job {
            config: &config,
            seed: self.seed,
            from: 0,
            end: 0,
            fault: None,
        });
        let (said, by_itself) = child.end()?;
        if !by_itself || !said.verified {
            return Err(format!("an agent on a copy was not verified: {said:?}"));
        }
        let found = recompute::check(&copy, &self.config, Reach::All)?;
        std::fs::remove_dir_all(&copy).unwrap();
        Ok(found)
    }
}

/// Whether there is a log: an early kill leaves none.
fn has_log(data: &Path) -> bool {
    data.join("log").is_dir()
}

fn one_dir(seed: u64, rounds: u64, sum: &mut Sum) -> Result<(), String> {
    let mut dice = Dice::new(seed);
    let site = Site::new(seed);
    let (mut from, mut last) = (0, Found::default());
    for round in 0..rounds {
        let moment = Moment::throw(&mut dice);
        let at = |error: String| format!("round {round}, killed at {moment:?}: {error}");
        let (said, by_itself) = site.kill_at(&moment, from, &mut dice).map_err(at)?;
        if by_itself {
            return Err(at("it ended by itself".into()));
        }
        from = said.took.unwrap_or(from);
        sum.kills += 1;
        sum.in_opening += u64::from(!said.started);
        sum.at_points += u64::from(moment.fault().is_some() && said.batches < FAULT_BATCHES);
        if !has_log(&site.path("data")) {
            continue;
        }
        let found = recompute::check(&site.path("data"), &site.config, Reach::Prefix);
        let found = found.map_err(|error| at(format!("as it was left: {error}")))?;
        sum.behind += u64::from(found.missing > 0);
        let settled = site.settled();
        last = settled.map_err(|error| at(format!("when it was computed: {error}")))?;
        if last.readings < from {
            return Err(at(format!("{from} readings were durable, {last:?}")));
        }
    }
    sum.readings += last.readings;
    sum.clocks += last.clocks;
    sum.rows += last.rows;
    Ok(())
}

#[test]
fn derived_topics_are_those_of_an_undisturbed_run() {
    let mut left = plan::rounds(ROUNDS, 100);
    let per_dir = match plan::rounds(0, 100) {
        0 => ROUNDS_PER_DIR_FEW,
        _ => ROUNDS_PER_DIR,
    };
    let mut seed = plan::seed();
    let mut sum = Sum::default();
    while left > 0 {
        let now = left.min(per_dir);
        if let Err(error) = one_dir(seed, now, &mut sum) {
            panic!("{error}\n{}", plan::replay_engine(seed, now));
        }
        left -= now;
        seed += 1;
    }
    plan::report("engine", &sum);
    assert!(sum.rows > 0, "{sum}");
}
