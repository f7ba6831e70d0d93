//! What ends a session, as a sentence for who runs it: what happened, and what to do.
//!
//! Always holds: no text has a password in it, and none is longer than about
//! SAID_CHARS_MAX and its advice. All faults are tried again; what differs is how soon, and
//! who has to act. Table of states: `agent/node/docs/tables-postgres.md`.

use std::error::Error as _;
use std::path::Path;

use super::limits::{MESSAGE_BYTES_MAX, QUERY_TIMEOUT, SAID_CHARS_MAX};
use super::pgoutput::TypeId;
use super::translate::Trouble;
use super::wire::{ServerError, WireError};
use crate::config::DatabaseConfig;

/// Why a session ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    /// We are told to end.
    Stopped,
    /// It comes back by itself.
    Waiting(String),
    /// Somebody must act.
    Failed(String),
    /// The stream has a hole, or no beginning: all rows are read anew.
    Anew(String),
    /// Another session has the slot: often ours of a moment ago.
    Busy(String),
    /// The catalog must be asked for these types first; nobody has to know.
    Again(Vec<TypeId>),
}

/// Where the database is and as whom it is used, for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    name: String,
    host: String,
    port: u16,
    user: String,
    database: String,
    pub(super) slot: String,
    pub(super) publication: String,
}

// SQLSTATE of what the server says.
const INVALID_AUTHORIZATION: &str = "28000";
const INVALID_PASSWORD: &str = "28P01";
const NO_DATABASE: &str = "3D000";
const NO_PRIVILEGE: &str = "42501";
const NO_OBJECT: &str = "42704";
const IN_USE: &str = "55006";
const WRONG_STATE: &str = "55000";
const LIMIT: &str = "53400";
const TOO_MANY_CONNECTIONS: &str = "53300";
const QUERY_CANCELED: &str = "57014";

impl Place {
    pub(super) fn of(config: &DatabaseConfig, slot: &str) -> Self {
        Self {
            name: config.name.clone(),
            host: config.host.clone(),
            port: config.port,
            user: config.user.clone(),
            database: config.database.clone(),
            slot: slot.to_owned(),
            publication: config.publication.clone(),
        }
    }

    /// A sentence of ours.
    pub(super) fn said(&self, text: impl std::fmt::Display) -> String {
        let Self {
            host,
            port,
            database,
            ..
        } = self;
        format!("PostgreSQL at {host}:{port}, database {database}: {text}")
    }

    pub(super) fn failed(&self, text: impl std::fmt::Display) -> Fault {
        Fault::Failed(self.said(text))
    }

    /// The file beside the log cannot be written.
    pub(super) fn record(&self, file: &Path, error: &std::io::Error) -> Fault {
        self.failed(format!("{}: {error}", file.display()))
    }

    /// What a command or the stream ended with.
    pub(super) fn wire(&self, doing: &str, error: WireError) -> Fault {
        match error {
            WireError::Stopped => Fault::Stopped,
            WireError::Said(error) => self.server(doing, &error),
            WireError::Lost(text) => self.lost(doing, &text),
            WireError::Config(text) => self.failed(format!("{doing}: {text}")),
            WireError::Malformed(malformed) => self.failed(format!(
                "{doing}: {malformed} of a message: is something else than PostgreSQL there?"
            )),
            WireError::Protocol(text) => self.failed(format!("{doing}: {text}")),
            WireError::TooLarge(bytes) => self.failed(format!(
                "{doing}: a message of {bytes} bytes, over the limit of {MESSAGE_BYTES_MAX}: \
                 leave the large column out by a column list of the publication {}",
                self.publication
            )),
        }
    }

