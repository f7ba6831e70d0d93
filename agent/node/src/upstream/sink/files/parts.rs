//! Data files as they are found and read back: which there are, which runs stand in each,
//! and their rows.
//!
//! Always holds: a file that is not ours is passed over; one of ours that cannot be read is
//! an error with its path. Bound: one row group of a Parquet file or one line of an NDJSON
//! file is held, and a segment per run and file.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::parquet::file::reader::{FileReader as _, SerializedFileReader};
use ::parquet::record::Field;
use ::parquet::record::reader::RowIter;
use ::parquet::schema::types::Type;
use forebay_core::limits::MESSAGE_BYTES_MAX;
use forebay_core::payload::GatewayName;
use serde_json::Value;

use super::super::{RowFilter, SinkError};
use super::layout::{Day, parse_part, part_name, state_dir};
use super::manifest::Head;
use super::table::{Kept, PLACE_COLUMNS, Raw, Run, count, place};
use crate::export::{Column, Format, Kind};

/// Longest line of an NDJSON file: a row is part of one message.
const LINE_BYTES_MAX: usize = MESSAGE_BYTES_MAX + 4096;

/// One data file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DataFile {
    pub(super) path: PathBuf,
    pub(super) kept: Kept,
    pub(super) gateway: GatewayName,
    format: Format,
}

/// Rows of one run that stand together in a file.
#[derive(Debug, Clone)]
pub(super) struct Segment {
    pub(super) run: Arc<Run>,
    /// Smallest offset.
    pub(super) first: u64,
    pub(super) rows: u64,
    /// Where it begins: the number of a row, or a position in the file.
    from: u64,
}

/// All data files that may hold rows of the filter.
pub(super) fn list(
    folder: &Path,
    head: Option<&Head>,
    filter: &RowFilter,
) -> Result<Vec<DataFile>, SinkError> {
    let mut out = Vec::new();
    for kept in Kept::ALL {
        let timed = filter.from.is_some() || filter.to.is_some();
        if timed && !kept.is_dated() {
            continue;
        }
        let dir = folder.join(kept.name());
        if !kept.is_dated() {
            gateways(&dir, kept, filter, &mut out)?;
            continue;
        }
        for (name, path) in names(&dir)? {
            let Some(day) = name.strip_prefix("date=") else {
                continue;
            };
            if Day::parse(day).may_hold(filter.from, filter.to) {
                gateways(&path, kept, filter, &mut out)?;
            }
        }
    }
    for (number, path) in (0..).zip(head.map_or(&[][..], |head| head.files.as_slice())) {
        let part = head.map(|head| part_name(head.number, number));
        let part = part.map(|name| state_dir(folder).join(name));
        if let Some(part) = part.filter(|part| part.exists()) {
            out.extend(unsettled(part, path, filter));
        }
    }
    Ok(out)
}

/// A file that has not got its own name yet, from the one that it shall get.
fn unsettled(part: PathBuf, path: &Path, filter: &RowFilter) -> Option<DataFile> {
    let mut names = path.iter().map(|name| name.to_str());
    let kept = names.next()??;
    let kept = Kept::ALL.into_iter().find(|known| known.name() == kept)?;
    let gateway = names.find_map(|name| name?.strip_prefix("gateway="))?;
    let gateway = GatewayName::new(gateway).ok()?;
    let wanted = filter.gateway.as_ref().is_none_or(|want| *want == gateway);
    let format = parse_part(path.file_name()?.to_str()?)?;
    wanted.then_some(DataFile {
        path: part,
        kept,
        gateway,
        format,
    })
}

fn gateways(
    dir: &Path,
    kept: Kept,
    filter: &RowFilter,
    out: &mut Vec<DataFile>,
) -> Result<(), SinkError> {
    for (name, path) in names(dir)? {
        let gateway = name.strip_prefix("gateway=");
        let Some(gateway) = gateway.and_then(|name| GatewayName::new(name).ok()) else {
            continue;
        };
        if filter.gateway.as_ref().is_some_and(|want| *want != gateway) {
            continue;
        }
        for (name, path) in names(&path)? {
            if let Some(format) = parse_part(&name) {
                out.push(DataFile {
                    path,
                    kept,
                    gateway: gateway.clone(),
                    format,
                });
            }
        }
    }
    Ok(())
}

