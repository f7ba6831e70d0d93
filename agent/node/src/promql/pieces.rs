//! The answer to a query, written piece by piece as the client takes it: values stay
//! values until their text goes out.
//!
//! Always holds: the pieces together are one object in Prometheus's form, the kind of the
//! result before the result. Bound: about [`PIECE_BYTES`] of text at a time, beside the
//! values. Knows no query.

use bytes::Bytes;

use super::answer::{Notes, metric, notes_after, point};
use super::ast::Grid;
use super::data::{Answer, Samples, Series};
use super::labels::Labels;
use super::text::{quoted, time};
use crate::sending::{InPieces, PIECE_BYTES};

/// An answer, and how far it is written.
#[derive(Debug)]
pub struct Pieces {
    answer: Answer,
    /// Of one time: a vector, not a matrix.
    is_instant: bool,
    grid: Grid,
    notes: Notes,
    next: Next,
}

/// What is written next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Head,
    Series(usize),
    /// Of this series this value; whether one stands before it.
    Value(usize, usize, bool),
    Tail,
    Nothing,
}

impl Pieces {
    /// The answer to a query of one time, or of the steps of a range.
    #[must_use]
    pub fn new(answer: Answer, grid: Grid, is_range: bool, notes: Notes) -> Self {
        let answer = match answer {
            Answer::Scalar(values) if is_range => Answer::Vector(vec![Series {
                labels: Labels::default(),
                values: values.into_iter().map(Some).collect(),
            }]),
            answer @ (Answer::Scalar(_)
            | Answer::Text(_)
            | Answer::Vector(_)
            | Answer::Matrix(_)) => answer,
        };
        Self {
            answer,
            is_instant: !is_range,
            grid,
            notes,
            next: Next::Head,
        }
    }

