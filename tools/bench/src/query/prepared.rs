//! Logs that hold a day: written block by block through the store, as an agent writes
//! them, and read to their end by an agent before anything is asked.

use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use forebay_core::log::builder::ReadingsBuilder;
use forebay_core::log::key::StoredBlock;
use forebay_core::record::{ReadingRecord, Series, ValueKind};
use forebay_core::store::{Store as _, StoreError, WriteBatch};
use forebay_core::units::{EventTime, Offset};
use forebay_node::store::{LogStore, StoreSettings};
use forebay_wire::ids::{BootId, ChannelNo, DeviceUid, Ordinal, Tick};
use forebay_wire::message::Quality;

use crate::data::Dice;
use crate::limits::BATCH_BLOCKS;
use crate::store::{AT, key, open_store};

const MINUTE: i64 = 60_000_000;
/// Batches between two syncs.
const BATCHES_PER_SYNC: usize = 8;
/// First uid; the others count up.
const UID_FIRST: u64 = 0xda70_0000_0000_0000;

/// What a log holds: so many devices with so many channels each, one reading of each
/// channel in `every` us, over so long, up to now.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) devices: usize,
    pub(super) channels: usize,
    pub(super) every: i64,
    pub(super) length: i64,
}

/// What was written: `[from, to)`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Prepared {
    pub(super) shape: Shape,
    pub(super) from: EventTime,
    pub(super) to: EventTime,
}

/// The uid of a device as it is asked for.
pub(super) fn uid(device: usize) -> String {
    format!("{:016x}", UID_FIRST + device as u64)
}

/// The name of a channel.
pub(super) fn channel(number: usize) -> String {
    format!("temp{number}")
}

impl Prepared {
    pub(super) fn readings(&self) -> u64 {
        let Shape {
            devices,
            channels,
            every,
            length,
        } = self.shape;
        (devices * channels) as u64 * (length / every) as u64
    }

    /// The value of a channel at its n-th reading, hundredths: a slow turn with noise on it.
    pub(super) fn value(&self, device: usize, channel: usize, n: i64) -> i64 {
        let series = (device * self.shape.channels + channel) as u64;
        let turn = (n * self.shape.every) as f64 / 3_600e6 + series as f64 * 0.37;
        let noise = Dice(series << 32 ^ n as u64).next() % 41;
        (2_150.0 + 400.0 * turn.sin()).round() as i64 + noise as i64
    }
}

/// Writes the log into `<dir>/data`.
pub(super) fn write(dir: &Path, shape: Shape) -> Result<Prepared, String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_err(|error| error.to_string())?.as_micros() as i64;
    let to = now - now % MINUTE;
    let prepared = Prepared {
        shape,
        from: EventTime(to - shape.length),
        to: EventTime(to),
    };
    let mut log = Writer::open(&dir.join("data"))?;
    let series: Vec<Series> = (0..shape.devices * shape.channels)
        .map(|number| series(number / shape.channels, number % shape.channels))
        .collect();
    for n in 0..shape.length / shape.every {
        let since = n * shape.every;
        for (number, series) in series.iter().enumerate() {
            let (device, channel) = (number / shape.channels, number % shape.channels);
            let ordinal = n as u64 * shape.channels as u64 + channel as u64;
            let record = ReadingRecord {
                series: 0,
                ordinal: Ordinal(ordinal),
                tick: Tick(since as u64),
                time: EventTime(prepared.from.0 + since),
                uncertainty_us: 100,
                value: prepared.value(device, channel, n),
                quality: Quality::Ok,
            };
            log.push(series, &record)?;
        }
    }
    log.finish()?;
    Ok(prepared)
}

fn series(device: usize, number: usize) -> Series {
    Series {
        uid: DeviceUid((UID_FIRST + device as u64).to_be_bytes()),
        boot: BootId(1),
        channel: ChannelNo(number as u8),
        kind: ValueKind::Scaled { scale: 2 },
        name: Arc::from(channel(number)),
        unit: Arc::from("degC"),
    }
}

/// Packs readings into blocks and writes these.
struct Writer {
    store: LogStore,
    epoch: forebay_core::units::Epoch,
    builder: ReadingsBuilder,
    next: Offset,
    blocks: Vec<StoredBlock>,
    batches: usize,
}

impl Writer {
    fn open(dir: &Path) -> Result<Self, String> {
        let (store, opened) = open_store(dir, StoreSettings::default())?;
        Ok(Self {
            store,
            epoch: opened.info.epoch,
            builder: ReadingsBuilder::new(),
            next: Offset(0),
            blocks: Vec::new(),
            batches: 0,
        })
    }

    fn push(&mut self, series: &Series, record: &ReadingRecord) -> Result<(), String> {
        if self.builder.push_reading(series, record).is_ok() {
            return Ok(());
        }
        self.seal()?;
        let pushed = self.builder.push_reading(series, record);
        pushed.map_err(|_| String::from("an empty block has no room for a reading"))
    }

    fn seal(&mut self) -> Result<(), String> {
        let key = key(self.next);
        self.next = Offset(self.next.0 + self.builder.len() as u64);
        let bytes = self.builder.seal(AT, key.base, self.epoch);
        self.blocks.push(StoredBlock { key, bytes });
        if self.blocks.len() >= BATCH_BLOCKS {
            self.append()?;
        }
        Ok(())
    }

    fn append(&mut self) -> Result<(), String> {
        let fail = |error: StoreError| error.to_string();
        let batch = WriteBatch {
            blocks: std::mem::take(&mut self.blocks),
            meta: Vec::new(),
        };
        self.store.append(&batch).map_err(fail)?;
        self.batches += 1;
        if self.batches.is_multiple_of(BATCHES_PER_SYNC) {
            self.store.sync().map_err(fail)?;
            while self.store.poll_event().is_some() {}
        }
        Ok(())
    }

    fn finish(mut self) -> Result<(), String> {
        if !self.builder.is_empty() {
            self.seal()?;
        }
        self.append()?;
        self.store.sync().map_err(|error| error.to_string())
    }
}
