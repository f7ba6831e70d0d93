//! What the system says of this process, and one core for it.
#![allow(unsafe_code, reason = "an affinity has no safe call in std")]

use std::path::Path;

/// Keeps this thread and all that it starts on the first core that it may use.
///
/// # Errors
/// When the system refuses.
pub(crate) fn pin_to_one_core() -> Result<(), String> {
    // SAFETY: a zeroed cpu_set_t is an empty set, and both calls get its true size.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        let size = size_of::<libc::cpu_set_t>();
        if libc::sched_getaffinity(0, size, &raw mut set) != 0 {
            return Err(last_error("sched_getaffinity"));
        }
        let may = |core: &usize| libc::CPU_ISSET(*core, &set);
        let core = (0..libc::CPU_SETSIZE as usize).rfind(may).unwrap_or(0);
        let mut one: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut one);
        if libc::sched_setaffinity(0, size, &raw const one) != 0 {
            return Err(last_error("sched_setaffinity"));
        }
    }
    Ok(())
}

fn last_error(doing: &str) -> String {
    format!("{doing}: {}", std::io::Error::last_os_error())
}

/// Processor seconds of this thread so far.
///
/// # Errors
/// When the system refuses.
pub(crate) fn thread_cpu_s() -> Result<f64, String> {
    // SAFETY: a zeroed timespec is valid, and the call only writes it.
    let at = unsafe {
        let mut at: libc::timespec = std::mem::zeroed();
        if libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut at) != 0 {
            return Err(last_error("clock_gettime"));
        }
        at
    };
    Ok(at.tv_sec as f64 + at.tv_nsec as f64 / 1e9)
}

/// Processor seconds of all children that ended so far.
///
/// # Errors
/// When the system refuses.
pub(crate) fn children_cpu_s() -> Result<f64, String> {
    // SAFETY: a zeroed rusage is valid, and the call only writes it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        if libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) != 0 {
            return Err(last_error("getrusage"));
        }
        usage
    };
    let seconds = |at: libc::timeval| at.tv_sec as f64 + at.tv_usec as f64 / 1e6;
    Ok(seconds(usage.ru_utime) + seconds(usage.ru_stime))
}

/// A number of a file of /proc/self, by the name before its colon.
fn number(file: &str, name: &str) -> Result<u64, String> {
    let path = format!("/proc/self/{file}");
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let digits = line.and_then(|line| line.trim_start_matches(':').split_whitespace().next());
    digits
        .and_then(|digits| digits.parse().ok())
        .ok_or_else(|| format!("{path} has no {name}"))
}

/// Bytes that this process made the device write so far.
pub(crate) fn device_bytes_written() -> Result<u64, String> {
    number("io", "write_bytes")
}

/// The largest resident set so far, bytes.
pub(crate) fn rss_peak_bytes() -> Result<u64, String> {
    Ok(number("status", "VmHWM")? * 1024)
}

/// Bytes that a folder takes on the disk, with all below it. What goes away
/// meanwhile counts nothing.
pub(crate) fn disk_bytes(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let Ok(entries) = std::fs::read_dir(dir) else {
        return 0;
    };
    let entry_bytes = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => disk_bytes(&entry.path()),
        Ok(meta) => meta.blocks() * 512,
        Err(_) => 0,
    };
    entries.filter_map(Result::ok).map(entry_bytes).sum()
}

/// Gives this thread a processor whenever it wants one, where the system lets us. For one
/// that stands for another computer, and wants little.
pub(crate) fn go_first() {
    let priority = libc::sched_param { sched_priority: 1 };
    // SAFETY: the priority lives through the call, which only reads it.
    let _ = unsafe { libc::sched_setscheduler(0, libc::SCHED_RR, &raw const priority) };
}
