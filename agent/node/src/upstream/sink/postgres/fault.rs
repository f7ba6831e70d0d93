//! What a server's errors mean for who runs it: what happened, and what to do.
//!
//! Always holds: no text has a password in it, and none is longer than about
//! SAID_CHARS_MAX. Knows no state: after an error the sink is opened anew.

use std::error::Error as _;

use postgres::Error;
use postgres::error::{DbError, SqlState};

use super::super::SinkError;
use super::limits::{SAID_CHARS_MAX, STATEMENT_TIMEOUT};

/// Where the server is and as whom it is used, for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub host: String,
    pub port: u16,
    pub user: String,
    pub database: String,
    pub schema: String,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            host,
            port,
            database,
            ..
        } = self;
        write!(f, "PostgreSQL at {host}:{port}, database {database}")
    }
}

impl Place {
    /// An error of a statement or of connecting, as a sentence.
    pub(super) fn fault(&self, doing: &str, error: &Error) -> SinkError {
        let said = match error.as_db_error() {
            Some(db) => self.said_by_server(db),
            None => self.lost(error),
        };
        SinkError::Said(format!("{self}: {doing}: {said}"))
    }

    /// A sentence of ours.
    pub(super) fn said(&self, text: impl std::fmt::Display) -> SinkError {
        SinkError::Said(format!("{self}: {text}"))
    }

    /// No answer of the server.
    fn lost(&self, error: &Error) -> String {
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            let more = error.to_string();
            if !text.contains(&more) {
                text = format!("{text}: {more}");
            }
            cause = error.source();
        }
        let next = if text.contains("Connection refused") {
            format!(
                ". Is the server running, and does it listen on {}:{}?",
                self.host, self.port
            )
        } else if text.contains("password missing") {
            ". The server asks for a password: give password_file or password_env in [postgres]"
                .to_owned()
        } else if text.contains("server does not support TLS") {
            ". Turn on ssl in its postgresql.conf, or set tls = \"off\" in [postgres]".to_owned()
        } else if text.contains("UnknownIssuer") || text.contains("BadSignature") {
            ". Name the authority of its certificate by ca_file in [postgres]".to_owned()
        } else {
            String::new()
        };
        cut(&text) + &next
    }

    fn said_by_server(&self, db: &DbError) -> String {
        let next = self.advice(db.code(), db.message());
        let said = cut(db.message());
        match next {
            Some(next) => format!("{said} ({}). {next}", db.code().code()),
            None => format!("{said} ({})", db.code().code()),
        }
    }

    /// The statement that gives a right that is missing.
    fn grant(&self, message: &str) -> String {
        let Self {
            user,
            database,
            schema,
            ..
        } = self;
        match denied(message) {
            Some(("database", _)) => {
                format!("Let an administrator run: GRANT CREATE ON DATABASE {database} TO {user};")
            }
            Some(("schema", name)) => {
                format!("Let its owner run: GRANT USAGE, CREATE ON SCHEMA {name} TO {user};")
            }
            Some(("table" | "view", name)) => format!(
                "Let its owner run: GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.{name} TO {user};"
            ),
            Some(("owner", name)) => format!(
                "The receiver makes partitions, which only the owner of a table may: \
                     ALTER TABLE {schema}.{name} OWNER TO {user};"
            ),
            Some(_) | None => format!(
                "The role {user} must own the schema {schema}: ALTER SCHEMA {schema} OWNER TO {user};"
            ),
        }
    }

    /// What to do about it.
    fn advice(&self, code: &SqlState, message: &str) -> Option<String> {
        let Self {
            user,
            database,
            schema,
            ..
        } = self;
        let text = if *code == SqlState::INSUFFICIENT_PRIVILEGE {
            self.grant(message)
        } else if *code == SqlState::INVALID_PASSWORD {
            format!(
                "The password of the role {user} is another one: see password_file or \
                 password_env in [postgres]"
            )
        } else if *code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION {
            format!(
                "Its pg_hba.conf must let the role {user} into the database {database} from here"
            )
        } else if *code == SqlState::INVALID_CATALOG_NAME {
            format!("Let an administrator run: CREATE DATABASE {database} OWNER {user};")
        } else if *code == SqlState::DISK_FULL {
            "Make room on the server's disk; nothing of this batch was written, and what was \
             not acked comes again"
                .to_owned()
        } else if *code == SqlState::READ_ONLY_SQL_TRANSACTION {
            "This server takes no writes: name the primary in [postgres], not a standby".to_owned()
        } else if *code == SqlState::TOO_MANY_CONNECTIONS {
            "Each worker of the receiver needs one connection: raise max_connections, or run \
             fewer workers"
                .to_owned()
        } else if *code == SqlState::QUERY_CANCELED {
            format!(
                "A statement may take {} s: is the server overloaded, or does something hold locks?",
                STATEMENT_TIMEOUT.as_secs()
            )
        } else if *code == SqlState::LOCK_NOT_AVAILABLE {
            "Another session holds a lock for long: see pg_stat_activity and pg_locks".to_owned()
        } else if *code == SqlState::UNDEFINED_TABLE || *code == SqlState::UNDEFINED_COLUMN {
            format!(
                "The tables of schema {schema} are not whole: was one removed or changed by hand?"
            )
        } else if *code == SqlState::UNIQUE_VIOLATION {
            format!(
                "A row of this batch is there already, though the marks do not say so: nothing was \
                 written. Was {schema}.marks restored without the rows, or written to by hand?"
            )
        } else if *code == SqlState::CANNOT_CONNECT_NOW || *code == SqlState::ADMIN_SHUTDOWN {
            "It is tried again".to_owned()
        } else {
            return None;
        };
        Some(text)
    }
}

