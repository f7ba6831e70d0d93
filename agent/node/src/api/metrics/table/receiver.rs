//! What a receiver has applied, since its sink was made.

use super::super::from::Figure::{Flag, Number, There};
use super::super::from::Label::{At, Key};
use super::{Kind, Labels, Metric, from};

const NONE: Labels = &[];

const DEVICE: Labels = &[
    ("gateway", At("/ledger/devices/*/gateway")),
    ("device", At("/ledger/devices/*/device")),
];

const DEVICE_GAP: Labels = &[
    ("gateway", At("/ledger/devices/*/gateway")),
    ("device", At("/ledger/devices/*/device")),
    ("reason", Key),
];

/// See the module.
pub(super) const METRICS: &[Metric] = &[
    gauge!(
        "forebay_upstream_connected",
        "Whether the broker answers.",
        "/connected",
        NONE,
        Flag
    ),
    counter!(
        "forebay_upstream_messages_total",
        "Messages received, each time they came.",
        "/messages",
        NONE
    ),
    counter!(
        "forebay_upstream_readings_total",
        "Readings applied, each once.",
        "/readings",
        NONE
    ),
    counter!(
        "forebay_upstream_gap_records_total",
        "Records applied that say that readings will never come.",
        "/gap_records",
        NONE
    ),
    counter!(
        "forebay_upstream_gap_readings_total",
        "Readings that these records say will never come.",
        "/gap_readings",
        NONE
    ),
    counter!(
        "forebay_upstream_clock_records_total",
        "Records of gateways' clocks applied.",
        "/clock_records",
        NONE
    ),
    counter!(
        "forebay_upstream_table_records_total",
        "Records applied that say how far a gateway knew its tables.",
        "/table_records",
        NONE
    ),
    counter!(
        "forebay_upstream_rows_total",
        "Result rows applied.",
        "/rows",
        NONE
    ),
    counter!(
        "forebay_upstream_duplicates_total",
        "Records that came again and were left out.",
        "/duplicates",
        NONE
    ),
    counter!(
        "forebay_upstream_rejected_total",
        "Messages that were not ours or not readable.",
        "/rejected",
        NONE
    ),
    counter!(
        "forebay_upstream_beyond_total",
        "Messages not taken as too many holes were open: they come again.",
        "/beyond",
        NONE
    ),
    counter!(
        "forebay_upstream_missing_total",
        "Offsets that gateways said will never come.",
        "/missing",
        NONE
    ),
    counter!(
        "forebay_upstream_resends_total",
        "Times that a gateway was asked to send again.",
        "/resends",
        NONE
    ),
    gauge!(
        "forebay_upstream_holes",
        "Partitions with a hole in what is applied.",
        "/holes",
        NONE,
        Number
    ),
    gauge!(
        "forebay_upstream_gateways",
        "Gateways that the sink knows.",
        "/gateways",
        NONE,
        Number
    ),
    gauge!(
        "forebay_upstream_partitions",
        "Partitions of streams that the sink knows.",
        "/partitions",
        NONE,
        Number
    ),
    counter!(
        "forebay_upstream_clones_total",
        "Openings that showed a second disk of one log.",
        "/clones",
        NONE
    ),
    gauge!(
        "forebay_upstream_forked",
        "Logs with more than one history; always 1.",
        "/forked/*/log_id",
        &[
            ("gateway", At("/forked/*/gateway")),
            ("log_id", At("/forked/*/log_id"))
        ],
        There
    ),
    counter!(
        "forebay_upstream_conflicts_total",
        "Batches judged again, as another worker had changed the same gateway; from 0 with the process.",
        "/conflicts",
        NONE
    ),
    // The ledger: device by device, over all of its boots.
    counter!(
        "forebay_upstream_device_produced_total",
        "Readings that the device made, by their numbers.",
        "/ledger/devices/*/produced",
        DEVICE
    ),
    counter!(
        "forebay_upstream_device_readings_total",
        "Of these, readings that are applied.",
        "/ledger/devices/*/readings",
        DEVICE
    ),
    counter!(
        "forebay_upstream_device_gap_readings_total",
        "Of these, readings that are declared to never come, by reason.",
        "/ledger/devices/*/gaps/by_reason/*",
        DEVICE_GAP
    ),
    gauge!(
        "forebay_upstream_device_missing",
        "Of these, readings that are neither.",
        "/ledger/devices/*/missing",
        DEVICE,
        Number
    ),
    gauge!(
        "forebay_upstream_device_twice",
        "Readings that are in it more than once.",
        "/ledger/devices/*/twice",
        DEVICE,
        Number
    ),
    gauge!(
        "forebay_upstream_device_closes",
        "Whether the sums of the device close.",
        "/ledger/devices/*/closes",
        DEVICE,
        Flag
    ),
    counter!(
        "forebay_upstream_other_readings_total",
        "Readings applied of devices beyond those that are told apart.",
        "/ledger/others/readings",
        NONE
    ),
    counter!(
        "forebay_upstream_other_gap_readings_total",
        "Readings declared to never come of devices beyond those that are told apart, by reason.",
        "/ledger/others/gaps/by_reason/*",
        &[("reason", Key)]
    ),
    gauge!(
        "forebay_upstream_ledger_begun_late",
        "Whether the sink held something before it had a ledger, which is not in it.",
        "/ledger/begun_late",
        NONE,
        Flag
    ),
];
