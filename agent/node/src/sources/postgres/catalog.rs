//! What the database says of itself: version, tables and their columns, rights, the slot.
//! An ordinary connection.
//!
//! Always holds: nothing is changed here; what is missing is named with the statement that
//! gives it. Bound: a query may take QUERY_TIMEOUT. Knows no change.

use std::collections::BTreeMap;

use forebay_core::units::EventTime;
use postgres::{Client, Config, NoTls};

use super::auth::SETTINGS;
use super::fault::{Fault, Place, WAL_LEVEL, key_not_logged};
use super::limits::{CONNECT_TIMEOUT, QUERY_TIMEOUT, SERVER_VERSION_MIN, SILENCE_MAX};
use super::lsn::Lsn;
use super::pgoutput::TypeId;
use super::plan::Slot;
use super::record::TableId;
use super::translate::Fed;
use super::value::Kinds;
use crate::config::DatabaseConfig;
use crate::database::secret;
use crate::database::tls::Rustls;

/// A connection to the catalog.
pub(super) struct Catalog {
    client: Client,
    place: Place,
    version: u32,
}

impl std::fmt::Debug for Catalog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let catalog = f.debug_struct("Catalog");
        { catalog }
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}

/// The tables that are asked for, as they are now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Tables {
    /// Those that can be read, as `schema.name`.
    pub there: BTreeMap<String, TableId>,
    /// What keeps the others out.
    pub absent: Vec<String>,
    /// Rights that are missing, as statements.
    pub grants: Vec<String>,
    /// What is wrong with how they are published or logged.
    pub wrong: Vec<String>,
}

/// How a snapshot reads a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Selected {
    pub columns: Vec<(String, TypeId)>,
    /// `COPY (...) TO STDOUT`
    pub sql: String,
}

/// What the catalog says of the write log now and then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Figures {
    pub time: EventTime,
    /// Where the write log ends, and how far of it is on the server's disk.
    pub inserted: Lsn,
    pub flushed: Lsn,
    /// Bytes that the slot has not been told are durable here.
    pub lag: u64,
    /// Bytes of write log that the server keeps for the slot.
    pub kept: u64,
    /// How many more it may keep; `None`: until its disk is full.
    pub spare: Option<i64>,
    pub status: String,
}

impl Catalog {
    /// Connects, and checks that the server can be used at all.
    ///
    /// # Errors
    /// What is missing, and what to do.
    pub(super) fn connect(config: &DatabaseConfig, place: &Place) -> Result<Self, Fault> {
        let client = client(config, place)?;
        let mut catalog = Self {
            client,
            place: place.clone(),
            version: 0,
        };
        catalog.check_server()?;
        Ok(catalog)
    }

    /// The client, for the snapshot's transaction.
    pub(super) fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    fn check_server(&mut self) -> Result<(), Fault> {
        let sql = "SELECT current_setting('server_version_num')::int4, \
                   current_setting('server_version'), current_setting('server_encoding'), \
                   pg_is_in_recovery(), current_setting('wal_level')";
        let row = self.client.query_one(sql, &[]);
        let row = row.map_err(|error| self.place.client("ask for its version", &error))?;
        self.version = row.get::<_, i32>(0).unsigned_abs();
        let (version, encoding): (String, String) = (row.get(1), row.get(2));
        if self.version < SERVER_VERSION_MIN {
            let text = format!("version {version} is too old: 13 or later is needed");
            return Err(self.place.failed(text));
        }
        if encoding != "UTF8" {
            let text = format!("its encoding is {encoding}, and must be UTF8");
            return Err(self.place.failed(text));
        }
        if row.get(3) {
            let text = "it is a standby: name the primary in [[database]]. If it is to become \
                        one, this is tried again";
            return Err(Fault::Waiting(self.place.said(text)));
        }
        if row.get::<_, String>(4) != "logical" {
            return Err(self
                .place
                .failed(format!("wal_level is not logical. {WAL_LEVEL}")));
        }
        Ok(())
    }

