//! What a run itself keeps in a checkpoint, beside the engine's state, as one JSON
//! object.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::input::{Format, Mark};
use super::line;
use super::lines::Place;

/// The run's own part of a checkpoint.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Remembered {
    /// Place in the list of inputs.
    pub(super) input: usize,
    /// How far that one is read.
    pub(super) mark: Mark,
    /// Numbers of boots that go by a text.
    pub(super) boots: BTreeMap<String, u64>,
    pub(super) rejected: u64,
    pub(super) steered: bool,
}

impl Remembered {
    pub(super) fn to_json(&self) -> Value {
        let format = match &self.mark.format {
            Format::Unknown => "".into(),
            Format::Json => "json".into(),
            Format::Csv(header) => header.text(),
        };
        let boots = self
            .boots
            .iter()
            .map(|(name, n)| (name.clone(), (*n).into()));
        json!({
            "input": self.input,
            "bytes": self.mark.place.bytes,
            "lines": self.mark.place.lines,
            "in_long": self.mark.place.in_long,
            "format": format,
            "boots": boots.collect::<Map<_, _>>(),
            "rejected": self.rejected,
            "steered": self.steered,
        })
    }

    /// `None` when it is not what [`Remembered::to_json`] gives.
    pub(super) fn from_json(value: &Value) -> Option<Self> {
        let number = |name: &str| value.get(name)?.as_u64();
        let flag = |name: &str| value.get(name)?.as_bool();
        let format = match value.get("format")?.as_str()? {
            "" => Format::Unknown,
            "json" => Format::Json,
            header => Format::Csv(line::csv_header(header).ok()?),
        };
        let place = Place {
            bytes: number("bytes")?,
            lines: number("lines")?,
            in_long: flag("in_long")?,
        };
        let boots = value.get("boots")?.as_object()?.iter();
        let boots = boots.map(|(name, n)| Some((name.clone(), n.as_u64()?)));
        Some(Self {
            input: usize::try_from(number("input")?).ok()?,
            mark: Mark { place, format },
            boots: boots.collect::<Option<_>>()?,
            rejected: number("rejected")?,
            steered: flag("steered")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_back() {
        let header = line::csv_header("x,value,time,device,channel,boot,seq").expect("a header");
        for format in [Format::Unknown, Format::Json, Format::Csv(header)] {
            let remembered = Remembered {
                input: 3,
                mark: Mark {
                    place: Place {
                        bytes: u64::MAX,
                        lines: 7,
                        in_long: true,
                    },
                    format,
                },
                boots: [("a\"b".to_owned(), u64::MAX)].into(),
                rejected: 9,
                steered: true,
            };
            let bytes = remembered.to_json().to_string();
            let value = serde_json::from_str(&bytes).expect("JSON");
            assert_eq!(Remembered::from_json(&value), Some(remembered));
        }
        assert_eq!(Remembered::from_json(&json!({})), None);
    }
}
