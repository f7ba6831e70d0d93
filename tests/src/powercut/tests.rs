//! The model itself, without FUSE: what must survive does under every cut, what
//! need not does not under some.

use std::ffi::OsStr;
use std::path::PathBuf;

use super::cut::Kind;
use super::disk::{Disk, Ino, ROOT, Refusal};
use crate::world::dice::Dice;

const SEEDS: u64 = 40;

fn name(text: &str) -> &OsStr {
    OsStr::new(text)
}

/// A file with synced bytes under a synced name.
fn synced(disk: &mut Disk, path: &str, bytes: &[u8]) -> Ino {
    let ino = disk.create(ROOT, name(path), false).unwrap();
    disk.write(ino, 0, bytes).unwrap();
    disk.sync_file(ino).unwrap();
    disk.sync_dir(ROOT).unwrap();
    ino
}

/// What each cut of `disk` leaves under `path`.
fn outcomes(disk: &Disk, path: &str) -> Vec<(Kind, Option<Vec<u8>>)> {
    let mut out = Vec::new();
    for kind in Kind::ALL {
        for seed in 0..SEEDS {
            let left = disk.after_cut(kind, &mut Dice::new(seed));
            let left = left.files().remove(&PathBuf::from(path));
            out.push((kind, left));
        }
    }
    out
}

fn seen(outcomes: &[(Kind, Option<Vec<u8>>)], want: Option<&[u8]>) -> bool {
    outcomes.iter().any(|(_, left)| left.as_deref() == want)
}

#[test]
fn what_was_synced_survives_every_cut() {
    let mut disk = Disk::new();
    let ino = synced(&mut disk, "a", &[7; 5000]);
    // Later changes elsewhere do not matter.
    let other = disk.create(ROOT, name("b"), false).unwrap();
    disk.write(other, 100, &[1; 3000]).unwrap();
    for (kind, left) in outcomes(&disk, "a") {
        assert_eq!(left.as_deref(), Some(&[7; 5000][..]), "{kind:?}");
    }
    // Nor do unsynced ones in the same file outside of what was synced.
    disk.write(ino, 5000, &[9; 3000]).unwrap();
    for (kind, left) in outcomes(&disk, "a") {
        let left = left.unwrap();
        assert_eq!(left[..5000], [7; 5000], "{kind:?}");
    }
}

#[test]
fn what_was_not_synced_may_be_there_gone_or_in_part() {
    let mut disk = Disk::new();
    let ino = synced(&mut disk, "a", &[1; 4096]);
    disk.write(ino, 0, &[2; 4096]).unwrap();
    let outcomes = outcomes(&disk, "a");
    assert!(seen(&outcomes, Some(&[1; 4096])), "gone");
    assert!(seen(&outcomes, Some(&[2; 4096])), "there");
    let parts = outcomes.iter().filter_map(|(kind, left)| {
        let left = left.as_ref().unwrap();
        (left.contains(&1) && left.contains(&2)).then_some((*kind, left))
    });
    let parts: Vec<_> = parts.collect();
    for kind in [Kind::Part, Kind::Torn] {
        assert!(parts.iter().any(|(k, _)| *k == kind), "{kind:?}");
    }
    // Torn leaves a beginning; a part has holes.
    for (kind, left) in parts {
        let first_old = left.iter().position(|byte| *byte == 1).unwrap();
        let is_beginning = left[first_old..].iter().all(|byte| *byte == 1);
        assert!(is_beginning || kind == Kind::Part, "{kind:?}");
        if kind == Kind::Part {
            assert!(
                left.chunks(512)
                    .all(|sector| sector.iter().all(|b| *b == sector[0]))
            );
        }
    }
}

