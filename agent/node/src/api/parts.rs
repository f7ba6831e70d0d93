//! Long answers, written piece by piece as the client takes them: columns stay columns
//! until their bytes go out.
//!
//! Bound: about [`PIECE_BYTES`] of text at a time, beside the columns. Knows no question.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use forebay_core::json::{write_number, write_signed, write_unsigned};
use forebay_core::units::EventTime;
use forebay_core::utc;
use tokio::sync::OwnedSemaphorePermit;

use crate::sending::{self, InPieces, PIECE_BYTES};

/// One column of an answer.
#[derive(Debug, Clone)]
pub(super) enum Column {
    /// Event times, us, shown as RFC 3339.
    Times(Vec<i64>),
    /// Event times, us, shown as they are.
    Micros(Vec<i64>),
    /// NaN is none.
    Numbers(Vec<f64>),
    Counts(Vec<u64>),
    Words(Vec<&'static str>),
    /// True from this row on.
    From(usize, usize),
}

impl Column {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Times(times) | Self::Micros(times) => times.len(),
            Self::Numbers(numbers) => numbers.len(),
            Self::Counts(counts) => counts.len(),
            Self::Words(words) => words.len(),
            Self::From(_, len) => *len,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Words(words) => size_of_val(words.as_slice()),
            Self::Times(_) | Self::Micros(_) | Self::Numbers(_) | Self::Counts(_) => 8 * self.len(),
            Self::From(..) => 0,
        }
    }

    fn json(&self, row: usize, out: &mut Vec<u8>) {
        match self {
            Self::Times(times) => utc::write_json(EventTime(times[row]), out),
            Self::Micros(times) => write_signed(times[row], out),
            Self::Numbers(numbers) if numbers[row].is_finite() => write_number(numbers[row], out),
            Self::Numbers(_) => out.extend_from_slice(b"null"),
            Self::Counts(counts) => write_unsigned(counts[row], out),
            // Words of ours: nothing in them is escaped.
            Self::Words(words) => {
                out.push(b'"');
                out.extend_from_slice(words[row].as_bytes());
                out.push(b'"');
            }
            Self::From(first, _) => {
                let is: &[u8] = if row >= *first { b"true" } else { b"false" };
                out.extend_from_slice(is);
            }
        }
    }

    fn csv(&self, row: usize, out: &mut Vec<u8>) {
        match self {
            Self::Times(times) => {
                let at = out.len();
                utc::write_json(EventTime(times[row]), out);
                if out.get(at) == Some(&b'"') {
                    out.remove(at);
                    out.pop();
                }
            }
            Self::Numbers(numbers) if !numbers[row].is_finite() => {}
            Self::Words(words) => out.extend_from_slice(words[row].as_bytes()),
            Self::Micros(_) | Self::Numbers(_) | Self::Counts(_) | Self::From(..) => {
                self.json(row, out);
            }
        }
    }
}

/// A part of an answer.
#[derive(Debug)]
pub(super) enum Part {
    Text(Vec<u8>),
    /// `[1,2,3]`
    Array(Column),
    /// A record of CSV per row; what is the same in all stands before the columns.
    Records(Vec<u8>, Vec<Column>),
    /// JSON objects of the log, with this between them.
    Lines(Vec<Arc<[u8]>>, &'static [u8]),
}

impl Part {
    /// About what it holds.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Array(column) => column.bytes(),
            Self::Records(_, columns) => columns.iter().map(Column::bytes).sum(),
            Self::Lines(lines, _) => lines.iter().map(|line| line.len() + 32).sum(),
        }
    }

    pub(super) fn text(text: impl Into<Vec<u8>>) -> Self {
        Self::Text(text.into())
    }

    /// Writes from `row` on until there is a piece; how far it came, or that it ended.
    fn write(&self, row: usize, out: &mut Vec<u8>) -> Option<usize> {
        let rows = match self {
            Self::Text(text) => {
                out.extend_from_slice(text);
                return None;
            }
            Self::Array(column) => column.len(),
            Self::Records(_, columns) => columns.first().map_or(0, Column::len),
            Self::Lines(lines, _) => lines.len(),
        };
        for at in row..rows {
            if out.len() >= PIECE_BYTES {
                return Some(at);
            }
            self.write_row(at, out);
        }
        if matches!(self, Self::Array(_)) {
            let end: &[u8] = if rows == 0 { b"[]" } else { b"]" };
            out.extend_from_slice(end);
        }
        None
    }

    fn write_row(&self, at: usize, out: &mut Vec<u8>) {
        match self {
            Self::Text(_) => {}
            Self::Array(column) => {
                out.push(if at == 0 { b'[' } else { b',' });
                column.json(at, out);
            }
            Self::Records(before, columns) => {
                out.extend_from_slice(before);
                for column in columns {
                    out.push(b',');
                    column.csv(at, out);
                }
                out.push(b'\n');
            }
            Self::Lines(lines, between) => {
                if at > 0 {
                    out.extend_from_slice(between);
                }
                out.extend_from_slice(&lines[at]);
            }
        }
    }
}

