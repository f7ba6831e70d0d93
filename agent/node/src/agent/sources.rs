//! The sources of an agent: a task or a thread each, started when the core says from
//! where, and started anew when it says so again. What they say comes through one
//! channel, with the number of the source.
//!
//! Bound: SOURCES_MAX sources, EVENTS_MAX of what they say; the batches of each are
//! bounded by its link.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use forebay_core::effect::{SourceConfig, SourceNo, SourcePosition, StaticTable};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::EVENTS_MAX;
use crate::config::{Config, FeedFrom, TableFeed, TableSource};
use crate::mqtt::settings::client_settings;
use crate::sources::postgres::hand::Said as DatabaseSaid;
use crate::sources::postgres::translate::Fed;
use crate::sources::postgres::{PostgresHandle, PostgresSource};
use crate::sources::{
    Figures, FileSource, MqttSource, Rules, Source, SourceHandle, SourceSays, link,
};

/// What a source said.
pub(super) type Said = (SourceNo, SourceSays);

/// How long stopping sources may take to say goodbye.
const STOP_MAX: Duration = Duration::from_secs(3);

/// How a source is read.
#[derive(Debug)]
enum Reads {
    Task(Box<dyn Source>),
    Database(Box<PostgresSource>),
}

/// A source that is being read.
#[derive(Debug)]
enum Running {
    Task(SourceHandle, JoinHandle<()>),
    Database(PostgresHandle),
}

/// A source and what is kept of it from one start to the next.
#[derive(Debug)]
struct Kept {
    /// As the operator's config calls it.
    shown: String,
    known: SourceConfig,
    kind: &'static str,
    reads: Reads,
    figures: Arc<Figures>,
    running: Option<Running>,
}

