//! How the table of readings is cut by time: partitions that this sink makes, or a
//! hypertable of TimescaleDB, which cuts by itself.
//!
//! Always holds: what a database began with stays. With partitions there is a default
//! one, so no time is ever refused.

use postgres::{Client, GenericClient, Transaction};

/// See the module's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Layout {
    Partitions,
    /// With the schema of the extension's functions.
    Hypertable {
        functions: String,
    },
}

/// The partition of all times that have none of their own.
pub(super) const DEFAULT_TABLE: &str = "samples_default";

impl Layout {
    /// How tables are made in this database from now on.
    pub(super) fn of_new(transaction: &mut Transaction<'_>) -> Result<Self, postgres::Error> {
        let sql = "SELECT n.nspname::text FROM pg_extension e \
                   JOIN pg_namespace n ON n.oid = e.extnamespace \
                   WHERE e.extname = 'timescaledb'";
        Ok(match transaction.query_opt(sql, &[])? {
            Some(row) => Self::Hypertable {
                functions: row.get(0),
            },
            None => Self::Partitions,
        })
    }

    /// Whether the tables that there are have partitions of ours.
    pub(super) fn is_partitioned(client: &mut Client) -> Result<bool, postgres::Error> {
        let sql = "SELECT relkind = 'p' FROM pg_class WHERE oid = to_regclass('samples')";
        let row = client.query_opt(sql, &[])?;
        Ok(row.is_some_and(|row| row.get(0)))
    }

    /// Makes what belongs to the new table `samples`.
    pub(super) fn make(&self, transaction: &mut impl GenericClient) -> Result<(), postgres::Error> {
        match self {
            Self::Partitions => transaction.batch_execute(&format!(
                "CREATE TABLE {DEFAULT_TABLE} PARTITION OF samples DEFAULT"
            )),
            Self::Hypertable { functions } => {
                let functions = super::connect::quoted(functions);
                transaction.batch_execute(&format!(
                    "SELECT {functions}.create_hypertable('samples', 'time', \
                     chunk_time_interval => interval '1 day', create_default_indexes => false)"
                ))
            }
        }
    }
}
