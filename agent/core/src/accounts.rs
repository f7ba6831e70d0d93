//! The ledger over restarts: accounts are kept as meta entries now and then, and
//! after a start only what was written since is read from the log. Byte tables:
//! `agent/core/docs/format.md`.
//!
//! Holds always: the accounts of one snapshot and the heads that they hold for are
//! in one batch, so what is loaded plus what is read from there on is what all of
//! the log says. A snapshot that does not read as a whole costs a read of the whole
//! log. Bound: one snapshot per [`SNAPSHOT_BYTES`] or [`SNAPSHOT_EVERY_US`], of the
//! devices that changed. Knows no store and no clock.

use std::collections::BTreeMap;

use forebay_wire::ids::{BootId, DeviceUid};
use forebay_wire::message::ResetCause;

use crate::ledger::{Account, Counts, DeviceAccounts, GAP_REASONS, Ledger, Source};
use crate::limits::{
    BOOTS_PER_DEVICE_MAX, DEVICES_MAX, IMPORTS_MAX, META_VALUE_BYTES_MAX, SNAPSHOT_BYTES,
    SNAPSHOT_EVERY_US,
};
use crate::log::block::{Block, Body, Record};
use crate::log::bytes::{Malformed, Reader, put_varint, put_zigzag};
use crate::log::key::{StoredBlock, TopicPartition};
use crate::log::topic::READINGS;
use crate::log::walk::{Met, Walk};
use crate::meta::{Entry, checked, with_crc};
use crate::units::{EventTime, Mono, Offset, PartitionId};

/// Meta keys of accounts: this and the uid as 16 hex digits.
pub const ACCOUNT_META_PREFIX: &[u8] = b"account/";
/// Meta keys of the heads that accounts hold for: this and the partition.
pub const ACCOUNTS_META_PREFIX: &[u8] = b"accounts/";

/// Of heads, and of accounts that say nothing of a boot but its counts.
const VERSION: u8 = 1;
/// Of accounts.
const ACCOUNT_VERSION: u8 = 2;
/// Boots of one device that are told apart, imports among them.
const BOOTS_KEPT_MAX: usize = BOOTS_PER_DEVICE_MAX + IMPORTS_MAX;
/// Longest account: a varint has ten bytes at most.
const ACCOUNT_BYTES_MAX: usize = 8 + COUNTS_BYTES_MAX + BOOTS_KEPT_MAX * BOOT_BYTES_MAX;
const COUNTS_BYTES_MAX: usize = 10 * (3 + GAP_REASONS);
const BOOT_BYTES_MAX: usize = 5 + 10 + COUNTS_BYTES_MAX + 10 + 10 + 1 + 1 + 20;
const _: () = assert!(ACCOUNT_BYTES_MAX <= META_VALUE_BYTES_MAX);

/// What the log holds beyond the snapshot, while it is read.
#[derive(Debug)]
struct Rest {
    walk: Walk,
    /// Durable head at the opening.
    end: Offset,
}

/// See the module.
#[derive(Debug)]
pub struct Accounts {
    rest: BTreeMap<PartitionId, Rest>,
    recovered: bool,
    /// Keys of a snapshot that did not read: the next one empties those that it does
    /// not replace.
    stale: Vec<Vec<u8>>,
    /// Bytes of readings written since the last snapshot.
    bytes: u64,
    kept_at: Mono,
    /// Heads of the newest snapshot, of the newest in a batch that was cut, and of the
    /// newest that is durable.
    written: BTreeMap<PartitionId, Offset>,
    cut: BTreeMap<PartitionId, Offset>,
    kept: BTreeMap<PartitionId, Offset>,
    /// A snapshot is wanted with the next batch.
    wanted: bool,
}

