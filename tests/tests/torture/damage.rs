//! Every file of a data directory cut short, taken away, or with a flipped bit, and
//! files that a crash left behind. Each time the log starts within its limit, names
//! exactly what is lost, goes on at once, and the next start finds it in order.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use forebay_core::units::Offset;

use super::ledger::{Ledger, Run};
use super::plan;
use super::rig::{self, START_MS_MAX};

/// Batches of the log that is damaged: several sealed generations and a live one.
const BATCHES: u64 = 60;
/// Batches after the damage.
const BATCHES_AFTER: u64 = 3;
/// Seeds from which on the child removes nothing: what is damaged is to be found.
const KEEPS: u64 = super::child::KEEPS_FROM_SEED;
/// Flipped bits per file, spread over it and thrown anew for each file.
const FLIPS_FEW: u64 = 4;
const FLIPS_FULL: u64 = 40;
/// A short run takes each so many of the cases.
const EVERY: usize = 2;

/// A log that was closed, and what is in it.
pub(crate) struct Template {
    pub(crate) home: tempfile::TempDir,
    pub(crate) ledger: Ledger,
    /// Relative to the data directory, sorted.
    pub(crate) files: Vec<PathBuf>,
}

impl Template {
    pub(crate) fn new(seed: u64) -> Self {
        let home = rig::home();
        let mut ledger = Ledger::default();
        let data = home.path().join("data");
        let child = rig::start(&data, home.path(), &ledger, seed, BATCHES, None);
        let (round, _) = child
            .end(&mut ledger)
            .unwrap_or_else(|error| panic!("{error}"));
        assert!(round.stopped, "{round:?}");
        // Meta may be lost: that costs duplicates, never data.
        ledger.tick = 0;
        let mut files = Vec::new();
        walk(&data, &data, &mut files);
        files.sort();
        Self {
            home,
            ledger,
            files,
        }
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.home.path().join("data")
    }
}

pub(crate) fn walk(root: &Path, dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(root, &path, out);
        } else {
            out.push(path.strip_prefix(root).unwrap().to_owned());
        }
    }
}

pub(crate) fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_dir(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// What is done to a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Harm {
    Keep(PathBuf, u64),
    Gone(PathBuf),
    Flip(PathBuf, u64, u8),
    /// A file that a crash could leave.
    Left(PathBuf, Vec<u8>),
    LeftDir(PathBuf),
}

impl std::fmt::Display for Harm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Keep(path, bytes) => write!(f, "{} cut to {bytes} bytes", path.display()),
            Self::Gone(path) => write!(f, "{} is missing", path.display()),
            Self::Flip(path, at, bit) => write!(f, "{} byte {at} bit {bit}", path.display()),
            Self::Left(path, bytes) => {
                write!(f, "{} of {} bytes left over", path.display(), bytes.len())
            }
            Self::LeftDir(path) => write!(f, "{}/ left over", path.display()),
        }
    }
}

impl Harm {
    pub(crate) fn apply(&self, data: &Path) {
        match self {
            Self::Keep(path, bytes) => {
                let file = fs::File::options().write(true).open(data.join(path));
                file.unwrap().set_len(*bytes).unwrap();
            }
            Self::Gone(path) => fs::remove_file(data.join(path)).unwrap(),
            Self::Flip(path, at, bit) => {
                let mut bytes = fs::read(data.join(path)).unwrap();
                bytes[usize::try_from(*at).unwrap()] ^= 1 << bit;
                fs::write(data.join(path), bytes).unwrap();
            }
            Self::Left(path, bytes) => {
                fs::create_dir_all(data.join(path).parent().unwrap()).unwrap();
                fs::write(data.join(path), bytes).unwrap();
            }
            Self::LeftDir(path) => fs::create_dir_all(data.join(path)).unwrap(),
        }
    }
}

impl Harm {
    /// Whether what is left of the file is still somewhere.
    fn is_kept(&self, data: &Path) -> bool {
        match self {
            Self::Keep(path, _) | Self::Flip(path, ..) => {
                data.join(path).exists() || data.join("quarantine").is_dir()
            }
            Self::Gone(_) | Self::Left(..) | Self::LeftDir(_) => true,
        }
    }
}

/// Every harm of one template. `flips` bits per file.
fn harms(template: &Template, flips: u64, is_full: bool) -> Vec<Harm> {
    let mut out = Vec::new();
    let mut newest_of = BTreeMap::new();
    for path in &template.files {
        newest_of.insert(class(path), path);
    }
    for path in &template.files {
        if !is_full && newest_of[&class(path)] != path {
            continue;
        }
        let len = fs::metadata(template.data().join(path)).unwrap().len();
        out.push(Harm::Gone(path.clone()));
        let keeps = [0, 1, len / 2, len.saturating_sub(1)];
        out.extend(keeps.map(|keep| Harm::Keep(path.clone(), keep)));
        if len == 0 {
            continue;
        }
        // The first and the last bytes, where heads and trailers stand, and some
        // between, at no round distance.
        let edges = [
            0,
            3,
            9,
            len - 1,
            len.saturating_sub(6),
            len.saturating_sub(17),
        ];
        let spread = (0..flips).map(|n| (n * 2 + 1) * len / (2 * flips) + n * 7);
        let mut places: Vec<u64> = edges
            .into_iter()
            .chain(spread)
            .map(|at| at.min(len - 1))
            .collect();
        places.sort_unstable();
        places.dedup();
        let flip = |at: u64| Harm::Flip(path.clone(), at, (at % 8) as u8);
        out.extend(places.into_iter().map(flip));
    }
    out.extend(leftovers(&template.files));
    out
}

