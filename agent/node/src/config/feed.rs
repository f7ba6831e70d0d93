//! How the source of a table is reached: the keys of `[[table]]` for a topic of MQTT, for
//! a file, and for a table of a database.
//!
//! Always holds: a key that is for another kind of source is an error. What is missing
//! is one for whoever wants to read the source only: `forebay try` is fed otherwise.
//! Bound: [`SOURCES_MAX`] sources.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use forebay_core::limits::SOURCES_MAX;
use forebay_core::near::did_you_mean;

use super::broker::{BrokerConfig, broker};
use super::database::DatabaseConfig;
use super::error::{ConfigError, list};
use super::reader::{Source, Table};
use super::schema_broker::{BROKER, BROKER_KEY};
use super::schema_table::TABLE;
use super::table::{TableConfig, TableSource};

/// A table, and where its changes come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableFeed {
    pub table: String,
    /// Its key columns.
    pub key: Vec<String>,
    /// Of Debezium's events only those of this table are taken.
    pub only: Option<String>,
    pub from: FeedFrom,
}

/// Where from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FeedFrom {
    Mqtt {
        broker: Box<BrokerConfig>,
        topic: String,
        /// Its wildcards stand for the row's key.
        key_from_topic: bool,
    },
    File(PathBuf),
    Postgres {
        /// Name of a `[[database]]`.
        database: String,
        schema: String,
        relation: String,
    },
    /// It cannot be read: what is missing.
    Missing(ConfigError),
}

/// Longest topic of MQTT.
const TOPIC_BYTES_MAX: usize = 512;
const MQTT_KEYS: [&str; 4] = [BROKER_KEY, "client_id", "topic", "key_from"];

/// Reads what `tables`, which are those of `source` in order, are fed from.
pub(super) fn feeds(
    source: &Source<'_>,
    folder: &Path,
    gateway: Option<&str>,
    (tables, databases): (&[TableConfig], &[DatabaseConfig]),
) -> Result<Vec<TableFeed>, ConfigError> {
    let mut found: Vec<TableFeed> = Vec::new();
    for (table, config) in source.many(&TABLE)?.iter().zip(tables) {
        refuse_others(table, config.source)?;
        let from = match config.source {
            TableSource::Config => continue,
            TableSource::Postgres => postgres(table, &config.name, databases)?,
            TableSource::Mqtt => mqtt(table, folder, gateway.unwrap_or("gateway"), config)?,
            TableSource::File => match table.get("path")? {
                Some(field) => FeedFrom::File(folder.join(field.text()?)),
                None => FeedFrom::Missing(missing(table, "path", "\"sites.ndjson\"")),
            },
        };
        let is_read = !matches!(from, FeedFrom::Missing(_));
        let from = if is_read && sources(&found, &from) > SOURCES_MAX {
            let what = format!("is one source too many, at most {SOURCES_MAX}");
            FeedFrom::Missing(table.error("source", what))
        } else {
            from
        };
        if let FeedFrom::Mqtt { broker, .. } = &from
            && found
                .iter()
                .any(|other| other.client_id() == Some(&broker.client_id))
        {
            return Err(table.error("client_id", "is that of another table"));
        }
        found.push(TableFeed {
            table: config.name.clone(),
            key: config.key.clone(),
            only: match table.get("only")? {
                Some(field) => Some(field.text()?.to_owned()),
                None => None,
            },
            from,
        });
    }
    Ok(found)
}

impl TableFeed {
    fn client_id(&self) -> Option<&String> {
        match &self.from {
            FeedFrom::Mqtt { broker, .. } => Some(&broker.client_id),
            FeedFrom::File(_) | FeedFrom::Postgres { .. } | FeedFrom::Missing(_) => None,
        }
    }
}

/// How many sources these are: of one database one.
fn sources(found: &[TableFeed], next: &FeedFrom) -> usize {
    let all = || found.iter().map(|feed| &feed.from).chain([next]);
    let databases: BTreeSet<&str> = all()
        .filter_map(|from| match from {
            FeedFrom::Postgres { database, .. } => Some(database.as_str()),
            FeedFrom::Mqtt { .. } | FeedFrom::File(_) | FeedFrom::Missing(_) => None,
        })
        .collect();
    let others = all().filter(|from| match from {
        FeedFrom::Mqtt { .. } | FeedFrom::File(_) => true,
        FeedFrom::Postgres { .. } | FeedFrom::Missing(_) => false,
    });
    databases.len() + others.count()
}

