//! Questions about the rows of a sink: of the running receiver through its socket, or of
//! one that is stopped.
//!
//! Bound: [`ROWS_MAX`] rows and [`ANSWER_BYTES`] bytes of an answer, a question at a time.

use forebay_core::payload::{GatewayName, StreamName};
use forebay_core::query::{Answer, Reply};
use forebay_core::units::EventTime;
use forebay_wire::ids::DeviceUid;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::sink::{RowFilter, Sink};
use super::verify::verify;
use crate::shell::{sheets, width};

/// Rows of one answer.
pub(super) const ROWS_MAX: usize = 10_000;
/// Rows of one answer have so many bytes, and one row more.
const ANSWER_BYTES: usize = 4 * 1024 * 1024;

/// Which rows, and how many at the most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RowQuery {
    pub(super) filter: RowFilter,
    pub(super) limit: usize,
}

impl RowQuery {
    /// The question as it goes through the socket.
    pub(super) fn to_json(&self) -> Value {
        let filter = &self.filter;
        json!({ "rows": {
            "gateway": filter.gateway.as_ref().map(GatewayName::as_str),
            "stream": filter.stream.as_ref().map(StreamName::as_str),
            "device": filter.device.map(|device| device.to_string()),
            "channel": filter.channel,
            "from": filter.from.map(|time| time.0),
            "to": filter.to.map(|time| time.0),
            "limit": self.limit,
        }})
    }

    /// Reads such a question.
    fn from_json(about: &Value) -> Result<Self, String> {
        let text = |key: &str| about[key].as_str();
        let time = |key: &str| about[key].as_i64().map(EventTime);
        let device = text("device").map(device).transpose()?;
        let filter = RowFilter {
            gateway: text("gateway").map(gateway).transpose()?,
            stream: text("stream").map(stream).transpose()?,
            device,
            channel: text("channel").map(str::to_owned),
            from: time("from"),
            to: time("to"),
        };
        let limit = about["limit"]
            .as_u64()
            .and_then(|n| usize::try_from(n).ok());
        let limit = limit.unwrap_or(ROWS_MAX).min(ROWS_MAX);
        Ok(Self { filter, limit })
    }

    /// The rows as JSON texts, and whether there are more.
    ///
    /// # Errors
    /// A sentence: what of the sink cannot be read.
    pub(super) fn ask(&self, sink: &mut dyn Sink) -> Result<Value, String> {
        let mut rows = Vec::new();
        let mut bytes = 0;
        let mut more = false;
        let limit = self.limit.min(ROWS_MAX);
        let done = sink.rows(&self.filter, &mut |row| {
            if rows.len() >= limit || bytes >= ANSWER_BYTES {
                more = true;
                return false;
            }
            let mut line = Vec::new();
            row.push_line(&mut line);
            bytes += line.len();
            rows.push(String::from_utf8_lossy(&line).into_owned());
            true
        });
        done.map_err(|error| error.to_string())?;
        Ok(json!({ "rows": rows, "more": more }))
    }
}

pub(super) fn gateway(text: &str) -> Result<GatewayName, String> {
    GatewayName::new(text).map_err(|error| error.to_string())
}

pub(super) fn stream(text: &str) -> Result<StreamName, String> {
    StreamName::new(text).map_err(|error| error.to_string())
}

/// Sixteen hex digits.
pub(super) fn device(text: &str) -> Result<DeviceUid, String> {
    let is_hex = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let uid = is_hex.then(|| u64::from_str_radix(text, 16).ok()).flatten();
    uid.map(|uid| DeviceUid(uid.to_be_bytes()))
        .ok_or_else(|| String::from("must be the 16 hex digits of a device, as rows show them"))
}

/// A question that only who holds the sink can answer.
#[derive(Debug)]
pub(super) struct SinkQuestion {
    pub(super) request: Value,
    pub(super) answer: oneshot::Sender<Answer>,
}

impl SinkQuestion {
    /// Whether a request is such a question.
    pub(super) fn is(request: &Value) -> bool {
        request.get("rows").is_some() || request.get("verify").is_some()
    }

    /// Answers it; takes as long as the sink needs to be read.
    pub(super) fn answer(self, sink: &mut dyn Sink) {
        let answer = match self.request.get("rows") {
            Some(about) => RowQuery::from_json(about).and_then(|query| query.ask(sink)),
            None => verified(&self.request["verify"], sink),
        };
        // Who asked may have gone away.
        let _ = self.answer.send(answer.map(Reply::from));
    }
}

fn verified(about: &Value, sink: &mut dyn Sink) -> Result<Value, String> {
    let of = about["gateway"].as_str().map(gateway).transpose()?;
    let report = verify(sink, of.as_ref()).map_err(|error| error.to_string())?;
    Ok(report.to_json())
}

/// The answer with its rows read.
pub(super) fn read(answer: &Value) -> Value {
    let rows = answer["rows"].as_array().into_iter().flatten();
    let rows = rows.filter_map(Value::as_str);
    let rows = rows.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    json!({ "rows": rows.collect::<Value>() })
}

/// Rows of an answer as a table for a person; what is no reading stands below it.
pub(super) fn text(answer: &Value) -> String {
    let rows = answer["rows"].as_array().into_iter().flatten();
    let lines = rows.filter_map(Value::as_str);
    let mut readings = Vec::new();
    let mut others = Vec::new();
    for line in lines {
        match serde_json::from_str::<Value>(line) {
            Ok(row) if row["record"].get("ordinal").is_some() => readings.push(row),
            Ok(_) | Err(_) => others.push(width::clean(line)),
        }
    }
    let mut out = Vec::new();
    if !readings.is_empty() || others.is_empty() {
        out.push(sheets::UPSTREAM_ROWS.text(&json!({ "rows": readings })));
    }
    out.extend(others);
    if answer["more"] == true {
        out.push(String::from(
            "there are more: raise --limit, or ask for less",
        ));
    }
    out.join("\n")
}
