//! All rows of the sink in one order, whichever file or step they stand in.
//!
//! Always holds: rows come in the order of run and offset, as long as each file has its own
//! in order; one that has not is shown all the same. Bound: a segment per run and file, and
//! of what overlaps at a time [`OPEN_MAX`] files.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use forebay_core::payload::push_row;
use forebay_core::units::Offset;
use forebay_core::upstream::rows::StoredRow;

use super::super::{Extent, ExtentKind, RowFilter, SinkError};
use super::manifest::Head;
use super::parts::{DataFile, FileRows, Segment, list};
use super::pending::{Payloads, Pending, Piece, for_each_line};
use super::table::{Kept, Line, Run, push_missing, stored};

/// Files that may be open at the same time: those whose offsets overlap.
const OPEN_MAX: usize = 256;
/// Runs in files that may be known at the same time.
const SEGMENTS_MAX: usize = 1 << 22;

/// One row, or what a row declares.
struct Item {
    offset: u64,
    count: u64,
    kind: ExtentKind,
    json: Vec<u8>,
}

enum Place {
    File(usize, Segment),
    Pending(Piece),
}

impl Place {
    fn run(&self) -> &Arc<Run> {
        match self {
            Self::File(_, segment) => &segment.run,
            Self::Pending(piece) => &piece.run,
        }
    }

    fn first(&self) -> u64 {
        match self {
            Self::File(_, segment) => segment.first,
            Self::Pending(piece) => piece.range.start().0,
        }
    }
}

/// What is open of a run, with its next item.
struct Cursor {
    next: Item,
    rest: Rest,
}

enum Rest {
    File {
        file: usize,
        rows: FileRows,
        left: u64,
    },
    Pending(std::vec::IntoIter<Item>),
}

/// See the module.
pub(super) struct View<'a> {
    folder: &'a Path,
    files: Vec<DataFile>,
    places: Vec<Place>,
}

impl<'a> View<'a> {
    /// All that a filter may take.
    pub(super) fn of(
        folder: &'a Path,
        head: Option<&Head>,
        pending: &Pending,
        filter: &RowFilter,
    ) -> Result<Self, SinkError> {
        let files = list(folder, head, filter)?;
        let mut runs: BTreeMap<Run, Arc<Run>> = BTreeMap::new();
        let mut intern = |run: Run| {
            let shared = || Arc::new(run.clone());
            runs.entry(run.clone()).or_insert_with(shared).clone()
        };
        let mut places = Vec::new();
        for (number, file) in files.iter().enumerate() {
            let segments = file.segments(&mut intern)?;
            let segments = segments.into_iter();
            let wanted = segments.filter(|segment| filter.takes_source(&segment.run.source));
            places.extend(wanted.map(|segment| Place::File(number, segment)));
            if places.len() > SEGMENTS_MAX {
                return Err(SinkError::said(
                    "too many files at once: ask for one gateway, or for some days",
                ));
            }
        }
        let pieces = pending.pieces().iter();
        let pieces = pieces.filter(|piece| filter.takes_source(&piece.run.source));
        places.extend(pieces.cloned().map(Place::Pending));
        places.sort_by(|a, b| (a.run(), a.first()).cmp(&(b.run(), b.first())));
        Ok(Self {
            folder,
            files,
            places,
        })
    }

    /// Shows each row until `visit` is false.
    pub(super) fn rows(
        &self,
        filter: &RowFilter,
        visit: &mut dyn FnMut(StoredRow) -> bool,
    ) -> Result<(), SinkError> {
        self.items(true, &mut |run, item| {
            let row = StoredRow {
                source: run.source.clone(),
                epoch: run.epoch,
                nonce: run.nonce,
                offset: Offset(item.offset),
                json: item.json,
            };
            !filter.takes(&row) || visit(row)
        })
    }

    /// Shows which offsets there are until `visit` is false; neighbours in one extent.
    pub(super) fn extents(&self, visit: &mut dyn FnMut(Extent) -> bool) -> Result<(), SinkError> {
        let mut held: Option<Extent> = None;
        let mut goes_on = true;
        self.items(false, &mut |run, item| {
            let next = |held: &Extent| {
                let end = held.first.0.checked_add(held.count);
                held.kind == ExtentKind::Rows
                    && item.kind == ExtentKind::Rows
                    && end == Some(item.offset)
                    && (&held.source, held.epoch, held.nonce) == (&run.source, run.epoch, run.nonce)
            };
            match held.as_mut().filter(|held| next(held)) {
                Some(held) => held.count += item.count,
                None => {
                    let extent = Extent {
                        source: run.source.clone(),
                        epoch: run.epoch,
                        nonce: run.nonce,
                        first: Offset(item.offset),
                        count: item.count,
                        kind: item.kind,
                    };
                    goes_on = held.replace(extent).is_none_or(&mut *visit);
                }
            }
            goes_on
        })?;
        if let Some(last) = held.filter(|_| goes_on) {
            visit(last);
        }
        Ok(())
    }

