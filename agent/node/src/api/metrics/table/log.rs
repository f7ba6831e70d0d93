//! The clock, the log, its disk and its card.

use super::super::from::Figure::{Flag, Micros, Number, Time};
use super::super::from::Label::At;
use super::{Kind, Labels, Metric, from};

const NONE: Labels = &[];

const TOPIC: Labels = &[("topic", At("/space/topics/*/topic"))];

const HEAD: Labels = &[
    ("stream", At("/partitions/*/stream")),
    ("partition", At("/partitions/*/partition")),
];

/// See the module.
pub(super) const METRICS: &[Metric] = &[
    // The clock.
    gauge!(
        "forebay_clock_trusted",
        "Whether the gateway's clock is trusted.",
        "/clock/trusted",
        NONE,
        Flag
    ),
    gauge!(
        "forebay_clock_recorded_timestamp_seconds",
        "The newest time that stands in the log.",
        "/clock/recorded",
        NONE,
        Time
    ),
    gauge!(
        "forebay_clock_readings_parked",
        "Readings that wait until their time is known.",
        "/clock/readings_parked",
        NONE,
        Number
    ),
    // The log.
    gauge!(
        "forebay_log_partitions_layout",
        "Times that the log was given more partitions.",
        "/layout",
        NONE,
        Number
    ),
    counter!(
        "forebay_log_records_total",
        "Durable records of each stream and partition.",
        "/partitions/*/head",
        HEAD
    ),
    gauge!(
        "forebay_disk_free_bytes",
        "Free on the log's disk.",
        "/space/free_bytes",
        NONE,
        Number
    ),
    gauge!(
        "forebay_disk_reserve_bytes",
        "What stays free there.",
        "/space/reserve_bytes",
        NONE,
        Number
    ),
    gauge!(
        "forebay_log_live_bytes",
        "Taken by what is not sealed yet.",
        "/space/live_bytes",
        NONE,
        Number
    ),
    gauge!(
        "forebay_topic_used_bytes",
        "Taken by the topic.",
        "/space/topics/*/used_bytes",
        TOPIC,
        Number
    ),
    gauge!(
        "forebay_topic_quota_bytes",
        "What it may take.",
        "/space/topics/*/quota_bytes",
        TOPIC,
        Number
    ),
    gauge!(
        "forebay_topic_segments",
        "Sealed segments of it.",
        "/space/topics/*/segments",
        TOPIC,
        Number
    ),
    gauge!(
        "forebay_topic_age_limit_seconds",
        "How long its records are kept at the most.",
        "/space/topics/*/age_us",
        TOPIC,
        Micros
    ),
    gauge!(
        "forebay_topic_oldest_timestamp_seconds",
        "Time of its oldest record.",
        "/space/topics/*/oldest",
        TOPIC,
        Time
    ),
    counter!(
        "forebay_topic_dropped_total",
        "Records dropped to make room.",
        "/space/topics/*/dropped",
        TOPIC
    ),
    counter!(
        "forebay_topic_dropped_unsent_total",
        "Of these, what no broker had acked.",
        "/space/topics/*/dropped_unsent",
        TOPIC
    ),
    counter!(
        "forebay_topic_dropped_unconfirmed_total",
        "Of these, what had not arrived.",
        "/space/topics/*/dropped_unconfirmed",
        TOPIC
    ),
    counter!(
        "forebay_topic_rejected_total",
        "Records that were not stored because it was full.",
        "/space/topics/*/rejected",
        TOPIC
    ),
    gauge!(
        "forebay_topic_near_full",
        "Whether 80 % of its quota are used.",
        "/space/topics/*/alarm",
        TOPIC,
        Flag
    ),
    gauge!(
        "forebay_topic_full",
        "Whether new records are rejected or wait.",
        "/space/topics/*/full",
        TOPIC,
        Flag
    ),
    // The card.
    counter!(
        "forebay_card_written_bytes_total",
        "Written to the disk in the life of the log.",
        "/card/written_bytes",
        NONE
    ),
    gauge!(
        "forebay_card_written_bytes_per_day",
        "Written a day, over the last 24 hours.",
        "/card/bytes_per_day",
        NONE,
        Number
    ),
    gauge!(
        "forebay_card_measured",
        "Whether the system counts, not we.",
        "/card/measured",
        NONE,
        Flag
    ),
    gauge!(
        "forebay_card_endurance_bytes",
        "What may be written to the card in its life.",
        "/card/endurance_bytes",
        NONE,
        Number
    ),
    gauge!(
        "forebay_card_years_left",
        "How long it lasts at that rate, years.",
        "/card/years_left",
        NONE,
        Number
    ),
];
