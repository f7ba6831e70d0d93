//! The lines of a file that others append to, also when it is moved away and another
//! one stands under its name, or when it is cut and begins anew.
//!
//! Always holds: each whole line is given once, in order; a line without its end is
//! waited for, unless its file was moved away. Bound: [`CHUNK_BYTES_MAX`] in memory;
//! of a line over [`LINE_BYTES_MAX`] nothing is held. Waits for nothing: whoever calls
//! asks again.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::super::limits::{
    CHUNK_BYTES_MAX, HEAD_BYTES_MAX, LINE_BYTES_MAX, MOVED_AWAY_WAIT, SIBLINGS_MAX,
};
use super::mark::{Identity, Mark};

/// A line with its end taken off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) number: u64,
    /// The mark behind it: which file, and how many bytes of it.
    pub(super) file: u32,
    pub(super) end: u64,
    /// `None`: it is longer than [`LINE_BYTES_MAX`].
    pub(super) text: Option<Vec<u8>>,
}

/// What a look at the file brought.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Look {
    pub(super) lines: Vec<Line>,
    /// What an operator should read.
    pub(super) notes: Vec<String>,
    /// Why nothing can be read now.
    pub(super) waits: Option<String>,
    /// Bytes that are there and were not read yet.
    pub(super) behind: u64,
    /// What the next mark is to know its file by.
    pub(super) identity: Identity,
}

/// The file that is open.
#[derive(Debug)]
struct Open {
    file: File,
    inode: u64,
    head: Vec<u8>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Follower {
    path: PathBuf,
    open: Option<Open>,
    number: u32,
    offset: u64,
    lines: u64,
    /// What the mark at the start knew, until the file was opened.
    known: Option<Identity>,
    /// Inside of a line that is too long.
    skipping: bool,
    /// Since when another file stands under the name.
    moved_away: Option<Instant>,
}

impl Follower {
    /// Goes on behind `mark`; from the beginning without one.
    pub(super) fn new(path: &Path, mark: Option<&Mark>) -> Self {
        Self {
            path: path.to_owned(),
            open: None,
            number: mark.map_or(0, |mark| mark.file),
            offset: mark.map_or(0, |mark| mark.offset),
            lines: mark.map_or(0, |mark| mark.lines),
            known: mark.map(|mark| mark.identity),
            skipping: false,
            moved_away: None,
        }
    }

    /// Reads what has come since.
    pub(super) fn look(&mut self, now: Instant) -> Look {
        let mut look = Look::default();
        if let Err(error) = self.try_look(now, &mut look) {
            look.waits = Some(format!("{}: {error}", self.path.display()));
            // Opened anew at the next look: the disk may be another one.
            self.known = Some(self.identity());
            self.open = None;
        }
        look
    }

    fn identity(&self) -> Identity {
        match (&self.open, self.known) {
            (Some(open), _) => Identity::of(open.inode, &open.head, self.offset),
            (None, known) => known.unwrap_or_default(),
        }
    }

    fn try_look(&mut self, now: Instant, look: &mut Look) -> io::Result<()> {
        if self.open.is_none() {
            self.open_first(look)?;
        }
        self.check_same(look)?;
        self.read_lines(look)?;
        if look.lines.is_empty() {
            self.follow_the_name(now, look)?;
        } else {
            self.moved_away = None;
        }
        Ok(())
    }

    /// Opens the file of the mark, wherever it is now.
    fn open_first(&mut self, look: &mut Look) -> io::Result<()> {
        let Some(known) = self.known else {
            self.open = Some(open(&self.path)?);
            return Ok(());
        };
        let here = open(&self.path);
        let fits = |open: &Open| known.begins(&open.head);
        match here {
            Ok(open) if open.inode == known.inode && fits(&open) => {
                self.open = Some(open);
            }
            // A copy: all that is remembered of it is the same.
            Ok(open) if known.head_len == HEAD_BYTES_MAX && fits(&open) => {
                self.open = Some(open);
            }
            here => match self.moved_sibling(&known)? {
                Some((open, path)) => {
                    look.notes.push(format!(
                        "{} was moved away to {}: reading the rest of that first",
                        self.path.display(),
                        path.display()
                    ));
                    self.open = Some(open);
                }
                None => {
                    let open = here?;
                    if self.offset > 0 {
                        look.notes.push(format!(
                            "{} is another file than before, read from its beginning: what stood in the former one behind byte {} was not read",
                            self.path.display(),
                            self.offset
                        ));
                        self.begin_next();
                    }
                    self.open = Some(open);
                }
            },
        }
        self.known = None;
        Ok(())
    }

    /// The file of the mark under another name, as those are that rotate logs.
    fn moved_sibling(&self, known: &Identity) -> io::Result<Option<(Open, PathBuf)>> {
        let folder = match self.path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            Some(_) | None => Path::new("."),
        };
        let name = self.path.file_name().unwrap_or(OsStr::new(""));
        for entry in std::fs::read_dir(folder)?.take(SIBLINGS_MAX) {
            let path = entry?.path();
            let other = path.file_name().unwrap_or(OsStr::new(""));
            if other == name || !other.as_bytes().starts_with(name.as_bytes()) {
                continue;
            }
            // One that is gone by now is not the one.
            if let Ok(open) = open(&path)
                && open.inode == known.inode
                && known.begins(&open.head)
            {
                return Ok(Some((open, path)));
            }
        }
        Ok(None)
    }

