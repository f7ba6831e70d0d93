//! The PostgreSQL sink: rows, marks and versions of a batch in one transaction.
//!
//! Always holds: a worker locks the rows of its batch's gateways before it writes, and
//! writes only on the versions that the batch was judged on; so of several workers and
//! processes one comes first, and the others judge anew. When it cannot be known whether
//! a commit was done, the sink must be opened anew: what is there then decides. Bound:
//! one batch as bytes of COPY. Tables: `agent/node/docs/postgres.md`.

mod limits;

mod copy;
mod time;

mod fault;

mod periods;

mod connect;

mod layout;

mod migrate;

mod names;

mod encode;

mod entries;

mod partitions;

mod stored;

mod read;

mod probe;

use std::io::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use forebay_core::payload::GatewayName;
use forebay_core::units::EventTime;
use forebay_core::upstream::batch::{Batch, Loaded};
use forebay_core::upstream::rows::StoredRow;
use postgres::{Client, Transaction};

use self::copy::CopyRows;
use self::encode::Copies;
use self::fault::Place;
use self::layout::Layout;
use self::limits::COPY_CHUNK_BYTES;
use self::names::Names;
use self::partitions::Partitions;
use super::{Committed, Extent, RowFilter, Sink, SinkError};
use crate::config::{PostgresConfig, SinkKind};

pub use self::probe::{PostgresSeen, look_at_postgres};

/// See the module's text.
pub struct PostgresSink {
    /// `None` only while it is dropped.
    client: Option<Client>,
    place: Place,
    names: Names,
    /// `None` where the table cuts itself.
    partitions: Option<Partitions>,
    /// Which partitions are near.
    clock: WallClock,
}

/// Gives the time, microseconds since 1970; a test drives it.
type WallClock = Box<dyn Fn() -> EventTime + Send>;

impl std::fmt::Debug for PostgresSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sink = f.debug_struct("PostgresSink");
        { sink }.field("place", &self.place).finish_non_exhaustive()
    }
}

impl PostgresSink {
    /// Connects, and makes or updates the tables.
    ///
    /// # Errors
    /// A sentence: what is missing, and what to do.
    pub fn open(config: &PostgresConfig) -> Result<Self, SinkError> {
        Self::open_with(config, Box::new(now))
    }

    /// [`PostgresSink::open`] with another clock.
    ///
    /// # Errors
    /// The same.
    pub fn open_with(config: &PostgresConfig, clock: WallClock) -> Result<Self, SinkError> {
        let place = connect::place(config);
        let mut client = connect::connect(config)?;
        migrate::migrate(&mut client, &place)?;
        let fail = |error: &postgres::Error| place.fault("read the partitions", error);
        let partitioned = Layout::is_partitioned(&mut client).map_err(|error| fail(&error))?;
        let partitions = match partitioned {
            true => Some(
                Partitions::load(&mut client, config.partition).map_err(|error| fail(&error))?,
            ),
            false => None,
        };
        Ok(Self {
            client: Some(client),
            place,
            names: Names::default(),
            partitions,
            clock,
        })
    }

    /// Opens a sink that must exist, and changes nothing.
    ///
    /// # Errors
    /// As [`PostgresSink::open`], or that there are no tables.
    pub fn open_existing(config: &PostgresConfig) -> Result<Self, SinkError> {
        let place = connect::place(config);
        let mut client = connect::connect(config)?;
        if migrate::version(&mut client, &place)? == 0 {
            return Err(place.said(format!(
                "nothing was applied yet: there are no tables in schema {}",
                place.schema
            )));
        }
        Ok(Self {
            client: Some(client),
            place,
            names: Names::default(),
            partitions: None,
            clock: Box::new(now),
        })
    }

    fn client(&mut self) -> &mut Client {
        self.client
            .as_mut()
            .expect("it is taken only when the sink is dropped")
    }

