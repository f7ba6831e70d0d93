//! `[[database]]`: a PostgreSQL whose changes tables are fed from.
//!
//! Always holds: no password is read here or kept in a config, only where it is; two
//! sections never share a slot. Bound: DATABASES_MAX.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::ConfigError;
use super::postgres::{self, PostgresPassword};
use super::reader::{Field, Source, Table};
use super::schema::{Default, Key, Section};

/// `[[database]]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseConfig {
    pub name: String,
    /// A name, an address, or the folder of a socket.
    pub host: String,
    pub port: u16,
    pub user: String,
    pub database: String,
    pub password: Option<PostgresPassword>,
    /// Only to a server with a certificate that holds for `host`.
    pub tls: bool,
    /// `None`: the system's authorities.
    pub ca_file: Option<PathBuf>,
    /// Our own certificate and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// `None`: derived, see [`DatabaseConfig::slot`].
    pub slot: Option<String>,
    pub publication: String,
    /// 100 ms to 1 min.
    pub heartbeat: Duration,
}

/// Databases of one agent: each is a thread and two connections.
pub const DATABASES_MAX: usize = 16;
/// Longest name of a slot.
const SLOT_BYTES_MAX: usize = 63;
/// What a derived name keeps of the names in it; a hash of eight digits follows.
const SLOT_NAMES_MAX: usize = SLOT_BYTES_MAX - 9;
const _: () = assert!(SLOT_NAMES_MAX + 1 + 8 == SLOT_BYTES_MAX);
const HEARTBEAT_MIN: Duration = Duration::from_millis(100);
const HEARTBEAT_MAX: Duration = Duration::from_secs(60);

pub const DATABASE: Section = Section {
    name: "database",
    many: true,
    doc: "A PostgreSQL that tables are fed from, by its own write log; see agent/node/docs/tables-postgres.md.",
    keys: &[
        Key {
            name: "name",
            default: Default::Required("\"main\""),
            doc: "What tables call it. Letters, digits, - _ and .",
        },
        postgres::HOST,
        postgres::PORT,
        Key {
            name: "user",
            default: Default::Is("\"forebay\""),
            doc: "Role with LOGIN and REPLICATION, and SELECT on the tables.",
        },
        postgres::DATABASE_NAME,
        postgres::PASSWORD_FILE,
        postgres::PASSWORD_ENV,
        postgres::TLS,
        postgres::CA_FILE,
        Key {
            name: "cert_file",
            default: Default::None("\"/etc/forebay/gateway.pem\""),
            doc: "PEM file of our own certificate, for servers that ask for one.",
        },
        Key {
            name: "key_file",
            default: Default::None("\"/etc/forebay/gateway.key\""),
            doc: "PEM file of its key.",
        },
        Key {
            name: "publication",
            default: Default::Is("\"forebay\""),
            doc: "Publication that has the tables.",
        },
        Key {
            name: "slot",
            default: Default::None("\"forebay_gw1_main\""),
            doc: "Replication slot, of this agent alone; made where it is missing. a-z 0-9 _, at most 63.\nDefault forebay_<gateway>_<name>, with a hash where those have other characters.",
        },
        Key {
            name: "heartbeat",
            default: Default::Is("\"1s\""),
            doc: "How often a database without changes says so: readings that look up wait for it. 100ms to 1m.",
        },
    ],
};

impl DatabaseConfig {
    /// The slot's name: the one given, or one made of the gateway's and the section's
    /// names, at most 63 bytes, another one for other names.
    #[must_use]
    pub fn slot(&self, gateway: &str) -> String {
        if let Some(slot) = &self.slot {
            return slot.clone();
        }
        let name = &self.name;
        let plain = |text: &str| {
            let mut bytes = text.bytes();
            bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        };
        let text = format!("forebay_{gateway}_{name}").to_lowercase();
        let mut slot: String = text
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
            .collect();
        if !plain(gateway) || !plain(name) || slot.len() > SLOT_BYTES_MAX {
            slot.truncate(SLOT_NAMES_MAX);
            let hash = crc32c::crc32c(format!("{gateway}\0{name}").as_bytes());
            slot = format!("{slot}_{hash:08x}");
        }
        slot
    }
}

/// All sections.
pub fn databases(source: &Source<'_>, folder: &Path) -> Result<Vec<DatabaseConfig>, ConfigError> {
    let mut found: Vec<DatabaseConfig> = Vec::new();
    for table in source.many(&DATABASE)? {
        let name = table.need("name")?;
        let database = database(&table, folder)?;
        if found.iter().any(|other| other.name == database.name) {
            return Err(name.bad("is the name of two databases"));
        }
        let shares = |other: &DatabaseConfig| other.slot.is_some() && other.slot == database.slot;
        if found.iter().any(shares) {
            return Err(table.error("slot", "is the slot of another section as well"));
        }
        if found.len() == DATABASES_MAX {
            return Err(name.bad(format!("is one more than {DATABASES_MAX} databases")));
        }
        found.push(database);
    }
    Ok(found)
}

