//! A PostgreSQL with tables and a publication, and a source on it whose log is this test.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use forebay_core::effect::{SourceEvent, SourcePosition, SourceState};
use forebay_node::config::{Config, DatabaseConfig};
use forebay_node::sources::postgres::hand::Said;
use forebay_node::sources::postgres::translate::Fed;
use forebay_node::sources::postgres::{PostgresHandle, PostgresSource};
use forebay_tests::postgres::{DATABASE, Postgres, USER};
use forebay_tests::wait;
use postgres::Client;
use tempfile::TempDir;

pub(crate) const LIMIT: Duration = Duration::from_secs(60);
pub(crate) const SLOT: &str = "forebay_gw1_main";
/// So that a heartbeat comes soon.
const HEARTBEAT: &str = "200ms";
const LOGICAL: &str = "wal_level = logical\nmax_wal_senders = 4\nmax_replication_slots = 2\n";

/// A server with `public.places` and `public.limits`, both published.
pub(crate) struct Rig {
    pub server: Postgres,
    pub home: TempDir,
    pub admin: Client,
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self::with("")
    }

    /// With more lines of `postgresql.conf`.
    pub(crate) fn with(extra: &str) -> Self {
        let mut rig = Self::bare(&format!("{LOGICAL}{extra}"));
        rig.sql(&format!(
            "ALTER ROLE {USER} REPLICATION; \
             CREATE TABLE places (id int4 PRIMARY KEY, name text); \
             CREATE TABLE limits (device text PRIMARY KEY, most float8); \
             GRANT SELECT ON places, limits TO {USER}; \
             CREATE PUBLICATION forebay FOR TABLE places, limits;"
        ));
        rig
    }

    /// A server as it is installed.
    pub(crate) fn bare(conf: &str) -> Self {
        let server = Postgres::start_with(conf);
        Self {
            admin: server.admin(),
            server,
            home: TempDir::new().unwrap(),
        }
    }

    #[track_caller]
    pub(crate) fn sql(&mut self, sql: &str) {
        self.admin
            .batch_execute(sql)
            .unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    /// Waits until no session uses the slot: the server notices a moment later.
    #[track_caller]
    pub(crate) fn until_free(&mut self) {
        let sql = "SELECT count(*) FROM pg_replication_slots WHERE active";
        let admin = &mut self.admin;
        wait::until("the slot is free", LIMIT, || {
            match admin.query_one(sql, &[]).unwrap().get::<_, i64>(0) {
                0 => Ok(()),
                _ => Err("it is active"),
            }
        });
    }

    /// After the server was restarted.
    pub(crate) fn reconnect(&mut self) {
        self.admin = self.server.admin();
    }

    pub(crate) fn config(&self) -> DatabaseConfig {
        config(self.server.port(), &self.server.password_file())
    }

    pub(crate) fn start(&self, held: Option<SourcePosition>) -> Running {
        self.start_with(held, tables())
    }

    pub(crate) fn start_with(&self, held: Option<SourcePosition>, tables: Vec<Fed>) -> Running {
        Running::start(source(self.config(), self.home.path(), held, tables))
    }
}

pub(crate) fn config(port: u16, password_file: &Path) -> DatabaseConfig {
    let text = format!(
        "[[database]]\nname = \"main\"\nhost = \"127.0.0.1\"\nport = {port}\nuser = \"{USER}\"\n\
         database = \"{DATABASE}\"\npassword_file = {password_file:?}\nheartbeat = \"{HEARTBEAT}\"\n"
    );
    let config = Config::from_text(Path::new("test.toml"), &text).unwrap();
    config.databases.into_iter().next().unwrap()
}

pub(crate) fn fed(name: &str, key: &str) -> Fed {
    Fed {
        name: name.into(),
        schema: "public".into(),
        table: name.into(),
        key: vec![key.into()],
    }
}

pub(crate) fn tables() -> Vec<Fed> {
    vec![fed("places", "id"), fed("limits", "device")]
}

pub(crate) fn source(
    config: DatabaseConfig,
    home: &Path,
    held: Option<SourcePosition>,
    tables: Vec<Fed>,
) -> PostgresSource {
    PostgresSource {
        slot: config.slot("gw1"),
        record_file: PostgresSource::record_file(home, &config.name),
        config,
        tables,
        held,
    }
}

/// A source that runs, and all that it said.
pub(crate) struct Running {
    handle: Option<PostgresHandle>,
    said: Receiver<Said>,
    pub events: Vec<SourceEvent>,
    pub states: Vec<SourceState>,
    pub notes: Vec<String>,
    pub position: Option<SourcePosition>,
    /// What is handed on becomes durable at once.
    pub acks: bool,
}

impl Running {
    pub(crate) fn start(source: PostgresSource) -> Self {
        let (send, said) = channel();
        let position = source.held.clone();
        let say = Arc::new(move |one| send.send(one).is_ok());
        Self {
            handle: Some(source.spawn(say).unwrap()),
            said,
            events: Vec::new(),
            states: Vec::new(),
            notes: Vec::new(),
            position,
            acks: true,
        }
    }

