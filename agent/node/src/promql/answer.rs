//! Answers and errors in the form of Prometheus's API.
//!
//! Always holds: the text is one object with a `status`. Bound: what the answer holds.

use super::ast::Grid;
use super::data::{Answer, Samples, Series};
use super::error::QueryError;
use super::labels::Labels;
use super::text::{number, quoted, time};

/// What is to be said beside an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Notes {
    /// The answer lacks something.
    pub warnings: Vec<String>,
    /// How it came about.
    pub infos: Vec<String>,
}

/// The body of an error.
#[must_use]
pub fn error(error: &QueryError) -> String {
    let mut out = String::from(r#"{"status":"error","errorType":"#);
    quoted(&mut out, error.class());
    out.push_str(r#","error":"#);
    quoted(&mut out, error.text());
    out.push('}');
    out
}

/// The body around `data`, which is JSON.
#[must_use]
pub fn success(data: &str, notes: &Notes) -> String {
    let mut out = String::with_capacity(data.len() + 64);
    out.push_str(r#"{"status":"success","data":"#);
    out.push_str(data);
    for (name, texts) in [("warnings", &notes.warnings), ("infos", &notes.infos)] {
        if !texts.is_empty() {
            out.push(',');
            quoted(&mut out, name);
            out.push(':');
            list(&mut out, texts, |out, text| quoted(out, text));
        }
    }
    out.push('}');
    out
}

/// The data of a query: of one time a vector, of several a matrix. `None` when it has
/// more than `most` bytes.
#[must_use]
pub fn data(answer: &Answer, grid: Grid, is_range: bool, most: usize) -> Option<String> {
    let mut out = String::new();
    let kind = match (answer, is_range) {
        (Answer::Scalar(_) | Answer::Vector(_), true) | (Answer::Matrix(_), _) => "matrix",
        (Answer::Scalar(_), false) => "scalar",
        (Answer::Vector(_), false) => "vector",
        (Answer::Text(_), _) => "string",
    };
    out.push_str(r#"{"resultType":""#);
    out.push_str(kind);
    out.push_str(r#"","result":"#);
    let first = grid.first * 1000;
    match (answer, is_range) {
        (Answer::Scalar(values), false) => point(&mut out, first, values[0]),
        (Answer::Scalar(values), true) => {
            let series = Series {
                labels: Labels::default(),
                values: values.iter().copied().map(Some).collect(),
            };
            list(&mut out, &[series], |out, one| steps(out, one, grid, most));
        }
        (Answer::Text(text), _) => {
            out.push('[');
            time(&mut out, first);
            out.push(',');
            quoted(&mut out, text);
            out.push(']');
        }
        (Answer::Vector(series), false) => list(&mut out, series, |out, one| {
            metric(out, &one.labels);
            out.push_str(r#","value":"#);
            point(out, first, one.values[0].unwrap_or(f64::NAN));
            out.push('}');
        }),
        (Answer::Vector(series), true) => {
            list(&mut out, series, |out, one| steps(out, one, grid, most))
        }
        (Answer::Matrix(series), _) => list(&mut out, series, |out, one| raw(out, one, most)),
    }
    out.push('}');
    (out.len() <= most).then_some(out)
}

/// Labels of series, as `/series` has them.
#[must_use]
pub fn series(series: &[Labels]) -> String {
    let mut out = String::new();
    list(&mut out, series, labels);
    out
}

/// Strings.
#[must_use]
pub fn texts(texts: &[String]) -> String {
    let mut out = String::new();
    list(&mut out, texts, |out, text| quoted(out, text));
    out
}

/// Stops once there is more than `most`: it is refused then.
fn steps(out: &mut String, series: &Series, grid: Grid, most: usize) {
    if out.len() > most {
        return;
    }
    metric(out, &series.labels);
    out.push_str(r#","values":["#);
    let pairs = grid.times().zip(&series.values);
    let mut is_first = true;
    for (at, value) in pairs {
        if let Some(value) = value {
            if !std::mem::take(&mut is_first) {
                out.push(',');
            }
            point(out, at * 1000, *value);
        }
    }
    out.push_str("]}");
}

fn raw(out: &mut String, samples: &Samples, most: usize) {
    metric(out, &samples.labels);
    out.push_str(r#","values":["#);
    for (index, (at, value)) in samples.times.iter().zip(&samples.values).enumerate() {
        if out.len() > most {
            return;
        }
        if index > 0 {
            out.push(',');
        }
        point(out, *at, *value);
    }
    out.push_str("]}");
}

fn metric(out: &mut String, of: &Labels) {
    out.push_str(r#"{"metric":"#);
    labels(out, of);
}

fn labels(out: &mut String, of: &Labels) {
    out.push('{');
    for (index, (name, value)) in of.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        quoted(out, name);
        out.push(':');
        quoted(out, value);
    }
    out.push('}');
}

fn point(out: &mut String, micros: i64, value: f64) {
    out.push('[');
    time(out, micros);
    out.push_str(",\"");
    number(out, value);
    out.push_str("\"]");
}

fn list<T>(out: &mut String, items: &[T], mut write: impl FnMut(&mut String, &T)) {
    out.push('[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write(out, item);
    }
    out.push(']');
}

#[cfg(test)]
mod tests {
    use super::*;

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
        ] {
            let length = want.len();
            let got = |most: usize| data(&answer, grid, is_range, most);
            assert_eq!(got(length + 1).as_deref(), Some(want));
            assert_eq!(got(length).as_deref(), Some(want), "as long as it may be");
            assert_eq!(got(length - 1), None, "one byte too long");
        }
    }

    #[test]
    fn errors_and_infos_stand_beside_the_data() {
        let wrong = QueryError::BadData("no \"x\"".to_owned());
        assert_eq!(
            error(&wrong),
            r#"{"status":"error","errorType":"bad_data","error":"no \"x\""}"#
        );
        let mut notes = Notes::default();
        assert_eq!(success("[]", &notes), r#"{"status":"success","data":[]}"#);
        notes.infos.push("so".to_owned());
        assert_eq!(
            success("[]", &notes),
            r#"{"status":"success","data":[],"infos":["so"]}"#
        );
    }
}