fn postgres(
    table: &Table<'_>,
    name: &str,
    databases: &[DatabaseConfig],
) -> Result<FeedFrom, ConfigError> {
    let Some(field) = table.get("database")? else {
        return Ok(FeedFrom::Missing(missing(table, "database", "\"main\"")));
    };
    let database = field.text()?;
    let known = || databases.iter().map(|database| database.name.as_str());
    if !known().any(|known| known == database) {
        return Err(field.bad(format!(
            "is no [[database]]{}; there are: {}",
            did_you_mean(database, known()),
            list(known())
        )));
    }
    let (schema, relation) = match table.get("relation")? {
        None => (String::from("public"), name.to_owned()),
        Some(field) => {
            let text = field.text()?;
            let (schema, relation) = text.split_once('.').unwrap_or(("public", text));
            if schema.is_empty() || relation.is_empty() {
                return Err(field.bad("must be schema.table, such as \"public.sites\""));
            }
            (schema.to_owned(), relation.to_owned())
        }
    };
    Ok(FeedFrom::Postgres {
        database: database.to_owned(),
        schema,
        relation,
    })
}

fn missing(table: &Table<'_>, name: &str, example: &str) -> ConfigError {
    table.error(name, format!("is missing; for example {name} = {example}"))
}

/// Keys of other kinds of sources.
fn refuse_others(table: &Table<'_>, source: TableSource) -> Result<(), ConfigError> {
    let of_broker = BROKER.iter().map(|key| key.name);
    let of_mqtt = MQTT_KEYS.into_iter().chain(of_broker);
    let keys = of_mqtt
        .map(|name| (name, &[TableSource::Mqtt][..], "\"mqtt\""))
        .chain([
            ("database", &[TableSource::Postgres][..], "\"postgres\""),
            ("relation", &[TableSource::Postgres][..], "\"postgres\""),
            ("path", &[TableSource::File][..], "\"file\""),
            (
                "only",
                &[TableSource::Mqtt, TableSource::File][..],
                "\"mqtt\" or \"file\"",
            ),
        ]);
    for (name, of, shown) in keys {
        if table.has(name) && !of.contains(&source) {
            return Err(table.error(name, format!("is only for source = {shown}")));
        }
    }
    Ok(())
}

fn mqtt(
    table: &Table<'_>,
    folder: &Path,
    gateway: &str,
    config: &TableConfig,
) -> Result<FeedFrom, ConfigError> {
    if table.get(BROKER_KEY)?.is_none() {
        return Ok(FeedFrom::Missing(missing(
            table,
            BROKER_KEY,
            "\"127.0.0.1:1883\"",
        )));
    }
    let Some(topic_field) = table.get("topic")? else {
        return Ok(FeedFrom::Missing(missing(
            table,
            "topic",
            "\"plant/public/sites\"",
        )));
    };
    let topic = topic_field.text()?;
    check_topic(topic).map_err(|what| topic_field.bad(what))?;
    let key_from_topic = match table.get("key_from")? {
        Some(field) => field.one_of(&[("topic", true), ("event", false)])?,
        None => false,
    };
    let wildcards = wildcards(topic);
    if key_from_topic && wildcards != config.key.len() {
        return Err(topic_field.bad(format!(
            "has {wildcards} wildcards (+ or #) for the {} columns of the key",
            config.key.len()
        )));
    }
    let client_id = match table.get("client_id")? {
        Some(field) => field.name()?,
        None => format!("forebay-{gateway}-{}", config.name),
    };
    Ok(FeedFrom::Mqtt {
        broker: Box::new(broker(table, folder, client_id)?),
        topic: topic.to_owned(),
        key_from_topic,
    })
}

/// Wildcards of a filter.
fn wildcards(filter: &str) -> usize {
    let levels = filter.split('/');
    levels.filter(|level| matches!(*level, "+" | "#")).count()
}