impl Accounts {
    /// Loads what `meta` keeps, for a log with these durable heads; with a sentence
    /// when a snapshot does not read and all of the log is read instead.
    #[must_use]
    pub fn load(
        meta: &[Entry],
        heads: &BTreeMap<TopicPartition, Offset>,
        now: Mono,
    ) -> (Self, Ledger, Option<String>) {
        let mut stale = Vec::new();
        let (snapshot, note) = match read_snapshot(meta, heads) {
            Ok(snapshot) => (snapshot, None),
            Err(why) => {
                let keys = meta.iter().map(|(key, _)| key);
                let ours = |key: &&Vec<u8>| key.starts_with(ACCOUNT_META_PREFIX);
                stale.extend(keys.filter(ours).cloned());
                let note = format!(
                    "the kept accounts of devices {why}: they are counted anew from the log, \
                     and ordinals that it no longer holds count as lost"
                );
                (Snapshot::default(), Some(note))
            }
        };
        let of_readings = heads.iter().filter(|(at, _)| at.topic == READINGS);
        let rest = of_readings.map(|(at, end)| {
            let from = snapshot.heads.get(&at.partition).copied();
            let walk = Walk::new(*at, from.unwrap_or(Offset(0)));
            (at.partition, Rest { walk, end: *end })
        });
        let accounts = Self {
            rest: rest.collect(),
            recovered: false,
            stale,
            bytes: 0,
            kept_at: now,
            written: snapshot.heads.clone(),
            cut: snapshot.heads.clone(),
            kept: snapshot.heads,
            wanted: false,
        };
        (accounts, snapshot.ledger, note)
    }

    /// Whether the accounts say what all of the log says.
    #[must_use]
    pub fn is_recovered(&self) -> bool {
        self.recovered
    }

    /// The next read of the log; when there is nothing to read any more, the accounts
    /// are closed.
    pub fn next_fetch(&mut self, ledger: &mut Ledger) -> Option<(TopicPartition, Offset)> {
        let mut rest = self.rest.values_mut();
        let next = rest.find_map(|rest| rest.walk.next_fetch(rest.end));
        let over = |rest: &Rest| rest.walk.cursor() >= rest.end;
        if !self.recovered && self.rest.values().all(over) {
            ledger.close_replay();
            self.recovered = true;
            self.rest.clear();
        }
        next
    }

    /// Takes what a read brought.
    pub fn on_fetched(
        &mut self,
        partition: PartitionId,
        blocks: &[StoredBlock],
        ledger: &mut Ledger,
    ) {
        if let Some(Rest { walk, end }) = self.rest.get_mut(&partition) {
            walk.on_fetched(blocks, *end, |met| match met {
                Met::Block { block, records, .. } => count(block, records, ledger),
                // What is missing shows in the ordinals.
                Met::Hole { .. } => {}
            });
        }
    }

    /// Below this the log is not needed any more to know the accounts.
    #[must_use]
    pub fn kept(&self, partition: PartitionId) -> Offset {
        self.kept.get(&partition).copied().unwrap_or(Offset(0))
    }

    /// A snapshot is wanted with the next batch; false when it cannot be had yet, or
    /// one is on its way.
    pub fn want(&mut self) -> bool {
        let is_new = self.recovered && !self.wanted && self.written == self.kept;
        self.wanted |= is_new;
        is_new
    }

    /// A batch leaves with all that was given for it.
    pub fn on_cut(&mut self) {
        if self.cut != self.written {
            self.cut.clone_from(&self.written);
        }
    }

    /// The batch that left last is durable.
    pub fn on_committed(&mut self) {
        if self.kept != self.cut {
            self.kept.clone_from(&self.cut);
        }
    }

