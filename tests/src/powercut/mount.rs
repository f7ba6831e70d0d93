//! Shows a [`Disk`] through FUSE, so that real processes run on it.
//!
//! Always holds: a call is answered only after the model took it, and the kernel
//! keeps no writes back (no write-back cache), so the model sees what the process
//! did. Decides nothing: that is the model's.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, UNIX_EPOCH};

use fuser::{
    AccessFlags, BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType,
    Filesystem, FopenFlags, Generation, INodeNo, LockOwner, MountOption, OpenFlags, RenameFlags,
    ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen,
    ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};

use super::cut::Kind;
use super::disk::{Attr, BLOCK_BYTES, Disk, Ino, Refusal};
use crate::world::dice::Dice;

/// The kernel asks again each time: what it knew may be gone after a cut.
const TTL: Duration = Duration::ZERO;
/// `S_IFMT` and `S_IFSOCK` of inode(7).
const KIND_MASK: u32 = 0o170_000;
const KIND_SOCKET: u32 = 0o140_000;
const KIND_REGULAR: u32 = 0o100_000;

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    went_off: Condvar,
}

#[derive(Debug)]
struct State {
    disk: Disk,
    sockets: BTreeSet<Ino>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the model, and wakes who waits for the cut.
    fn ask<T>(&self, call: impl FnOnce(&mut State) -> Result<T, Refusal>) -> Result<T, Errno> {
        let mut state = self.lock();
        let done = call(&mut state);
        if !state.disk.is_on() {
            self.went_off.notify_all();
        }
        done.map_err(errno)
    }
}

fn errno(refusal: Refusal) -> Errno {
    match refusal {
        Refusal::NoEntry => Errno::ENOENT,
        Refusal::Exists => Errno::EEXIST,
        Refusal::NotDir => Errno::ENOTDIR,
        Refusal::IsDir => Errno::EISDIR,
        Refusal::NotEmpty => Errno::ENOTEMPTY,
        Refusal::NoSpace => Errno::ENOSPC,
        Refusal::Off => Errno::EIO,
    }
}

/// A mounted disk.
#[derive(Debug)]
pub struct Mounted {
    shared: Arc<Shared>,
    session: Option<BackgroundSession>,
    at: tempfile::TempDir,
}

impl Mounted {
    /// Mounts an empty disk.
    ///
    /// # Errors
    /// Why it cannot be mounted here, and what to do.
    pub fn empty() -> Result<Self, String> {
        Self::over(Disk::new())
    }

