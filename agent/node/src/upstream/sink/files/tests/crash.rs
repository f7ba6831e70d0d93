//! A crash before every step of every commit, roll and start: what was committed is there,
//! each once, and the sink goes on.

use std::collections::BTreeSet;

use super::faulty::{Fault, FaultyDisk};
use super::*;

/// What a crash leaves on the disk.
#[derive(Debug, Clone, Copy)]
enum After {
    /// All that was written: the process died.
    Kill,
    /// Of what was not synced, so many halves.
    PowerCut(usize),
}

const AFTER: [After; 3] = [After::Kill, After::PowerCut(0), After::PowerCut(1)];

/// All of the script in three batches, with a roll after the second.
fn batches() -> Vec<Vec<Message>> {
    let mut script = script();
    let last = script.split_off(4).concat();
    let second = script.split_off(2).concat();
    vec![script.concat(), second, last]
}

/// What each number of these batches comes to.
fn wanted() -> Vec<Vec<String>> {
    [0, 2, 4, 5].map(expected).to_vec()
}

/// A folder in memory where the system has one: thousands of starts sync what is above it.
fn memory_dir() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap())
}

fn start(config: &FilesConfig, disk: &FaultyDisk) -> Result<(FilesSink, Applier), SinkError> {
    let mut sink = opening::open(config, Box::new(disk.clone()), Instant::now())?;
    let applier = load(&mut sink);
    Ok((sink, applier))
}

/// Runs the script on a disk and rolls after every second commit; how many batches were
/// committed when it ended.
fn run(config: &FilesConfig, disk: &FaultyDisk) -> usize {
    let Ok((mut sink, mut applier)) = start(config, disk) else {
        return 0;
    };
    for (number, batch) in batches().iter().enumerate() {
        if commit(&mut sink, &mut applier, batch).is_err() {
            return number;
        }
        if number % 2 == 1 && sink.tend(later(), false).is_err() {
            return number + 1;
        }
    }
    batches().len()
}

/// Rows in files that others find by their names: part of what was committed, each once.
fn check_what_others_see(config: &FilesConfig, committed: &[String]) {
    let mut seen = Vec::new();
    let none = super::super::pending::Pending::default();
    let all = RowFilter::default();
    let view = super::super::merge::View::of(&config.folder, None, &none, &all).unwrap();
    view.rows(&all, &mut |row| {
        let mut line = Vec::new();
        row.push_line(&mut line);
        seen.push(String::from_utf8(line).unwrap());
        true
    })
    .unwrap();
    let once: BTreeSet<&String> = seen.iter().collect();
    assert_eq!(once.len(), seen.len(), "a row stands in two files");
    let committed: BTreeSet<&String> = committed.iter().collect();
    assert!(
        once.is_subset(&committed),
        "others see what was not committed"
    );
}

/// The sink after a crash: as after `done` batches, or one more that was on its way.
fn check_and_go_on(config: &FilesConfig, done: usize, wanted: &[Vec<String>], at: &str) {
    let read = FilesSink::open_existing(config).map(|mut sink| lines(&mut sink));
    // Syncs cost time and change nothing that is looked at here.
    let quick = || start(config, &FaultyDisk::new(None)).unwrap();
    let (mut sink, mut applier) = quick();
    let got = lines(&mut sink);
    let most = (done + 1).min(batches().len());
    let is = (done..=most).find(|batches| wanted[*batches] == got);
    let Some(is) = is else {
        panic!("{at}: {} rows after {done} batches", got.len());
    };
    if let Ok(read) = read {
        assert_eq!(read, got, "{at}: a reader sees the same");
    }
    check_what_others_see(config, &got);
    // What was not acked comes again, and all the rest.
    for batch in batches() {
        commit(&mut sink, &mut applier, &batch).unwrap();
    }
    sink.tend(later(), true).unwrap();
    let all = batches().len();
    assert_eq!(lines(&mut sink), wanted[all], "{at}: it goes on from {is}");
    check_what_others_see(config, &wanted[all]);
    drop(sink);
    assert_eq!(lines(&mut quick().0), wanted[all], "{at}: and once more");
}

fn crash_before_every_step(format: FilesFormat) {
    let wanted = wanted();
    let dir = memory_dir();
    let whole = FaultyDisk::new(None);
    assert_eq!(run(&config(dir.path(), format), &whole), batches().len());
    let steps = whole.steps();
    assert!(steps > 50, "{steps} steps");
    for step in 0..steps {
        // The half of what was not synced differs from all and nothing in few places.
        let halves = if step % 4 == 0 { 3 } else { 2 };
        for after in AFTER.into_iter().take(halves) {
            let at = format!("{format:?}, step {step} of {steps}, {after:?}");
            let dir = memory_dir();
            let config = config(dir.path(), format);
            let disk = FaultyDisk::new(Some(Fault::Dies(step)));
            let done = run(&config, &disk);
            assert!(disk.has_failed(), "{at}");
            match after {
                After::Kill => {}
                After::PowerCut(part) => disk.cut_power(disk.unsynced() * part / 2),
            }
            check_and_go_on(&config, done, &wanted, &at);
        }
    }
}

