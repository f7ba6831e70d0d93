//! Who we are and what the kernel says in its small files. Thin: no judgement here.
//! Bound: TEXT_BYTES_MAX of each file, PROCESSES_MAX processes.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;

use rustix::fs::Access;

use super::limits::{PROCESSES_MAX, TEXT_BYTES_MAX};

/// The user that the checks run as.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Me {
    pub(super) user: String,
    pub(super) uid: u32,
}

impl Me {
    pub(super) fn find() -> Self {
        let uid = rustix::process::geteuid().as_raw();
        Self {
            user: user_name(uid),
            uid,
        }
    }
}

/// Text of a small file, without white space around it.
pub(super) fn text(path: impl AsRef<Path>) -> Option<String> {
    let mut bytes = Vec::new();
    let file = File::open(path).ok()?;
    file.take(TEXT_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).trim().to_owned())
}

/// Name of a user, or the number.
pub(super) fn user_name(uid: u32) -> String {
    named("/etc/passwd", uid).unwrap_or_else(|| uid.to_string())
}

/// Name of a group, or the number.
pub(super) fn group_name(gid: u32) -> String {
    named("/etc/group", gid).unwrap_or_else(|| gid.to_string())
}

fn named(path: &str, number: u32) -> Option<String> {
    let text = text(path)?;
    let number = number.to_string();
    let line = text
        .lines()
        .find(|line| line.split(':').nth(2) == Some(&number))?;
    line.split(':').next().map(str::to_owned)
}

/// Whether this user may do that with a path.
pub(super) fn may(path: &Path, access: Access) -> bool {
    rustix::fs::accessat(rustix::fs::CWD, path, access, rustix::fs::AtFlags::EACCESS).is_ok()
}

/// Names of all processes, as the kernel cuts them (15 bytes).
pub(super) fn processes() -> Vec<String> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter(|entry| {
            let name = entry.file_name();
            name.to_str()
                .is_some_and(|name| name.bytes().all(|b| b.is_ascii_digit()))
        })
        .take(PROCESSES_MAX)
        .filter_map(|entry| text(entry.path().join("comm")))
        .collect()
}

/// The number behind a name in a file of lines such as `MemAvailable:  123 kB`.
pub(super) fn number_in(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim_start_matches(':')
        .split_whitespace()
        .next()?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_behind_names() {
        let text = "MemTotal:   100 kB\nMemAvailable:    42 kB\nwrite_bytes: 7\nodd: x\n";
        for (name, want) in [
            ("MemAvailable", Some(42)),
            ("write_bytes", Some(7)),
            ("odd", None),
            ("none", None),
        ] {
            assert_eq!(number_in(text, name), want, "{name}");
        }
    }

    #[test]
    fn users_and_groups_have_names_or_numbers() {
        assert_eq!(user_name(0), "root");
        assert_eq!(group_name(4_000_000_000), "4000000000");
    }
}
