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

use super::batch::{Applied, Batch, EntryWrite, Loaded, Table, is_shared, owner, shared};
use super::counters::Counters;
use super::history::Verdict;
use super::holes::Holes;
use super::keys::{Source, parse_mark};
use super::known::{CURRENT_PREFIX, Gateways, counters_key};
use super::ledger::{Counted, DEVICE_PREFIX, LEDGER_KEY, OTHERS_PREFIX, UpstreamLedger};
use super::ranges::OffsetRange;
use super::run::Opening;
use super::state::UpstreamState;
use crate::limits::{
    CLONES_TOLD_MAX, REJECTED_KEPT_MAX, REJECTED_PAYLOAD_BYTES_MAX, REJECTED_TEXT_CHARS_MAX,
    UPSTREAM_CLIENTS_MAX,
};
use crate::payload::{
    AckMessage, Command, DataBody, DataMessage, GatewayName, SessionNonce, parse_data_topic, plain,
};
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

/// A message that was read and not judged yet: reading is most of the work, needs no
/// state, and can be done by several at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// Without compression where it can be read.
    payload: Bytes,
    /// Or why it is rejected.
    message: Result<Arc<DataMessage>, String>,
}

impl Received {
    #[must_use]
    pub fn read(topic: &str, payload: Bytes) -> Self {
        match readable(topic, &payload) {
            Ok((message, payload)) => Self {
                payload,
                message: Ok(Arc::new(message)),
            },
            Err(reason) => Self {
                payload,
                message: Err(reason),
            },
        }
    }
}

/// A second disk of one log: restored from a backup, or cloned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloneSeen {
    pub gateway: GatewayName,
    pub log_id: LogId,
    /// The opening that showed it.
    pub opening: Opening,
}

pub(super) const SESSION_KEY: &[u8] = b"session";
pub(super) const REJECTED_KEY: &[u8] = b"rejected_next";
/// Keys of the clients that were connected: this and the client id.
const CLIENT_PREFIX: &[u8] = b"client/";

/// See the module's text.
#[derive(Debug, Default)]
pub struct Applier {
    pub(super) state: UpstreamState,
    pub(super) gateways: Gateways,
    pub(super) session: Option<SessionNonce>,
    /// Drawn here and not durable yet.
    pub(super) renewed: bool,
    clients: BTreeSet<String>,
    /// Number of the next rejected message.
    pub(super) rejected_next: u64,
    /// Partitions of which something came since the last [`Applier::committed`].
    touched: BTreeSet<Source>,
    /// Gateways of which all is loaded anew since then; empty after a start.
    pub(super) reloaded: BTreeSet<GatewayName>,
    is_started: bool,
    holes: Holes,
    pub(super) ledger: UpstreamLedger,
    pub(super) applied: Vec<Applied>,
    /// Gateways of the batch that was taken last.
    taken: Vec<GatewayName>,
    /// Later writes of one key replace earlier ones.
    pub(super) others: BTreeMap<(Table, Vec<u8>), Option<Vec<u8>>>,
    pub(super) bytes: usize,
    clones: Vec<CloneSeen>,
}

impl Applier {
    /// Goes on from what is stored in the tables Marks and Meta.
    ///
    /// # Errors
    /// When an entry cannot be read or contradicts another.
    pub fn load(loaded: Loaded) -> Result<Self, LoadError> {
        let mut applier = Self::default();
        applier.take_over(loaded)?;
        let Counters {
            readings,
            gap_records,
            ..
        } = applier.counters();
        applier.ledger.loaded(readings + gap_records > 0);
        Ok(applier)
    }

    /// Takes over entries that are stored; nothing that they say may be known.
    pub(super) fn take_over(&mut self, loaded: Loaded) -> Result<(), LoadError> {
        let bad = |what: &str, key: &[u8]| LoadError {
            said: format!(
                "{what} at key {:?} cannot be read",
                key.escape_ascii().to_string()
            ),
        };
        let marks = loaded
            .marks
            .into_iter()
            .map(|(key, value)| parse_mark(&key, &value).ok_or_else(|| bad("the mark", &key)));
        let mut marks = marks.collect::<Result<Vec<_>, _>>()?;
        // Runs of one partition together, whatever their keys sort like.
        marks.sort_by(|(a, _), (b, _)| a.cmp(b));
        self.state.load(marks).map_err(|source| LoadError {
            said: format!("the marks of {source:?} contradict each other"),
        })?;
        for (gateway, version) in loaded.versions {
            self.gateways.restore(gateway, version);
        }
        for (key, value) in loaded.meta {
            self.load_meta(&key, &value)
                .ok_or_else(|| bad("the entry", &key))?;
        }
        Ok(())
    }

