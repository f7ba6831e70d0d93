//! The checkpoints of a run: frames one behind the other, each with what changed
//! since the one before. In memory, or in the file `try-state` of `--state DIR`.
//! Either way recovery reads bytes, and nothing else of the run is used again.
//! The byte table stands in `docs/try.md`.
//!
//! Bound: [`REWRITE_FACTOR`] times the whole state and [`REWRITE_BYTES_MIN`]; then
//! one frame with the whole state takes the place of all.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::Value;

/// First bytes of the file; the last one is the version.
const MAGIC: [u8; 8] = *b"FBTRYST\x01";
const FILE_NAME: &str = "try-state";
const NEW_FILE_NAME: &str = "try-state.new";
const REWRITE_FACTOR: u64 = 4;
const REWRITE_BYTES_MIN: u64 = 8 * 1024 * 1024;
/// Length and checksum of a frame.
const FRAME_HEAD_BYTES: usize = 8;
/// Stands for the length of a value that is gone.
const GONE: u32 = u32::MAX;

/// The engine's state by key.
pub(super) type Entries = BTreeMap<Vec<u8>, Vec<u8>>;
/// A key with its new value, or that it is gone.
pub(super) type Change = (Vec<u8>, Option<Vec<u8>>);

/// Where checkpoints are kept.
#[derive(Debug)]
pub(super) struct Checkpoints {
    medium: Medium,
    /// Bytes of all frames, and of the first.
    bytes: u64,
    first: u64,
}

#[derive(Debug)]
enum Medium {
    Memory(Vec<u8>),
    File { folder: PathBuf, file: File },
}

impl Checkpoints {
    pub(super) fn in_memory() -> Self {
        Self {
            medium: Medium::Memory(MAGIC.to_vec()),
            bytes: 0,
            first: 0,
        }
    }

    /// Makes the folder where there is none. What an earlier run left in it is
    /// replaced.
    ///
    /// # Errors
    /// Those of the file system.
    pub(super) fn in_folder(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        Ok(Self {
            medium: Medium::File {
                folder: folder.to_owned(),
                file: new_file(&folder.join(FILE_NAME))?,
            },
            bytes: 0,
            first: 0,
        })
    }

    /// Adds a checkpoint: the run's own state whole, the engine's where it changed.
    /// Gives its bytes.
    ///
    /// # Errors
    /// Those of the file system.
    pub(super) fn save(&mut self, run: &Value, changes: &[Change]) -> io::Result<u64> {
        let frame = frame(run, changes)?;
        match &mut self.medium {
            Medium::Memory(bytes) => bytes.extend_from_slice(&frame),
            Medium::File { file, .. } => file.write_all(&frame)?,
        }
        let len = frame.len() as u64;
        if self.bytes == 0 {
            self.first = len;
        }
        self.bytes += len;
        if self.bytes > REWRITE_FACTOR * self.first + REWRITE_BYTES_MIN {
            self.rewrite()?;
        }
        Ok(len)
    }

    /// The last checkpoint; `None` before the first.
    ///
    /// # Errors
    /// Those of the file system, and damage.
    pub(super) fn load(&self) -> io::Result<Option<(Value, Entries)>> {
        let read;
        let mut rest = match &self.medium {
            Medium::Memory(bytes) => bytes.as_slice(),
            Medium::File { folder, .. } => {
                read = fs::read(folder.join(FILE_NAME))?;
                &read
            }
        };
        rest = rest.strip_prefix(&MAGIC).ok_or_else(damaged)?;
        let (mut run, mut entries) = (None, Entries::new());
        while !rest.is_empty() {
            run = Some(take_frame(&mut rest, &mut entries).ok_or_else(damaged)?);
        }
        Ok(run.map(|run| (run, entries)))
    }

    fn rewrite(&mut self) -> io::Result<()> {
        let Some((run, entries)) = self.load()? else {
            return Ok(());
        };
        let whole = entries.into_iter().map(|(key, value)| (key, Some(value)));
        let frame = frame(&run, &whole.collect::<Vec<_>>())?;
        match &mut self.medium {
            Medium::Memory(bytes) => {
                bytes.truncate(MAGIC.len());
                bytes.extend_from_slice(&frame);
            }
            Medium::File { folder, file } => {
                let mut new = new_file(&folder.join(NEW_FILE_NAME))?;
                new.write_all(&frame)?;
                fs::rename(folder.join(NEW_FILE_NAME), folder.join(FILE_NAME))?;
                *file = new;
            }
        }
        self.bytes = frame.len() as u64;
        self.first = self.bytes;
        Ok(())
    }
}

fn new_file(path: &Path) -> io::Result<File> {
    let mut open = OpenOptions::new();
    let mut file = open.write(true).create(true).truncate(true).open(path)?;
    file.write_all(&MAGIC)?;
    Ok(file)
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "its checkpoints are damaged")
}

