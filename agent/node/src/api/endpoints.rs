//! Every path of the API as data: its parameters, its answer, what may be wrong. The
//! reader of parameters, the routes and the OpenAPI document go by it, so that they
//! cannot disagree.

use schemars::{Schema, SchemaGenerator};

use super::limits::{LIMIT_MAX, NAMES_MAX, STREAMS_PER_REQUEST_MAX};
use super::problem::Kind as Wrong;
use super::types::{
    Alarms, Device, Devices, Ledger, Readings, Rolling, Rollups, Rows, Status, Streams,
};

/// One path, with GET and HEAD.
#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) path: &'static str,
    /// What programs that are made of the document call it.
    pub(super) id: &'static str,
    pub(super) summary: &'static str,
    pub(super) about: &'static str,
    pub(super) params: &'static [Param],
    pub(super) answer: Answer,
    /// Beside those that every path may give.
    pub(super) problems: &'static [Wrong],
}

/// A parameter of the URL.
#[derive(Debug)]
pub(super) struct Param {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) need: Need,
    pub(super) about: &'static str,
    pub(super) example: &'static str,
}

/// What its values are.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    /// Of a device, a channel or a stream.
    Name,
    Time,
    /// A length of time.
    Span,
    /// From 1 on.
    Count {
        most: usize,
    },
    Word(&'static [&'static str]),
    Cursor,
    /// Where to begin in streams.
    Place,
}

