//! Readings that come in batches instead of over a link: recorded files. An import
//! is a session; each device in it gets a boot of its own, with ordinals from 0,
//! so that imported readings have an identity like all others.
//!
//! Always: a batch is answered once, and only when all that was taken of it is
//! durable; what was not taken is named with its reason. While the commit has no
//! room, batches wait. Bound: [`IMPORTS_MAX`] sessions with one batch of
//! [`IMPORT_RECORDS_MAX`] readings each. Knows no file and no line.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use forebay_wire::ids::{ChannelNo, DeviceUid, Ordinal, Tick};

use crate::clock::GatewayClock;
use crate::commit::GroupCommit;
use crate::ingest::{Router, fnv1a};
use crate::ledger::{Ledger, Source};
use crate::limits::{
    DEVICES_MAX, IMPORT_CHANNELS_MAX, IMPORT_IDLE_US, IMPORT_RECORDS_MAX, IMPORTS_MAX,
};
use crate::log::key::TopicPartition;
use crate::log::topic::READINGS;
use crate::query::Names;
use crate::record::{Figure, ReadingRecord, Series, ValueKind};
use crate::units::{Mono, Now};

mod record;

pub use self::record::ImportRecord;

/// Meta keys of the names of imported devices: this and the uid's hex digits; the
/// value is the name.
pub const NAME_META_PREFIX: &[u8] = b"name/";

/// Names a request of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImportId(pub u64);

/// Names an import over its batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionNo(pub u32);

/// What an import asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum ImportRequest {
    /// Readings in their order; without a session a new one begins.
    Batch {
        session: Option<SessionNo>,
        records: Vec<ImportRecord>,
    },
    /// Nothing more comes.
    End(SessionNo),
}

/// What became of a batch. All that was taken is durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    pub session: SessionNo,
    pub taken: u64,
    /// In order; together with `taken` they are all of the batch.
    pub refused: Vec<Refused>,
}

/// A reading that was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Its place in the batch.
    pub index: u32,
    pub why: Arc<str>,
}

/// The answer to a request; a sentence when all of it was refused.
pub type ImportAnswer = Result<Imported, String>;

/// A device in a session.
#[derive(Debug)]
struct Device {
    source: Source,
    next: Ordinal,
    /// By channel and unit.
    channels: BTreeMap<(Arc<str>, Arc<str>), Series>,
}

#[derive(Debug)]
struct Session {
    /// By the name in the records; a refusal is kept like a device, so that each
    /// name is judged once.
    devices: BTreeMap<Arc<str>, Result<Device, Arc<str>>>,
    used: Mono,
    /// A batch waits, or is on its way to the disk.
    busy: bool,
}

/// A batch whose readings are on their way to the disk.
#[derive(Debug)]
struct UnderWay {
    id: ImportId,
    imported: Imported,
    until: Vec<(Source, Ordinal)>,
}

/// What readings are handed to.
#[derive(Debug)]
pub struct ImportSink<'a> {
    pub router: &'a Router,
    pub ledger: &'a mut Ledger,
    pub commit: &'a mut GroupCommit,
    pub names: &'a mut Names,
    pub clock: &'a mut GatewayClock,
    pub now: Now,
}

/// All imports.
#[derive(Debug, Default)]
pub struct Imports {
    sessions: BTreeMap<SessionNo, Session>,
    waiting: VecDeque<(ImportId, SessionNo, Vec<ImportRecord>)>,
    under_way: Vec<UnderWay>,
    answers: VecDeque<(ImportId, ImportAnswer)>,
    last: u32,
    closed: bool,
}

/// Adds the names that imports have left in the meta entries; a name from the
/// config wins.
pub fn restore_names(meta: &[(Vec<u8>, Vec<u8>)], names: &mut Names) {
    for (key, value) in meta {
        let digits = key.strip_prefix(NAME_META_PREFIX);
        let uid = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let uid = uid.and_then(crate::query::parse_uid);
        let name = std::str::from_utf8(value).ok();
        if let (Some(uid), Some(name)) = (uid, name) {
            names.0.entry(uid).or_insert_with(|| name.to_owned());
        }
    }
}

impl Imports {
    /// Takes a request; its answer comes from [`Imports::poll_answer`].
    pub fn on_request(&mut self, id: ImportId, request: ImportRequest, now: Mono) {
        let answer = match request {
            ImportRequest::End(session) => self.end(session),
            ImportRequest::Batch { session, records } => {
                match self.admit(session, records.len(), now) {
                    Ok(session) => return self.waiting.push_back((id, session, records)),
                    Err(text) => Err(text),
                }
            }
        };
        self.answers.push_back((id, answer));
    }

