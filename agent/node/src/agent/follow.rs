//! Questions for changes of a stream as JSON lines, both ways. What the answer has:
//! `agent/node/docs/views.md`.

use forebay_core::follow::{FollowFrom, FollowRequest, place_text};
use forebay_core::limits::{FOLLOW_LINES_MAX, FOLLOW_WAIT_MAX_US};
use forebay_core::units::{Span, TopicId};
use serde_json::{Value, json};

use super::questions::text;

/// A question as the agent reads it with [`read`].
pub(super) fn write(request: &FollowRequest) -> Value {
    let from = match &request.from {
        FollowFrom::Beginning => String::from("beginning"),
        FollowFrom::Now => String::from("now"),
        FollowFrom::At(at) => place_text(at),
    };
    json!({
        "query": "changes",
        "stream": request.stream,
        "table": request.table,
        "topic": request.topic.map(|topic| topic.0),
        "from": from,
        "max": request.lines_max,
        "wait_us": request.wait.0,
    })
}

/// Reads one: only `stream` has to be there.
///
/// # Errors
/// A sentence that names the member that is wrong.
pub(super) fn read(request: &Value) -> Result<FollowRequest, String> {
    let given = |name: &str| request.get(name).filter(|value| !value.is_null());
    let number = |name: &str, range: std::ops::RangeInclusive<u64>, default: u64| {
        let Some(value) = given(name) else {
            return Ok(default);
        };
        let number = value.as_u64().filter(|number| range.contains(number));
        let (first, last) = (range.start(), range.end());
        number.ok_or_else(|| format!("\"{name}\" must be an integer from {first} to {last}"))
    };
    let topic = match given("topic") {
        None => None,
        Some(_) => Some(number("topic", 0..=u64::from(u16::MAX), 0)?),
    };
    let lines_max = number("max", 1..=FOLLOW_LINES_MAX as u64, FOLLOW_LINES_MAX as u64)?;
    let wait = number("wait_us", 0..=FOLLOW_WAIT_MAX_US.unsigned_abs(), 0)?;
    let from = match given("from") {
        None => FollowFrom::Now,
        Some(_) => FollowFrom::parse(&text(request, "from")?)?,
    };
    let table = match given("table") {
        None => None,
        Some(_) => Some(text(request, "table")?),
    };
    Ok(FollowRequest {
        stream: text(request, "stream")?,
        table,
        topic: topic
            .and_then(|topic| u16::try_from(topic).ok())
            .map(TopicId),
        from,
        lines_max: usize::try_from(lines_max).unwrap_or(FOLLOW_LINES_MAX),
        wait: Span(i64::try_from(wait).unwrap_or(FOLLOW_WAIT_MAX_US)),
    })
}
