//! Finds the process that has a port open, so that "busy" can name it. Linux
//! only, from `/proc`; sees the processes that this user may look at. Bound:
//! [`HOLDER_PROCESSES_MAX`] processes.

use std::fs;
use std::path::Path;

use super::limits::HOLDER_PROCESSES_MAX;

/// Who has `port` open: `another port of this agent`, when we do not count the
/// caller's own try, or another process, as `process 812 (screen)`.
pub(super) fn find(port: &Path) -> Option<String> {
    let real = fs::canonicalize(port).ok()?;
    if has_open("self", &real) {
        return Some(String::from("another port of this agent"));
    }
    find_other(port)
}

/// Another process with `port` open.
pub(super) fn find_other(port: &Path) -> Option<String> {
    pid_of_other(port).map(|pid| describe(&pid))
}

/// The same, as number and name.
pub(super) fn other(port: &Path) -> Option<(u32, String)> {
    let pid = pid_of_other(port)?;
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    Some((pid.parse().ok()?, name.trim().to_owned()))
}

fn pid_of_other(port: &Path) -> Option<String> {
    let port = fs::canonicalize(port).ok()?;
    let own = std::process::id().to_string();
    fs::read_dir("/proc")
        .ok()?
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.bytes().all(|b| b.is_ascii_digit()) && *name != own)
        .take(HOLDER_PROCESSES_MAX)
        .find(|pid| has_open(pid, &port))
}

fn has_open(pid: &str, port: &Path) -> bool {
    // Unreadable: another user's process, or one that has just ended.
    let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return false;
    };
    files
        .flatten()
        .any(|file| fs::read_link(file.path()).is_ok_and(|target| target == port))
}

fn describe(pid: &str) -> String {
    match fs::read_to_string(format!("/proc/{pid}/comm")) {
        Ok(name) => format!("process {pid} ({})", name.trim()),
        Err(_) => format!("process {pid}"),
    }
}
