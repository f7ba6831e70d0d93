//! Columns of what a running agent is asked about channels, devices and itself.

use super::super::output::{At, Column, Kind, Sheet, column};
use At::{Answer, Row};

const DEVICE: Column = column("device", Answer("/device"), Kind::Text, "name, or uid").hidden();
const CHANNEL: Column = column("channel", Answer("/channel"), Kind::Text, "channel").hidden();
const UNIT: Column = column("unit", Answer("/unit"), Kind::Text, "unit of the values").hidden();

/// `query rolling`
pub const ROLLING: Sheet = Sheet {
    command: "query rolling",
    rows: "",
    columns: &[
        DEVICE,
        CHANNEL,
        UNIT,
        column(
            "time",
            Row("/time"),
            Kind::Time,
            "time of the newest reading, the window's end",
        ),
        column(
            "window_us",
            Row("/window_us"),
            Kind::Count,
            "length of the window, us",
        ),
        column("count", Row("/count"), Kind::Count, "readings in it"),
        column("mean", Row("/mean"), Kind::Figure, "their mean"),
        column("min", Row("/min"), Kind::Figure, "the smallest"),
        column("max", Row("/max"), Kind::Figure, "the largest"),
        column(
            "preliminary",
            Row("/preliminary"),
            Kind::Text,
            "whether late readings may still change it",
        ),
        column(
            "complete_from",
            Row("/complete_from"),
            Kind::Time,
            "from here on nothing is missing; empty: all of it is there",
        ),
    ],
    empty: "no reading",
};

/// `query rollup`
pub const ROLLUP: Sheet = Sheet {
    command: "query rollup",
    rows: "/windows",
    columns: &[
        DEVICE,
        CHANNEL,
        UNIT,
        column(
            "start",
            Row("/start"),
            Kind::Time,
            "first time of the window",
        ),
        column("end", Row("/end"), Kind::Time, "first time after it").hidden(),
        column("count", Row("/count"), Kind::Count, "readings in it"),
        column("mean", Row("/mean"), Kind::Figure, "their mean"),
        column("min", Row("/min"), Kind::Figure, "the smallest"),
        column("max", Row("/max"), Kind::Figure, "the largest"),
        column(
            "preliminary",
            Row("/preliminary"),
            Kind::Mark("preliminary"),
            "whether late readings may still change it",
        )
        .head(""),
    ],
    empty: "no reading in this range",
};

/// `query readings`
pub const READINGS: Sheet = Sheet {
    command: "query readings",
    rows: "/readings",
    columns: &[
        DEVICE,
        CHANNEL,
        UNIT,
        column("time", Row("/time"), Kind::Time, "time of the reading"),
        column(
            "value",
            Row("/value"),
            Kind::Figure,
            "value; empty where the sensor gave none",
        ),
        column(
            "quality",
            Row("/quality"),
            Kind::State,
            "`ok`, or why there is no value",
        )
        .missing("ok"),
        column(
            "uncertainty_us",
            Row("/uncertainty_us"),
            Kind::Count,
            "how wrong the time may be, us",
        )
        .head("± us"),
        column("boot", Row("/boot"), Kind::Count, "boot of the device").hidden(),
        column(
            "ordinal",
            Row("/ordinal"),
            Kind::Count,
            "number of the reading in its boot",
        )
        .hidden(),
    ],
    empty: "no reading in this range",
};

/// `device ls`
pub const DEVICES: Sheet = Sheet {
    command: "device ls",
    rows: "/devices",
    columns: &[
        column("device", Row("/device"), Kind::Text, "name, or uid"),
        column("uid", Row("/uid"), Kind::Text, "16 hex digits"),
        column(
            "port",
            Row("/connected"),
            Kind::Count,
            "number of the port that it is connected to; empty: it is not",
        ),
        column("open", Row("/open"), Kind::Text, "whether its link is open").hidden(),
        column("boot", Row("/boot"), Kind::Count, "boot that it is in"),
        column(
            "reset_cause",
            Row("/reset_cause"),
            Kind::Text,
            "why it started",
        )
        .head("reset"),
        column(
            "firmware",
            Row("/firmware"),
            Kind::Text,
            "version of its firmware",
        ),
        column(
            "channels",
            Row("/channels"),
            Kind::Length,
            "how many channels it has",
        ),
        column(
            "waiting",
            Row("/health/waiting"),
            Kind::Count,
            "readings that wait on it",
        ),
        column(
            "closes",
            Row("/ledger/closes"),
            Kind::Flag,
            "whether the sums of its ledger close",
        ),
    ],
    empty: "no device was heard of yet",
};

