//! Numbers of sources and series: rows carry a number instead of six names.
//!
//! Always holds: a number is kept only once the transaction that made it is done. Bound:
//! KNOWN_MAX of each are kept in memory; who needs more asks the server more often. The
//! rows of a gateway's names are made while its row in `gateways` is locked, so no two
//! workers make the same.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_core::payload::{DataBody, GatewayName, MessageId};
use forebay_core::record::{Series, ValueKind};
use forebay_core::units::{Epoch, EpochNonce};
use forebay_core::upstream::batch::Applied;
use forebay_core::upstream::keys::Source;
use forebay_wire::ids::{ChannelNo, DeviceUid};
use postgres::Transaction;

use super::limits::KNOWN_MAX;

/// Scale of a series of doubles.
pub(super) const SCALE_DOUBLE: i16 = -1;

/// What a row's source_id stands for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SourceKey {
    pub source: Source,
    pub epoch: Epoch,
    pub nonce: EpochNonce,
}

/// What a row's series_id stands for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SeriesKey {
    pub gateway: GatewayName,
    pub device: DeviceUid,
    pub channel: Arc<str>,
    pub unit: Arc<str>,
    pub channel_no: ChannelNo,
    pub scale: i16,
}

impl SourceKey {
    pub(super) fn of(id: &MessageId) -> Self {
        Self {
            source: Source::of(id),
            epoch: id.epoch,
            nonce: id.nonce,
        }
    }
}

impl SeriesKey {
    pub(super) fn of(gateway: &GatewayName, series: &Series) -> Self {
        Self {
            gateway: gateway.clone(),
            device: series.uid,
            channel: storable(&series.name),
            unit: storable(&series.unit),
            channel_no: series.channel,
            scale: match series.kind {
                ValueKind::Scaled { scale } => i16::from(scale),
                ValueKind::Double => SCALE_DOUBLE,
            },
        }
    }
}

/// A text as PostgreSQL takes it: it has no zero bytes, and a device may say any.
fn storable(text: &Arc<str>) -> Arc<str> {
    match without_zero(text) {
        Cow::Borrowed(_) => text.clone(),
        Cow::Owned(text) => text.into(),
    }
}

pub(super) fn without_zero(text: &str) -> Cow<'_, str> {
    if text.contains('\0') {
        Cow::Owned(text.replace('\0', "\u{fffd}"))
    } else {
        Cow::Borrowed(text)
    }
}

/// Numbers by what they stand for.
#[derive(Debug, Default)]
pub(super) struct Names {
    sources: BTreeMap<SourceKey, i32>,
    series: BTreeMap<SeriesKey, i32>,
}

impl Names {
    pub(super) fn source(&self, key: &SourceKey) -> Option<i32> {
        self.sources.get(key).copied()
    }

    pub(super) fn series(&self, key: &SeriesKey) -> Option<i32> {
        self.series.get(key).copied()
    }

    /// Takes over what a transaction that is done has found.
    pub(super) fn keep(&mut self, found: Self) {
        if self.sources.len() + found.sources.len() > KNOWN_MAX {
            self.sources.clear();
        }
        if self.series.len() + found.series.len() > KNOWN_MAX {
            self.series.clear();
        }
        self.sources.extend(found.sources);
        self.series.extend(found.series);
    }

    /// The numbers of all names of a batch.
    pub(super) fn of_batch(
        &self,
        transaction: &mut Transaction<'_>,
        applied: &[Applied],
    ) -> Result<Self, postgres::Error> {
        let mut found = Self::default();
        let (mut sources, mut series) = (Vec::new(), Vec::new());
        for applied in applied {
            let message = &applied.message;
            let key = SourceKey::of(&message.id);
            match self.sources.get(&key) {
                Some(number) => drop(found.sources.insert(key, *number)),
                None => sources.push(key),
            }
            if let DataBody::Readings { series: all, .. } = &message.body {
                for one in all {
                    let key = SeriesKey::of(&message.id.gateway, one);
                    match self.series.get(&key) {
                        Some(number) => drop(found.series.insert(key, *number)),
                        None => series.push(key),
                    }
                }
            }
        }
        sources.sort_unstable();
        sources.dedup();
        series.sort_unstable();
        series.dedup();
        found.sources.extend(numbered(transaction, sources)?);
        found.series.extend(numbered(transaction, series)?);
        Ok(found)
    }
}

