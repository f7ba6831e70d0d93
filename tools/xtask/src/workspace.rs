//! Where things stand in the clone. Knows paths only; runs nothing.

use std::path::{Path, PathBuf};

/// The clone that this xtask was built from.
#[derive(Debug, Clone)]
pub(crate) struct Workspace {
    root: PathBuf,
}

impl Workspace {
    /// The clone of this build: two folders above `tools/xtask`, whatever the
    /// working folder is.
    pub(crate) fn here() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .ancestors()
            .nth(2)
            .expect("tools/xtask stands two folders below the root");
        Self {
            root: root.to_path_buf(),
        }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The workspace of the boards: other targets, other lock file.
    pub(crate) fn boards(&self) -> PathBuf {
        self.root.join("firmware/boards")
    }

    /// Names of the boards: the folders below `firmware/boards` that hold a program.
    pub(crate) fn board_names(&self) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.boards()) else {
            return Vec::new();
        };
        let mut names: Vec<String> = entries
            .filter_map(Result::ok)
            .filter(|entry| entry.path().join("src/main.rs").is_file())
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort();
        names
    }
}
