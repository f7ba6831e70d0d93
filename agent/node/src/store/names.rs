//! Names in a data directory, and what of them is found there. Layout:
//! `agent/node/docs/store.md`.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use forebay_core::store::SegmentId;
use forebay_core::units::{EventTime, GenerationNo, TopicId};

use super::OpenError;
use super::sync_dir;

/// End of a name that is not finished yet.
pub(super) const UNFINISHED: &str = ".creating";
/// End of a name whose content stands elsewhere already.
pub(super) const REMOVING: &str = ".removing";

/// Where what cannot be read stands, in a data directory.
pub(super) const QUARANTINE_DIR: &str = "quarantine";
/// In it: what an operator has seen to.
pub(super) const KEPT_DIR: &str = "kept";
/// What stands in quarantine is counted up to here.
pub(super) const QUARANTINED_MAX: usize = 1000;

/// `g-00000001` for 1.
pub(super) fn generation_name(generation: GenerationNo) -> String {
    format!("g-{:08}", generation.0)
}

fn parse_generation(name: &str) -> Option<GenerationNo> {
    let generation = GenerationNo(name.strip_prefix("g-")?.parse().ok()?);
    (generation_name(generation) == name).then_some(generation)
}

/// `s-00000001-t00016.seg` for topic 16 of generation 1.
#[must_use]
pub fn segment_name(id: SegmentId) -> String {
    format!("s-{:08}-t{:05}.seg", id.generation.0, id.topic.0)
}

fn parse_segment(name: &str) -> Option<SegmentId> {
    let rest = name.strip_prefix("s-")?.strip_suffix(".seg")?;
    let (generation, topic) = rest.split_once("-t")?;
    let id = SegmentId {
        generation: GenerationNo(generation.parse().ok()?),
        topic: TopicId(topic.parse().ok()?),
    };
    (segment_name(id) == name).then_some(id)
}

/// What stands in `log/`, each in order of age.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Listing {
    pub(super) generations: Vec<GenerationNo>,
    pub(super) segments: Vec<SegmentId>,
    /// Leftovers of something that was cut short; they hold nothing that does not
    /// stand elsewhere.
    pub(super) leftovers: Vec<PathBuf>,
}

/// Lists `log_dir`; names that are not the log's own are passed over.
///
/// # Errors
/// When the system refuses.
pub(super) fn list(log_dir: &Path) -> Result<Listing, OpenError> {
    let refused = |e| OpenError::system(log_dir, "list the directory", &e);
    let mut out = Listing::default();
    for entry in std::fs::read_dir(log_dir).map_err(refused)? {
        let entry = entry.map_err(refused)?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else {
            continue;
        };
        if let Some(generation) = parse_generation(name) {
            out.generations.push(generation);
        } else if let Some(segment) = parse_segment(name) {
            out.segments.push(segment);
        } else if is_leftover(name) {
            out.leftovers.push(entry.path());
        }
    }
    out.generations.sort_unstable();
    out.segments.sort_unstable();
    Ok(out)
}

fn is_leftover(name: &str) -> bool {
    let stem = name
        .strip_suffix(UNFINISHED)
        .or_else(|| name.strip_suffix(REMOVING));
    stem.is_some_and(|stem| parse_generation(stem).is_some() || parse_segment(stem).is_some())
}

/// The path with `end` appended to its last name.
pub(super) fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}

/// Removes a file or a directory with all in it.
pub(super) fn remove_all(path: &Path) -> std::io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => std::fs::remove_dir_all(path),
        Ok(_) => std::fs::remove_file(path),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Moves what cannot be read into `<data_dir>/quarantine/`, whole. Nothing there is
/// ever deleted by this program.
///
/// # Errors
/// When the system refuses; it then still stands where it was.
pub(super) fn quarantine(data_dir: &Path, path: &Path) -> std::io::Result<PathBuf> {
    let target = free_place(data_dir, path)?;
    std::fs::rename(path, &target)?;
    super::fault::point("quarantine.renamed");
    sync_dir(target.parent().unwrap_or(data_dir))?;
    sync_dir(path.parent().unwrap_or(Path::new(".")))?;
    Ok(target)
}

/// Puts a file into the quarantine that keeps its name until it is replaced.
///
/// # Errors
/// When the system refuses.
pub(super) fn keep_in_quarantine(data_dir: &Path, path: &Path) -> std::io::Result<PathBuf> {
    let target = free_place(data_dir, path)?;
    // Not every file system has links.
    std::fs::hard_link(path, &target).or_else(|_| {
        std::fs::copy(path, &target)?;
        std::fs::File::open(&target)?.sync_all()
    })?;
    sync_dir(target.parent().unwrap_or(data_dir))?;
    Ok(target)
}

/// A name in the quarantine that is not taken.
fn free_place(data_dir: &Path, path: &Path) -> std::io::Result<PathBuf> {
    let dir = data_dir.join(QUARANTINE_DIR);
    std::fs::create_dir_all(&dir)?;
    sync_dir(data_dir)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let seconds = now_utc().0.div_euclid(1_000_000);
    let named = dir.join(format!("{seconds}-{name}"));
    Ok(free_name(&dir, &named))
}

/// The name of `path` in `dir`, with a number in front where it is taken.
fn free_name(dir: &Path, path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (first, rest) = name.split_once('-').unwrap_or(("", &name));
    let free = (1_u32..).map(|nth| match nth {
        1 => dir.join(&*name),
        nth => dir.join(format!("{first}-{nth}-{rest}")),
    });
    let mut free = free.skip_while(|target| target.symlink_metadata().is_ok());
    free.next().unwrap_or_else(|| dir.join(&*name))
}

