//! From messages to one transaction: judges each message, counts it, and gathers
//! the writes that the sink makes durable together.
//!
//! Always holds: rows and the marks that call them applied are in the same batch.
//! So when a batch was written, each of its rows counts once for ever, and when it
//! was not, an [`Applier`] loaded anew takes the same messages again. Bound: a
//! batch is what its caller lets come together ([`Applier::pending_bytes`]), and
//! REJECTED_KEPT_MAX rejected messages are kept. Knows no broker and no disk.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use forebay_wire::ids::DeviceUid;
use serde_json::json;

use super::batch::{Applied, Batch, EntryWrite, Loaded, Table, owner};
use super::counters::Counters;
use super::history::Verdict;
use super::holes::Holes;
use super::keys::{Source, parse_mark};
use super::ledger::{DEVICE_PREFIX, LEDGER_KEY, UpstreamLedger};
use super::ranges::OffsetRange;
use super::state::UpstreamState;
use crate::limits::{REJECTED_KEPT_MAX, REJECTED_PAYLOAD_BYTES_MAX, REJECTED_TEXT_CHARS_MAX};
use crate::payload::{
    AckMessage, Command, DataBody, DataMessage, GatewayName, SessionNonce, parse_data_topic,
};
use crate::record::Record;
use crate::units::{LogId, Mono, Offset};

/// What became of a message. It may be acked when the batch is durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// New offsets are in the batch, or all were known.
    Taken { gateway: GatewayName },
    /// Not taken: too many holes are open. The gateway will be asked to send again.
    Beyond { gateway: GatewayName },
    /// Not ours or not readable: kept with the reason.
    Rejected { reason: String },
}

/// What is stored contradicts itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadError {
    pub said: String,
}

impl std::fmt::Display for LoadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.said)
    }
}

impl std::error::Error for LoadError {}

const SESSION_KEY: &[u8] = b"session";
const COUNTERS_KEY: &[u8] = b"counters";
const REJECTED_KEY: &[u8] = b"rejected_next";
const CURRENT_PREFIX: &[u8] = b"current.";

/// See the module's text.
#[derive(Debug, Default)]
pub struct Applier {
    state: UpstreamState,
    counters: Counters,
    /// The log that each gateway last sent from.
    current: BTreeMap<GatewayName, LogId>,
    session: Option<SessionNonce>,
    /// Number of the next rejected message.
    rejected_next: u64,
    /// Partitions of which something came since the last [`Applier::committed`].
    touched: BTreeSet<Source>,
    holes: Holes,
    ledger: UpstreamLedger,
    versions: BTreeMap<GatewayName, u64>,
    applied: Vec<Applied>,
    /// Gateways of the batch that was taken last.
    taken: Vec<GatewayName>,
    /// Later writes of one key replace earlier ones.
    others: BTreeMap<(Table, Vec<u8>), Option<Vec<u8>>>,
    bytes: usize,
}

impl Applier {
    /// Goes on from what is stored in the tables Marks and Meta.
    ///
    /// # Errors
    /// When an entry cannot be read or contradicts another.
    pub fn load(loaded: Loaded) -> Result<Self, LoadError> {
        let Loaded {
            marks,
            meta,
            versions,
        } = loaded;
        let bad = |what: &str, key: &[u8]| LoadError {
            said: format!(
                "{what} at key {:?} cannot be read",
                key.escape_ascii().to_string()
            ),
        };
        let marks = marks
            .into_iter()
            .map(|(key, value)| parse_mark(&key, &value).ok_or_else(|| bad("the mark", &key)));
        let marks = marks.collect::<Result<Vec<_>, _>>()?;
        let state = UpstreamState::load(marks).map_err(|source| LoadError {
            said: format!("the marks of {source:?} contradict each other"),
        })?;
        let mut applier = Self {
            touched: state.sources().collect(),
            state,
            versions,
            ..Self::default()
        };
        for (key, value) in meta {
            applier
                .load_meta(&key, &value)
                .ok_or_else(|| bad("the entry", &key))?;
        }
        let Counters {
            readings,
            gap_records,
            ..
        } = applier.counters;
        applier.ledger.loaded(readings + gap_records > 0);
        Ok(applier)
    }

    /// `None` when the entry cannot be read. Unknown keys come from a newer
    /// version that says something more.
    fn load_meta(&mut self, key: &[u8], value: &[u8]) -> Option<()> {
        if let Some(name) = key.strip_prefix(CURRENT_PREFIX) {
            let name = std::str::from_utf8(name).ok()?;
            let log_id = LogId(value.try_into().ok()?);
            self.current.insert(GatewayName::new(name).ok()?, log_id);
        } else if let Some(name) = key.strip_prefix(DEVICE_PREFIX) {
            self.ledger.load_device(name, value)?;
        } else if key == LEDGER_KEY {
            self.ledger.load_head(value)?;
        } else if key == SESSION_KEY {
            self.session = Some(SessionNonce(value.try_into().ok()?));
        } else if key == COUNTERS_KEY {
            self.counters = Counters::from_bytes(value)?;
        } else if key == REJECTED_KEY {
            self.rejected_next = u64::from_be_bytes(value.try_into().ok()?);
        }
        Some(())
    }

