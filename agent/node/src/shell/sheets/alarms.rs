//! Columns of what is wrong with a running agent.

use super::super::output::{At, Column, Kind, Sheet, column};

const COLUMNS: &[Column] = &[
    column(
        "severity",
        At::Row("/severity"),
        Kind::State,
        "degraded: something is wrong; failed: what the gateway is there for does not happen",
    ),
    column(
        "code",
        At::Row("/code"),
        Kind::Text,
        "which alarm: a section of agent/node/docs/alarms.md",
    ),
    column(
        "subject",
        At::Row("/subject"),
        Kind::Text,
        "device, port, topic, destination or source",
    ),
    column(
        "since",
        At::Row("/since"),
        Kind::Time,
        "since when it is so, by the gateway's clock",
    ),
    column(
        "age_us",
        At::Row("/age_us"),
        Kind::Count,
        "for how long, us, by its monotonic clock",
    )
    .hidden(),
    column(
        "text",
        At::Row("/text"),
        Kind::Text,
        "what is wrong and what to do",
    ),
    column(
        "runbook",
        At::Row("/runbook"),
        Kind::Text,
        "where the runbook is about it",
    )
    .hidden(),
];

/// `alarms`
pub const ALARMS: Sheet = Sheet {
    command: "alarms",
    rows: "/alarms",
    columns: COLUMNS,
    empty: "no alarm",
};

/// `doctor`
pub const FINDINGS: Sheet = Sheet {
    command: "doctor",
    rows: "/checks",
    columns: &[
        column(
            "level",
            At::Row("/level"),
            Kind::State,
            "ok, warn, fail or skip",
        ),
        column(
            "code",
            At::Row("/code"),
            Kind::Text,
            "which check: a line of agent/node/docs/doctor.md",
        ),
        column(
            "about",
            At::Row("/about"),
            Kind::Text,
            "which of several: a port, a destination, a database, a key of the config",
        ),
        column("text", At::Row("/text"), Kind::Text, "what was measured"),
        column(
            "advice",
            At::Row("/advice"),
            Kind::Text,
            "what to do; empty: nothing",
        ),
    ],
    empty: "no check",
};
