//! Columns of what is read out of a stopped agent's log.

use super::super::output::{At, Kind, Sheet, column};
use At::Row;

/// `log ls`
pub const LOG_TOPICS: Sheet = Sheet {
    command: "log ls",
    rows: "/topics",
    columns: &[
        column("topic", Row("/stream"), Kind::Text, "name of the topic"),
        column("partition", Row("/partition"), Kind::Count, "partition").head("part"),
        column(
            "first",
            Row("/first"),
            Kind::Count,
            "first offset that is kept",
        ),
        column("next", Row("/head"), Kind::Count, "offset behind the last"),
        column("records", Row("/records"), Kind::Count, "records between"),
        column("oldest", Row("/time_min"), Kind::Time, "first event time"),
        column("newest", Row("/time_max"), Kind::Time, "last event time"),
    ],
    empty: "the log holds nothing",
};

/// `log show`
pub const LOG_RECORDS: Sheet = Sheet {
    command: "log show",
    rows: "/records",
    columns: &[
        column(
            "kind",
            Row("/kind"),
            Kind::Text,
            "reading, gap, clock, tables or row",
        ),
        column(
            "partition",
            Row("/partition"),
            Kind::Count,
            "partition; empty of a gap",
        ),
        column(
            "offset",
            Row("/offset"),
            Kind::Count,
            "place in the partition",
        ),
        column("time", Row("/time"), Kind::Time, "event time"),
        column("device", Row("/device"), Kind::Text, "name, or uid"),
        column("uid", Row("/uid"), Kind::Text, "16 hex digits"),
        column(
            "channel",
            Row("/channel"),
            Kind::Text,
            "channel of a reading",
        ),
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
            "quality of a reading",
        ),
        column("boot", Row("/boot"), Kind::Count, "boot of the device"),
        column(
            "ordinal",
            Row("/ordinal"),
            Kind::Count,
            "number of the reading in its boot",
        ),
        column(
            "uncertainty_us",
            Row("/uncertainty_us"),
            Kind::Count,
            "how wrong the time may be, us",
        ),
        column("gap", Row("/gap"), Kind::Text, "reason of a gap"),
        column("first", Row("/first"), Kind::Count, "first number of a gap"),
        column("count", Row("/count"), Kind::Count, "readings of a gap"),
        column(
            "clock",
            Row("/clock"),
            Kind::Text,
            "what the gateway's clock was worth",
        ),
        column("row", Row("/row"), Kind::Json, "a result row, JSON"),
    ],
    empty: "no record",
};

/// `log check`
pub const LOG_DAMAGES: Sheet = Sheet {
    command: "log check, log repair",
    rows: "/damages",
    columns: &[
        column("file", Row("/file"), Kind::Text, "file that does not read"),
        column(
            "first_byte",
            Row("/bytes/0"),
            Kind::Count,
            "where in it the damage begins",
        ),
        column(
            "end_byte",
            Row("/bytes/1"),
            Kind::Count,
            "first byte behind it",
        ),
        column("what", Row("/what"), Kind::Text, "what is wrong"),
        column(
            "lost",
            Row("/lost"),
            Kind::Json,
            "records that are lost by it, a JSON list",
        ),
    ],
    empty: "intact",
};

/// `verify`
pub const VERIFIED: Sheet = Sheet {
    command: "verify",
    rows: "/streams",
    columns: &[
        column(
            "stream",
            Row("/stream"),
            Kind::Text,
            "window, join, `late` or `quarantine`",
        ),
        column("partition", Row("/partition"), Kind::Count, "its partition"),
        column(
            "same",
            Row("/same"),
            Kind::Count,
            "rows that are those that readings give",
        ),
        column(
            "not_written_yet",
            Row("/not_written_yet"),
            Kind::Count,
            "rows that were not written when the agent was stopped",
        ),
        column(
            "not_compared",
            Row("/not_compared"),
            Kind::Count,
            "rows that cannot be told: what they depend on is gone",
        ),
        column(
            "differs",
            Row("/differs"),
            Kind::Mark("DIFFERS"),
            "whether a row differs; what follows it is not compared",
        ),
    ],
    empty: "nothing was compared",
};

/// `replay`
pub const REPLAYED: Sheet = Sheet {
    command: "replay",
    rows: "",
    columns: &[
        column("stream", Row("/stream"), Kind::Text, "the new stream"),
        column("rows", Row("/rows"), Kind::Count, "rows that it has"),
        column("before", Row("/before"), Kind::Text, "the stream before"),
    ],
    empty: "nothing",
};
