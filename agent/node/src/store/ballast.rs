//! A file that only takes space, to be given up when the disk is full: reopening a
//! database and removing old segments need some. Also how full the disk is.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::names::{UNFINISHED, with_end};

static PIECE: [u8; 64 * 1024] = [0; 64 * 1024];

/// See the module's text.
#[derive(Debug)]
pub(super) struct Ballast {
    path: PathBuf,
    bytes: u64,
}

impl Ballast {
    /// The ballast in `data_dir`; none is kept when `bytes` is 0.
    pub(super) fn new(data_dir: &Path, bytes: u64) -> Self {
        Self {
            path: data_dir.join("ballast"),
            bytes,
        }
    }

    /// Takes the space, when it is not taken and there is plenty.
    pub(super) fn take(&self, free_bytes: u64) {
        let taken = std::fs::metadata(&self.path).map_or(0, |meta| meta.len());
        if taken == self.bytes || free_bytes < self.bytes.saturating_mul(4) {
            return;
        }
        let unfinished = with_end(&self.path, UNFINISHED);
        // Written, not only sized: a hole would take no space.
        let write = || {
            let mut file = std::fs::File::create(&unfinished)?;
            let mut left = self.bytes;
            while left > 0 {
                let piece = left.min(PIECE.len() as u64);
                file.write_all(&PIECE[..piece as usize])?;
                left -= piece;
            }
            file.sync_all()?;
            std::fs::rename(&unfinished, &self.path)
        };
        if write().is_err() {
            let _ = std::fs::remove_file(&unfinished);
        }
    }

    /// Gives the space up.
    pub(super) fn release(&self) {
        // That there was none changes nothing.
        let _ = std::fs::remove_file(&self.path);
        let _ = std::fs::remove_file(with_end(&self.path, UNFINISHED));
    }
}

/// Bytes that this process may still write on the disk of `dir`.
pub(super) fn free_bytes(dir: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(dir).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// What this process has had written to disks since its start, by the system's count: all
/// that the store makes of what it is given, not what the file system and the card add.
pub(super) fn written_bytes() -> Option<u64> {
    let io = fs::read_to_string("/proc/self/io").ok()?;
    let line = io
        .lines()
        .find_map(|line| line.strip_prefix("write_bytes:"));
    line?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_taken_only_when_there_is_plenty_and_given_up() {
        let dir = tempfile::tempdir().unwrap();
        let ballast = Ballast::new(dir.path(), 100_000);
        let len = || std::fs::metadata(dir.path().join("ballast")).map(|meta| meta.len());
        for (free, taken) in [(0, None), (399_999, None), (400_000, Some(100_000))] {
            ballast.take(free);
            assert_eq!(len().ok(), taken, "{free}");
        }
        ballast.release();
        assert!(len().is_err());
        assert!(free_bytes(dir.path()).is_some_and(|free| free > 0));
    }
}