    /// Hands waiting batches on while the commit has room.
    pub fn step(&mut self, sink: &mut ImportSink<'_>) {
        while sink.commit.has_room() {
            let Some((id, number, records)) = self.waiting.pop_front() else {
                return;
            };
            let session = self.sessions.get_mut(&number);
            let session = session.expect("a session with a waiting batch is kept");
            let (imported, until) = session.take(number, &records, sink);
            self.under_way.push(UnderWay {
                id,
                imported,
                until,
            });
            // A batch of which nothing was taken waits for nothing.
            self.on_durable(sink.ledger);
        }
    }

    /// Answers the batches that the accounts now say are durable.
    pub fn on_durable(&mut self, ledger: &Ledger) {
        let durable = |(source, end): &(Source, Ordinal)| {
            let account = ledger.get(*source);
            account.is_some_and(|account| account.durable >= end.0)
        };
        for done in self
            .under_way
            .extract_if(.., |batch| batch.until.iter().all(durable))
        {
            if let Some(session) = self.sessions.get_mut(&done.imported.session) {
                session.busy = false;
            }
            self.answers.push_back((done.id, Ok(done.imported)));
        }
    }

    /// Answers the batches that wait with why they are not taken now; their sessions
    /// may go on.
    pub fn refuse(&mut self, why: &str) {
        for (id, number, _) in self.waiting.drain(..) {
            if let Some(session) = self.sessions.get_mut(&number) {
                session.busy = false;
            }
            self.answers.push_back((id, Err(why.to_owned())));
        }
    }

    /// Takes nothing more; what is on its way to the disk is still answered.
    pub fn close(&mut self) {
        self.closed = true;
        for (id, _, _) in self.waiting.drain(..) {
            self.answers.push_back((id, Err(stopping())));
        }
    }

    /// The next answer.
    pub fn poll_answer(&mut self) -> Option<(ImportId, ImportAnswer)> {
        self.answers.pop_front()
    }

    fn end(&mut self, session: SessionNo) -> ImportAnswer {
        let known = self.sessions.get(&session);
        if known.is_some_and(|session| !session.busy) {
            self.sessions.remove(&session);
        }
        Ok(Imported {
            session,
            taken: 0,
            refused: Vec::new(),
        })
    }

    /// The session that a batch belongs to.
    fn admit(
        &mut self,
        session: Option<SessionNo>,
        records: usize,
        now: Mono,
    ) -> Result<SessionNo, String> {
        if self.closed {
            return Err(stopping());
        }
        if records > IMPORT_RECORDS_MAX {
            return Err(format!(
                "a batch of {records} readings: at most {IMPORT_RECORDS_MAX} are taken at once"
            ));
        }
        let number = match session {
            Some(number) => number,
            None => self.begin(now)?,
        };
        let Some(session) = self.sessions.get_mut(&number) else {
            return Err(format!(
                "import {} is not known any more: begin a new one",
                number.0
            ));
        };
        if session.busy {
            return Err(format!(
                "import {} has a batch under way: wait for its answer",
                number.0
            ));
        }
        (session.busy, session.used) = (true, now);
        Ok(number)
    }

    /// Makes a session, in the place of one that has long been silent if need be.
    fn begin(&mut self, now: Mono) -> Result<SessionNo, String> {
        if self.sessions.len() >= IMPORTS_MAX {
            let idle = |s: &Session| !s.busy && now.0.saturating_sub(s.used.0) >= IMPORT_IDLE_US;
            let oldest = self.sessions.iter().filter(|(_, session)| idle(session));
            let oldest = oldest.min_by_key(|(_, session)| session.used);
            let Some(oldest) = oldest.map(|(number, _)| *number) else {
                return Err(format!(
                    "{IMPORTS_MAX} imports are under way: try again when one has ended"
                ));
            };
            self.sessions.remove(&oldest);
        }
        self.last += 1;
        let number = SessionNo(self.last);
        let session = Session {
            devices: BTreeMap::new(),
            used: now,
            busy: false,
        };
        self.sessions.insert(number, session);
        Ok(number)
    }
}

fn stopping() -> String {
    String::from("the agent is stopping and takes no more readings: import again later")
}