/// What a folder holds, in order; nothing where there is none.
fn names(dir: &Path) -> Result<Vec<(String, PathBuf)>, SinkError> {
    let told = |error: io::Error| SinkError::said(format!("{}: {error}", dir.display()));
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(told)?,
    };
    let mut out = Vec::new();
    for entry in entries {
        let entry = entry.map_err(told)?;
        if let Some(name) = entry.file_name().to_str() {
            out.push((name.to_owned(), entry.path()));
        }
    }
    out.sort();
    Ok(out)
}

impl DataFile {
    pub(super) fn bad(&self, said: impl std::fmt::Display) -> SinkError {
        SinkError::said(format!("{}: {said}", self.path.display()))
    }

    /// Where a row of it stands, and for how many offsets.
    pub(super) fn place(&self, cells: &[Raw]) -> Result<(Run, u64, u64), SinkError> {
        let (run, offset) = place(&self.gateway, cells).ok_or_else(|| self.no_row())?;
        let count = count(self.kept, cells).ok_or_else(|| self.no_row())?;
        Ok((run, offset.0, count))
    }

    pub(super) fn no_row(&self) -> SinkError {
        self.bad(format_args!(
            "a row of it is none of the table {}",
            self.kept.name()
        ))
    }

    /// The runs in it, as they stand.
    pub(super) fn segments(
        &self,
        intern: &mut dyn FnMut(Run) -> Arc<Run>,
    ) -> Result<Vec<Segment>, SinkError> {
        let columns = match self.kept {
            Kept::Missing => Kept::Missing.columns(),
            Kept::Readings | Kept::Rows | Kept::Gaps | Kept::Clocks | Kept::Tables => {
                &self.kept.columns()[..PLACE_COLUMNS]
            }
        };
        let mut out: Vec<Segment> = Vec::new();
        let mut rows = self.rows(columns, 0)?;
        while let Some((from, cells)) = rows.next(self)? {
            let (run, first, _) = self.place(&cells)?;
            match out.last_mut().filter(|last| *last.run == run) {
                Some(last) => {
                    last.first = last.first.min(first);
                    last.rows += 1;
                }
                None => out.push(Segment {
                    run: intern(run),
                    first,
                    rows: 1,
                    from,
                }),
            }
        }
        Ok(out)
    }

    /// Its rows with these columns, from a row or a position on.
    fn rows(&self, columns: &'static [Column], from: u64) -> Result<FileRows, SinkError> {
        let file = File::open(&self.path).map_err(|error| self.bad(error))?;
        match self.format {
            Format::Parquet => {
                let reader = SerializedFileReader::new(file).map_err(|error| self.bad(error))?;
                ParquetRows::begin(reader, columns, from)
                    .map(FileRows::Parquet)
                    .map_err(|error| self.bad(error))
            }
            Format::Ndjson | Format::Csv => {
                let mut input = BufReader::new(file);
                let sought = input.seek(SeekFrom::Start(from));
                sought.map_err(|error| self.bad(error))?;
                Ok(FileRows::Lines {
                    input,
                    columns,
                    at: from,
                })
            }
        }
    }

    /// The rows of one of its segments.
    pub(super) fn segment_rows(&self, segment: &Segment) -> Result<FileRows, SinkError> {
        self.rows(self.kept.columns(), segment.from)
    }
}

/// Rows of a file, one at a time.
pub(super) enum FileRows {
    Parquet(ParquetRows),
    Lines {
        input: BufReader<File>,
        columns: &'static [Column],
        at: u64,
    },
}

impl FileRows {
    /// The next row's cells, and where it begins.
    pub(super) fn next(&mut self, file: &DataFile) -> Result<Option<(u64, Vec<Raw>)>, SinkError> {
        match self {
            Self::Parquet(rows) => rows.next().map_err(|error| file.bad(error)),
            Self::Lines { input, columns, at } => {
                let mut line = Vec::new();
                let mut bounded = input.take(LINE_BYTES_MAX as u64 + 1);
                let read = bounded.read_until(b'\n', &mut line);
                let read = read.map_err(|error| file.bad(error))?;
                if read == 0 {
                    return Ok(None);
                }
                let cells = cells_of_line(&line, columns);
                let cells = cells.ok_or_else(|| file.bad(format_args!("no row at byte {at}")))?;
                let from = *at;
                *at += read as u64;
                Ok(Some((from, cells)))
            }
        }
    }
}

