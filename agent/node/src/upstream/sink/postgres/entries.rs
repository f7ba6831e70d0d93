//! Entries of the receiver's own, and the versions of the gateways' states.
//!
//! Always holds: rows of `gateways` are locked in the order of their names, and entries
//! written in the order of their keys, so that workers wait for each other and never in
//! a circle.

use std::collections::BTreeMap;

use forebay_core::payload::GatewayName;
use forebay_core::upstream::batch::{Batch, EntryWrite, Loaded, Table, owner};
use postgres::{Client, GenericClient, Transaction};

/// A key with its value.
type Entry = (Vec<u8>, Vec<u8>);

/// A key and the value it gets.
type Set<'a> = (&'a [u8], &'a [u8]);

/// Locks the gateways of a batch; gives those whose version is another than the batch
/// was judged on.
pub(super) fn lock(
    transaction: &mut Transaction<'_>,
    gateways: &[(GatewayName, u64)],
) -> Result<Vec<GatewayName>, postgres::Error> {
    let names = |wanted: fn(u64) -> bool| {
        let names = gateways.iter().filter(|(_, version)| wanted(*version));
        let mut names: Vec<_> = names.map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        names
    };
    let new = names(|version| version == 0);
    if !new.is_empty() {
        // Before any is locked, and in order: whoever comes second waits here.
        let sql = "INSERT INTO gateways (gateway, version) \
                   SELECT name, 0 FROM unnest($1::text[]) AS n (name) \
                   ON CONFLICT DO NOTHING";
        transaction.execute(sql, &[&new])?;
    }
    let sql = "SELECT gateway, version FROM gateways WHERE gateway = ANY($1) \
               ORDER BY gateway FOR UPDATE";
    let rows = transaction.query(sql, &[&names(|_| true)])?;
    let versions: BTreeMap<String, i64> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    let stands = |name: &GatewayName| versions.get(name.as_str()).map(|v| v.cast_unsigned());
    let changed = gateways
        .iter()
        .filter(|(name, version)| stands(name) != Some(*version));
    Ok(changed.map(|(name, _)| name.clone()).collect())
}

/// Writes the entries and the versions of a batch whose gateways are locked.
pub(super) fn write(
    transaction: &mut Transaction<'_>,
    batch: &Batch,
) -> Result<(), postgres::Error> {
    let of = |table: Table| {
        batch
            .entries
            .iter()
            .filter(move |entry| entry.table == table)
    };
    for (table, name) in [(Table::Marks, "marks"), (Table::Meta, "meta")] {
        let sql = format!(
            "INSERT INTO {name} (key, gateway, value) \
             SELECT * FROM unnest($1::bytea[], $2::text[], $3::bytea[]) \
             ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value"
        );
        let (set, removed) = parts(of(table));
        if !set.is_empty() {
            let owners: Vec<String> = set
                .iter()
                .map(|(key, _)| owner(table, key).to_string())
                .collect();
            let (keys, values): (Vec<_>, Vec<_>) = set.into_iter().unzip();
            transaction.execute(&sql, &[&keys, &owners, &values])?;
        }
        remove(transaction, name, &removed)?;
    }
    let (set, removed) = parts(of(Table::Rejected));
    if !set.is_empty() {
        let sql = "INSERT INTO rejected (key, value) \
                   SELECT * FROM unnest($1::bytea[], $2::bytea[]) \
                   ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value";
        let (keys, values): (Vec<_>, Vec<_>) = set.into_iter().unzip();
        transaction.execute(sql, &[&keys, &values])?;
    }
    remove(transaction, "rejected", &removed)?;
    let names: Vec<_> = batch
        .gateways
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    let sql = "UPDATE gateways SET version = version + 1 WHERE gateway = ANY($1)";
    transaction.execute(sql, &[&names])?;
    Ok(())
}

/// Entries to set, and keys to remove, each in order.
fn parts<'a>(entries: impl Iterator<Item = &'a EntryWrite>) -> (Vec<Set<'a>>, Vec<&'a [u8]>) {
    let (mut set, mut removed) = (Vec::new(), Vec::new());
    for entry in entries {
        match &entry.value {
            Some(value) => set.push((entry.key.as_slice(), value.as_slice())),
            None => removed.push(entry.key.as_slice()),
        }
    }
    set.sort_unstable();
    removed.sort_unstable();
    (set, removed)
}

fn remove(
    transaction: &mut Transaction<'_>,
    table: &str,
    keys: &[&[u8]],
) -> Result<(), postgres::Error> {
    if !keys.is_empty() {
        let sql = format!("DELETE FROM {table} WHERE key = ANY($1)");
        transaction.execute(&sql, &[&keys])?;
    }
    Ok(())
}

/// Marks, meta and versions, of all gateways or of one, as of one moment; `None` when
/// a version cannot be read.
pub(super) fn load(
    client: &mut Client,
    gateway: Option<&GatewayName>,
) -> Result<Option<Loaded>, postgres::Error> {
    let mut transaction = client
        .build_transaction()
        .isolation_level(postgres::IsolationLevel::RepeatableRead)
        .read_only(true)
        .start()?;
    let name = gateway.map(GatewayName::as_str);
    let marks = entries(&mut transaction, "marks", name)?;
    let meta = entries(&mut transaction, "meta", name)?;
    let sql = "SELECT gateway, version FROM gateways WHERE $1::text IS NULL OR gateway = $1";
    let rows = transaction.query(sql, &[&name])?;
    transaction.commit()?;
    let version = |row: &postgres::Row| {
        let name = GatewayName::new(row.get::<_, &str>(0)).ok()?;
        let version: i64 = row.get(1);
        Some((name, version.cast_unsigned()))
    };
    let versions: Option<BTreeMap<_, _>> = rows.iter().map(version).collect();
    Ok(versions.map(|versions| Loaded {
        marks,
        meta,
        versions,
    }))
}

fn entries(
    client: &mut impl GenericClient,
    table: &str,
    gateway: Option<&str>,
) -> Result<Vec<Entry>, postgres::Error> {
    let rows = match gateway {
        None => client.query(&format!("SELECT key, value FROM {table} ORDER BY key"), &[]),
        Some(name) => {
            let sql = format!("SELECT key, value FROM {table} WHERE gateway = $1 ORDER BY key");
            client.query(&sql, &[&name])
        }
    };
    let rows = rows?.into_iter();
    Ok(rows.map(|row| (row.get(0), row.get(1))).collect())
}

/// Shows the rejected messages, oldest first: there are few.
pub(super) fn rejected(
    client: &mut Client,
    visit: &mut dyn FnMut(&[u8]) -> bool,
) -> Result<(), postgres::Error> {
    for row in client.query("SELECT value FROM rejected ORDER BY key", &[])? {
        if !visit(row.get(0)) {
            break;
        }
    }
    Ok(())
}
