//! How the receiver is doing, for the local socket and the demo.

use forebay_core::upstream::counters::Counters;
use serde_json::{Value, json};

/// Figures of the sink as last made durable, since it was created.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UpstreamSnapshot {
    /// Whether the broker answers.
    pub connected: bool,
    /// Why it does not.
    pub broker_said: Option<String>,
    /// What the broker did not let us do since it was connected last.
    pub denied: Option<String>,
    /// Why nothing can be applied right now.
    pub sink_said: Option<String>,
    /// Messages received, each time they came.
    pub messages: u64,
    /// Readings applied, each once.
    pub readings: u64,
    pub gap_records: u64,
    /// Readings that gap records say will never come.
    pub gap_readings: u64,
    /// Records of a gateway's clock applied.
    pub clock_records: u64,
    /// Records that say how far a gateway knew its tables.
    pub table_records: u64,
    /// Result rows applied.
    pub rows: u64,
    /// Records that came again.
    pub duplicates: u64,
    /// Messages that were not ours or not readable.
    pub rejected: u64,
    /// Messages not taken because too many holes were open.
    pub beyond: u64,
    pub missing: u64,
    /// Times that a gateway was asked to send again.
    pub resends: u64,
    /// Partitions with a hole in what is applied.
    pub holes: u64,
    pub gateways: u64,
    pub partitions: u64,
    /// Openings that showed a second disk of one log.
    pub clones: u64,
    /// Logs with more than one history, at most 16: gateway and log id.
    pub forked: Vec<(String, String)>,
    /// Batches that were judged again, since the start: another worker had changed the
    /// same gateway.
    pub conflicts: u64,
}

impl UpstreamSnapshot {
    pub(super) fn count(&mut self, counters: Counters) {
        self.messages = counters.messages;
        self.readings = counters.readings;
        self.gap_records = counters.gap_records;
        self.gap_readings = counters.gap_readings;
        self.clock_records = counters.clock_records;
        self.table_records = counters.table_records;
        self.rows = counters.rows;
        self.duplicates = counters.duplicates;
        self.rejected = counters.rejected;
        self.beyond = counters.beyond;
        self.missing = counters.missing;
        self.resends = counters.resends;
        self.clones = counters.clones;
    }

    /// The answer to `{"status":{}}`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "connected": self.connected,
            "broker_said": self.broker_said,
            "denied": self.denied,
            "sink_said": self.sink_said,
            "messages": self.messages,
            "readings": self.readings,
            "gap_records": self.gap_records,
            "gap_readings": self.gap_readings,
            "clock_records": self.clock_records,
            "table_records": self.table_records,
            "rows": self.rows,
            "duplicates": self.duplicates,
            "rejected": self.rejected,
            "beyond": self.beyond,
            "missing": self.missing,
            "resends": self.resends,
            "holes": self.holes,
            "gateways": self.gateways,
            "partitions": self.partitions,
            "clones": self.clones,
            "forked": self.forked.iter().map(|(gateway, log_id)| json!({
                "gateway": gateway, "log_id": log_id,
            })).collect::<Vec<_>>(),
            "conflicts": self.conflicts,
        })
    }
}