    /// So many bytes of readings were written.
    pub fn wrote(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// The entries to write with the batch that holds all that `ledger` has counted,
    /// when a snapshot is due, or it is the last one; `heads` are those after it. Of two entries with one key
    /// the later counts.
    pub fn take_due(
        &mut self,
        ledger: &mut Ledger,
        heads: impl Iterator<Item = (PartitionId, Offset)>,
        (last, now): (bool, Mono),
    ) -> Vec<Entry> {
        let old = now.0.saturating_sub(self.kept_at.0) >= SNAPSHOT_EVERY_US;
        let due = last || old || self.wanted || self.bytes >= SNAPSHOT_BYTES;
        if !due || !self.recovered || !ledger.has_changed() {
            return Vec::new();
        }
        (self.kept_at, self.bytes, self.wanted) = (now, 0, false);
        self.written = heads.collect();
        let devices = ledger.len();
        let stale = std::mem::take(&mut self.stale).into_iter();
        let mut entries: Vec<Entry> = stale.map(|key| (key, Vec::new())).collect();
        let accounts = ledger.take_changed().map(|(uid, accounts)| {
            let key = [ACCOUNT_META_PREFIX, uid.to_string().as_bytes()].concat();
            (key, account_bytes(accounts))
        });
        entries.extend(accounts);
        entries.extend(self.written.iter().map(|(partition, head)| {
            let name = partition.0.to_string();
            let key = [ACCOUNTS_META_PREFIX, name.as_bytes()].concat();
            (key, head_bytes(*head, devices))
        }));
        entries
    }
}

/// Counts records of a block.
fn count(block: &Block, records: std::ops::Range<usize>, ledger: &mut Ledger) {
    let Body::Readings {
        series,
        records: all,
    } = &block.body
    else {
        return;
    };
    for record in &all[records] {
        match record {
            Record::Reading(reading) => {
                let series = &series[usize::from(reading.series)];
                let source = Source {
                    uid: series.uid,
                    boot: series.boot,
                };
                let time = (!reading.is_unsynced()).then_some(reading.time);
                ledger.replay(source, (reading.ordinal, 1), time, |counts| {
                    &mut counts.readings
                });
            }
            Record::Gap(gap) => {
                let source = Source {
                    uid: gap.uid,
                    boot: gap.boot,
                };
                let reason = gap.reason as usize;
                ledger.replay(source, (gap.first, gap.count), None, |counts| {
                    &mut counts.gaps[reason]
                });
            }
            // No device's.
            Record::Clock(_) | Record::Tables(_) => {}
        }
    }
}

#[derive(Debug, Default)]
struct Snapshot {
    ledger: Ledger,
    heads: BTreeMap<PartitionId, Offset>,
}

/// What is wrong with a snapshot, as the middle of a sentence.
fn read_snapshot(
    meta: &[Entry],
    heads: &BTreeMap<TopicPartition, Offset>,
) -> Result<Snapshot, String> {
    let mut snapshot = Snapshot::default();
    let mut devices = None;
    for (key, value) in meta {
        if let Some(name) = key.strip_prefix(ACCOUNTS_META_PREFIX) {
            let (partition, head, count) = parse_head(name, value)
                .ok_or_else(|| String::from("do not say for which part of the log they hold"))?;
            let at = TopicPartition {
                topic: READINGS,
                partition,
            };
            let durable = heads.get(&at).copied().unwrap_or(Offset(0));
            if head > durable {
                return Err(format!(
                    "are newer than the log: they hold up to offset {} of partition {}, \
                     which ends at {}",
                    head.0, partition.0, durable.0
                ));
            }
            snapshot.heads.insert(partition, head);
            if devices.replace(count).is_some_and(|before| before != count) {
                return Err(String::from("are of different times"));
            }
        } else if let Some(name) = key.strip_prefix(ACCOUNT_META_PREFIX)
            && !value.is_empty()
        {
            let read = parse_uid(name).zip(parse_account(value));
            let (uid, accounts) = read
                .ok_or_else(|| format!("have one that does not read ({})", name.escape_ascii()))?;
            let put = snapshot.ledger.put(uid, accounts);
            put.map_err(|_| format!("are more than {DEVICES_MAX}"))?;
        }
    }
    let (found, wanted) = (snapshot.ledger.len() as u64, devices.unwrap_or(0));
    if found != wanted {
        return Err(format!("are {found} where {wanted} were kept"));
    }
    Ok(snapshot)
}

fn head_bytes(head: Offset, devices: usize) -> Vec<u8> {
    let mut out = vec![VERSION];
    put_varint(&mut out, head.0);
    put_varint(&mut out, devices as u64);
    with_crc(out)
}

fn parse_head(name: &[u8], value: &[u8]) -> Option<(PartitionId, Offset, u64)> {
    let partition = std::str::from_utf8(name).ok()?.parse().ok()?;
    let mut reader = checked(VERSION, value)?;
    let (head, devices) = (reader.varint().ok()?, reader.varint().ok()?);
    let parsed = (PartitionId(partition), Offset(head), devices);
    reader.is_at_end().then_some(parsed)
}

fn account_bytes(accounts: &DeviceAccounts) -> Vec<u8> {
    let DeviceAccounts { boots, folded } = accounts;
    let mut out = vec![ACCOUNT_VERSION, GAP_REASONS as u8];
    put_counts(&mut out, folded);
    put_varint(&mut out, boots.len() as u64);
    for (boot, account) in boots {
        put_varint(&mut out, u64::from(boot.0));
        put_varint(&mut out, account.taken);
        put_counts(&mut out, &account.counts);
        put_varint(&mut out, account.nth);
        put_varint(&mut out, account.said);
        out.push(account.reset_cause.map_or(0, |cause| cause as u8 + 1));
        out.push(u8::from(account.times.is_some()));
        if let Some((first, last)) = account.times {
            put_zigzag(&mut out, first.0);
            put_zigzag(&mut out, last.0);
        }
    }
    with_crc(out)
}

fn put_counts(out: &mut Vec<u8>, counts: &Counts) {
    let Counts {
        readings,
        gaps,
        duplicates,
        lost,
    } = counts;
    for count in [readings, duplicates, lost].into_iter().chain(gaps) {
        put_varint(out, *count);
    }
}

fn parse_uid(name: &[u8]) -> Option<DeviceUid> {
    let text = std::str::from_utf8(name).ok()?;
    let is_hex = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let value = is_hex.then(|| u64::from_str_radix(text, 16).ok())??;
    Some(DeviceUid(value.to_be_bytes()))
}

fn parse_account(value: &[u8]) -> Option<DeviceAccounts> {
    let version = *value.first()?;
    if version != VERSION && version != ACCOUNT_VERSION {
        return None;
    }
    let mut reader = checked(version, value)?;
    let accounts = read_accounts(&mut reader, version).ok()?;
    reader.is_at_end().then_some(accounts)
}

fn read_accounts(reader: &mut Reader<'_>, version: u8) -> Result<DeviceAccounts, Malformed> {
    let reasons = usize::from(reader.byte()?);
    let folded = read_counts(reader, reasons)?;
    let count = reader.varint()?;
    if reasons > GAP_REASONS || count > BOOTS_KEPT_MAX as u64 {
        return Err(reader.malformed());
    }
    let mut boots = BTreeMap::new();
    for nth in 0..count {
        let boot = u32::try_from(reader.varint()?).map_err(|_| reader.malformed())?;
        let taken = reader.varint()?;
        let mut account = Account {
            taken,
            durable: taken,
            counts: read_counts(reader, reasons)?,
            // Devices that count their boots have them in this order.
            nth,
            ..Account::default()
        };
        if version == ACCOUNT_VERSION {
            read_boot(reader, &mut account)?;
        }
        boots.insert(BootId(boot), account);
    }
    Ok(DeviceAccounts { boots, folded })
}

/// What version 1 did not say of a boot.
fn read_boot(reader: &mut Reader<'_>, account: &mut Account) -> Result<(), Malformed> {
    account.nth = reader.varint()?;
    account.said = reader.varint()?;
    let cause = reader.byte()?;
    if let Some(byte) = cause.checked_sub(1) {
        let cause = ResetCause::from_byte(byte).ok_or_else(|| reader.malformed())?;
        account.reset_cause = Some(cause);
    }
    account.times = match reader.byte()? {
        0 => None,
        1 => Some((EventTime(reader.zigzag()?), EventTime(reader.zigzag()?))),
        _ => return Err(reader.malformed()),
    };
    Ok(())
}

/// Counts with as many gap reasons as there were when they were written.
fn read_counts(reader: &mut Reader<'_>, reasons: usize) -> Result<Counts, Malformed> {
    let mut counts = Counts {
        readings: reader.varint()?,
        duplicates: reader.varint()?,
        lost: reader.varint()?,
        ..Counts::default()
    };
    for index in 0..reasons {
        let value = reader.varint()?;
        let slot = counts.gaps.get_mut(index);
        *slot.ok_or_else(|| reader.malformed())? = value;
    }
    Ok(counts)
}

#[cfg(test)]
mod tests;
