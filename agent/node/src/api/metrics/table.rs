//! The metrics, each with the members of the status that it is made of, and the numbers
//! of the status that are none. A test walks a status and fails for a number that stands
//! in neither list.

use super::from::{Figure, Label, Source};

/// What kind of figure it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Only grows, from 0 again after a restart.
    Counter,
    Gauge,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
        }
    }
}

/// One metric.
#[derive(Debug)]
pub(super) struct Metric {
    pub name: &'static str,
    pub kind: Kind,
    pub help: &'static str,
    pub sources: &'static [Source],
}

type Labels = &'static [(&'static str, Label)];

const fn from(path: &'static str, labels: Labels, figure: Figure) -> Source {
    Source {
        path,
        labels,
        figure,
    }
}

/// A counter of one source.
macro_rules! counter {
    ($name:literal, $help:literal, $path:literal, $labels:expr) => {
        Metric {
            name: $name,
            kind: Kind::Counter,
            help: $help,
            sources: &[from($path, $labels, Number)],
        }
    };
}

/// A gauge of one source.
macro_rules! gauge {
    ($name:literal, $help:literal, $path:literal, $labels:expr, $figure:expr) => {
        Metric {
            name: $name,
            kind: Kind::Gauge,
            help: $help,
            sources: &[from($path, $labels, $figure)],
        }
    };
}

mod agent;
mod devices;
mod engine;
mod health;
mod log;
mod outside;
mod receiver;

/// The metrics of one kind of process, beside those that each process has.
#[derive(Debug)]
pub struct Table {
    groups: &'static [&'static [Metric]],
    /// Numbers of the status that no metric shows, each with the reason. What begins with
    /// one of them belongs to it.
    pub(super) not_metrics: &'static [(&'static str, &'static str)],
}

impl Table {
    /// In order.
    pub(super) fn metrics(&self) -> impl Iterator<Item = &'static Metric> {
        self.groups.iter().copied().flatten()
    }
}

/// Of an agent, made of `forebay status --json`.
pub static AGENT: Table = Table {
    groups: &[
        agent::METRICS,
        health::METRICS,
        devices::METRICS,
        log::METRICS,
        engine::METRICS,
        outside::METRICS,
    ],
    not_metrics: NOT_OF_AGENT,
};

/// Of a receiver, made of `forebay upstream status --ledger --json`.
pub static RECEIVER: Table = Table {
    groups: &[receiver::METRICS, health::METRICS],
    not_metrics: &[
        ("/ledger/devices/*/gaps/total", "the sum over its reasons"),
        (
            "/ledger/devices/*/boots",
            "part of the sums over all boots: a label that names boots has no bound",
        ),
        ("/ledger/others/gaps/total", "the sum over its reasons"),
    ],
};

const NOT_OF_AGENT: &[(&str, &str)] = &[
    ("/forward", "the first of `destinations` once more"),
    ("/gaps/total", "the sum over its reasons"),
    ("/devices/*/partition", "where it is kept, not how it does"),
    (
        "/devices/*/received",
        "`ledger.readings` under its old name",
    ),
    (
        "/devices/*/duplicates",
        "`ledger.duplicates` under its old name",
    ),
    ("/devices/*/lost", "`ledger.lost` under its old name"),
    ("/devices/*/gaps", "`ledger.gaps` under its old name"),
    ("/devices/*/ledger/gaps/total", "the sum over its reasons"),
    (
        "/devices/*/ledger/device/gaps/total",
        "the sum over its reasons",
    ),
    (
        "/devices/*/ledger/folded",
        "part of the sums over all boots",
    ),
    (
        "/devices/*/ledger/boots",
        "part of the sums over all boots: a label that names boots has no bound",
    ),
    ("/devices/*/health/boot", "`ledger.device.boot` once more"),
    (
        "/devices/*/health/produced",
        "`ledger.device.produced` once more",
    ),
    ("/devices/*/health/acked", "`ledger.device.acked` once more"),
    (
        "/devices/*/health/waiting",
        "`ledger.device.waiting` once more",
    ),
    ("/devices/*/health/gaps", "`ledger.device.gaps` once more"),
    (
        "/devices/*/health/suppressed",
        "`ledger.device.suppressed` once more",
    ),
    (
        "/devices/*/channels",
        "readings: Prometheus asks for them at `/api/v1/query`",
    ),
    ("/ports/*/port", "the number of the port, which has a name"),
    (
        "/ports/*/boot",
        "`devices[].ledger.device.boot`, where the device is",
    ),
    ("/partitions/*/partition", "a label"),
    ("/checkpoints/*/partition", "a label"),
    ("/exchange/checkpoint/partition", "it is of all of them"),
    (
        "/space/topics/*/number",
        "the number of the topic, which has a name",
    ),
    (
        "/space/topics/*/used_percent",
        "`used_bytes` in parts of `quota_bytes`",
    ),
    (
        "/destinations/*/parked_ranges",
        "where the parked records are: `forebay forward ls`",
    ),
    ("/tables/*/source", "its source once more: see `sources`"),
];
