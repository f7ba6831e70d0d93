//! When there is an alarm: what the config says, and what is always so. Decides nothing.

use std::collections::{BTreeMap, BTreeSet};

use forebay_wire::ids::DeviceUid;

use crate::units::{PortId, Span};

/// How often an operator expects something of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// At least so often.
    Every(Span),
    /// It may stay silent.
    Never,
}

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlarmRules {
    /// A device is stalled after so many of its periods without a record, and after
    /// `stalled_min` at the least.
    pub stalled_periods: u32,
    pub stalled_min: Span,
    pub port_lost_after: Span,
    /// A broker, a receiver and a source may be away for so long.
    pub away_after: Span,
    /// Nothing may come of a gateway for so long, of a receiver; `None`: for ever.
    pub silent_after: Option<Span>,
    /// Gateways that are no more.
    pub gone: BTreeSet<String>,
    /// An alarm about something that happened stays for so long after it last did.
    pub hold: Span,
    /// What may be written to the card in its life.
    pub card_endurance_bytes: Option<u64>,
    /// It is to last so long.
    pub card_years: u32,
    /// Ports that are missed when they are gone, with their names.
    pub ports: BTreeMap<PortId, String>,
    /// Devices of which something else is expected than what they say.
    pub expects: BTreeMap<DeviceUid, Expect>,
}

impl Default for AlarmRules {
    fn default() -> Self {
        Self {
            stalled_periods: 10,
            stalled_min: Span(10_000_000),
            port_lost_after: Span(10_000_000),
            away_after: Span(300_000_000),
            silent_after: Some(Span(900_000_000)),
            gone: BTreeSet::new(),
            hold: Span(3_600_000_000),
            card_endurance_bytes: None,
            card_years: 5,
            ports: BTreeMap::new(),
            expects: BTreeMap::new(),
        }
    }
}
