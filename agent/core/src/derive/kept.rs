//! What one engine keeps over a restart: its windows, the time index and the newest
//! readings, with the place in the log that all of it is of.
//!
//! Holds always: what is taken for one checkpoint is of one place, between two reads;
//! the rows of all readings before it were given to the log before it is written.

use forebay_wire::ids::{Ordinal, Tick};
use forebay_wire::message::Quality;

use crate::checkpoint::meter::Meter;
use crate::checkpoint::pace::Pace;
use crate::checkpoint::{Book, Loaded, Manifest, Part, PipelineHash, Unit};
use crate::commit::GroupCommit;
use crate::derive::{Derive, DeriveCounters, Known, Output, Place};
use crate::engine::Engine;
use crate::engine::config::EngineConfig;
use crate::limits::{META_VALUE_BYTES_MAX, PARKED_READINGS_MAX};
use crate::live::{LiveIndex, LiveTable};
use crate::log::bytes::{Malformed, Reader, put_varint, put_zigzag};
use crate::log::index::TimeIndex;
use crate::meta::Entry;
use crate::parked::{Parked, Waiting};
use crate::record::{ReadingRecord, UNSYNCED_US};
use crate::units::{Epoch, EventTime, Mono, Offset, TopicId};

/// A state that was kept, ready to go on.
#[derive(Debug)]
pub struct Restored {
    pub manifest: Manifest,
    engine: Engine,
    index: TimeIndex,
    live: LiveTable,
    parked: Parked<Known>,
    book: Book,
}

/// Readings that wait and are kept as one value.
const PARKED_PER_PAGE: usize = 128;
const _: () = assert!(5 + PARKED_PER_PAGE * (5 + 5 + 10 + 1 + 8) <= META_VALUE_BYTES_MAX);
/// Flag beside the quality: there is a value.
const HAS_VALUE: u8 = 0x80;

impl Restored {
    /// What the entries of a checkpoint say.
    ///
    /// # Errors
    /// What of it does not read.
    pub fn read(loaded: Loaded<'_>, config: &EngineConfig) -> Result<Self, String> {
        let owned = |part| {
            let pieces = loaded.part(part).iter();
            pieces.map(|(key, value)| (key.to_vec(), value.to_vec()))
        };
        let values = |part| loaded.part(part).iter().map(|(_, value)| *value);
        let engine = if loaded.part(Part::Engine).is_empty() {
            // Nothing had come for it yet.
            Engine::new(config)
        } else {
            let engine = Engine::restore(config, owned(Part::Engine));
            engine.map_err(|error| error.to_string())?
        };
        let index = TimeIndex::restore(values(Part::Index));
        let index = index.ok_or_else(|| String::from("its time index does not read"))?;
        let live = LiveTable::restore(values(Part::Channels), values(Part::Newest));
        let live = live.ok_or_else(|| String::from("its newest readings do not read"))?;
        let parked = read_parked(values(Part::Parked), &engine);
        let parked = parked.map_err(|_| String::from("its parked readings do not read"))?;
        Ok(Self {
            manifest: loaded.manifest,
            engine,
            index,
            live,
            parked,
            book: loaded.book,
        })
    }
}

/// The checkpoints of one engine.
#[derive(Debug)]
pub(super) struct Keeping {
    unit: Unit,
    hash: PipelineHash,
    pub(super) epoch: u64,
    book: Book,
    pub(super) pace: Pace,
    pub(super) meter: Meter,
    /// What is ready of the one that is being taken.
    begun: Option<Begun>,
}

/// Entries of a checkpoint that is taken in steps, and their bytes.
#[derive(Debug, Default)]
struct Begun {
    entries: Vec<Entry>,
    bytes: u64,
}

impl Keeping {
    pub(super) fn new(unit: Unit, hash: PipelineHash, now: Mono) -> Self {
        Self {
            unit,
            hash,
            epoch: 0,
            book: Book::default(),
            pace: Pace::new(now),
            meter: Meter::default(),
            begun: None,
        }
    }

    /// Puts a piece of state into the one that is being taken.
    fn put(&mut self, part: Part, key: &[u8], value: Option<Vec<u8>>) {
        let key = self.unit.state_key(part, key);
        match &value {
            Some(value) => self.book.set(&key, value),
            None => self.book.remove(&key),
        }
        let value = value.unwrap_or_default();
        let begun = self.begun.get_or_insert_default();
        begun.bytes += (key.len() + value.len()) as u64;
        begun.entries.push((key, value));
    }
}

/// How the checkpoints of one engine are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Kept {
    /// Number of the newest one; 0 when there is none.
    pub epoch: u64,
    pub at: Mono,
    /// Of state that it does not have yet.
    pub changed_bytes: u64,
    /// Readings that a crash would have to replay.
    pub readings: u64,
    pub figures: crate::checkpoint::meter::Figures,
}

