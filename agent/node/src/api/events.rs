//! Changes of a stream as events: which ones a client wants, and their text.

use std::collections::BTreeSet;
use std::io::Write as _;

use forebay_core::json::write_text;
use forebay_core::near::{did_you_mean_name, listed};
use forebay_core::query::Names;
use serde::Deserialize;
use serde_json::Value;

use super::channels::LISTED_MAX;
use super::given::Given;
use super::names::named;
use super::places::{Place, id};
use super::problem::{Kind, Problem, shown};

/// The stream that can be narrowed.
const READINGS: &str = "readings";

/// Which readings a client wants.
#[derive(Debug, Default)]
pub(super) struct Narrow {
    /// By uid; none: all.
    devices: BTreeSet<String>,
    channels: BTreeSet<String>,
}

/// What of a line says whether it is wanted.
#[derive(Deserialize)]
struct Line<'a> {
    device: std::borrow::Cow<'a, str>,
    channel: Option<std::borrow::Cow<'a, str>>,
}

impl Narrow {
    /// # Errors
    /// When a device has neither a name nor a uid's form.
    pub(super) fn new(given: &Given, names: &Names) -> Result<Self, Problem> {
        let mut narrow = Self::default();
        for name in given.all("device") {
            let Some(uid) = names.find(name) else {
                return Err(unknown(name, names));
            };
            narrow.devices.insert(uid.to_string());
        }
        narrow.channels = given.all("channel").map(str::to_owned).collect();
        Ok(narrow)
    }

    fn wants(&self, stream: &str, line: &str) -> bool {
        if stream != READINGS || (self.devices.is_empty() && self.channels.is_empty()) {
            return true;
        }
        let Ok(line) = serde_json::from_str::<Line<'_>>(line) else {
            return true;
        };
        // A gap has no channel: it may be of any.
        let by_channel = line
            .channel
            .is_none_or(|channel| self.channels.is_empty() || self.channels.contains(&*channel));
        by_channel && (self.devices.is_empty() || self.devices.contains(&*line.device))
    }
}

fn unknown(name: &str, names: &Names) -> Problem {
    let known = || names.0.values().map(String::as_str);
    let near = did_you_mean_name(name, known());
    let or_name = match listed(known(), LISTED_MAX) {
        None => String::new(),
        Some(names) => format!(", or a name: {names}"),
    };
    let detail = format!(
        "no device is called \"{}\"{near}: give a uid of sixteen hexadecimal digits{or_name}",
        shown(name)
    );
    Problem::new(Kind::NoSuchName, detail)
}

/// Writes the events of an answer of stream `at`, and moves its place along.
pub(super) fn write_events(
    places: &mut [Place],
    at: usize,
    answer: &Value,
    (narrow, names): (&Narrow, &Names),
    out: &mut Vec<u8>,
) {
    let stream = places[at].stream.clone();
    for gap in answer["gaps"].as_array().into_iter().flatten() {
        let number = |name: &str| gap[name].as_u64().unwrap_or_default();
        let (partition, first, end) = (number("partition"), number("first"), number("end"));
        places[at].pass(partition, end.saturating_sub(1));
        let row = format!("{{\"partition\":{partition},\"first\":{first},\"end\":{end}}}");
        event(places, (&stream, "missing", None), row.as_bytes(), out);
    }
    for change in answer["changes"].as_array().into_iter().flatten() {
        let number = |name: &str| change[name].as_u64().unwrap_or_default();
        let text = |name: &str| change[name].as_str().unwrap_or_default();
        let place = (number("partition"), number("offset"));
        places[at].pass(place.0, place.1);
        let line = text("line");
        if narrow.wants(&stream, line) {
            let row = named(line.as_bytes(), names);
            event(places, (&stream, text("op"), Some(place)), &row, out);
        }
    }
    if let Some(moved) = answer.get("moved") {
        let row = format!("{{\"stream\":{}}}", moved["stream"]);
        event(places, (&stream, "moved", None), row.as_bytes(), out);
    }
}

/// One event. Its data is one line: rows of the log have no line ends.
fn event(
    places: &[Place],
    (stream, op, place): (&str, &str, Option<(u64, u64)>),
    row: &[u8],
    out: &mut Vec<u8>,
) {
    // Writing to a Vec cannot fail.
    let _ = write!(out, "id: {}\nevent: {op}\ndata: {{\"stream\":", id(places));
    write_text(stream, out);
    let _ = write!(out, ",\"op\":\"{op}\"");
    if let Some((partition, offset)) = place {
        let _ = write!(out, ",\"partition\":{partition},\"offset\":{offset}");
    }
    out.extend_from_slice(b",\"row\":");
    out.extend_from_slice(row);
    out.extend_from_slice(b"}\n\n");
}

#[cfg(test)]
mod tests {
    use forebay_core::units::{EventTime, TopicId};
    use serde_json::json;

    use super::super::endpoints::STREAM;
    use super::*;

    fn place(stream: &str) -> Place {
        Place {
            stream: stream.to_owned(),
            topic: TopicId(0),
            next: [].into(),
        }
    }

    #[test]
    fn each_event_has_the_place_behind_it_in_all_streams() {
        let mut places = [place("minute"), place("readings")];
        places[0].pass(0, 4);
        let answer = json!({
            "gaps": [{ "partition": 0, "first": 0, "end": 2 }],
            "changes": [
                { "partition": 0, "offset": 2, "op": "insert", "line": "{\"device\":\"a\"}" },
            ],
            "moved": { "stream": "readings.1" },
        });
        let mut out = Vec::new();
        let wanted = (&Narrow::default(), &Names::default());
        write_events(&mut places, 1, &answer, wanted, &mut out);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "id: minute@0=0:5;readings@0=0:2\nevent: missing\n\
             data: {\"stream\":\"readings\",\"op\":\"missing\",\"row\":{\"partition\":0,\"first\":0,\"end\":2}}\n\n\
             id: minute@0=0:5;readings@0=0:3\nevent: insert\n\
             data: {\"stream\":\"readings\",\"op\":\"insert\",\"partition\":0,\"offset\":2,\"row\":{\"device\":\"a\"}}\n\n\
             id: minute@0=0:5;readings@0=0:3\nevent: moved\n\
             data: {\"stream\":\"readings\",\"op\":\"moved\",\"row\":{\"stream\":\"readings.1\"}}\n\n"
        );
    }

    #[test]
    fn readings_are_narrowed_and_other_streams_not() {
        let query = "stream=readings&device=0123456789abcdef&channel=t";
        let given = Given::read(&STREAM, Some(query), EventTime(0)).unwrap();
        let narrow = Narrow::new(&given, &Names::default()).unwrap();
        let line = |device: &str, more: &str| format!("{{\"device\":\"{device}\"{more}}}");
        let (ours, other) = ("0123456789abcdef", "0000000000000000");
        for (name, stream, line, want) in [
            ("ours", "readings", line(ours, ",\"channel\":\"t\""), true),
            (
                "a channel",
                "readings",
                line(ours, ",\"channel\":\"u\""),
                false,
            ),
            (
                "a device",
                "readings",
                line(other, ",\"channel\":\"t\""),
                false,
            ),
            ("a gap", "readings", line(ours, ""), true),
            ("its gap", "readings", line(other, ""), false),
            ("a row", "minute", line(other, ",\"channel\":\"u\""), true),
        ] {
            assert_eq!(narrow.wants(stream, &line), want, "{name}");
        }
        let given = Given::read(&STREAM, Some("stream=readings&device=x"), EventTime(0)).unwrap();
        assert!(Narrow::new(&given, &Names::default()).is_err());
    }
}
