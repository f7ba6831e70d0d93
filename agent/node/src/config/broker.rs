//! How a broker is reached: the keys that every section with a `broker` shares.
//!
//! Always holds: no file is read here and no password is kept, only where it is;
//! keys that cannot work together are errors. What the files hold is found out when
//! a connection is made: [`Placed`] says then which key named them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::{ConfigError, Place};
use super::reader::{Field, Table};

/// Version of MQTT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    V5,
    /// Without reason codes, limits and user properties.
    V311,
}

/// What carries MQTT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    Tcp,
    Tls,
    Ws,
    /// Websocket over TLS.
    Wss,
}

impl Transport {
    #[must_use]
    pub fn is_tls(self) -> bool {
        matches!(self, Self::Tls | Self::Wss)
    }

    #[must_use]
    pub fn is_websocket(self) -> bool {
        matches!(self, Self::Ws | Self::Wss)
    }
}

/// A value, and the key that gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed<T> {
    pub value: T,
    pub place: Place,
}

/// The files of TLS. All PEM.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsKeys {
    /// `None`: the system's authorities.
    pub ca_file: Option<Placed<PathBuf>>,
    pub identity: Option<Identity>,
    /// `None`: the host of the broker's address.
    pub server_name: Option<Placed<String>>,
}

/// Our own certificate with its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub cert_file: Placed<PathBuf>,
    pub key_file: Placed<PathBuf>,
}

/// Where the password is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PasswordFrom {
    File(Placed<PathBuf>),
    /// Name of an environment variable.
    Env(Placed<String>),
}

/// How a broker is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerConfig {
    /// host:port
    pub address: String,
    pub client_id: String,
    pub protocol: Protocol,
    pub transport: Transport,
    pub tls: TlsKeys,
    /// Begins with a slash.
    pub ws_path: String,
    pub username: Option<String>,
    /// Only with a user name.
    pub password: Option<PasswordFrom>,
    /// 5 s to 1 h.
    pub keep_alive: Duration,
    /// 100 ms to 24 h.
    pub backoff_max: Duration,
}

const KEEP_ALIVE_MIN: Duration = Duration::from_secs(5);
const KEEP_ALIVE_MAX: Duration = Duration::from_secs(3600);
const KEEP_ALIVE: Duration = Duration::from_secs(20);
const BACKOFF_MIN: Duration = Duration::from_millis(100);
const BACKOFF_MAX: Duration = Duration::from_secs(24 * 3600);
const BACKOFF: Duration = Duration::from_secs(60);
const WS_PATH: &str = "/mqtt";
const WS_PATH_BYTES_MAX: usize = 256;

impl BrokerConfig {
    /// The broker at `address` (host:port) over plain TCP by MQTT 5.
    #[must_use]
    pub fn plain(address: &str, client_id: &str) -> Self {
        Self {
            address: address.to_owned(),
            client_id: client_id.to_owned(),
            protocol: Protocol::V5,
            transport: Transport::Tcp,
            tls: TlsKeys::default(),
            ws_path: WS_PATH.to_owned(),
            username: None,
            password: None,
            keep_alive: KEEP_ALIVE,
            backoff_max: BACKOFF,
        }
    }
}

/// Reads the keys of a broker from a section that has them. Paths that are not
/// absolute start at `folder`.
pub fn broker(
    table: &Table<'_>,
    folder: &Path,
    client_id: String,
) -> Result<BrokerConfig, ConfigError> {
    let address = table.need("broker")?.host_port()?;
    let transport = table.need("transport")?.one_of(&[
        ("tcp", Transport::Tcp),
        ("tls", Transport::Tls),
        ("ws", Transport::Ws),
        ("wss", Transport::Wss),
    ])?;
    let username = match table.get("username")? {
        Some(field) => Some(field.text()?.to_owned()),
        None => None,
    };
    let (keep_alive, backoff) = (table.need("keep_alive")?, table.need("backoff_max")?);
    Ok(BrokerConfig {
        address,
        client_id,
        protocol: table
            .need("protocol")?
            .one_of(&[("5", Protocol::V5), ("3.1.1", Protocol::V311)])?,
        transport,
        tls: tls(table, folder, transport)?,
        ws_path: ws_path(table, transport)?,
        password: password(table, folder, username.is_some())?,
        username,
        keep_alive: keep_alive.timer(KEEP_ALIVE_MIN, KEEP_ALIVE_MAX)?,
        backoff_max: backoff.timer(BACKOFF_MIN, BACKOFF_MAX)?,
    })
}

