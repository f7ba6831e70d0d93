//! A gateway driven by hand: real core, devices over clean lines, imports, a clock that
//! says what the test wants, a store that does at once what it is asked. No chance but
//! what the devices measure.

use std::collections::BTreeMap;

use forebay_core::clock::ClockRules;
use forebay_core::effect::{Effect, GatewayConfig, Input, Opened, QueryId};
use forebay_core::engine::config::EngineConfig;
use forebay_core::exchange::{CROSSING_PARTITION, EXCHANGE_AT};
use forebay_core::import::{ImportAnswer, ImportId, ImportRecord, ImportRequest};
use forebay_core::ingest::Router;
use forebay_core::layout::Layouts;
use forebay_core::log::block::{Body, Record};
use forebay_core::log::decode::decode;
use forebay_core::log::key::TopicPartition;
use forebay_core::log::topic::{DERIVED_FIRST, READINGS};
use forebay_core::payload::GatewayName;
use forebay_core::pipeline::Gateway;
use forebay_core::query::{Answer, Query};
use forebay_core::recompute::Recompute;
use forebay_core::store::Store as _;
use forebay_core::store::memory::MemoryStore;
use forebay_core::units::{
    Epoch, EventTime, LogId, Mono, Now, Offset, PartitionId, PortId, Span, TopicId,
};

use super::device::WorldDevice;
use super::dice::Dice;
use super::line::CLEAN;

/// See the module.
#[derive(Debug)]
pub struct Hand {
    /// Time since the start of the world, us.
    pub now: u64,
    /// What the gateway's clock says, less that.
    utc_less_now: i64,
    config: GatewayConfig,
    core: Gateway,
    store: MemoryStore,
    devices: Vec<(WorldDevice, bool)>,
    dice: Dice,
    answers: Vec<(ImportId, ImportAnswer)>,
    said: Option<Answer>,
    /// What the operator was told.
    pub notes: Vec<String>,
}

fn opened(store: &MemoryStore) -> Opened {
    Opened {
        store: store.opened(),
        meta: store.meta_with_prefix(b"").expect("the twin reads"),
    }
}

impl Hand {
    /// A gateway whose clock says `utc` at the start.
    #[must_use]
    pub fn new(partitions: u16, engine: EngineConfig, clock: ClockRules, utc: i64) -> Self {
        let config = GatewayConfig {
            engine,
            clock,
            ..GatewayConfig::new(
                GatewayName::new("hand").expect("a name"),
                partitions,
                Span(20_000),
            )
        };
        let store = MemoryStore::create(LogId([7; 16]), 1);
        let now = Now {
            mono: Mono(0),
            utc: EventTime(utc),
        };
        let core = Gateway::new(config.clone(), &opened(&store), now).expect("it grows");
        let mut hand = Self {
            now: 0,
            utc_less_now: utc,
            config,
            core,
            store,
            devices: Vec::new(),
            dice: Dice::new(1),
            answers: Vec::new(),
            said: None,
            notes: Vec::new(),
        };
        hand.act();
        hand
    }

    fn at(&self) -> Now {
        Now {
            mono: Mono(self.now),
            utc: EventTime(self.utc_less_now + self.now as i64),
        }
    }

    /// Sets the gateway's clock.
    pub fn set_clock(&mut self, utc: i64) {
        self.utc_less_now = utc - self.now as i64;
    }

    /// What the gateway's clock says.
    #[must_use]
    pub fn utc(&self) -> i64 {
        self.at().utc.0
    }

    fn handle(&mut self, input: Input<'_>) {
        let at = self.at();
        self.core.handle(input, at);
        self.act();
    }

    /// What the gateway answers an operator.
    ///
    /// # Panics
    /// When it does not answer at once.
    pub fn ask(&mut self, query: Query) -> Answer {
        self.handle(Input::Query(QueryId(1), query));
        self.said.take().expect("the twin reads at once")
    }

    /// The operating system says that its clock is synchronised.
    pub fn synchronised(&mut self) {
        self.handle(Input::ClockSynchronised);
    }

    /// Plugs a new device in.
    pub fn add_device(&mut self, uid: u64) {
        let device = WorldDevice::new(uid, self.now, &mut self.dice);
        self.devices.push((device, false));
        self.plug(self.devices.len() - 1);
    }

    /// Plugs a device in again.
    pub fn plug(&mut self, device: usize) {
        self.devices[device].1 = true;
        let port = PortId(device as u32);
        self.handle(Input::PortOpened { port, baud: None });
    }