fn frame(run: &Value, changes: &[Change]) -> io::Result<Vec<u8>> {
    let mut frame = vec![0; FRAME_HEAD_BYTES];
    put(&mut frame, run.to_string().as_bytes())?;
    for (key, value) in changes {
        put(&mut frame, key)?;
        match value {
            Some(value) => put(&mut frame, value)?,
            None => frame.extend_from_slice(&GONE.to_le_bytes()),
        }
    }
    let body = &frame[FRAME_HEAD_BYTES..];
    let (len, sum) = (length(body)?, crc32c::crc32c(body));
    frame[..4].copy_from_slice(&len.to_le_bytes());
    frame[4..FRAME_HEAD_BYTES].copy_from_slice(&sum.to_le_bytes());
    Ok(frame)
}

fn put(frame: &mut Vec<u8>, bytes: &[u8]) -> io::Result<()> {
    frame.extend_from_slice(&length(bytes)?.to_le_bytes());
    frame.extend_from_slice(bytes);
    Ok(())
}

fn length(bytes: &[u8]) -> io::Result<u32> {
    let len = u32::try_from(bytes.len()).ok().filter(|len| *len < GONE);
    len.ok_or_else(|| io::Error::new(io::ErrorKind::FileTooLarge, "a checkpoint over 4 GiB"))
}

/// Reads a frame: applies its changes and gives the run's own state.
fn take_frame(rest: &mut &[u8], entries: &mut Entries) -> Option<Value> {
    let len = take_u32(rest)?;
    let sum = take_u32(rest)?;
    let (mut body, after) = rest.split_at_checked(len as usize)?;
    if crc32c::crc32c(body) != sum {
        return None;
    }
    *rest = after;
    let len = take_u32(&mut body)?;
    let run = serde_json::from_slice(take(&mut body, len)?).ok()?;
    while !body.is_empty() {
        let len = take_u32(&mut body)?;
        let key = take(&mut body, len)?;
        match take_u32(&mut body)? {
            GONE => {
                entries.remove(key);
            }
            len => {
                let value = take(&mut body, len)?;
                entries.insert(key.to_vec(), value.to_vec());
            }
        }
    }
    Some(run)
}

fn take_u32(rest: &mut &[u8]) -> Option<u32> {
    let (head, tail) = rest.split_first_chunk()?;
    *rest = tail;
    Some(u32::from_le_bytes(*head))
}

fn take<'a>(rest: &mut &'a [u8], len: u32) -> Option<&'a [u8]> {
    let (head, tail) = rest.split_at_checked(len as usize)?;
    *rest = tail;
    Some(head)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn change(key: &str, value: Option<&str>) -> Change {
        (key.into(), value.map(Into::into))
    }

    fn fill(checkpoints: &mut Checkpoints) {
        assert!(checkpoints.load().expect("it reads").is_none());
        let steps = [
            vec![change("a", Some("1")), change("b", Some(""))],
            vec![change("a", None), change("c", Some("3"))],
            vec![],
        ];
        for (n, changes) in steps.iter().enumerate() {
            checkpoints
                .save(&json!({ "n": n }), changes)
                .expect("it is kept");
        }
    }

    fn check(checkpoints: &Checkpoints, n: usize) {
        let (run, entries) = checkpoints.load().expect("it reads").expect("there is one");
        assert_eq!(run, json!({ "n": n }));
        let want = [("b", ""), ("c", "3")].map(|(k, v)| (k.into(), v.into()));
        assert_eq!(entries, BTreeMap::from(want));
    }

    #[test]
    fn the_last_checkpoint_is_the_sum_of_all() {
        let folder = tempfile::tempdir().expect("a folder");
        let in_folder = Checkpoints::in_folder(&folder.path().join("new")).expect("a file");
        for mut checkpoints in [Checkpoints::in_memory(), in_folder] {
            fill(&mut checkpoints);
            check(&checkpoints, 2);
            checkpoints.rewrite().expect("it is written");
            check(&checkpoints, 2);
            checkpoints.save(&json!({"n": 3}), &[]).expect("it is kept");
            check(&checkpoints, 3);
        }
    }

    #[test]
    fn frames_do_not_pile_up() {
        let mut checkpoints = Checkpoints::in_memory();
        let value = "x".repeat(1 << 20);
        for n in 0..100 {
            let saved = checkpoints.save(&json!({ "n": n }), &[change("a", Some(&value))]);
            assert!(saved.expect("it is kept") > 1 << 20);
            let bound = REWRITE_FACTOR * checkpoints.first + REWRITE_BYTES_MIN;
            assert!(checkpoints.bytes <= bound, "{n}");
        }
        let (_, entries) = checkpoints.load().expect("it reads").expect("there is one");
        assert_eq!(entries[&b"a"[..]], value.as_bytes());
    }

    #[test]
    fn damage_is_told_wherever_it_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut checkpoints = Checkpoints::in_folder(folder.path()).expect("a file");
        fill(&mut checkpoints);
        let path = folder.path().join(FILE_NAME);
        let good = fs::read(&path).expect("it is there");
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x40;
            fs::write(&path, bad).expect("written");
            assert!(checkpoints.load().is_err(), "byte {at}");
        }
        fs::write(&path, &good[..good.len() - 1]).expect("written");
        assert!(checkpoints.load().is_err(), "the last byte is missing");
        let again = Checkpoints::in_folder(folder.path()).expect("a file");
        assert!(
            again.load().expect("it reads").is_none(),
            "a new run starts anew"
        );
    }
}
