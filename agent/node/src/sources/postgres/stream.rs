//! The stream of changes: what comes is handed on at once, and the server is told what is
//! durable here.
//!
//! Always holds: a place is confirmed only when it and all before it is durable in the log,
//! and never a place behind what the log's position says. Heartbeats say a time only once
//! everything up to it has come. Bounds: a batch is handed on when it is full or when
//! nothing more is here; at most SOURCE_BATCHES_MAX are on their way, then the server waits.

use std::collections::VecDeque;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::BufMut as _;
use forebay_core::units::EventTime;
use postgres_protocol::message::{backend, frontend};

use super::bytes::{Bytes, Malformed};
use super::catalog::{Figures, Tables, literal, quoted};
use super::fault::{Fault, Place};
use super::hand::{Hand, Slot};
use super::limits::{ASK_AFTER, BATCH_BYTES, CONFIRM_EVERY, READ_WAIT, SILENCE_MAX};
use super::lsn::{At, LSN_MAX, Lsn};
use super::pgoutput::{self, Message};
use super::record::Record;
use super::translate::{Step, Translator};
use super::watch::{Look, Watch};
use super::wire::{Frame, Wire, WireError, server_error};
use crate::store::fault::point;
use forebay_core::effect::{SourceEvent, SourcePosition, SourceState};
use forebay_core::limits::SOURCE_BATCH_EVENTS_MAX;

/// What a message of the stream holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent<'a> {
    /// A message of `pgoutput`.
    Data(&'a [u8]),
    /// The server has sent everything up to here.
    Alive { end: Lsn, wants_answer: bool },
}

fn read(body: &[u8]) -> Result<Sent<'_>, Malformed> {
    let mut bytes = Bytes::new(body);
    let kind = bytes.bad("a kind of copy data that is not known");
    match bytes.u8("the kind of copy data")? {
        b'w' => {
            bytes.take(24, "places and time of the data")?;
            Ok(Sent::Data(bytes.rest()))
        }
        b'k' => {
            let end = Lsn(bytes.u64("the server's place")?);
            bytes.i64("the server's time")?;
            let wants_answer = bytes.u8("whether it wants an answer")? != 0;
            bytes.end()?;
            Ok(Sent::Alive { end, wants_answer })
        }
        _ => Err(kind),
    }
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct Stream<'a> {
    pub wire: &'a mut Wire,
    pub hand: &'a mut Hand,
    pub place: &'a Place,
    pub translator: Translator,
    pub watch: Watch,
    /// The tables as they were when their rows were read.
    pub record: &'a mut Record,
    pub record_file: &'a Path,
    pub places: Places,
}

/// How far the stream has come, and how far the server may forget.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// Everything before it has come.
    received: Lsn,
    /// Ends of what was handed on, with what may be confirmed once they are durable.
    ends: VecDeque<(At, Lsn)>,
    confirmed: Lsn,
    told: Option<(Lsn, Instant)>,
    asked: Option<Instant>,
    /// A look whose time is said when the stream has come there.
    due: Option<(Lsn, EventTime)>,
    lag: u64,
    /// What the status says is wrong, while the stream goes on.
    absent: Vec<String>,
    warned: bool,
}

impl Places {
    fn note_end(&mut self, at: At, confirm: Lsn) {
        match self.ends.back_mut() {
            Some(last) if last.0 == at => last.1 = last.1.max(confirm),
            Some(_) | None => self.ends.push_back((at, confirm)),
        }
    }

    fn note_durable(&mut self, durable: Option<At>) {
        while let Some((at, confirm)) = self.ends.front()
            && durable.is_some_and(|durable| *at <= durable)
        {
            self.confirmed = self.confirmed.max(*confirm);
            self.ends.pop_front();
        }
    }
}

