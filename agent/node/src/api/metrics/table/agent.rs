//! What the agent is, and readings over all devices.

use super::super::from::Figure::{Flag, Micros, Number, There};
use super::super::from::Label::{At, Key};
use super::{Kind, Labels, Metric, from};

const NONE: Labels = &[];

const TURN: Labels = &[("for", At("/loop/*/for"))];

/// See the module.
pub(super) const METRICS: &[Metric] = &[
    gauge!(
        "forebay_info",
        "Which gateway and which log this is; always 1.",
        "/log_id",
        &[("gateway", At("/gateway")), ("log_id", At("/log_id"))],
        There
    ),
    gauge!(
        "forebay_log_epoch",
        "Openings of the log so far.",
        "/epoch",
        NONE,
        Number
    ),
    gauge!(
        "forebay_ready",
        "Whether the log has been read and ports are heard.",
        "/recovered",
        NONE,
        Flag
    ),
    gauge!(
        "forebay_drained",
        "Whether all that was taken is durable, derived and sent.",
        "/drained",
        NONE,
        Flag
    ),
    // Readings: the ledger over all devices.
    counter!(
        "forebay_readings_total",
        "Readings taken from devices and imports.",
        "/received",
        NONE
    ),
    counter!(
        "forebay_readings_stored_total",
        "Of these, readings that are durable.",
        "/stored",
        NONE
    ),
    counter!(
        "forebay_readings_duplicate_total",
        "Readings that came again and were left out.",
        "/duplicates",
        NONE
    ),
    counter!(
        "forebay_readings_lost_total",
        "Readings that the log had and lost before they were counted.",
        "/lost",
        NONE
    ),
    counter!(
        "forebay_readings_missing_total",
        "Records of the log that engines did not find.",
        "/readings_missing",
        NONE
    ),
    counter!(
        "forebay_readings_beyond_total",
        "Readings of more series than the engine takes: stored, in no window.",
        "/readings_beyond",
        NONE
    ),
    counter!(
        "forebay_readings_not_shown_total",
        "Readings of more channels than newest readings are kept of: stored and computed, not shown.",
        "/readings_not_shown",
        NONE
    ),
    counter!(
        "forebay_gap_readings_total",
        "Readings in declared gaps, by why they never came.",
        "/gaps/by_reason/*",
        &[("reason", Key)]
    ),
    gauge!(
        "forebay_readings_behind",
        "Durable readings that the engine has not read yet.",
        "/readings_behind",
        NONE,
        Number
    ),
    // How long who asks waits for what the loop does before.
    counter!(
        "forebay_loop_turns_total",
        "Turns of the agent's loop, by what they were for.",
        "/loop/*/turns",
        TURN
    ),
    Metric {
        name: "forebay_loop_busy_seconds_total",
        kind: Kind::Counter,
        help: "Time that these turns took.",
        sources: &[from("/loop/*/busy_us", TURN, Micros)],
    },
    counter!(
        "forebay_loop_slow_turns_total",
        "Of these, turns of 5 ms or longer: questions wait for them.",
        "/loop/*/slow",
        TURN
    ),
    gauge!(
        "forebay_loop_longest_turn_seconds",
        "The longest of these turns since the start.",
        "/loop/*/longest_us",
        TURN,
        Micros
    ),
];
