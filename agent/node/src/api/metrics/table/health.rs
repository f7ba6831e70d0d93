//! What is wrong: an agent and a receiver say it in the same members.

use super::super::from::Figure::{Micros, Number, Text, There};
use super::super::from::Label::{At, Is};
use super::{Kind, Labels, Metric, from};

const NONE: Labels = &[];

const ALARM: Labels = &[
    ("code", At("/alarms/*/code")),
    ("subject", At("/alarms/*/subject")),
    ("severity", At("/alarms/*/severity")),
];

/// See the module.
pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "forebay_health",
        kind: Kind::Gauge,
        help: "1 for the health that there is, 0 for the others.",
        sources: &[
            from("/health", &[("health", Is("ok"))], Text("ok")),
            from("/health", &[("health", Is("degraded"))], Text("degraded")),
            from("/health", &[("health", Is("failed"))], Text("failed")),
        ],
    },
    gauge!(
        "forebay_alarm",
        "Alarms that there are; always 1.",
        "/alarms/*/code",
        ALARM,
        There
    ),
    gauge!(
        "forebay_alarm_age_seconds",
        "For how long it has been so.",
        "/alarms/*/age_us",
        ALARM,
        Micros
    ),
    gauge!(
        "forebay_alarms_left_out",
        "Alarms beyond those that are shown.",
        "/alarms_left_out",
        NONE,
        Number
    ),
];
