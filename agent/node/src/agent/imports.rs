//! Batches of an import as JSON lines, both ways: `forebay ingest` writes them, the
//! agent reads them. A batch names each series once and its readings by number.
//!
//! Bound: [`REQUEST_BYTES_MAX`] and
//! `IMPORT_RECORDS_MAX`, which a [`BatchText`] keeps.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use forebay_core::import::{ImportRecord, ImportRequest, Imported, Refused, SessionNo};
use forebay_core::limits::IMPORT_RECORDS_MAX;
use forebay_core::record::{QUALITIES, quality_name};
use forebay_core::units::EventTime;
use forebay_wire::message::Quality;
use serde_json::{Value, json};

use crate::local::REQUEST_BYTES_MAX;

/// Bytes left for what stands around the series and the records.
const FRAME_BYTES: usize = 128;

type SeriesName = (Arc<str>, Arc<str>, Arc<str>);

/// A batch as it is being written.
#[derive(Debug, Default)]
pub struct BatchText {
    series: BTreeMap<SeriesName, usize>,
    series_text: String,
    records_text: String,
    count: usize,
}

impl BatchText {
    /// Adds a reading; false, and nothing is added, when the batch is full.
    pub fn push(&mut self, record: &ImportRecord) -> bool {
        let name = (
            record.device.clone(),
            record.channel.clone(),
            record.unit.clone(),
        );
        let next = self.series.len();
        let known = self.series.get(&name).copied();
        let series_text = match known {
            Some(_) => String::new(),
            None => json!([&*name.0, &*name.1, &*name.2]).to_string() + ",",
        };
        let text = record_text(known.unwrap_or(next), record);
        let bytes = self.series_text.len() + self.records_text.len();
        let full = bytes + series_text.len() + text.len() + FRAME_BYTES > REQUEST_BYTES_MAX;
        if full || self.count == IMPORT_RECORDS_MAX {
            return false;
        }
        if known.is_none() {
            self.series.insert(name, next);
        }
        self.series_text.push_str(&series_text);
        self.records_text.push_str(&text);
        self.count += 1;
        true
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The request, without a newline.
    #[must_use]
    pub fn finish(self, session: Option<SessionNo>) -> String {
        let session = session.map_or_else(|| String::from("null"), |session| session.0.to_string());
        format!(
            "{{\"import\":{{\"session\":{session},\"series\":[{}],\"records\":[{}]}}}}",
            self.series_text.trim_end_matches(','),
            self.records_text.trim_end_matches(',')
        )
    }
}

fn record_text(series: usize, record: &ImportRecord) -> String {
    let mut text = format!("[{series},{},", record.time.0);
    let mut value = Vec::new();
    forebay_core::json::write_number(record.value, &mut value);
    text.push_str(std::str::from_utf8(&value).expect("a number is ASCII"));
    if record.quality != Quality::Ok {
        let _ = write!(text, ",\"{}\"", quality_name(record.quality));
    }
    text.push_str("],");
    text
}

/// The request that ends a session.
#[must_use]
pub fn end(session: SessionNo) -> Value {
    json!({ "import_end": session.0 })
}

/// Whether a request is about an import.
#[must_use]
pub fn is_import(request: &Value) -> bool {
    request.get("import").is_some() || request.get("import_end").is_some()
}

/// Reads a request.
///
/// # Errors
/// A sentence that names the member that is missing or wrong.
pub fn read(request: &Value) -> Result<ImportRequest, String> {
    if let Some(session) = request.get("import_end") {
        return session_no(session).map(ImportRequest::End);
    }
    let batch = &request["import"];
    let session = batch.get("session").filter(|session| !session.is_null());
    let session = session.map(session_no).transpose()?;
    let list = |name: &str| {
        let list = batch[name].as_array();
        list.ok_or_else(|| format!("\"{name}\" is missing, or is no list"))
    };
    let series: Result<Vec<_>, _> = list("series")?.iter().map(series).collect();
    let series = series?;
    let records = list("records")?;
    let records: Result<Vec<_>, _> = records.iter().map(|item| record(item, &series)).collect();
    Ok(ImportRequest::Batch {
        session,
        records: records?,
    })
}

fn session_no(value: &Value) -> Result<SessionNo, String> {
    let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
    number
        .map(SessionNo)
        .ok_or_else(|| String::from("an import's session must be a number that an answer gave"))
}

fn series(item: &Value) -> Result<[&str; 3], String> {
    let cell = |at: usize| item[at].as_str();
    match (cell(0), cell(1), cell(2)) {
        (Some(device), Some(channel), Some(unit)) => Ok([device, channel, unit]),
        _ => Err(format!(
            "a series must be [device, channel, unit], not {item}"
        )),
    }
}

fn record(item: &Value, series: &[[&str; 3]]) -> Result<ImportRecord, String> {
    let wrong = || format!("a record must be [series, time_us, value, quality], not {item}");
    let place = item[0].as_u64().and_then(|n| usize::try_from(n).ok());
    let [device, channel, unit] = place.and_then(|n| series.get(n)).ok_or_else(wrong)?;
    let time = item[1].as_i64().ok_or_else(wrong)?;
    let value = item[2].as_f64().ok_or_else(wrong)?;
    let quality = match item.get(3) {
        None => Quality::Ok,
        Some(name) => {
            let known = QUALITIES.iter().find(|(_, known)| name == known);
            known.map(|(quality, _)| *quality).ok_or_else(wrong)?
        }
    };
    let value = (quality == Quality::Ok).then_some(value);
    let record = ImportRecord::new(device, channel, unit, EventTime(time), value, quality);
    record.map_err(|why| format!("a record {why}"))
}

/// An answer as the client reads it with [`read_answer`].
#[must_use]
pub fn write_answer(imported: &Imported) -> Value {
    let mut reasons: Vec<&str> = Vec::new();
    let mut refused = Vec::new();
    for Refused { index, why } in &imported.refused {
        // The same reason comes many times in a row, or one of few.
        let known = reasons.iter().position(|reason| *reason == &**why);
        let place = known.unwrap_or_else(|| {
            reasons.push(why);
            reasons.len() - 1
        });
        refused.push(json!([index, place]));
    }
    json!({
        "session": imported.session.0,
        "taken": imported.taken,
        "reasons": reasons,
        "refused": refused,
    })
}

/// Reads an answer.
///
/// # Errors
/// When it is none.
pub fn read_answer(answer: &Value) -> Result<Imported, String> {
    let wrong = || format!("this is no answer to an import: {answer}");
    let reasons = answer["reasons"].as_array().ok_or_else(wrong)?;
    let reasons: Option<Vec<Arc<str>>> = reasons
        .iter()
        .map(|reason| reason.as_str().map(Arc::from))
        .collect();
    let reasons = reasons.ok_or_else(wrong)?;
    let refused = answer["refused"].as_array().ok_or_else(wrong)?;
    let refused = refused.iter().map(|item| {
        let index = item[0].as_u64().and_then(|n| u32::try_from(n).ok())?;
        let place = item[1].as_u64().and_then(|n| usize::try_from(n).ok())?;
        let why = reasons.get(place)?.clone();
        Some(Refused { index, why })
    });
    Ok(Imported {
        session: session_no(&answer["session"])?,
        taken: answer["taken"].as_u64().ok_or_else(wrong)?,
        refused: refused.collect::<Option<_>>().ok_or_else(wrong)?,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record_of(n: i64, value: f64, quality: Quality) -> ImportRecord {
        let value = (quality == Quality::Ok).then_some(value);
        let device = format!("d{}", n % 3);
        ImportRecord::new(&device, "a\"b", "°C", EventTime(n), value, quality).expect("good")
    }

    fn finite() -> impl Strategy<Value = f64> {
        any::<f64>().prop_filter("readings are finite", |value| value.is_finite())
    }

    proptest! {
        #[test]
        fn a_batch_reads_back(values in prop::collection::vec((finite(), 0..7_usize), 0..40)) {
            let mut batch = BatchText::default();
            let records: Vec<_> = values
                .iter()
                .zip(0..)
                .map(|((value, quality), n)| record_of(n, *value, QUALITIES[*quality].0))
                .collect();
            for record in &records {
                prop_assert!(batch.push(record));
            }
            let text = batch.finish(Some(SessionNo(3)));
            let request: Value = serde_json::from_str(&text).expect("JSON");
            let Ok(ImportRequest::Batch { session, records: read }) = super::read(&request) else {
                panic!("{text}");
            };
            prop_assert_eq!(session, Some(SessionNo(3)));
            prop_assert_eq!(read, records);
        }
    }

    #[test]
    fn a_batch_keeps_within_a_request() {
        let mut batch = BatchText::default();
        let mut pushed = 0;
        while batch.push(&record_of(i64::from(pushed) << 40, 0.1 + 0.2, Quality::Ok)) {
            pushed += 1;
        }
        assert!(batch.len() <= IMPORT_RECORDS_MAX);
        // The newline belongs to the request.
        assert!(batch.finish(Some(SessionNo(u32::MAX))).len() < REQUEST_BYTES_MAX);
        let mut batch = BatchText::default();
        let small = (0..).take_while(|_| batch.push(&record_of(0, 1.0, Quality::Ok)));
        assert_eq!(small.count(), IMPORT_RECORDS_MAX);
    }

    #[test]
    fn answers_read_back() {
        let refused = |index, why: &str| Refused {
            index,
            why: why.into(),
        };
        let imported = Imported {
            session: SessionNo(7),
            taken: 5,
            refused: vec![refused(0, "a"), refused(3, "b"), refused(4, "a")],
        };
        assert_eq!(read_answer(&write_answer(&imported)), Ok(imported));
        assert!(read_answer(&json!({})).is_err());
    }

    #[test]
    fn bad_requests_are_told_what_is_wrong() {
        for (request, word) in [
            (json!({"import": {}}), "\"series\""),
            (
                json!({"import": {"series": [], "records": 1}}),
                "\"records\"",
            ),
            (
                json!({"import": {"series": [1], "records": []}}),
                "a series",
            ),
            (
                json!({"import": {"series": [], "records": [[0, 1, 2]]}}),
                "a record",
            ),
            (
                json!({"import": {"session": "x", "series": [], "records": []}}),
                "session",
            ),
            (json!({"import_end": -1}), "session"),
            (
                json!({"import": {"series": [["", "c", ""]], "records": [[0, 1, 2]]}}),
                "no device",
            ),
        ] {
            let error = read(&request).expect_err(word);
            assert!(error.contains(word), "{error}");
        }
    }
}