/// Files that differ in their numbers only hold the same kind of bytes.
pub(crate) fn class(path: &Path) -> String {
    let path = path.to_string_lossy();
    path.chars()
        .filter(|c| !c.is_ascii_digit() && !c.is_ascii_uppercase())
        .collect()
}

/// What a crash can leave beside the files that are there.
fn leftovers(files: &[PathBuf]) -> Vec<Harm> {
    let mut out = Vec::new();
    for db in files.iter().filter(|path| path.ends_with("db")) {
        let dir = db.parent().unwrap();
        let snap = dir.join("snap.00000000000000FF.generating");
        out.push(Harm::Left(snap.clone(), Vec::new()));
        out.push(Harm::Left(snap, vec![7; 100]));
        out.push(Harm::Left(dir.join("snap.0000000000FFFFFF"), Vec::new()));
        let creating = format!("{}.creating", dir.display());
        out.push(Harm::LeftDir(creating.clone().into()));
        out.push(Harm::Left(PathBuf::from(creating).join("db"), vec![0; 10]));
    }
    for left in [
        "log/identity.new",
        "log/identity.tmp",
        "log/s-00000999-t00016.seg.tmp",
        "log/s-00000999-t00016.seg.new",
        "log/something",
        "something",
    ] {
        out.push(Harm::Left(left.into(), b"half a file".to_vec()));
    }
    out
}

/// Offsets of `of` that no run of `in_runs` holds, one by one.
fn missing(of: &[Run], in_runs: &[Run]) -> Vec<(Run, u64)> {
    let mut out = Vec::new();
    for run in of {
        for offset in run.first.0..run.end.0 {
            let covers = |r: &Run| r.at == run.at && (r.first..r.end).contains(&Offset(offset));
            if !in_runs.iter().any(covers) {
                out.push((*run, offset));
            }
        }
    }
    out
}

/// Figures of all cases.
#[derive(Debug, Default)]
struct Sum {
    cases: u64,
    with_loss: u64,
    records_lost: u64,
    slowest_ms: u64,
}

/// Starts on the harmed copy, twice.
///
/// # Errors
/// What went wrong.
fn case(template: &Template, harm: &Harm, sum: &mut Sum) -> Result<(), String> {
    let home = rig::home();
    let data = home.path().join("data");
    copy_dir(&template.data(), &data);
    harm.apply(&data);
    let mut ledger = template.ledger.clone();
    let before: Vec<Run> = ledger.runs().copied().collect();
    let child = rig::start(&data, home.path(), &ledger, KEEPS, BATCHES_AFTER, None);
    let (round, _) = child.end(&mut ledger).map_err(|error| error.to_string())?;
    if !round.stopped || round.acks != BATCHES_AFTER {
        return Err(format!("it did not go on: {round:?}"));
    }
    let ms = round.opened_ms.unwrap_or(u64::MAX);
    if ms > START_MS_MAX {
        return Err(format!("the start took {ms} ms"));
    }
    let after: Vec<Run> = ledger.runs().copied().collect();
    // That nothing else is missing was checked by the child.
    let lost = missing(&round.losses, &after);
    let named: u64 = round.losses.iter().map(|run| run.end.0 - run.first.0).sum();
    if lost.len() as u64 != named {
        return Err(format!(
            "more is called lost than is: {:?}; there are {after:?}",
            round.losses
        ));
    }
    if let Some((run, offset)) = missing(&round.losses, &before).first() {
        return Err(format!(
            "offset {offset} of {run:?} is called lost and never was"
        ));
    }
    if named > 0 && !harm.is_kept(&data) {
        return Err("something is lost, and nothing was kept for a salvage".to_owned());
    }
    let child = rig::start(&data, home.path(), &ledger, KEEPS + 1, 1, None);
    let (again, _) = child
        .end(&mut ledger)
        .map_err(|error| format!("the next start: {error}"))?;
    // What is met while reading is met again; nothing new is.
    let same = |loss: &&Run| {
        round
            .losses
            .iter()
            .any(|r| (r.at, r.first, r.end) == (loss.at, loss.first, loss.end))
    };
    if let Some(new) = again.losses.iter().find(|loss| !same(loss)) {
        return Err(format!("the next start sees another loss: {new:?}"));
    }
    sum.cases += 1;
    sum.with_loss += u64::from(named > 0);
    sum.records_lost += named;
    sum.slowest_ms = sum.slowest_ms.max(ms);
    Ok(())
}

#[test]
fn every_damage_costs_what_it_hit_and_no_more() {
    let seed = plan::seed();
    let template = Template::new(seed);
    let flips = plan::rounds(FLIPS_FEW, 100).min(FLIPS_FULL);
    let mut sum = Sum::default();
    let mut failed = Vec::new();
    let is_full = flips > FLIPS_FEW;
    let every = if is_full { 1 } else { EVERY };
    let harms = harms(&template, flips, is_full).into_iter();
    for harm in harms.skip((seed as usize) % every).step_by(every) {
        if let Err(error) = case(&template, &harm, &mut sum) {
            println!("{harm}: {error}");
            failed.push(format!("{harm}: {error}"));
        }
    }
    let Sum {
        cases,
        with_loss,
        records_lost,
        slowest_ms,
    } = sum;
    plan::report(
        "damage",
        format!(
            "{cases} damages, {with_loss} with a loss, {records_lost} records in all, each named; \
             slowest start {slowest_ms} ms"
        ),
    );
    let replay = plan::replay("damage", seed, flips);
    assert!(
        failed.is_empty(),
        "{} failed, first {}\n{replay}",
        failed.len(),
        failed[0]
    );
}
