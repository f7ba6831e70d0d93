//! A run from its first line to its last: readings into batches, batches into the
//! engine, rows to the output; and what restart and crash lines ask for.
//!
//! Always: the bytes that go out are the same for every batch size and wherever a
//! restart or crash line stands. An input that can hold such a line is the log of the
//! run: a checkpoint notes the place in it, and recovery reads on from there.
//!
//! Bound: between two checkpoints at most [`JOURNAL_BYTES_MAX`] are held, and what one
//! batch adds.

use std::collections::BTreeMap;
use std::io::Write;

use forebay_core::engine::config::EngineConfig;
use forebay_core::engine::identity::ReadingId;
use forebay_core::engine::row::Rows;
use forebay_core::engine::{Batch, Engine};

use super::Stop;
use super::change::ChangeLine;
use super::checkpoints::{Change, Checkpoints};
use super::input::{Event, Input, Mark};
use super::line::{Boot, Line, Reading};
use super::output::Output;
use super::remembered::Remembered;
use crate::config::TableConfig;

/// When the next checkpoint is due.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// Readings between two checkpoints, at least.
    pub(super) readings_min: u64,
    /// More bytes of checkpoint than this per reading cost too much time: the next one
    /// waits for more readings.
    pub(super) bytes_per_reading: u64,
    /// Input that cannot be read again and output since the last checkpoint: with more,
    /// the next one does not wait.
    pub(super) held_max: usize,
}

impl Pace {
    pub(super) const USUAL: Self = Self {
        readings_min: 10_000,
        bytes_per_reading: 8,
        held_max: JOURNAL_BYTES_MAX,
    };
}

/// Held between two checkpoints.
const JOURNAL_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A run with what it has gathered.
pub(super) struct Run<'a> {
    pub(super) config: &'a EngineConfig,
    pub(super) tables: &'a [TableConfig],
    pub(super) engine: Engine,
    pub(super) inputs: Vec<Input>,
    pub(super) batch_max: usize,
    pub(super) output: Output<'a>,
    pub(super) errors: &'a mut dyn Write,
    pub(super) checkpoints: Checkpoints,
    pub(super) pace: Pace,
    pub(super) work: Work,
}

/// What a run has under its hands.
#[derive(Default)]
pub(super) struct Work {
    /// Place in the inputs.
    input: usize,
    batch: Batch,
    rows: Rows,
    text: Vec<u8>,
    /// Boots that go by a text, numbered from above the usual ones.
    boots: BTreeMap<String, u64>,
    rejected: u64,
    /// The input says itself how far time has come.
    steered: bool,
    /// `None` while no line can ask for recovery.
    journal: Option<Journal>,
    /// Input and line of the crash whose input is read again.
    recovering: Option<(usize, u64)>,
}

/// Since the last checkpoint.
#[derive(Debug, Default)]
struct Journal {
    /// And changes of tables.
    readings: u64,
    /// Size of that checkpoint.
    bytes: u64,
}

