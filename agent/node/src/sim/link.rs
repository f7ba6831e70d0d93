//! A pty that can be unplugged, and the symlink by which a config names it. Comes
//! back under another path, as a replugged tty does.
//!
//! Invariant: the link points at the pty that is plugged in, or is not there; it
//! never takes the place of a file. It goes with its owner.

use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::ports::pty::Pty;

/// A symlink that this program made.
#[derive(Debug)]
pub(super) struct PtyLink {
    link: PathBuf,
    /// What it points at, while it is there.
    target: Option<PathBuf>,
}

impl PtyLink {
    pub(super) fn at(link: PathBuf) -> Self {
        Self { link, target: None }
    }

    /// Points it at a pty, in the place of an older symlink.
    fn point(&mut self, target: &Path) -> io::Result<()> {
        let link = &self.link;
        let named = |error: io::Error| {
            io::Error::new(error.kind(), format!("link {}: {error}", link.display()))
        };
        if std::fs::symlink_metadata(link).is_ok_and(|found| found.is_symlink()) {
            std::fs::remove_file(link).map_err(named)?;
        }
        symlink(target, link).map_err(named)?;
        self.target = Some(target.to_path_buf());
        Ok(())
    }

    /// Removes it, unless somebody made it another's.
    fn remove(&mut self) {
        let Some(target) = self.target.take() else {
            return;
        };
        if std::fs::read_link(&self.link).is_ok_and(|found| found == target) {
            // Somebody else removed it in this moment: as well.
            let _ = std::fs::remove_file(&self.link);
        }
    }
}

impl Drop for PtyLink {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Where the pty is plugged in.
#[derive(Debug)]
pub(super) struct PtySocket {
    /// Before the pty, as it goes first: a closed pty's path is anybody's.
    link: Option<PtyLink>,
    pty: Option<Pty>,
    /// The next one: held before the old one is let go, so that its path differs.
    spare: Option<Pty>,
    /// A gateway has it open.
    up: bool,
}

fn new_pty() -> io::Result<Pty> {
    Pty::open().map_err(|error| io::Error::new(error.kind(), format!("no pty: {error}")))
}

impl PtySocket {
    pub(super) fn open(link: Option<PtyLink>) -> io::Result<Self> {
        let mut socket = Self {
            pty: None,
            spare: None,
            up: false,
            link,
        };
        socket.plug_in()?;
        Ok(socket)
    }

    pub(super) fn path(&self) -> io::Result<PathBuf> {
        let pty = self.pty.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        Ok(pty.slave().to_path_buf())
    }

    pub(super) fn unplug(&mut self) {
        // First of all: once the pty is closed, its path is the next one's who opens one.
        if let Some(link) = &mut self.link {
            link.remove();
        }
        // Without a spare the same path may come back: a replug all the same.
        self.spare = new_pty().ok();
        self.pty = None;
        self.up = false;
    }

    pub(super) fn plug_in(&mut self) -> io::Result<()> {
        if self.pty.is_some() {
            return Ok(());
        }
        let pty = match self.spare.take() {
            Some(pty) => pty,
            None => new_pty()?,
        };
        if let Some(link) = &mut self.link {
            link.point(pty.slave())?;
        }
        self.pty = Some(pty);
        Ok(())
    }

    /// The pty, if a gateway has it open.
    pub(super) fn open_end(&self) -> Option<&Pty> {
        self.pty.as_ref().filter(|_| self.up)
    }

    pub(super) fn look(&mut self) -> bool {
        let there = |pty: &Pty| pty.peer_open().unwrap_or(false);
        self.up = self.up || self.pty.as_ref().is_some_and(there);
        self.up
    }

    pub(super) fn hang_up(&mut self) {
        self.up = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replugged_pty_has_another_path_and_the_same_link() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("device");
        let mut socket = PtySocket::open(Some(PtyLink::at(link.clone()))).unwrap();
        let first = std::fs::read_link(&link).unwrap();
        assert_eq!(first, socket.path().unwrap());
        socket.unplug();
        assert!(
            std::fs::symlink_metadata(&link).is_err(),
            "the link is gone"
        );
        assert!(socket.open_end().is_none() && !socket.look());
        socket.plug_in().unwrap();
        let second = std::fs::read_link(&link).unwrap();
        assert_eq!(second, socket.path().unwrap());
        assert_ne!(first, second);
        drop(socket);
        assert!(
            std::fs::symlink_metadata(&link).is_err(),
            "removed at the end"
        );
    }

    #[test]
    fn a_link_that_became_anothers_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("device");
        let socket = PtySocket::open(Some(PtyLink::at(link.clone()))).unwrap();
        std::fs::remove_file(&link).unwrap();
        symlink("/dev/null", &link).unwrap();
        drop(socket);
        assert_eq!(std::fs::read_link(&link).unwrap(), Path::new("/dev/null"));
    }
}