    /// Takes what is said until `done`.
    #[track_caller]
    pub(crate) fn until(&mut self, what: &str, mut done: impl FnMut(&Self) -> bool) {
        let deadline = Instant::now() + LIMIT;
        while !done(self) {
            assert!(
                Instant::now() < deadline,
                "{what}: not within {LIMIT:?}; {:?}; {:?}; {} events, the last {:?}",
                self.states.last(),
                self.notes,
                self.events.len(),
                self.events.last()
            );
            match self.said.recv_timeout(Duration::from_millis(50)) {
                Ok(said) => self.take(said),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => panic!("{what}: the source has ended"),
            }
        }
    }

    fn take(&mut self, said: Said) {
        match said {
            Said::Batch(batch) => {
                assert!(
                    self.position
                        .as_ref()
                        .is_none_or(|held| *held <= batch.position),
                    "positions grow: {:?} {:?}",
                    self.position,
                    batch.position
                );
                self.events.extend(batch.events);
                self.position = Some(batch.position.clone());
                if self.acks
                    && let Some(handle) = &self.handle
                {
                    handle.durable(batch.position);
                }
            }
            Said::State { state, .. } => self.states.push(state),
            Said::Note(text) => self.notes.push(text),
        }
    }

    #[track_caller]
    pub(crate) fn until_streaming(&mut self) {
        self.until("it streams", |seen| {
            seen.states.last() == Some(&SourceState::Streaming)
        });
    }

    /// Waits for so many changes of the stream.
    #[track_caller]
    pub(crate) fn until_changes(&mut self, count: usize) {
        self.until("changes", |seen| changes(&seen.events).len() >= count);
    }

    /// Waits for a state or a note with these words.
    #[track_caller]
    pub(crate) fn until_said(&mut self, words: &str) {
        self.until(words, |seen| {
            let last = match seen.states.last() {
                Some(SourceState::Waiting(text) | SourceState::Failed(text)) => text,
                Some(_) | None => "",
            };
            last.contains(words) || seen.notes.iter().any(|note| note.contains(words))
        });
    }

    /// Ends it in order; gives what it had said.
    pub(crate) fn end(mut self) -> Self {
        if let Some(handle) = self.handle.take() {
            handle.join();
        }
        self
    }
}

/// Short forms of the changes among events, without the snapshot and the heartbeats.
pub(crate) fn changes(events: &[SourceEvent]) -> Vec<String> {
    let show = |event: &SourceEvent| match event {
        SourceEvent::Upsert {
            table,
            after,
            is_insert,
            ..
        } => {
            let op = if *is_insert == Some(true) {
                "insert"
            } else {
                "update"
            };
            Some(format!("{op} {table} {after}"))
        }
        SourceEvent::Delete { table, key, .. } => Some(format!("delete {table} {key}")),
        SourceEvent::Truncate { table, .. } => Some(format!("truncate {table}")),
        SourceEvent::SnapshotBegin { .. }
        | SourceEvent::SnapshotRow { .. }
        | SourceEvent::SnapshotEnd { .. }
        | SourceEvent::Heartbeat { .. } => None,
    };
    events.iter().filter_map(show).collect()
}

/// What the events make of a table: rows by key.
pub(crate) fn rows(events: &[SourceEvent], wanted: &str, key: &str) -> BTreeMap<String, String> {
    let mut rows = BTreeMap::new();
    let mut snapshot = BTreeMap::new();
    let key_of = |row: &str| {
        let row: serde_json::Value = serde_json::from_str(row).unwrap();
        row[key]
            .as_str()
            .map_or_else(|| row[key].to_string(), str::to_owned)
    };
    for event in events {
        match event {
            SourceEvent::Upsert { table, after, .. } if &**table == wanted => {
                rows.insert(key_of(after), after.to_string());
            }
            SourceEvent::Delete { table, key, .. } if &**table == wanted => {
                assert!(rows.remove(&**key).is_some(), "{key} was not there");
            }
            SourceEvent::Truncate { table, .. } if &**table == wanted => rows.clear(),
            SourceEvent::SnapshotBegin { table, .. } if &**table == wanted => snapshot.clear(),
            SourceEvent::SnapshotRow { table, row, .. } if &**table == wanted => {
                let twice = snapshot.insert(key_of(row), row.to_string());
                assert_eq!(twice, None, "a snapshot has a row once");
            }
            SourceEvent::SnapshotEnd { table, .. } if &**table == wanted => {
                rows = std::mem::take(&mut snapshot);
            }
            SourceEvent::Upsert { .. }
            | SourceEvent::Delete { .. }
            | SourceEvent::Truncate { .. }
            | SourceEvent::SnapshotBegin { .. }
            | SourceEvent::SnapshotRow { .. }
            | SourceEvent::SnapshotEnd { .. }
            | SourceEvent::Heartbeat { .. } => {}
        }
    }
    rows
}
