//! One device port's session on the gateway: Hello, clock probes, then readings in
//! ordinal order, acked when they are durable.
//!
//! Holds always: a reading is passed on once per (uid, boot, ordinal), in order,
//! and only when its channel is described and its clock has a fit; an ack never
//! says more than the ledger's durable mark. Bound: one device, its channels and
//! the frames of one `handle` call. Knows no port, no disk and no partition.

mod closing;
mod passing;

use forebay_wire::codec::{DeviceMessage, GatewayMessage};
use forebay_wire::data::Data;
use forebay_wire::deframer::{Counters as FrameCounters, Deframer};
use forebay_wire::ids::Ordinal;
use forebay_wire::message::{Ack, ChannelInfo, Gap, Health, Hello, SyncReply};

use self::passing::{pass_on, readings, reject};
use super::clock::DeviceClock;
use super::clocks::Clocks;
use super::device::{Device, Hole, PROBE_FAST_US, ack_line, line};
use super::heard::Heard;
use crate::ledger::{Ledger, Run, Source};
use crate::record::{GapReason, GapRecord, ReadingRecord, Series};
use crate::units::{Baud, Mono, Now};

/// Shortest time between two acks that say the same, us: each makes the device
/// send its window again.
const REPEAT_ACK_US: u64 = 20_000;

/// Shortest time between two answers to a device that nobody here knows, us.
const TELL_UNKNOWN_US: u64 = 100_000;
/// After this long without a line, a delimiter goes before the next one, us. Longer
/// than the pause between fast probes: a delimiter alone asks a device for its Hello.
const IDLE_DELIMITER_US: u64 = 75_000;
const _: () = assert!(IDLE_DELIMITER_US > PROBE_FAST_US);

/// What happens to new readings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// They are stored.
    Take,
    /// They are counted and not stored: a gap says so in their place.
    Reject,
    /// They wait on the device, which sends them again.
    Wait,
}

/// Where accepted records go.
pub trait LinkSink {
    /// One reading, in order of ordinals; `record.series` is not set.
    fn reading(&mut self, series: &Series, record: &ReadingRecord);
    /// Ordinals that will never come.
    fn gap(&mut self, gap: &GapRecord);
    /// Readings that arrived and are not stored.
    fn reject(&mut self, gap: &GapRecord);
    /// What happens to records now; gaps are taken unless they have to wait.
    fn room(&self) -> Room;
    /// Whether the times that readings have are those of a clock that is trusted.
    fn knows_time(&self) -> bool;
    /// The clocks of devices that are on no port.
    fn clocks(&mut self) -> &mut Clocks;
}

/// What the session saw on its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SessionCounters {
    pub frames: FrameCounters,
    /// Data or gaps that arrived before what precedes them.
    pub frames_ahead: u64,
    /// Frames of a device that said no Hello, Data before the session was open, of
    /// another boot, of a channel that was not described, or while the log had no room:
    /// the device repeats it.
    pub frames_refused: u64,
    /// Devices that were turned away because the table is full.
    pub devices_refused: u64,
}

/// A device port's session.
#[derive(Debug)]
pub struct Session {
    deframer: Deframer,
    peer: Peer,
    /// When lines were last taken for the port.
    wrote_at: Mono,
}

#[derive(Debug, Default)]
struct Peer {
    device: Option<Device>,
    baud: Option<Baud>,
    /// When a device that said no Hello was last told so.
    told_unknown: Option<Mono>,
    /// Its device is heard on another port: it is told nothing until it says Hello here.
    dismissed: bool,
    log_level: u8,
    out: Vec<Vec<u8>>,
    heard: Vec<(Source, Heard)>,
    counters: SessionCounters,
}

impl Session {
    /// A session on a port that has just opened and whose bytes go at `baud`, with a
    /// device that is to say so much in its log. The lone delimiter ends whatever stood
    /// half-sent on the line.
    #[must_use]
    pub fn start(log_level: u8, baud: Option<Baud>, now: Mono) -> Self {
        let mut session = Self {
            deframer: Deframer::new(),
            peer: Peer {
                baud,
                log_level,
                ..Peer::default()
            },
            wrote_at: now,
        };
        session.peer.out.push(vec![0]);
        session
    }

