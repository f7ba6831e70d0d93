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
    SinkFailed,
    GatewaySilent,
    HolesOpen,
    MessagesRejected,
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

/// What is known of each, in the order of [`Code`].
const FACTS: [(Code, CodeFacts); 28] = [
    (
        Code::IngestStalled,
        CodeFacts {
            name: "ingest-stalled",
            severity: Severity::Degraded,
            subject: "device",
            when: "no record of a device has come for `stalled_periods` times its period; one for \
                 all devices when none brings any, which is `failed`",
            is_told: false,
        },
    ),
    (
        Code::PortLost,
        CodeFacts {
            name: "port-lost",
            severity: Severity::Degraded,
            subject: "port",
            when: "a port of the config that was open is gone for `port_lost_after`",
            is_told: false,
        },
    ),
    (
        Code::DeviceGaps,
        CodeFacts {
            name: "device-gaps",
            severity: Severity::Degraded,
            subject: "device",
            when: "readings of a device were lost before the gateway had them",
            is_told: false,
        },
    ),
    (
        Code::DeviceTwice,
        CodeFacts {
            name: "device-twice",
            severity: Severity::Degraded,
            subject: "device",
            when: "a device has moved to another port three times while the one before was open",
            is_told: false,
        },
    ),
    (
        Code::DevicesRefused,
        CodeFacts {
            name: "devices-refused",
            severity: Severity::Degraded,
            subject: "agent",
            when: "a device was turned away because the table of devices is full",
            is_told: false,
        },
    ),
    (
        Code::LedgerOpen,
        CodeFacts {
            name: "ledger-open",
            severity: Severity::Degraded,
            subject: "device",
            when: "the sums of a device's ledger do not close for a minute",
            is_told: false,
        },
    ),
    (
        Code::ClockUntrusted,
        CodeFacts {
            name: "clock-untrusted",
            severity: Severity::Degraded,
            subject: "clock",
            when: "the gateway's clock is not trusted for a minute",
            is_told: true,
        },
    ),
    (
        Code::Quarantine,
        CodeFacts {
            name: "quarantine",
            severity: Severity::Degraded,
            subject: "topic or store",
            when: "readings were put into the topic `quarantine`, or damaged files stand in the folder",
            is_told: false,
        },
    ),
    (
        Code::RecordsLost,
        CodeFacts {
            name: "records-lost",
            severity: Severity::Degraded,
            subject: "store",
            when: "records that were durable cannot be read any more",
            is_told: true,
        },
    ),
    (
        Code::RowsLeftOut,
        CodeFacts {
            name: "rows-left-out",
            severity: Severity::Degraded,
            subject: "engine",
            when: "readings or rows of windows were left out",
            is_told: false,
        },
    ),
    (
        Code::RowsDiffer,
        CodeFacts {
            name: "rows-differ",
            severity: Severity::Failed,
            subject: "engine",
            when: "rows that were computed again are not those that the log has",
            is_told: false,
        },
    ),
    (
        Code::StoreFailed,
        CodeFacts {
            name: "store-failed",
            severity: Severity::Failed,
            subject: "store",
            when: "the log cannot be written",
            is_told: true,
        },
    ),
    (
        Code::LogFull,
        CodeFacts {
            name: "log-full",
            severity: Severity::Failed,
            subject: "topic",
            when: "a topic that drops nothing is full",
            is_told: true,
        },
    ),
    (
        Code::LogNearFull,
        CodeFacts {
            name: "log-near-full",
            severity: Severity::Degraded,
            subject: "topic",
            when: "a topic that drops nothing has used 80 % of its quota; over below 75 %",
            is_told: true,
        },
    ),
    (
        Code::DiskLow,
        CodeFacts {
            name: "disk-low",
            severity: Severity::Degraded,
            subject: "store, or sink of a receiver",
            when: "the disk has less free than its reserve",
            is_told: true,
        },
    ),
    (
        Code::DroppedUnsent,
        CodeFacts {
            name: "dropped-unsent",
            severity: Severity::Degraded,
            subject: "topic",
            when: "records were dropped to make room that had not arrived where they were to go",
            is_told: true,
        },
    ),
    (
        Code::CardWear,
        CodeFacts {
            name: "card-wear",
            severity: Severity::Degraded,
            subject: "store",
            when: "the card lasts less than `card_years` at the rate at which it is written; over \
                 when it lasts a tenth longer",
            is_told: false,
        },
    ),
    (
        Code::BacklogHigh,
        CodeFacts {
            name: "backlog-high",
            severity: Severity::Degraded,
            subject: "destination",
            when: "what waits for a destination has 80 % of the room that the log has for it; over \
                 below 75 %",
            is_told: false,
        },
    ),
    (
        Code::BrokerRefused,
        CodeFacts {
            name: "broker-refused",
            severity: Severity::Degraded,
            subject: "destination, or `broker` of a receiver",
            when: "the broker of a destination does not let the gateway in, does not take its \
                 topics, or does not let it read the receiver's",
            is_told: false,
        },
    ),
    (
        Code::BrokerAway,
        CodeFacts {
            name: "broker-away",
            severity: Severity::Degraded,
            subject: "destination, or `broker` of a receiver",
            when: "a destination has no connection for `broker_away_after`",
            is_told: false,
        },
    ),
    (
        Code::ReceiverSilent,
        CodeFacts {
            name: "receiver-silent",
            severity: Severity::Degraded,
            subject: "destination",
            when: "the broker is there and the receiver behind it is not, for `broker_away_after`",
            is_told: false,
        },
    ),
    (
        Code::DeadLetters,
        CodeFacts {
            name: "dead-letters",
            severity: Severity::Degraded,
            subject: "destination",
            when: "there are records that the broker of a destination does not take",
            is_told: false,
        },
    ),
    (
        Code::LogCopied,
        CodeFacts {
            name: "log-copied",
            severity: Severity::Degraded,
            subject: "destination, or gateway of a receiver",
            when: "the receiver has records of this log that another opening of it has sent",
            is_told: true,
        },
    ),
    (
        Code::SourceFailed,
        CodeFacts {
            name: "source-failed",
            severity: Severity::Degraded,
            subject: "source",
            when: "a source of tables has stopped, or waits for `broker_away_after`",
            is_told: false,
        },
    ),
    (
        Code::SinkFailed,
        CodeFacts {
            name: "sink-failed",
            severity: Severity::Failed,
            subject: "sink, of a receiver",
            when: "the sink does not take what comes",
            is_told: true,
        },
    ),
    (
        Code::GatewaySilent,
        CodeFacts {
            name: "gateway-silent",
            severity: Severity::Degraded,
            subject: "gateway, of a receiver",
            when: "no message of a gateway has come for `gateway_silent_after`; one for all gateways \
                   when none brings any, which is `failed`",
            is_told: false,
        },
    ),
    (
        Code::HolesOpen,
        CodeFacts {
            name: "holes-open",
            severity: Severity::Degraded,
            subject: "sink, of a receiver",
            when: "records are missing before others that were applied, for `broker_away_after`",
            is_told: false,
        },
    ),
    (
        Code::MessagesRejected,
        CodeFacts {
            name: "messages-rejected",
            severity: Severity::Degraded,
            subject: "sink, of a receiver",
            when: "messages came that are not ours or do not read",
            is_told: false,
        },
    ),
];
const _: () = {
    let mut place = 0;
    while place < FACTS.len() {
        assert!(FACTS[place].0 as usize == place);
        place += 1;
    }
};

impl Code {
    /// In the order of the reading's way.
    pub const ALL: [Self; FACTS.len()] = {
        let mut all = [Self::IngestStalled; FACTS.len()];
        let mut place = 0;
        while place < all.len() {
            all[place] = FACTS[place].0;
            place += 1;
        }
        all
    };

    /// Its facts.
    #[must_use]
    pub fn facts(self) -> CodeFacts {
        FACTS[self as usize].1
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
