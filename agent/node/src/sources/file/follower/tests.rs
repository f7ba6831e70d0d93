//! Files that grow, are moved away, cut, replaced and copied, and restarts in between.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::time::Duration;

use super::*;

struct Rig {
    folder: tempfile::TempDir,
    follower: Follower,
    start: Instant,
}

impl Rig {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let follower = Follower::new(&folder.path().join("s.ndjson"), None);
        Self {
            folder,
            follower,
            start: Instant::now(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn append(&self, text: &str) {
        self.append_to("s.ndjson", text);
    }

    fn append_to(&self, name: &str, text: &str) {
        let mut options = OpenOptions::new();
        let file = options.append(true).create(true).open(self.path(name));
        file.unwrap().write_all(text.as_bytes()).unwrap();
    }

    fn look_at(&mut self, seconds: u64) -> Look {
        self.follower
            .look(self.start + Duration::from_secs(seconds))
    }

    /// The texts that one look brings.
    fn lines(&mut self) -> Vec<String> {
        texts(&self.look_at(0))
    }

    /// A process that ends and starts again, with the mark behind these lines.
    fn restart(&mut self, look: &Look) {
        let last = look.lines.last().unwrap();
        let mark = Mark {
            file: last.file,
            offset: last.end,
            lines: last.number,
            identity: look.identity,
            ..Mark::default()
        };
        let mark = Mark::read(&mark.position()).unwrap();
        self.follower = Follower::new(&self.path("s.ndjson"), Some(&mark));
    }
}

fn texts(look: &Look) -> Vec<String> {
    let text = |line: &Line| match &line.text {
        Some(text) => String::from_utf8(text.clone()).unwrap(),
        None => String::from("(too long)"),
    };
    look.lines.iter().map(text).collect()
}

#[test]
fn lines_come_once_and_whole() {
    let mut rig = Rig::new();
    let look = rig.look_at(0);
    assert!(look.waits.unwrap().contains("s.ndjson: No such file"));
    rig.append("a\nb");
    assert_eq!(rig.lines(), ["a"]);
    assert_eq!(rig.lines(), [""; 0]);
    rig.append("c\n\nd\n");
    let look = rig.look_at(0);
    assert_eq!(texts(&look), ["bc", "", "d"]);
    let numbers: Vec<_> = look
        .lines
        .iter()
        .map(|line| (line.number, line.end))
        .collect();
    assert_eq!(numbers, [(2, 5), (3, 6), (4, 8)]);
    assert_eq!((look.behind, look.waits), (0, None));
}

#[test]
fn a_restart_goes_on_behind_the_mark() {
    let mut rig = Rig::new();
    rig.append("a\nb\n");
    let look = rig.look_at(0);
    rig.append("c\n");
    rig.restart(&look);
    let look = rig.look_at(0);
    assert_eq!(
        (texts(&look), look.notes),
        (vec![String::from("c")], vec![])
    );
    assert_eq!(look.lines[0].number, 3);
}

#[test]
fn a_moved_file_is_read_to_its_end_and_then_the_new_one() {
    let mut rig = Rig::new();
    rig.append("a\n");
    assert_eq!(rig.lines(), ["a"]);
    fs::rename(rig.path("s.ndjson"), rig.path("s.ndjson.1")).unwrap();
    assert!(rig.look_at(1).waits.is_none());
    rig.append("new\n");
    rig.append_to("s.ndjson.1", "b\n");
    assert_eq!(texts(&rig.look_at(2)), ["b"]);
    rig.append_to("s.ndjson.1", "cut");
    assert_eq!(texts(&rig.look_at(3)), [""; 0]);
    assert_eq!(texts(&rig.look_at(4)), [""; 0]);
    let look = rig.look_at(5);
    assert_eq!(texts(&look), ["cut"], "nobody ends it any more");
    assert!(look.notes[0].contains("is a new file"), "{:?}", look.notes);
    // The mark behind the last line of the old file still knows it.
    let new = rig.look_at(5);
    assert_eq!(texts(&new), ["new"]);
    assert_eq!((new.lines[0].file, new.lines[0].number), (1, 1));
    rig.restart(&look);
    let again = rig.look_at(6);
    assert!(
        again.notes[0].contains("moved away to"),
        "{:?}",
        again.notes
    );
    let again: Vec<_> = (7..12).flat_map(|at| texts(&rig.look_at(at))).collect();
    assert_eq!(again, ["new"]);
}

#[test]
fn what_was_moved_away_meanwhile_is_read_first() {
    let mut rig = Rig::new();
    rig.append("a\n");
    let look = rig.look_at(0);
    rig.append("b\n");
    fs::rename(rig.path("s.ndjson"), rig.path("s.ndjson.1")).unwrap();
    rig.append("new\n");
    rig.restart(&look);
    let all: Vec<_> = (0..6).flat_map(|at| texts(&rig.look_at(at))).collect();
    assert_eq!(all, ["b", "new"]);
}

#[test]
fn another_file_is_read_from_its_beginning_and_told() {
    let mut rig = Rig::new();
    rig.append("first\n");
    let look = rig.look_at(0);
    fs::remove_file(rig.path("s.ndjson")).unwrap();
    rig.append("other\nmore\n");
    rig.restart(&look);
    let look = rig.look_at(0);
    assert_eq!(texts(&look), ["other", "more"]);
    assert!(look.notes[0].contains("behind byte 6"), "{:?}", look.notes);
    assert_eq!(look.lines[0].file, 1);
}

#[test]
fn a_file_that_was_cut_begins_anew() {
    for (name, text) in [("shorter", "x\n"), ("longer than before", "yyyy\nzzzz\n")] {
        let mut rig = Rig::new();
        rig.append("a\nb\n");
        assert_eq!(rig.lines(), ["a", "b"], "{name}");
        fs::write(rig.path("s.ndjson"), text).unwrap();
        let look = rig.look_at(0);
        let want: Vec<_> = text.lines().map(str::to_owned).collect();
        assert_eq!(texts(&look), want, "{name}");
        assert!(look.notes[0].contains("cut or written over"), "{name}");
        assert_eq!(look.lines[0].file, 1, "{name}");
    }
}

#[test]
fn a_copy_of_a_known_file_goes_on() {
    let mut rig = Rig::new();
    let line = "x".repeat(HEAD_BYTES_MAX);
    rig.append(&format!("{line}\n"));
    let look = rig.look_at(0);
    fs::copy(rig.path("s.ndjson"), rig.path("copy")).unwrap();
    fs::rename(rig.path("copy"), rig.path("s.ndjson")).unwrap();
    rig.append("b\n");
    rig.restart(&look);
    assert_eq!(rig.lines(), ["b"]);
}

#[test]
fn a_line_is_taken_up_to_its_limit() {
    for (len, taken) in [
        (LINE_BYTES_MAX - 1, true),
        (LINE_BYTES_MAX, true),
        (LINE_BYTES_MAX + 1, false),
        (3 * CHUNK_BYTES_MAX, false),
    ] {
        let mut rig = Rig::new();
        rig.append(&format!("{}\nb\n", "x".repeat(len)));
        let all: Vec<_> = (0..6).flat_map(|at| rig.look_at(at).lines).collect();
        assert_eq!(all.len(), 2, "{len}");
        assert_eq!(all[0].text.is_some(), taken, "{len}");
        assert_eq!(all[1].text.as_deref(), Some(&b"b"[..]), "{len}");
        assert_eq!((all[1].number, all[1].end), (2, len as u64 + 3), "{len}");
    }
}

#[test]
fn what_is_no_file_is_said() {
    let mut rig = Rig::new();
    fs::create_dir(rig.path("s.ndjson")).unwrap();
    let waits = rig.look_at(0).waits.unwrap();
    assert!(waits.contains("not a plain file"), "{waits}");
}