fn tls(table: &Table<'_>, folder: &Path, transport: Transport) -> Result<TlsKeys, ConfigError> {
    for name in ["ca_file", "cert_file", "key_file", "server_name"] {
        if let Some(field) = table.get(name)?
            && !transport.is_tls()
        {
            return Err(field.error("needs transport = \"tls\" or \"wss\" beside it"));
        }
    }
    let identity = match (table.get("cert_file")?, table.get("key_file")?) {
        (None, None) => None,
        (Some(cert), Some(key)) => Some(Identity {
            cert_file: path(&cert, folder)?,
            key_file: path(&key, folder)?,
        }),
        (Some(cert), None) => return Err(cert.error("needs a key_file beside it")),
        (None, Some(key)) => return Err(key.error("needs a cert_file beside it")),
    };
    let ca_file = table.get("ca_file")?;
    let server_name = match table.get("server_name")? {
        Some(field) => Some(Placed {
            value: server_name(&field)?,
            place: field.place(),
        }),
        None => None,
    };
    Ok(TlsKeys {
        ca_file: ca_file.map(|field| path(&field, folder)).transpose()?,
        identity,
        server_name,
    })
}

fn server_name(field: &Field<'_>) -> Result<String, ConfigError> {
    let text = field.text()?;
    match rustls::pki_types::ServerName::try_from(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err(field.bad("is no host name and no IP address")),
    }
}

fn path(field: &Field<'_>, folder: &Path) -> Result<Placed<PathBuf>, ConfigError> {
    Ok(Placed {
        value: folder.join(field.text()?),
        place: field.place(),
    })
}

fn ws_path(table: &Table<'_>, transport: Transport) -> Result<String, ConfigError> {
    let Some(field) = table.get("ws_path")? else {
        return Ok(WS_PATH.to_owned());
    };
    if !transport.is_websocket() {
        return Err(field.error("needs transport = \"ws\" or \"wss\" beside it"));
    }
    let text = field.text()?;
    let plain = text
        .bytes()
        .all(|b| b.is_ascii_graphic() && !b"#\"<>\\^`{|}".contains(&b));
    if !text.starts_with('/') || !plain || text.len() > WS_PATH_BYTES_MAX {
        return Err(field.bad("must be a path of a URL, such as \"/mqtt\", of at most 256 bytes"));
    }
    Ok(text.to_owned())
}

fn password(
    table: &Table<'_>,
    folder: &Path,
    has_user: bool,
) -> Result<Option<PasswordFrom>, ConfigError> {
    let (file, env) = (table.get("password_file")?, table.get("password_env")?);
    if let Some(field) = file.as_ref().or(env.as_ref())
        && !has_user
    {
        return Err(field.error("needs a username beside it"));
    }
    match (file, env) {
        (None, None) => Ok(None),
        (Some(file), None) => Ok(Some(PasswordFrom::File(path(&file, folder)?))),
        (None, Some(env)) => {
            // Not shown: what stands there may be the password itself.
            let name = env.text()?.to_owned();
            let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
            if !name.bytes().all(plain) || name.as_bytes()[0].is_ascii_digit() {
                return Err(env.error("must be the name of an environment variable"));
            }
            let place = env.place();
            Ok(Some(PasswordFrom::Env(Placed { value: name, place })))
        }
        (Some(_), Some(env)) => Err(env.error("cannot stand beside a password_file")),
    }
}

#[cfg(test)]
mod tests;
