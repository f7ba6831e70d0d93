//! Clock models of devices that are on no port now: a device that comes back in the same
//! boot goes on with its own, so that what it measured meanwhile lies between probes
//! from before and after.
//!
//! Bound: [`CLOCKS_KEPT_MAX`] devices; of one more nothing is kept.

use std::collections::BTreeMap;

use forebay_wire::ids::{BootId, DeviceUid};

use super::clock::DeviceClock;
use crate::ledger::Source;
use crate::limits::CLOCKS_KEPT_MAX;

/// See the module.
#[derive(Debug, Default)]
pub struct Clocks {
    kept: BTreeMap<DeviceUid, (BootId, DeviceClock)>,
}

impl Clocks {
    /// Keeps the clock of a device that went away.
    pub fn keep(&mut self, source: Source, clock: DeviceClock) {
        if self.kept.len() < CLOCKS_KEPT_MAX || self.kept.contains_key(&source.uid) {
            self.kept.insert(source.uid, (source.boot, clock));
        }
    }

    /// The clock of a device that is back; `None` when it is in another boot: its ticks
    /// began anew.
    pub fn take(&mut self, source: Source) -> Option<DeviceClock> {
        let (boot, clock) = self.kept.remove(&source.uid)?;
        (boot == source.boot).then_some(clock)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn source(uid: u64, boot: u32) -> Source {
        Source {
            uid: DeviceUid(uid.to_be_bytes()),
            boot: BootId(boot),
        }
    }

    #[test]
    fn a_clock_is_for_its_boot_only_and_once() {
        let mut clocks = Clocks::default();
        clocks.keep(source(1, 1), DeviceClock::default());
        assert!(clocks.take(source(2, 1)).is_none(), "another device");
        assert!(clocks.take(source(1, 1)).is_some());
        assert!(clocks.take(source(1, 1)).is_none(), "once");
        clocks.keep(source(1, 1), DeviceClock::default());
        assert!(clocks.take(source(1, 2)).is_none(), "another boot");
        assert!(clocks.take(source(1, 1)).is_none(), "which ended that one");
    }

    #[test]
    fn clocks_are_bounded() {
        let mut clocks = Clocks::default();
        for uid in 0..=CLOCKS_KEPT_MAX as u64 {
            clocks.keep(source(uid, 1), DeviceClock::default());
        }
        let last = CLOCKS_KEPT_MAX as u64;
        assert!(clocks.take(source(last, 1)).is_none());
        assert!(clocks.take(source(last - 1, 1)).is_some());
        clocks.keep(source(last, 1), DeviceClock::default());
        assert!(clocks.take(source(last, 1)).is_some(), "there was room");
    }
}
