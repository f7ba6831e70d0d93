//! CSV lines: a header that names the columns, then a reading per line.

use super::{Boot, Line, Reading};
use crate::import::fields::{self, cut};

/// The columns of a CSV file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::try_run) struct Header {
    columns: Vec<Option<Column>>,
    usual: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::try_run) enum Column {
    Device,
    Channel,
    Time,
    Value,
    Boot,
    Seq,
}

impl Header {
    /// Whether it is `device,channel,time,value`.
    pub(in crate::try_run) fn is_usual(&self) -> bool {
        self.usual
    }

    /// The number of columns.
    pub(in crate::try_run) fn len(&self) -> usize {
        self.columns.len()
    }

    /// Where a column stands.
    pub(in crate::try_run) fn place(&self, column: Column) -> Option<usize> {
        self.columns.iter().position(|c| *c == Some(column))
    }

    /// The line that gives this header.
    pub(in crate::try_run) fn text(&self) -> String {
        let name = |column: &Option<Column>| {
            let named = COLUMNS.iter().find(|(_, c)| Some(*c) == *column);
            named.map_or("-", |(name, _)| *name)
        };
        let names: Vec<&str> = self.columns.iter().map(name).collect();
        names.join(",")
    }
}

const COLUMNS: [(&str, Column); 6] = [
    ("device", Column::Device),
    ("channel", Column::Channel),
    ("time", Column::Time),
    ("value", Column::Value),
    ("boot", Column::Boot),
    ("seq", Column::Seq),
];

/// Reads the first line of a CSV file; columns of other names are skipped.
pub(in crate::try_run) fn csv_header(text: &str) -> Result<Header, String> {
    let columns: Vec<Option<Column>> = cells(text)?
        .iter()
        .map(|cell| {
            COLUMNS
                .iter()
                .find(|(name, _)| *name == cell.trim())
                .map(|(_, c)| *c)
        })
        .collect();
    for (name, column) in &COLUMNS {
        let count = columns.iter().filter(|c| **c == Some(*column)).count();
        let optional = matches!(column, Column::Boot | Column::Seq);
        if count > 1 || (count == 0 && !optional) {
            return Err(format!(
                "is no CSV header: {count} columns {name}; expected device,channel,time,value"
            ));
        }
    }
    let usual = COLUMNS[..4].iter().map(|(_, column)| Some(*column));
    Ok(Header {
        usual: columns.iter().copied().eq(usual),
        columns,
    })
}

/// Reads a line of a CSV file.
pub(in crate::try_run) fn csv(header: &Header, text: &str) -> Result<Line, String> {
    let cells = cells(text)?;
    if cells.len() != header.len() {
        let (got, want) = (cells.len(), header.len());
        return Err(format!("has {got} columns where the header has {want}"));
    }
    let cell = |column| header.place(column).map_or("", |at| cells[at].trim());
    let named = |column, name| match cell(column) {
        "" => Err(format!("has no {name}")),
        text => Ok(text.to_owned()),
    };
    let id = match (cell(Column::Boot), cell(Column::Seq)) {
        ("", "") => None,
        ("", _) => return Err("has a seq but no boot".into()),
        (_, "") => return Err("has a boot but no seq".into()),
        (boot, seq) => Some((
            boot.parse()
                .map_or_else(|_| Boot::Text(boot.into()), Boot::Number),
            seq.parse()
                .map_err(|_| format!("has a seq that is no number from 0: {}", cut(seq)))?,
        )),
    };
    Ok(Line::Reading(Reading {
        device: named(Column::Device, "device")?,
        channel: named(Column::Channel, "channel")?,
        time: fields::time(cell(Column::Time))?,
        value: fields::value(cell(Column::Value))?,
        id,
    }))
}

/// Splits a line at its commas; cells may stand in double quotes.
fn cells(text: &str) -> Result<Vec<String>, String> {
    let mut cells = Vec::new();
    let mut rest = text;
    loop {
        let (cell, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted_cell(quoted)?,
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                (rest[..end].to_owned(), &rest[end..])
            }
        };
        cells.push(cell);
        match after.strip_prefix(',') {
            Some(next) => rest = next,
            None if after.is_empty() => return Ok(cells),
            None => return Err("has text after a closing quote".into()),
        }
    }
}

fn quoted_cell(mut rest: &str) -> Result<(String, &str), String> {
    let mut cell = String::new();
    loop {
        let Some(end) = rest.find('"') else {
            return Err("has a quote that does not close".into());
        };
        cell.push_str(&rest[..end]);
        match rest[end + 1..].strip_prefix('"') {
            Some(more) => {
                cell.push('"');
                rest = more;
            }
            None => return Ok((cell, &rest[end + 1..])),
        }
    }
}