#[test]
fn sectors_of_one_file_survive_out_of_order() {
    let mut disk = Disk::new();
    let ino = synced(&mut disk, "a", &[0; 1024]);
    disk.write(ino, 0, &[1; 512]).unwrap();
    disk.write(ino, 512, &[2; 512]).unwrap();
    let later_only = [[0; 512], [2; 512]].concat();
    let outcomes = outcomes(&disk, "a");
    assert!(seen(&outcomes, Some(&later_only)));
    let torn = outcomes.iter().filter(|(kind, _)| *kind == Kind::Torn);
    for (_, left) in torn {
        assert_ne!(left.as_deref(), Some(&later_only[..]), "torn keeps order");
    }
}

#[test]
fn a_size_is_durable_with_its_file() {
    let mut disk = Disk::new();
    let ino = synced(&mut disk, "a", &[1; 2000]);
    disk.resize(ino, 100).unwrap();
    let unsynced = outcomes(&disk, "a");
    assert!(seen(&unsynced, Some(&[1; 2000])));
    assert!(seen(&unsynced, Some(&[1; 100])));
    disk.resize(ino, 300).unwrap();
    disk.sync_file(ino).unwrap();
    let want = [&[1; 100][..], &[0; 200]].concat();
    for (kind, left) in outcomes(&disk, "a") {
        assert_eq!(left.as_deref(), Some(&want[..]), "{kind:?}");
    }
}

#[test]
fn a_new_name_is_durable_with_its_directory() {
    let mut disk = Disk::new();
    let ino = disk.create(ROOT, name("a"), false).unwrap();
    disk.write(ino, 0, b"x").unwrap();
    disk.sync_file(ino).unwrap();
    assert!(
        seen(&outcomes(&disk, "a"), None),
        "fsync of the file is not enough"
    );
    disk.sync_dir(ROOT).unwrap();
    for (kind, left) in outcomes(&disk, "a") {
        assert_eq!(left.as_deref(), Some(&b"x"[..]), "{kind:?}");
    }
    disk.remove(ROOT, name("a")).unwrap();
    assert!(seen(&outcomes(&disk, "a"), Some(b"x")), "it may come back");
    disk.sync_dir(ROOT).unwrap();
    assert!(!seen(&outcomes(&disk, "a"), Some(b"x")), "it is gone");
}

#[test]
fn a_rename_leaves_the_old_file_or_the_new_one() {
    let mut disk = Disk::new();
    synced(&mut disk, "a", b"old");
    let new = disk.create(ROOT, name("a.new"), false).unwrap();
    disk.write(new, 0, b"new").unwrap();
    disk.sync_file(new).unwrap();
    disk.rename((ROOT, name("a.new")), (ROOT, name("a")))
        .unwrap();
    let before = outcomes(&disk, "a");
    assert!(seen(&before, Some(b"old")) && seen(&before, Some(b"new")));
    assert!(!seen(&before, None), "one of them is always there");
    disk.sync_dir(ROOT).unwrap();
    for (kind, left) in outcomes(&disk, "a") {
        assert_eq!(left.as_deref(), Some(&b"new"[..]), "{kind:?}");
    }
}

#[test]
fn a_rename_without_a_sync_of_the_file_may_leave_it_empty() {
    let mut disk = Disk::new();
    synced(&mut disk, "a", b"old");
    let new = disk.create(ROOT, name("a.new"), false).unwrap();
    disk.write(new, 0, b"new").unwrap();
    disk.rename((ROOT, name("a.new")), (ROOT, name("a")))
        .unwrap();
    disk.sync_dir(ROOT).unwrap();
    assert!(seen(&outcomes(&disk, "a"), Some(b"")));
}

#[test]
fn a_directory_without_a_durable_name_takes_all_along() {
    let mut disk = Disk::new();
    let dir = disk.create(ROOT, name("d"), true).unwrap();
    let file = disk.create(dir, name("f"), false).unwrap();
    disk.write(file, 0, b"x").unwrap();
    disk.sync_file(file).unwrap();
    disk.sync_dir(dir).unwrap();
    assert!(seen(&outcomes(&disk, "d/f"), None));
    disk.sync_dir(ROOT).unwrap();
    assert!(!seen(&outcomes(&disk, "d/f"), None));
}