/// How often it is given.
#[derive(Debug, Clone, Copy)]
pub(super) enum Need {
    Once,
    Maybe,
    /// Maybe; this where it is not given.
    Default(&'static str),
    Many {
        most: usize,
    },
    /// At least once.
    Some {
        most: usize,
    },
}

impl Need {
    pub(super) const fn most(self) -> usize {
        match self {
            Self::Once | Self::Maybe | Self::Default(_) => 1,
            Self::Many { most } | Self::Some { most } => most,
        }
    }
}

/// What an endpoint answers with.
#[derive(Debug)]
pub(super) enum Answer {
    Json {
        schema: fn(&mut SchemaGenerator) -> Schema,
        /// Also as a table, for whoever accepts text/csv.
        csv: bool,
    },
    Text {
        about: &'static str,
        example: &'static str,
    },
    /// Server-sent events.
    Events,
    /// The document itself.
    Document,
}

const fn json(schema: fn(&mut SchemaGenerator) -> Schema) -> Answer {
    Answer::Json { schema, csv: false }
}

const fn table(schema: fn(&mut SchemaGenerator) -> Schema) -> Answer {
    Answer::Json { schema, csv: true }
}

const DEVICES_PARAM: Param = Param {
    name: "device",
    kind: Kind::Name,
    need: Need::Many { most: NAMES_MAX },
    about: "Name or uid of a device; may be given several times. Without it: all devices.",
    example: "boiler",
};
const CHANNELS_PARAM: Param = Param {
    name: "channel",
    kind: Kind::Name,
    need: Need::Many { most: NAMES_MAX },
    about: "Name of a channel; may be given several times. Without it: all channels of the devices.",
    example: "temperature",
};
const FROM: Param = Param {
    name: "from",
    kind: Kind::Time,
    need: Need::Default("-1h"),
    about: "Begin of the range: RFC 3339, now, a time before now such as -15m, or microseconds since 1970. A + of an offset is written %2B.",
    example: "-15m",
};
const TO: Param = Param {
    name: "to",
    kind: Kind::Time,
    need: Need::Default("now"),
    about: "End of the range, which is not in it; the same forms.",
    example: "now",
};
const LIMIT: Param = Param {
    name: "limit",
    kind: Kind::Count { most: LIMIT_MAX },
    need: Need::Default("10000"),
    about: "Rows of one answer, over all channels. Where there are more, next leads on. Rows of one time are never parted, so it may be some more.",
    example: "1000",
};
const CURSOR: Param = Param {
    name: "cursor",
    kind: Kind::Cursor,
    need: Need::Maybe,
    about: "The text of next in the answer before, for the next page; from and to are then not looked at.",
    example: "r1.1772366400000000.1772370000000000",
};
const TIME: Param = Param {
    name: "time",
    kind: Kind::Word(&["rfc3339", "us"]),
    need: Need::Default("rfc3339"),
    about: "How times are written in columns: RFC 3339, or whole microseconds since 1970, which are shorter.",
    example: "us",
};
const WINDOW: Param = Param {
    name: "window",
    kind: Kind::Span,
    need: Need::Default("60s"),
    about: "Length of the window: a whole number with us, ms, s, m, h, d or w.",
    example: "60s",
};
const BOOLS: Kind = Kind::Word(&["false", "true"]);

pub(super) const ROLLING: Endpoint = Endpoint {
    path: "/api/v1/rolling",
    id: "rolling",
    summary: "Rolling figures of channels, as of their newest readings",
    about: "For each channel the figures of the window that ends at its newest reading, (t - window, t]. Exact; kept ready where the config has a sliding window of that size.",
    params: &[DEVICES_PARAM, CHANNELS_PARAM, WINDOW],
    answer: table(SchemaGenerator::subschema_for::<Rolling>),
    problems: &[Wrong::NoSuchName, Wrong::TooMuch],
};
pub(super) const ROLLUPS: Endpoint = Endpoint {
    path: "/api/v1/rollups",
    id: "rollups",
    summary: "Figures per window of time",
    about: "Tumbling windows that overlap the range, as columns per channel, oldest first. They come from the rows of a window of the config of that size where there is one, else from the readings; source says which. Windows without a reading are left out; preliminary ones may still change.",
    params: &[
        DEVICES_PARAM,
        CHANNELS_PARAM,
        WINDOW,
        Param {
            need: Need::Default("-24h"),
            ..FROM
        },
        TO,
        LIMIT,
        CURSOR,
        TIME,
    ],
    answer: table(SchemaGenerator::subschema_for::<Rollups>),
    problems: &[Wrong::NoSuchName, Wrong::TooMuch],
};
pub(super) const READINGS: Endpoint = Endpoint {
    path: "/api/v1/readings",
    id: "readings",
    summary: "Readings as they were taken",
    about: "Readings of the range by event time, as columns per channel, oldest first; null where the sensor gave no figure.",
    params: &[
        DEVICES_PARAM,
        CHANNELS_PARAM,
        FROM,
        TO,
        LIMIT,
        CURSOR,
        TIME,
        Param {
            name: "detail",
            kind: BOOLS,
            need: Need::Default("false"),
            about: "Also boot, ordinal, uncertainty and quality of each reading.",
            example: "true",
        },
        Param {
            name: "gaps",
            kind: BOOLS,
            need: Need::Default("false"),
            about: "Also the declared gaps of the devices: readings that will never come.",
            example: "true",
        },
        Param {
            name: "newest",
            kind: BOOLS,
            need: Need::Default("false"),
            about: "Where there are more than limit: the newest of the range instead of the oldest; next then leads back. Columns are in order of time either way.",
            example: "true",
        },
    ],
    answer: table(SchemaGenerator::subschema_for::<Readings>),
    problems: &[Wrong::NoSuchName, Wrong::TooMuch],
};
pub(super) const ROWS: Endpoint = Endpoint {
    path: "/api/v1/rows",
    id: "rows",
    summary: "Rows of a stream, by event time",
    about: "Rows of a derived stream as they stand in the log, oldest first: late, quarantine, a window or a join. For JSON only: what a row has depends on the stream.",
    params: &[
        Param {
            name: "stream",
            kind: Kind::Name,
            need: Need::Once,
            about: "Name of the stream, as /api/v1/streams has it, or of a window or join.",
            example: "late",
        },
        FROM,
        TO,
        LIMIT,
        CURSOR,
    ],
    answer: json(SchemaGenerator::subschema_for::<Rows>),
    problems: &[Wrong::NoSuchName, Wrong::TooMuch],
};
pub(super) const DEVICES: Endpoint = Endpoint {
    path: "/api/v1/devices",
    id: "devices",
    summary: "All devices, with how each one does",
    about: "As `forebay device ls --json`.",
    params: &[],
    answer: json(SchemaGenerator::subschema_for::<Devices>),
    problems: &[],
};
pub(super) const DEVICE: Endpoint = Endpoint {
    path: "/api/v1/devices/{device}",
    id: "device",
    summary: "All that is known of one device",
    about: "As `forebay device show --json`; the device by its name or uid.",
    params: &[],
    answer: json(SchemaGenerator::subschema_for::<Device>),
    problems: &[Wrong::NoSuchName],
};
pub(super) const STATUS: Endpoint = Endpoint {
    path: "/api/v1/status",
    id: "status",
    summary: "How the agent is doing",
    about: "As `forebay status --json`: counters, devices, ports, the log, destinations, alarms.",
    params: &[],
    answer: json(SchemaGenerator::subschema_for::<Status>),
    problems: &[],
};
pub(super) const LEDGER: Endpoint = Endpoint {
    path: "/api/v1/ledger",
    id: "ledger",
    summary: "What became of every reading that was produced",
    about: "As `forebay status --ledger`: per device and boot what was produced, what arrived, what is missing and why.",
    params: &[],
    answer: json(SchemaGenerator::subschema_for::<Ledger>),
    problems: &[],
};
pub(super) const ALARMS: Endpoint = Endpoint {
    path: "/api/v1/alarms",
    id: "alarms",
    summary: "What is wrong now",
    about: "As `forebay alarms --json`: the alarms that stand, the worst first, each with its code, since when, and where its runbook is. At most 64 of a code are listed; left_out counts the others.",
    params: &[],
    answer: json(SchemaGenerator::subschema_for::<Alarms>),
    problems: &[],
};
pub(super) const STREAMS: Endpoint = Endpoint {
    path: "/api/v1/streams",
    id: "streams",
    summary: "Streams that can be read and followed",
    about: "Readings, what the log keeps beside them, and every window, table and join.",
    params: &[],
    answer: json(SchemaGenerator::subschema_for::<Streams>),
    problems: &[],
};
pub(super) const STREAM: Endpoint = Endpoint {
    path: "/api/v1/stream",
    id: "follow",
    summary: "Streams as they come in",
    about: "Server-sent events: one per reading, row, gap or change, in the order of the log, each once it is durable. The id of an event is the place behind it; a client that comes again with it in Last-Event-ID goes on there. A comment comes at least every 10 s. A client that takes nothing for 10 s is cut off.",
    params: &[
        Param {
            name: "stream",
            kind: Kind::Name,
            need: Need::Some {
                most: STREAMS_PER_REQUEST_MAX,
            },
            about: "readings, or another stream; may be given several times.",
            example: "readings",
        },
        Param {
            name: "from",
            kind: Kind::Place,
            need: Need::Default("now"),
            about: "Where to begin: now, beginning, or the id of an event.",
            example: "now",
        },
        Param {
            about: "Of readings only those of this device, by name or uid; may be given several times.",
            ..DEVICES_PARAM
        },
        Param {
            about: "Of readings only those of this channel; may be given several times.",
            ..CHANNELS_PARAM
        },
    ],
    answer: Answer::Events,
    problems: &[Wrong::NoSuchName],
};
pub(super) const HEALTHZ: Endpoint = Endpoint {
    path: "/healthz",
    id: "healthz",
    summary: "Whether the agent runs",
    about: "Needs no token.",
    params: &[],
    answer: Answer::Text {
        about: "It runs.",
        example: "ok\n",
    },
    problems: &[],
};
pub(super) const READYZ: Endpoint = Endpoint {
    path: "/readyz",
    id: "readyz",
    summary: "Whether the agent does its work",
    about: "503 while it still reads its log after a start. Needs no token.",
    params: &[],
    answer: Answer::Text {
        about: "It does.",
        example: "ready\n",
    },
    problems: &[Wrong::NotReady],
};
pub(super) const METRICS: Endpoint = Endpoint {
    path: "/metrics",
    id: "metrics",
    summary: "Every counter, for Prometheus",
    about: "Text exposition format; what there is: agent/node/docs/metrics.md.",
    params: &[],
    answer: Answer::Text {
        about: "The metrics.",
        example: "forebay_readings_total 12\n",
    },
    problems: &[],
};
pub(super) const DOCUMENT: Endpoint = Endpoint {
    path: "/api/v1/openapi.json",
    id: "openapi",
    summary: "This document",
    about: "OpenAPI 3.1, as `forebay openapi` prints it.",
    params: &[],
    answer: Answer::Document,
    problems: &[],
};

/// All of them, in the order of the document.
pub(super) const ALL: [&Endpoint; 15] = [
    &ROLLING, &ROLLUPS, &READINGS, &ROWS, &DEVICES, &DEVICE, &STATUS, &LEDGER, &ALARMS, &STREAMS,
    &STREAM, &HEALTHZ, &READYZ, &METRICS, &DOCUMENT,
];

/// What else is served, by others' documents: Prometheus's queries and the page.
pub(super) const BESIDE: [&str; 8] = [
    "/",
    "/api/v1/query",
    "/api/v1/query_range",
    "/api/v1/labels",
    "/api/v1/label/<name>/values",
    "/api/v1/series",
    "/api/v1/metadata",
    "/api/v1/status/buildinfo",
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use forebay_core::units::EventTime;

    use super::super::given::Given;
    use super::*;

    #[test]
    fn names_are_unique_and_examples_and_defaults_good() {
        let mut ids = BTreeSet::new();
        let mut paths = BTreeSet::new();
        for endpoint in ALL {
            assert!(ids.insert(endpoint.id) && paths.insert(endpoint.path));
            let mut names = BTreeSet::new();
            for param in endpoint.params {
                assert!(names.insert(param.name), "{}", param.name);
                let default = match param.need {
                    Need::Default(text) => text,
                    Need::Once | Need::Maybe | Need::Many { .. } | Need::Some { .. } => {
                        param.example
                    }
                };
                for value in [param.example, default] {
                    let query = format!("{}={value}", param.name);
                    let read = Given::read(endpoint, Some(&query), EventTime(0));
                    // What else is missing is no fault of this one.
                    if let Err(problem) = read {
                        assert_eq!(problem.kind, Wrong::MissingParameter, "{}", problem.detail);
                    }
                }
            }
        }
    }
}
