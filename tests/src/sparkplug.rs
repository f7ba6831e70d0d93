//! A host of Sparkplug B as its specification describes one, with a decoder of its own: it
//! takes what an edge node publishes, message by message, and panics at the first that
//! breaks a rule.
//!
//! Bound: what a test sends. Shares no code with what it checks.

use std::collections::BTreeMap;

/// A field of protobuf: its number and what stands there.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Field<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first().expect("a varint has an end");
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return value;
        }
    }
    panic!("a varint of more than ten bytes")
}

fn fields(mut bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut out = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let field = match tag & 7 {
            0 => Field::Varint(varint(&mut bytes)),
            1 => {
                let (head, rest) = bytes.split_first_chunk().expect("eight bytes");
                bytes = rest;
                Field::Fixed64(u64::from_le_bytes(*head))
            }
            2 => {
                let length = usize::try_from(varint(&mut bytes)).expect("a length");
                let (head, rest) = bytes.split_at(length);
                bytes = rest;
                Field::Bytes(head)
            }
            kind => panic!("wire type {kind} has no place here"),
        };
        out.push((tag >> 3, field));
    }
    out
}

fn number(field: Field<'_>) -> u64 {
    match field {
        Field::Varint(number) => number,
        Field::Fixed64(_) | Field::Bytes(_) => panic!("a varint expected: {field:?}"),
    }
}

fn bytes(field: Field<'_>) -> &[u8] {
    match field {
        Field::Bytes(bytes) => bytes,
        Field::Fixed64(_) | Field::Varint(_) => panic!("bytes expected: {field:?}"),
    }
}

fn text(field: Field<'_>) -> String {
    String::from_utf8(bytes(field).to_vec()).expect("UTF-8")
}

/// A value of a metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    Long(u64),
    Double(f64),
    Boolean(bool),
}

/// A metric as it stands in a payload.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Metric {
    pub name: Option<String>,
    pub alias: Option<u64>,
    pub timestamp: Option<u64>,
    pub datatype: Option<u64>,
    pub is_historical: bool,
    pub is_null: bool,
    /// Names and their numbers or texts.
    pub properties: Vec<(String, String)>,
    pub value: Option<Value>,
}

/// A payload.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Payload {
    pub timestamp: Option<u64>,
    pub metrics: Vec<Metric>,
    pub seq: Option<u64>,
}

/// Reads a payload.
///
/// # Panics
/// When it is none.
#[must_use]
pub fn decode(payload: &[u8]) -> Payload {
    let mut out = Payload::default();
    for (tag, field) in fields(payload) {
        match tag {
            1 => out.timestamp = Some(number(field)),
            2 => out.metrics.push(metric(bytes(field))),
            3 => out.seq = Some(number(field)),
            _ => panic!("field {tag} of a payload"),
        }
    }
    out
}

fn metric(of: &[u8]) -> Metric {
    let mut out = Metric::default();
    for (tag, field) in fields(of) {
        match (tag, field) {
            (1, _) => out.name = Some(text(field)),
            (2, _) => out.alias = Some(number(field)),
            (3, _) => out.timestamp = Some(number(field)),
            (4, _) => out.datatype = Some(number(field)),
            (5, _) => out.is_historical = number(field) == 1,
            (7, _) => out.is_null = number(field) == 1,
            (9, _) => out.properties = properties(bytes(field)),
            (11, _) => out.value = Some(Value::Long(number(field))),
            (13, Field::Fixed64(bits)) => out.value = Some(Value::Double(f64::from_bits(bits))),
            (14, _) => out.value = Some(Value::Boolean(number(field) == 1)),
            _ => panic!("field {tag} of a metric: {field:?}"),
        }
    }
    out
}