#[test]
fn a_move_between_directories_is_one_change() {
    let mut disk = Disk::new();
    let to = disk.create(ROOT, name("to"), true).unwrap();
    synced(&mut disk, "a", b"x");
    disk.rename((ROOT, name("a")), (to, name("a"))).unwrap();
    for sync in [None, Some(ROOT), Some(to)] {
        let mut disk = disk.clone();
        if let Some(dir) = sync {
            disk.sync_dir(dir).unwrap();
        }
        for kind in Kind::ALL {
            for seed in 0..SEEDS {
                let left = disk.after_cut(kind, &mut Dice::new(seed)).files();
                assert_eq!(left.len(), 1, "{kind:?} {seed}: {left:?}");
                let is_new = left.contains_key(&PathBuf::from("to/a"));
                assert!(is_new || sync.is_none(), "{kind:?} {seed}");
            }
        }
    }
}

#[test]
fn an_open_file_without_a_name_can_still_be_used() {
    let mut disk = Disk::new();
    let ino = synced(&mut disk, "a", b"x");
    disk.opened(ino);
    disk.remove(ROOT, name("a")).unwrap();
    disk.sync_dir(ROOT).unwrap();
    assert_eq!(disk.read(ino, 0, 10), Ok(&b"x"[..]));
    disk.closed(ino);
    disk.sync_dir(ROOT).unwrap();
    assert_eq!(disk.read(ino, 0, 10), Err(Refusal::NoEntry));
}

#[test]
fn the_power_goes_off_at_its_step_and_all_is_refused() {
    let mut disk = Disk::new();
    let ino = synced(&mut disk, "a", b"x");
    disk.cut_at_step(disk.steps() + 1);
    disk.write(ino, 0, b"y").unwrap();
    assert_eq!(disk.write(ino, 0, b"z"), Err(Refusal::Off));
    assert_eq!(disk.read(ino, 0, 1), Err(Refusal::Off));
    assert_eq!(disk.sync_file(ino), Err(Refusal::Off));
    let mut left = disk.after_cut(Kind::DropAll, &mut Dice::new(0));
    assert_eq!(left.read(ino, 0, 1), Ok(&b"x"[..]));
    left.write(ino, 0, b"w").unwrap();
}

#[test]
fn a_full_disk_refuses_what_grows_and_has_space_after_a_removal() {
    let mut disk = Disk::new();
    let a = synced(&mut disk, "a", &[1; 10_000]);
    let b = synced(&mut disk, "b", &[1; 5_000]);
    disk.full_at_step(disk.steps());
    // Within the block that the file has already.
    disk.write(a, 10_000, &[2; 2_000]).unwrap();
    assert_eq!(disk.write(a, 12_000, &[2; 1_000]), Err(Refusal::NoSpace));
    assert_eq!(disk.create(ROOT, name("c"), false), Err(Refusal::NoSpace));
    disk.opened(b);
    disk.remove(ROOT, name("b")).unwrap();
    assert_eq!(disk.write(a, 12_000, &[2; 1_000]), Err(Refusal::NoSpace));
    disk.closed(b);
    disk.write(a, 12_000, &[2; 1_000]).unwrap();
    disk.resize(a, 0).unwrap();
    assert!(disk.space().1 >= 4096);
}

#[test]
fn a_seed_leaves_the_same_disk_again() {
    let mut disk = Disk::new();
    let a = synced(&mut disk, "a", &[1; 9_000]);
    for n in 0..20 {
        disk.write(a, n * 700, &[n as u8; 1_500]).unwrap();
        disk.create(ROOT, name(&format!("f{n}")), false).unwrap();
    }
    for kind in Kind::ALL {
        let left = |seed| disk.after_cut(kind, &mut Dice::new(seed)).files();
        assert_eq!(left(5), left(5), "{kind:?}");
    }
}
