//! Which rows are asked for. Bound: none of its own; a row is read as JSON only where
//! a device, a channel or a time is asked for.

use forebay_core::payload::{GatewayName, StreamName};
use forebay_core::units::EventTime;
use forebay_core::upstream::keys::Source;
use forebay_core::upstream::rows::StoredRow;
use forebay_core::utc;
use forebay_wire::ids::DeviceUid;
use serde_json::Value;

/// Which rows are meant; `None` is all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RowFilter {
    pub gateway: Option<GatewayName>,
    pub stream: Option<StreamName>,
    /// Readings and gaps of this device.
    pub device: Option<DeviceUid>,
    /// Readings of this channel.
    pub channel: Option<String>,
    /// Records of this time or later.
    pub from: Option<EventTime>,
    /// Records before this time.
    pub to: Option<EventTime>,
}

impl RowFilter {
    /// Whether rows of this source are meant.
    #[must_use]
    pub fn takes_source(&self, source: &Source) -> bool {
        let gateway = self.gateway.as_ref();
        let stream = self.stream.as_ref();
        gateway.is_none_or(|want| *want == source.gateway)
            && stream.is_none_or(|want| *want == source.stream)
    }

    /// Whether the row is meant.
    #[must_use]
    pub fn takes(&self, row: &StoredRow) -> bool {
        let any = self.device.is_none() && self.channel.is_none();
        let always = self.from.is_none() && self.to.is_none();
        self.takes_source(&row.source) && (any && always || self.takes_record(&row.json))
    }

    fn takes_record(&self, json: &[u8]) -> bool {
        let Ok(record) = serde_json::from_slice::<Value>(json) else {
            return false;
        };
        let device = self.device.map(|device| device.to_string());
        let is = |key: &str, want: Option<&str>| want.is_none_or(|want| record[key] == want);
        is("device", device.as_deref())
            && is("channel", self.channel.as_deref())
            && self.takes_time(&record["time"])
    }

    fn takes_time(&self, time: &Value) -> bool {
        if self.from.is_none() && self.to.is_none() {
            return true;
        }
        let time = match time {
            Value::String(text) => utc::parse(text),
            Value::Number(number) => number.as_i64().map(EventTime),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        };
        time.is_some_and(|time| {
            self.from.is_none_or(|from| from <= time) && self.to.is_none_or(|to| time < to)
        })
    }
}

#[cfg(test)]
mod tests {
    use forebay_core::units::{Epoch, EpochNonce, LogId, Offset, PartitionId};

    use super::*;

    #[test]
    fn each_part_of_a_filter_takes_what_it_names() {
        let name = |text: &str| GatewayName::new(text).ok();
        let row = |json: &str| StoredRow {
            source: Source {
                gateway: name("gw-1").unwrap(),
                log_id: LogId([1; 16]),
                stream: StreamName::new("readings").unwrap(),
                partition: PartitionId(0),
            },
            epoch: Epoch(1),
            nonce: EpochNonce(0),
            offset: Offset(0),
            json: json.as_bytes().to_vec(),
        };
        let reading = row(
            "{\"device\":\"0000000000000001\",\"channel\":\"t\",\"time\":\"1970-01-01T00:00:01Z\"}",
        );
        let all = RowFilter::default;
        let at = |micros| Some(EventTime(micros));
        let device = |n| Some(DeviceUid([0, 0, 0, 0, 0, 0, 0, n]));
        let channel = |text: &str| Some(text.to_owned());
        let stream = |text: &str| StreamName::new(text).ok();
        for (name, filter, takes) in [
            ("all", all(), true),
            (
                "gateway",
                RowFilter {
                    gateway: name("gw-1"),
                    ..all()
                },
                true,
            ),
            (
                "another gateway",
                RowFilter {
                    gateway: name("gw"),
                    ..all()
                },
                false,
            ),
            (
                "stream",
                RowFilter {
                    stream: stream("readings"),
                    ..all()
                },
                true,
            ),
            (
                "another stream",
                RowFilter {
                    stream: stream("late"),
                    ..all()
                },
                false,
            ),
            (
                "device",
                RowFilter {
                    device: device(1),
                    ..all()
                },
                true,
            ),
            (
                "another device",
                RowFilter {
                    device: device(2),
                    ..all()
                },
                false,
            ),
            (
                "channel",
                RowFilter {
                    channel: channel("t"),
                    ..all()
                },
                true,
            ),
            (
                "another channel",
                RowFilter {
                    channel: channel("u"),
                    ..all()
                },
                false,
            ),
            (
                "from",
                RowFilter {
                    from: at(1_000_000),
                    ..all()
                },
                true,
            ),
            (
                "from later",
                RowFilter {
                    from: at(1_000_001),
                    ..all()
                },
                false,
            ),
            (
                "to",
                RowFilter {
                    to: at(1_000_001),
                    ..all()
                },
                true,
            ),
            (
                "to, itself not",
                RowFilter {
                    to: at(1_000_000),
                    ..all()
                },
                false,
            ),
        ] {
            assert_eq!(filter.takes(&reading), takes, "{name}");
        }
        let from = RowFilter {
            from: at(5),
            ..all()
        };
        assert!(from.takes(&row("{\"time\":5}")) && !from.takes(&row("{\"time\":4}")));
        assert!(!from.takes(&row("{}")) && !from.takes(&row("no json")));
    }
}