#[test]
fn a_crash_before_every_step_with_parquet() {
    crash_before_every_step(FilesFormat::Parquet);
}

#[test]
fn a_crash_before_every_step_with_ndjson() {
    crash_before_every_step(FilesFormat::Ndjson);
}

/// A start after a crash crashes too, before every step of it.
#[test]
fn a_crash_before_every_step_of_a_start() {
    let wanted = wanted();
    let format = FilesFormat::Parquet;
    let dir = memory_dir();
    let whole = FaultyDisk::new(None);
    run(&config(dir.path(), format), &whole);
    // Where the first roll has its manifest, most is to be done at a start.
    for first in (0..whole.steps()).step_by(19) {
        for second in 0.. {
            let at = format!("steps {first} and {second} of the start");
            let dir = memory_dir();
            let config = config(dir.path(), format);
            let disk = FaultyDisk::new(Some(Fault::Dies(first)));
            let done = run(&config, &disk);
            disk.cut_power(0);
            let disk = FaultyDisk::new(Some(Fault::Dies(second)));
            let _ = start(&config, &disk);
            let ended = !disk.has_failed();
            disk.cut_power(0);
            check_and_go_on(&config, done, &wanted, &at);
            if ended {
                break;
            }
        }
    }
}

/// One step fails for want of room, whichever: nothing of it counts, and it goes on.
#[test]
fn a_full_disk_at_every_step() {
    let wanted = wanted();
    for step in 0.. {
        let dir = memory_dir();
        let config = config(dir.path(), FilesFormat::Parquet);
        let disk = FaultyDisk::new(Some(Fault::Fails(step)));
        let mut opened = None;
        for (number, batch) in batches().iter().enumerate() {
            // As the receiver does: a sink that failed is opened anew, and what was not
            // acked comes again.
            loop {
                let (mut sink, mut applier) = match opened.take() {
                    Some(opened) => opened,
                    None => match start(&config, &disk) {
                        Ok(opened) => opened,
                        Err(_) => continue,
                    },
                };
                if commit(&mut sink, &mut applier, batch).is_err() {
                    continue;
                }
                if disk.has_failed() {
                    assert_eq!(lines(&mut sink), wanted[number + 1], "step {step}");
                }
                if number % 2 == 1 {
                    // It says why, and the rows are there all the same.
                    let _ = sink.tend(later(), false);
                }
                if !sink.is_broken {
                    opened = Some((sink, applier));
                }
                break;
            }
        }
        let (mut sink, _) = opened
            .take()
            .unwrap_or_else(|| start(&config, &disk).unwrap());
        let end = later() + Duration::from_secs(60);
        let first = sink.tend(end, true);
        assert_eq!(lines(&mut sink), wanted[batches().len()], "step {step}");
        drop(sink);
        if first.is_err() {
            let (mut sink, _) = start(&config, &disk).unwrap();
            sink.tend(end, true).unwrap();
            assert_eq!(lines(&mut sink), wanted[batches().len()], "step {step}");
        }
        check_what_others_see(&config, &wanted[batches().len()]);
        if !disk.has_failed() {
            break;
        }
    }
}

/// While nothing can be written into data files, what comes is taken up to a bound.
#[test]
fn rolls_that_fail_hold_up_commits_in_the_end() {
    let dir = memory_dir();
    let config = config(dir.path(), FilesFormat::Parquet);
    let mut sink = open(&config);
    let mut applier = load(&mut sink);
    // A file where the folder of a table should be.
    std::fs::write(dir.path().join("readings"), b"").unwrap();
    commit(&mut sink, &mut applier, &[readings("a", 0, (0, 9))]).unwrap();
    let text = sink.tend(later(), false).unwrap_err().to_string();
    assert!(text.contains("give data files their names"), "{text}");
    sink.pending.bytes = super::super::PENDING_BYTES_MAX * super::super::OVERDUE_MAX;
    let refused = commit(&mut sink, &mut applier, &[readings("a", 0, (10, 19))]);
    let text = refused.unwrap_err().to_string();
    assert!(text.contains("too much waits"), "{text}");
    drop(sink);
    std::fs::remove_file(dir.path().join("readings")).unwrap();
    let mut sink = open(&config);
    let mut applier = load(&mut sink);
    commit(&mut sink, &mut applier, &[readings("a", 0, (10, 19))]).unwrap();
    sink.tend(later(), true).unwrap();
    assert_eq!(lines(&mut sink).len(), 20);
}
