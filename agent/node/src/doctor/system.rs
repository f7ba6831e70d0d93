//! Limits of the process, memory, ptys, versions.

use std::fs::OpenOptions;

use super::check::Finding;
use super::codes::{SYSTEM_FILES, SYSTEM_MEMORY, SYSTEM_PTY, SYSTEM_VERSION};
use super::host::{number_in, text};
use super::limits::{FILES_BESIDE, MEMORY_BYTES_MIN};

/// What the kernel says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SystemFacts {
    /// Of the running agent, or else of this shell; `None`: without a limit or unknown.
    pub(super) files_max: Option<u64>,
    pub(super) of_agent: bool,
    /// Ports and destinations of the config.
    pub(super) lines: u64,
    /// Bytes.
    pub(super) memory_free: Option<u64>,
    pub(super) has_pty: bool,
    pub(super) kernel: String,
}

pub(super) fn look(agent: Option<u32>, lines: u64) -> SystemFacts {
    let limits = |pid: String| text(format!("/proc/{pid}/limits"));
    let of_agent = agent.and_then(|pid| limits(pid.to_string()));
    let limits = of_agent.clone().or_else(|| limits("self".to_owned()));
    let free = text("/proc/meminfo").and_then(|text| number_in(&text, "MemAvailable"));
    SystemFacts {
        files_max: limits.and_then(|text| number_in(&text, "Max open files")),
        of_agent: of_agent.is_some(),
        lines,
        memory_free: free
            .map(|kib| kib.saturating_mul(1024))
            .map(|free| free.min(of_group())),
        has_pty: OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/ptmx")
            .is_ok(),
        kernel: text("/proc/sys/kernel/osrelease").unwrap_or_default(),
    }
}

/// What the control group of this process may still take.
fn of_group() -> u64 {
    let number = |name| text(format!("/sys/fs/cgroup/{name}"))?.parse::<u64>().ok();
    match (number("memory.max"), number("memory.current")) {
        (Some(most), Some(now)) => most.saturating_sub(now),
        (None, _) | (_, None) => u64::MAX,
    }
}

pub(super) fn judge(facts: &SystemFacts) -> Vec<Finding> {
    vec![files(facts), memory(facts), pty(facts), version(facts)]
}

fn files(facts: &SystemFacts) -> Finding {
    let needed = FILES_BESIDE + 4 * facts.lines;
    let whose = if facts.of_agent {
        "the running agent"
    } else {
        "a process of this shell"
    };
    match facts.files_max {
        Some(most) if most < needed => Finding::fail(
            &SYSTEM_FILES,
            format!("{whose} may open {most} files, and this config may need {needed}"),
            format!(
                "raise it: LimitNOFILE={} in the service, or `ulimit -n {}`",
                2 * needed,
                2 * needed
            ),
        ),
        Some(most) => Finding::ok(&SYSTEM_FILES, format!("{whose} may open {most} files")),
        None => Finding::ok(
            &SYSTEM_FILES,
            format!("{whose} may open any number of files"),
        ),
    }
}

fn memory(facts: &SystemFacts) -> Finding {
    let mb = |bytes: u64| bytes / 1_000_000;
    match facts.memory_free {
        None => Finding::skip(
            &SYSTEM_MEMORY,
            "the kernel does not say how much memory is free",
        ),
        Some(free) if free < MEMORY_BYTES_MIN && !facts.of_agent => Finding::warn(
            &SYSTEM_MEMORY,
            format!(
                "{} MB of memory are free; the agent wants {} MB",
                mb(free),
                mb(MEMORY_BYTES_MIN)
            ),
            "stop other programs, or give the container more memory",
        ),
        Some(free) => Finding::ok(
            &SYSTEM_MEMORY,
            format!("{} MB of memory are free", mb(free)),
        ),
    }
}

fn pty(facts: &SystemFacts) -> Finding {
    if facts.has_pty {
        return Finding::ok(&SYSTEM_PTY, "ptys are there");
    }
    Finding::warn(
        &SYSTEM_PTY,
        "no pty can be opened: demo, simulated devices and self-test do not work here",
        "mount devpts: `sudo mount -t devpts devpts /dev/pts`",
    )
}

fn version(facts: &SystemFacts) -> Finding {
    Finding::ok(
        &SYSTEM_VERSION,
        format!(
            "forebay {}, Linux {}, {}",
            env!("CARGO_PKG_VERSION"),
            facts.kernel,
            std::env::consts::ARCH
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::super::check::Level;
    use super::*;

    fn usual() -> SystemFacts {
        SystemFacts {
            files_max: Some(1024),
            lines: 2,
            memory_free: Some(1 << 30),
            has_pty: true,
            kernel: "6.1.0".into(),
            ..SystemFacts::default()
        }
    }

    #[test]
    fn limits_at_their_edges() {
        let most = |files| SystemFacts {
            files_max: files,
            ..usual()
        };
        let free = |memory| SystemFacts {
            memory_free: memory,
            ..usual()
        };
        let needed = FILES_BESIDE + 8;
        for (name, facts, at, want) in [
            ("usual", usual(), 0, Level::Ok),
            ("files-1", most(Some(needed - 1)), 0, Level::Fail),
            ("files", most(Some(needed)), 0, Level::Ok),
            ("files+1", most(Some(needed + 1)), 0, Level::Ok),
            ("no limit", most(None), 0, Level::Ok),
            ("memory-1", free(Some(MEMORY_BYTES_MIN - 1)), 1, Level::Warn),
            ("memory", free(Some(MEMORY_BYTES_MIN)), 1, Level::Ok),
            ("memory+1", free(Some(MEMORY_BYTES_MIN + 1)), 1, Level::Ok),
            ("memory unknown", free(None), 1, Level::Skip),
            (
                "no pty",
                SystemFacts {
                    has_pty: false,
                    ..usual()
                },
                2,
                Level::Warn,
            ),
        ] {
            assert_eq!(judge(&facts)[at].level, want, "{name}");
        }
    }
}