    /// Takes bytes from the port.
    pub fn on_bytes(
        &mut self,
        bytes: &[u8],
        now: Now,
        ledger: &mut Ledger,
        sink: &mut dyn LinkSink,
    ) {
        let Self { deframer, peer, .. } = self;
        deframer.receive_device(bytes, |message| {
            // The deframer counts what it rejected.
            if let Ok(message) = message {
                peer.on_message(message, now, ledger, sink);
            }
        });
    }

    /// Sends the ack that the ledger's durable mark allows.
    pub fn on_durable(&mut self, now: Mono, ledger: &Ledger) {
        if let Some(device) = self.peer.device.as_mut().filter(|device| device.open) {
            let durable = durable_of(ledger, device.source);
            if durable > device.acked {
                self.peer.out.push(device.ack(durable, now));
                let taken = ledger.get(device.source).map_or(0, |account| account.taken);
                if device.hole == Hole::Seen && durable.0 == taken {
                    device.hole = Hole::Told;
                    self.peer.out.push(device.ack(durable, now));
                }
            }
            let is_durable =
                |(source, end): &mut (Source, Ordinal)| durable_of(ledger, *source) >= *end;
            for (source, end) in device.closing.extract_if(.., is_durable) {
                self.peer.out.push(ack_line(source, end));
            }
        }
    }

    /// Does what is due at `now`.
    pub fn on_deadline(&mut self, now: Now, ledger: &mut Ledger, sink: &mut dyn LinkSink) {
        let Some(device) = &mut self.peer.device else {
            return;
        };
        let closes = device.close_at.is_some_and(|at| at <= now.mono);
        if device.next_probe <= now.mono {
            self.peer.out.push(device.probe(now.mono));
            self.peer.open_when_ready(now.mono, ledger);
        }
        if closes {
            self.peer.close_earlier(now, ledger, sink);
        }
    }

    /// When [`Session::on_deadline`] wants to be called.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Mono> {
        let device = self.peer.device.as_ref()?;
        let close_at = device.close_at.into_iter();
        close_at.chain([device.next_probe]).min()
    }

    /// Writes a line to the device.
    pub fn say(&mut self, line: Vec<u8>) {
        self.peer.out.push(line);
    }

    /// The device is heard on another port: nothing more is said here until one says
    /// Hello. Gives its clock.
    pub fn dismiss(&mut self) -> Option<(Source, DeviceClock)> {
        self.peer.dismissed = true;
        self.peer.out.clear();
        let device = self.peer.device.take();
        device.map(|device| (device.source, device.clock))
    }

    /// What was heard that is no reading, in order.
    pub fn take_heard(&mut self) -> Vec<(Source, Heard)> {
        std::mem::take(&mut self.peer.heard)
    }

    /// Lines to write to the port, in order. After silence a delimiter goes first: it
    /// ends what noise has left on the line, which would spoil the frame.
    pub fn take_output(&mut self, now: Mono) -> impl Iterator<Item = Vec<u8>> + '_ {
        let silent = now.0.saturating_sub(self.wrote_at.0) >= IDLE_DELIMITER_US;
        let speaks = !self.peer.out.is_empty();
        if speaks {
            self.wrote_at = now;
        }
        let delimiter = (speaks && silent).then(|| vec![0]);
        delimiter.into_iter().chain(self.peer.out.drain(..))
    }

    /// The device on this port, once it said Hello.
    #[must_use]
    pub fn source(&self) -> Option<Source> {
        self.peer.device.as_ref().map(|device| device.source)
    }

    /// Its Hello and its channels.
    #[must_use]
    pub fn device(&self) -> Option<(&Hello, impl Iterator<Item = &Series>)> {
        let device = self.peer.device.as_ref()?;
        Some((&device.hello, device.channels.iter().flatten()))
    }

    /// Its clock.
    #[must_use]
    pub fn clock(&self) -> Option<&DeviceClock> {
        self.peer.device.as_ref().map(|device| &device.clock)
    }

    #[must_use]
    pub fn counters(&self) -> SessionCounters {
        SessionCounters {
            frames: *self.deframer.counters(),
            ..self.peer.counters
        }
    }
}

fn durable_of(ledger: &Ledger, source: Source) -> Ordinal {
    Ordinal(ledger.get(source).map_or(0, |account| account.durable))
}

