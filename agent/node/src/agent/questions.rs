//! Questions to a running agent as JSON lines, both ways: the command line writes
//! them, the agent reads them.

use forebay_core::query::{ChannelName, ChannelQuery, Query, TimeRange};
use forebay_core::units::{EventTime, Span};
use serde_json::{Value, json};

use super::device_questions::{self, DeviceQuestion};
use super::follow;

/// Largest window or bucket that can be asked for: ten years, us.
pub(crate) const SIZE_US_MAX: i64 = 10 * 366 * 86_400 * 1_000_000;

/// A question as the agent reads it with [`read`].
#[must_use]
pub fn write(query: &Query) -> Value {
    match query {
        Query::Status => json!({ "query": "status" }),
        // A receiver and an agent of before tell all, which is more and not less.
        Query::Summary => json!({ "query": "status", "devices": false }),
        Query::DeadLetters => json!({ "query": "dead_letters" }),
        Query::RetryDeadLetters { destination } => {
            json!({ "query": "retry_dead_letters", "destination": destination })
        }
        Query::Tables => json!({ "query": "tables" }),
        Query::Table { table, key, at } => json!({
            "query": "table",
            "table": table,
            "key": key,
            "at_us": at.map(|time| time.0),
        }),
        Query::TableHistory { table, key } => {
            json!({ "query": "table_history", "table": table, "key": key })
        }
        Query::Channel(channel, query) => of_channel(channel, *query),
        Query::Follow(request) => follow::write(request),
        Query::Views => json!({ "query": "views" }),
        Query::RebuildView { name, from } => {
            json!({ "query": "rebuild_view", "name": name, "from_us": from.map(|time| time.0) })
        }
        Query::DropView { stream } => json!({ "query": "drop_view", "stream": stream }),
    }
}

fn of_channel(channel: &ChannelName, query: ChannelQuery) -> Value {
    match query {
        ChannelQuery::Rolling { size } => {
            let mut request = about("rolling", channel);
            request["size_us"] = json!(size.0);
            request
        }
        ChannelQuery::Rollup { size, range } => {
            let mut request = about("rollup", channel);
            request["size_us"] = json!(size.0);
            with_range(request, range)
        }
        ChannelQuery::Readings { range } => with_range(about("readings", channel), range),
    }
}

fn about(query: &str, channel: &ChannelName) -> Value {
    json!({ "query": query, "device": channel.device, "channel": channel.channel })
}

fn with_range(mut request: Value, range: TimeRange) -> Value {
    request["from_us"] = json!(range.from.map(|time| time.0));
    request["to_us"] = json!(range.to.map(|time| time.0));
    request
}

/// What is asked: of readings and the agent, or of devices.
#[derive(Debug, Clone, PartialEq)]
pub enum Question {
    Query(Query),
    Device(DeviceQuestion),
}

/// Reads a question.
///
/// # Errors
/// A sentence that names the member that is missing or wrong.
pub fn read(request: &Value) -> Result<Question, String> {
    let query = text(request, "query")?;
    match device_questions::read(&query, request) {
        Some(question) => question.map(Question::Device),
        None => read_query(&query, request).map(Question::Query),
    }
}

fn read_query(query: &str, request: &Value) -> Result<Query, String> {
    match query {
        "status" if request["devices"] == false => Ok(Query::Summary),
        "status" => Ok(Query::Status),
        "dead_letters" => Ok(Query::DeadLetters),
        "retry_dead_letters" => Ok(Query::RetryDeadLetters {
            destination: match request.get("destination") {
                None | Some(Value::Null) => None,
                Some(_) => Some(text(request, "destination")?),
            },
        }),
        "tables" => Ok(Query::Tables),
        "table" => Ok(Query::Table {
            table: text(request, "table")?,
            key: match request.get("key") {
                None | Some(Value::Null) => None,
                Some(_) => Some(text(request, "key")?),
            },
            at: time(request, "at_us")?,
        }),
        "table_history" => Ok(Query::TableHistory {
            table: text(request, "table")?,
            key: text(request, "key")?,
        }),
        "rolling" => {
            let size = size(request)?;
            Ok(Query::Channel(
                channel(request)?,
                ChannelQuery::Rolling { size },
            ))
        }
        "rollup" => {
            let (size, range) = (size(request)?, range(request)?);
            let query = ChannelQuery::Rollup { size, range };
            Ok(Query::Channel(channel(request)?, query))
        }
        "views" => Ok(Query::Views),
        "rebuild_view" => Ok(Query::RebuildView {
            name: text(request, "name")?,
            from: range(request)?.from,
        }),
        "drop_view" => Ok(Query::DropView {
            stream: text(request, "stream")?,
        }),
        "changes" => follow::read(request).map(Query::Follow),
        "readings" => {
            let range = range(request)?;
            Ok(Query::Channel(
                channel(request)?,
                ChannelQuery::Readings { range },
            ))
        }
        other => Err(format!(
            "no query is called \"{other}\": there are status, dead_letters, retry_dead_letters, tables, table, table_history, rolling, rollup, readings, changes, views, rebuild_view, drop_view, {}",
            device_questions::NAMES
        )),
    }
}

