//! Columns of tables, views and streams that are followed, and of dead letters.

use super::super::output::{At, Kind, Sheet, column};
use At::{Answer, Row};

/// `table ls`
pub const TABLES: Sheet = Sheet {
    command: "table ls",
    rows: "/tables",
    columns: &[
        column("table", Row("/table"), Kind::Text, "name"),
        column(
            "source",
            Row("/source/kind"),
            Kind::Text,
            "where it comes from",
        ),
        column(
            "state",
            Row("/source/state"),
            Kind::State,
            "how the source does",
        ),
        column("rows", Row("/rows"), Kind::Count, "rows that it has"),
        column(
            "changes",
            Row("/changes"),
            Kind::Count,
            "changes that were applied",
        ),
        column(
            "known_until",
            Row("/watermark"),
            Kind::Time,
            "event time up to which it is known, or `always`",
        )
        .head("known until"),
        column(
            "bytes",
            Row("/bytes"),
            Kind::Bytes,
            "memory that it takes, bytes",
        )
        .hidden(),
        column(
            "last_error",
            Row("/source/last_error"),
            Kind::Text,
            "what was wrong last",
        )
        .hidden(),
    ],
    empty: "the config has no table",
};

/// `table show`
pub const TABLE_ROWS: Sheet = Sheet {
    command: "table show",
    rows: "/rows",
    columns: &[
        column("key", Row("/key"), Kind::Text, "key of the row"),
        column(
            "since",
            Row("/time"),
            Kind::Time,
            "time from which it is so",
        ),
        column("row", Row("/row"), Kind::Json, "the row, JSON"),
    ],
    empty: "no row",
};

/// `table history`
pub const TABLE_HISTORY: Sheet = Sheet {
    command: "table history",
    rows: "/history",
    columns: &[
        column("time", Row("/time"), Kind::Time, "time of the change"),
        column(
            "op",
            Row("/op"),
            Kind::Text,
            "what was done: insert, update, delete, ...",
        ),
        column("before", Row("/before"), Kind::Json, "the row before, JSON").hidden(),
        column("after", Row("/after"), Kind::Json, "the row after, JSON").head("row"),
        column(
            "position",
            Row("/position"),
            Kind::Text,
            "where in its source it stood",
        ),
    ],
    empty: "no row",
};

/// `view ls`
pub const VIEWS: Sheet = Sheet {
    command: "view ls",
    rows: "/views",
    columns: &[
        column("stream", Row("/stream"), Kind::Text, "name of the stream"),
        column(
            "view",
            Row("/view"),
            Kind::Text,
            "window or join of the config",
        ),
        column(
            "state",
            Row("/state"),
            Kind::State,
            "live, building, standing or dropped",
        ),
        column("rows", Row("/rows"), Kind::Count, "rows that are kept"),
        column("bytes", Row("/bytes"), Kind::Count, "bytes that they take"),
        column(
            "definition",
            Row("/definition"),
            Kind::Hash,
            "hash of its section of the config",
        ),
        column(
            "rows_written",
            Row("/rows_written"),
            Kind::Count,
            "rows that were ever written",
        )
        .hidden(),
    ],
    empty: "the config has no window and no join",
};

/// `forward ls`
pub const PARKED: Sheet = Sheet {
    command: "forward ls",
    rows: "/parked",
    columns: &[
        column(
            "destination",
            Row("/destination"),
            Kind::Text,
            "name of the destination",
        ),
        column(
            "stream",
            Row("/stream"),
            Kind::Text,
            "stream of the records",
        ),
        column("partition", Row("/partition"), Kind::Count, "its partition"),
        column(
            "first_offset",
            Row("/first_offset"),
            Kind::Count,
            "first record",
        )
        .head("first"),
        column(
            "last_offset",
            Row("/last_offset"),
            Kind::Count,
            "last record",
        )
        .head("last"),
        column(
            "reason",
            Row("/reason"),
            Kind::Text,
            "why the broker does not take them",
        ),
    ],
    empty: "nothing is parked",
};

/// `watch`, and `tail` of a stream of results.
pub const CHANGES: Sheet = Sheet {
    command: "watch, tail STREAM",
    rows: "/changes",
    columns: &[
        column(
            "stream",
            Answer("/stream"),
            Kind::Text,
            "name of the stream",
        ),
        column("partition", Row("/partition"), Kind::Count, "partition"),
        column(
            "offset",
            Row("/offset"),
            Kind::Count,
            "place in the partition",
        ),
        column(
            "op",
            Row("/op"),
            Kind::Text,
            "insert, update, delete or gap",
        ),
        column("row", Row("/line"), Kind::Json, "the row, JSON"),
    ],
    empty: "",
};

/// `tail` of readings.
pub const TAILED: Sheet = Sheet {
    command: "tail",
    rows: "/changes",
    columns: &[
        column(
            "time",
            Row("/time"),
            Kind::Time,
            "time of the reading; empty where it is not known",
        ),
        column("device", Row("/device"), Kind::Text, "name, or uid"),
        column("channel", Row("/channel"), Kind::Text, "channel"),
        column(
            "value",
            Row("/value"),
            Kind::Figure,
            "value; empty where the sensor gave none",
        ),
        column("unit", Row("/unit"), Kind::Text, "unit of the value"),
        column(
            "quality",
            Row("/quality"),
            Kind::State,
            "`ok`, or why there is no value",
        )
        .missing("ok"),
        column("uid", Row("/uid"), Kind::Text, "16 hex digits"),
        column("boot", Row("/boot"), Kind::Count, "boot of the device"),
        column(
            "ordinal",
            Row("/ordinal"),
            Kind::Count,
            "number of the reading in its boot",
        ),
        column(
            "partition",
            Row("/partition"),
            Kind::Count,
            "partition of the log",
        ),
        column(
            "offset",
            Row("/offset"),
            Kind::Count,
            "place in the partition",
        ),
    ],
    empty: "",
};