/// How many files and folders stand in the quarantine of a data directory and wait for an
/// operator: all but what was put into its folder `kept`. Counts up to
/// [`QUARANTINED_MAX`]; none where there is nothing to be read.
#[must_use]
pub fn quarantined(data_dir: &Path) -> u64 {
    let entries = std::fs::read_dir(data_dir.join(QUARANTINE_DIR));
    let waiting = entries.into_iter().flatten().flatten();
    let waiting = waiting.filter(|entry| entry.file_name() != KEPT_DIR);
    waiting.take(QUARANTINED_MAX).count() as u64
}

/// Moves what waits in the quarantine to its folder `kept`: an operator has seen to it.
///
/// # Errors
/// When the system refuses; what was moved until then stays there.
pub(super) fn keep_quarantined(data_dir: &Path) -> std::io::Result<u64> {
    let dir = data_dir.join(QUARANTINE_DIR);
    let kept = dir.join(KEPT_DIR);
    let mut moved = 0;
    for entry in std::fs::read_dir(&dir).into_iter().flatten() {
        let path = entry?.path();
        if path == kept {
            continue;
        }
        std::fs::create_dir_all(&kept)?;
        std::fs::rename(&path, free_name(&kept, &path))?;
        moved += 1;
    }
    if moved > 0 {
        sync_dir(&kept)?;
        sync_dir(&dir)?;
    }
    Ok(moved)
}

/// What the gateway's clock says.
pub(super) fn now_utc() -> EventTime {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    EventTime(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_back_and_others_do_not() {
        for (name, want) in [
            ("g-00000001", Some(1)),
            ("g-99999999", Some(99_999_999)),
            ("g-1", None),
            ("g-00000001.creating", None),
            ("g-+0000001", None),
            ("quarantine-g-00000001", None),
        ] {
            assert_eq!(parse_generation(name).map(|g| g.0), want, "{name}");
        }
        for (name, want) in [
            ("s-00000001-t00016.seg", Some((1, 16))),
            ("s-00000001-t65535.seg", Some((1, 65_535))),
            ("s-00000001-t65536.seg", None),
            ("s-00000001-t16.seg", None),
            ("s-00000001-t00016.seg.creating", None),
        ] {
            let parsed = parse_segment(name).map(|id| (id.generation.0, id.topic.0));
            assert_eq!(parsed, want, "{name}");
        }
    }

    #[test]
    fn a_directory_is_listed_in_order_and_strangers_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        for name in [
            "g-00000010",
            "g-00000002",
            "g-00000003.creating",
            "s-00000001-t00016.seg",
            "s-00000001-t00000.seg",
            "s-00000002-t00000.seg.creating",
            "identity",
            "notes.txt",
            "notes.creating",
        ] {
            std::fs::write(dir.path().join(name), b"").unwrap();
        }
        let found = list(dir.path()).unwrap();
        let generations: Vec<_> = found.generations.iter().map(|g| g.0).collect();
        assert_eq!(generations, [2, 10]);
        let topics: Vec<_> = found.segments.iter().map(|s| s.topic.0).collect();
        assert_eq!(topics, [0, 16]);
        assert_eq!(found.leftovers.len(), 2);
    }

    #[test]
    fn what_stands_in_quarantine_is_counted_until_it_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(quarantined(dir.path()), 0, "no folder");
        assert_eq!(keep_quarantined(dir.path()).unwrap(), 0, "no folder");
        let folder = dir.path().join("quarantine");
        for (name, count) in [("5-g-00000001", 1), ("by hand", 2)] {
            std::fs::create_dir_all(folder.join(name)).unwrap();
            assert_eq!(quarantined(dir.path()), count, "{name}");
        }
        assert_eq!(keep_quarantined(dir.path()).unwrap(), 2);
        assert_eq!(quarantined(dir.path()), 0);
        // The same name once more takes nothing's place.
        std::fs::write(folder.join("5-g-00000001"), "new").unwrap();
        assert_eq!(quarantined(dir.path()), 1);
        assert_eq!(keep_quarantined(dir.path()).unwrap(), 1);
        let kept = folder.join("kept");
        assert!(kept.join("5-g-00000001").is_dir());
        assert!(kept.join("by hand").is_dir());
        assert_eq!(std::fs::read(kept.join("5-2-g-00000001")).unwrap(), b"new");
    }

    #[test]
    fn what_stands_in_quarantine_is_counted_up_to_a_limit() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("quarantine");
        std::fs::create_dir(&folder).unwrap();
        for n in 1..=QUARANTINED_MAX + 1 {
            std::fs::write(folder.join(n.to_string()), "").unwrap();
            if n >= QUARANTINED_MAX - 1 {
                let want = n.min(QUARANTINED_MAX) as u64;
                assert_eq!(quarantined(dir.path()), want, "{n}");
            }
        }
    }

    #[test]
    fn quarantine_never_overwrites() {
        let dir = tempfile::tempdir().unwrap();
        let bad = dir.path().join("bad");
        let mut places = std::collections::BTreeSet::new();
        for text in ["a", "b", "c"] {
            std::fs::write(&bad, text).unwrap();
            let place = quarantine(dir.path(), &bad).unwrap();
            assert_eq!(std::fs::read_to_string(&place).unwrap(), text);
            places.insert(place);
        }
        assert_eq!(places.len(), 3);
    }
}