pub(super) fn text(request: &Value, name: &str) -> Result<String, String> {
    let text = request.get(name).and_then(Value::as_str);
    text.map(String::from)
        .ok_or_else(|| format!("\"{name}\" is missing, or is no text"))
}

fn channel(request: &Value) -> Result<ChannelName, String> {
    Ok(ChannelName {
        device: text(request, "device")?,
        channel: text(request, "channel")?,
    })
}

fn size(request: &Value) -> Result<Span, String> {
    let size = request.get("size_us").and_then(Value::as_i64);
    let inside = |size: &i64| (1..=SIZE_US_MAX).contains(size);
    size.filter(inside)
        .map(Span)
        .ok_or_else(|| format!("\"size_us\" must be an integer from 1 to {SIZE_US_MAX}"))
}

/// A time that may be missing.
fn time(request: &Value, name: &str) -> Result<Option<EventTime>, String> {
    match request.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => value
            .as_i64()
            .map(|us| Some(EventTime(us)))
            .ok_or_else(|| format!("\"{name}\" must be an integer of microseconds")),
    }
}

fn range(request: &Value) -> Result<TimeRange, String> {
    let (from, to) = (time(request, "from_us")?, time(request, "to_us")?);
    if let (Some(from), Some(to)) = (from, to)
        && from >= to
    {
        return Err(String::from("\"from_us\" must be before \"to_us\""));
    }
    Ok(TimeRange { from, to })
}

#[cfg(test)]
mod tests {
    use forebay_core::follow::{FollowFrom, FollowRequest};
    use forebay_core::units::{Offset, PartitionId, TopicId};

    use super::*;

    #[test]
    fn what_is_written_reads_back() {
        let channel = ChannelName {
            device: "boiler".into(),
            channel: "temperature".into(),
        };
        let range = TimeRange {
            from: Some(EventTime(-5)),
            to: None,
        };
        for query in [
            Query::Status,
            Query::Summary,
            Query::DeadLetters,
            Query::RetryDeadLetters { destination: None },
            Query::RetryDeadLetters {
                destination: Some(String::from("cloud")),
            },
            Query::Channel(channel.clone(), ChannelQuery::Rolling { size: Span(1) }),
            Query::Channel(
                channel.clone(),
                ChannelQuery::Rollup {
                    size: Span(SIZE_US_MAX),
                    range,
                },
            ),
            Query::Channel(channel, ChannelQuery::Readings { range }),
            Query::Views,
            Query::RebuildView {
                name: String::from("temp_1m"),
                from: Some(EventTime(5)),
            },
            Query::DropView {
                stream: String::from("temp_1m.1"),
            },
            Query::Tables,
            Query::Table {
                table: String::from("sites"),
                key: None,
                at: None,
            },
            Query::Table {
                table: String::from("sites"),
                key: Some(String::from("d1")),
                at: Some(EventTime(-1)),
            },
            Query::TableHistory {
                table: String::from("sites"),
                key: String::from("d1"),
            },
            Query::Follow(FollowRequest {
                stream: String::from("temp_1m"),
                table: Some(String::from("sites")),
                topic: Some(TopicId(17)),
                from: FollowFrom::At([(PartitionId(1), Offset(7))].into()),
                lines_max: 3,
                wait: Span(5),
            }),
        ] {
            assert_eq!(read(&write(&query)), Ok(Question::Query(query)));
        }
    }

    #[test]
    fn bad_questions_are_told_what_is_wrong() {
        let rollup = |name: &str, value: Value| {
            let mut request = json!({
                "query": "rollup", "device": "d", "channel": "c", "size_us": 1,
                "from_us": 0, "to_us": 1
            });
            request[name] = value;
            read(&request)
        };
        for (name, value, word) in [
            ("query", json!("nonsense"), "no query"),
            ("query", json!(7), "\"query\""),
            ("device", json!(null), "\"device\""),
            ("size_us", json!(0), "\"size_us\""),
            ("size_us", json!(SIZE_US_MAX + 1), "\"size_us\""),
            ("from_us", json!("x"), "\"from_us\""),
            ("from_us", json!(1), "before"),
        ] {
            let error = rollup(name, value).expect_err(name);
            assert!(error.contains(word), "{error}");
        }
    }
}
