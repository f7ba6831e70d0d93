//! A program that is measured: started with its output in a file, what the system says
//! of it, killed when dropped.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::limits::PATIENCE;

const LOOK: Duration = Duration::from_millis(20);
/// A program that is asked to end does so within this.
const END_MAX: Duration = Duration::from_secs(20);

/// A running program.
#[derive(Debug)]
pub(crate) struct Process {
    name: &'static str,
    child: Child,
}

impl Process {
    /// Starts it; what it prints stands in `<dir>/<name>.log`.
    pub(crate) fn start(
        name: &'static str,
        mut command: Command,
        dir: &Path,
    ) -> Result<Self, String> {
        let path = dir.join(format!("{name}.log"));
        let file = File::create(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let errors = file.try_clone().map_err(|error| error.to_string())?;
        let child = command
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(errors)
            .spawn()
            .map_err(|error| format!("{name} did not start: {error}"))?;
        Ok(Self { name, child })
    }

    fn read(&self, file: &str) -> Result<String, String> {
        let path = format!("/proc/{}/{file}", self.child.id());
        std::fs::read_to_string(path).map_err(|error| format!("{} ended: {error}", self.name))
    }

    /// Processor seconds of all its threads so far.
    pub(crate) fn cpu_s(&self) -> Result<f64, String> {
        let text = self.read("stat")?;
        // Behind the name in brackets; user and system time are the 14th and 15th.
        let fields = text.rsplit_once(')').map_or("", |(_, fields)| fields);
        let ticks: Option<u64> = fields
            .split_whitespace()
            .skip(11)
            .take(2)
            .map(|field| field.parse::<u64>().ok())
            .sum();
        let ticks = ticks.ok_or_else(|| format!("{}: no times", self.name))?;
        Ok(ticks as f64 / 100.0)
    }

    /// Its resident memory, bytes: `VmRSS` now, `VmHWM` at the most.
    pub(crate) fn memory_bytes(&self, name: &str) -> Result<u64, String> {
        let text = self.read("status")?;
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|line| line.trim_start_matches(':').split_whitespace().next());
        let kib: Option<u64> = kib.and_then(|kib| kib.parse().ok());
        Ok(kib.ok_or_else(|| format!("{}: no {name}", self.name))? * 1024)
    }

    /// Sends it a signal by the shell's own kill.
    pub(super) fn signal(&self, signal: &str) -> Result<(), String> {
        let line = format!("kill -s {signal} {}", self.child.id());
        let done = Command::new("sh").args(["-c", &line]).status();
        match done.map_err(|error| error.to_string())?.success() {
            true => Ok(()),
            false => Err(format!("{}: {line} failed", self.name)),
        }
    }

    /// Asks it to end and waits until it has.
    pub(crate) fn end(mut self) -> Result<(), String> {
        self.signal("TERM")?;
        match self.ended_within(END_MAX) {
            true => Ok(()),
            false => Err(format!("{} does not end", self.name)),
        }
    }

    pub(super) fn ended_within(&mut self, limit: Duration) -> bool {
        let started = Instant::now();
        while started.elapsed() < limit {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return true;
            }
            std::thread::sleep(LOOK);
        }
        false
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until `of` gives something.
pub(crate) fn wait_for<T>(what: &str, mut of: impl FnMut() -> Option<T>) -> Result<T, String> {
    let started = Instant::now();
    loop {
        if let Some(found) = of() {
            return Ok(found);
        }
        if started.elapsed() > PATIENCE {
            return Err(format!("{what}: not within {} s", PATIENCE.as_secs()));
        }
        std::thread::sleep(LOOK);
    }
}
