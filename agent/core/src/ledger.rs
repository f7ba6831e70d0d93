//! Accounts per device boot: which ordinals were taken from the link, which are
//! durable, which will never come. Holds always: `durable <= taken`, and every
//! ordinal below `taken` was one reading, part of one gap, or is counted as lost,
//! exactly once.
//!
//! Bound: [`DEVICES_MAX`] devices of as many boots as [`DeviceAccounts`] keeps. Knows no
//! port and no log.

mod account;
mod device;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use forebay_wire::ids::{BootId, DeviceUid, Ordinal};
use forebay_wire::message::ResetCause;

pub use self::account::{Account, Run};
pub use self::device::DeviceAccounts;
use self::device::IMPORTS_FROM;
use crate::limits::DEVICES_MAX;
use crate::record::GAPS;
use crate::units::EventTime;

/// One boot of one device: the scope of ordinals and ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source {
    pub uid: DeviceUid,
    pub boot: BootId,
}

/// What happened to the ordinals of one boot, or of all boots together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    pub readings: u64,
    /// Lost, declared by the device or refused by a full log, by [`GapReason`](crate::record::GapReason).
    pub gaps: [u64; GAP_REASONS],
    /// Readings that came again and were left out.
    pub duplicates: u64,
    /// Ordinals that were taken once and of which this log no longer says what
    /// they were: trimmed or damaged before a snapshot had counted them.
    pub lost: u64,
}

/// Number of gap reasons.
pub const GAP_REASONS: usize = GAPS.len();

impl Counts {
    /// Ordinals in declared gaps.
    #[must_use]
    pub fn gap_total(&self) -> u64 {
        let add = |sum: u64, gap: &u64| sum.saturating_add(*gap);
        self.gaps.iter().fold(0, add)
    }

    /// Ordinals that are accounted for: what an account has taken.
    #[must_use]
    pub fn ordinals(&self) -> u64 {
        let known = self.readings.saturating_add(self.gap_total());
        known.saturating_add(self.lost)
    }

    /// Adds another account to this one.
    pub fn add(&mut self, other: &Self) {
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut self.readings, other.readings);
        add(&mut self.duplicates, other.duplicates);
        add(&mut self.lost, other.lost);
        for (sum, more) in self.gaps.iter_mut().zip(other.gaps) {
            add(sum, more);
        }
    }
}

/// No room for one more device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooManyDevices;

/// All accounts.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    devices: BTreeMap<DeviceUid, DeviceAccounts>,
    /// Devices whose accounts may have changed since they were last kept.
    changed: BTreeSet<DeviceUid>,
}

impl Ledger {
    /// The account of `source`, made when it is new.
    ///
    /// # Errors
    /// When the device is new and the table full.
    pub fn open(&mut self, source: Source) -> Result<&mut Account, TooManyDevices> {
        Ok(self.changing(source.uid)?.open(source.boot))
    }

    /// The account of the boot with which a device has said Hello: what it says of its
    /// other boots is over.
    ///
    /// # Errors
    /// When the device is new and the table full.
    pub fn hello(
        &mut self,
        source: Source,
        cause: ResetCause,
    ) -> Result<&mut Account, TooManyDevices> {
        Ok(self.changing(source.uid)?.hello(source.boot, cause))
    }

    /// Why a boot began, where there is an account of it that does not say.
    pub fn fill_cause(&mut self, source: Source, cause: ResetCause) {
        let device = self.devices.get_mut(&source.uid);
        if let Some(account) = device.and_then(|d| d.boots.get_mut(&source.boot)) {
            account.reset_cause.get_or_insert(cause);
        }
    }

    fn changing(&mut self, uid: DeviceUid) -> Result<&mut DeviceAccounts, TooManyDevices> {
        if self.devices.len() >= DEVICES_MAX && !self.devices.contains_key(&uid) {
            return Err(TooManyDevices);
        }
        self.changed.insert(uid);
        Ok(self.devices.entry(uid).or_default())
    }

