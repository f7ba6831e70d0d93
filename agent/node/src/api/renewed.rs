//! What stands in files that others renew while the agent runs: the token, certificates.
//!
//! Always holds: what was read last and did is used until something else does; files are
//! looked at when somebody connects or asks, at most once in a while, and read
//! when they are others than before. What does not do is told once it has not done for
//! [`TELL_AFTER`]: who renews a certificate writes its key a moment later. Knows no route.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::limits::{READ_AGAIN_AFTER, TELL_AFTER};
use crate::config::ConfigError;
use crate::ports::Say;

/// By what a file is known to be another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: (u64, u64),
    len: u64,
    mode: u32,
    /// Seconds and nanoseconds of the last change, of its content and of it at all.
    changed: [(i64, i64); 2],
}

impl Stamp {
    /// `None`: it is not there, or cannot be looked at.
    fn of(path: &Path) -> Option<Self> {
        let found = std::fs::metadata(path).ok()?;
        Some(Self {
            inode: (found.dev(), found.ino()),
            len: found.len(),
            mode: found.mode(),
            changed: [
                (found.mtime(), found.mtime_nsec()),
                (found.ctime(), found.ctime_nsec()),
            ],
        })
    }
}

/// How a value is read of its files.
type Read<T> = Box<dyn Fn() -> Result<T, ConfigError> + Send + Sync>;

/// A value that is read again when its files change.
pub(super) struct Renewed<T> {
    /// What it is, as a sentence names it.
    what: &'static str,
    files: Vec<PathBuf>,
    read: Read<T>,
    /// How often the files are looked at.
    every: Duration,
    say: Say,
    state: Mutex<State<T>>,
}

struct State<T> {
    value: T,
    /// Of the files when they were read last.
    stamps: Vec<Option<Stamp>>,
    looked: Instant,
    read: Instant,
    /// Since when the files do not do, and whether that was told.
    broken: Option<(Instant, bool)>,
}

impl<T: Clone> Renewed<T> {
    /// # Errors
    /// When the files do not do now.
    pub(super) fn new(
        what: &'static str,
        files: Vec<PathBuf>,
        read: Read<T>,
        (every, say, now): (Duration, &Say, Instant),
    ) -> Result<Self, ConfigError> {
        // Before they are read: what changes meanwhile is read again.
        let stamps = stamps(&files);
        let state = State {
            value: read()?,
            stamps,
            looked: now,
            read: now,
            broken: None,
        };
        Ok(Self {
            what,
            files,
            read,
            every,
            say: say.clone(),
            state: Mutex::new(state),
        })
    }

    /// What stands there as of now, or what stood there when it did last.
    pub(super) fn get(&self, now: Instant) -> T {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if now.duration_since(state.looked) >= self.every {
            state.looked = now;
            self.look(&mut state, now);
        }
        state.value.clone()
    }

    fn look(&self, state: &mut State<T>, now: Instant) {
        let stamps = stamps(&self.files);
        let is_same = stamps == state.stamps;
        // One that does not do may do without a change of its own: a folder that was closed.
        let is_tried = state.broken.is_none() || now.duration_since(state.read) < READ_AGAIN_AFTER;
        let is_due = state
            .broken
            .is_some_and(|(since, is_told)| !is_told && now.duration_since(since) >= TELL_AFTER);
        if is_same && is_tried && !is_due {
            return;
        }
        (state.stamps, state.read) = (stamps, now);
        match (self.read)() {
            Ok(value) => {
                state.value = value;
                let was_told = state.broken.take().is_some_and(|(_, is_told)| is_told);
                if !is_same || was_told {
                    (self.say)(&format!("the API has read its {} again", self.what));
                }
            }
            Err(error) => {
                let (_, is_told) = state.broken.get_or_insert((now, false));
                if is_due {
                    *is_told = true;
                    (self.say)(&format!(
                        "ALARM: the API cannot take its new {}, and goes on with the one before: \
                         {error}",
                        self.what
                    ));
                }
            }
        }
    }
}