impl Session {
    /// Hands the records on; gives what became of them and what to wait for.
    fn take(
        &mut self,
        session: SessionNo,
        records: &[ImportRecord],
        sink: &mut ImportSink<'_>,
    ) -> (Imported, Vec<(Source, Ordinal)>) {
        let mut imported = Imported {
            session,
            taken: 0,
            refused: Vec::new(),
        };
        let mut until = BTreeMap::new();
        for (record, index) in records.iter().zip(0..) {
            match self.take_one(record, sink) {
                Ok((source, next)) => {
                    imported.taken += 1;
                    until.insert(source, next);
                }
                Err(why) => imported.refused.push(Refused { index, why }),
            }
        }
        (imported, until.into_iter().collect())
    }

    fn take_one(
        &mut self,
        record: &ImportRecord,
        sink: &mut ImportSink<'_>,
    ) -> Result<(Source, Ordinal), Arc<str>> {
        if !self.devices.contains_key(&record.device) {
            if self.devices.len() >= DEVICES_MAX {
                return Err(no_place(&record.device).into());
            }
            let device = begin_device(&record.device, sink).map_err(Arc::from);
            self.devices.insert(record.device.clone(), device);
        }
        let device = self.devices.get_mut(&record.device);
        let device = device.expect("it was just put there").as_mut();
        let device = device.map_err(|why| why.clone())?;
        let source = device.source;
        let ordinal = device.next;
        let series = device.series(record)?;
        let reading = ReadingRecord {
            series: 0,
            ordinal,
            tick: Tick(0),
            time: record.time,
            uncertainty_us: 0,
            value: double(record.value),
            quality: record.quality,
        };
        let partition = sink.router.partition(source.uid);
        let at = TopicPartition {
            topic: READINGS,
            partition,
        };
        sink.clock
            .before_reading(partition, record.time, sink.now, sink.commit);
        sink.commit.reading(at, series, &reading, sink.now.mono);
        let account = sink.ledger.open(source);
        account
            .expect("the device has its place since it began")
            .take_readings(1);
        device.next = Ordinal(ordinal.0 + 1);
        Ok((source, device.next))
    }
}

fn no_place(device: &str) -> String {
    format!(
        "has the device {device}, for which there is no place: \
         the gateway keeps accounts of {DEVICES_MAX} devices"
    )
}

/// Gives a device its uid, its boot and, when the log sees it for the first time,
/// its name.
fn begin_device(name: &Arc<str>, sink: &mut ImportSink<'_>) -> Result<Device, String> {
    let known = sink.names.find(name);
    let uid = known.unwrap_or_else(|| DeviceUid(fnv1a(name.as_bytes()).to_be_bytes()));
    if let (None, Some(other)) = (known, sink.names.0.get(&uid)) {
        return Err(format!(
            "has the device {name}, whose uid {uid} is that of {other}: give it another name"
        ));
    }
    let source = Source {
        uid,
        boot: sink.ledger.next_import_boot(uid),
    };
    if sink.ledger.open(source).is_err() {
        return Err(no_place(name));
    }
    if known.is_none() {
        let mut key = NAME_META_PREFIX.to_vec();
        key.extend_from_slice(uid.to_string().as_bytes());
        sink.commit
            .meta(key, name.as_bytes().to_vec(), sink.now.mono);
        sink.names.0.insert(uid, name.to_string());
    }
    Ok(Device {
        source,
        next: Ordinal(0),
        channels: BTreeMap::new(),
    })
}

impl Device {
    fn series(&mut self, record: &ImportRecord) -> Result<&Series, Arc<str>> {
        let key = (record.channel.clone(), record.unit.clone());
        let count = self.channels.len();
        if count >= IMPORT_CHANNELS_MAX && !self.channels.contains_key(&key) {
            return Err(Arc::from(format!(
                "is of the {}th channel of {}: one import takes {IMPORT_CHANNELS_MAX}, \
                 so put the others in a file of their own",
                count + 1,
                record.device,
            )));
        }
        let Source { uid, boot } = self.source;
        Ok(self.channels.entry(key).or_insert_with(|| Series {
            uid,
            boot,
            channel: ChannelNo(count as u8),
            kind: ValueKind::Double,
            name: record.channel.clone(),
            unit: record.unit.clone(),
        }))
    }
}

const _: () = assert!(IMPORT_CHANNELS_MAX <= 1 << u8::BITS);

/// A double as the log holds it.
fn double(value: f64) -> i64 {
    let figure = Figure::double(value);
    figure.expect("a record's value is finite").value
}

#[cfg(test)]
mod tests;
