//! `[postgres]`: where the receiver's PostgreSQL sink writes to.
//!
//! Always holds: no password is read here or kept in a config, only where it is.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use super::error::ConfigError;
use super::reader::{Field, Source, Table};
use super::schema::{Default, Key, Section};

/// `[postgres]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostgresConfig {
    /// A name, an address, or the folder of a socket.
    pub host: String,
    pub port: u16,
    pub user: String,
    pub database: String,
    /// Where the tables are.
    pub schema: String,
    pub password: Option<PostgresPassword>,
    pub partition: PartitionSize,
    /// Only to a server with a certificate that holds for `host`.
    pub tls: bool,
    /// `None`: the system's authorities.
    pub ca_file: Option<PathBuf>,
    /// Our own certificate and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// Where the password is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PostgresPassword {
    File(PathBuf),
    /// Name of a variable of the environment.
    Env(String),
}

/// How much time one partition of the readings holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartitionSize {
    Day,
    Month,
}

/// Longest name that PostgreSQL keeps.
const NAME_BYTES_MAX: usize = 63;

// Keys of every section that names a PostgreSQL.
pub(super) const HOST: Key = Key {
    name: "host",
    default: Default::Is("\"127.0.0.1\""),
    doc: "Name or address of the server, or the folder of its socket, such as \"/run/postgresql\".",
};
pub(super) const PORT: Key = Key {
    name: "port",
    default: Default::Is("5432"),
    doc: "Its port.",
};
pub(super) const DATABASE_NAME: Key = Key {
    name: "database",
    default: Default::Is("\"forebay\""),
    doc: "Database, of encoding UTF8.",
};
pub(super) const PASSWORD_FILE: Key = Key {
    name: "password_file",
    default: Default::None("\"/etc/forebay/postgres-password\""),
    doc: "File whose first line is the password.",
};
pub(super) const PASSWORD_ENV: Key = Key {
    name: "password_env",
    default: Default::None("\"FOREBAY_POSTGRES_PASSWORD\""),
    doc: "Or: variable of the environment that has it.",
};
pub(super) const TLS: Key = Key {
    name: "tls",
    default: Default::None("\"verify\""),
    doc: "verify: TLS, and the server's certificate must hold for host; off: none.\nDefault verify; off where host is a loopback address, localhost or a folder.",
};
pub(super) const CA_FILE: Key = Key {
    name: "ca_file",
    default: Default::None("\"/etc/forebay/ca.pem\""),
    doc: "PEM file of the authorities that may sign the server's certificate. Default: those of the system.",
};

pub const POSTGRES: Section = Section {
    name: "postgres",
    many: false,
    doc: "Where `forebay upstream` with sink = \"postgres\" writes to; see agent/node/docs/postgres.md.",
    keys: &[
        HOST,
        PORT,
        Key {
            name: "user",
            default: Default::Is("\"forebay\""),
            doc: "Role that the receiver is. It owns the tables.",
        },
        DATABASE_NAME,
        Key {
            name: "schema",
            default: Default::Is("\"forebay\""),
            doc: "Schema of the tables; made where it is missing. a-z 0-9 _, at most 63.",
        },
        PASSWORD_FILE,
        PASSWORD_ENV,
        Key {
            name: "partition",
            default: Default::Is("\"day\""),
            doc: "Readings of a day or of a month share a partition: day, month. Without effect on a hypertable.",
        },
        TLS,
        CA_FILE,
        Key {
            name: "cert_file",
            default: Default::None("\"/etc/forebay/receiver.pem\""),
            doc: "PEM file of our own certificate, for servers that ask for one.",
        },
        Key {
            name: "key_file",
            default: Default::None("\"/etc/forebay/receiver.key\""),
            doc: "PEM file of its key.",
        },
    ],
};

/// The section, or its defaults where it is missing.
pub fn postgres(source: &Source<'_>, folder: &Path) -> Result<PostgresConfig, ConfigError> {
    let table = source.one(&POSTGRES)?;
    let host = table.need("host")?;
    if host.text()?.is_empty() {
        return Err(host.error("is empty"));
    }
    let port = table.need("port")?.int(1, i64::from(u16::MAX))?;
    Ok(PostgresConfig {
        tls: tls(&table, host.text()?)?,
        host: host.text()?.to_owned(),
        port: u16::try_from(port).expect("from 1 to 65535"),
        user: name(&table.need("user")?)?,
        database: name(&table.need("database")?)?,
        schema: schema(&table.need("schema")?)?,
        password: password(&table, folder)?,
        partition: table
            .need("partition")?
            .one_of(&[("day", PartitionSize::Day), ("month", PartitionSize::Month)])?,
        ca_file: path(&table, folder, "ca_file")?,
        identity: identity(&table, folder)?,
    })
}

/// Whether TLS is spoken with `host`: what the key says, else by who can listen.
pub(super) fn tls(table: &Table<'_>, host: &str) -> Result<bool, ConfigError> {
    match table.get("tls")? {
        Some(field) => field.one_of(&[("verify", true), ("off", false)]),
        None => Ok(!is_here(host)),
    }
}

/// A file that a key names.
pub(super) fn path(
    table: &Table<'_>,
    folder: &Path,
    name: &str,
) -> Result<Option<PathBuf>, ConfigError> {
    let field = table.get(name)?;
    field
        .map(|field| Ok(folder.join(field.text()?)))
        .transpose()
}

/// Our own certificate and its key: both or none.
pub(super) fn identity(
    table: &Table<'_>,
    folder: &Path,
) -> Result<Option<(PathBuf, PathBuf)>, ConfigError> {
    match (
        path(table, folder, "cert_file")?,
        path(table, folder, "key_file")?,
    ) {
        (Some(cert), Some(key)) => Ok(Some((cert, key))),
        (None, None) => Ok(None),
        (Some(_), None) => Err(table.error("cert_file", "needs a key_file beside it")),
        (None, Some(_)) => Err(table.error("key_file", "needs a cert_file beside it")),
    }
}

/// Where the password is, by whichever of the two keys is given.
pub(super) fn password(
    table: &Table<'_>,
    folder: &Path,
) -> Result<Option<PostgresPassword>, ConfigError> {
    Ok(
        match (table.get("password_file")?, table.get("password_env")?) {
            (None, None) => None,
            (Some(file), None) => Some(PostgresPassword::File(folder.join(file.text()?))),
            (None, Some(name)) => Some(PostgresPassword::Env(name.text()?.to_owned())),
            (Some(_), Some(env)) => {
                return Err(env.error("is given beside password_file: one is enough"));
            }
        },
    )
}

/// A name as PostgreSQL keeps it.
pub(super) fn name(field: &Field<'_>) -> Result<String, ConfigError> {
    let text = field.text()?;
    if text.is_empty() || text.len() > NAME_BYTES_MAX || text.contains('\0') {
        return Err(field.bad(format!("must have 1 to {NAME_BYTES_MAX} bytes")));
    }
    Ok(text.to_owned())
}

fn schema(field: &Field<'_>) -> Result<String, ConfigError> {
    let text = name(field)?;
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    if !text.bytes().all(plain)
        || text.starts_with(|c: char| c.is_ascii_digit())
        || text.starts_with("pg_")
    {
        return Err(field.bad("must be of a-z 0-9 and _, and not begin with a digit or pg_"));
    }
    Ok(text)
}

/// Whether nobody can listen on the way to this host.
fn is_here(host: &str) -> bool {
    let address: Option<IpAddr> = host.parse().ok();
    host == "localhost" || host.starts_with('/') || address.is_some_and(|a| a.is_loopback())
}