/// A table of names: how its rows are found, and made where they are missing.
trait Named: Clone + Ord {
    /// `SELECT number, place in the arrays`.
    const FIND: &'static str;
    const MAKE: &'static str;

    fn columns(keys: &[Self]) -> Columns;
}

/// One array per column.
type Columns = Vec<Box<dyn postgres::types::ToSql + Sync>>;

fn numbered<K: Named>(
    transaction: &mut Transaction<'_>,
    keys: Vec<K>,
) -> Result<BTreeMap<K, i32>, postgres::Error> {
    let mut numbers = BTreeMap::new();
    if keys.is_empty() {
        return Ok(numbers);
    }
    find(transaction, &keys, &mut numbers)?;
    let unknown = |key: &&K| !numbers.contains_key(*key);
    let missing: Vec<K> = keys.iter().filter(unknown).cloned().collect();
    if !missing.is_empty() {
        let columns = K::columns(&missing);
        let columns: Vec<_> = columns.iter().map(|column| &**column).collect();
        transaction.execute(K::MAKE, &columns)?;
        find(transaction, &missing, &mut numbers)?;
    }
    Ok(numbers)
}

fn find<K: Named>(
    transaction: &mut Transaction<'_>,
    keys: &[K],
    numbers: &mut BTreeMap<K, i32>,
) -> Result<(), postgres::Error> {
    let columns = K::columns(keys);
    let columns: Vec<_> = columns.iter().map(|column| &**column).collect();
    for row in transaction.query(K::FIND, &columns)? {
        // Places count from 1.
        let place = usize::try_from(row.get::<_, i64>(1) - 1).ok();
        if let Some(key) = place.and_then(|place| keys.get(place)) {
            numbers.insert(key.clone(), row.get(0));
        }
    }
    Ok(())
}

impl Named for SourceKey {
    const FIND: &'static str = "SELECT s.source_id, n.place FROM unnest($1::text[], $2::text[], \
        $3::text[], $4::int4[], $5::int8[], $6::text[]) WITH ORDINALITY \
        AS n (gateway, log_id, stream, partition, epoch, nonce, place) \
        JOIN sources s USING (gateway, log_id, stream, partition, epoch, nonce)";
    const MAKE: &'static str = "INSERT INTO sources (gateway, log_id, stream, partition, epoch, nonce) \
        SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::int4[], $5::int8[], \
        $6::text[]) ON CONFLICT DO NOTHING";

    fn columns(keys: &[Self]) -> Columns {
        let texts = |of: fn(&Self) -> String| keys.iter().map(of).collect::<Vec<_>>();
        let partitions = keys.iter().map(|key| i32::from(key.source.partition.0));
        let epochs = keys.iter().map(|key| i64::from(key.epoch.0));
        vec![
            Box::new(texts(|key| key.source.gateway.to_string())),
            Box::new(texts(|key| key.source.log_id.to_string())),
            Box::new(texts(|key| key.source.stream.to_string())),
            Box::new(partitions.collect::<Vec<_>>()),
            Box::new(epochs.collect::<Vec<_>>()),
            Box::new(texts(|key| key.nonce.to_string())),
        ]
    }
}

impl Named for SeriesKey {
    const FIND: &'static str = "SELECT s.series_id, n.place FROM unnest($1::text[], $2::text[], \
        $3::text[], $4::text[], $5::int2[], $6::int2[]) WITH ORDINALITY \
        AS n (gateway, device, channel, unit, channel_no, scale, place) \
        JOIN series s USING (gateway, device, channel, unit, channel_no, scale)";
    const MAKE: &'static str = "INSERT INTO series (gateway, device, channel, unit, channel_no, scale) \
        SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::int2[], \
        $6::int2[]) ON CONFLICT DO NOTHING";

    fn columns(keys: &[Self]) -> Columns {
        let texts = |of: fn(&Self) -> String| keys.iter().map(of).collect::<Vec<_>>();
        let numbers = |of: fn(&Self) -> i16| keys.iter().map(of).collect::<Vec<_>>();
        vec![
            Box::new(texts(|key| key.gateway.to_string())),
            Box::new(texts(|key| key.device.to_string())),
            Box::new(texts(|key| key.channel.to_string())),
            Box::new(texts(|key| key.unit.to_string())),
            Box::new(numbers(|key| i16::from(key.channel_no.0))),
            Box::new(numbers(|key| key.scale)),
        ]
    }
}