fn database(table: &Table<'_>, folder: &Path) -> Result<DatabaseConfig, ConfigError> {
    let host = table.need("host")?;
    let port = table.need("port")?.int(1, i64::from(u16::MAX))?;
    Ok(DatabaseConfig {
        name: table.need("name")?.name()?,
        tls: postgres::tls(table, host.text()?)?,
        host: host.text()?.to_owned(),
        port: u16::try_from(port).expect("from 1 to 65535"),
        user: postgres::name(&table.need("user")?)?,
        database: postgres::name(&table.need("database")?)?,
        password: postgres::password(table, folder)?,
        ca_file: postgres::path(table, folder, "ca_file")?,
        identity: postgres::identity(table, folder)?,
        slot: table.get("slot")?.map(|field| slot(&field)).transpose()?,
        publication: postgres::name(&table.need("publication")?)?,
        heartbeat: table
            .need("heartbeat")?
            .timer(HEARTBEAT_MIN, HEARTBEAT_MAX)?,
    })
}

fn slot(field: &Field<'_>) -> Result<String, ConfigError> {
    let text = field.text()?;
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    if text.len() > SLOT_BYTES_MAX || !text.bytes().all(plain) {
        return Err(field.bad(format!("must be 1 to {SLOT_BYTES_MAX} of a-z 0-9 and _")));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<DatabaseConfig>, String> {
        let source = Source::parse(Path::new("c.toml"), text).map_err(|error| error.to_string())?;
        databases(&source, Path::new("/etc/fb")).map_err(|error| error.to_string())
    }

    #[test]
    fn a_section_needs_a_name_alone() {
        let found = read("[[database]]\nname = \"main\"\n").unwrap();
        assert_eq!(found[0].publication, "forebay");
        assert!(!found[0].tls, "nobody listens on the way to this host");
        let far = read("[[database]]\nname = \"main\"\nhost = \"db.example\"\n").unwrap();
        assert!(far[0].tls);
    }

    #[test]
    fn what_cannot_be_used_is_refused() {
        let longest = "s".repeat(SLOT_BYTES_MAX);
        let section = |more: &str| format!("[[database]]\nname = \"a\"\n{more}\n");
        for (name, text, said) in [
            ("no name", "[[database]]\n".to_owned(), Some("is missing")),
            ("twice", section("") + &section(""), Some("two databases")),
            (
                "one slot",
                section("slot = \"s\"") + "[[database]]\nname = \"b\"\nslot = \"s\"\n",
                Some("another section"),
            ),
            (
                "longest slot",
                section(&format!("slot = \"{longest}\"")),
                None,
            ),
            (
                "long slot",
                section(&format!("slot = \"{longest}s\"")),
                Some("1 to 63"),
            ),
            (
                "slot with a dash",
                section("slot = \"a-b\""),
                Some("1 to 63"),
            ),
            (
                "fast",
                section("heartbeat = \"99ms\""),
                Some("must be from"),
            ),
            ("fastest", section("heartbeat = \"100ms\""), None),
            ("slowest", section("heartbeat = \"1m\""), None),
            ("slow", section("heartbeat = \"61s\""), Some("must be from")),
            (
                "key alone",
                section("key_file = \"k\""),
                Some("needs a cert_file"),
            ),
        ] {
            let error = read(&text).err();
            match (&error, said) {
                (None, None) => {}
                (Some(error), Some(said)) => assert!(error.contains(said), "{name}: {error}"),
                (None, Some(_)) | (Some(_), None) => panic!("{name}: {error:?}"),
            }
        }
        let most: String = (0..DATABASES_MAX)
            .map(|n| format!("[[database]]\nname = \"d{n}\"\n"))
            .collect();
        assert_eq!(read(&most).map(|found| found.len()), Ok(DATABASES_MAX));
        let error = read(&(most + "[[database]]\nname = \"more\"\n")).unwrap_err();
        assert!(error.contains("one more than 16"), "{error}");
    }

    #[test]
    fn slots_have_names_of_their_own() {
        let database = read("[[database]]\nname = \"main\"\n").unwrap().remove(0);
        let named = |name: &str| DatabaseConfig {
            name: name.to_owned(),
            ..database.clone()
        };
        assert_eq!(named("main").slot("gw1"), "forebay_gw1_main");
        let all = [
            named("b_c").slot("a"),
            named("c").slot("a-b"),
            named("b-c").slot("a"),
            named("B").slot("a"),
            named("b").slot("a"),
            named(&"x".repeat(64)).slot(&"g".repeat(64)),
            named(&"y".repeat(64)).slot(&"g".repeat(64)),
        ];
        for (n, slot) in all.iter().enumerate() {
            assert!(slot.len() <= SLOT_BYTES_MAX, "{slot}");
            let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
            assert!(slot.bytes().all(plain), "{slot}");
            assert!(!all[..n].contains(slot), "{slot}");
        }
    }
}
