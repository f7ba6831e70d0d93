//! The model: files and directories with a live and a durable state each.
//!
//! Always holds: the durable state is what the live one was at some sync of each
//! file and directory on its own; what is not durable stands in order in the lists
//! of pending changes. Numbers of files are never used again. Knows no kernel and
//! no thread. Space: a file takes its length, rounded up to whole blocks.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::{Component, Path};

use super::files::{Change, FileNode, Seq};

/// Number of a file or a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ino(pub u64);

pub const ROOT: Ino = Ino(1);
/// What space is counted in.
pub const BLOCK_BYTES: u64 = 4096;
/// Size of a disk that nobody made smaller.
const CAPACITY_BYTES: u64 = 4 << 30;

/// Why a call was refused; the names of errno(3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    NoEntry,
    Exists,
    NotDir,
    IsDir,
    NotEmpty,
    NoSpace,
    /// The power is off.
    Off,
}

pub(super) type Names = BTreeMap<OsString, Ino>;
type Done<T> = Result<T, Refusal>;

#[derive(Debug, Clone, Default)]
pub(super) struct DirNode {
    pub(super) live: Names,
    pub(super) durable: Names,
}

#[derive(Debug, Clone)]
pub(super) enum Node {
    File(FileNode),
    Dir(DirNode),
}

/// One change of names; atomic, also when it concerns two directories.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NameChange {
    Set(Ino, OsString, Ino),
    Remove(Ino, OsString),
    Move {
        from: (Ino, OsString),
        to: (Ino, OsString),
        what: Ino,
    },
}

impl NameChange {
    pub(super) fn dirs(&self) -> [Ino; 2] {
        match self {
            Self::Set(dir, ..) | Self::Remove(dir, _) => [*dir; 2],
            Self::Move { from, to, .. } => [from.0, to.0],
        }
    }
}

/// What a look at a file shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attr {
    pub ino: Ino,
    pub is_dir: bool,
    pub size: u64,
}

/// See the module's text.
#[derive(Debug, Clone)]
pub struct Disk {
    pub(super) nodes: BTreeMap<Ino, Node>,
    pub(super) names: Vec<(Seq, NameChange)>,
    next_ino: u64,
    next_seq: u64,
    capacity: u64,
    used: u64,
    /// Calls that changed or synced something so far: the clock of a cut.
    steps: u64,
    cut_at: Option<u64>,
    full_at: Option<u64>,
    obeys_fdatasync: bool,
    on: bool,
}

impl Default for Disk {
    fn default() -> Self {
        Self::new()
    }
}

impl Disk {
    /// An empty disk with its power on.
    #[must_use]
    pub fn new() -> Self {
        Self {
            nodes: BTreeMap::from([(ROOT, Node::Dir(DirNode::default()))]),
            names: Vec::new(),
            next_ino: ROOT.0 + 1,
            next_seq: 0,
            capacity: CAPACITY_BYTES,
            used: 0,
            steps: 0,
            cut_at: None,
            full_at: None,
            obeys_fdatasync: true,
            on: true,
        }
    }

    /// Everything that is called from now on is refused.
    pub fn power_off(&mut self) {
        self.on = false;
    }

    #[must_use]
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// Steps so far: each call that changes or syncs something is one.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Cuts the power before the step with this number.
    pub fn cut_at_step(&mut self, step: u64) {
        self.cut_at = Some(step);
    }

    /// From the step with this number on there is no more space than is in use then.
    pub fn full_at_step(&mut self, step: u64) {
        self.full_at = Some(step);
    }

    /// The size of the disk, bytes; may be less than is in use.
    pub fn set_capacity(&mut self, bytes: u64) {
        self.full_at = None;
        self.capacity = bytes;
    }

    /// The disk is as large as at the start.
    pub fn has_space_again(&mut self) {
        self.set_capacity(CAPACITY_BYTES);
    }

    /// From now on `fdatasync` does nothing, so that a test can show that it sees
    /// what a store without one loses. `fsync` goes on to work.
    pub fn ignore_fdatasync(&mut self) {
        self.obeys_fdatasync = false;
    }

    /// Size of the disk and what is free, bytes.
    #[must_use]
    pub fn space(&self) -> (u64, u64) {
        (self.capacity, self.capacity.saturating_sub(self.used))
    }