fn check_topic(topic: &str) -> Result<(), &'static str> {
    if topic.len() > TOPIC_BYTES_MAX {
        return Err("is longer than 512 bytes");
    }
    if topic.contains('\0') {
        return Err("is no topic");
    }
    let levels: Vec<&str> = topic.split('/').collect();
    let alone = |level: &&str| level.len() == 1 || !level.contains(['+', '#']);
    if !levels.iter().all(alone) {
        return Err("has a wildcard that is not a level of its own");
    }
    if levels.iter().rev().skip(1).any(|level| *level == "#") {
        return Err("has a # that is not its end");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn feeds_of(text: &str) -> Result<Vec<TableFeed>, String> {
        let text = format!("[agent]\ngateway = \"g\"\n{text}");
        let config = Config::from_text(Path::new("dir/c.toml"), &text);
        config.map(|c| c.feeds).map_err(|error| error.to_string())
    }

    fn table(name: &str, source: &str, more: &str) -> String {
        format!("[[table]]\nname = \"{name}\"\nkey = \"id\"\nsource = \"{source}\"\n{more}\n")
    }

    #[test]
    fn topics_and_files_are_read() {
        let text = table("a", "file", "path = \"a.ndjson\"\nonly = \"public.a\"")
            + &table(
                "b",
                "mqtt",
                "broker = \"h:1\"\ntopic = \"b/+\"\nkey_from = \"topic\"",
            );
        let feeds = feeds_of(&text).unwrap();
        assert_eq!(feeds[0].from, FeedFrom::File(PathBuf::from("dir/a.ndjson")));
        assert_eq!(feeds[0].only.as_deref(), Some("public.a"));
        let FeedFrom::Mqtt {
            broker,
            topic,
            key_from_topic: true,
        } = &feeds[1].from
        else {
            panic!("{:?}", feeds[1])
        };
        assert_eq!(
            (broker.address.as_str(), broker.client_id.as_str()),
            ("h:1", "forebay-g-b")
        );
        assert_eq!(topic, "b/+");
    }

    #[test]
    fn tables_of_databases_are_read_and_are_one_source() {
        let database = "[[database]]\nname = \"main\"\nhost = \"192.0.2.1\"\n";
        let of = |n: usize| table(&format!("t{n}"), "postgres", "database = \"main\"");
        let text: String = (0..SOURCES_MAX + 1).map(of).collect();
        let feeds = feeds_of(&(database.to_owned() + &text)).unwrap();
        let from = |schema: &str, relation: &str| FeedFrom::Postgres {
            database: String::from("main"),
            schema: schema.to_owned(),
            relation: relation.to_owned(),
        };
        assert_eq!(
            feeds.last().unwrap().from,
            from("public", &format!("t{SOURCES_MAX}"))
        );
        let named = table("a", "postgres", "database = \"main\"\nrelation = \"s.b\"");
        let feeds = feeds_of(&(database.to_owned() + &named)).unwrap();
        assert_eq!(feeds[0].from, from("s", "b"));
        let other = table("a", "postgres", "database = \"mian\"");
        let error = feeds_of(&(database.to_owned() + &other)).unwrap_err();
        assert!(
            error.contains("is no [[database]] (did you mean \"main\"?)"),
            "{error}"
        );
    }

    #[test]
    fn what_is_missing_is_an_error_for_who_reads_it() {
        for (name, text, word) in [
            (
                "no path",
                table("a", "file", ""),
                "[[table]] path: is missing",
            ),
            (
                "no broker",
                table("a", "mqtt", "topic = \"t\""),
                "broker: is missing",
            ),
            (
                "no topic",
                table("a", "mqtt", "broker = \"h:1\""),
                "topic: is missing",
            ),
        ] {
            let feeds = feeds_of(&text).unwrap();
            let FeedFrom::Missing(error) = &feeds[0].from else {
                panic!("{name}: {feeds:?}")
            };
            let error = error.to_string();
            assert!(
                error.contains(word.split(": ").last().unwrap()),
                "{name}: {error}"
            );
        }
    }

    #[test]
    fn bad_keys_are_told() {
        let mqtt = |more: &str| table("a", "mqtt", &format!("broker = \"h:1\"\n{more}"));
        let other = "broker = \"h:1\"\ntopic = \"t\"\nclient_id = \"x\"";
        for (name, text, word) in [
            (
                "a path of a topic",
                mqtt("topic = \"t\"\npath = \"x\""),
                "only for source = \"file\"",
            ),
            (
                "a topic of a file",
                table("a", "file", "topic = \"t\""),
                "only for source = \"mqtt\"",
            ),
            (
                "tls of a file",
                table("a", "file", "ca_file = \"t\""),
                "only for source = \"mqtt\"",
            ),
            (
                "a wildcard inside",
                mqtt("topic = \"a+/b\""),
                "not a level of its own",
            ),
            ("all, and more", mqtt("topic = \"a/#/b\""), "not its end"),
            (
                "no wildcard",
                mqtt("topic = \"a\"\nkey_from = \"topic\""),
                "0 wildcards",
            ),
            (
                "one client twice",
                table("a", "mqtt", other) + &table("b", "mqtt", other),
                "is that of another table",
            ),
        ] {
            let error = feeds_of(&text).expect_err(name);
            assert!(error.contains(word), "{name}: {error}");
        }
    }

    #[test]
    fn there_are_so_many_sources() {
        for (count, taken) in [
            (SOURCES_MAX - 1, true),
            (SOURCES_MAX, true),
            (SOURCES_MAX + 1, false),
        ] {
            let table = |n: usize| table(&format!("t{n}"), "file", "path = \"x\"");
            let text: String = (0..count).map(table).collect();
            let feeds = feeds_of(&text).unwrap();
            let last = &feeds.last().unwrap().from;
            assert_eq!(matches!(last, FeedFrom::File(_)), taken, "{count}");
        }
    }
}