    /// Takes a message.
    pub fn handle(&mut self, topic: &str, payload: Bytes) -> Outcome {
        self.counters.messages += 1;
        match readable(topic, &payload) {
            Ok((message, range)) => self.apply(topic, payload, message, range),
            Err(reason) => self.reject(topic, payload.len(), &payload, reason),
        }
    }

    /// Notes a message of which no payload is at hand.
    pub fn handle_unfit(&mut self, topic: &str, payload_bytes: usize) -> Outcome {
        self.counters.messages += 1;
        let reason = "too large, or its topic is no text".to_owned();
        self.reject(topic, payload_bytes, b"", reason)
    }

    fn apply(
        &mut self,
        topic: &str,
        payload: Bytes,
        message: DataMessage,
        range: OffsetRange,
    ) -> Outcome {
        let id = &message.id;
        let gateway = id.gateway.clone();
        let missing = message.body.records().is_none();
        let (verdict, marks) = self.state.admit(id, range, missing);
        let (fresh, duplicates) = match verdict {
            Verdict::Apply { fresh, duplicates } => (fresh, duplicates),
            Verdict::Full => {
                let reason = "as many partitions as may be known are known".to_owned();
                return self.reject(topic, payload.len(), &payload, reason);
            }
            Verdict::Beyond => {
                self.counters.beyond += 1;
                return Outcome::Beyond { gateway };
            }
        };
        self.touched.insert(Source::of(id));
        self.counters.duplicates += duplicates;
        for part in &fresh {
            self.count(&message, *part);
        }
        for mark in marks {
            self.put(Table::Marks, mark.key, mark.value);
        }
        if self.current.get(&gateway) != Some(&id.log_id) {
            self.current.insert(gateway.clone(), id.log_id);
            let key = [CURRENT_PREFIX, gateway.as_str().as_bytes()].concat();
            self.put(Table::Meta, key, Some(id.log_id.0.to_vec()));
        }
        if !fresh.is_empty() {
            self.bytes += payload.len();
            self.applied.push(Applied {
                message: Arc::new(message),
                payload,
                fresh,
            });
        }
        Outcome::Taken { gateway }
    }

    /// Counts the records of the message whose offsets are in `part`.
    fn count(&mut self, message: &DataMessage, part: OffsetRange) {
        let index = |offset: Offset| {
            let index = usize::try_from(offset.0 - message.id.first.0);
            index.expect("a part lies inside of its message")
        };
        match &message.body {
            DataBody::Missing(_) => {
                self.counters.missing = self.counters.missing.saturating_add(part.count());
            }
            DataBody::Readings { series, records } => {
                let records = &records[index(part.start())..index(part.end())];
                self.ledger.take(&message.id.gateway, series, records);
                records.iter().for_each(|record| self.count_record(record));
            }
            DataBody::Rows(_) => self.counters.rows += part.count(),
        }
    }

    fn count_record(&mut self, record: &Record) {
        match record {
            Record::Reading(_) => self.counters.readings += 1,
            Record::Gap(gap) => {
                self.counters.gap_records += 1;
                let sum = self.counters.gap_readings.saturating_add(gap.count);
                self.counters.gap_readings = sum;
            }
            Record::Clock(_) => self.counters.clock_records += 1,
        }
    }

    fn reject(
        &mut self,
        topic: &str,
        payload_bytes: usize,
        payload: &[u8],
        reason: String,
    ) -> Outcome {
        self.counters.rejected += 1;
        let short = |text: &str| {
            text.chars()
                .take(REJECTED_TEXT_CHARS_MAX)
                .collect::<String>()
        };
        let kept = &payload[..payload.len().min(REJECTED_PAYLOAD_BYTES_MAX)];
        let entry = json!({
            "topic": short(topic),
            "reason": short(&reason),
            "payload_bytes": payload_bytes,
            "payload": String::from_utf8_lossy(kept),
        });
        let number = self.rejected_next;
        self.rejected_next = number.wrapping_add(1);
        let key = |number: u64| number.to_be_bytes().to_vec();
        let value = entry.to_string().into_bytes();
        self.put(Table::Rejected, key(number), Some(value));
        if let Some(oldest) = number.checked_sub(REJECTED_KEPT_MAX) {
            self.put(Table::Rejected, key(oldest), None);
        }
        let next = key(self.rejected_next);
        self.put(Table::Meta, REJECTED_KEY.to_vec(), Some(next));
        Outcome::Rejected { reason }
    }

    fn put(&mut self, table: Table, key: Vec<u8>, value: Option<Vec<u8>>) {
        self.bytes += key.len() + value.as_ref().map_or(0, Vec::len);
        self.others.insert((table, key), value);
    }

