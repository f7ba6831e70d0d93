//! What of a database can be told without changing it: whether a receiver could work there.

use postgres::Client;

use super::connect;
use super::fault::Place;
use super::migrate;
use crate::config::PostgresConfig;

/// What was seen of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostgresSeen {
    /// Of the server, as it says it.
    pub version: String,
    pub user: String,
    pub schema: String,
    pub is_tls: bool,
    /// It is on this computer.
    pub is_near: bool,
    /// Version of our tables; 0: there are none.
    pub tables: usize,
    /// Statements that give the rights that are missing.
    pub missing: Vec<String>,
}

/// Connects as a receiver does, and looks. Changes nothing.
///
/// # Errors
/// A sentence: what keeps us out, and what to do.
pub fn look_at_postgres(config: &PostgresConfig) -> Result<PostgresSeen, String> {
    let place = connect::place(config);
    let mut client = connect::connect(config).map_err(|error| error.to_string())?;
    let tables = migrate::version(&mut client, &place).map_err(|error| error.to_string())?;
    let seen = look(&mut client, &place, tables);
    let (version, missing) = seen.map_err(|error| place.fault("look", &error).to_string())?;
    Ok(PostgresSeen {
        version,
        user: config.user.clone(),
        schema: config.schema.clone(),
        is_tls: config.tls,
        is_near: is_near(&config.host),
        tables,
        missing,
    })
}

/// Whether nobody in between can listen.
fn is_near(host: &str) -> bool {
    let address = host.parse::<std::net::IpAddr>();
    host.starts_with('/') || host == "localhost" || address.is_ok_and(|ip| ip.is_loopback())
}

fn look(
    client: &mut Client,
    place: &Place,
    tables: usize,
) -> Result<(String, Vec<String>), postgres::Error> {
    let sql = "SELECT current_setting('server_version')";
    let version = client.query_one(sql, &[])?.get(0);
    let missing = if tables == 0 {
        to_make(client, place)?
    } else {
        to_write(client, place)?
    };
    Ok((version, missing))
}

/// Rights that making the tables needs.
fn to_make(client: &mut Client, place: &Place) -> Result<Vec<String>, postgres::Error> {
    let Place {
        user,
        database,
        schema,
        ..
    } = place;
    let sql = "SELECT has_schema_privilege(oid, 'USAGE') AND has_schema_privilege(oid, 'CREATE') \
               FROM pg_namespace WHERE nspname = $1";
    let may: Option<bool> = client.query_opt(sql, &[schema])?.map(|row| row.get(0));
    let quoted = connect::quoted;
    Ok(match may {
        Some(true) => Vec::new(),
        Some(false) => vec![format!(
            "GRANT USAGE, CREATE ON SCHEMA {} TO {};",
            quoted(schema),
            quoted(user)
        )],
        None => {
            let sql = "SELECT has_database_privilege(current_database(), 'CREATE')";
            let may: bool = client.query_one(sql, &[])?.get(0);
            let grant = format!(
                "GRANT CREATE ON DATABASE {} TO {};",
                quoted(database),
                quoted(user)
            );
            if may { Vec::new() } else { vec![grant] }
        }
    })
}

/// Rights that writing the tables needs: all of each, and to be the owner of those that
/// get partitions.
fn to_write(client: &mut Client, place: &Place) -> Result<Vec<String>, postgres::Error> {
    let sql = "SELECT c.relname::text, c.relkind = 'p' AND NOT pg_has_role(c.relowner, 'USAGE'), \
               has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT') \
               AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE') \
               FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
               WHERE n.nspname = $1 AND c.relkind IN ('r', 'p') AND NOT c.relispartition \
               ORDER BY c.relname";
    let mut missing = Vec::new();
    for row in client.query(sql, &[&place.schema])? {
        let (name, is_foreign, may): (String, bool, bool) = (row.get(0), row.get(1), row.get(2));
        let (user, schema) = (connect::quoted(&place.user), connect::quoted(&place.schema));
        let table = connect::quoted(&name);
        if is_foreign {
            missing.push(format!("ALTER TABLE {schema}.{table} OWNER TO {user};"));
        } else if !may {
            missing.push(format!(
                "GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.{table} TO {user};"
            ));
        }
    }
    Ok(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_near() {
        for (host, near) in [
            ("127.0.0.1", true),
            ("127.1.2.3", true),
            ("::1", true),
            ("localhost", true),
            ("/run/postgresql", true),
            ("10.0.0.1", false),
            ("db.example.org", false),
            ("localhost.example.org", false),
        ] {
            assert_eq!(is_near(host), near, "{host}");
        }
    }
}