    fn step(&mut self) -> Done<Seq> {
        if self.cut_at.is_some_and(|step| self.steps >= step) {
            self.on = false;
        }
        if self.full_at.is_some_and(|step| self.steps >= step) {
            self.full_at = None;
            self.capacity = self.used;
        }
        self.must_be_on()?;
        self.steps += 1;
        self.next_seq += 1;
        Ok(Seq(self.next_seq))
    }

    fn must_be_on(&self) -> Done<()> {
        if self.on { Ok(()) } else { Err(Refusal::Off) }
    }

    fn dir(&self, ino: Ino) -> Done<&DirNode> {
        match self.nodes.get(&ino) {
            Some(Node::Dir(dir)) => Ok(dir),
            Some(Node::File(_)) => Err(Refusal::NotDir),
            None => Err(Refusal::NoEntry),
        }
    }

    fn live(&mut self, ino: Ino) -> Done<&mut Names> {
        match self.nodes.get_mut(&ino) {
            Some(Node::Dir(dir)) => Ok(&mut dir.live),
            Some(Node::File(_)) => Err(Refusal::NotDir),
            None => Err(Refusal::NoEntry),
        }
    }

    fn file(&self, ino: Ino) -> Done<&FileNode> {
        match self.nodes.get(&ino) {
            Some(Node::File(file)) => Ok(file),
            Some(Node::Dir(_)) => Err(Refusal::IsDir),
            None => Err(Refusal::NoEntry),
        }
    }

    fn file_mut(&mut self, ino: Ino) -> Done<&mut FileNode> {
        match self.nodes.get_mut(&ino) {
            Some(Node::File(file)) => Ok(file),
            Some(Node::Dir(_)) => Err(Refusal::IsDir),
            None => Err(Refusal::NoEntry),
        }
    }

    /// # Errors
    /// When there is no such file.
    pub fn attr(&self, ino: Ino) -> Done<Attr> {
        self.must_be_on()?;
        let node = self.nodes.get(&ino).ok_or(Refusal::NoEntry)?;
        let (is_dir, size) = match node {
            Node::File(file) => (false, file.size()),
            Node::Dir(_) => (true, 0),
        };
        Ok(Attr { ino, is_dir, size })
    }

    /// # Errors
    /// When there is no such name.
    pub fn lookup(&self, dir: Ino, name: &OsStr) -> Done<Attr> {
        self.must_be_on()?;
        let ino = self.dir(dir)?.live.get(name).ok_or(Refusal::NoEntry)?;
        self.attr(*ino)
    }

    /// The names in a directory.
    ///
    /// # Errors
    /// When it is none.
    pub fn list(&self, dir: Ino) -> Done<Vec<(OsString, Attr)>> {
        self.must_be_on()?;
        let names = self.dir(dir)?.live.iter();
        names
            .map(|(name, ino)| Ok((name.clone(), self.attr(*ino)?)))
            .collect()
    }

    /// # Errors
    /// When the name exists, or the directory does not.
    pub fn create(&mut self, dir: Ino, name: &OsStr, is_dir: bool) -> Done<Ino> {
        let at = self.step()?;
        if self.dir(dir)?.live.contains_key(name) {
            return Err(Refusal::Exists);
        }
        if self.used >= self.capacity {
            return Err(Refusal::NoSpace);
        }
        let ino = Ino(self.next_ino);
        self.next_ino += 1;
        let node = if is_dir {
            Node::Dir(DirNode::default())
        } else {
            Node::File(FileNode::default())
        };
        self.nodes.insert(ino, node);
        self.live(dir)?.insert(name.to_owned(), ino);
        let change = NameChange::Set(dir, name.to_owned(), ino);
        self.names.push((at, change));
        Ok(ino)
    }

    /// Removes a file, or an empty directory.
    ///
    /// # Errors
    /// When it is not there, or not empty.
    pub fn remove(&mut self, dir: Ino, name: &OsStr) -> Done<()> {
        let at = self.step()?;
        let ino = *self.dir(dir)?.live.get(name).ok_or(Refusal::NoEntry)?;
        self.must_be_empty(ino)?;
        self.live(dir)?.remove(name);
        self.names
            .push((at, NameChange::Remove(dir, name.to_owned())));
        self.count_space();
        Ok(())
    }

    fn must_be_empty(&self, ino: Ino) -> Done<()> {
        match self.nodes.get(&ino) {
            Some(Node::Dir(dir)) if !dir.live.is_empty() => Err(Refusal::NotEmpty),
            Some(Node::Dir(_) | Node::File(_)) | None => Ok(()),
        }
    }

