//! A PostgreSQL of our own for a test: own port on loopback, own directory, own
//! roles; stopped with its handle. Uses the programs of Debian's `postgresql`.
//!
//! Always holds: `start` returns when it answers, `stop` and `kill` when none of
//! its processes is left. Waits at most [`START_MAX`]; knows nothing of the sink.
//! The server refuses to run as root: then it runs as the user `postgres`.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use forebay_node::config::{PartitionSize, PostgresConfig, PostgresPassword};
use postgres::{Client, NoTls};
use tempfile::TempDir;

use crate::process::{END_LIMIT, send};
use crate::wait;

/// Longest time from start to answering, with the recovery after a crash.
pub const START_MAX: Duration = Duration::from_secs(60);
/// Where Debian has a version's programs.
const VERSIONS: &str = "/usr/lib/postgresql";
/// Who may do everything, without a password.
const ADMIN: &str = "admin";
/// The role of a receiver, with [`PASSWORD`].
pub const USER: &str = "forebay";
/// Its password: a text that is found nowhere else.
pub const PASSWORD: &str = "pw-7d1f-not-to-be-seen";
/// The database, which the role may create schemas in.
pub const DATABASE: &str = "readings";
/// Tries to find a port that nobody takes meanwhile.
const PORT_TRIES: usize = 5;
/// How much of its log is shown when it does not start.
const SHOWN_LINES: usize = 30;

/// A server with its directory.
#[derive(Debug)]
pub struct Postgres {
    dir: TempDir,
    bin: PathBuf,
    port: u16,
    extra: String,
    child: Option<Child>,
}

