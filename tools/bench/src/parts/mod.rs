//! The parts of the measurement. Each runs in a process of its own, so that its
//! memory, its device writes and its core are its own, and says figures as
//! `name=value` lines.

mod ack;
mod backlog;
mod rate;
mod ring;
mod sizes;
mod speed;
mod throughput;

use std::path::{Path, PathBuf};

use clap::ValueEnum;

use crate::limits::Sizes;
pub(crate) use backlog::{ACKED, APPENDING};

/// What a process is started for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Bytes per reading.
    Sizes,
    /// Time per reading of builder, decoder and merger.
    Speed,
    /// Readings per second on one core.
    Rate,
    /// Bytes per second, disk and device writes.
    Throughput,
    /// Time from append to ack.
    Ack,
    /// Disk over many turns of a ring.
    Ring,
    /// Fills the log that the next three use.
    Fill,
    /// Reads it front to back.
    Drain,
    /// Appends to it until killed.
    Append,
    /// Opens it, appends once, says when that is durable.
    FirstAck,
}

/// What a part is told.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) dir: PathBuf,
    pub(crate) sizes: Sizes,
    /// A series of real values to measure the bytes of, if there is one.
    pub(crate) values: Option<PathBuf>,
}

impl Told {
    fn sub(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }
}

/// Runs a part and prints its figures.
pub(crate) fn run(part: Part, told: &Told) -> Result<(), String> {
    let figures = match part {
        Part::Sizes => sizes::run(told)?,
        Part::Speed => speed::run(told)?,
        Part::Rate => rate::run(told)?,
        Part::Throughput => throughput::run(told)?,
        Part::Ack => ack::run(told)?,
        Part::Ring => ring::run(told)?,
        Part::Fill => backlog::fill(told)?,
        Part::Drain => backlog::drain(told)?,
        Part::Append => backlog::append(told)?,
        Part::FirstAck => backlog::first_ack(told)?,
    };
    for (name, value) in figures {
        println!("{name}={value}");
    }
    Ok(())
}

/// Figures by name.
pub(crate) type Figures = Vec<(&'static str, f64)>;

fn remove(dir: &Path) -> Result<(), String> {
    match std::fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("{}: {error}", dir.display()))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

fn mb(bytes: f64) -> f64 {
    bytes / 1e6
}