    /// Checks the publication, and looks up the tables.
    ///
    /// # Errors
    /// That the publication cannot be used, or that the server is gone.
    pub(super) fn tables(&mut self, fed: &[Fed]) -> Result<Tables, Fault> {
        let name = self.place.publication.clone();
        let via_root = self.publication(&name, fed)?;
        let sql = "SELECT w.place, c.oid, c.relkind::text, c.relreplident::text, n.oid IS NOT NULL, \
              coalesce(has_schema_privilege(n.oid, 'USAGE'), false), \
              coalesce(has_table_privilege(c.oid, 'SELECT') \
                OR has_any_column_privilege(c.oid, 'SELECT'), false), \
              EXISTS (SELECT FROM pg_publication_tables t WHERE t.pubname = $1 \
                AND t.schemaname = w.schema AND t.tablename = w.name), \
              (SELECT r.oid FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid \
                WHERE p.pubname = $1 AND r.prrelid = c.oid), \
              ARRAY(SELECT a.attname::text FROM pg_index i JOIN pg_attribute a \
                ON a.attrelid = c.oid AND a.attnum = ANY (i.indkey) WHERE i.indrelid = c.oid \
                AND CASE c.relreplident WHEN 'd' THEN i.indisprimary \
                    WHEN 'i' THEN i.indisreplident ELSE false END), \
              ARRAY(SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = c.oid \
                AND a.attnum > 0 AND NOT a.attisdropped) \
            FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS w (schema, name, place) \
            LEFT JOIN pg_namespace n ON n.nspname = w.schema \
            LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.name \
              AND c.relkind IN ('r', 'p') \
            ORDER BY w.place";
        let schemas: Vec<&str> = fed.iter().map(|fed| &*fed.schema).collect();
        let names: Vec<&str> = fed.iter().map(|fed| &*fed.table).collect();
        let rows = self.client.query(sql, &[&name, &schemas, &names]);
        let rows = rows.map_err(|error| self.place.client("look up the tables", &error))?;
        let mut tables = Tables::default();
        for (row, fed) in rows.iter().zip(fed) {
            self.look(row, fed, via_root, &mut tables);
        }
        Ok(tables)
    }

    fn look(&self, row: &postgres::Row, fed: &Fed, via_root: bool, tables: &mut Tables) {
        let (oid, kind): (Option<u32>, Option<String>) = (row.get(1), row.get(2));
        let (user, publication) = (self.place.user(), quoted(&self.place.publication));
        let named = format!("{}.{}", quoted(&fed.schema), quoted(&fed.table));
        let Some(oid) = oid else {
            let absent = &mut tables.absent;
            return absent.push(format!("table {fed} is not there (any more)"));
        };
        if kind.as_deref() == Some("p") && !via_root {
            // What is published then are its partitions, not the table.
            tables.wrong.push(format!(
                "table {fed} is partitioned: let the publication's owner run ALTER PUBLICATION \
                 {publication} SET (publish_via_partition_root = true);"
            ));
            return;
        }
        if !row.get::<_, bool>(7) {
            return tables.absent.push(format!(
                "table {fed} is not in the publication: let its owner run ALTER PUBLICATION \
                 {publication} ADD TABLE {named};"
            ));
        }
        if !row.get::<_, bool>(5) {
            let schema = quoted(&fed.schema);
            let grant = format!("GRANT USAGE ON SCHEMA {schema} TO {};", quoted(user));
            if !tables.grants.contains(&grant) {
                tables.grants.push(grant);
            }
        }
        if !row.get::<_, bool>(6) {
            let grant = format!("GRANT SELECT ON {named} TO {};", quoted(user));
            tables.grants.push(grant);
        }
        let identity: Option<String> = row.get(3);
        let (logged, columns): (Vec<String>, Vec<String>) = (row.get(9), row.get(10));
        for column in &fed.key {
            if !columns.contains(column) {
                let text = format!("table {fed} has no column {column}, which is its key");
                tables.wrong.push(text);
            } else if identity.as_deref() != Some("f") && !logged.contains(column) {
                let text = key_not_logged(&named, column);
                tables.wrong.push(format!("table {fed}: {text}"));
            }
        }
        let id = TableId {
            table: oid,
            published: row.get::<_, Option<u32>>(8).unwrap_or(0),
        };
        tables.there.insert(fed.to_string(), id);
    }