    /// Puts the accounts of a device as they were kept.
    ///
    /// # Errors
    /// When the device is new and the table full.
    pub fn put(&mut self, uid: DeviceUid, accounts: DeviceAccounts) -> Result<(), TooManyDevices> {
        if self.devices.len() >= DEVICES_MAX && !self.devices.contains_key(&uid) {
            return Err(TooManyDevices);
        }
        self.devices.insert(uid, accounts);
        Ok(())
    }

    /// Accounts that may have changed since this was last asked, in order of uid.
    pub fn take_changed(&mut self) -> impl Iterator<Item = (DeviceUid, &DeviceAccounts)> {
        let changed = std::mem::take(&mut self.changed);
        let found = |uid| self.devices.get(&uid).map(|accounts| (uid, accounts));
        changed.into_iter().filter_map(found)
    }

    /// Whether an account may have changed since it was last kept.
    #[must_use]
    pub fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Number of devices.
    #[must_use]
    pub fn len(&self) -> usize {
        self.devices.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.devices.is_empty()
    }

    /// Counts `count` ordinals from `first` on that the log holds, in any order of
    /// its partitions, of a reading with its time where that is known: `of` says which
    /// count they belong to. What lies between them
    /// shows when [`Ledger::close_replay`] is called.
    pub fn replay(
        &mut self,
        source: Source,
        (first, count): (Ordinal, u64),
        time: Option<EventTime>,
        of: impl FnOnce(&mut Counts) -> &mut u64,
    ) {
        if let Ok(account) = self.open(source) {
            if let Some(time) = time {
                account.note_time(time);
            }
            let sum = of(&mut account.counts);
            *sum = sum.saturating_add(count);
            account.taken = account.taken.max(first.0.saturating_add(count));
            account.durable = account.taken;
        }
    }

    /// All that the log holds has been counted: what is missing below `taken` is lost.
    pub fn close_replay(&mut self) {
        let devices = self.devices.values_mut();
        for account in devices.flat_map(|device| device.boots.values_mut()) {
            account.close();
        }
    }

    /// A boot for an import that no import of this device had before.
    #[must_use]
    pub fn next_import_boot(&self, uid: DeviceUid) -> BootId {
        let device = self.devices.get(&uid);
        device.map_or(IMPORTS_FROM, DeviceAccounts::next_import)
    }

    /// The account of `source` when there is one.
    #[must_use]
    pub fn get(&self, source: Source) -> Option<&Account> {
        self.devices.get(&source.uid)?.boots.get(&source.boot)
    }

    /// Readings that are durable, over all devices.
    #[must_use]
    pub fn durable_readings(&self) -> u64 {
        let waiting = |boot: &Account| boot.taken - boot.durable;
        let boots = self
            .devices
            .values()
            .flat_map(|device| device.boots.values());
        // Ordinals that wait for the disk; a waiting gap makes this too small for
        // the length of one commit, never too large.
        let waiting: u64 = boots.map(waiting).sum();
        self.total().readings.saturating_sub(waiting)
    }

    /// Marks all ordinals below `next` as durable.
    pub fn set_durable(&mut self, source: Source, next: Ordinal) {
        if let Ok(account) = self.open(source) {
            account.durable = account.durable.max(next.0);
            account.taken = account.taken.max(account.durable);
        }
    }

    /// The accounts of one device.
    #[must_use]
    pub fn device(&self, uid: DeviceUid) -> Option<&DeviceAccounts> {
        self.devices.get(&uid)
    }

    /// Sums over the boots of each device, in order of uid.
    pub fn devices(&self) -> impl Iterator<Item = (DeviceUid, Counts)> {
        self.devices_after(None)
    }

    /// The same of those behind a device.
    pub fn devices_after(
        &self,
        last: Option<DeviceUid>,
    ) -> impl Iterator<Item = (DeviceUid, Counts)> {
        let from = last.map_or(Bound::Unbounded, Bound::Excluded);
        let devices = self.devices.range((from, Bound::Unbounded));
        devices.map(|(uid, device)| (*uid, device.total()))
    }

    /// Sum over all devices.
    #[must_use]
    pub fn total(&self) -> Counts {
        let mut sum = Counts::default();
        self.devices().for_each(|(_, counts)| sum.add(&counts));
        sum
    }
}