impl Stream<'_> {
    /// Runs until something ends it.
    pub(super) fn run(mut self, from: At) -> Fault {
        match self.go(from) {
            Ok(()) => Fault::Stopped,
            Err(fault) => fault,
        }
    }

    fn go(&mut self, from: At) -> Result<(), Fault> {
        let publication = literal(&quoted(&self.place.publication));
        let sql = format!(
            "START_REPLICATION SLOT {} LOGICAL {} (proto_version '1', publication_names {publication})",
            quoted(&self.place.slot),
            from.lsn
        );
        let started = self.wire.start(&sql);
        started.map_err(|error| self.place.wire("start the stream", error))?;
        point("source.started");
        self.say_state();
        loop {
            while let Some(frame) = self.frame()? {
                if let Err(fault) = self.on_frame(&frame) {
                    // What came before it is good.
                    self.hand_on()?;
                    return Err(fault);
                }
                let (events, bytes) = self.translator.waiting();
                // One message gives two events at most, but for a truncation of many tables.
                if events + 2 > SOURCE_BATCH_EVENTS_MAX || bytes >= BATCH_BYTES {
                    self.hand_on()?;
                }
            }
            self.hand_on()?;
            self.look()?;
            self.hand_on()?;
            self.confirm(false)?;
            self.listen()?;
            if self.hand.told().is_stopped() {
                return self.confirm(true);
            }
            let filled = self.wire.fill();
            filled.map_err(|error| self.place.wire("read the stream", error))?;
        }
    }

    fn frame(&mut self) -> Result<Option<Frame>, Fault> {
        let frame = self.wire.frame();
        frame.map_err(|error| self.place.wire("read the stream", error))
    }

    fn on_frame(&mut self, frame: &Frame) -> Result<(), Fault> {
        let body = self.wire.body(frame);
        let fail = |place: &Place, error| place.wire("read the stream", error);
        match frame.tag {
            backend::COPY_DATA_TAG => {}
            backend::ERROR_RESPONSE_TAG => {
                return Err(self.place.server("read the stream", &server_error(body)));
            }
            backend::NOTICE_RESPONSE_TAG | backend::PARAMETER_STATUS_TAG => return Ok(()),
            _ => {
                let ended = WireError::Lost("the server ended the stream".into());
                return Err(fail(self.place, ended));
            }
        }
        let sent = read(body).map_err(|error| fail(self.place, error.into()))?;
        match sent {
            Sent::Data(data) => {
                let message = pgoutput::decode(data);
                let message = message.map_err(|error| fail(self.place, error.into()))?;
                let commit = if let Message::Commit { commit, .. } = &message {
                    Some(*commit)
                } else {
                    None
                };
                let step = self.translator.on(message);
                let step = step.map_err(|trouble| self.place.trouble(trouble))?;
                if let (Step::Committed(end), Some(commit)) = (step, commit) {
                    self.on_commit(commit, end);
                }
                for note in self.translator.notes() {
                    self.hand.note(self.place.said(note));
                }
            }
            Sent::Alive { end, wants_answer } => {
                if !self.translator.is_within() {
                    self.places.received = self.places.received.max(end);
                }
                if wants_answer {
                    self.confirm(true)?;
                }
            }
        }
        Ok(())
    }

    fn on_commit(&mut self, commit: Lsn, end: Lsn) {
        self.places.received = self.places.received.max(end);
        let held = self.translator.held();
        // Of others nothing was handed on: a heartbeat confirms them.
        if held.lsn == commit {
            self.places.note_end(held, Lsn(commit.0 + 1));
        }
    }

    /// Hands on what is here, when there is room.
    fn hand_on(&mut self) -> Result<(), Fault> {
        if self.translator.waiting().0 == 0 {
            return Ok(());
        }
        point("source.received");
        while !self.hand.has_room() {
            if self.hand.told().is_stopped() {
                return Err(Fault::Stopped);
            }
            self.hand.told().wait(READ_WAIT);
            self.wire.excuse();
            self.confirm(false)?;
            // Now of all times it matters how far behind we are.
            if let Some(look) = self.watch.look()? {
                self.on_look(look)?;
            }
        }
        let at = self.translator.held();
        let mut events = self.translator.take();
        while events.len() > SOURCE_BATCH_EVENTS_MAX {
            let rest = events.split_off(SOURCE_BATCH_EVENTS_MAX);
            let last = events.last().and_then(position);
            let end = last.and_then(At::parse).unwrap_or(at);
            if !self.hand.batch(events, end) {
                return Err(Fault::Stopped);
            }
            events = rest;
        }
        if !self.hand.batch(events, at) {
            return Err(Fault::Stopped);
        }
        point("source.handed-on");
        Ok(())
    }

    /// Takes a look at the database, and says a time once the stream has come to its place.
    fn look(&mut self) -> Result<(), Fault> {
        if let Some(look) = self.watch.look()? {
            self.on_look(look)?;
        }
        let Some((reach, time)) = self.places.due else {
            return Ok(());
        };
        if self.translator.is_within() {
            return Ok(());
        }
        if self.places.received >= reach {
            self.places.due = None;
            let received = self.places.received.min(LSN_MAX);
            if self.translator.heartbeat(received, time) {
                self.places.note_end(self.translator.held(), received);
            }
        } else if self.places.asked.is_none() {
            // The server says where it is when it is asked.
            self.tell(true)?;
            self.places.asked = Some(Instant::now());
        }
        Ok(())
    }

    fn on_look(&mut self, look: Look) -> Result<(), Fault> {
        // One that is on its way is said first: a busy stream would never come to the newest.
        if self.places.due.is_none() {
            self.places.due = Some((look.reach, look.figures.time));
        }
        self.places.asked = None;
        self.places.lag = look.figures.lag;
        if let Some(tables) = &look.tables {
            self.compare(tables)?;
        }
        self.warn(&look.figures);
        let figures = look.figures;
        self.hand.told().set_slot(Slot {
            name: self.place.slot.clone(),
            lag: figures.lag,
            kept: figures.kept,
            spare: figures.spare.map(|bytes| bytes.max(0).unsigned_abs()),
            status: figures.status,
        });
        self.say_state();
        Ok(())
    }

    /// Whether the tables are still those whose rows were read.
    fn compare(&mut self, tables: &Tables) -> Result<(), Fault> {
        if !tables.grants.is_empty() {
            return Err(self.place.grants(&tables.grants));
        }
        for (table, id) in &tables.there {
            if self.record.tables.get(table) != Some(id) {
                let text = format!("table {table} was made or published anew");
                return Err(Fault::Anew(text));
            }
        }
        let before = self.record.tables.len();
        self.record
            .tables
            .retain(|table, _| tables.there.contains_key(table));
        if self.record.tables.len() < before {
            // When they are back, changes are missing.
            let saved = self.record.save(self.record_file);
            saved.map_err(|error| self.place.record(self.record_file, &error))?;
        }
        let mut wrong = tables.absent.clone();
        wrong.extend(tables.wrong.iter().cloned());
        for text in wrong
            .iter()
            .filter(|text| !self.places.absent.contains(text))
        {
            self.hand.note(self.place.said(text));
        }
        self.places.absent = wrong;
        Ok(())
    }

    /// Says once when the slot may fill the server's disk, or be thrown away.
    fn warn(&mut self, figures: &Figures) {
        let is_near = matches!(figures.status.as_str(), "extended" | "unreserved");
        if is_near && !self.places.warned {
            let spare = figures.spare.map_or_else(
                || "until its disk is full (max_slot_wal_keep_size is not set)".to_owned(),
                |bytes| format!("for {} bytes more (max_slot_wal_keep_size)", bytes.max(0)),
            );
            self.hand.note(self.place.said(format!(
                "the server keeps {} bytes of write log for the slot {}, {spare}: is this gateway \
                 too slow or its disk full?",
                figures.kept, self.place.slot
            )));
        }
        self.places.warned = is_near;
    }

    fn say_state(&self) {
        let state = match self.places.absent.as_slice() {
            [] => SourceState::Streaming,
            absent => SourceState::Waiting(
                self.place
                    .said(format!("{}; other tables go on", absent.join("; "))),
            ),
        };
        self.hand.state(state, self.places.lag);
    }

    /// Tells the server what is durable: when that has grown, and now and then.
    fn confirm(&mut self, at_once: bool) -> Result<(), Fault> {
        self.places.note_durable(self.hand.durable());
        let is_due = self.places.told.is_none_or(|(told, at)| {
            at.elapsed() >= ASK_AFTER
                || (self.places.confirmed > told && at.elapsed() >= CONFIRM_EVERY)
        });
        if at_once || is_due {
            point("source.durable");
            self.tell(false)?;
            point("source.confirmed");
        }
        Ok(())
    }

    fn tell(&mut self, wants_answer: bool) -> Result<(), Fault> {
        let (received, confirmed) = (self.places.received, self.places.confirmed);
        let mut body = Vec::with_capacity(STATUS_BYTES);
        body.put_u8(b'r');
        body.put_u64(received.max(confirmed).0);
        body.put_u64(confirmed.0);
        body.put_u64(confirmed.0);
        body.put_i64(server_now());
        body.put_u8(u8::from(wants_answer));
        let sent = self
            .wire
            .send(|out| frontend::CopyData::new(body.as_slice()).map(|data| data.write(out)));
        sent.map_err(|error| self.place.wire("confirm", error))?;
        self.places.told = Some((confirmed, Instant::now()));
        Ok(())
    }

    /// Asks a server that says nothing, and gives it up.
    fn listen(&mut self) -> Result<(), Fault> {
        let silent = self.wire.heard().elapsed();
        if silent > SILENCE_MAX {
            let text = format!("the server has said nothing for {} s", silent.as_secs());
            return Err(self.place.wire("read the stream", WireError::Lost(text)));
        }
        let asked_lately = |at: Instant| at.elapsed() < ASK_AFTER / 2;
        if silent > ASK_AFTER && !self.places.told.is_some_and(|(_, at)| asked_lately(at)) {
            self.tell(true)?;
        }
        Ok(())
    }
}