/// Kind and name of what a message of PostgreSQL denies.
fn denied(message: &str) -> Option<(&'static str, &str)> {
    for (words, kind) in [
        ("permission denied for database ", "database"),
        ("permission denied for schema ", "schema"),
        ("permission denied for table ", "table"),
        ("permission denied for relation ", "table"),
        ("permission denied for view ", "view"),
        ("must be owner of table ", "owner"),
        ("must be owner of relation ", "owner"),
    ] {
        if let Some(name) = message.strip_prefix(words) {
            return Some((kind, name));
        }
    }
    None
}

fn cut(text: &str) -> String {
    let short: String = text.chars().take(SAID_CHARS_MAX).collect();
    let dots = if short.len() < text.len() { "..." } else { "" };
    format!("{}{dots}", short.replace(['\n', '\r'], " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> Place {
        Place {
            host: "db.example".into(),
            port: 5432,
            user: "forebay".into(),
            database: "readings".into(),
            schema: "fb".into(),
        }
    }

    #[test]
    fn a_missing_grant_is_named() {
        for (name, message, want) in [
            (
                "table",
                "permission denied for table samples",
                "GRANT SELECT, INSERT, UPDATE, DELETE ON fb.samples TO forebay;",
            ),
            (
                "schema",
                "permission denied for schema fb",
                "GRANT USAGE, CREATE ON SCHEMA fb TO forebay;",
            ),
            (
                "database",
                "permission denied for database readings",
                "GRANT CREATE ON DATABASE readings TO forebay;",
            ),
            (
                "partition",
                "must be owner of table samples",
                "ALTER TABLE fb.samples OWNER TO forebay;",
            ),
            (
                "another thing",
                "permission denied to do a new thing",
                "ALTER SCHEMA fb OWNER TO forebay;",
            ),
        ] {
            let said = place().advice(&SqlState::INSUFFICIENT_PRIVILEGE, message);
            let said = said.unwrap_or_default();
            assert!(said.contains(want), "{name}: {said}");
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
            assert!(said.len() <= SAID_CHARS_MAX + 3, "{len}");
        }
        assert_eq!(cut("a\nb"), "a b");
    }
}