    /// `None` when the entry cannot be read. Unknown keys come from a newer
    /// version that says something more.
    fn load_meta(&mut self, key: &[u8], value: &[u8]) -> Option<()> {
        if self.gateways.load(key, value)? {
            return Some(());
        }
        if let Some(name) = key.strip_prefix(DEVICE_PREFIX) {
            self.ledger.load_device(name, value)?;
        } else if let Some(name) = key.strip_prefix(OTHERS_PREFIX) {
            self.ledger.load_others(name, value)?;
        } else if let Some(client) = key.strip_prefix(CLIENT_PREFIX) {
            self.clients
                .insert(String::from_utf8(client.to_vec()).ok()?);
        } else if key == LEDGER_KEY {
            self.ledger.load_head(value)?;
        } else if key == SESSION_KEY {
            self.session = Some(SessionNonce(value.try_into().ok()?));
        } else if key == REJECTED_KEY {
            self.rejected_next = u64::from_be_bytes(value.try_into().ok()?);
        }
        Some(())
    }

    /// Reads and takes a message.
    pub fn handle(&mut self, topic: &str, payload: Bytes) -> Outcome {
        self.take(topic, Received::read(topic, payload))
    }

    /// Takes a message that was read from this topic.
    pub fn take(&mut self, topic: &str, received: Received) -> Outcome {
        let Received { payload, message } = received;
        match message {
            Ok(message) => {
                let gateway = &message.id.gateway;
                self.gateways.entry(gateway).fresh.messages += 1;
                self.judge(message, payload)
            }
            Err(reason) => {
                self.gateways.none().fresh.messages += 1;
                self.reject(topic, payload.len(), &payload, reason)
            }
        }
    }

    /// Notes a message of which no payload is at hand.
    pub fn handle_unfit(&mut self, topic: &str, payload_bytes: usize) -> Outcome {
        self.gateways.none().fresh.messages += 1;
        let reason = "too large, or its topic is no text".to_owned();
        self.reject(topic, payload_bytes, b"", reason)
    }

    /// What in the message is new goes into the batch.
    pub(super) fn judge(&mut self, message: Arc<DataMessage>, payload: Bytes) -> Outcome {
        let id = &message.id;
        let gateway = id.gateway.clone();
        let missing = message.body.records().is_none();
        let admitted = self.state.admit(id, range(&message), missing);
        let (fresh, duplicates) = match admitted.verdict {
            Verdict::Apply { fresh, duplicates } => (fresh, duplicates),
            Verdict::Full => {
                let reason = "as many partitions as may be known are known".to_owned();
                let topic = id.gateway.data_topic(&id.stream, id.partition);
                return self.reject(&topic, payload.len(), &payload, reason);
            }
            Verdict::Beyond => {
                self.gateways.entry(&gateway).fresh.beyond += 1;
                return Outcome::Beyond { gateway };
            }
        };
        self.touched.insert(Source::of(id));
        let counted = self.count(&message, &fresh);
        let known = self.gateways.entry(&gateway);
        known.fresh.add(counted);
        known.fresh.duplicates += duplicates;
        known.fresh.clones += u64::from(admitted.is_clone);
        let moved = known.log_id.replace(id.log_id) != Some(id.log_id);
        for mark in admitted.marks {
            self.put(mark.table, mark.key, mark.value);
        }
        if moved {
            let key = [CURRENT_PREFIX, gateway.as_str().as_bytes()].concat();
            self.put(Table::Meta, key, Some(id.log_id.0.to_vec()));
        }
        if admitted.is_clone && self.clones.len() < CLONES_TOLD_MAX {
            self.clones.push(CloneSeen {
                gateway: gateway.clone(),
                log_id: id.log_id,
                opening: Opening {
                    epoch: id.epoch,
                    nonce: id.nonce,
                },
            });
        }
        if !fresh.is_empty() {
            self.bytes += payload.len();
            self.applied.push(Applied {
                message,
                payload,
                fresh,
            });
        }
        Outcome::Taken { gateway }
    }