fn stamps(files: &[PathBuf]) -> Vec<Option<Stamp>> {
    files.iter().map(|file| Stamp::of(file)).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::limits::LOOK_EVERY;
    use super::*;
    use crate::config::Place;

    /// A file whose text is the value; `bad` does not do.
    struct Rig {
        dir: tempfile::TempDir,
        said: Arc<Mutex<Vec<String>>>,
        start: Instant,
        renewed: Renewed<String>,
    }

    impl Rig {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("file");
            std::fs::write(&path, "one").unwrap();
            let said = Arc::new(Mutex::new(Vec::new()));
            let heard = Arc::clone(&said);
            let say: Say = Arc::new(move |text: &str| heard.lock().unwrap().push(text.to_owned()));
            let file = path.clone();
            let read = move || match std::fs::read_to_string(&file) {
                Ok(text) if text != "bad" => Ok(text),
                Ok(_) | Err(_) => {
                    let place = Place {
                        file: PathBuf::from("gw.toml"),
                        line: Some(3),
                        key: String::from("[api] token_file"),
                    };
                    Err(place.error("does not do"))
                }
            };
            let start = Instant::now();
            let renewed = Renewed::new(
                "token",
                vec![path],
                Box::new(read),
                (LOOK_EVERY, &say, start),
            );
            Self {
                renewed: renewed.unwrap(),
                dir,
                said,
                start,
            }
        }

        fn write(&self, text: &str) {
            // As renewers do it: another file takes its name.
            let new = self.dir.path().join("new");
            std::fs::write(&new, text).unwrap();
            std::fs::rename(new, self.dir.path().join("file")).unwrap();
        }

        fn at(&self, millis: u64) -> String {
            self.renewed.get(self.start + Duration::from_millis(millis))
        }

        fn said(&self) -> Vec<String> {
            std::mem::take(&mut *self.said.lock().unwrap())
        }
    }

    #[test]
    fn a_new_file_is_taken_at_the_next_look() {
        let rig = Rig::new();
        let every = u64::try_from(LOOK_EVERY.as_millis()).unwrap();
        rig.write("two");
        for (name, at, want) in [
            ("before", every - 1, "one"),
            ("at it", every, "two"),
            ("after", every + 1, "two"),
        ] {
            assert_eq!(rig.at(at), want, "{name}");
        }
        assert_eq!(rig.said(), ["the API has read its token again"]);
    }

    #[test]
    fn one_that_does_not_do_changes_nothing_and_is_told_when_it_stays() {
        let rig = Rig::new();
        let tell = u64::try_from(TELL_AFTER.as_millis()).unwrap();
        rig.write("bad");
        assert_eq!(rig.at(2_000), "one");
        assert_eq!(
            rig.said(),
            [""; 0],
            "it may be half of what is to be written"
        );
        assert_eq!(rig.at(2_000 + tell - 1), "one");
        assert_eq!(rig.said(), [""; 0]);
        assert_eq!(rig.at(3_000 + tell), "one");
        let told = rig.said();
        assert_eq!(told.len(), 1);
        assert!(told[0].contains("gw.toml:3: [api] token_file"), "{told:?}");
        for at in 0..100 {
            assert_eq!(rig.at(20_000 + at * 1_000), "one");
        }
        assert_eq!(rig.said(), [""; 0], "once");
        rig.write("three");
        assert_eq!(rig.at(200_000), "three");
        assert_eq!(rig.said(), ["the API has read its token again"]);
    }

    #[test]
    fn one_that_is_gone_for_a_moment_is_no_news() {
        let rig = Rig::new();
        std::fs::remove_file(rig.dir.path().join("file")).unwrap();
        assert_eq!(rig.at(1_000), "one");
        rig.write("one");
        assert_eq!(rig.at(2_000), "one");
        assert_eq!(rig.said(), ["the API has read its token again"]);
    }

    #[test]
    fn one_that_does_again_without_a_change_is_taken() {
        let rig = Rig::new();
        let again = u64::try_from(READ_AGAIN_AFTER.as_millis()).unwrap();
        rig.write("bad");
        assert_eq!(rig.at(1_000), "one");
        // Its content changes, and nothing that shows from outside: as behind a folder.
        rig.renewed.state.lock().unwrap().stamps = {
            rig.write("two");
            stamps(&rig.renewed.files)
        };
        assert_eq!(rig.at(1_000 + again), "two");
    }
}
