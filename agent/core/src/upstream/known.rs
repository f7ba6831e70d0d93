//! What is known of each gateway beside its marks: the version of its state in the
//! sink, the log it last sent from, and what was counted. One more stands for what is
//! of no gateway.
//!
//! Always holds: what was counted since the last commit is kept apart, so that a state
//! that is loaded anew loses none of it. Bound: one entry per gateway of which
//! something was taken.

use std::collections::BTreeMap;

use super::batch::{is_shared, shared};
use super::counters::Counters;
use crate::payload::GatewayName;
use crate::units::LogId;

/// Keys of the log that a gateway last sent from: this and the gateway.
pub(super) const CURRENT_PREFIX: &[u8] = b"current.";
/// Keys of the counters of a gateway: this and the gateway.
pub(super) const COUNTERS_PREFIX: &[u8] = b"counters.";
/// Key of the counters of what is of no gateway, with the sums of versions that did not
/// count by gateway.
pub(super) const COUNTERS_KEY: &[u8] = b"counters";

/// What is known of one gateway.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Known {
    /// Of its state in the sink; 0: there is none yet.
    pub version: u64,
    pub log_id: Option<LogId>,
    /// As last stored.
    pub stored: Counters,
    /// Since then.
    pub fresh: Counters,
}

impl Known {
    #[must_use]
    pub fn total(&self) -> Counters {
        let mut sum = self.stored;
        sum.add(self.fresh);
        sum
    }
}

/// See the module's text.
#[derive(Debug, Default)]
pub struct Gateways {
    known: BTreeMap<GatewayName, Known>,
    none: Known,
}

impl Gateways {
    /// Takes over a version as stored.
    pub fn restore(&mut self, gateway: GatewayName, version: u64) {
        self.entry(&gateway).version = version;
    }

    /// Takes over an entry of the table Meta: `Some(false)` when it is of another kind,
    /// `None` when it cannot be read.
    pub fn load(&mut self, key: &[u8], value: &[u8]) -> Option<bool> {
        let name = |name: &[u8]| GatewayName::new(std::str::from_utf8(name).ok()?).ok();
        if let Some(of) = key.strip_prefix(CURRENT_PREFIX) {
            self.entry(&name(of)?).log_id = Some(LogId(value.try_into().ok()?));
        } else if let Some(of) = key.strip_prefix(COUNTERS_PREFIX) {
            self.entry(&name(of)?).stored = Counters::from_bytes(value)?;
        } else if key == COUNTERS_KEY {
            self.none.stored = Counters::from_bytes(value)?;
        } else {
            return Some(false);
        }
        Some(true)
    }

    /// Forgets what was stored of a gateway, to load it anew.
    pub fn forget(&mut self, gateway: &GatewayName) {
        let fresh = self.entry(gateway).fresh;
        *self.entry(gateway) = Known {
            fresh,
            ..Known::default()
        };
    }

    /// The gateway, or what is of none when it is [`shared`].
    pub fn entry(&mut self, gateway: &GatewayName) -> &mut Known {
        if is_shared(gateway) {
            return &mut self.none;
        }
        if !self.known.contains_key(gateway) {
            self.known.insert(gateway.clone(), Known::default());
        }
        self.known.get_mut(gateway).expect("put there just now")
    }

    #[must_use]
    pub fn get(&self, gateway: &GatewayName) -> Option<&Known> {
        if is_shared(gateway) {
            Some(&self.none)
        } else {
            self.known.get(gateway)
        }
    }

    /// Of no gateway.
    pub fn none(&mut self) -> &mut Known {
        &mut self.none
    }

    /// Gateways from which something was taken.
    pub fn names(&self) -> impl Iterator<Item = &GatewayName> {
        let sent = self
            .known
            .iter()
            .filter(|(_, known)| known.log_id.is_some());
        sent.map(|(name, _)| name)
    }

    /// Those of which something was counted that is not stored; [`shared`] among them.
    #[must_use]
    pub fn uncounted(&self) -> Vec<GatewayName> {
        let differs = |known: &Known| known.fresh != Counters::default();
        let known = self.known.iter().filter(|(_, known)| differs(known));
        let mut out: Vec<_> = known.map(|(name, _)| name.clone()).collect();
        out.extend(differs(&self.none).then(shared));
        out
    }

    /// Sum of all.
    #[must_use]
    pub fn total(&self) -> Counters {
        let mut sum = self.none.total();
        self.known.values().for_each(|known| sum.add(known.total()));
        sum
    }
}

/// Key of the counters of a gateway, or of [`shared`].
#[must_use]
pub fn counters_key(gateway: &GatewayName) -> Vec<u8> {
    if is_shared(gateway) {
        COUNTERS_KEY.to_vec()
    } else {
        [COUNTERS_PREFIX, gateway.as_str().as_bytes()].concat()
    }
}