    /// Moves a name, over another one if there is one.
    ///
    /// # Errors
    /// When it is not there, or what it goes over is a directory that is not empty.
    pub fn rename(&mut self, from: (Ino, &OsStr), to: (Ino, &OsStr)) -> Done<()> {
        let at = self.step()?;
        let what = *self.dir(from.0)?.live.get(from.1).ok_or(Refusal::NoEntry)?;
        if let Some(over) = self.dir(to.0)?.live.get(to.1) {
            self.must_be_empty(*over)?;
        }
        let change = NameChange::Move {
            from: (from.0, from.1.to_owned()),
            to: (to.0, to.1.to_owned()),
            what,
        };
        self.live(from.0)?.remove(from.1);
        self.live(to.0)?.insert(to.1.to_owned(), what);
        self.names.push((at, change));
        self.count_space();
        Ok(())
    }

    pub fn opened(&mut self, ino: Ino) {
        if let Ok(file) = self.file_mut(ino) {
            file.opens += 1;
        }
    }

    pub fn closed(&mut self, ino: Ino) {
        if let Ok(file) = self.file_mut(ino) {
            file.opens = file.opens.saturating_sub(1);
        }
        self.count_space();
    }

    /// # Errors
    /// When it is not a file.
    pub fn read(&self, ino: Ino, offset: u64, bytes_max: usize) -> Done<&[u8]> {
        self.must_be_on()?;
        Ok(self.file(ino)?.read(offset, bytes_max))
    }

    /// # Errors
    /// When there is no space: then nothing is written.
    pub fn write(&mut self, ino: Ino, offset: u64, bytes: &[u8]) -> Done<()> {
        let at = self.step()?;
        let end = offset + bytes.len() as u64;
        self.grow(ino, end)?;
        let bytes = bytes.to_vec();
        self.file_mut(ino)?
            .change(at, Change::Write { offset, bytes });
        Ok(())
    }

    /// # Errors
    /// When there is no space to grow.
    pub fn resize(&mut self, ino: Ino, size: u64) -> Done<()> {
        let at = self.step()?;
        self.grow(ino, size)?;
        self.file_mut(ino)?.change(at, Change::Resize(size));
        self.count_space();
        Ok(())
    }

    /// Counts the space that a file of `end` bytes takes more than now.
    fn grow(&mut self, ino: Ino, end: u64) -> Done<()> {
        let now = blocks(self.file(ino)?.size());
        let more = blocks(end).saturating_sub(now);
        if more > 0 && self.used + more > self.capacity {
            return Err(Refusal::NoSpace);
        }
        self.used += more;
        Ok(())
    }

    /// `fsync` on a file.
    ///
    /// # Errors
    /// When it is not a file.
    pub fn sync_file(&mut self, ino: Ino) -> Done<()> {
        self.step()?;
        self.file_mut(ino)?.sync();
        Ok(())
    }

    /// `fdatasync` on a file: its size is data too, as nobody could read it else.
    ///
    /// # Errors
    /// When it is not a file.
    pub fn sync_data(&mut self, ino: Ino) -> Done<()> {
        if self.obeys_fdatasync {
            return self.sync_file(ino);
        }
        self.step()?;
        self.file(ino).map(|_| ())
    }

    /// `fsync` on a directory. A rename out of it or into it takes what it needs in
    /// the other directory along.
    ///
    /// # Errors
    /// When it is not a directory.
    pub fn sync_dir(&mut self, dir: Ino) -> Done<()> {
        self.step()?;
        self.dir(dir)?;
        let mut dirs = BTreeSet::from([dir]);
        let mut chosen = Vec::new();
        for (at, change) in self.names.iter().rev() {
            if change.dirs().iter().any(|dir| dirs.contains(dir)) {
                dirs.extend(change.dirs());
                chosen.push(*at);
            }
        }
        chosen.reverse();
        let (done, left) = std::mem::take(&mut self.names)
            .into_iter()
            .partition(|(at, _)| chosen.binary_search(at).is_ok());
        self.names = left;
        let done: Vec<(Seq, NameChange)> = done;
        for (_, change) in done {
            self.make_durable(&change);
        }
        self.forget_unreachable();
        Ok(())
    }

    pub(super) fn make_durable(&mut self, change: &NameChange) {
        match change {
            NameChange::Set(dir, name, ino) => self.set_durable(*dir, name, Some(*ino)),
            NameChange::Remove(dir, name) => self.set_durable(*dir, name, None),
            NameChange::Move { from, to, what } => {
                if self.durable_name(from.0, &from.1) == Some(*what) {
                    self.set_durable(from.0, &from.1, None);
                }
                self.set_durable(to.0, &to.1, Some(*what));
            }
        }
    }

