//! The engine and how its state is kept.

use super::super::from::Figure::{Flag, Micros, Number};
use super::super::from::Label::{At, Is};
use super::super::from::Source;
use super::{Kind, Labels, Metric, from};

const NONE: Labels = &[];

const PARTITION: Labels = &[("partition", At("/checkpoints/*/partition"))];

const CROSSING: Labels = &[("partition", Is("exchange"))];

/// See the module.
pub(super) const METRICS: &[Metric] = &[
    // The engine.
    counter!(
        "forebay_rows_total",
        "Rows of windows and joins written since the start.",
        "/rows",
        NONE
    ),
    counter!(
        "forebay_rows_oversize_total",
        "Rows that were longer than a block takes.",
        "/rows_oversize",
        NONE
    ),
    counter!(
        "forebay_rows_homeless_total",
        "Rows of streams that got no topic.",
        "/rows_homeless",
        NONE
    ),
    counter!(
        "forebay_rows_same_total",
        "Rows that were made again and are those that stand.",
        "/rows_same",
        NONE
    ),
    counter!(
        "forebay_rows_different_total",
        "Rows that were made again and are not.",
        "/rows_different",
        NONE
    ),
    counter!(
        "forebay_changes_missing_total",
        "Changes of tables that were gone before they were applied.",
        "/changes_missing",
        NONE
    ),
    counter!(
        "forebay_exchange_readings_total",
        "Readings written into the exchange.",
        "/exchange/readings",
        NONE
    ),
    counter!(
        "forebay_exchange_rows_total",
        "Rows of windows that cross partitions.",
        "/exchange/rows",
        NONE
    ),
    counter!(
        "forebay_exchange_missing_total",
        "Records of the exchange that were gone before they were read.",
        "/exchange/records_missing",
        NONE
    ),
    gauge!(
        "forebay_exchange_settled",
        "Whether all of it is derived.",
        "/exchange/settled",
        NONE,
        Flag
    ),
    // Checkpoints; of the exchange under the partition "exchange".
    checkpoint_gauge(
        "forebay_checkpoint_epoch",
        "States of the engine that were kept.",
        &[
            from("/checkpoints/*/epoch", PARTITION, Number),
            from("/exchange/checkpoint/epoch", CROSSING, Number),
        ],
    ),
    checkpoint_gauge(
        "forebay_checkpoint_offset",
        "Readings before which the kept state has all.",
        &[
            from("/checkpoints/*/offset", PARTITION, Number),
            from("/exchange/checkpoint/offset", CROSSING, Number),
        ],
    ),
    checkpoint_gauge(
        "forebay_checkpoint_age_seconds",
        "How long ago the last was kept.",
        &[
            from("/checkpoints/*/age_us", PARTITION, Micros),
            from("/exchange/checkpoint/age_us", CROSSING, Micros),
        ],
    ),
    checkpoint_gauge(
        "forebay_checkpoint_size_bytes",
        "What the state takes.",
        &[
            from("/checkpoints/*/bytes", PARTITION, Number),
            from("/exchange/checkpoint/bytes", CROSSING, Number),
        ],
    ),
    checkpoint_gauge(
        "forebay_checkpoint_changed_bytes",
        "What of it is not kept yet.",
        &[
            from("/checkpoints/*/changed_bytes", PARTITION, Number),
            from("/exchange/checkpoint/changed_bytes", CROSSING, Number),
        ],
    ),
    checkpoint_gauge(
        "forebay_checkpoint_readings_since",
        "Readings since it was kept.",
        &[
            from("/checkpoints/*/readings_since", PARTITION, Number),
            from("/exchange/checkpoint/readings_since", CROSSING, Number),
        ],
    ),
    checkpoint_gauge(
        "forebay_checkpoint_interval_seconds",
        "How far apart they are.",
        &[
            from("/checkpoints/*/interval_us", PARTITION, Micros),
            from("/exchange/checkpoint/interval_us", CROSSING, Micros),
        ],
    ),
    checkpoint_gauge(
        "forebay_checkpoint_ingest_per_second",
        "Readings a second.",
        &[
            from("/checkpoints/*/ingest_per_s", PARTITION, Number),
            from("/exchange/checkpoint/ingest_per_s", CROSSING, Number),
        ],
    ),
    checkpoint_gauge(
        "forebay_checkpoint_replay_per_second",
        "Readings a second of a replay.",
        &[
            from("/checkpoints/*/replay_per_s", PARTITION, Number),
            from("/exchange/checkpoint/replay_per_s", CROSSING, Number),
        ],
    ),
    checkpoint_gauge(
        "forebay_checkpoint_recovery_seconds",
        "How long a start would replay.",
        &[
            from("/checkpoints/*/recovery_us", PARTITION, Micros),
            from("/exchange/checkpoint/recovery_us", CROSSING, Micros),
        ],
    ),
    checkpoint_gauge(
        "forebay_checkpoint_wear_bytes_per_day",
        "What keeping it writes a day.",
        &[
            from("/checkpoints/*/wear_bytes_per_day", PARTITION, Number),
            from("/exchange/checkpoint/wear_bytes_per_day", CROSSING, Number),
        ],
    ),
    gauge!(
        "forebay_start_engines_restored",
        "Engines whose kept state this start took.",
        "/start/engines_restored",
        NONE,
        Number
    ),
    gauge!(
        "forebay_start_readings_replayed",
        "Readings that it read again.",
        "/start/readings_replayed",
        NONE,
        Number
    ),
    gauge!(
        "forebay_start_seconds",
        "How long that took.",
        "/start/took_us",
        NONE,
        Micros
    ),
];

const fn checkpoint_gauge(
    name: &'static str,
    help: &'static str,
    sources: &'static [Source],
) -> Metric {
    Metric {
        name,
        kind: Kind::Gauge,
        help,
        sources,
    }
}
