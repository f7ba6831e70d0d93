//! Columns of what a receiver is asked.

use super::super::output::{At, Kind, Sheet, column};
use At::Row;

/// `upstream status --ledger`
pub const UPSTREAM_LEDGER: Sheet = Sheet {
    command: "upstream status --ledger",
    rows: "/devices",
    columns: &[
        column("device", Row("/device"), Kind::Text, "uid, 16 hex digits"),
        column(
            "gateway",
            Row("/gateway"),
            Kind::Text,
            "gateway that it is behind",
        ),
        column(
            "produced",
            Row("/produced"),
            Kind::Count,
            "readings that it produced, as far as is known",
        ),
        column(
            "readings",
            Row("/readings"),
            Kind::Count,
            "of these: applied",
        ),
        column(
            "gaps",
            Row("/gaps/total"),
            Kind::Count,
            "of these: declared to never come",
        ),
        column(
            "gaps_by_reason",
            Row("/gaps/by_reason"),
            Kind::Json,
            "the same by reason, a JSON object",
        ),
        column("missing", Row("/missing"), Kind::Count, "of these: neither"),
        column(
            "twice",
            Row("/twice"),
            Kind::Count,
            "readings that came twice",
        ),
        column(
            "closes",
            Row("/closes"),
            Kind::Flag,
            "whether the sums close",
        ),
    ],
    empty: "nothing was applied yet",
};

/// `upstream query`
pub const UPSTREAM_ROWS: Sheet = Sheet {
    command: "upstream query",
    rows: "/rows",
    columns: &[
        column("time", Row("/record/time"), Kind::Time, "time of a reading"),
        column(
            "gateway",
            Row("/gateway"),
            Kind::Text,
            "gateway that sent it",
        ),
        column(
            "stream",
            Row("/stream"),
            Kind::Text,
            "its stream, such as `readings`",
        ),
        column(
            "device",
            Row("/record/device"),
            Kind::Text,
            "uid of the device",
        ),
        column(
            "channel",
            Row("/record/channel"),
            Kind::Text,
            "channel of a reading",
        ),
        column(
            "value",
            Row("/record/value"),
            Kind::Figure,
            "value; empty where the sensor gave none",
        ),
        column("unit", Row("/record/unit"), Kind::Text, "unit of the value"),
        column(
            "quality",
            Row("/record/quality"),
            Kind::State,
            "`ok`, or why there is no value",
        )
        .missing("ok"),
        column("log_id", Row("/log_id"), Kind::Text, "log of the gateway").hidden(),
        column(
            "partition",
            Row("/partition"),
            Kind::Count,
            "partition of the log",
        )
        .hidden(),
        column("epoch", Row("/epoch"), Kind::Count, "opening of the log").hidden(),
        column(
            "offset",
            Row("/offset"),
            Kind::Count,
            "place in the partition",
        )
        .hidden(),
        column(
            "record",
            Row("/record"),
            Kind::Json,
            "the whole record, JSON",
        )
        .hidden(),
    ],
    empty: "no row",
};

/// `upstream verify`
pub const UPSTREAM_PROOF: Sheet = Sheet {
    command: "upstream verify",
    rows: "/gateways",
    columns: &[
        column("gateway", Row("/gateway"), Kind::Text, "gateway"),
        column(
            "partitions",
            Row("/partitions"),
            Kind::Count,
            "partitions of its streams",
        ),
        column(
            "applied",
            Row("/applied"),
            Kind::Count,
            "offsets with a row each",
        ),
        column(
            "declared",
            Row("/declared"),
            Kind::Count,
            "offsets that were declared to never come",
        ),
        column(
            "twice",
            Row("/twice"),
            Kind::Count,
            "offsets that were applied more than once",
        ),
        column(
            "lost",
            Row("/lost"),
            Kind::Count,
            "offsets that are marked, and have no row",
        ),
        column(
            "unmarked",
            Row("/unmarked"),
            Kind::Count,
            "offsets that have a row, and no mark",
        ),
        column(
            "holes",
            Row("/holes"),
            Kind::Count,
            "offsets that are neither",
        ),
        column(
            "proven",
            Row("/proven"),
            Kind::Flag,
            "whether none of these four is there",
        ),
    ],
    empty: "no gateway has sent anything yet",
};