    /// Counts the records of the message that are new.
    fn count(&mut self, message: &DataMessage, fresh: &[OffsetRange]) -> Counters {
        let index = |offset: Offset| {
            let index = usize::try_from(offset.0 - message.id.first.0);
            index.expect("a part lies inside of its message")
        };
        let mut sum = Counters::default();
        for part in fresh {
            match &message.body {
                DataBody::Missing(_) => sum.missing = sum.missing.saturating_add(part.count()),
                DataBody::Readings { series, records } => {
                    let records = &records[index(part.start())..index(part.end())];
                    let counted = self.ledger.take(&message.id.gateway, series, records);
                    sum.add(counters(counted));
                }
                DataBody::Rows(_) => sum.rows += part.count(),
            }
        }
        sum
    }

    fn reject(
        &mut self,
        topic: &str,
        payload_bytes: usize,
        payload: &[u8],
        reason: String,
    ) -> Outcome {
        self.gateways.none().fresh.rejected += 1;
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
        self.keep_rejected(entry.to_string().into_bytes());
        Outcome::Rejected { reason }
    }

    /// Numbers a rejected message; the oldest makes room.
    pub(super) fn keep_rejected(&mut self, value: Vec<u8>) {
        let number = self.rejected_next;
        self.rejected_next = number.wrapping_add(1);
        let key = |number: u64| number.to_be_bytes().to_vec();
        self.put(Table::Rejected, key(number), Some(value));
        if let Some(oldest) = number.checked_sub(REJECTED_KEPT_MAX) {
            self.put(Table::Rejected, key(oldest), None);
        }
        let next = key(self.rejected_next);
        self.put(Table::Meta, REJECTED_KEY.to_vec(), Some(next));
    }

    pub(super) fn put(&mut self, table: Table, key: Vec<u8>, value: Option<Vec<u8>>) {
        self.bytes += key.len() + value.as_ref().map_or(0, Vec::len);
        self.others.insert((table, key), value);
    }

    /// Remembers a new session: the broker may have lost messages that it had
    /// acked to gateways.
    pub fn renew_session(&mut self, session: SessionNonce) {
        self.session = Some(session);
        self.renewed = true;
        self.put(Table::Meta, SESSION_KEY.to_vec(), Some(session.0.to_vec()));
    }

    /// `None` before the first one was drawn.
    #[must_use]
    pub fn session(&self) -> Option<SessionNonce> {
        self.session
    }

    /// Clients that were connected, as [`Applier::note_client`] was told.
    pub fn clients(&self) -> impl Iterator<Item = &str> {
        self.clients.iter().map(String::as_str)
    }

    /// Remembers that a client has been connected: of one that is new, a broker that
    /// does not know it has lost nothing. One beyond UPSTREAM_CLIENTS_MAX is not
    /// remembered.
    pub fn note_client(&mut self, client: &str) {
        if self.clients.len() < UPSTREAM_CLIENTS_MAX && self.clients.insert(client.to_owned()) {
            let key = [CLIENT_PREFIX, client.as_bytes()].concat();
            self.put(Table::Meta, key, Some(Vec::new()));
        }
    }

    /// Forgets a client that will not come back.
    pub fn forget_client(&mut self, client: &str) {
        if self.clients.remove(client) {
            let key = [CLIENT_PREFIX, client.as_bytes()].concat();
            self.put(Table::Meta, key, None);
        }
    }

    /// Bytes that the batch has so far, about.
    #[must_use]
    pub fn pending_bytes(&self) -> usize {
        self.bytes
    }

    /// Lets the next batch store the counters even when nothing else is new: on a
    /// clean stop, so that duplicates since the last row count too.
    pub fn keep_counters(&mut self) {
        for gateway in self.gateways.uncounted() {
            self.put_counters(&gateway);
        }
    }

    pub(super) fn put_counters(&mut self, gateway: &GatewayName) {
        let known = self.gateways.get(gateway);
        let total = known.map_or_else(Counters::default, super::known::Known::total);
        let key = counters_key(gateway);
        self.put(Table::Meta, key, Some(total.to_bytes()));
    }