impl Derive {
    /// Goes on from a state that was kept, before anything is fed.
    pub(crate) fn restore(&mut self, restored: Restored) {
        let Restored {
            manifest,
            engine,
            index,
            live,
            parked,
            book,
        } = restored;
        self.parked_taken = parked.len();
        self.parked_pages = parked.len().div_ceil(PARKED_PER_PAGE);
        self.parked = parked;
        (self.engine, self.index, self.live) = (engine, index, live);
        self.keeping.epoch = manifest.epoch;
        self.keeping.book = book;
        let [missing, homeless, oversize, beyond] = manifest.counts;
        self.counters = DeriveCounters {
            records_missing: missing,
            rows_homeless: homeless,
            rows_oversize: oversize,
            readings_beyond: beyond,
            ..self.counters
        };
        self.applied
            .restore(manifest.applied, manifest.changes_missing);
        self.restored_at = Some(manifest.place);
        for output in &mut self.outputs {
            output.is_compared = manifest.exact;
        }
    }

    /// Bytes of state that changed since the last checkpoint, about.
    #[must_use]
    pub fn changed_bytes(&self) -> u64 {
        if !self.keeping.pace.has_changed() {
            return 0;
        }
        self.engine.changed_bytes() as u64 + self.live.changed_bytes()
    }

    /// Whether to write a checkpoint with the batch that is cut now.
    #[must_use]
    pub fn is_checkpoint_due(&self, behind: u64, now: Mono) -> bool {
        let bytes = self.changed_bytes();
        self.keeping.pace.is_due(bytes, behind, now)
    }

    /// Whether no topic was written by an earlier run, or in part, beyond the rows of readings
    /// before this place, as far as that can be told.
    #[must_use]
    pub fn is_written_up_to(&self, place: Place) -> bool {
        if self.is_inside_changes() {
            return false;
        }
        let outputs = self.outputs.iter();
        let ours = outputs.filter(|output| output.at().is_some() && !output.muted);
        let is_over = place >= self.stored_until;
        ours.into_iter()
            .all(|output| output.since.place <= place && (is_over || !output.is_unsure()))
    }

    /// Whether anything is not kept yet.
    #[must_use]
    pub fn has_changed(&self) -> bool {
        self.keeping.pace.has_changed()
    }

    /// When a checkpoint is due though nothing else happens.
    #[must_use]
    pub fn checkpoint_deadline(&self, behind: u64) -> Option<Mono> {
        self.keeping.pace.deadline(behind)
    }

    #[must_use]
    pub fn kept(&self) -> Kept {
        Kept {
            epoch: self.keeping.epoch,
            at: self.keeping.pace.last(),
            changed_bytes: self.changed_bytes(),
            readings: self.keeping.pace.readings(),
            figures: self.keeping.meter.figures(),
        }
    }

    /// So many readings were taken in a time without waiting for more.
    pub(crate) fn on_replayed(&mut self, readings: u64, took_us: u64) {
        self.keeping.meter.on_replayed(readings, took_us);
    }

    /// Begins a checkpoint that is taken in steps: until it is taken nothing is fed.
    pub fn begin_checkpoint(&mut self) {
        self.keeping.begun.get_or_insert_default();
    }

    /// Whether a checkpoint is being taken.
    #[must_use]
    pub fn is_keeping(&self) -> bool {
        self.keeping.begun.is_some()
    }

    /// Takes so many pages of the state that changed; true when little is left, and
    /// [`Derive::take_checkpoint`] is next.
    pub fn step_checkpoint(&mut self, pages: usize) -> bool {
        let mut changes = Vec::new();
        let is_done = self.engine.take_some_changes(pages, &mut changes);
        for entry in changes {
            self.keeping.put(Part::Engine, &entry.key, entry.value);
        }
        is_done
    }

    /// Entries of a checkpoint, when all readings before `place` were fed.
    pub fn take_checkpoint(&mut self, place: Place, now: Mono, commit: &GroupCommit) -> Vec<Entry> {
        for (part, key, value) in self.changes() {
            self.keeping.put(part, &key, value);
        }
        let begun = self.keeping.begun.take();
        let Begun {
            mut entries,
            mut bytes,
        } = begun.unwrap_or_default();
        let keeping = &self.keeping;
        let counters = self.counters;
        let manifest = Manifest {
            hash: keeping.hash,
            epoch: keeping.epoch + 1,
            place,
            entries: keeping.book.entries(),
            sum: keeping.book.sum(),
            heads: self.heads(commit),
            exact: self.outputs.iter().all(Output::is_exact),
            counts: [
                counters.records_missing,
                counters.rows_homeless,
                counters.rows_oversize,
                counters.readings_beyond,
            ],
            applied: self.applied.upto(),
            changes_missing: self.applied.missing,
        };
        let (key, value) = (keeping.unit.manifest_key(), manifest.bytes());
        bytes += (key.len() + value.len()) as u64;
        entries.push((key, value));
        let keeping = &mut self.keeping;
        keeping.epoch += 1;
        let readings = keeping.pace.readings();
        keeping.meter.on_written(bytes, readings, now);
        keeping.pace = Pace::after(bytes, now);
        self.applied.on_kept();
        entries
    }