    /// Remembers a new session: the broker may have lost messages that it had
    /// acked to gateways.
    pub fn renew_session(&mut self, session: SessionNonce) {
        self.session = Some(session);
        self.put(Table::Meta, SESSION_KEY.to_vec(), Some(session.0.to_vec()));
    }

    /// `None` before the first one was drawn.
    #[must_use]
    pub fn session(&self) -> Option<SessionNonce> {
        self.session
    }

    /// Bytes that the batch has so far, about.
    #[must_use]
    pub fn pending_bytes(&self) -> usize {
        self.bytes
    }

    /// Lets the next batch store the counters even when nothing else is new: on a
    /// clean stop, so that duplicates since the last row count too.
    pub fn keep_counters(&mut self) {
        let counters = self.counters.to_bytes();
        self.put(Table::Meta, COUNTERS_KEY.to_vec(), Some(counters));
    }

    /// What one transaction makes durable; empty when nothing is new.
    pub fn take_batch(&mut self) -> Batch {
        if self.applied.is_empty() && self.others.is_empty() {
            return Batch::default();
        }
        self.keep_counters();
        for (key, value) in self.ledger.take_writes() {
            self.put(Table::Meta, key, Some(value));
        }
        self.bytes = 0;
        let applied = std::mem::take(&mut self.applied);
        let entries = std::mem::take(&mut self.others);
        let entries: Vec<_> = entries
            .into_iter()
            .map(|((table, key), value)| EntryWrite { table, key, value })
            .collect();
        let messages = applied
            .iter()
            .map(|applied| applied.message.id.gateway.clone());
        let owners = entries.iter().map(|entry| owner(entry.table, &entry.key));
        let gateways: BTreeSet<_> = messages.chain(owners).collect();
        self.taken = gateways.iter().cloned().collect();
        let versioned = |name| {
            let version = self.versions.get(&name).copied();
            (name, version.unwrap_or(0))
        };
        Batch {
            applied,
            entries,
            gateways: gateways.into_iter().map(versioned).collect(),
        }
    }

    /// The batch is durable: holes in what is applied now are watched.
    pub fn committed(&mut self, now: Mono) {
        for gateway in std::mem::take(&mut self.taken) {
            *self.versions.entry(gateway).or_default() += 1;
        }
        for source in std::mem::take(&mut self.touched) {
            if let Some(history) = self.state.history(&source) {
                self.holes.note(&source, history.next(), history.end(), now);
            }
        }
    }

    /// A gateway to be asked to send again, because a hole stays.
    pub fn poll_resend(&mut self, now: Mono) -> Option<(GatewayName, Command)> {
        let (source, command) = self.holes.poll(now)?;
        self.counters.resends += 1;
        Some((source.gateway, command))
    }

    /// When [`Applier::poll_resend`] has something.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Mono> {
        self.holes.next_deadline()
    }

    /// Partitions with a hole in what is applied.
    #[must_use]
    pub fn holes(&self) -> usize {
        self.holes.open()
    }

    /// What to tell a gateway: up to where its current log is applied. Only when
    /// the batch so far is durable. `None` for a gateway of which nothing came.
    #[must_use]
    pub fn ack_message(&self, gateway: &GatewayName) -> Option<AckMessage> {
        let log_id = *self.current.get(gateway)?;
        Some(AckMessage {
            gateway: gateway.clone(),
            session: self.session?,
            seq: 0,
            log_id,
            marks: self.state.marks(gateway, log_id),
        })
    }

    /// Gateways from which something was taken.
    pub fn gateways(&self) -> impl ExactSizeIterator<Item = &GatewayName> {
        self.current.keys()
    }

    /// Since the sink was created.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// What was applied of each device.
    #[must_use]
    pub fn ledger(&self) -> &UpstreamLedger {
        &self.ledger
    }

    /// Devices whose part of the ledger is durable in another form than at the last
    /// call, when it is asked after a commit.
    pub fn take_written_devices(&mut self) -> Vec<(GatewayName, DeviceUid)> {
        self.ledger.take_written()
    }

    #[must_use]
    pub fn partitions(&self) -> usize {
        self.state.partitions()
    }
}

fn readable(topic: &str, payload: &[u8]) -> Result<(DataMessage, OffsetRange), String> {
    let Some((gateway, stream, partition)) = parse_data_topic(topic) else {
        return Err("the topic is none of data".to_owned());
    };
    let message = DataMessage::parse(payload).map_err(|error| error.to_string())?;
    let id = &message.id;
    if (&id.gateway, &id.stream, id.partition) != (&gateway, &stream, partition) {
        return Err(format!(
            "the payload is of gateway {}, stream {}, partition {}",
            id.gateway, id.stream, id.partition.0
        ));
    }
    let range = OffsetRange::inclusive(id.first, id.last)
        .ok_or_else(|| format!("offsets {} to {}", id.first.0, id.last.0))?;
    Ok((message, range))
}