    /// About what it holds, bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let values: usize = match &self.answer {
            Answer::Scalar(values) => size_of_val(values.as_slice()),
            Answer::Text(text) => text.len(),
            Answer::Vector(series) => series
                .iter()
                .map(|one| size_of::<Series>() + size_of_val(one.values.as_slice()))
                .sum(),
            Answer::Matrix(series) => series
                .iter()
                .map(|one| size_of::<Samples>() + 2 * size_of_val(one.values.as_slice()))
                .sum(),
        };
        size_of::<Self>() + values
    }

    /// The next piece; `None` behind the last.
    pub fn piece(&mut self) -> Option<String> {
        if self.next == Next::Nothing {
            return None;
        }
        let mut out = String::new();
        while out.len() < PIECE_BYTES && self.next != Next::Nothing {
            self.next = self.write(&mut out);
        }
        Some(out)
    }

    /// Whether all is written.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.next == Next::Nothing
    }

    fn write(&self, out: &mut String) -> Next {
        match self.next {
            Next::Head => self.head(out),
            Next::Series(index) => self.series(index, out),
            Next::Value(index, from, any) => self.values((index, from, any), out),
            Next::Tail => {
                out.push('}');
                notes_after(out, &self.notes);
                out.push('}');
                Next::Nothing
            }
            Next::Nothing => Next::Nothing,
        }
    }

    fn head(&self, out: &mut String) -> Next {
        let kind = match &self.answer {
            Answer::Vector(_) if self.is_instant => "vector",
            Answer::Vector(_) | Answer::Matrix(_) => "matrix",
            Answer::Scalar(_) => "scalar",
            Answer::Text(_) => "string",
        };
        out.push_str(r#"{"status":"success","data":{"resultType":""#);
        out.push_str(kind);
        out.push_str(r#"","result":"#);
        let first = self.grid.first * 1000;
        match &self.answer {
            Answer::Scalar(values) => {
                point(out, first, values.first().copied().unwrap_or(f64::NAN));
                Next::Tail
            }
            Answer::Text(text) => {
                out.push('[');
                time(out, first);
                out.push(',');
                quoted(out, text);
                out.push(']');
                Next::Tail
            }
            Answer::Vector(_) | Answer::Matrix(_) => {
                out.push('[');
                Next::Series(0)
            }
        }
    }

    fn series(&self, index: usize, out: &mut String) -> Next {
        let labels = match &self.answer {
            Answer::Vector(series) => series.get(index).map(|one| &one.labels),
            Answer::Matrix(series) => series.get(index).map(|one| &one.labels),
            Answer::Scalar(_) | Answer::Text(_) => None,
        };
        let Some(labels) = labels else {
            out.push(']');
            return Next::Tail;
        };
        if index > 0 {
            out.push(',');
        }
        metric(out, labels);
        if let (Answer::Vector(series), true) = (&self.answer, self.is_instant) {
            let value = series[index].values.first().copied().flatten();
            out.push_str(r#","value":"#);
            point(out, self.grid.first * 1000, value.unwrap_or(f64::NAN));
            out.push('}');
            return Next::Series(index + 1);
        }
        out.push_str(r#","values":["#);
        Next::Value(index, 0, false)
    }

    /// Values of a series from a place on, until there is a piece.
    fn values(&self, (index, from, mut any): (usize, usize, bool), out: &mut String) -> Next {
        let count = match &self.answer {
            Answer::Vector(series) => series[index].values.len(),
            Answer::Matrix(series) => series[index].times.len(),
            Answer::Scalar(_) | Answer::Text(_) => 0,
        };
        for place in from..count {
            if out.len() >= PIECE_BYTES {
                return Next::Value(index, place, any);
            }
            let Some((at, value)) = self.value(index, place) else {
                continue;
            };
            if std::mem::replace(&mut any, true) {
                out.push(',');
            }
            point(out, at, value);
        }
        out.push_str("]}");
        Next::Series(index + 1)
    }

    /// Time in microseconds, and value, where there is one.
    fn value(&self, index: usize, place: usize) -> Option<(i64, f64)> {
        match &self.answer {
            Answer::Vector(series) => {
                let value = series[index].values[place]?;
                Some((self.grid.time(place) * 1000, value))
            }
            Answer::Matrix(series) => {
                Some((series[index].times[place], series[index].values[place]))
            }
            Answer::Scalar(_) | Answer::Text(_) => None,
        }
    }
}

impl InPieces for Pieces {
    fn piece(&mut self) -> Option<Bytes> {
        Self::piece(self).map(Bytes::from)
    }

    fn is_done(&self) -> bool {
        Self::is_done(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(mut pieces: Pieces) -> (String, usize) {
        let (mut all, mut count) = (String::new(), 0);
        while let Some(piece) = pieces.piece() {
            assert!(piece.len() < PIECE_BYTES + 256, "{}", piece.len());
            all.push_str(&piece);
            count += 1;
        }
        assert!(pieces.is_done());
        (all, count)
    }

    fn one(values: Vec<Option<f64>>) -> Answer {
        Answer::Vector(vec![Series {
            labels: Labels::of([("__name__", "x"), ("a", "b")]),
            values,
        }])
    }

    #[test]
    fn answers_have_prometheuss_form() {
        let steps = Grid {
            first: 1000,
            step: 500,
            count: 3,
        };
        let samples = Samples {
            labels: Labels::of([("a", "b")]),
            times: vec![1, 2_000_000],
            values: vec![0.5, 1.0],
        };
        for (answer, grid, is_range, want) in [
            (
                one(vec![Some(1.5)]),
                Grid::at(1500),
                false,
                r#"{"resultType":"vector","result":[{"metric":{"__name__":"x","a":"b"},"value":[1.500,"1.5"]}]}"#,
            ),
            (
                one(vec![Some(1.0), None, Some(2.0)]),
                steps,
                true,
                r#"{"resultType":"matrix","result":[{"metric":{"__name__":"x","a":"b"},"values":[[1,"1"],[2,"2"]]}]}"#,
            ),
            (
                one(vec![None, None, Some(2.0)]),
                steps,
                true,
                r#"{"resultType":"matrix","result":[{"metric":{"__name__":"x","a":"b"},"values":[[2,"2"]]}]}"#,
            ),
            (
                Answer::Vector(vec![]),
                Grid::at(0),
                false,
                r#"{"resultType":"vector","result":[]}"#,
            ),
            (
                Answer::Scalar(vec![3.0]),
                Grid::at(0),
                false,
                r#"{"resultType":"scalar","result":[0,"3"]}"#,
            ),
            (
                Answer::Scalar(vec![3.0]),
                Grid::at(0),
                true,
                r#"{"resultType":"matrix","result":[{"metric":{},"values":[[0,"3"]]}]}"#,
            ),
            (
                Answer::Text("a\"b".to_owned()),
                Grid::at(0),
                false,
                r#"{"resultType":"string","result":[0,"a\"b"]}"#,
            ),
            (
                Answer::Matrix(vec![]),
                Grid::at(0),
                false,
                r#"{"resultType":"matrix","result":[]}"#,
            ),
            (
                Answer::Matrix(vec![samples]),
                Grid::at(0),
                false,
                r#"{"resultType":"matrix","result":[{"metric":{"a":"b"},"values":[[0.000001,"0.5"],[2,"1"]]}]}"#,
            ),
        ] {
            let got = whole(Pieces::new(answer, grid, is_range, Notes::default())).0;
            assert_eq!(got, format!(r#"{{"status":"success","data":{want}}}"#));
        }
        let notes = Notes {
            warnings: vec!["w".to_owned()],
            infos: vec!["so".to_owned()],
        };
        let got = whole(Pieces::new(Answer::Vector(vec![]), steps, true, notes)).0;
        let end = r#""result":[]},"warnings":["w"],"infos":["so"]}"#;
        assert!(got.ends_with(end), "{got}");
    }

    fn long() -> Pieces {
        let count = 30_000;
        let grid = Grid {
            first: 0,
            step: 1000,
            count,
        };
        let values = |of: usize| (0..count).map(move |n| (n % of != 1).then_some(n as f64));
        let series = |name: &str, of| Series {
            labels: Labels::of([("a", name)]),
            values: values(of).collect(),
        };
        let answer = Answer::Vector(vec![series("one", 2), series("two", 3)]);
        Pieces::new(answer, grid, true, Notes::default())
    }

    #[test]
    fn a_long_answer_comes_in_pieces_and_whole() {
        let (text, pieces) = whole(long());
        assert!(pieces > text.len() / (PIECE_BYTES + 256), "{pieces}");
        let body: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
        let values = |index: usize| body["data"]["result"][index]["values"].as_array();
        let first = values(0).expect("a list");
        assert_eq!(first.len(), 15_000);
        assert_eq!(first[14_999], serde_json::json!([29_998, "29998"]));
        assert_eq!(values(1).expect("a list").len(), 20_000);
    }
}