    /// Whether partitions are published as their root.
    fn publication(&mut self, name: &str, fed: &[Fed]) -> Result<bool, Fault> {
        let sql = "SELECT pubinsert AND pubupdate AND pubdelete AND pubtruncate, pubviaroot \
                   FROM pg_publication WHERE pubname = $1";
        let row = self.client.query_opt(sql, &[&name]);
        let row = row.map_err(|error| self.place.client("look up the publication", &error))?;
        let Some(row) = row else {
            let tables = fed
                .iter()
                .map(|fed| format!("{}.{}", quoted(&fed.schema), quoted(&fed.table)));
            let tables: Vec<String> = tables.collect();
            return Err(self.place.failed(format!(
                "the publication {name} is missing. Let an owner of the tables run: CREATE \
                 PUBLICATION {} FOR TABLE {};",
                quoted(name),
                tables.join(", ")
            )));
        };
        if !row.get::<_, bool>(0) {
            return Err(self.place.failed(format!(
                "the publication {name} leaves changes out. Let its owner run: ALTER PUBLICATION \
                 {} SET (publish = 'insert, update, delete, truncate');",
                quoted(name)
            )));
        }
        Ok(row.get(1))
    }

    /// The slot of our name.
    ///
    /// # Errors
    /// That the server is gone.
    pub(super) fn slot(&mut self) -> Result<Option<Slot>, Fault> {
        let sql = "SELECT active, coalesce(slot_type = 'logical' AND plugin = 'pgoutput' \
                     AND database = current_database(), false), \
                   coalesce(wal_status = 'lost', false), \
                   coalesce(confirmed_flush_lsn, '0/0'::pg_lsn)::text \
                   FROM pg_replication_slots WHERE slot_name = $1";
        let row = self.client.query_opt(sql, &[&self.place.slot]);
        let row = row.map_err(|error| self.place.client("look up the slot", &error))?;
        Ok(row.map(|row| Slot {
            is_active: row.get(0),
            is_ours: row.get(1),
            is_lost: row.get(2),
            confirmed: Lsn::parse(row.get(3)).unwrap_or_default(),
        }))
    }

    /// The server's clock.
    ///
    /// # Errors
    /// That the server is gone.
    pub(super) fn now(&mut self) -> Result<EventTime, Fault> {
        let sql = format!("SELECT {NOW_US}");
        let row = self.client.query_one(&sql, &[]);
        let row = row.map_err(|error| self.place.client("ask for the time", &error))?;
        Ok(EventTime(row.get(0)))
    }

    /// Where the write log is, and what the slot keeps of it.
    ///
    /// # Errors
    /// That the server is gone.
    pub(super) fn figures(&mut self) -> Result<Option<Figures>, Fault> {
        // The time is taken before the places: what is committed later stands behind them.
        let sql = format!(
            "WITH now AS MATERIALIZED (SELECT {NOW_US} AS us) \
             SELECT now.us, pg_current_wal_insert_lsn()::text, pg_current_wal_flush_lsn()::text, \
               greatest(0, pg_wal_lsn_diff(pg_current_wal_insert_lsn(), \
                 confirmed_flush_lsn))::int8, \
               greatest(0, pg_wal_lsn_diff(pg_current_wal_insert_lsn(), restart_lsn))::int8, \
               safe_wal_size, coalesce(wal_status, '') \
             FROM now, pg_replication_slots WHERE slot_name = $1"
        );
        let row = self.client.query_opt(&sql, &[&self.place.slot]);
        let row = row.map_err(|error| self.place.client("ask for the slot's lag", &error))?;
        let Some(row) = row else { return Ok(None) };
        let bytes = |column: usize| row.get::<_, Option<i64>>(column).unwrap_or(0);
        Ok(Some(Figures {
            time: EventTime(row.get(0)),
            inserted: Lsn::parse(row.get(1)).unwrap_or_default(),
            flushed: Lsn::parse(row.get(2)).unwrap_or_default(),
            lag: bytes(3).unsigned_abs(),
            kept: bytes(4).unsigned_abs(),
            spare: row.get(5),
            status: row.get(6),
        }))
    }

    /// Notes what types of the users are based on.
    ///
    /// # Errors
    /// That the server is gone.
    pub(super) fn learn(&mut self, types: &[TypeId], kinds: &mut Kinds) -> Result<(), Fault> {
        let sql = "WITH RECURSIVE base (id, kind, of) AS (\
                     SELECT oid, typtype::text, typbasetype FROM pg_type WHERE oid = $1 \
                     UNION ALL SELECT t.oid, t.typtype::text, t.typbasetype \
                     FROM base b JOIN pg_type t ON t.oid = b.of WHERE b.kind = 'd') \
                   SELECT id FROM base WHERE kind <> 'd' LIMIT 1";
        for id in types {
            let row = self.client.query_opt(sql, &[&id.0]);
            let row = row.map_err(|error| self.place.client("look up a type", &error))?;
            kinds.learn(*id, row.map(|row| TypeId(row.get(0))));
        }
        Ok(())
    }

