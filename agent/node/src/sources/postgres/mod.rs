//! Changes of tables of a PostgreSQL, by logical decoding of its write log.
//!
//! Always holds: every committed change of the tables is handed on once, in the order of
//! commits, from the moment of the snapshot on; the database may forget a change only once
//! the log has it durably. What ends that (a slot that is gone, a database that was
//! restored) is said, and begins with a new snapshot. How, and what to do about what:
//! `agent/node/docs/tables-postgres.md`. Bounds: `limits.rs`.

mod bytes;

pub mod lsn;

pub mod limits;

pub mod pgoutput;

pub mod value;

pub mod row;

pub mod translate;

mod copytext;

pub mod hand;

pub mod probe;

mod wire;

mod auth;

mod fault;

mod record;

mod plan;

mod catalog;

mod watch;

mod snapshot;

mod stream;

mod worker;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::hand::{Hand, Say, Slot, Told};
use self::limits::TABLES_MAX;
use self::lsn::At;
use self::translate::Fed;
use self::worker::Worker;
use crate::config::DatabaseConfig;
use forebay_core::effect::SourcePosition;

/// What one database feeds.
#[derive(Debug, Clone)]
pub struct PostgresSource {
    pub config: DatabaseConfig,
    /// See [`DatabaseConfig::slot`].
    pub slot: String,
    /// At least one, at most [`TABLES_MAX`].
    pub tables: Vec<Fed>,
    /// Where it remembers which database it was.
    pub record_file: PathBuf,
    /// What the log has of it.
    pub held: Option<SourcePosition>,
}

/// A source that runs; ends with its handle.
#[derive(Debug)]
pub struct PostgresHandle {
    told: Arc<Told>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl PostgresSource {
    /// Where the source of this name keeps its record.
    #[must_use]
    pub fn record_file(data_dir: &Path, name: &str) -> PathBuf {
        data_dir.join("sources").join(format!("{name}.json"))
    }

    /// Starts its thread; `say` is called on it.
    ///
    /// # Errors
    /// When there are no or too many tables, or the thread does not start.
    pub fn spawn(self, say: Say) -> std::io::Result<PostgresHandle> {
        if self.tables.is_empty() || self.tables.len() > TABLES_MAX {
            return Err(std::io::Error::other(format!(
                "[[database]] {} feeds {} tables, and may feed 1 to {TABLES_MAX}",
                self.config.name,
                self.tables.len()
            )));
        }
        let told = Arc::new(Told::default());
        let held = self.held.as_ref().and_then(At::parse);
        let hand = Hand::new(say, told.clone(), held);
        let name = format!("source {}", self.config.name);
        let worker = Worker::new(self.config, &self.slot, self.tables, self.record_file, hand);
        let thread = std::thread::Builder::new().name(name);
        let thread = thread.spawn(move || worker.run())?;
        Ok(PostgresHandle {
            told,
            thread: Some(thread),
        })
    }
}

impl PostgresHandle {
    /// All up to `position` is durable.
    pub fn durable(&self, position: SourcePosition) {
        self.told.durable(position);
    }

    /// What the server keeps for it, where that is known.
    #[must_use]
    pub fn slot(&self) -> Option<Slot> {
        self.told.slot()
    }

    /// Tells it to end; it does within moments.
    pub fn stop(&self) {
        self.told.stop();
    }

    /// Tells it to end and waits for that: never on a thread that its `say` waits for.
    pub fn join(mut self) {
        self.told.stop();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has ended too.
            let _ = thread.join();
        }
    }
}

impl Drop for PostgresHandle {
    fn drop(&mut self) {
        self.told.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn a_database_feeds_some_tables() {
        let text = "[[database]]\nname = \"main\"\nhost = \"192.0.2.1\"\n";
        let config = Config::from_text(Path::new("c.toml"), text).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let table = |n: usize| Fed {
            name: format!("t{n}").into(),
            schema: "public".into(),
            table: format!("t{n}"),
            key: vec!["id".into()],
        };
        for (count, is_good) in [
            (0, false),
            (1, true),
            (TABLES_MAX - 1, true),
            (TABLES_MAX, true),
            (TABLES_MAX + 1, false),
        ] {
            let source = PostgresSource {
                config: config.databases[0].clone(),
                slot: "s".into(),
                tables: (0..count).map(table).collect(),
                record_file: PostgresSource::record_file(dir.path(), "main"),
                held: None,
            };
            let spawned = source.spawn(Arc::new(|_| true));
            assert_eq!(spawned.is_ok(), is_good, "{count}");
        }
    }
}