    /// What a query of the catalog ended with.
    pub(super) fn client(&self, doing: &str, error: &postgres::Error) -> Fault {
        if let Some(db) = error.as_db_error() {
            let said = ServerError {
                code: db.code().code().to_owned(),
                message: db.message().to_owned(),
                detail: db.detail().unwrap_or_default().to_owned(),
            };
            return self.server(doing, &said);
        }
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            let more = error.to_string();
            if !text.contains(&more) {
                text = format!("{text}: {more}");
            }
            cause = error.source();
        }
        self.lost(doing, &text)
    }

    /// Why the stream cannot be translated.
    pub(super) fn trouble(&self, trouble: Trouble) -> Fault {
        match trouble {
            Trouble::UnknownTypes(types) => Fault::Again(types),
            Trouble::Malformed(malformed) => {
                self.failed(format!("a change that cannot be read: {malformed}"))
            }
            Trouble::Unexpected(what) => self.failed(format!("a change that cannot be: {what}")),
            Trouble::NoKeyColumn { table, column } => self.failed(format!(
                "table {table}: its key column {column} is not there any more: changes wait in \
                 the slot {}, whose write log grows, until the key in [[table]] is another one",
                self.slot
            )),
            Trouble::KeyNotLogged { table, column } => self.failed(format!(
                "table {table}: {}",
                key_not_logged(&table, &column)
            )),
            Trouble::TooLong(lsn) => self.failed(format!(
                "the transaction at {lsn} has more changes than can be numbered: read the tables \
                 anew, by dropping the slot {}",
                self.slot
            )),
        }
    }

    fn lost(&self, doing: &str, text: &str) -> Fault {
        let next = if text.contains("onnection refused") {
            format!(
                ". Is the server running, and does it listen on {}:{}?",
                self.host, self.port
            )
        } else if text.contains("password missing") {
            let key = "password_file or password_env";
            let name = &self.name;
            return self.failed(format!(
                "{doing}: the server asks for a password: give {key} in [[database]] {name}"
            ));
        } else if text.contains("does not support TLS") {
            ". Turn on ssl in its postgresql.conf, or set tls = \"off\" in [[database]]".to_owned()
        } else if text.contains("UnknownIssuer") || text.contains("BadSignature") {
            ". Name the authority of its certificate by ca_file in [[database]]".to_owned()
        } else {
            String::new()
        };
        Fault::Waiting(self.said(format!("{doing}: {}{next}", cut(text))))
    }

    /// What the server said.
    pub(super) fn server(&self, doing: &str, error: &ServerError) -> Fault {
        let Self {
            user,
            database,
            slot,
            publication,
            ..
        } = self;
        let code = error.code.as_str();
        let message = cut(&error.message);
        let said = |next: &str| self.said(format!("{doing}: {message} ({code}). {next}"));
        match code {
            IN_USE => Fault::Busy(said(&format!(
                "One agent alone may use a slot: if it stays so, give this one another slot in \
                 [[database]] {}",
                self.name
            ))),
            NO_OBJECT if error.message.contains("publication") => Fault::Anew(said(&format!(
                "The publication {publication} was made after the slot: the slot is made anew"
            ))),
            NO_OBJECT => Fault::Anew(said("The slot is made anew")),
            WRONG_STATE if error.message.contains("can no longer get changes") => {
                Fault::Anew(said("The server has thrown away what the slot was for"))
            }
            WRONG_STATE if error.message.contains("wal_level") => Fault::Failed(said(WAL_LEVEL)),
            NO_PRIVILEGE => Fault::Failed(said(&self.privilege(&error.message))),
            INVALID_PASSWORD => Fault::Failed(said(&format!(
                "The password of the role {user} is another one: see password_file or \
                 password_env in [[database]] {}",
                self.name
            ))),
            INVALID_AUTHORIZATION if error.message.contains("pg_hba.conf") => {
                Fault::Failed(said(&format!(
                    "Its pg_hba.conf needs a line such as: host {database} {user} \
                     <address of this gateway>/32 scram-sha-256"
                )))
            }
            INVALID_AUTHORIZATION => Fault::Failed(said(&format!(
                "Let an administrator run: CREATE ROLE {user} LOGIN REPLICATION PASSWORD '...';"
            ))),
            NO_DATABASE => Fault::Failed(said(&format!(
                "The database {database} is not there: see database in [[database]] {}",
                self.name
            ))),
            LIMIT => Fault::Failed(said(
                "Raise max_replication_slots in its postgresql.conf and restart it, or drop a \
                 slot of pg_replication_slots that nobody uses",
            )),
            TOO_MANY_CONNECTIONS => Fault::Waiting(said(
                "Each database needs three connections, one of them for replication: raise \
                 max_connections and max_wal_senders",
            )),
            QUERY_CANCELED => Fault::Waiting(said(&format!(
                "A query of the catalog may take {} s: is the server overloaded?",
                QUERY_TIMEOUT.as_secs()
            ))),
            _ if code.starts_with("57P") || code.starts_with("08") => {
                Fault::Waiting(said("It is tried again"))
            }
            _ => Fault::Waiting(self.said(format!(
                "{doing}: {message} ({code}) {}. It is tried again; the slot {slot} keeps what is \
                 missing",
                cut(&error.detail)
            ))),
        }
    }

    /// The statement that gives a right that is missing.
    fn privilege(&self, message: &str) -> String {
        let user = &self.user;
        let name = |words: &str| message.strip_prefix(words).map(str::trim);
        if let Some(table) = name("permission denied for table ") {
            return format!("Let its owner run: GRANT SELECT ON {table} TO {user};");
        }
        if let Some(schema) = name("permission denied for schema ") {
            return format!("Let its owner run: GRANT USAGE ON SCHEMA {schema} TO {user};");
        }
        if let Some(database) = name("permission denied for database ") {
            return format!("Let its owner run: GRANT CONNECT ON DATABASE {database} TO {user};");
        }
        format!("Let an administrator run: ALTER ROLE {user} REPLICATION;")
    }

    /// Rights and settings that are missing, from what the catalog says.
    pub(super) fn grants(&self, missing: &[String]) -> Fault {
        self.failed(format!(
            "the role {} lacks rights. Let an owner run: {}",
            self.user,
            missing.join(" ")
        ))
    }

    pub(super) fn user(&self) -> &str {
        &self.user
    }
}