/// Where an event stands.
fn position(event: &SourceEvent) -> Option<&SourcePosition> {
    match event {
        SourceEvent::Upsert { position, .. }
        | SourceEvent::Delete { position, .. }
        | SourceEvent::Truncate { position, .. }
        | SourceEvent::SnapshotBegin { position, .. }
        | SourceEvent::SnapshotEnd { position, .. }
        | SourceEvent::Heartbeat { position, .. } => Some(position),
        SourceEvent::SnapshotRow { .. } => None,
    }
}

/// Bytes of a status message.
const STATUS_BYTES: usize = 34;
/// From 1970-01-01 to 2000-01-01.
const SERVER_EPOCH: Duration = Duration::from_secs(946_684_800);

fn server_now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH + SERVER_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_micros()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::postgres::lsn::Life;

    #[test]
    fn copy_data_is_read() {
        let mut alive = vec![b'k'];
        alive.extend(7u64.to_be_bytes());
        alive.extend(8i64.to_be_bytes());
        alive.push(1);
        let end = Lsn(7);
        let wants_answer = true;
        assert_eq!(read(&alive), Ok(Sent::Alive { end, wants_answer }));
        for len in 0..alive.len() {
            assert!(read(&alive[..len]).is_err(), "{len}");
        }
        alive.push(0);
        assert_eq!(read(&alive).map_err(|error| error.at), Err(18));
        let mut data = vec![b'w'];
        data.extend([0; 24]);
        assert_eq!(read(&data), Ok(Sent::Data(b"")));
        data.extend(b"abc");
        assert_eq!(read(&data), Ok(Sent::Data(b"abc")));
        assert_eq!(read(b"x").map_err(|error| error.at), Err(0));
    }

    #[test]
    fn only_what_is_durable_is_confirmed() {
        let at = |lsn, index| At {
            life: Life(0),
            lsn: Lsn(lsn),
            index,
        };
        let mut places = Places::default();
        places.note_end(at(10, 2), Lsn(11));
        places.note_end(at(20, 4), Lsn(21));
        places.note_end(at(30, 0), Lsn(30));
        for (durable, want) in [
            (None, 0),
            (Some(at(10, 1)), 0),
            (Some(at(10, 2)), 11),
            (Some(at(20, 3)), 11),
            (Some(at(20, 4)), 21),
            (Some(at(30, 0)), 30),
        ] {
            places.note_durable(durable);
            assert_eq!(places.confirmed, Lsn(want), "{durable:?}");
        }
        assert!(places.ends.is_empty());
    }
}