fn cells_of_line(line: &[u8], columns: &[Column]) -> Option<Vec<Raw>> {
    let text = std::str::from_utf8(line.strip_suffix(b"\n")?).ok()?;
    // A member keeps its bytes: it stands last, and no text before it can look like this.
    let (head, member) = match text.split_once(",\"record\":") {
        Some((head, rest)) => (format!("{head}}}"), Some(rest.strip_suffix('}')?)),
        None => (text.to_owned(), None),
    };
    let object: Value = serde_json::from_str(&head).ok()?;
    let cells = columns.iter().map(|(name, kind)| match kind {
        Kind::Member => member.map(|json| Raw::Text(json.to_owned())),
        Kind::Text
        | Kind::Time
        | Kind::Double
        | Kind::Unsigned
        | Kind::MaybeInteger
        | Kind::Bool
        | Kind::Json => raw_of_json(&object[*name]),
    });
    cells.collect()
}

fn raw_of_json(value: &Value) -> Option<Raw> {
    Some(match value {
        Value::Null => Raw::Null,
        Value::Bool(is) => Raw::Bool(*is),
        Value::String(text) => Raw::Text(text.clone()),
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(n), _) => Raw::Unsigned(n),
            (None, Some(n)) => Raw::Integer(n),
            (None, None) => Raw::Double(number.as_f64()?),
        },
        Value::Array(_) | Value::Object(_) => return None,
    })
}

/// Rows of a Parquet file, a row group at a time.
pub(super) struct ParquetRows {
    reader: SerializedFileReader<File>,
    projection: Type,
    columns: &'static [Column],
    group: usize,
    /// Rows to pass over in the next group.
    skip: usize,
    /// Number of the next row.
    at: u64,
    held: std::vec::IntoIter<Vec<Raw>>,
}

type ParquetResult<T> = Result<T, ::parquet::errors::ParquetError>;

impl ParquetRows {
    fn begin(
        reader: SerializedFileReader<File>,
        columns: &'static [Column],
        from: u64,
    ) -> ParquetResult<Self> {
        let schema = reader.metadata().file_metadata().schema();
        let wanted = schema.get_fields().iter();
        let wanted = wanted.filter(|field| columns.iter().any(|(name, _)| *name == field.name()));
        let projection = Type::group_type_builder(schema.name())
            .with_fields(wanted.cloned().collect())
            .build()?;
        let mut group = 0;
        let mut left = from;
        while group < reader.num_row_groups() {
            let rows = reader.metadata().row_group(group).num_rows();
            match left.checked_sub(rows.unsigned_abs()) {
                Some(rest) => left = rest,
                None => break,
            }
            group += 1;
        }
        Ok(Self {
            reader,
            projection,
            columns,
            group,
            skip: usize::try_from(left).unwrap_or(usize::MAX),
            at: from,
            held: Vec::new().into_iter(),
        })
    }

    fn next(&mut self) -> ParquetResult<Option<(u64, Vec<Raw>)>> {
        loop {
            if let Some(cells) = self.held.next() {
                let at = self.at;
                self.at += 1;
                return Ok(Some((at, cells)));
            }
            if self.group >= self.reader.num_row_groups() {
                return Ok(None);
            }
            let group = self.reader.get_row_group(self.group)?;
            let rows = RowIter::from_row_group(Some(self.projection.clone()), group.as_ref())?;
            let mut held = Vec::new();
            for row in rows.skip(std::mem::take(&mut self.skip)) {
                held.push(cells_of_row(row?.into_columns(), self.columns));
            }
            self.group += 1;
            self.held = held.into_iter();
        }
    }
}

/// The cells in the order of our columns; a column that the file does not have is null.
fn cells_of_row(fields: Vec<(String, Field)>, columns: &[Column]) -> Vec<Raw> {
    let mut out = vec![Raw::Null; columns.len()];
    for (at, (name, field)) in fields.into_iter().enumerate() {
        let same = columns.get(at).filter(|(known, _)| *known == name);
        let place = match same {
            Some(_) => Some(at),
            None => columns.iter().position(|(known, _)| *known == name),
        };
        if let Some(place) = place {
            out[place] = raw_of_field(field);
        }
    }
    out
}

#[allow(
    clippy::wildcard_enum_match_arm,
    reason = "another crate's enum, of which we write these"
)]
fn raw_of_field(field: Field) -> Raw {
    match field {
        Field::Str(text) => Raw::Text(text),
        Field::Bool(is) => Raw::Bool(is),
        Field::Long(n) | Field::TimestampMicros(n) => Raw::Integer(n),
        Field::ULong(n) => Raw::Unsigned(n),
        Field::Double(value) => Raw::Double(value),
        _ => Raw::Null,
    }
}
