//! Brings the tables to this program's version.
//!
//! Always holds: each version is applied once and whole, also when several receivers
//! start at once; tables of a newer version are left alone. Versions only grow: what a
//! released one did is never changed.

use postgres::{Client, Transaction};

use super::super::SinkError;
use super::connect::quoted;
use super::fault::Place;
use super::layout::Layout;

/// What each version adds, from 1 on.
const VERSIONS: [&str; 2] = [include_str!("schema_1.sql"), include_str!("schema_2.sql")];
/// Where version 1 says whether the readings are partitioned.
const PARTITIONED: &str = "/*PARTITIONED*/";
/// First key of the advisory lock: "fore" as a number. The second is of the schema.
const LOCK_CLASS: i32 = 0x666f_7265;

/// Version of the tables: 0 where there are none.
pub(super) fn version(client: &mut Client, place: &Place) -> Result<usize, SinkError> {
    let sql = "SELECT to_regclass($1) IS NOT NULL";
    let table = format!("{}.schema_version", quoted(&place.schema));
    let there = client
        .query_one(sql, &[&table])
        .map_err(|error| place.fault("look for the tables", &error))?;
    if !there.get::<_, bool>(0) {
        return Ok(0);
    }
    let row = client
        .query_one("SELECT coalesce(max(version), 0) FROM schema_version", &[])
        .map_err(|error| place.fault("read the tables' version", &error))?;
    let found: i32 = row.get(0);
    let found = usize::try_from(found).unwrap_or_default();
    if found > VERSIONS.len() {
        return Err(place.said(format!(
            "the tables in schema {} are of version {found}, this program knows versions up to \
             {}: update it. Nothing was changed",
            place.schema,
            VERSIONS.len()
        )));
    }
    Ok(found)
}

/// Makes or updates the tables where needed.
///
/// # Errors
/// When something is missing that only an administrator can give.
pub(super) fn migrate(client: &mut Client, place: &Place) -> Result<(), SinkError> {
    if version(client, place)? == VERSIONS.len() {
        return Ok(());
    }
    let fail = |error: &postgres::Error| place.fault("create the tables", error);
    let mut transaction = client.transaction().map_err(|error| fail(&error))?;
    let lock = "SELECT pg_advisory_xact_lock($1, hashtext($2))";
    transaction
        .execute(lock, &[&LOCK_CLASS, &place.schema])
        .map_err(|error| fail(&error))?;
    create_schema(&mut transaction, place).map_err(|error| fail(&error))?;
    let layout = Layout::of_new(&mut transaction).map_err(|error| fail(&error))?;
    let done = applied(&mut transaction, place).map_err(|error| fail(&error))?;
    for (number, sql) in (1..).zip(VERSIONS).skip(done) {
        let version = apply(&mut transaction, number, sql, &layout);
        version.map_err(|error| fail(&error))?;
    }
    if done == 0 {
        let made = layout.make(&mut transaction);
        made.map_err(|error| fail(&error))?;
    }
    transaction.commit().map_err(|error| fail(&error))
}

/// What others have applied before the lock was ours.
fn applied(transaction: &mut Transaction<'_>, place: &Place) -> Result<usize, postgres::Error> {
    let table = format!("{}.schema_version", quoted(&place.schema));
    let row = transaction.query_one("SELECT to_regclass($1) IS NOT NULL", &[&table])?;
    if !row.get::<_, bool>(0) {
        return Ok(0);
    }
    let sql = "SELECT coalesce(max(version), 0) FROM schema_version";
    let found: i32 = transaction.query_one(sql, &[])?.get(0);
    Ok(usize::try_from(found).unwrap_or_default())
}

/// Creates the schema where it is missing: asking first, as `IF NOT EXISTS` needs the
/// right to create one even where it is there.
fn create_schema(transaction: &mut Transaction<'_>, place: &Place) -> Result<(), postgres::Error> {
    let sql = "SELECT 1 FROM pg_namespace WHERE nspname = $1";
    if transaction.query_opt(sql, &[&place.schema])?.is_none() {
        transaction.batch_execute(&format!("CREATE SCHEMA {}", quoted(&place.schema)))?;
    }
    Ok(())
}

fn apply(
    transaction: &mut Transaction<'_>,
    number: i32,
    sql: &str,
    layout: &Layout,
) -> Result<(), postgres::Error> {
    let by = match layout {
        Layout::Partitions => " PARTITION BY RANGE (\"time\")",
        Layout::Hypertable { .. } => "",
    };
    transaction.batch_execute(&sql.replace(PARTITIONED, by))?;
    let program = concat!("forebay ", env!("CARGO_PKG_VERSION"));
    let note = "INSERT INTO schema_version (version, program) VALUES ($1, $2)";
    transaction.execute(note, &[&number, &program])?;
    Ok(())
}