impl Run<'_> {
    /// Reads all inputs to their ends.
    ///
    /// # Errors
    /// What makes the run end early.
    pub(super) fn all(&mut self, keeps_state: bool, flush: bool) -> Result<(), Stop> {
        self.first_rows()?;
        if keeps_state {
            self.checkpoint()?;
        }
        while let Some(input) = self.inputs.get_mut(self.work.input) {
            let event = input.take(&mut self.work.batch, self.batch_max);
            let may_steer = input.is_json();
            self.on(event)?;
            // Only here: amid a control line the engine is not where the input is.
            if may_steer && self.work.journal.is_none() {
                self.step()?;
                self.checkpoint()?;
            } else if self.work.batch.is_empty() && self.is_checkpoint_due() {
                self.checkpoint()?;
            }
        }
        self.step()?;
        if keeps_state {
            self.checkpoint()?;
        }
        if flush && !self.work.steered {
            self.engine.finish(&mut self.work.rows);
            self.write()?;
        }
        self.output.flush().map_err(Stop::Output)
    }

    /// The rows that stand in the config, before all input.
    fn first_rows(&mut self) -> Result<(), Stop> {
        for change in self.tables.iter().flat_map(TableConfig::first_changes) {
            self.engine.on_change(&change, &mut self.work.rows);
        }
        self.write()
    }

    pub(super) fn rejected(&self) -> u64 {
        self.work.rejected
    }

    fn input(&mut self) -> &mut Input {
        &mut self.inputs[self.work.input]
    }

    fn on(&mut self, event: Event) -> Result<(), Stop> {
        match event {
            Event::Json => Ok(()),
            Event::Full => self.step(),
            Event::Dry => {
                self.step()?;
                self.fill()
            }
            Event::Reading(reading) => {
                if let Err(what) = self.add(&reading) {
                    let place = self.input().place();
                    self.reject(&format!("{place}: {what}"));
                }
                Ok(())
            }
            Event::Bad(what) => {
                self.reject(&what);
                Ok(())
            }
            Event::Control(line) => self.control(line),
        }
    }

    /// Reads more, or turns to the next input.
    fn fill(&mut self) -> Result<(), Stop> {
        if self.input().may_wait() {
            self.output.flush().map_err(Stop::Output)?;
        }
        let filled = self.input().fill();
        let more = filled.map_err(|e| Stop::Input(self.input().name.clone(), e))?;
        if !more {
            self.work.input += 1;
            if let Some(next) = self.inputs.get_mut(self.work.input)
                && self.work.journal.is_some()
            {
                next.mark();
            }
        }
        Ok(())
    }

    fn control(&mut self, line: Line) -> Result<(), Stop> {
        match line {
            Line::Reading(_) => Ok(()),
            Line::Change(line) => self.change(line),
            Line::Watermark { device, time } => {
                self.work.steered = true;
                self.step()?;
                self.engine
                    .on_watermark(device.as_deref(), time, &mut self.work.rows);
                self.write()
            }
            Line::Clock(time) => {
                self.work.steered = true;
                self.step()?;
                self.engine.on_clock(time, &mut self.work.rows);
                self.write()
            }
            Line::Restart => {
                self.step()?;
                self.checkpoint()?;
                self.recover()
            }
            Line::Crash => self.crash(),
        }
    }

    fn change(&mut self, line: ChangeLine) -> Result<(), Stop> {
        match line.of(self.tables) {
            Ok(change) => {
                self.step()?;
                self.engine.on_change(&change, &mut self.work.rows);
                if let Some(journal) = &mut self.work.journal {
                    journal.readings += 1;
                }
                self.write()
            }
            Err(what) => {
                let place = self.input().place();
                self.reject(&format!("{place}: {what}"));
                Ok(())
            }
        }
    }

    fn crash(&mut self) -> Result<(), Stop> {
        let here = (self.work.input, self.input().line());
        match self.work.recovering {
            None => {
                self.recover()?;
                self.work.recovering = Some(here);
                self.output.crash();
                Ok(())
            }
            Some(at) if at == here => {
                self.step()?;
                self.work.recovering = None;
                self.output.recovered().map_err(Stop::Output)
            }
            // One before it, which is over.
            Some(_) => Ok(()),
        }
    }

    fn reject(&mut self, what: &str) {
        self.work.rejected += 1;
        // What is read again was told before.
        if self.work.recovering.is_none() {
            let _ = writeln!(self.errors, "{what}");
        }
    }

    fn add(&mut self, reading: &Reading) -> Result<(), String> {
        let series = self.engine.series(&reading.device, &reading.channel);
        let series = series.map_err(|e| e.to_string())?;
        self.input().learn(reading, series);
        let id = reading.id.as_ref().map(|(boot, seq)| ReadingId {
            boot: self.boot_number(boot),
            seq: *seq,
        });
        let batch = &mut self.work.batch;
        batch.push(series, reading.time, reading.value, id);
        Ok(())
    }

    fn boot_number(&mut self, boot: &Boot) -> u64 {
        match boot {
            Boot::Number(n) => *n,
            Boot::Text(text) => {
                let boots = &mut self.work.boots;
                let next = u64::MAX - boots.len() as u64;
                *boots.entry(text.clone()).or_insert(next)
            }
        }
    }

    /// Gives the batch to the engine and writes what comes out.
    fn step(&mut self) -> Result<(), Stop> {
        let readings = self.work.batch.len() as u64;
        if readings > 0 {
            self.engine.on_batch(&self.work.batch, &mut self.work.rows);
            self.work.batch.clear();
            self.write()?;
        }
        if let Some(journal) = &mut self.work.journal {
            journal.readings += readings;
        }
        Ok(())
    }

    fn write(&mut self) -> Result<(), Stop> {
        let work = &mut self.work;
        for row in self.engine.views(&work.rows) {
            row.write_json(&mut work.text);
            work.text.push(b'\n');
        }
        work.rows.clear();
        self.output.write(&work.text).map_err(Stop::Output)?;
        work.text.clear();
        Ok(())
    }

    fn is_checkpoint_due(&self) -> bool {
        let Some(journal) = &self.work.journal else {
            return false;
        };
        let kept = self.inputs.get(self.work.input).map_or(0, Input::kept);
        let enough = journal.readings >= self.pace.readings_min
            && journal.bytes <= journal.readings * self.pace.bytes_per_reading;
        // While a crash is made good, what stands is not all confirmed yet.
        self.work.recovering.is_none() && (enough || kept + self.output.held() > self.pace.held_max)
    }

    fn checkpoint(&mut self) -> Result<(), Stop> {
        let work = &self.work;
        let input = work.input.min(self.inputs.len() - 1);
        let remembered = Remembered {
            input,
            mark: self.inputs[input].mark(),
            boots: work.boots.clone(),
            rejected: work.rejected,
            steered: work.steered,
        };
        let changes = self.engine.take_changes().into_iter();
        let changes: Vec<Change> = changes.map(|entry| (entry.key, entry.value)).collect();
        let saved = self.checkpoints.save(&remembered.to_json(), &changes);
        let bytes = saved.map_err(Stop::State)?;
        self.work.journal = Some(Journal { readings: 0, bytes });
        self.output.checkpoint();
        Ok(())
    }

    /// Forgets everything and goes on from the last checkpoint.
    fn recover(&mut self) -> Result<(), Stop> {
        let (remembered, entries) = self
            .checkpoints
            .load()
            .map_err(Stop::State)?
            .ok_or_else(|| Stop::Recovery("there is no checkpoint".into()))?;
        let remembered = Remembered::from_json(&remembered)
            .ok_or_else(|| Stop::Recovery("the run's own state does not read".into()))?;
        let journal = self.work.journal.take();
        let started = self.work.input;
        self.engine = if entries.is_empty() {
            Engine::new(self.config)
        } else {
            Engine::restore(self.config, entries).map_err(|e| Stop::Recovery(e.to_string()))?
        };
        self.work = Work {
            input: remembered.input,
            boots: remembered.boots,
            rejected: remembered.rejected,
            steered: remembered.steered,
            journal: journal.map(|journal| Journal {
                readings: 0,
                ..journal
            }),
            ..Work::default()
        };
        let later = self.inputs[..=started]
            .iter_mut()
            .skip(remembered.input + 1);
        for input in later {
            input
                .go_to(Mark::start())
                .map_err(|e| Stop::Input(input.name.clone(), e))?;
        }
        let input = self.input();
        input
            .go_to(remembered.mark)
            .map_err(|e| Stop::Input(input.name.clone(), e))
    }
}

#[cfg(test)]
mod tests;
