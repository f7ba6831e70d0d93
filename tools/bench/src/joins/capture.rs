//! From a change in a PostgreSQL of its own, by the write log, the agent and its log, to
//! the row of a join that a local reader is given: how long one takes, and how many come
//! through in a second. Beside it, what the database does alone.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use super::Args;
use crate::delivery::postgres::{Server, USER};
use crate::delivery::process::{Process, wait_for};
use crate::delivery::rig;

/// What came of it.
#[derive(Debug)]
pub(super) struct Captured {
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) max_ms: f64,
    pub(super) singles: usize,
    pub(super) changes_per_s: f64,
    pub(super) changes: u64,
    /// Inserts of the same rows into a table that nobody reads.
    pub(super) database_per_s: f64,
}

/// Rows that one statement, and so one transaction, writes.
const ROWS_PER_COMMIT: u64 = 1_000;
/// Plants of the config that machines stand in.
const PLANTS: u64 = 10;
/// Pause between two single changes, as nobody writes without one.
const PAUSE: Duration = Duration::from_millis(3);
const PATIENCE: Duration = Duration::from_secs(120);

const TABLES: &str = "CREATE TABLE machines (id text PRIMARY KEY, plant text, n bigint); \
    CREATE TABLE alone (id text PRIMARY KEY, plant text, n bigint); \
    CREATE PUBLICATION forebay FOR TABLE machines";

pub(super) fn run(args: &Args) -> Result<Captured, String> {
    let dir = args.dir.join("capture");
    rig::fresh_dir(&dir)?;
    let server = Server::start(&dir, &["-c", "wal_level=logical"])?;
    server.sql(TABLES)?;
    let sizes = args.sizes();
    let started = Instant::now();
    insert(&server, "alone", sizes.changes)?;
    let database_per_s = sizes.changes as f64 / started.elapsed().as_secs_f64();
    let _agent = agent(&args.forebay, &dir, server.port)?;
    let watch = Watch::start(&args.forebay, &dir)?;
    let mut took = single_changes(&server, &watch, sizes.single_changes)?;
    took.sort_by(f64::total_cmp);
    let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize];
    let started = Instant::now();
    insert(&server, "machines", sizes.changes)?;
    watch.until(&format!("b{}", sizes.changes))?;
    let seconds = started.elapsed().as_secs_f64();
    Ok(Captured {
        p50_ms: at(0.5),
        p99_ms: at(0.99),
        max_ms: at(1.0),
        singles: took.len(),
        changes_per_s: sizes.changes as f64 / seconds,
        changes: sizes.changes,
        database_per_s,
    })
}

/// Inserts rows `b1` and on, a thousand per transaction.
fn insert(server: &Server, table: &str, rows: u64) -> Result<(), String> {
    let mut psql = Psql::start(server)?;
    for from in (1..=rows).step_by(ROWS_PER_COMMIT as usize) {
        let to = (from + ROWS_PER_COMMIT - 1).min(rows);
        psql.line(&format!(
            "INSERT INTO {table} SELECT 'b' || n, 'p' || n % {PLANTS}, n \
             FROM generate_series({from}, {to}) n;"
        ))?;
    }
    psql.end()
}

/// Milliseconds that each took.
fn single_changes(server: &Server, watch: &Watch, count: usize) -> Result<Vec<f64>, String> {
    let mut psql = Psql::start(server)?;
    let mut took = Vec::with_capacity(count);
    for n in 0..count {
        let key = format!("s{n}");
        let started = Instant::now();
        psql.line(&format!(
            "INSERT INTO machines VALUES ('{key}', 'p1', {n});"
        ))?;
        let came = watch.until(&key)?;
        took.push(came.duration_since(started).as_secs_f64() * 1e3);
        std::thread::sleep(PAUSE);
    }
    psql.end()?;
    Ok(took)
}

/// An agent whose table `machines` is that of the database; it streams when this returns.
fn agent(forebay: &Path, dir: &Path, port: u16) -> Result<Process, String> {
    let plants: Vec<String> = (0..PLANTS)
        .map(|n| format!("{{ id = \"p{n}\" }}"))
        .collect();
    let config = dir.join("agent.toml");
    let text = format!(
        "[agent]\ngateway = \"bench\"\ndata_dir = \"data\"\nclock = \"always\"\n\n\
         [[database]]\nname = \"main\"\nport = {port}\nuser = \"{USER}\"\n\
         database = \"postgres\"\ntls = \"off\"\nheartbeat = \"1s\"\n\n\
         [[table]]\nname = \"machines\"\nkey = \"id\"\nsource = \"postgres\"\n\
         database = \"main\"\nrelation = \"public.machines\"\n\n\
         [[table]]\nname = \"plants\"\nkey = \"id\"\nsource = \"config\"\nrows = [{}]\n\n\
         [[join]]\nname = \"joined\"\nkind = \"table\"\nleft = {{ from = \"machines\" }}\n\
         right = {{ from = \"plants\" }}\non = \"plant\"\n",
        plants.join(", ")
    );
    std::fs::write(&config, text).map_err(|error| format!("{}: {error}", config.display()))?;
    let mut command = Command::new(forebay);
    command.arg("run").arg("--config").arg(&config);
    Process::start("agent", command, dir)
}

/// A local reader of the join.
struct Watch {
    child: Child,
    lines: Receiver<(Instant, String)>,
}

impl Watch {
    fn start(forebay: &Path, dir: &Path) -> Result<Self, String> {
        wait_for("the agent answers", || {
            dir.join("data/forebay.sock").exists().then_some(())
        })?;
        let mut child = Command::new(forebay)
            .args([
                "watch",
                "joined",
                "--json",
                "--from",
                "beginning",
                "--config",
            ])
            .arg(dir.join("agent.toml"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("forebay watch: {error}"))?;
        let out = child.stdout.take().ok_or("forebay watch has no output")?;
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                if sender.send((Instant::now(), line)).is_err() {
                    return;
                }
            }
        });
        Ok(Self { child, lines })
    }

    /// When the row of this key came; those before it are passed over.
    fn until(&self, key: &str) -> Result<Instant, String> {
        let wanted = format!("\"key\":\"{key}\"");
        let started = Instant::now();
        while started.elapsed() < PATIENCE {
            match self.lines.recv_timeout(PATIENCE) {
                Ok((at, line)) if line.contains(&wanted) => return Ok(at),
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err("forebay watch ended".into()),
            }
        }
        Err(format!(
            "{key} did not come within {} s",
            PATIENCE.as_secs()
        ))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection that takes statements line by line.
struct Psql {
    child: Child,
    to: ChildStdin,
}

impl Psql {
    fn start(server: &Server) -> Result<Self, String> {
        let mut child = server
            .psql()
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| format!("psql: {error}"))?;
        let to = child.stdin.take().ok_or("psql takes nothing")?;
        Ok(Self { child, to })
    }

    fn line(&mut self, text: &str) -> Result<(), String> {
        let done = writeln!(self.to, "{text}").and_then(|()| self.to.flush());
        done.map_err(|error| format!("psql: {error}"))
    }

    /// Waits until all is done.
    fn end(mut self) -> Result<(), String> {
        drop(self.to);
        let status = self.child.wait().map_err(|error| error.to_string())?;
        match status.success() {
            true => Ok(()),
            false => Err(format!("psql ended with {status}")),
        }
    }
}