    /// The next file under the name begins.
    fn begin_next(&mut self) {
        self.number = self.number.saturating_add(1);
        self.offset = 0;
        self.lines = 0;
        self.skipping = false;
        self.moved_away = None;
    }

    /// A file that was cut, or written over, begins anew.
    fn check_same(&mut self, look: &mut Look) -> io::Result<()> {
        let Some(open) = &mut self.open else {
            return Ok(());
        };
        let head = read_head(&open.file)?;
        let size = open.file.metadata()?.len();
        let read = Identity::of(open.inode, &open.head, self.offset);
        let is_same = size >= self.offset && read.begins(&head);
        open.head = head;
        if !is_same {
            look.notes.push(format!(
                "{} was cut or written over: it is read from its beginning",
                self.path.display()
            ));
            self.begin_next();
        }
        Ok(())
    }

    fn read_lines(&mut self, look: &mut Look) -> io::Result<()> {
        let Some(open) = &self.open else {
            return Ok(());
        };
        let more = open.file.metadata()?.len().saturating_sub(self.offset);
        let more = usize::try_from(more).unwrap_or(usize::MAX);
        let mut chunk = vec![0; more.min(CHUNK_BYTES_MAX)];
        let len = read_at(&open.file, &mut chunk, self.offset)?;
        let begin = self.offset;
        let mut rest = &chunk[..len];
        while let Some(end) = memchr::memchr(b'\n', rest) {
            self.take_line(&rest[..end], 1, look);
            rest = &rest[end + 1..];
        }
        if rest.len() > LINE_BYTES_MAX || (self.skipping && !rest.is_empty()) {
            // Its end is not in sight: nothing of it is held.
            self.skipping = true;
            self.offset += rest.len() as u64;
        }
        let all = begin.saturating_add(more as u64);
        look.behind = all.saturating_sub(self.offset);
        look.identity = self.identity();
        Ok(())
    }

    /// Takes a line whose end is `end` bytes long.
    fn take_line(&mut self, bytes: &[u8], end: u64, look: &mut Look) {
        self.offset += bytes.len() as u64 + end;
        self.lines += 1;
        let is_long = std::mem::take(&mut self.skipping) || bytes.len() > LINE_BYTES_MAX;
        look.lines.push(Line {
            number: self.lines,
            file: self.number,
            end: self.offset,
            text: (!is_long).then(|| bytes.to_vec()),
        });
    }

    /// Goes on with the file that stands under the name now, when it is another one
    /// and nothing more came into the one that was moved away.
    fn follow_the_name(&mut self, now: Instant, look: &mut Look) -> io::Result<()> {
        let Some(current) = &self.open else {
            return Ok(());
        };
        let named = match std::fs::metadata(&self.path) {
            Ok(named) if named.ino() != current.inode => named,
            // Between the two files there may be none.
            Ok(_) | Err(_) => {
                self.moved_away = None;
                return Ok(());
            }
        };
        // Who writes may not have noticed yet.
        let since = *self.moved_away.get_or_insert(now);
        if now.duration_since(since) < MOVED_AWAY_WAIT {
            return Ok(());
        }
        let next = open_as(&self.path, &named)?;
        let mut last = vec![0; LINE_BYTES_MAX];
        let len = read_at(&current.file, &mut last, self.offset)?;
        if len > 0 || self.skipping {
            // Nobody will end it any more.
            self.take_line(&last[..len], 0, look);
        }
        look.notes.push(format!(
            "{} is a new file: the one before was read to its end, {} lines",
            self.path.display(),
            self.lines
        ));
        look.identity = self.identity();
        self.begin_next();
        self.open = Some(next);
        Ok(())
    }
}

fn open(path: &Path) -> io::Result<Open> {
    open_as(path, &std::fs::metadata(path)?)
}

fn open_as(path: &Path, metadata: &Metadata) -> io::Result<Open> {
    // Opening a pipe would wait for its writer.
    if !metadata.is_file() {
        return Err(io::Error::other("is not a plain file"));
    }
    let file = File::open(path)?;
    let head = read_head(&file)?;
    let inode = file.metadata()?.ino();
    Ok(Open { file, inode, head })
}

fn read_head(file: &File) -> io::Result<Vec<u8>> {
    let mut head = vec![0; HEAD_BYTES_MAX];
    let len = read_at(file, &mut head, 0)?;
    head.truncate(len);
    Ok(head)
}

/// Reads until the buffer is full or the file ends.
fn read_at(file: &File, buffer: &mut [u8], from: u64) -> io::Result<usize> {
    let mut len = 0;
    while len < buffer.len() {
        match file.read_at(&mut buffer[len..], from + len as u64) {
            Ok(0) => break,
            Ok(more) => len += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(len)
}

#[cfg(test)]
mod tests;