    fn durable_name(&self, dir: Ino, name: &OsStr) -> Option<Ino> {
        self.dir(dir).ok()?.durable.get(name).copied()
    }

    fn set_durable(&mut self, dir: Ino, name: &OsStr, ino: Option<Ino>) {
        if let Some(Node::Dir(node)) = self.nodes.get_mut(&dir) {
            match ino {
                Some(ino) => node.durable.insert(name.to_owned(), ino),
                None => node.durable.remove(name),
            };
        }
    }

    /// Drops what no name, no pending change and no handle leads to.
    pub(super) fn forget_unreachable(&mut self) {
        let mut keep = BTreeSet::new();
        let mut todo = vec![ROOT];
        for (_, change) in &self.names {
            match change {
                NameChange::Set(_, _, ino) | NameChange::Move { what: ino, .. } => todo.push(*ino),
                NameChange::Remove(..) => {}
            }
            todo.extend(change.dirs());
        }
        for (ino, node) in &self.nodes {
            if matches!(node, Node::File(file) if file.opens > 0) {
                todo.push(*ino);
            }
        }
        while let Some(ino) = todo.pop() {
            if keep.insert(ino)
                && let Some(Node::Dir(dir)) = self.nodes.get(&ino)
            {
                todo.extend(dir.live.values().chain(dir.durable.values()));
            }
        }
        self.nodes.retain(|ino, _| keep.contains(ino));
        self.count_space();
    }

    /// Space in use: by files that have a live name or an open handle.
    pub(super) fn count_space(&mut self) {
        let mut seen = BTreeSet::new();
        let mut todo = vec![ROOT];
        while let Some(ino) = todo.pop() {
            if seen.insert(ino)
                && let Some(Node::Dir(dir)) = self.nodes.get(&ino)
            {
                todo.extend(dir.live.values());
            }
        }
        let taken = self.nodes.iter().map(|(ino, node)| match node {
            Node::File(file) if file.opens > 0 || seen.contains(ino) => blocks(file.size()),
            Node::File(_) | Node::Dir(_) => 0,
        });
        self.used = taken.sum();
    }

    /// Names and bytes of all files, as paths from the root.
    #[must_use]
    pub fn files(&self) -> BTreeMap<std::path::PathBuf, Vec<u8>> {
        let mut out = BTreeMap::new();
        let mut todo = vec![(std::path::PathBuf::new(), ROOT)];
        while let Some((path, ino)) = todo.pop() {
            match self.nodes.get(&ino) {
                Some(Node::Dir(dir)) => {
                    let inside = dir.live.iter();
                    todo.extend(inside.map(|(name, ino)| (path.join(name), *ino)));
                }
                Some(Node::File(file)) => {
                    out.insert(path, file.bytes().to_vec());
                }
                None => {}
            }
        }
        out
    }

    /// The file or directory at a path from the root.
    #[must_use]
    pub fn find(&self, path: &Path) -> Option<Ino> {
        path.components().try_fold(ROOT, |ino, part| match part {
            Component::Normal(name) => self.dir(ino).ok()?.live.get(name).copied(),
            Component::Prefix(_)
            | Component::RootDir
            | Component::CurDir
            | Component::ParentDir => Some(ino),
        })
    }

    /// Puts other bytes into a file, durably: what a bad medium does.
    ///
    /// # Errors
    /// When there is no such file.
    pub fn damage(&mut self, path: &Path, bytes: Vec<u8>) -> Done<()> {
        let ino = self.find(path).ok_or(Refusal::NoEntry)?;
        self.file_mut(ino)?.damage(bytes);
        Ok(())
    }

    /// A disk in which all that `nodes` hold is durable, and the power is on.
    pub(super) fn restarted(&self, nodes: BTreeMap<Ino, Node>) -> Self {
        let mut disk = Self {
            nodes,
            names: Vec::new(),
            next_ino: self.next_ino,
            next_seq: 0,
            capacity: CAPACITY_BYTES,
            used: 0,
            steps: 0,
            cut_at: None,
            full_at: None,
            obeys_fdatasync: true,
            on: true,
        };
        disk.forget_unreachable();
        disk
    }
}

fn blocks(bytes: u64) -> u64 {
    bytes.div_ceil(BLOCK_BYTES) * BLOCK_BYTES
}