    /// How a table's rows are read as the stream would give them: the same columns in the
    /// same order, and the same rows.
    ///
    /// # Errors
    /// That the server is gone, or that the table has just gone.
    pub(super) fn selected(&mut self, fed: &Fed) -> Result<Selected, Fault> {
        let fail = |place: &Place, error| place.client("look up the columns", &error);
        let sql = "SELECT a.attname::text, a.atttypid, c.relkind = 'r' FROM pg_attribute a \
                   JOIN pg_class c ON c.oid = a.attrelid \
                   JOIN pg_namespace n ON n.oid = c.relnamespace \
                   WHERE n.nspname = $1 AND c.relname = $2 AND c.relkind IN ('r', 'p') \
                     AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' \
                   ORDER BY a.attnum";
        let rows = self.client.query(sql, &[&fed.schema, &fed.table]);
        let rows = rows.map_err(|error| fail(&self.place, error))?;
        let (kept, filter) = self.lists(fed)?;
        let mut only = "";
        let mut columns = Vec::new();
        for row in rows {
            let name: String = row.get(0);
            if row.get(2) {
                // What inherits from it is published as itself.
                only = "ONLY ";
            }
            if kept.as_ref().is_none_or(|kept| kept.contains(&name)) {
                columns.push((name, TypeId(row.get(1))));
            }
        }
        if columns.is_empty() {
            let text = format!("table {fed} has no columns, or has just gone");
            return Err(Fault::Waiting(self.place.said(text)));
        }
        let names: Vec<String> = columns.iter().map(|(name, _)| quoted(name)).collect();
        let filter = filter.map_or(String::new(), |filter| format!(" WHERE {filter}"));
        let sql = format!(
            "COPY (SELECT {} FROM {only}{}.{}{filter}) TO STDOUT",
            names.join(", "),
            quoted(&fed.schema),
            quoted(&fed.table)
        );
        Ok(Selected { columns, sql })
    }

    /// Columns and rows that the publication is limited to.
    fn lists(&mut self, fed: &Fed) -> Result<(Option<Vec<String>>, Option<String>), Fault> {
        if self.version < 150_000 {
            return Ok((None, None));
        }
        let sql = "SELECT attnames::text[], rowfilter FROM pg_publication_tables \
                   WHERE pubname = $1 AND schemaname = $2 AND tablename = $3";
        let row = self
            .client
            .query_opt(sql, &[&self.place.publication, &fed.schema, &fed.table]);
        let row = row.map_err(|error| self.place.client("look up the columns", &error))?;
        Ok(row.map_or((None, None), |row| (row.get(0), row.get(1))))
    }
}

/// The server's clock, in microseconds since 1970.
const NOW_US: &str = "(extract(epoch FROM clock_timestamp()) * 1000000)::int8";

fn client(config: &DatabaseConfig, place: &Place) -> Result<Client, Fault> {
    let mut settings = Config::new();
    settings
        .host(&config.host)
        .port(config.port)
        .user(&config.user)
        .dbname(&config.database)
        .application_name("forebay")
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_user_timeout(SILENCE_MAX)
        .keepalives_idle(SILENCE_MAX / 3)
        .notice_callback(|_| {});
    let password = secret::password(config.password.as_ref());
    if let Some(password) = password.map_err(|text| place.failed(text))? {
        settings.password(password);
    }
    let connected = if config.tls {
        settings.ssl_mode(postgres::config::SslMode::Require);
        let tls = secret::tls(config.ca_file.as_deref(), config.identity.as_ref());
        settings.connect(Rustls(tls.map_err(|text| place.failed(text))?))
    } else {
        settings.ssl_mode(postgres::config::SslMode::Disable);
        settings.connect(NoTls)
    };
    let mut client = connected.map_err(|error| place.client("connect", &error))?;
    let mut set = String::new();
    for (name, value) in SETTINGS {
        set += &format!("SET {name} TO {}; ", literal(value));
    }
    set += &format!("SET statement_timeout TO {}", QUERY_TIMEOUT.as_millis());
    let done = client.batch_execute(&set);
    done.map_err(|error| place.client("set up the session", &error))?;
    Ok(client)
}

/// A name as SQL.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text as SQL.
pub(super) fn literal(text: &str) -> String {
    let escape = if text.contains('\\') { "E" } else { "" };
    format!(
        "{escape}'{}'",
        text.replace('\\', "\\\\").replace('\'', "''")
    )
}