    /// What one transaction makes durable; empty when nothing is new.
    pub fn take_batch(&mut self) -> Batch {
        self.taken.clear();
        if self.applied.is_empty() && self.others.is_empty() {
            return Batch::default();
        }
        for (key, value) in self.ledger.take_writes() {
            self.put(Table::Meta, key, Some(value));
        }
        let applied = std::mem::take(&mut self.applied);
        let messages = applied.iter().map(|applied| &applied.message.id.gateway);
        let entries = self.others.keys();
        let owners = entries.map(|(table, key)| owner(*table, key));
        let gateways: BTreeSet<_> = messages.cloned().chain(owners).collect();
        for gateway in &gateways {
            self.put_counters(gateway);
        }
        self.bytes = 0;
        let entries = std::mem::take(&mut self.others).into_iter();
        let entries = entries.map(|((table, key), value)| EntryWrite { table, key, value });
        self.taken = gateways.iter().cloned().collect();
        let versioned = |name| {
            let known = self.gateways.get(&name);
            let version = known.map_or(0, |known| known.version);
            (name, version)
        };
        Batch {
            applied,
            entries: entries.collect(),
            gateways: gateways.into_iter().map(versioned).collect(),
        }
    }

    /// The batch that was taken last is durable, and nothing was handled since:
    /// holes in what is applied now are watched.
    pub fn committed(&mut self, now: Mono) {
        for gateway in std::mem::take(&mut self.taken) {
            let known = self.gateways.entry(&gateway);
            known.version += 1;
            known.stored = known.total();
            known.fresh = Counters::default();
        }
        self.renewed = false;
        let mut touched = std::mem::take(&mut self.touched);
        for gateway in std::mem::take(&mut self.reloaded) {
            touched.extend(self.holes.of(&gateway));
            let holes = self.state.holes(Some(&gateway)).into_iter();
            touched.extend(holes.map(|(source, ..)| source));
        }
        if !self.is_started {
            self.is_started = true;
            for (source, from, until) in self.state.holes(None) {
                self.holes.note(&source, from, until, now);
            }
        }
        for source in touched {
            let (from, until) = self.state.hole(&source);
            self.holes.note(&source, from, until, now);
        }
    }

    /// A gateway to be asked to send again, because a hole stays.
    pub fn poll_resend(&mut self, now: Mono) -> Option<(GatewayName, Command)> {
        let (source, command) = self.holes.poll(now)?;
        self.gateways.entry(&source.gateway).fresh.resends += 1;
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
        let known = self.gateways.get(gateway)?;
        let log_id = known.log_id?;
        Some(AckMessage {
            gateway: gateway.clone(),
            session: self.session?,
            seq: known.version,
            log_id,
            marks: self.state.marks(gateway, log_id),
        })
    }

    /// Gateways from which something was taken.
    pub fn gateways(&self) -> impl Iterator<Item = &GatewayName> {
        self.gateways.names()
    }

    /// Since the sink was created.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.gateways.total()
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

    /// Second disks of a log that showed since the last call; at most
    /// CLONES_TOLD_MAX.
    pub fn take_clones(&mut self) -> Vec<CloneSeen> {
        std::mem::take(&mut self.clones)
    }

    /// Logs that have more than one history.
    pub fn forked(&self) -> impl Iterator<Item = (&GatewayName, LogId)> {
        self.state.forked()
    }
}

fn counters(counted: Counted) -> Counters {
    Counters {
        readings: counted.readings,
        gap_records: counted.gap_records,
        gap_readings: counted.gap_readings,
        clock_records: counted.clock_records,
        table_records: counted.table_records,
        ..Counters::default()
    }
}

/// The offsets of a message that was found readable.
pub(super) fn range(message: &DataMessage) -> OffsetRange {
    let range = OffsetRange::inclusive(message.id.first, message.id.last);
    range.expect("what is readable has offsets")
}

/// The message, and its payload as it is without compression.
fn readable(topic: &str, payload: &Bytes) -> Result<(DataMessage, Bytes), String> {
    let Some((gateway, stream, partition)) = parse_data_topic(topic) else {
        return Err("the topic is none of data".to_owned());
    };
    if is_shared(&gateway) {
        let name = shared();
        return Err(format!("no gateway may have the name {name:?}"));
    }
    let payload = match plain(payload).map_err(|error| error.to_string())? {
        std::borrow::Cow::Borrowed(_) => payload.clone(),
        std::borrow::Cow::Owned(plain) => Bytes::from(plain),
    };
    let message = DataMessage::parse(&payload).map_err(|error| error.to_string())?;
    let id = &message.id;
    if (&id.gateway, &id.stream, id.partition) != (&gateway, &stream, partition) {
        return Err(format!(
            "the payload is of gateway {}, stream {}, partition {}",
            id.gateway, id.stream, id.partition.0
        ));
    }
    if OffsetRange::inclusive(id.first, id.last).is_none() {
        return Err(format!("offsets {} to {}", id.first.0, id.last.0));
    }
    Ok((message, payload))
}