    /// Unplugs a device, which goes on measuring.
    pub fn unplug(&mut self, device: usize) {
        let (of, plugged) = &mut self.devices[device];
        *plugged = false;
        of.up.clear();
        of.down.clear();
        self.handle(Input::PortClosed(PortId(device as u32)));
    }

    /// No device measures any more.
    pub fn stop_sampling(&mut self) {
        let devices = self.devices.iter_mut();
        devices.for_each(|(device, _)| device.stop_sampling());
    }

    /// Lets time go on until then.
    pub fn run_until(&mut self, end: u64) {
        while self.now < end {
            let devices = self.devices.iter();
            let next = devices.flat_map(|(device, _)| {
                let up = device.up.next();
                device.next(self.now).into_iter().chain(up)
            });
            let core = self.core.next_deadline().map(|mono| mono.0);
            let next = next.chain(core).min().unwrap_or(end);
            self.now = next.clamp(self.now + 1, end);
            self.step();
        }
    }

    fn step(&mut self) {
        for index in 0..self.devices.len() {
            let (device, plugged) = &mut self.devices[index];
            device.step(self.now, CLEAN, &mut self.dice);
            if !*plugged {
                device.up.clear();
                device.down.clear();
            }
            while let Some(bytes) = self.devices[index].0.up.receive(self.now) {
                self.handle(Input::PortBytes(PortId(index as u32), &bytes));
            }
        }
        if self
            .core
            .next_deadline()
            .is_some_and(|mono| mono.0 <= self.now)
        {
            self.handle(Input::Deadline);
        }
    }

    /// Takes readings: device, time and value of each.
    ///
    /// # Panics
    /// When one is refused.
    pub fn import(&mut self, readings: &[(&str, i64, f64)]) {
        let records = readings.iter().map(|(device, time, value)| {
            let time = EventTime(*time);
            let quality = forebay_wire::message::Quality::Ok;
            ImportRecord::new(device, "x", "", time, Some(*value), quality)
        });
        let records: Result<Vec<_>, _> = records.collect();
        let request = ImportRequest::Batch {
            session: None,
            records: records.expect("a reading"),
        };
        self.handle(Input::Import(ImportId(self.now), request));
        self.run_until(self.now + 50_000);
        let (_, answer) = self.answers.pop().expect("an answer in time");
        let imported = answer.expect("it is taken");
        assert_eq!(imported.refused, [], "all are taken");
        let end = Input::Import(ImportId(self.now), ImportRequest::End(imported.session));
        self.handle(end);
        self.answers.clear();
    }

    /// Ends the gateway as a power cut does, and starts it again; its clock says `utc`.
    pub fn power_cut(&mut self, utc: i64) {
        let nonce = self.now;
        self.store.crash(0, nonce);
        self.set_clock(utc);
        self.core =
            Gateway::new(self.config.clone(), &opened(&self.store), self.at()).expect("it grows");
        self.act();
        for index in 0..self.devices.len() {
            if self.devices[index].1 {
                self.plug(index);
            }
        }
    }

    fn act(&mut self) {
        while let Some(effect) = self.core.poll_effect() {
            let at = self.at();
            match effect {
                Effect::PortWrite(port, bytes) => {
                    if let Some((device, true)) = self.devices.get_mut(port.0 as usize) {
                        device.down.send(self.now, bytes, CLEAN, &mut self.dice);
                    }
                }
                Effect::Commit(token, batch) => {
                    self.store.append(&batch).expect("there is room");
                    self.store.sync().expect("the twin syncs");
                    self.core.handle(Input::Committed(token), at);
                }
                Effect::Fetch {
                    token,
                    at: place,
                    from,
                    bytes_max,
                } => {
                    let blocks = self.store.read(place, from, bytes_max);
                    let blocks = blocks.expect("the twin reads");
                    self.core.handle(Input::Fetched(token, blocks), at);
                }
                Effect::Remove(segments) => {
                    self.store.remove(&segments).expect("the twin removes");
                }
                Effect::Imported(id, answer) => self.answers.push((id, answer)),
                Effect::SourceStart { .. } | Effect::ChangesDurable { .. } => {}
                Effect::Note(note) => self.notes.push(note.0),
                Effect::Answer(_, answer) => self.said = Some(answer),
                Effect::Publish { .. }
                | Effect::BrokerReset(..)
                | Effect::DeviceLog { .. }
                | Effect::Planned(..) => {
                    panic!("nobody asked")
                }
                Effect::Stop(error) => panic!("the twin failed: {error}"),
            }
        }
    }