impl Peer {
    fn on_message(
        &mut self,
        message: DeviceMessage<'_>,
        now: Now,
        ledger: &mut Ledger,
        sink: &mut dyn LinkSink,
    ) {
        match message {
            DeviceMessage::Hello(hello) => {
                self.on_hello(hello, now.mono, ledger, sink.clocks());
            }
            DeviceMessage::Channel(info) => self.on_channel(info),
            DeviceMessage::Data(data) => self.on_data(&data, now, ledger, sink),
            DeviceMessage::Gap(gap) => self.on_gap(&gap, now, ledger, sink),
            DeviceMessage::SyncReply(reply) => self.on_sync_reply(reply, now.mono, ledger),
            DeviceMessage::Health(health) => self.on_health(health, now.mono, ledger),
            DeviceMessage::CmdResult(result) => self.hand_on(|| Heard::Result(result)),
            DeviceMessage::Log(log) => self.hand_on(|| Heard::Log(log.0.to_vec())),
        }
    }

    fn on_hello(&mut self, hello: Hello, now: Mono, ledger: &mut Ledger, clocks: &mut Clocks) {
        let source = Source {
            uid: hello.uid,
            boot: hello.boot,
        };
        if ledger.hello(source, hello.reset_cause).is_err() {
            self.counters.devices_refused += 1;
            return;
        }
        match self.device.as_mut().filter(|known| known.source == source) {
            // The device did not hear the answer.
            Some(device) if device.open => {
                let durable = durable_of(ledger, source);
                let line = device.hello_ack(durable, self.log_level, now);
                self.out.push(line);
            }
            Some(_) => {}
            None => {
                // What was to be said to the boot or the device before is not for this one.
                self.out.clear();
                self.dismissed = false;
                self.heard.push((source, Heard::Hello(hello.clone())));
                if let Some(before) = self.device.take() {
                    clocks.keep(before.source, before.clock);
                }
                let clock = match clocks.take(source) {
                    Some(mut clock) => {
                        clock.on_line(self.baud);
                        clock
                    }
                    None => DeviceClock::new(self.baud),
                };
                let mut device = Device::new(hello, clock, now);
                self.out.push(device.probe(now));
                self.device = Some(device);
            }
        }
    }

    fn on_channel(&mut self, info: ChannelInfo) {
        if let Some(device) = &mut self.device {
            device.describe(&info);
        }
        self.hand_on(|| Heard::Channel(info));
    }

    /// Hands on what a device said that has said Hello.
    fn hand_on(&mut self, heard: impl FnOnce() -> Heard) {
        match &self.device {
            Some(device) => self.heard.push((device.source, heard())),
            None => self.counters.frames_refused += 1,
        }
    }

    fn on_health(&mut self, health: Health, now: Mono, ledger: &mut Ledger) {
        // A device with nothing to send would else never hear that nobody knows it.
        self.tell_unknown(health.boot.0 as u8, now);
        let source = self.device.as_ref().map(|device| device.source);
        let Some(source) = source.filter(|source| source.boot == health.boot) else {
            self.counters.frames_refused += 1;
            return;
        };
        if let Ok(account) = ledger.open(source) {
            account.said = account.said.max(health.produced);
        }
        self.heard.push((source, Heard::Health(health)));
    }

    fn on_sync_reply(&mut self, reply: SyncReply, now: Mono, ledger: &Ledger) {
        if let Some(device) = self.device.as_mut() {
            let SyncReply { id, received, sent } = reply;
            device.clock.reply(id, received, sent, now);
            self.open_when_ready(now, ledger);
        }
    }

    fn open_when_ready(&mut self, now: Mono, ledger: &Ledger) {
        let device = self.device.as_mut();
        if let Some(device) = device.filter(|d| !d.open && d.clock_is_ready()) {
            let durable = durable_of(ledger, device.source);
            let line = device.hello_ack(durable, self.log_level, now);
            self.out.push(line);
            self.heard.push((device.source, Heard::Open));
        }
    }

    /// The open device when `boot_low` is its boot.
    fn open_device(&mut self, boot_low: u8) -> Option<&mut Device> {
        let device = self.device.as_mut()?;
        (device.open && device.source.boot.0 as u8 == boot_low).then_some(device)
    }