/// What to do about a server that writes too little.
pub(super) const WAL_LEVEL: &str = "Set wal_level = logical in its postgresql.conf and restart it";

/// What to do about a table whose write log does not name its rows.
pub(super) fn key_not_logged(table: &str, column: &str) -> String {
    format!(
        "the write log does not say the key {column} of a row that is deleted: let its owner run \
         ALTER TABLE {table} REPLICA IDENTITY USING INDEX <a unique index of it>; or ALTER TABLE \
         {table} REPLICA IDENTITY FULL;"
    )
}

pub(super) fn cut(text: &str) -> String {
    let short: String = text.chars().take(SAID_CHARS_MAX).collect();
    let dots = if short.len() < text.len() { "..." } else { "" };
    format!("{}{dots}", short.replace(['\n', '\r'], " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> Place {
        Place {
            name: "main".into(),
            host: "db.example".into(),
            port: 5432,
            user: "fb".into(),
            database: "plant".into(),
            slot: "forebay_gw1_main".into(),
            publication: "forebay".into(),
        }
    }

    #[test]
    fn what_the_server_says_becomes_what_to_do() {
        for (name, code, message, kind, want) in [
            (
                "no replication",
                "42501",
                "must be superuser or replication role to start walsender",
                "failed",
                "ALTER ROLE fb REPLICATION;",
            ),
            (
                "no replication, 16",
                "42501",
                "permission denied to start WAL sender",
                "failed",
                "ALTER ROLE fb REPLICATION;",
            ),
            (
                "no select",
                "42501",
                "permission denied for table sites",
                "failed",
                "GRANT SELECT ON sites TO fb;",
            ),
            (
                "no usage",
                "42501",
                "permission denied for schema plant",
                "failed",
                "GRANT USAGE ON SCHEMA plant TO fb;",
            ),
            (
                "hba",
                "28000",
                "no pg_hba.conf entry for replication connection from host \"10.0.0.1\"",
                "failed",
                "host plant fb",
            ),
            (
                "no role",
                "28000",
                "role \"fb\" does not exist",
                "failed",
                "CREATE ROLE fb LOGIN REPLICATION",
            ),
            (
                "password",
                "28P01",
                "password authentication failed",
                "failed",
                "password_file",
            ),
            (
                "no database",
                "3D000",
                "database \"plant\" does not exist",
                "failed",
                "[[database]] main",
            ),
            (
                "slot gone",
                "42704",
                "replication slot \"s\" does not exist",
                "anew",
                "made anew",
            ),
            (
                "publication gone",
                "42704",
                "publication \"forebay\" does not exist",
                "anew",
                "publication forebay",
            ),
            (
                "slot busy",
                "55006",
                "replication slot \"s\" is active for PID 7",
                "busy",
                "another slot",
            ),
            (
                "slot lost",
                "55000",
                "can no longer get changes from replication slot \"s\"",
                "anew",
                "thrown away",
            ),
            (
                "level",
                "55000",
                "logical decoding requires wal_level >= logical",
                "failed",
                "wal_level = logical",
            ),
            (
                "no slot free",
                "53400",
                "all replication slots are in use",
                "failed",
                "max_replication_slots",
            ),
            (
                "no sender free",
                "53300",
                "number of requested standby connections exceeds max_wal_senders",
                "waiting",
                "max_wal_senders",
            ),
            (
                "stops",
                "57P01",
                "terminating connection due to administrator command",
                "waiting",
                "tried again",
            ),
            ("another thing", "XX000", "a new thing", "waiting", "XX000"),
        ] {
            let error = ServerError {
                code: code.into(),
                message: message.into(),
                detail: String::new(),
            };
            let (found, text) = match place().server("stream", &error) {
                Fault::Stopped => ("stopped", String::new()),
                Fault::Waiting(text) => ("waiting", text),
                Fault::Failed(text) => ("failed", text),
                Fault::Anew(text) => ("anew", text),
                Fault::Busy(text) => ("busy", text),
                Fault::Again(types) => ("again", format!("{types:?}")),
            };
            assert_eq!(found, kind, "{name}: {text}");
            assert!(text.contains(want), "{name}: {text}");
        }
    }

    #[test]
    fn what_the_server_says_is_cut() {
        for (len, dots) in [
            (SAID_CHARS_MAX - 1, false),
            (SAID_CHARS_MAX, false),
            (SAID_CHARS_MAX + 1, true),
        ] {
            let said = cut(&"x".repeat(len));
            assert_eq!(said.ends_with("..."), dots, "{len}");
        }
        assert_eq!(cut("a\nb"), "a b");
    }
}