    fn bodies(&self, topic: TopicId) -> Vec<Body> {
        let mut bodies = Vec::new();
        for partition in (0..=CROSSING_PARTITION.0).map(PartitionId) {
            let at = TopicPartition { topic, partition };
            let (mut from, head) = (Offset(0), self.store.head(at));
            while from < head {
                let blocks = self.store.read(at, from, usize::MAX);
                for stored in blocks.expect("the twin reads") {
                    let block = decode(stored.key, &stored.bytes).expect("a block of ours");
                    from = block.end();
                    bodies.push(block.body);
                }
            }
        }
        bodies
    }

    /// Ends the gateway and starts it with so many partitions.
    pub fn grow(&mut self, partitions: u16) {
        self.config.router = Router::new(partitions);
        self.power_cut(self.utc());
    }

    /// Ends the gateway and starts it with other windows.
    pub fn set_engine(&mut self, engine: EngineConfig) {
        self.config.engine = engine;
        self.power_cut(self.utc());
    }

    /// The lines of windows computed anew from the log, by topic.
    ///
    /// # Panics
    /// When the log does not say how it was written.
    #[must_use]
    pub fn recomputed(&self) -> BTreeMap<TopicId, Vec<String>> {
        let opened = opened(&self.store);
        let heads = &opened.store.heads;
        let count = self.config.router.count();
        let restored = Layouts::restore(&opened.meta, count, heads).expect("it never shrinks");
        let readings = heads.iter().filter(|(at, _)| at.topic == READINGS);
        let ends = readings.map(|(at, head)| (at.partition, *head)).collect();
        let windows = 0..self.config.engine.windows.len() as u16;
        let topics = windows
            .map(|n| Some(TopicId(DERIVED_FIRST.0 + n)))
            .collect();
        let (none, epoch) = (BTreeMap::new(), Epoch(1));
        let of = (&self.config.engine, topics);
        let recompute = Recompute::new(of, restored.layouts, &ends, &none, epoch);
        let mut recompute = recompute.with_exchange(self.store.head(EXCHANGE_AT));
        let mut lines: BTreeMap<TopicId, Vec<String>> = BTreeMap::new();
        while let Some((read, at, from)) = recompute.next_fetch() {
            let blocks = self.store.read(at, from, 65_536).expect("the twin reads");
            for stored in recompute.on_fetched(read, &blocks) {
                let block = decode(stored.key, &stored.bytes).expect("a block of ours");
                let Body::Rows(rows) = block.body else {
                    continue;
                };
                let text = |line| String::from_utf8(line).expect("JSON is text");
                let rows = rows.into_iter().map(|row| text(row.line));
                lines.entry(stored.key.at.topic).or_default().extend(rows);
            }
        }
        lines
    }

    /// Device, boot and ordinal of each reading of a topic.
    #[must_use]
    pub fn identities(&self, topic: TopicId) -> Vec<([u8; 8], u32, u64)> {
        let mut out = Vec::new();
        for body in self.bodies(topic) {
            let Body::Readings { series, records } = body else {
                continue;
            };
            for record in records {
                if let Record::Reading(reading) = record {
                    let of = &series[usize::from(reading.series)];
                    out.push((of.uid.0, of.boot.0, reading.ordinal.0));
                }
            }
        }
        out
    }

    /// The lines of a topic, partition by partition.
    ///
    /// # Panics
    /// When it has other records.
    #[must_use]
    pub fn lines(&self, topic: TopicId) -> Vec<String> {
        let bodies = self.bodies(topic).into_iter();
        let rows = bodies.flat_map(|body| match body {
            Body::Rows(rows) => rows,
            Body::Readings { .. } => panic!("readings among rows"),
        });
        let text = |line| String::from_utf8(line).expect("JSON is text");
        rows.map(|row| text(row.line)).collect()
    }

    /// The records of the readings, partition by partition.
    #[must_use]
    pub fn records(&self) -> Vec<Record> {
        let bodies = self.bodies(READINGS).into_iter();
        let records = bodies.flat_map(|body| match body {
            Body::Readings { records, .. } => records,
            Body::Rows(_) => panic!("rows among readings"),
        });
        records.collect()
    }

    /// Whether all that was taken is durable and derived.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.core.is_settled()
    }

    /// Records of each topic that stand there, by its number.
    #[must_use]
    pub fn heads(&self) -> BTreeMap<(u16, u16), u64> {
        let heads = self.store.opened().heads;
        let heads = heads.into_iter();
        heads
            .map(|(at, head)| ((at.topic.0, at.partition.0), head.0))
            .collect()
    }
}
