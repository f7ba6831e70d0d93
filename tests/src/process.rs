//! The real binary as a part of a test: starts it, kills it, asks it.
//!
//! Owns each process that it started, and ends exactly that one. What a process
//! prints goes to a file in the test's own folder, and is shown when a test fails.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::wait;

/// Names a binary that is built already; without it, the release build is made.
pub const BIN_VARIABLE: &str = "FOREBAY_BIN";
/// How long a command that answers and ends may take.
pub const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// How long a process may take to end after a polite signal.
pub const END_LIMIT: Duration = Duration::from_secs(15);
/// How much of a log is shown when a test fails.
const SHOWN_LINES: usize = 60;

/// The root of the clone.
#[must_use]
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the tests stand one folder below the root")
}

/// A program of an environment of PyPI, which `cargo xtask setup` makes; `tmp` is the test's
/// `CARGO_TARGET_TMPDIR`.
///
/// # Panics
/// When it is not there.
#[must_use]
pub fn python_program(tmp: &str, environment: &str, program: &str) -> PathBuf {
    let target = Path::new(tmp).parent().expect("a folder of the target");
    let path = target
        .join("python")
        .join(environment)
        .join("bin")
        .join(program);
    assert!(
        path.is_file(),
        "there is no {}: run `cargo xtask setup`, which installs it",
        path.display()
    );
    path
}

/// The binary that a user gets from `cargo build --release`.
///
/// # Panics
/// When it does not build.
pub fn forebay_bin() -> &'static Path {
    static BIN: OnceLock<PathBuf> = OnceLock::new();
    BIN.get_or_init(|| match std::env::var_os(BIN_VARIABLE) {
        Some(path) => PathBuf::from(path),
        None => build(),
    })
}

fn build() -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args([
            "build",
            "--release",
            "--package",
            "forebay",
            "--bin",
            "forebay",
        ])
        .arg("--message-format=json-render-diagnostics")
        .current_dir(root())
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .expect("cargo runs these tests, so it starts");
    assert!(output.status.success(), "the release binary did not build");
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .expect("cargo names the binary that it built")
}

/// A process of a test.
#[derive(Debug)]
pub struct Running {
    name: String,
    child: Child,
    log: PathBuf,
    /// It leads a process group, which ends with it.
    leads: bool,
    /// The symlink to a pty that it was told to make, and the start of the names of more.
    link: Option<PathBuf>,
}

/// The path after a command's `--link`.
fn link_of(command: &Command) -> Option<PathBuf> {
    let mut args = command.get_args().skip_while(|arg| *arg != "--link");
    args.nth(1).map(PathBuf::from)
}

impl Running {
    /// Starts `forebay` with `args`; its output goes to a new file in `dir`.
    pub fn forebay(name: &str, args: &[&str], dir: &Path) -> Self {
        let mut command = Command::new(forebay_bin());
        command.args(args);
        Self::start(name, command, dir)
    }

    /// Starts a command that leads a group of its own, as in a terminal of its own.
    ///
    /// # Panics
    /// When it does not start.
    pub fn group(name: &str, mut command: Command, dir: &Path) -> Self {
        use std::os::unix::process::CommandExt;
        command.process_group(0);
        let mut running = Self::start(name, command, dir);
        running.leads = true;
        running
    }

