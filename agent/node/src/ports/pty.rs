//! A pseudo terminal: two ends of a serial line inside this computer. The
//! simulator and tests hold the master; the gateway opens the slave's path as
//! it would a real port. Always raw: no byte is translated or echoed.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::sys;

/// The master of a pty, non-blocking. Dropping it unplugs the line.
#[derive(Debug)]
pub struct Pty {
    master: File,
    slave: PathBuf,
}

impl Pty {
    /// # Errors
    /// The system has no pty left, or none at all.
    pub fn open() -> io::Result<Self> {
        let (master, slave) = sys::open_pty()?;
        // Besides the mode, opening and closing the slave once makes the
        // master say that nobody is there until somebody is.
        sys::make_raw(&slave)?;
        Ok(Self { master, slave })
    }

    /// Path of the end that a gateway opens, such as `/dev/pts/7`.
    pub fn slave(&self) -> &Path {
        &self.slave
    }

    /// Whether somebody has the slave open.
    pub fn peer_open(&self) -> io::Result<bool> {
        let mut waited = [sys::Waited::new(self.master.as_fd(), false)];
        sys::wait(&mut waited, Duration::ZERO)?;
        Ok(!waited[0].hung_up)
    }
}

impl AsFd for Pty {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.master.as_fd()
    }
}

impl AsRawFd for Pty {
    fn as_raw_fd(&self) -> RawFd {
        self.master.as_raw_fd()
    }
}

impl Read for &Pty {
    /// [`io::ErrorKind::WouldBlock`] when there is nothing; an error of the
    /// system when nobody has the slave open.
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        (&self.master).read(buf)
    }
}

impl Write for &Pty {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        (&self.master).write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