    /// Where the rows of readings that come now begin, per topic.
    fn heads(&self, commit: &GroupCommit) -> Vec<(TopicId, Offset)> {
        let heads = self.outputs.iter().filter_map(|output| {
            let at = output.at().filter(|_| !output.muted)?;
            Some((at.topic, output.stored.first(commit.next(at))))
        });
        heads.collect()
    }

    fn changes(&mut self) -> Vec<(Part, Vec<u8>, Option<Vec<u8>>)> {
        let engine = self.engine.take_changes().into_iter();
        let mut out: Vec<_> = engine
            .map(|entry| (Part::Engine, entry.key, entry.value))
            .collect();
        let page = |page: u32| page.to_be_bytes().to_vec();
        let index = self.index.take_changes().into_iter();
        out.extend(index.map(|(at, bytes)| (Part::Index, page(at), bytes)));
        let live = self.live.take_changes();
        let names = live.names.into_iter();
        out.extend(names.map(|(at, bytes)| (Part::Channels, page(at), Some(bytes))));
        let rows = live.rows.into_iter();
        out.extend(rows.map(|(at, bytes)| (Part::Newest, page(at), Some(bytes))));
        let parked = self.parked_changes().into_iter();
        out.extend(parked.map(|(at, bytes)| (Part::Parked, page(at), bytes)));
        out
    }

    /// Pages of parked readings that changed; `None` for those that are gone.
    fn parked_changes(&mut self) -> Vec<(u32, Option<Vec<u8>>)> {
        let (epoch, waiting) = self.parked.waiting();
        let all = waiting.len().div_ceil(PARKED_PER_PAGE);
        let first = if self.parked_taken < waiting.len() {
            self.parked_taken / PARKED_PER_PAGE
        } else {
            all
        };
        let pages = waiting.chunks(PARKED_PER_PAGE).zip(0_u32..).skip(first);
        let changed = pages.map(|(waiting, page)| (page, Some(parked_bytes(epoch, waiting))));
        let gone = (all..self.parked_pages).map(|page| (page as u32, None));
        let out = changed.chain(gone).collect();
        self.parked_taken = waiting.len();
        self.parked_pages = all;
        out
    }
}

fn parked_bytes(epoch: Epoch, waiting: &[Waiting<Known>]) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, epoch.0.into());
    for one in waiting {
        let (series, live) = one.known;
        // 0: none.
        put_varint(&mut out, series.map_or(0, |id| u64::from(id.number()) + 1));
        put_varint(&mut out, live.number().map_or(0, |at| at as u64 + 1));
        put_zigzag(&mut out, one.reading.time.0);
        let flag = one.value.map_or(0, |_| HAS_VALUE);
        out.push(one.reading.quality as u8 | flag);
        if let Some(value) = one.value {
            out.extend_from_slice(&value.to_bits().to_le_bytes());
        }
    }
    out
}

fn read_parked<'a>(
    pages: impl Iterator<Item = &'a [u8]>,
    engine: &Engine,
) -> Result<Parked<Known>, Malformed> {
    let (mut epoch, mut waiting) = (Epoch(0), Vec::new());
    for page in pages {
        let mut reader = Reader::new(page);
        let number = u32::try_from(reader.varint()?);
        epoch = Epoch(number.map_err(|_| reader.malformed())?);
        while !reader.is_at_end() {
            waiting.push(read_waiting(&mut reader, engine)?);
            if waiting.len() > PARKED_READINGS_MAX {
                return Err(reader.malformed());
            }
        }
    }
    Ok(Parked::restore(epoch, waiting))
}

fn read_waiting(reader: &mut Reader<'_>, engine: &Engine) -> Result<Waiting<Known>, Malformed> {
    let series = reader.varint()?.checked_sub(1);
    let known = |number: u64| engine.series_at(u32::try_from(number).ok()?);
    let series = series.map(|number| known(number).ok_or_else(|| reader.malformed()));
    let series = series.transpose()?;
    let live = reader.varint()?.checked_sub(1);
    let live = LiveIndex::of_number(live.map(|at| at as usize));
    let time = EventTime(reader.zigzag()?);
    let flags = reader.byte()?;
    let quality = Quality::from_byte(flags & !HAS_VALUE).ok_or_else(|| reader.malformed())?;
    let value = if flags & HAS_VALUE == 0 {
        None
    } else {
        Some(f64::from_bits(u64::from_le_bytes(reader.array()?)))
    };
    // What else the record says was judged when it was parked.
    let reading = ReadingRecord {
        series: 0,
        ordinal: Ordinal(0),
        tick: Tick(0),
        time,
        uncertainty_us: UNSYNCED_US,
        value: 0,
        quality,
    };
    Ok(Waiting {
        known: (series, live),
        reading,
        value,
    })
}
