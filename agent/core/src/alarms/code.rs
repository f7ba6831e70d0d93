//! Every alarm that there is, with its code. A code never changes its meaning and is
//! never used again: operators and their scripts know it. Each has a section in
//! `agent/node/docs/alarms.md`.

use std::fmt;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Something is wrong, and what comes in is still taken.
    Degraded,
    /// What the gateway is there for does not happen.
    Failed,
}

impl Severity {
    /// Its name in JSON, also that of the health it makes.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Degraded => "degraded",
            Self::Failed => "failed",
        }
    }
}

/// Which alarm it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    IngestStalled,
    PortLost,
    DeviceGaps,
    DeviceTwice,
    DevicesRefused,
    LedgerOpen,
    ClockUntrusted,
    Quarantine,
    RecordsLost,
    RowsLeftOut,
    RowsDiffer,
    StoreFailed,
    LogFull,
    LogNearFull,
    DiskLow,
    DroppedUnsent,
    CardWear,
    BacklogHigh,
    BrokerRefused,
    BrokerAway,
    ReceiverSilent,
    DeadLetters,
    LogCopied,
    SourceFailed,
}

/// What is always true of a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodeFacts {
    pub name: &'static str,
    /// What an alarm of it is unless it says otherwise.
    pub severity: Severity,
    /// What its subject is.
    pub subject: &'static str,
    /// What it means, as the end of "there is an alarm of this code when".
    pub when: &'static str,
    /// Whether another sentence tells the operator already when it begins.
    pub is_told: bool,
}

impl Code {
    /// In the order of the reading's way.
    pub const ALL: [Self; 24] = [
        Self::IngestStalled,
        Self::PortLost,
        Self::DeviceGaps,
        Self::DeviceTwice,
        Self::DevicesRefused,
        Self::LedgerOpen,
        Self::ClockUntrusted,
        Self::Quarantine,
        Self::RecordsLost,
        Self::RowsLeftOut,
        Self::RowsDiffer,
        Self::StoreFailed,
        Self::LogFull,
        Self::LogNearFull,
        Self::DiskLow,
        Self::DroppedUnsent,
        Self::CardWear,
        Self::BacklogHigh,
        Self::BrokerRefused,
        Self::BrokerAway,
        Self::ReceiverSilent,
        Self::DeadLetters,
        Self::LogCopied,
        Self::SourceFailed,
    ];

    /// Its facts.
    #[must_use]
    pub fn facts(self) -> CodeFacts {
        let (name, severity, subject, when, is_told) = match self {
            Self::IngestStalled => (
                "ingest-stalled",
                Severity::Degraded,
                "device",
                "no record of a device has come for `stalled_periods` times its period; one for \
                 all devices when none brings any, which is `failed`",
                false,
            ),
            Self::PortLost => (
                "port-lost",
                Severity::Degraded,
                "port",
                "a port of the config that was open is gone for `port_lost_after`",
                false,
            ),
            Self::DeviceGaps => (
                "device-gaps",
                Severity::Degraded,
                "device",
                "readings of a device were lost before the gateway had them",
                false,
            ),
            Self::DeviceTwice => (
                "device-twice",
                Severity::Degraded,
                "device",
                "a device has moved to another port three times while the one before was open",
                false,
            ),
            Self::DevicesRefused => (
                "devices-refused",
                Severity::Degraded,
                "agent",
                "a device was turned away because the table of devices is full",
                false,
            ),
            Self::LedgerOpen => (
                "ledger-open",
                Severity::Degraded,
                "device",
                "the sums of a device's ledger do not close for a minute",
                false,
            ),
            Self::ClockUntrusted => (
                "clock-untrusted",
                Severity::Degraded,
                "clock",
                "the gateway's clock is not trusted for a minute",
                true,
            ),
            Self::Quarantine => (
                "quarantine",
                Severity::Degraded,
                "topic or store",
                "readings were put into the topic `quarantine`, or damaged files into the folder",
                false,
            ),
            Self::RecordsLost => (
                "records-lost",
                Severity::Degraded,
                "store",
                "records that were durable cannot be read any more",
                true,
            ),
            Self::RowsLeftOut => (
                "rows-left-out",
                Severity::Degraded,
                "engine",
                "readings or rows of windows were left out",
                false,
            ),
            Self::RowsDiffer => (
                "rows-differ",
                Severity::Failed,
                "engine",
                "rows that were computed again are not those that the log has",
                false,
            ),
            Self::StoreFailed => (
                "store-failed",
                Severity::Failed,
                "store",
                "the log cannot be written",
                true,
            ),
            Self::LogFull => (
                "log-full",
                Severity::Failed,
                "topic",
                "a topic that drops nothing is full",
                true,
            ),
            Self::LogNearFull => (
                "log-near-full",
                Severity::Degraded,
                "topic",
                "a topic that drops nothing has used 80 % of its quota; over below 75 %",
                true,
            ),
            Self::DiskLow => (
                "disk-low",
                Severity::Degraded,
                "store",
                "the disk has less free than its reserve",
                true,
            ),
            Self::DroppedUnsent => (
                "dropped-unsent",
                Severity::Degraded,
                "topic",
                "records were dropped to make room that had not arrived where they were to go",
                true,
            ),
            Self::CardWear => (
                "card-wear",
                Severity::Degraded,
                "store",
                "the card lasts less than `card_years` at the rate at which it is written; over \
                 when it lasts a tenth longer",
                false,
            ),
            Self::BacklogHigh => (
                "backlog-high",
                Severity::Degraded,
                "destination",
                "what waits for a destination has 80 % of the room that the log has for it; over \
                 below 75 %",
                false,
            ),
            Self::BrokerRefused => (
                "broker-refused",
                Severity::Degraded,
                "destination",
                "the broker of a destination does not let the gateway in, does not take its \
                 topics, or does not let it read the receiver's",
                false,
            ),
            Self::BrokerAway => (
                "broker-away",
                Severity::Degraded,
                "destination",
                "a destination has no connection for `broker_away_after`",
                false,
            ),
            Self::ReceiverSilent => (
                "receiver-silent",
                Severity::Degraded,
                "destination",
                "the broker is there and the receiver behind it is not, for `broker_away_after`",
                false,
            ),
            Self::DeadLetters => (
                "dead-letters",
                Severity::Degraded,
                "destination",
                "there are records that the broker of a destination does not take",
                false,
            ),
            Self::LogCopied => (
                "log-copied",
                Severity::Degraded,
                "destination",
                "the receiver has records of this log that another opening of it has sent",
                true,
            ),
            Self::SourceFailed => (
                "source-failed",
                Severity::Degraded,
                "source",
                "a source of tables has stopped, or waits for `broker_away_after`",
                false,
            ),
        };
        CodeFacts {
            name,
            severity,
            subject,
            when,
            is_told,
        }
    }

    /// As it is written.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.facts().name
    }

    /// Where the runbook is about it.
    #[must_use]
    pub fn runbook(self) -> String {
        format!("alarms.md#{}", self.name())
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_code_stands_once_and_is_an_anchor() {
        let names: BTreeSet<_> = Code::ALL.iter().map(|code| code.name()).collect();
        assert_eq!(names.len(), Code::ALL.len());
        let plain = |c: char| c.is_ascii_lowercase() || c == '-';
        assert!(names.iter().all(|name| name.chars().all(plain)));
        assert!(Code::ALL.is_sorted(), "alarms stand in this order");
    }
}
