//! The program as it is shipped, running on a config of its own, and what the system
//! says of it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Waits end after this long.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);
/// A running `forebay run`; killed when dropped.
#[derive(Debug)]
pub(super) struct Agent {
    child: Child,
}

/// What an agent is to open and how it writes.
#[derive(Debug)]
pub(super) struct Setting {
    /// `[[device_port]]` tables.
    pub(super) ports: Vec<String>,
    pub(super) group_ms: u32,
    pub(super) linger_ms: u32,
}

impl Agent {
    /// Starts it on an empty log, with a rolling minute of every channel.
    pub(super) fn start(forebay: &Path, dir: &Path, setting: &Setting) -> Result<Self, String> {
        match std::fs::remove_dir_all(dir) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(format!("{}: {error}", dir.display()));
            }
            Ok(()) | Err(_) => {}
        }
        let named = |error: std::io::Error| format!("{}: {error}", dir.display());
        std::fs::create_dir_all(dir).map_err(named)?;
        let config = dir.join("bench.toml");
        std::fs::write(&config, text(setting)).map_err(named)?;
        let child = Command::new(forebay)
            .arg("run")
            .arg("--config")
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log(dir)?)
            .spawn()
            .map_err(|error| format!("{}: {error}", forebay.display()))?;
        Ok(Self { child })
    }

    /// Processor seconds of all its threads so far.
    pub(super) fn cpu_s(&self) -> Result<f64, String> {
        let path = PathBuf::from(format!("/proc/{}/stat", self.child.id()));
        let text = std::fs::read_to_string(&path).map_err(|e| format!("the agent ended: {e}"))?;
        // Behind the name in brackets; user and system time are the 14th and 15th.
        let fields = text.rsplit_once(')').map_or("", |(_, fields)| fields);
        let ticks: Option<u64> = fields
            .split_whitespace()
            .skip(11)
            .take(2)
            .map(|field| field.parse::<u64>().ok())
            .sum();
        let ticks = ticks.ok_or_else(|| format!("{}: no times", path.display()))?;
        Ok(ticks as f64 / 100.0)
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn log(dir: &Path) -> Result<std::fs::File, String> {
    let path = dir.join("agent.log");
    std::fs::File::create(&path).map_err(|error| format!("{}: {error}", path.display()))
}

fn text(setting: &Setting) -> String {
    let Setting {
        ports,
        group_ms,
        linger_ms,
    } = setting;
    format!(
        "[agent]\ngateway = \"bench\"\ndata_dir = \"data\"\nlinger = \"{linger_ms}ms\"\n\
         clock = \"always\"\n\n[log]\ngroup = \"{group_ms}ms\"\n\n\
         [[window]]\nname = \"rolling_1m\"\nkind = \"sliding\"\nsize = \"1m\"\n\
         aggregates = [\"count\", \"mean\", \"min\", \"max\"]\n\n{}",
        ports.join("\n")
    )
}

/// Waits until `is_so`.
pub(super) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) -> Result<(), String> {
    let started = Instant::now();
    while !is_so() {
        if started.elapsed() > PATIENCE {
            return Err(format!("{what}: not within {} s", PATIENCE.as_secs()));
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}
