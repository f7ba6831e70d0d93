//! The one error of the config: file, line, what and what would be right.

use std::fmt;
use std::path::{Path, PathBuf};

/// Why a config is not used. Its text never holds a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    pub file: PathBuf,
    /// From 1; `None` when the file as a whole is meant.
    pub line: Option<usize>,
    /// `[section] key`, the section alone, or empty.
    pub place: String,
    pub what: String,
}

impl ConfigError {
    /// An error about the file as a whole.
    pub fn whole_file(file: &Path, what: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            line: None,
            place: String::new(),
            what: what.into(),
        }
    }
}

/// Where a key stands, for what turns out to be wrong with its value later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub file: PathBuf,
    /// From 1; `None` for a default.
    pub line: Option<usize>,
    /// `[section] key`
    pub key: String,
}

impl Place {
    /// An error about the key.
    pub fn error(&self, what: impl Into<String>) -> ConfigError {
        ConfigError {
            file: self.file.clone(),
            line: self.line,
            place: self.key.clone(),
            what: what.into(),
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, "{line}:")?;
        }
        if !self.place.is_empty() {
            write!(f, " {}:", self.place)?;
        }
        write!(f, " {}", self.what)
    }
}

impl std::error::Error for ConfigError {}

/// `a, b, c`.
pub fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().collect::<Vec<_>>().join(", ")
}
