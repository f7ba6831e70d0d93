//! Where an export is written: standard output, a file, or what stands under the name
//! already and is no file, such as a device or a FIFO.
//!
//! Always: a file has its name only when it is whole; what is no file is written to as it
//! stands, and never replaced. Knows no format.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

const BUFFER_BYTES: usize = 256 * 1024;
/// As many links as the kernel follows.
const LINKS_MAX: usize = 40;

/// The way to one output.
#[derive(Debug)]
pub(crate) enum Output {
    /// `-`.
    Stdout,
    /// A name that is a file's, or free.
    File { path: PathBuf, unfinished: PathBuf },
    /// Something else has the name.
    AsItStands(PathBuf),
}

impl Output {
    pub(crate) fn new(path: &Path) -> Self {
        if path == Path::new("-") {
            return Self::Stdout;
        }
        // Through a symlink: what it points at is written.
        match fs::canonicalize(path).and_then(|real| Ok((fs::metadata(&real)?, real))) {
            Ok((found, _)) if !found.is_file() => Self::AsItStands(path.to_path_buf()),
            Ok((_, real)) => Self::file(real),
            Err(_) => Self::file(behind_links(path)),
        }
    }

    fn file(path: PathBuf) -> Self {
        let mut name = path.as_os_str().to_owned();
        name.push(".unfinished");
        let unfinished = PathBuf::from(name);
        Self::File { path, unfinished }
    }

    pub(crate) fn is_stdout(&self) -> bool {
        matches!(self, Self::Stdout)
    }

    /// Begins it.
    ///
    /// # Errors
    /// What the system says: no right, no folder, a folder in its place.
    pub(crate) fn open(&self) -> io::Result<Box<dyn Write + Send>> {
        let file = match self {
            Self::Stdout => {
                let out = BufWriter::with_capacity(BUFFER_BYTES, io::stdout());
                return Ok(Box::new(out));
            }
            Self::File { unfinished, .. } => File::create(unfinished)?,
            Self::AsItStands(path) => OpenOptions::new().write(true).open(path)?,
        };
        Ok(Box::new(BufWriter::with_capacity(BUFFER_BYTES, file)))
    }

    /// Gives it its name, once all is written.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn finish(&self) -> io::Result<()> {
        match self {
            Self::Stdout | Self::AsItStands(_) => Ok(()),
            Self::File { path, unfinished } => fs::rename(unfinished, path),
        }
    }

    /// Takes away what was written: half a file must not be taken for one.
    pub(crate) fn give_up(&self) {
        match self {
            Self::Stdout | Self::AsItStands(_) => {}
            Self::File { unfinished, .. } => {
                // What stays has a name that says what it is.
                let _ = fs::remove_file(unfinished);
            }
        }
    }
}

/// The name that a chain of links ends with, though nothing has it yet.
fn behind_links(path: &Path) -> PathBuf {
    let mut at = path.to_path_buf();
    for _ in 0..LINKS_MAX {
        let Ok(to) = fs::read_link(&at) else {
            return at;
        };
        at = at.parent().unwrap_or(Path::new("")).join(to);
    }
    path.to_path_buf()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn write(path: &Path, text: &str) {
        let output = Output::new(path);
        let mut out = output.open().unwrap();
        out.write_all(text.as_bytes()).unwrap();
        out.flush().unwrap();
        output.finish().unwrap();
    }

    #[test]
    fn a_file_has_its_name_when_it_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.csv");
        write(&path, "first");
        let output = Output::new(&path);
        output.open().unwrap().write_all(b"half").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "first");
        output.give_up();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        write(&path, "second");
        assert_eq!(fs::read_to_string(&path).unwrap(), "second");
    }

    /// Whoever may write to a folder of devices would lose the device itself.
    #[test]
    fn what_is_no_file_stays_what_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("null");
        symlink("/dev/null", &link).unwrap();
        write(&link, "gone");
        assert_eq!(fs::read_link(&link).unwrap(), Path::new("/dev/null"));
        let pair = std::os::unix::net::UnixListener::bind(dir.path().join("socket")).unwrap();
        let output = Output::new(&dir.path().join("socket"));
        output
            .open()
            .map(drop)
            .expect_err("a socket is no place to write to");
        drop(pair);
        assert!(dir.path().join("socket").exists());
        let folder = Output::new(dir.path());
        folder.open().map(drop).expect_err("nor is a folder");
        assert!(dir.path().is_dir());
    }

    #[test]
    fn a_link_to_nothing_yet_stays_a_link_too() {
        let dir = tempfile::tempdir().unwrap();
        let (first, second) = (dir.path().join("first"), dir.path().join("second"));
        symlink("second", &first).unwrap();
        symlink("real", &second).unwrap();
        write(&first, "new");
        assert_eq!(fs::read_link(&second).unwrap(), Path::new("real"));
        assert_eq!(fs::read_to_string(dir.path().join("real")).unwrap(), "new");
        let round = dir.path().join("round");
        symlink("round", &round).unwrap();
        assert_eq!(behind_links(&round), round, "it has no end");
    }

    #[test]
    fn a_link_to_a_file_stays_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("real"), dir.path().join("latest"));
        fs::write(&file, "old").unwrap();
        symlink(&file, &link).unwrap();
        write(&link, "new");
        assert_eq!(fs::read_link(&link).unwrap(), file);
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
    }
}