impl Postgres {
    /// Starts one with the server's own defaults.
    ///
    /// # Panics
    /// When it cannot be started; says how to install it.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with("")
    }

    /// Starts one with more lines of `postgresql.conf`.
    ///
    /// # Panics
    /// When it cannot be started; says how to install it.
    #[must_use]
    pub fn start_with(extra: &str) -> Self {
        let dir = TempDir::new().expect("a temporary directory");
        let mut server = Self {
            dir,
            bin: programs(),
            port: 0,
            extra: extra.to_owned(),
            child: None,
        };
        server.make_data();
        // Once: receivers that run read it again whenever they connect.
        let password = fs::write(server.password_file(), format!("{PASSWORD}\n"));
        password.expect("the directory takes files");
        let mut failures = String::new();
        for _ in 0..PORT_TRIES {
            server.port = free_port();
            server.configure();
            match server.spawn() {
                Ok(()) => {
                    server.make_role();
                    return server;
                }
                Err(failure) => failures.push_str(&failure),
            }
        }
        panic!("PostgreSQL does not start:\n{failures}");
    }

    /// The port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its directory: a test may put files there that its config names.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Puts a file beside its data, which only the server may read.
    ///
    /// # Panics
    /// When the directory takes no file.
    #[must_use]
    pub fn put(&self, name: &str, content: &str) -> PathBuf {
        let file = self.dir.path().join(name);
        fs::write(&file, content).expect("the directory takes files");
        let owner = fs::metadata(self.data()).expect("it has data").uid();
        std::os::unix::fs::chown(&file, Some(owner), None).expect("ours, or we are root");
        let mode = fs::Permissions::from_mode(0o600);
        fs::set_permissions(&file, mode).expect("ours, or we are root");
        file
    }

    /// Where the role's password is, for a receiver's config.
    #[must_use]
    pub fn password_file(&self) -> PathBuf {
        self.dir.path().join("password")
    }

    /// The `[postgres]` section of a receiver's config.
    #[must_use]
    pub fn section(&self) -> String {
        let port = self.port;
        let file = self.password_file();
        format!(
            "[postgres]\nhost = \"127.0.0.1\"\nport = {port}\nuser = \"{USER}\"\n\
             database = \"{DATABASE}\"\npassword_file = {file:?}\n"
        )
    }

    /// The same as a config, without TLS.
    #[must_use]
    pub fn config(&self) -> PostgresConfig {
        config_of(self.port, PostgresPassword::File(self.password_file()))
    }

    /// A connection that may do everything, to the receiver's database.
    ///
    /// # Panics
    /// When the server does not let it in.
    #[must_use]
    pub fn admin(&self) -> Client {
        self.connect(ADMIN, DATABASE).expect("the server runs")
    }

    /// The one number that a query gives.
    ///
    /// # Panics
    /// When it gives another thing.
    #[must_use]
    pub fn number(&self, sql: &str) -> i64 {
        let row = self.admin().query_one(sql, &[]);
        row.expect("the query gives one row").get(0)
    }

    fn connect(&self, user: &str, database: &str) -> Result<Client, postgres::Error> {
        postgres::Config::new()
            .host("127.0.0.1")
            .port(self.port)
            .user(user)
            .dbname(database)
            .connect_timeout(Duration::from_secs(5))
            .connect(NoTls)
    }

    /// Starts it again with other lines of `postgresql.conf`.
    ///
    /// # Panics
    /// When it does not start.
    pub fn restart_with(&mut self, extra: &str) {
        self.stop();
        extra.clone_into(&mut self.extra);
        self.restart();
    }

    /// Starts it again on the same port with what is on its disk.
    ///
    /// # Panics
    /// When it does not start.
    pub fn restart(&mut self) {
        self.stop();
        self.configure();
        self.spawn().expect("it started before");
    }

    /// Ends it in order; connections are cut.
    ///
    /// # Panics
    /// When it does not end.
    pub fn stop(&mut self) {
        // INT is its fast shutdown: TERM would wait for clients.
        self.end("INT");
    }

    /// Kills all of its processes as `kill -9` does.
    ///
    /// # Panics
    /// When they do not end.
    pub fn kill(&mut self) {
        let Some(child) = &self.child else { return };
        let parent = child.id();
        // Stopped, it starts none while they are counted.
        send("STOP", &parent.to_string());
        let children = children_of(parent);
        self.end("KILL");
        for child in &children {
            send("KILL", &child.to_string());
        }
        wait::until("the server's children end", END_LIMIT, || {
            match children.iter().find(|child| is_alive(**child)) {
                None => Ok(()),
                Some(child) => Err(format!("{child} runs")),
            }
        });
    }

    fn end(&mut self, signal: &str) {
        let Some(mut child) = self.child.take() else {
            return;
        };
        send(signal, &child.id().to_string());
        wait::until("the server ends", END_LIMIT, || {
            child.try_wait().ok().flatten().ok_or("it runs")
        });
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn make_data(&self) {
        if is_root() {
            run(Command::new("chown").arg("postgres").arg(self.dir.path()));
        }
        run(server_user(&self.bin.join("initdb"))
            .arg("-D")
            .arg(self.data())
            .args(["-U", ADMIN, "-A", "trust", "-E", "UTF8"])
            .args(["--no-locale", "--no-sync"]));
        let rules = format!(
            "host all {ADMIN} 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
        );
        let file = self.data().join("pg_hba.conf");
        fs::write(file, rules).expect("the directory takes files");
    }

    fn configure(&self) {
        // A zone that is no whole number of hours shows who forgets about zones.
        let conf = format!(
            "listen_addresses = '127.0.0.1'\nport = {}\nunix_socket_directories = ''\n\
             timezone = 'Asia/Kathmandu'\n{}\n",
            self.port, self.extra
        );
        let file = self.data().join("postgresql.conf");
        fs::write(file, conf).expect("the directory takes files");
    }

    fn spawn(&mut self) -> Result<(), String> {
        let log = self.dir.path().join("server.log");
        let file = fs::File::create(&log).map_err(|error| error.to_string())?;
        let errors = file.try_clone().map_err(|error| error.to_string())?;
        let child = server_user(&self.bin.join("postgres"))
            .arg("-D")
            .arg(self.data())
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(errors)
            .spawn()
            .map_err(|error| error.to_string())?;
        // A failure from here on ends it with the handle.
        self.child = Some(child);
        let ended = wait::until("the server answers", START_MAX, || {
            if let Some(status) = self.ended() {
                return Ok(Some(status));
            }
            let answer = self.connect(ADMIN, "postgres");
            answer.map(|_| None).map_err(|error| error.to_string())
        });
        let Some(status) = ended else { return Ok(()) };
        self.child = None;
        let text = fs::read_to_string(&log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let tail = &lines[lines.len().saturating_sub(SHOWN_LINES)..];
        Err(format!("ended with {status}\n{}\n", tail.join("\n")))
    }

    fn ended(&mut self) -> Option<ExitStatus> {
        self.child.as_mut()?.try_wait().ok().flatten()
    }

    fn make_role(&self) {
        let mut client = self.connect(ADMIN, "postgres").expect("it answers");
        for sql in [
            format!("CREATE ROLE {USER} LOGIN PASSWORD '{PASSWORD}'"),
            format!("CREATE DATABASE {DATABASE}"),
            format!("GRANT CREATE ON DATABASE {DATABASE} TO {USER}"),
        ] {
            client.batch_execute(&sql).expect("an admin may do it");
        }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Config of a receiver on the server at this port, without TLS.
#[must_use]
pub fn config_of(port: u16, password: PostgresPassword) -> PostgresConfig {
    PostgresConfig {
        host: "127.0.0.1".to_owned(),
        port,
        user: USER.to_owned(),
        database: DATABASE.to_owned(),
        schema: "forebay".to_owned(),
        password: Some(password),
        partition: PartitionSize::Day,
        tls: false,
        ca_file: None,
        identity: None,
    }
}

/// The newest version's programs.
fn programs() -> PathBuf {
    let found = fs::read_dir(VERSIONS).into_iter().flatten().flatten();
    let newest = found
        .filter_map(|entry| {
            let version: u32 = entry.file_name().to_str()?.parse().ok()?;
            let bin = entry.path().join("bin");
            bin.join("postgres").exists().then_some((version, bin))
        })
        .max();
    let Some((_, bin)) = newest else {
        panic!("no PostgreSQL in {VERSIONS}. This test needs it: apt-get install postgresql")
    };
    bin
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A command that runs as somebody whom the server accepts, in a folder that
/// everybody may read.
fn server_user(program: &Path) -> Command {
    let mut command = if is_root() {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=postgres", "--regid=postgres", "--init-groups"]);
        command.arg(program);
        command
    } else {
        Command::new(program)
    };
    command.current_dir("/").env("LC_ALL", "C");
    command
}

fn run(command: &mut Command) {
    let output = command.output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Processes that this one started and that still run.
fn children_of(parent: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
    let text = text.unwrap_or_default();
    text.split_whitespace()
        .filter_map(|id| id.parse().ok())
        .collect()
}

fn is_alive(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"));
    // The state stands behind the name in brackets; Z has ended.
    stat.is_ok_and(|text| {
        text.rsplit_once(") ")
            .is_some_and(|(_, rest)| !rest.starts_with('Z'))
    })
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    listener
        .local_addr()
        .expect("a bound socket has an address")
        .port()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_committed_survives_a_kill() {
        let mut server = Postgres::start();
        let mut client = server.admin();
        client
            .batch_execute("CREATE TABLE t (n int8); INSERT INTO t VALUES (7)")
            .unwrap();
        server.kill();
        assert!(client.batch_execute("SELECT 1").is_err());
        server.restart();
        assert_eq!(server.number("SELECT n FROM t"), 7);
    }
}
