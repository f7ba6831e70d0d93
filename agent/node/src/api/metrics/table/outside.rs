//! Destinations, and tables with their sources.

use super::super::from::Figure::{Flag, Number, Text, Time};
use super::super::from::Label::At;
use super::{Kind, Labels, Metric, from};

const DESTINATION: Labels = &[("destination", At("/destinations/*/name"))];

const SOURCE: Labels = &[("source", At("/sources/*/name"))];

const TABLE: Labels = &[("table", At("/tables/*/table"))];

/// See the module.
pub(super) const METRICS: &[Metric] = &[
    // Destinations.
    gauge!(
        "forebay_forward_connected",
        "Whether the broker takes messages.",
        "/destinations/*/connected",
        DESTINATION,
        Flag
    ),
    gauge!(
        "forebay_forward_receiver_known",
        "Whether a receiver of ours was ever heard.",
        "/destinations/*/receiver_known",
        DESTINATION,
        Flag
    ),
    gauge!(
        "forebay_forward_receiver_online",
        "Whether it says that it is there.",
        "/destinations/*/receiver_online",
        DESTINATION,
        Flag
    ),
    gauge!(
        "forebay_forward_backlog_records",
        "Records that the broker has not acked.",
        "/destinations/*/backlog",
        DESTINATION,
        Number
    ),
    gauge!(
        "forebay_forward_backlog_readings",
        "Readings among them.",
        "/destinations/*/backlog_readings",
        DESTINATION,
        Number
    ),
    gauge!(
        "forebay_forward_backlog_bytes",
        "What they take in the log.",
        "/destinations/*/backlog_bytes",
        DESTINATION,
        Number
    ),
    gauge!(
        "forebay_forward_backlog_eta_seconds",
        "When it is sent at the rate of now.",
        "/destinations/*/eta_s",
        DESTINATION,
        Number
    ),
    gauge!(
        "forebay_forward_oldest_unsent_timestamp_seconds",
        "Time of the oldest reading that waits.",
        "/destinations/*/oldest_unsent",
        DESTINATION,
        Time
    ),
    gauge!(
        "forebay_forward_readings_per_second",
        "Readings that the broker acks a second.",
        "/destinations/*/rate",
        DESTINATION,
        Number
    ),
    gauge!(
        "forebay_forward_unconfirmed_records",
        "Records that the receiver has not confirmed.",
        "/destinations/*/unconfirmed",
        DESTINATION,
        Number
    ),
    gauge!(
        "forebay_forward_in_flight",
        "Messages without an answer.",
        "/destinations/*/in_flight",
        DESTINATION,
        Number
    ),
    counter!(
        "forebay_forward_published_total",
        "Messages handed over.",
        "/destinations/*/published",
        DESTINATION
    ),
    counter!(
        "forebay_forward_resent_total",
        "Of these, again.",
        "/destinations/*/resent",
        DESTINATION
    ),
    counter!(
        "forebay_forward_refused_total",
        "Messages that the broker refused.",
        "/destinations/*/refused",
        DESTINATION
    ),
    counter!(
        "forebay_forward_parked_total",
        "Records passed over since the start.",
        "/destinations/*/parked",
        DESTINATION
    ),
    counter!(
        "forebay_forward_parked_ever_total",
        "Records passed over in the life of the log.",
        "/destinations/*/parked_ever",
        DESTINATION
    ),
    counter!(
        "forebay_forward_declared_trimmed_total",
        "Records declared as dropped before they were sent.",
        "/destinations/*/records_trimmed",
        DESTINATION
    ),
    counter!(
        "forebay_forward_declared_unreadable_total",
        "Records declared as unreadable.",
        "/destinations/*/records_unreadable",
        DESTINATION
    ),
    counter!(
        "forebay_forward_declared_expired_total",
        "Records declared as too old.",
        "/destinations/*/expired",
        DESTINATION
    ),
    counter!(
        "forebay_forward_disconnects_total",
        "Connections that ended.",
        "/destinations/*/disconnects",
        DESTINATION
    ),
    counter!(
        "forebay_forward_rewinds_total",
        "Times that marks went back because the receiver lost something.",
        "/destinations/*/rewinds",
        DESTINATION
    ),
    counter!(
        "forebay_forward_probes_total",
        "Blocks sent again to see whether they are missed.",
        "/destinations/*/probes",
        DESTINATION
    ),
    counter!(
        "forebay_forward_messages_bad_total",
        "Messages of the receiver that did not read.",
        "/destinations/*/messages_bad",
        DESTINATION
    ),
    counter!(
        "forebay_forward_acks_foreign_total",
        "Acks about openings of the log that are not ours.",
        "/destinations/*/acks_foreign",
        DESTINATION
    ),
    counter!(
        "forebay_forward_acks_late_total",
        "Acks that came after newer ones.",
        "/destinations/*/acks_late",
        DESTINATION
    ),
    counter!(
        "forebay_forward_stalls_total",
        "Connections given up because nothing moved.",
        "/destinations/*/stalls",
        DESTINATION
    ),
    // Tables and their sources.
    gauge!(
        "forebay_source_streaming",
        "Whether it is up to date.",
        "/sources/*/state",
        SOURCE,
        Text("streaming")
    ),
    gauge!(
        "forebay_source_failed",
        "Whether it has stopped.",
        "/sources/*/state",
        SOURCE,
        Text("failed")
    ),
    gauge!(
        "forebay_source_lag_bytes",
        "What it still has to hand over.",
        "/sources/*/lag_bytes",
        SOURCE,
        Number
    ),
    counter!(
        "forebay_source_events_total",
        "Events that it handed over.",
        "/sources/*/events",
        SOURCE
    ),
    counter!(
        "forebay_source_changes_total",
        "Changes that were written.",
        "/sources/*/changes",
        SOURCE
    ),
    counter!(
        "forebay_source_repeated_total",
        "Events that had come before.",
        "/sources/*/repeated",
        SOURCE
    ),
    counter!(
        "forebay_source_refused_total",
        "Events that were none of its tables'.",
        "/sources/*/refused",
        SOURCE
    ),
    counter!(
        "forebay_source_snapshots_total",
        "Times that it read all rows.",
        "/sources/*/snapshots",
        SOURCE
    ),
    counter!(
        "forebay_source_read_total",
        "Lines, messages or records that it read.",
        "/sources/*/read",
        SOURCE
    ),
    counter!(
        "forebay_source_malformed_total",
        "Of these, what did not read.",
        "/sources/*/malformed",
        SOURCE
    ),
    counter!(
        "forebay_source_passed_over_total",
        "Of these, what is of other tables.",
        "/sources/*/passed_over",
        SOURCE
    ),
    counter!(
        "forebay_source_sent_again_total",
        "Of these, what was known already.",
        "/sources/*/sent_again",
        SOURCE
    ),
    gauge!(
        "forebay_table_rows",
        "Rows that it has.",
        "/tables/*/rows",
        TABLE,
        Number
    ),
    gauge!(
        "forebay_table_size_bytes",
        "What they take in memory.",
        "/tables/*/bytes",
        TABLE,
        Number
    ),
    gauge!(
        "forebay_table_watermark_timestamp_seconds",
        "Until when it is known.",
        "/tables/*/watermark",
        TABLE,
        Time
    ),
    counter!(
        "forebay_table_changes_total",
        "Changes of it.",
        "/tables/*/changes",
        TABLE
    ),
    counter!(
        "forebay_table_oversize_total",
        "Rows that were too long.",
        "/tables/*/oversize",
        TABLE
    ),
    counter!(
        "forebay_table_keyless_total",
        "Rows without a key.",
        "/tables/*/keyless",
        TABLE
    ),
    counter!(
        "forebay_table_beyond_total",
        "Rows beyond those that are kept.",
        "/tables/*/beyond",
        TABLE
    ),
    counter!(
        "forebay_table_columns_unknown_total",
        "Rows that lacked a column that did not change.",
        "/tables/*/columns_unknown",
        TABLE
    ),
];