/// `device show`
pub const DEVICE_CHANNELS: Sheet = Sheet {
    command: "device show",
    rows: "/channels",
    columns: &[
        column("device", Answer("/device"), Kind::Text, "name, or uid").hidden(),
        column("uid", Answer("/uid"), Kind::Text, "16 hex digits").hidden(),
        column("channel", Row("/channel"), Kind::Text, "channel"),
        column("unit", Row("/unit"), Kind::Text, "unit of its values"),
        column(
            "from",
            Row("/range/0"),
            Kind::Figure,
            "smallest value that the sensor gives",
        ),
        column(
            "to",
            Row("/range/1"),
            Kind::Figure,
            "largest value that the sensor gives",
        ),
        column(
            "period_us",
            Row("/period_us"),
            Kind::Period,
            "time between samples, us",
        )
        .head("period"),
        column(
            "wanted_period_us",
            Row("/desired/period_us"),
            Kind::Period,
            "the same, as it was set; empty: not set",
        )
        .head("wanted"),
        column(
            "threshold",
            Row("/desired/threshold"),
            Kind::Figure,
            "threshold that was set, in the unit",
        ),
        column(
            "errors",
            Row("/errors"),
            Kind::Count,
            "samples that gave no value",
        ),
        column("value", Row("/newest/value"), Kind::Figure, "newest value").head("newest"),
        column(
            "quality",
            Row("/newest/quality"),
            Kind::State,
            "`ok`, or why there is no value",
        )
        .missing("ok"),
        column(
            "time",
            Row("/newest/time"),
            Kind::Time,
            "time of the newest reading",
        )
        .head("at"),
    ],
    empty: "it has not said which channels it has",
};

/// `status`, and `upstream status`: each figure of the answer.
pub const FIGURES: Sheet = Sheet {
    command: "status, upstream status",
    rows: "/figures",
    columns: &[
        column(
            "figure",
            Row("/figure"),
            Kind::Text,
            "name of the figure: the members of the JSON answer from outside in, joined by points; an element of a list stands by its name, or its place",
        ),
        column(
            "value",
            Row("/value"),
            Kind::Text,
            "the figure, as JSON has it; texts without quotes",
        ),
    ],
    empty: "nothing",
};

/// `status --ledger`
pub const LEDGER: Sheet = Sheet {
    command: "status --ledger",
    rows: "/devices",
    columns: &[
        column("device", Row("/device"), Kind::Text, "name, or uid"),
        column("uid", Row("/uid"), Kind::Text, "16 hex digits"),
        column(
            "produced",
            Row("/ledger/produced"),
            Kind::Count,
            "readings that it produced in all its boots",
        ),
        column(
            "readings",
            Row("/ledger/readings"),
            Kind::Count,
            "of these: stored",
        ),
        column(
            "gaps",
            Row("/ledger/gaps/total"),
            Kind::Count,
            "of these: declared to never come",
        ),
        column(
            "gaps_by_reason",
            Row("/ledger/gaps/by_reason"),
            Kind::Json,
            "the same by reason, a JSON object",
        ),
        column(
            "lost",
            Row("/ledger/lost"),
            Kind::Count,
            "of these: trimmed or damaged before they were counted",
        ),
        column(
            "missing",
            Row("/ledger/missing"),
            Kind::Count,
            "of these: on the device, or on their way",
        ),
        column(
            "duplicates",
            Row("/ledger/duplicates"),
            Kind::Count,
            "readings that came again",
        ),
        column(
            "closes",
            Row("/ledger/closes"),
            Kind::Flag,
            "whether the sums close",
        ),
        column(
            "boot",
            Row("/ledger/device/boot"),
            Kind::Count,
            "boot that the device is in",
        ),
        column(
            "boot_produced",
            Row("/ledger/device/produced"),
            Kind::Count,
            "what the device says that it produced in it",
        ),
        column(
            "boot_acked",
            Row("/ledger/device/acked"),
            Kind::Count,
            "what it knows to be acked",
        ),
        column(
            "boot_waiting",
            Row("/ledger/device/waiting"),
            Kind::Count,
            "what waits on it",
        ),
        column(
            "boot_gaps",
            Row("/ledger/device/gaps/total"),
            Kind::Count,
            "what it declared as gaps",
        ),
    ],
    empty: "no device was heard of yet",
};

/// `device log`
pub const DEVICE_LOG: Sheet = Sheet {
    command: "device log",
    rows: "/lines",
    columns: &[
        column("device", Answer("/device"), Kind::Text, "name, or uid"),
        column("uid", Answer("/uid"), Kind::Text, "16 hex digits"),
        column(
            "number",
            Row("/number"),
            Kind::Count,
            "number of the line at the agent, of all devices",
        ),
        column("time", Row("/time"), Kind::Time, "when it came"),
        column(
            "device_time",
            Row("/device_time"),
            Kind::Text,
            "what the device's own clock said, as its firmware writes it",
        ),
        column(
            "level",
            Row("/level"),
            Kind::Text,
            "how loud it is; empty: a plain print",
        ),
        column("text", Row("/text"), Kind::Text, "the line"),
        column(
            "not_decoded",
            Row("/not_decoded"),
            Kind::Text,
            "why there is no text",
        ),
        column("frame", Row("/frame"), Kind::Text, "its bytes, hex digits"),
        column(
            "build_id",
            Row("/build_id"),
            Kind::Text,
            "which firmware said it, hex digits",
        ),
    ],
    empty: "no line yet",
};
