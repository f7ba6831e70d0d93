//! A session with the server, set up as the sink needs it.
//!
//! Always holds: a session that is given out writes durably, gives up on statements,
//! locks and peers that take too long, and finds the sink's tables first. Passwords are
//! read from where they are kept for each connection, and kept nowhere.

use postgres::{Client, Config, NoTls};

use super::super::SinkError;
use super::fault::Place;
use super::limits::{
    CONNECT_TIMEOUT, KEEPALIVE_IDLE, KEEPALIVE_INTERVAL, KEEPALIVE_RETRIES, LOCK_TIMEOUT,
    PEER_TIMEOUT, SERVER_VERSION_MIN, STATEMENT_TIMEOUT,
};
use crate::config::PostgresConfig;
use crate::database::secret;
use crate::database::tls::Rustls;

/// Where the configured server is.
pub(super) fn place(config: &PostgresConfig) -> Place {
    Place {
        host: config.host.clone(),
        port: config.port,
        user: config.user.clone(),
        database: config.database.clone(),
        schema: config.schema.clone(),
    }
}

/// Connects and checks that the server is one that can be written to.
///
/// # Errors
/// What keeps us out, and what to do.
pub(super) fn connect(config: &PostgresConfig) -> Result<Client, SinkError> {
    let place = place(config);
    let mut settings = settings(config);
    let password = secret::password(config.password.as_ref());
    if let Some(password) = password.map_err(|text| place.said(text))? {
        settings.password(password);
    }
    let connected = if config.tls {
        settings.ssl_mode(postgres::config::SslMode::Require);
        let tls = secret::tls(config.ca_file.as_deref(), config.identity.as_ref());
        let tls = tls.map_err(|text| place.said(text))?;
        settings.connect(Rustls(tls))
    } else {
        settings.ssl_mode(postgres::config::SslMode::Disable);
        settings.connect(NoTls)
    };
    let mut client = connected.map_err(|error| place.fault("connect", &error))?;
    prepare(&mut client, &place)?;
    Ok(client)
}

fn settings(config: &PostgresConfig) -> Config {
    let mut settings = Config::new();
    settings
        .host(&config.host)
        .port(config.port)
        .user(&config.user)
        .dbname(&config.database)
        .application_name("forebay")
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_user_timeout(PEER_TIMEOUT)
        .keepalives_idle(KEEPALIVE_IDLE)
        .keepalives_interval(KEEPALIVE_INTERVAL)
        .keepalives_retries(KEEPALIVE_RETRIES)
        // Notices such as "already exists, skipping" are of no use to who runs this.
        .notice_callback(|_| {});
    settings
}

fn prepare(client: &mut Client, place: &Place) -> Result<(), SinkError> {
    let sql = "SELECT current_setting('server_version_num')::int4, \
               current_setting('server_encoding'), pg_is_in_recovery(), \
               current_setting('default_transaction_read_only')::bool, \
               current_setting('synchronous_commit'), current_setting('server_version')";
    let row = client
        .query_one(sql, &[])
        .map_err(|error| place.fault("ask for its version", &error))?;
    let version: i32 = row.get(0);
    if version.cast_unsigned() < SERVER_VERSION_MIN {
        let found: String = row.get(5);
        return Err(place.said(format!("version {found} is too old: 12 or later is needed")));
    }
    let encoding: String = row.get(1);
    if encoding != "UTF8" {
        return Err(place.said(format!(
            "its encoding is {encoding}, which cannot hold all names: create the database \
             with ENCODING 'UTF8' TEMPLATE template0"
        )));
    }
    let (standby, read_only): (bool, bool) = (row.get(2), row.get(3));
    if standby || read_only {
        return Err(place.said(
            "takes no writes: it is a standby or read only. Name the primary in [postgres]",
        ));
    }
    let mut set = format!(
        "SET search_path TO {}, pg_temp; SET timezone TO 'UTC'; \
         SET statement_timeout TO {}; SET lock_timeout TO {}; \
         SET idle_in_transaction_session_timeout TO {}",
        quoted(&place.schema),
        STATEMENT_TIMEOUT.as_millis(),
        LOCK_TIMEOUT.as_millis(),
        STATEMENT_TIMEOUT.as_millis(),
    );
    // What is acked to the broker must be on disk. All other settings mean at least that.
    if row.get::<_, String>(4) == "off" {
        set += "; SET synchronous_commit TO on";
    }
    client
        .batch_execute(&set)
        .map_err(|error| place.fault("set up the session", &error))
}

/// A name as SQL.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
