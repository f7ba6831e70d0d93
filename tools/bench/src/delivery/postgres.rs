//! Rows per second into a PostgreSQL of its own, with the defaults of Debian's, by the
//! whole path: log, agent, Mosquitto, receiver. Beside it, what the server does alone:
//! as many rows of the same columns inserted from a series that it makes itself.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use super::backlog;
use super::limits::{POSTGRES_ROWS_PER_S_MIN, Sizes};
use super::process::{Process, wait_for};
use super::rig::{self, Forwarding, Payload};
use super::row;
use crate::sys::disk_bytes;
use crate::table::Row;

/// Where Debian has a version's programs.
const VERSIONS: &str = "/usr/lib/postgresql";
pub(crate) const USER: &str = "forebay";
/// Bytes of blocks per reading, roughly and at the least: the backlog is long enough.
const BYTES_PER_READING: u64 = 4;
/// Readings that are committed before the clock runs: the start is over.
const WARM_UP: u64 = 50_000;
/// Like the table of readings, without its name tables and without constraints.
const PEER: &str = "CREATE TABLE peer (time timestamptz, gateway int, device bytea, boot int8, \
    ordinal int8, channel int, value float8, quality int2, epoch int8, log_offset int8); \
    INSERT INTO peer SELECT to_timestamp(n / 10.0), 1, '\\x0123456789abcdef', 1, n, n % 7, \
    n / 100.0, 0, 1, n FROM generate_series(1, ROWS) n";

pub(crate) struct Server {
    /// Ended by SIGINT, its fast shutdown, when dropped.
    process: Process,
    bin: PathBuf,
    pub(crate) port: u16,
}

pub(super) fn run(forebay: &Path, dir: &Path, sizes: Sizes) -> Result<Vec<Row>, String> {
    rig::fresh_dir(dir)?;
    let server = Server::start(dir, &[])?;
    let started = Instant::now();
    server.sql(&PEER.replace("ROWS", &sizes.rows.to_string()))?;
    let alone = sizes.rows as f64 / started.elapsed().as_secs_f64();
    server.sql("DROP TABLE peer")?;

    backlog::write(&dir.join("data"), sizes.rows * BYTES_PER_READING)?;
    let port = rig::free_port()?;
    let _broker = rig::mosquitto(dir, "127.0.0.1", port, &[])?;
    let extra = format!(
        "sink = \"postgres\"\n\n[postgres]\nport = {}\nuser = \"{USER}\"\n\
         database = \"postgres\"\n",
        server.port
    );
    let receiver = rig::receiver(forebay, dir, port, &extra)?;
    let forwarding = Forwarding {
        address: "127.0.0.1".into(),
        port,
        payload: Payload::Compact,
        extra: String::new(),
    };
    let agent = rig::agent(forebay, dir, &forwarding, &[])?;
    let readings = || receiver.number(&["readings"]);
    let before = wait_for("the first rows are committed", || {
        readings().filter(|readings| *readings >= WARM_UP)
    })?;
    let (started, cpu) = (Instant::now(), receiver.process.cpu_s()?);
    let after = wait_for("all rows are committed", || {
        readings().filter(|readings| *readings >= sizes.rows)
    })?;
    let seconds = started.elapsed().as_secs_f64();
    let cpu = receiver.process.cpu_s()? - cpu;
    drop(agent);
    let rows = (after - before) as f64;
    let rate = rows / seconds;
    receiver.process.end()?;
    let stored = disk_bytes(&dir.join("server/base")) as f64 / after as f64;
    let mut row = row(
        "rows per second into PostgreSQL".into(),
        "compact, QoS 1".into(),
        format!(
            "{:.0} k/s; receiver {:.1} processor seconds per million; {stored:.0} bytes a row",
            rate / 1e3,
            cpu / rows * 1e6,
        ),
        Some((rate, POSTGRES_ROWS_PER_S_MIN, true)),
        ">= 100 k/s".into(),
    );
    row.beside = format!(
        "{:.2} of the server alone ({:.0} k/s)",
        rate / alone,
        alone / 1e3
    );
    Ok(vec![row])
}

impl Server {
    /// One with more arguments; it answers when this returns.
    pub(crate) fn start(dir: &Path, more: &[&str]) -> Result<Self, String> {
        let bin = programs()?;
        let port = rig::free_port()?;
        let data = dir.join("server");
        rig::fresh_dir(&data)?;
        open_to_all(dir)?;
        // It refuses to run as root.
        done(Command::new("chown").arg("postgres").arg(&data))?;
        done(as_postgres(&bin.join("initdb")).arg("-D").arg(&data).args([
            "-U",
            USER,
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--no-locale",
        ]))?;
        let mut command = as_postgres(&bin.join("postgres"));
        command.arg("-D").arg(&data).args(["-p", &port.to_string()]);
        command.args(["-c", "unix_socket_directories="]).args(more);
        let server = Self {
            process: Process::start("postgres", command, dir)?,
            bin,
            port,
        };
        wait_for("PostgreSQL answers", || server.sql("SELECT 1").ok())?;
        Ok(server)
    }

    pub(crate) fn sql(&self, text: &str) -> Result<(), String> {
        done(self.psql().args(["-c", text]))
    }

    /// A client that ends at the first error.
    pub(crate) fn psql(&self) -> Command {
        let mut command = Command::new(self.bin.join("psql"));
        command
            .args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-U", USER])
            .args(["-q", "-v", "ON_ERROR_STOP=1", "-d", "postgres"]);
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Killed, it would leave its children.
        if self.process.signal("INT").is_ok() {
            self.process
                .ended_within(std::time::Duration::from_secs(20));
        }
    }
}

/// The newest version's programs.
fn programs() -> Result<PathBuf, String> {
    let found = std::fs::read_dir(VERSIONS).into_iter().flatten().flatten();
    let versions = found.filter_map(|entry| {
        let version: u32 = entry.file_name().to_str()?.parse().ok()?;
        Some((version, entry.path().join("bin")))
    });
    let newest = versions.max().map(|(_, bin)| bin);
    newest.ok_or_else(|| format!("no PostgreSQL in {VERSIONS}: apt-get install postgresql"))
}

/// Its user must come through to its folder.
fn open_to_all(dir: &Path) -> Result<(), String> {
    done(
        Command::new("chmod")
            .arg("a+x")
            .args(dir.ancestors().take(3)),
    )
}

fn as_postgres(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--init-groups"]);
    command.arg(program).current_dir("/").env("LC_ALL", "C");
    command
}

fn done(command: &mut Command) -> Result<(), String> {
    let output = command
        .output()
        .map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{command:?}: {}", said.trim()))
}