    fn items(
        &self,
        with_json: bool,
        visit: &mut dyn FnMut(&Run, Item) -> bool,
    ) -> Result<(), SinkError> {
        let mut payloads = Payloads::of(self.folder);
        for places in self.places.chunk_by(|a, b| a.run() == b.run()) {
            if !self.run(places, (&mut payloads, with_json), visit)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Merges what there is of one run; false when `visit` has enough.
    fn run(
        &self,
        places: &[Place],
        (payloads, with_json): (&mut Payloads, bool),
        visit: &mut dyn FnMut(&Run, Item) -> bool,
    ) -> Result<bool, SinkError> {
        let mut open: Vec<Cursor> = Vec::new();
        let mut waiting = places.iter().peekable();
        loop {
            let least = (0..open.len()).min_by_key(|at| open[*at].next.offset);
            let least_offset = least.map(|at| open[at].next.offset);
            let opens = |place: &&Place| least_offset.is_none_or(|least| place.first() <= least);
            if let Some(place) = waiting.next_if(opens) {
                if open.len() >= OPEN_MAX {
                    return Err(SinkError::said(format!(
                        "more than {OPEN_MAX} files hold the same offsets: ask for some days"
                    )));
                }
                open.extend(self.open(place, payloads, with_json)?);
                continue;
            }
            let Some(at) = least else {
                return Ok(true);
            };
            let following = self.next(&mut open[at].rest, with_json)?;
            let item = match following {
                Some(following) => std::mem::replace(&mut open[at].next, following),
                None => open.swap_remove(at).next,
            };
            if !visit(places[0].run(), item) {
                return Ok(false);
            }
        }
    }

    fn open(
        &self,
        place: &Place,
        payloads: &mut Payloads,
        with_json: bool,
    ) -> Result<Option<Cursor>, SinkError> {
        let mut rest = match place {
            Place::File(number, segment) => Rest::File {
                file: *number,
                rows: self.files[*number].segment_rows(segment)?,
                left: segment.rows,
            },
            Place::Pending(piece) => Rest::Pending(items_of(piece, payloads)?.into_iter()),
        };
        let next = self.next(&mut rest, with_json)?;
        Ok(next.map(|next| Cursor { next, rest }))
    }

    fn next(&self, rest: &mut Rest, with_json: bool) -> Result<Option<Item>, SinkError> {
        let (file, rows, left) = match rest {
            Rest::Pending(items) => return Ok(items.next()),
            Rest::File { file, rows, left } => (&self.files[*file], rows, left),
        };
        if *left == 0 {
            return Ok(None);
        }
        *left -= 1;
        let Some((_, cells)) = rows.next(file)? else {
            return Err(file.bad("it became shorter"));
        };
        let (_, offset, count) = file.place(&cells)?;
        let json = match with_json {
            true => stored(file.kept, Offset(offset), &cells),
            false => Some(Vec::new()),
        };
        Ok(Some(Item {
            offset,
            count,
            kind: kind(file.kept),
            json: json.ok_or_else(|| file.no_row())?,
        }))
    }
}

fn kind(kept: Kept) -> ExtentKind {
    match kept {
        Kept::Missing => ExtentKind::Missing,
        Kept::Readings | Kept::Rows | Kept::Gaps | Kept::Clocks | Kept::Tables => ExtentKind::Rows,
    }
}

fn items_of(piece: &Piece, payloads: &mut Payloads) -> Result<Vec<Item>, SinkError> {
    let told = |error: std::io::Error| {
        SinkError::said(format!("step {} of the sink: {error}", piece.at.step.0))
    };
    let message = payloads.read(piece.at).map_err(told)?;
    let mut out = Vec::new();
    let done: Result<(), SinkError> = for_each_line(&message, piece.range, |offset, line| {
        let mut json = Vec::new();
        let mut count = 1;
        match line {
            Line::Record(series, record) => push_row(series, record, &mut json),
            Line::Row(row) => json.extend_from_slice(row),
            Line::Missing(reason, all) => {
                count = all;
                let last = Offset(offset.0 + (all - 1));
                push_missing(reason, offset, last, &mut json);
            }
        }
        out.push(Item {
            offset: offset.0,
            count,
            kind: kind(line.kept()),
            json,
        });
        Ok(())
    });
    done.map(|()| out)
}