    /// Starts any command, without a terminal.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start(name: &str, mut command: Command, dir: &Path) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let log = dir.join(format!("{number}-{name}.log"));
        let file = File::create(&log).expect("the test's folder takes files");
        let errors = file.try_clone().expect("a file has a second handle");
        let link = link_of(&command);
        let child = command
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(errors)
            .spawn()
            .unwrap_or_else(|error| panic!("{name} did not start: {error}"));
        Self {
            name: name.to_owned(),
            child,
            log,
            leads: false,
            link,
        }
    }

    /// Its process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it printed so far, both streams.
    #[must_use]
    pub fn printed(&self) -> String {
        fs::read(&self.log)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// How it ended, if it did.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child can be asked")
    }

    /// Fails the test if it has ended by itself.
    ///
    /// # Panics
    /// With what it printed.
    #[track_caller]
    pub fn must_run(&mut self) {
        if let Some(status) = self.ended() {
            panic!(
                "{} ended by itself with {status}:\n{}",
                self.name,
                self.printed()
            );
        }
    }

    /// Takes its links to ptys away, as the system does with the node of an unplugged
    /// adapter: whoever opens the next pty, such as another test, may get the same path.
    fn unlink_ptys(&self) {
        let Some(link) = &self.link else { return };
        let (Some(folder), Some(name)) = (link.parent(), link.file_name()) else {
            return;
        };
        let name = name.to_string_lossy();
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
            if is_link && entry.file_name().to_string_lossy().starts_with(&*name) {
                // Gone in this moment, by its owner: as well.
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// Kills it as `kill -9` does: it can save nothing.
    pub fn kill_9(mut self) {
        self.unlink_ptys();
        self.child.kill().expect("a child can be killed");
        self.child.wait().expect("a killed child ends");
    }

    /// Asks it to end by `signal`, such as `TERM`, and waits until it has.
    ///
    /// # Panics
    /// When it has not ended within [`END_LIMIT`].
    #[track_caller]
    pub fn end_by(mut self, signal: &str) -> ExitStatus {
        send(signal, &self.child.id().to_string());
        self.wait_for_end(&format!("{} ends after {signal}", self.name), END_LIMIT)
    }

    /// Waits until it ends by itself.
    ///
    /// # Panics
    /// When it has not within `limit`.
    #[track_caller]
    pub fn wait_for_end(&mut self, what: &str, limit: Duration) -> ExitStatus {
        wait::until(what, limit, || self.ended().ok_or("it still runs"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.unlink_ptys();
        if self.child.try_wait().ok().flatten().is_none() {
            if self.leads {
                send("KILL", &format!("-{}", self.child.id()));
            }
            // Both fail only if it ended in between.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        if std::thread::panicking() {
            let text = self.printed();
            let lines: Vec<&str> = text.lines().collect();
            let tail = &lines[lines.len().saturating_sub(SHOWN_LINES)..];
            eprintln!(
                "---- end of the log of {}\n{}\n----",
                self.name,
                tail.join("\n")
            );
        }
    }
}

/// Sends a signal to a process, or to a group when `target` starts with `-`.
///
/// # Panics
/// When there is no shell.
pub fn send(signal: &str, target: &str) {
    // The shell's own kill: not every machine has one as a program.
    Command::new("sh")
        .args(["-c", &format!("kill -s {signal} -- {target}")])
        .stderr(Stdio::null())
        .status()
        .expect("every machine has a shell");
}

/// Runs `forebay` to its end and gives what it printed on stdout.
///
/// # Errors
/// How it ended, with what it printed on stderr.
pub fn ask(args: &[&str], dir: &Path) -> Result<String, String> {
    let mut command = Command::new(forebay_bin());
    command.args(args);
    run(command, dir, ANSWER_LIMIT)
}

/// Runs a command to its end and gives what it printed on stdout.
///
/// # Errors
/// How it ended, with what it printed on stderr; also when it took too long.
pub fn run(mut command: Command, dir: &Path, limit: Duration) -> Result<String, String> {
    let line = format!("{command:?}");
    // Files and not pipes: a pipe that nobody empties would stop it.
    let out = tempfile::NamedTempFile::new_in(dir).map_err(|error| error.to_string())?;
    let errors = tempfile::NamedTempFile::new_in(dir).map_err(|error| error.to_string())?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(out.reopen().map_err(|error| error.to_string())?)
        .stderr(errors.reopen().map_err(|error| error.to_string())?)
        .spawn()
        .map_err(|error| format!("{line} did not start: {error}"))?;
    let status = wait::until(&line, limit, || {
        child.try_wait().ok().flatten().ok_or("it still runs")
    });
    let text = |path: &Path| {
        fs::read(path)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    };
    if status.success() {
        Ok(text(out.path()))
    } else {
        let said = text(errors.path());
        Err(format!("{line} ended with {status}: {}", said.trim_end()))
    }
}