    fn write(&mut self, batch: &Batch) -> Result<Committed, SinkError> {
        let place = self.place.clone();
        let client = self
            .client
            .as_mut()
            .expect("it is taken only when the sink is dropped");
        if let Some(partitions) = &mut self.partitions {
            partitions
                .make_for(client, &batch.applied, (self.clock)())
                .map_err(|error| place.fault("make a partition", &error))?;
        }
        let fail = |error: &postgres::Error| place.fault("write", error);
        let mut transaction = client.transaction().map_err(|error| fail(&error))?;
        let changed = entries::lock(&mut transaction, &batch.gateways);
        let changed = changed.map_err(|error| place.fault("lock the gateways", &error))?;
        if !changed.is_empty() {
            transaction.rollback().map_err(|error| fail(&error))?;
            return Ok(Committed::Conflict(changed));
        }
        let found = self.names.of_batch(&mut transaction, &batch.applied);
        let found = found.map_err(|error| fail(&error))?;
        let copies = Copies::of(&batch.applied, &found)
            .map_err(|_| place.said("a name of the batch got no number"))?;
        for (sql, rows) in copies.into_tables() {
            copy_in(&mut transaction, sql, rows, &place)?;
        }
        entries::write(&mut transaction, batch).map_err(|error| fail(&error))?;
        let committed = transaction.commit();
        committed
            .map_err(|error| place.fault("commit: whether it was done is not known", &error))?;
        self.names.keep(found);
        Ok(Committed::Done)
    }
}

fn copy_in(
    transaction: &mut Transaction<'_>,
    sql: &str,
    rows: CopyRows,
    place: &Place,
) -> Result<(), SinkError> {
    let doing = |error: &postgres::Error| place.fault("copy rows", error);
    let count = rows.rows();
    let bytes = rows.finish();
    let mut writer = transaction.copy_in(sql).map_err(|error| doing(&error))?;
    for chunk in bytes.chunks(COPY_CHUNK_BYTES) {
        if writer.write_all(chunk).is_err() {
            // What is wrong with it, the end says.
            break;
        }
    }
    let taken = writer.finish().map_err(|error| doing(&error))?;
    if taken != count {
        return Err(place.said(format!("{taken} of {count} rows were taken")));
    }
    Ok(())
}

/// By this computer's clock.
fn now() -> EventTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let us = since.map_or(0, |since| i64::try_from(since.as_micros()).unwrap_or(0));
    EventTime(us)
}

impl Drop for PostgresSink {
    fn drop(&mut self) {
        // The client waits for its end, which no thread of an async runtime may do.
        if let Some(client) = self.client.take() {
            std::thread::spawn(move || drop(client));
        }
    }
}

impl Sink for PostgresSink {
    fn kind(&self) -> SinkKind {
        SinkKind::Postgres
    }

    fn load(&mut self, gateway: Option<&GatewayName>) -> Result<Loaded, SinkError> {
        let place = self.place.clone();
        entries::load(self.client(), gateway)
            .map_err(|error| place.fault("read the marks", &error))?
            .ok_or_else(|| place.said("a gateway's name or version cannot be read"))
    }

    fn commit(&mut self, batch: &Batch) -> Result<Committed, SinkError> {
        self.write(batch)
    }

    fn rows(
        &mut self,
        filter: &RowFilter,
        visit: &mut dyn FnMut(StoredRow) -> bool,
    ) -> Result<(), SinkError> {
        let place = self.place.clone();
        let done = read::rows(self.client(), filter, visit);
        done.map_err(|error| error.said(&place, "read rows"))
    }

    fn extents(
        &mut self,
        filter: &RowFilter,
        visit: &mut dyn FnMut(Extent) -> bool,
    ) -> Result<(), SinkError> {
        let place = self.place.clone();
        let done = read::extents(self.client(), filter, visit);
        done.map_err(|error| error.said(&place, "read which offsets are there"))
    }

    fn rejected(&mut self, visit: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), SinkError> {
        let place = self.place.clone();
        let done = entries::rejected(self.client(), visit);
        done.map_err(|error| place.fault("read the rejected messages", &error))
    }
}