/// An answer, and how far it is written.
#[derive(Debug)]
struct Parts {
    parts: VecDeque<Part>,
    /// In the first of them.
    row: usize,
}

/// The body of an answer, which has to be taken within `time`.
pub(super) fn body(parts: Vec<Part>, time: Duration, held: OwnedSemaphorePermit) -> Body {
    sending::body(Parts::new(parts), time, held)
}

impl Parts {
    fn new(parts: Vec<Part>) -> Self {
        let parts = parts.into();
        Self { parts, row: 0 }
    }
}

impl InPieces for Parts {
    fn piece(&mut self) -> Option<Bytes> {
        let mut out = Vec::with_capacity(PIECE_BYTES + 1024);
        while out.len() < PIECE_BYTES {
            let Some(part) = self.parts.front() else {
                break;
            };
            match part.write(self.row, &mut out) {
                Some(row) => self.row = row,
                None => {
                    self.parts.pop_front();
                    self.row = 0;
                }
            }
        }
        (!out.is_empty()).then(|| out.into())
    }

    fn is_done(&self) -> bool {
        self.parts.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(parts: Vec<Part>) -> (String, usize) {
        let mut all = Vec::new();
        let mut body = Parts::new(parts);
        let mut pieces = 0;
        while let Some(piece) = body.piece() {
            all.extend_from_slice(&piece);
            pieces += 1;
        }
        (String::from_utf8(all).unwrap(), pieces)
    }

    #[test]
    fn each_column_in_both_forms() {
        let nan = f64::NAN;
        let second = 1_000_000;
        for (name, column, json, csv) in [
            (
                "times",
                Column::Times(vec![0, second + 1]),
                "[\"1970-01-01T00:00:00Z\",\"1970-01-01T00:00:01.000001Z\"]",
                "x,1970-01-01T00:00:00Z\nx,1970-01-01T00:00:01.000001Z\n",
            ),
            (
                "far times",
                Column::Times(vec![i64::MAX]),
                "[9223372036854775807]",
                "x,9223372036854775807\n",
            ),
            (
                "micros",
                Column::Micros(vec![-1, 2]),
                "[-1,2]",
                "x,-1\nx,2\n",
            ),
            (
                "numbers",
                Column::Numbers(vec![1.5, nan]),
                "[1.5,null]",
                "x,1.5\nx,\n",
            ),
            ("counts", Column::Counts(vec![7]), "[7]", "x,7\n"),
            ("words", Column::Words(vec!["ok"]), "[\"ok\"]", "x,ok\n"),
            (
                "flags",
                Column::From(1, 2),
                "[false,true]",
                "x,false\nx,true\n",
            ),
            ("none", Column::Counts(Vec::new()), "[]", ""),
        ] {
            let copy = column.clone();
            assert_eq!(whole(vec![Part::Array(column)]).0, json, "{name}");
            let records = Part::Records(b"x".to_vec(), vec![copy]);
            assert_eq!(whole(vec![records]).0, csv, "{name}");
        }
    }

    #[test]
    fn a_long_answer_comes_in_pieces_and_whole() {
        let count = 50_000;
        let parts = vec![
            Part::text("{\"a\":"),
            Part::Array(Column::Counts((0..count).collect())),
            Part::text(",\"b\":["),
            Part::Lines(vec![Arc::from(&b"{}"[..]); 3], b","),
            Part::text("]}"),
        ];
        let (text, pieces) = whole(parts);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["a"].as_array().map(Vec::len), Some(count as usize));
        assert_eq!(value["b"].as_array().map(Vec::len), Some(3));
        assert!(pieces > text.len() / (PIECE_BYTES + 1024), "{pieces}");
    }
}
