//! The sections of tables and joins, as data.

use super::schema::{Default, Key, Section};

pub const TABLE: Section = Section {
    name: "table",
    many: true,
    doc: "A table: what is known about devices, channels or anything else, as it was at each moment.\nJoins and keys of windows read it.",
    keys: &[
        Key {
            name: "name",
            default: Default::Required("\"sites\""),
            doc: "Unique among tables, windows and joins: letters, digits, - and _; at most 64.",
        },
        Key {
            name: "key",
            default: Default::Required("\"device\""),
            doc: "The column by which a row is found, or a list of such.",
        },
        Key {
            name: "source",
            default: Default::Required("\"config\""),
            doc: "Where its rows come from. config: `rows` below; mqtt or file: change events as Debezium writes them;\npostgres: the write log of a database.",
        },
        Key {
            name: "rows",
            default: Default::None("[{ device = \"boiler\", building = \"north\" }]"),
            doc: "With source = \"config\" only, and needed there: the rows, each with the key columns.",
        },
        Key {
            name: "out_of_order",
            default: Default::None("\"5s\""),
            doc: "A change this far behind the table's newest one still is in order; so long readings wait for the table.\nDefault: that of [engine]. Not for source = \"config\", whose rows are all there.",
        },
        Key {
            name: "history",
            default: Default::None("\"7d\""),
            doc: "How long a row is kept after it was replaced, for readings that come late. Default 7d.\nNot for source = \"config\".",
        },
        Key {
            name: "columns",
            default: Default::None("[\"device\", \"building\"]"),
            doc: "Names of its columns: with them a key or a join that names another is refused.\nDefault: any; of source = \"config\" those of its rows.",
        },
        Key {
            name: "broker",
            default: Default::None("\"127.0.0.1:1883\""),
            doc: "With source = \"mqtt\": host:port of the MQTT broker.",
        },
        Key {
            name: "client_id",
            default: Default::None("\"forebay-gw-1-sites\""),
            doc: "MQTT client id, of this table alone. Default forebay-<gateway>-<table>.",
        },
        Key {
            name: "topic",
            default: Default::None("\"plant/public/sites\""),
            doc: "With source = \"mqtt\": topic of its changes, perhaps with wildcards.\nForms of events: agent/node/docs/tables.md.",
        },
        Key {
            name: "key_from",
            default: Default::None("\"topic\""),
            doc: "topic: the wildcards of `topic` stand for the row's key, and the payload may be the row itself;\nevent: the key is in the event. Default event.",
        },
        Key {
            name: "path",
            default: Default::None("\"sites.ndjson\""),
            doc: "With source = \"file\": a file with a change in each line, which is followed as it grows.\nNot absolute: from the folder of this file.",
        },
        Key {
            name: "database",
            default: Default::None("\"main\""),
            doc: "With source = \"postgres\": name of the [[database]] that has it.",
        },
        Key {
            name: "relation",
            default: Default::None("\"public.sites\""),
            doc: "With source = \"postgres\": its schema and name there. Default: `name`, in the schema public.",
        },
        Key {
            name: "only",
            default: Default::None("\"public.sites\""),
            doc: "With mqtt or file: of Debezium's events only those of this table, by schema or database and name.",
        },
    ],
};

pub const JOIN: Section = Section {
    name: "join",
    many: true,
    doc: "A join of two streams, of a stream with a table, or of two tables; any number of them.\nTheir rows come behind those of windows, in this order.",
    keys: &[
        Key {
            name: "name",
            default: Default::Required("\"placed\""),
            doc: "Name of the output stream.",
        },
        Key {
            name: "kind",
            default: Default::Required("\"lookup\""),
            doc: "lookup: each reading with the row of a table as of its time; interval: readings of two sides whose times are near;\ntable: rows of two tables, as lines with diff = 1 or -1.",
        },
        Key {
            name: "left",
            default: Default::Required("{ from = \"readings\" }"),
            doc: "What it reads: from = readings, a window, or a table; where = \"channel = 'door' and value > 0\" takes a part of it:\ndevice and channel with = != in, value with = != < <= > >=, and, or, not, parentheses; texts in single quotes.\nvalue = \"max\": the figure of a window's rows that counts. Default mean.",
        },
        Key {
            name: "right",
            default: Default::Required("{ from = \"sites\" }"),
            doc: "The other side; of a lookup a table.",
        },
        Key {
            name: "on",
            default: Default::Required("\"device\""),
            doc: "What must be equal: device, channel, or a list of both. Of a lookup it is compared with the table's key;\nof a table join it is the column of the left row that holds the key of the right one.",
        },
        Key {
            name: "within",
            default: Default::None("[\"-5s\", \"10s\"]"),
            doc: "Interval only, and needed there: right.time - left.time is from the first to the second, both included.",
        },
        Key {
            name: "wait",
            default: Default::None("\"10s\""),
            doc: "Lookup only: a reading waits no longer than this, by the gateway's clock, until the table is known up to its time;\nthen it takes the row as known, with \"stale\":true. Default: as long as it takes.",
        },
        Key {
            name: "type",
            default: Default::Is("\"inner\""),
            doc: "inner: only what matches; left: also what is left alone on the left, with null; full: on either side (not lookup).",
        },
    ],
};

/// The keys inside of `left`.
pub const LEFT: &[Key] = &[
    side("left.from", "\"readings\""),
    side("left.where", "\"channel = 'door'\""),
    side("left.value", "\"mean\""),
];

/// The keys inside of `right`.
pub const RIGHT: &[Key] = &[
    side("right.from", "\"sites\""),
    side("right.where", "\"channel = 'motion'\""),
    side("right.value", "\"mean\""),
];

const fn side(name: &'static str, example: &'static str) -> Key {
    Key {
        name,
        default: Default::None(example),
        doc: "",
    }
}