fn properties(of: &[u8]) -> Vec<(String, String)> {
    let (mut keys, mut values) = (Vec::new(), Vec::new());
    for (tag, field) in fields(of) {
        match tag {
            1 => keys.push(text(field)),
            2 => {
                let inner = fields(bytes(field));
                let (datatype, inner): (Vec<_>, Vec<_>) =
                    inner.into_iter().partition(|(tag, _)| *tag == 1);
                assert_eq!((datatype.len(), inner.len()), (1, 1), "a type and a value");
                values.push(match inner[0] {
                    (3 | 7, field) => number(field).to_string(),
                    (8, field) => text(field),
                    (tag, _) => panic!("field {tag} of a property"),
                });
            }
            _ => panic!("field {tag} of properties"),
        }
    }
    assert_eq!(keys.len(), values.len(), "as many values as keys");
    keys.into_iter().zip(values).collect()
}

/// The bytes by which a host asks for births.
#[must_use]
pub fn rebirth_command() -> Vec<u8> {
    let name = b"Node Control/Rebirth";
    let mut metric = vec![0x0a, u8::try_from(name.len()).expect("short")];
    metric.extend_from_slice(name);
    // Type boolean, value true.
    metric.extend_from_slice(&[0x20, 11, 0x70, 1]);
    let mut out = vec![0x12, u8::try_from(metric.len()).expect("short")];
    out.extend(metric);
    out
}

/// One value that a host has got.
#[derive(Debug, Clone, PartialEq)]
pub struct Taken {
    pub device: String,
    pub metric: String,
    /// ms since 1970.
    pub timestamp: u64,
    pub value: Option<f64>,
    pub is_historical: bool,
    /// What data said of it beside, such as its quality.
    pub properties: Vec<(String, String)>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Host {
    /// `bdSeq` of the last will of the connection, where it is known.
    will: Option<u64>,
    bd_seq: Option<u64>,
    seq: Option<u64>,
    /// Names of metrics by alias, device by device, as announced.
    devices: BTreeMap<String, BTreeMap<u64, String>>,
    /// Units as announced, by device and metric.
    pub units: BTreeMap<(String, String), String>,
    pub births: u64,
    pub deaths: u64,
    pub taken: Vec<Taken>,
}

impl Host {
    /// The broker has taken a connection with this last will.
    ///
    /// # Panics
    /// When the will breaks a rule.
    pub fn on_will(&mut self, topic: &str, payload: &[u8]) {
        assert_eq!(topic.split('/').nth(2), Some("NDEATH"), "{topic}");
        let bd_seq = death(payload);
        if let Some(before) = self.will {
            assert_eq!(bd_seq, (before + 1) % 256, "counts the connections");
        }
        self.will = Some(bd_seq);
        self.seq = None;
    }

    /// Takes what was published.
    ///
    /// # Panics
    /// When it breaks a rule.
    pub fn on_message(&mut self, topic: &str, payload: &[u8]) {
        let parts: Vec<_> = topic.split('/').collect();
        assert_eq!(parts[0], "spBv1.0", "{topic}");
        match (parts[2], parts.len()) {
            ("NBIRTH", 4) => self.node_birth(&decode(payload)),
            ("NDEATH", 4) => {
                let bd_seq = death(payload);
                if self.bd_seq == Some(bd_seq) {
                    self.deaths += 1;
                    (self.bd_seq, self.seq) = (None, None);
                }
            }
            ("DBIRTH", 5) => self.device_birth(parts[4], &decode(payload)),
            ("DDATA", 5) => self.data(parts[4], &decode(payload)),
            _ => panic!("{topic} is no topic of a node that has no commands and no data"),
        }
    }

    /// Each message has the number after the one before it.
    fn next(&mut self, payload: &Payload) {
        assert!(payload.timestamp.is_some(), "each payload has its time");
        let last = self.seq.expect("a node is born before it says more");
        assert_eq!(payload.seq, Some((last + 1) % 256), "after {last}");
        self.seq = payload.seq;
    }