    /// What to do with `count` ordinals from `first`: `Some(skip)` takes them.
    fn judge(
        &mut self,
        first: Ordinal,
        count: u64,
        boot_low: u8,
        (now, ledger): (Mono, &mut Ledger),
    ) -> Option<u64> {
        let Some(device) = self.open_device(boot_low) else {
            self.counters.frames_refused += 1;
            return None;
        };
        let account = ledger.open(device.source).ok()?;
        let run = account.judge(first, count);
        match run {
            Run::Fresh { skip } => {
                device.hole = Hole::None;
                account.counts.duplicates += skip;
                return Some(skip);
            }
            Run::Known => account.counts.duplicates += count,
            Run::Ahead { .. } if device.hole == Hole::None => device.hole = Hole::Seen,
            Run::Ahead { .. } => {}
        }
        let durable = Ordinal(account.durable);
        let since = now.0.saturating_sub(device.acked_at.0);
        let repeats = durable == device.acked;
        // The first that comes ahead is told at once, or as soon as the disk is so far:
        // each moment costs a fast line a window.
        let asks = repeats && account.durable == account.taken;
        let is_news = asks && device.hole == Hole::Seen;
        if !repeats || is_news || since >= REPEAT_ACK_US {
            if is_news {
                device.hole = Hole::Told;
            }
            let ack = device.ack(durable, now);
            self.out.push(ack);
        }
        self.counters.frames_ahead += u64::from(run != Run::Known);
        None
    }

    /// Tells a device that sends readings or its Health without having said Hello that nobody here
    /// knows it, as after a restart of this process.
    fn tell_unknown(&mut self, boot_low: u8, now: Mono) {
        let told = self.told_unknown;
        let due = told.is_none_or(|at| now.0.saturating_sub(at.0) >= TELL_UNKNOWN_US);
        if self.device.is_none() && !self.dismissed && due {
            self.told_unknown = Some(now);
            self.out
                .push(line(&GatewayMessage::Ack(Ack::to_unknown(boot_low))));
        }
    }

    fn on_data(&mut self, data: &Data<'_>, now: Now, ledger: &mut Ledger, sink: &mut dyn LinkSink) {
        self.tell_unknown(data.boot_low, now.mono);
        let count = data.count() as u64;
        let Some(skip) = self.judge(data.first, count, data.boot_low, (now.mono, ledger)) else {
            return;
        };
        let Some(device) = self.device.as_mut() else {
            return;
        };
        let described = readings(data).all(|r| device.series(r.channel).is_some());
        let room = sink.room();
        if !described || room == Room::Wait {
            self.counters.frames_refused += 1;
            return;
        }
        let Ok(account) = ledger.open(device.source) else {
            return;
        };
        if room == Room::Reject {
            reject(device, data, skip, now, sink);
            account.take_gap(GapReason::LogFull, count - skip);
            return;
        }
        let knows_time = sink.knows_time();
        for (index, reading) in readings(data).enumerate().skip(skip as usize) {
            let ordinal = Ordinal(data.first.0 + index as u64);
            let time = pass_on(device, ordinal, &reading, now, sink);
            if let Some(time) = time.filter(|_| knows_time) {
                account.note_time(time);
            }
        }
        account.take_readings(count - skip);
    }

    fn on_gap(&mut self, gap: &Gap, now: Now, ledger: &mut Ledger, sink: &mut dyn LinkSink) {
        let device = self.device.as_ref().filter(|device| device.open);
        if device.is_some_and(|device| device.source.boot != gap.boot) {
            return self.on_last_gap(gap, now, ledger, sink);
        }
        let boot_low = gap.boot.0 as u8;
        self.tell_unknown(boot_low, now.mono);
        let Some(skip) = self.judge(gap.first, gap.count, boot_low, (now.mono, ledger)) else {
            return;
        };
        let Some(device) = self.device.as_mut().filter(|d| d.source.boot == gap.boot) else {
            self.counters.frames_refused += 1;
            return;
        };
        if sink.room() == Room::Wait {
            self.counters.frames_refused += 1;
            return;
        }
        let Some((time, _)) = device.clock.map(gap.last_tick, now) else {
            return;
        };
        let count = gap.count - skip;
        sink.gap(&GapRecord {
            uid: device.source.uid,
            boot: device.source.boot,
            first: Ordinal(gap.first.0 + skip),
            count,
            reason: gap.reason.into(),
            time,
        });
        if let Ok(account) = ledger.open(device.source) {
            account.take_gap(gap.reason.into(), count);
        }
    }
}

#[cfg(test)]
mod tests;