    /// Mounts a disk, such as the one that a cut left.
    ///
    /// # Errors
    /// Why it cannot be mounted here, and what to do.
    pub fn over(disk: Disk) -> Result<Self, String> {
        let at = tempfile::tempdir().map_err(|error| format!("no directory: {error}"))?;
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                disk,
                sockets: BTreeSet::new(),
            }),
            went_off: Condvar::new(),
        });
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName(String::from("forebay-powercut")),
            MountOption::NoDev,
            MountOption::NoSuid,
        ];
        let session = fuser::spawn_mount(Bridge(Arc::clone(&shared)), at.path(), &config)
            .map_err(|error| cannot_mount(&error))?;
        Ok(Self {
            shared,
            session: Some(session),
            at,
        })
    }

    /// Where it is mounted.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.at.path()
    }

    /// Looks at the disk or changes it, while nothing else does.
    pub fn disk<T>(&self, look: impl FnOnce(&mut Disk) -> T) -> T {
        look(&mut self.shared.lock().disk)
    }

    /// Waits until the power is off; false when it is still on after `limit`.
    #[must_use]
    pub fn wait_for_cut(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        let mut state = self.shared.lock();
        while state.disk.is_on() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.shared.went_off.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Cuts the power and unmounts. All processes on it must have been ended; the
    /// disk is as it is found when the power comes back.
    #[must_use]
    pub fn cut(mut self, kind: Kind, dice: &mut Dice) -> Disk {
        self.disk(Disk::power_off);
        self.unmount();
        self.disk(|disk| disk.after_cut(kind, dice))
    }

    /// Unmounts without a cut: all that was written is there.
    #[must_use]
    pub fn into_disk(mut self) -> Disk {
        self.unmount();
        self.disk(|disk| disk.clone())
    }

    fn unmount(&mut self) {
        let Some(session) = self.session.take() else {
            return;
        };
        if session.umount_and_join().is_err() {
            // Something is still open on it. The mount goes away with the last of it.
            let _ = Command::new("umount").arg("-l").arg(self.path()).status();
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Who still runs on it must not hang.
        self.disk(Disk::power_off);
        self.unmount();
    }
}

fn cannot_mount(error: &std::io::Error) -> String {
    format!(
        "the power-cut file system cannot be mounted: {error}.\n\
         It needs FUSE: the device /dev/fuse (`modprobe fuse`; in a container: \
         `--device /dev/fuse --cap-add SYS_ADMIN`), and either root or the program \
         `fusermount3` (Debian: apt-get install fuse3)."
    )
}

/// The kernel's calls, handed to the model.
struct Bridge(Arc<Shared>);

impl Bridge {
    fn shown(&self, attr: Attr) -> FileAttr {
        shown(attr, &self.0.lock().sockets)
    }
}

fn shown(attr: Attr, sockets: &BTreeSet<Ino>) -> FileAttr {
    let (kind, perm, nlink) = match attr.is_dir {
        true => (FileType::Directory, 0o700, 2),
        false if sockets.contains(&attr.ino) => (FileType::Socket, 0o600, 1),
        false => (FileType::RegularFile, 0o600, 1),
    };
    FileAttr {
        ino: INodeNo(attr.ino.0),
        size: attr.size,
        blocks: attr.size.div_ceil(512),
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind,
        perm,
        nlink,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: BLOCK_BYTES as u32,
        flags: 0,
    }
}

fn ino(number: INodeNo) -> Ino {
    Ino(number.0)
}

impl Filesystem for Bridge {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.0.ask(|s| s.disk.lookup(ino(parent), name)) {
            Ok(attr) => reply.entry(&TTL, &self.shown(attr), Generation(0)),
            Err(error) => reply.error(error),
        }
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.0.ask(|s| s.disk.attr(ino(number))) {
            Ok(attr) => reply.attr(&TTL, &self.shown(attr)),
            Err(error) => reply.error(error),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        number: INodeNo,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<std::time::SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<std::time::SystemTime>,
        _chgtime: Option<std::time::SystemTime>,
        _bkuptime: Option<std::time::SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let done = self.0.ask(|s| {
            if let Some(size) = size {
                s.disk.resize(ino(number), size)?;
            }
            s.disk.attr(ino(number))
        });
        match done {
            Ok(attr) => reply.attr(&TTL, &self.shown(attr)),
            Err(error) => reply.error(error),
        }
    }

    fn mknod(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        _rdev: u32,
        reply: ReplyEntry,
    ) {
        let kind = mode & KIND_MASK;
        if kind != KIND_SOCKET && kind != KIND_REGULAR {
            return reply.error(Errno::EPERM);
        }
        let done = self.0.ask(|s| {
            let made = s.disk.create(ino(parent), name, false)?;
            if kind == KIND_SOCKET {
                s.sockets.insert(made);
            }
            s.disk.attr(made)
        });
        match done {
            Ok(attr) => reply.entry(&TTL, &self.shown(attr), Generation(0)),
            Err(error) => reply.error(error),
        }
    }

    fn mkdir(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        _mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        let done = self.0.ask(|s| {
            let made = s.disk.create(ino(parent), name, true)?;
            s.disk.attr(made)
        });
        match done {
            Ok(attr) => reply.entry(&TTL, &self.shown(attr), Generation(0)),
            Err(error) => reply.error(error),
        }
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        _mode: u32,
        _umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        let done = self.0.ask(|s| {
            let made = s.disk.create(ino(parent), name, false)?;
            s.disk.opened(made);
            s.disk.attr(made)
        });
        match done {
            Ok(attr) => {
                let shown = self.shown(attr);
                reply.created(
                    &TTL,
                    &shown,
                    Generation(0),
                    FileHandle(0),
                    FopenFlags::empty(),
                );
            }
            Err(error) => reply.error(error),
        }
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        say(reply, self.0.ask(|s| s.disk.remove(ino(parent), name)));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        say(reply, self.0.ask(|s| s.disk.remove(ino(parent), name)));
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let done = self.0.ask(|s| {
            let over = s.disk.lookup(ino(newparent), newname);
            if flags.contains(RenameFlags::RENAME_NOREPLACE) && over.is_ok() {
                return Err(Refusal::Exists);
            }
            s.disk
                .rename((ino(parent), name), (ino(newparent), newname))
        });
        say(reply, done);
    }

    fn open(&self, _: &Request, number: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let done = self.0.ask(|s| {
            s.disk.attr(ino(number))?;
            s.disk.opened(ino(number));
            Ok(())
        });
        match done {
            Ok(()) => reply.opened(FileHandle(0), FopenFlags::empty()),
            Err(error) => reply.error(error),
        }
    }

    fn read(
        &self,
        _: &Request,
        number: INodeNo,
        _fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let read = |s: &mut State| {
            let bytes = s.disk.read(ino(number), offset, size as usize);
            bytes.map(<[u8]>::to_vec)
        };
        match self.0.ask(read) {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        _: &Request,
        number: INodeNo,
        _fh: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.0.ask(|s| s.disk.write(ino(number), offset, data)) {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(error),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // `close` promises nothing.
        reply.ok();
    }

    fn release(
        &self,
        _: &Request,
        number: INodeNo,
        _fh: FileHandle,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.0.lock().disk.closed(ino(number));
        reply.ok();
    }

    fn fsync(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        datasync: bool,
        reply: ReplyEmpty,
    ) {
        let sync = |s: &mut State| match datasync {
            true => s.disk.sync_data(ino(number)),
            false => s.disk.sync_file(ino(number)),
        };
        say(reply, self.0.ask(sync));
    }

    fn fsyncdir(&self, _: &Request, number: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        say(reply, self.0.ask(|s| s.disk.sync_dir(ino(number))));
    }

    fn readdir(
        &self,
        _: &Request,
        number: INodeNo,
        _fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let names = match self.0.ask(|s| s.disk.list(ino(number))) {
            Ok(names) => names,
            Err(error) => return reply.error(error),
        };
        let sockets = self.0.lock().sockets.clone();
        let dots = [".", ".."].map(|name| (number, FileType::Directory, name.into()));
        let inside = names.into_iter().map(|(name, attr)| {
            let kind = shown(attr, &sockets).kind;
            (INodeNo(attr.ino.0), kind, name)
        });
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let all = dots.into_iter().chain(inside).enumerate();
        for (at, (number, kind, name)) in all.skip(from) {
            if reply.add(number, at as u64 + 1, kind, &name) {
                break;
            }
        }
        reply.ok();
    }

    fn fallocate(
        &self,
        _: &Request,
        number: INodeNo,
        _fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        if mode != 0 {
            return reply.error(Errno::EOPNOTSUPP);
        }
        let done = self.0.ask(|s| {
            let now = s.disk.attr(ino(number))?.size;
            s.disk.resize(ino(number), now.max(offset + length))
        });
        say(reply, done);
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let (all, free) = self.0.lock().disk.space();
        let (all, free) = (all / BLOCK_BYTES, free / BLOCK_BYTES);
        let size = BLOCK_BYTES as u32;
        reply.statfs(all, free, free, 1 << 20, 1 << 20, size, 255, size);
    }

    fn access(&self, _: &Request, _: INodeNo, _: AccessFlags, reply: ReplyEmpty) {
        reply.ok();
    }
}

fn say(reply: ReplyEmpty, done: Result<(), Errno>) {
    match done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}