    fn node_birth(&mut self, payload: &Payload) {
        assert!(payload.timestamp.is_some(), "a birth has its time");
        assert_eq!(payload.seq, Some(0), "a birth counts from 0");
        let named = |name: &str| {
            let mut found = payload.metrics.iter();
            let found = found.find(|metric| metric.name.as_deref() == Some(name));
            found.unwrap_or_else(|| panic!("no metric {name}"))
        };
        for metric in &payload.metrics {
            assert!(metric.timestamp.is_some() && metric.datatype.is_some());
            assert_eq!(metric.alias, None, "control metrics go by their names");
        }
        let Some(Value::Long(bd_seq)) = named("bdSeq").value else {
            panic!("bdSeq is a number")
        };
        if let Some(will) = self.will {
            assert_eq!(bd_seq, will, "the birth is of the connection of its will");
        }
        let rebirth = named("Node Control/Rebirth");
        assert_eq!(
            (rebirth.datatype, rebirth.value),
            (Some(11), Some(Value::Boolean(false)))
        );
        self.bd_seq = Some(bd_seq);
        self.seq = payload.seq;
        self.devices.clear();
        self.births += 1;
    }

    fn device_birth(&mut self, device: &str, payload: &Payload) {
        self.next(payload);
        let mut names = BTreeMap::new();
        for metric in &payload.metrics {
            let name = metric.name.clone().expect("a birth names its metrics");
            let alias = metric.alias.expect("and gives them aliases");
            assert!(metric.timestamp.is_some(), "{name}");
            assert_eq!(metric.datatype, Some(10), "{name}");
            assert_eq!(metric.is_null, metric.value.is_none(), "{name}");
            assert!(!metric.is_historical, "a birth says what is now");
            let others = self.devices.iter().filter(|(other, _)| *other != device);
            for (other, known) in others {
                assert!(!known.contains_key(&alias), "alias {alias} is of {other}");
            }
            let unit = metric.properties.iter().find(|(key, _)| key == "engUnit");
            let unit = unit.map(|(_, unit)| unit.clone()).unwrap_or_default();
            self.units.insert((device.to_owned(), name.clone()), unit);
            assert_eq!(names.insert(alias, name), None, "alias {alias} twice");
        }
        let mut distinct: Vec<_> = names.values().collect();
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), names.len(), "a name twice");
        self.devices.insert(device.to_owned(), names);
        self.births += 1;
    }

    fn data(&mut self, device: &str, payload: &Payload) {
        self.next(payload);
        let known = self.devices.get(device);
        let known = known.unwrap_or_else(|| panic!("data of {device} before its birth"));
        assert!(!payload.metrics.is_empty(), "data of nothing");
        for metric in &payload.metrics {
            assert_eq!(metric.name, None, "data goes by aliases");
            let alias = metric.alias.expect("data has an alias");
            let name = known.get(&alias);
            let value = match metric.value {
                Some(Value::Double(value)) => Some(value),
                None => None,
                Some(other) => panic!("{other:?} for a double"),
            };
            assert_eq!(metric.is_null, value.is_none());
            self.taken.push(Taken {
                device: device.to_owned(),
                metric: name
                    .unwrap_or_else(|| panic!("alias {alias} was not announced"))
                    .clone(),
                timestamp: metric.timestamp.expect("data has its time"),
                value,
                is_historical: metric.is_historical,
                properties: metric.properties.clone(),
            });
        }
    }
}

/// The `bdSeq` of a death, which has nothing else in it.
fn death(payload: &[u8]) -> u64 {
    let payload = decode(payload);
    assert_eq!(payload.seq, None, "a death has no number");
    let [metric] = &payload.metrics[..] else {
        panic!("a death has one metric: {payload:?}")
    };
    assert_eq!(metric.name.as_deref(), Some("bdSeq"));
    match metric.value {
        Some(Value::Long(bd_seq)) if bd_seq < 256 => bd_seq,
        other => panic!("bdSeq {other:?}"),
    }
}
