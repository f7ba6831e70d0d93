//! What was committed and does not stand in data files yet: which offsets, and where their
//! payloads are.
//!
//! Bound: an entry of some 50 bytes per piece, PENDING_PIECES_MAX of them or one commit
//! more; payloads stay on disk.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use forebay_core::payload::{DataBody, DataMessage, MessageId};
use forebay_core::units::Offset;
use forebay_core::upstream::keys::Source;
use forebay_core::upstream::ranges::OffsetRange;

use super::layout::{StepNo, state_dir, step_name};
use super::step::PayloadAt;
use super::table::{Line, Run};
use super::{PENDING_BYTES_MAX, PENDING_PIECES_MAX, STEPS_MAX};

/// Offsets of one message that were new, next to each other.
#[derive(Debug, Clone)]
pub(super) struct Piece {
    pub(super) run: Arc<Run>,
    pub(super) range: OffsetRange,
    pub(super) at: PayloadAt,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Pending {
    pieces: Vec<Piece>,
    /// Each run once.
    runs: BTreeMap<Run, Arc<Run>>,
    /// Steps since the last roll, with or without pieces.
    pub(super) steps: usize,
    pub(super) rows: u64,
    pub(super) bytes: u64,
    /// When the first of them was committed.
    pub(super) since: Option<Instant>,
}

impl Pending {
    /// Notes a step and its length.
    pub(super) fn add_step(&mut self, bytes: usize, now: Instant) {
        self.steps += 1;
        self.bytes += bytes as u64;
        self.since.get_or_insert(now);
    }

    /// Notes what was new of a message.
    pub(super) fn add(&mut self, message: &DataMessage, fresh: &[OffsetRange], at: PayloadAt) {
        let run = self.run(&message.id);
        let has_rows = message.body.records().is_some();
        for range in fresh {
            self.rows += if has_rows { range.count() } else { 1 };
            self.pieces.push(Piece {
                run: run.clone(),
                range: *range,
                at,
            });
        }
    }

    fn run(&mut self, id: &MessageId) -> Arc<Run> {
        let run = Run {
            source: Source::of(id),
            epoch: id.epoch,
            nonce: id.nonce,
        };
        if let Some(known) = self.runs.get(&run) {
            return known.clone();
        }
        let shared = Arc::new(run.clone());
        self.runs.insert(run, shared.clone());
        shared
    }

    /// Whether more waits than so many times what should.
    pub(super) fn is_beyond(&self, times: u64) -> bool {
        let most = |count: usize| count as u64 * times;
        self.steps as u64 >= most(STEPS_MAX)
            || self.pieces.len() as u64 >= most(PENDING_PIECES_MAX)
            || self.bytes >= PENDING_BYTES_MAX * times
    }

    pub(super) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Its pieces, gateway by gateway, each in order of run and offset.
    pub(super) fn sorted(&self) -> Vec<Piece> {
        let mut pieces = self.pieces.clone();
        pieces.sort_by(|a, b| (&a.run, a.range.start()).cmp(&(&b.run, b.range.start())));
        pieces
    }
}

/// Reads messages out of steps, one at a time.
#[derive(Debug)]
pub(super) struct Payloads {
    dir: PathBuf,
    open: Option<(StepNo, File)>,
}

impl Payloads {
    pub(super) fn of(folder: &Path) -> Self {
        Self {
            dir: state_dir(folder),
            open: None,
        }
    }

    /// The message there.
    pub(super) fn read(&mut self, at: PayloadAt) -> io::Result<DataMessage> {
        let open = self.open.take().filter(|(step, _)| *step == at.step);
        let (_, file) = match open {
            Some(open) => self.open.insert(open),
            None => {
                let file = File::open(self.dir.join(step_name(at.step)))?;
                self.open.insert((at.step, file))
            }
        };
        let mut bytes = vec![0; at.bytes];
        file.read_exact_at(&mut bytes, at.position)?;
        let bad = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        DataMessage::parse(&bytes).map_err(bad)
    }
}

/// Shows the records of a message whose offsets are in `range`, until `visit` says no.
pub(super) fn for_each_line<E>(
    message: &DataMessage,
    range: OffsetRange,
    mut visit: impl FnMut(Offset, Line<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let first = message.id.first.0;
    let from = usize::try_from(range.start().0.saturating_sub(first)).unwrap_or(usize::MAX);
    let count = usize::try_from(range.count()).unwrap_or(usize::MAX);
    let offsets = (range.start().0..).map(Offset);
    match &message.body {
        DataBody::Readings { series, records } => {
            let records = records.iter().skip(from).take(count);
            for (offset, record) in offsets.zip(records) {
                visit(offset, Line::Record(series, record))?;
            }
        }
        DataBody::Rows(rows) => {
            for (offset, row) in offsets.zip(rows.iter().skip(from).take(count)) {
                visit(offset, Line::Row(row))?;
            }
        }
        DataBody::Missing(reason) => {
            visit(range.start(), Line::Missing(*reason, range.count()))?;
        }
    }
    Ok(())
}
