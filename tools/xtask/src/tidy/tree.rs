//! The files of the clone in memory, the Rust ones with their tokens. Build
//! output and the version control's own files are not in it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::lexer::{Token, is, lex};

/// Folders that hold output, not sources, at any depth.
const SKIPPED: [&str; 3] = ["target", ".git", "__pycache__"];

/// One text file.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) text: String,
    /// Empty when the file is no Rust, or does not lex (rustfmt fails then).
    pub(crate) tokens: Vec<Token>,
    /// All of it is test code: an integration test, or a module under `cfg(test)`.
    pub(crate) test: bool,
}

/// Files by path from the root, with `/` between the parts.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(crate) files: BTreeMap<String, File>,
    /// Names at the top: (name, is a folder).
    pub(crate) top: Vec<(String, bool)>,
}

impl Tree {
    /// Reads every text file below `root`.
    ///
    /// # Errors
    /// Names the folder or file that cannot be read.
    pub(crate) fn read(root: &Path) -> Result<Self, String> {
        let mut tree = Self::default();
        tree.read_dir(root, "")?;
        tree.mark_test_files();
        Ok(tree)
    }

    fn read_dir(&mut self, dir: &Path, prefix: &str) -> Result<(), String> {
        let named = |error| format!("{}: {error}", dir.display());
        for entry in fs::read_dir(dir).map_err(named)? {
            let entry = entry.map_err(named)?;
            let is_dir = entry.file_type().map_err(named)?.is_dir();
            let name = entry.file_name().to_string_lossy().into_owned();
            if is_dir && SKIPPED.contains(&name.as_str()) {
                continue;
            }
            if prefix.is_empty() {
                self.top.push((name.clone(), is_dir));
            }
            let path = format!("{prefix}{name}");
            if is_dir {
                self.read_dir(&entry.path(), &format!("{path}/"))?;
            } else {
                let bytes = fs::read(entry.path()).map_err(|error| format!("{path}: {error}"))?;
                // What is no text (a fixture, a picture) has no lines to check.
                if let Ok(text) = String::from_utf8(bytes) {
                    self.add(path, text);
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, path: String, text: String) {
        let tokens = if path.ends_with(".rs") {
            lex(&text).unwrap_or_default()
        } else {
            Vec::new()
        };
        let test = path.starts_with("tests/") || path.contains("/tests/");
        let file = File { text, tokens, test };
        self.files.insert(path, file);
    }

    /// A file that is a module under `cfg(test)` is test code, with all below it.
    fn mark_test_files(&mut self) {
        let mut places = Vec::new();
        for (path, file) in &self.files {
            for at in 0..file.tokens.len() {
                let declares = is(&file.tokens, at, &["mod"]) && is(&file.tokens, at + 2, &[";"]);
                if declares && file.tokens[at].test {
                    let name = &file.tokens[at + 1].text;
                    places.push(format!("{}{name}", module_dir(path)));
                }
            }
        }
        for (path, file) in &mut self.files {
            let hit = |place: &String| {
                *path == format!("{place}.rs") || path.starts_with(&format!("{place}/"))
            };
            file.test |= places.iter().any(hit);
        }
    }

    /// The Rust files.
    pub(crate) fn rust(&self) -> impl Iterator<Item = (&str, &File)> {
        self.files
            .iter()
            .filter(|(path, _)| path.ends_with(".rs"))
            .map(|(path, file)| (path.as_str(), file))
    }

    /// The Rust files below a folder, which is given with its last `/`.
    pub(crate) fn rust_below(&self, dir: &str) -> impl Iterator<Item = (&str, &File)> {
        self.rust().filter(move |(path, _)| path.starts_with(dir))
    }

    #[cfg(test)]
    pub(crate) fn from_files(files: &[(&str, &str)]) -> Self {
        let mut tree = Self::default();
        for (path, text) in files {
            let (name, is_dir) = match path.split_once('/') {
                Some((name, _)) => (name, true),
                None => (*path, false),
            };
            if !tree.top.iter().any(|(known, _)| known == name) {
                tree.top.push((name.to_owned(), is_dir));
            }
            tree.add((*path).to_owned(), (*text).to_owned());
        }
        tree.mark_test_files();
        tree
    }
}

/// The folder in which a file's own `mod x;` are looked up.
fn module_dir(path: &str) -> String {
    let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
    let stem = name.trim_end_matches(".rs");
    if matches!(stem, "mod" | "lib" | "main") {
        format!("{dir}/")
    } else {
        format!("{dir}/{stem}/")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_files_are_found_by_folder_and_by_declaration() {
        let tree = Tree::from_files(&[
            ("a/src/lib.rs", "#[cfg(test)] mod twin; mod real;"),
            ("a/src/twin.rs", "mod deep;"),
            ("a/src/twin/deep.rs", ""),
            ("a/src/real.rs", "#[cfg(test)] mod check;"),
            ("a/src/real/check.rs", ""),
            ("a/src/twins.rs", ""),
            ("a/tests/x.rs", ""),
            ("tests/src/lib.rs", ""),
        ]);
        let tests: Vec<&str> = tree
            .rust()
            .filter(|(_, file)| file.test)
            .map(|(path, _)| path)
            .collect();
        let want = [
            "a/src/real/check.rs",
            "a/src/twin.rs",
            "a/src/twin/deep.rs",
            "a/tests/x.rs",
            "tests/src/lib.rs",
        ];
        assert_eq!(tests, want);
    }
}