impl Kept {
    /// What the server of a database keeps for it.
    fn slot(&self) -> Value {
        let Some(Running::Database(handle)) = &self.running else {
            return json!({});
        };
        handle.slot().map_or(json!({}), |slot| slot.to_json())
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Sources {
    kept: Vec<Kept>,
    out: mpsc::Sender<Said>,
    draining: bool,
}

impl Sources {
    /// All sources of the config, of which none is read yet.
    ///
    /// # Errors
    /// A sentence: what is missing to reach one.
    pub(super) fn new(config: &Config) -> Result<(Self, mpsc::Receiver<Said>), String> {
        let (out, said) = mpsc::channel(EVENTS_MAX);
        let sources = Self {
            kept: all(config)?,
            out,
            draining: false,
        };
        Ok((sources, said))
    }

    /// The sources as the core knows them, in the order of their numbers.
    pub(super) fn known(&self) -> Vec<SourceConfig> {
        self.kept.iter().map(|kept| kept.known.clone()).collect()
    }

    /// Starts a source behind `held`; what was under way before is dropped. Gives what an
    /// operator should read when it cannot be started.
    pub(super) fn start(
        &mut self,
        number: SourceNo,
        held: Option<SourcePosition>,
    ) -> Option<String> {
        let kept = self.kept.get_mut(usize::from(number.0))?;
        match kept.running.take() {
            Some(Running::Task(handle, task)) => {
                drop(handle);
                task.abort();
            }
            // Ends with its handle.
            Some(Running::Database(_)) | None => {}
        }
        if self.draining {
            return None;
        }
        kept.running = match &kept.reads {
            Reads::Task(source) => {
                let (handle, link) = link(number, held, self.out.clone(), kept.figures.clone());
                Some(Running::Task(handle, tokio::spawn(source.run(link))))
            }
            Reads::Database(source) => {
                let mut source = source.clone();
                source.held = held;
                let out = self.out.clone();
                let say = move |said| {
                    let says = match said {
                        DatabaseSaid::Batch(batch) => SourceSays::Batch(batch),
                        DatabaseSaid::State { state, lag } => SourceSays::State {
                            state,
                            lag_bytes: Some(lag),
                        },
                        DatabaseSaid::Note(text) => SourceSays::Note(text),
                    };
                    out.blocking_send((number, says)).is_ok()
                };
                match source.spawn(Arc::new(say)) {
                    Ok(handle) => Some(Running::Database(handle)),
                    Err(error) => return Some(format!("{}: {error}", kept.shown)),
                }
            }
        };
        None
    }

    /// Everything of the source up to `position` is durable.
    pub(super) fn durable(&self, number: SourceNo, position: SourcePosition) {
        let kept = self.kept.get(usize::from(number.0));
        match kept.and_then(|kept| kept.running.as_ref()) {
            Some(Running::Task(handle, _)) => handle.durable(position),
            Some(Running::Database(handle)) => handle.durable(position),
            None => {}
        }
    }

    /// Nothing more is read.
    pub(super) fn drain(&mut self) {
        self.draining = true;
        for running in self.kept.iter().flat_map(|kept| &kept.running) {
            match running {
                Running::Task(handle, _) => handle.drain(),
                Running::Database(handle) => handle.stop(),
            }
        }
    }

    /// Ends all of them, each with its farewell. Nobody may wait for what they say: the
    /// channel is closed before.
    pub(super) async fn stop(self) {
        let mut tasks = Vec::new();
        for running in self.kept.into_iter().filter_map(|kept| kept.running) {
            match running {
                Running::Task(handle, task) => {
                    drop(handle);
                    tasks.push(task);
                }
                Running::Database(handle) => {
                    tasks.push(tokio::task::spawn_blocking(move || handle.join()));
                }
            }
        }
        let all = async {
            for task in tasks {
                // A source that broke has said so.
                let _ = task.await;
            }
        };
        // One that hangs is left behind: nothing of it is confirmed that is not durable.
        let _ = tokio::time::timeout(STOP_MAX, all).await;
    }

    /// As the operator's config calls it.
    pub(super) fn name(&self, number: SourceNo) -> &str {
        let kept = self.kept.get(usize::from(number.0));
        kept.map_or("", |kept| &kept.shown)
    }

    /// What the process counts of each source, by the name that the core knows.
    pub(super) fn figures(&self) -> Map<String, Value> {
        let figures = self.kept.iter().map(|kept| {
            let mut figures = match &kept.reads {
                Reads::Task(_) => kept.figures.to_json(),
                Reads::Database(_) => kept.slot(),
            };
            figures["kind"] = json!(kept.kind);
            (kept.known.name.clone(), figures)
        });
        figures.collect()
    }
}

/// Sources of files and topics in the order of their tables, and behind them databases.
fn all(config: &Config) -> Result<Vec<Kept>, String> {
    let mut kept = Vec::new();
    let mut databases: BTreeMap<&str, Vec<Fed>> = BTreeMap::new();
    for feed in &config.feeds {
        match &feed.from {
            FeedFrom::Missing(error) => return Err(error.to_string()),
            FeedFrom::Postgres {
                database,
                schema,
                relation,
            } => databases.entry(database).or_default().push(Fed {
                name: feed.table.as_str().into(),
                schema: schema.clone(),
                table: relation.clone(),
                key: feed.key.clone(),
            }),
            FeedFrom::File(path) => {
                let source = FileSource {
                    path: path.clone(),
                    rules: rules(feed, false),
                };
                kept.push(of_table(feed, "file", Box::new(source)));
            }
            FeedFrom::Mqtt {
                broker,
                topic,
                key_from_topic,
            } => {
                let source = MqttSource {
                    broker: client_settings(broker)?,
                    filter: topic.clone(),
                    key_from_topic: *key_from_topic,
                    rules: rules(feed, *key_from_topic),
                };
                kept.push(of_table(feed, "mqtt", Box::new(source)));
            }
        }
    }
    let databases = databases.into_iter();
    kept.extend(databases.filter_map(|(name, tables)| of_database(config, name, tables)));
    Ok(kept)
}

fn rules(feed: &TableFeed, plain_rows: bool) -> Rules {
    Rules {
        table: feed.table.clone(),
        key: feed.key.clone(),
        only: feed.only.clone(),
        plain_rows,
    }
}

fn of_table(feed: &TableFeed, kind: &'static str, source: Box<dyn Source>) -> Kept {
    Kept {
        shown: format!("table {}", feed.table),
        known: SourceConfig {
            name: feed.table.clone(),
            tables: vec![feed.table.as_str().into()],
        },
        kind,
        reads: Reads::Task(source),
        figures: Arc::default(),
        running: None,
    }
}

fn of_database(config: &Config, name: &str, tables: Vec<Fed>) -> Option<Kept> {
    // The config has taken the name.
    let database = config.databases.iter().find(|known| known.name == name)?;
    let gateway = config.agent.gateway.as_deref().unwrap_or("gateway");
    let known = SourceConfig {
        // No table has a dot in its name.
        name: format!("database.{name}"),
        tables: tables.iter().map(|fed| fed.name.clone()).collect(),
    };
    let source = PostgresSource {
        slot: database.slot(gateway),
        config: database.clone(),
        tables,
        record_file: PostgresSource::record_file(&config.agent.data_dir, name),
        held: None,
    };
    Some(Kept {
        shown: format!("database {name}"),
        known,
        kind: "postgres",
        reads: Reads::Database(Box::new(source)),
        figures: Arc::default(),
        running: None,
    })
}

/// The tables whose rows stand in the config.
pub(super) fn static_tables(config: &Config) -> Vec<StaticTable> {
    let tables = config.tables.iter();
    let of_config = tables.filter(|table| table.source == TableSource::Config);
    let tables = of_config.map(|table| StaticTable {
        table: table.name.as_str().into(),
        rows: table.rows.iter().map(|row| row.row.clone()).collect(),
    });
    tables.collect()
}
