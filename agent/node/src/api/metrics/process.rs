//! What the system says of this process, under the names that Prometheus's own clients
//! use. A figure that it does not give is left out. Knows no agent.

use std::fs;

use super::table::Kind;

/// Ticks a second in which Linux gives CPU times to programs, on every architecture.
const TICKS_PER_S: f64 = 100.0;

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Process {
    pub resident_bytes: Option<f64>,
    pub virtual_bytes: Option<f64>,
    pub open_fds: Option<f64>,
    pub max_fds: Option<f64>,
    pub cpu_seconds: Option<f64>,
    pub start_time_seconds: Option<f64>,
    pub threads: Option<f64>,
}

impl Process {
    /// Name, help and type of each.
    pub(super) const ABOUT: [(&'static str, &'static str, Kind); 7] = [
        (
            "process_resident_memory_bytes",
            "Memory of this process that is in RAM.",
            Kind::Gauge,
        ),
        (
            "process_virtual_memory_bytes",
            "Addresses that this process has mapped.",
            Kind::Gauge,
        ),
        (
            "process_open_fds",
            "Files, sockets and pipes that are open.",
            Kind::Gauge,
        ),
        (
            "process_max_fds",
            "How many of them the system allows.",
            Kind::Gauge,
        ),
        (
            "process_cpu_seconds_total",
            "CPU time that this process has used, user and system.",
            Kind::Counter,
        ),
        (
            "process_start_time_seconds",
            "When it was started, seconds since 1970.",
            Kind::Gauge,
        ),
        ("process_threads", "Threads of this process.", Kind::Gauge),
    ];

    /// Of this process, now.
    #[must_use]
    pub fn now() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let fds = fs::read_dir("/proc/self/fd").ok();
        Self {
            // The folder itself is open while it is read.
            open_fds: fds.map(|fds| fds.count().saturating_sub(1) as f64),
            ..Self::parse(
                (&read("/proc/self/status"), &read("/proc/self/stat")),
                (&read("/proc/self/limits"), &read("/proc/stat")),
            )
        }
    }

    fn parse((status, stat): (&str, &str), (limits, system): (&str, &str)) -> Self {
        let kib = |name: &str| Some(field(status, name)? * 1024.0);
        // Behind the name in parentheses, which may hold anything.
        let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
        let fields: Vec<&str> = after.split_whitespace().collect();
        let nth = |n: usize| fields.get(n)?.parse::<f64>().ok();
        let cpu = nth(11).zip(nth(12));
        let boot = field(system, "btime");
        let max_fds = limits
            .lines()
            .find_map(|line| line.strip_prefix("Max open files"));
        Self {
            resident_bytes: kib("VmRSS:"),
            virtual_bytes: kib("VmSize:"),
            open_fds: None,
            max_fds: max_fds.and_then(|rest| rest.split_whitespace().next()?.parse().ok()),
            cpu_seconds: cpu.map(|(user, system)| (user + system) / TICKS_PER_S),
            start_time_seconds: boot
                .zip(nth(19))
                .map(|(boot, ticks)| boot + ticks / TICKS_PER_S),
            threads: field(status, "Threads:"),
        }
    }

    pub(super) fn metrics(
        &self,
    ) -> impl Iterator<Item = (&'static str, &'static str, Kind, f64)> + use<> {
        let figures = [
            self.resident_bytes,
            self.virtual_bytes,
            self.open_fds,
            self.max_fds,
            self.cpu_seconds,
            self.start_time_seconds,
            self.threads,
        ];
        let all = Self::ABOUT.into_iter().zip(figures);
        all.filter_map(|((name, help, kind), figure)| Some((name, help, kind, figure?)))
    }
}

/// The first number behind a name at the beginning of a line.
fn field(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_the_system_are_read() {
        let status = "Name:\tx\nVmSize:\t  2048 kB\nVmRSS:\t  1024 kB\nThreads:\t7\n";
        let stat = "42 (a ) b) S 1 1 1 0 -1 0 0 0 0 0 150 50 0 0 20 0 7 0 1000 0 0";
        let limits = "Limit  Soft  Hard\nMax open files            1024      4096     files\n";
        let system = "cpu 1 2\nbtime 1700000000\n";
        let process = Process::parse((status, stat), (limits, system));
        assert_eq!(
            process,
            Process {
                resident_bytes: Some(1_048_576.0),
                virtual_bytes: Some(2_097_152.0),
                open_fds: None,
                max_fds: Some(1024.0),
                cpu_seconds: Some(2.0),
                start_time_seconds: Some(1_700_000_010.0),
                threads: Some(7.0),
            }
        );
        assert_eq!(Process::parse(("", ""), ("", "")), Process::default());
    }

    #[test]
    fn this_process_has_figures() {
        let process = Process::now();
        assert!(process.resident_bytes > Some(0.0), "{process:?}");
        assert!(process.open_fds > Some(0.0), "{process:?}");
        assert!(process.start_time_seconds > Some(1e9), "{process:?}");
    }
}
