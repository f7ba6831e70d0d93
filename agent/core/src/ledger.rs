//! Accounts per device boot: which ordinals were taken from the link, which are
//! durable, which will never come. Holds always: `durable <= taken`, and every
//! ordinal below `taken` was one reading, part of one gap, or is counted as lost,
//! exactly once.
//!
//! Bound: [`DEVICES_MAX`] devices of [`BOOTS_PER_DEVICE_MAX`] boots and
//! [`IMPORTS_MAX`] imports; the oldest of a device is folded into its total. Knows no
//! port and no log.

use std::collections::{BTreeMap, BTreeSet};

use forebay_wire::ids::{BootId, DeviceUid, Ordinal};

use crate::limits::{BOOTS_PER_DEVICE_MAX, DEVICES_MAX, IMPORT_BOOT_FIRST, IMPORTS_MAX};

/// Boots from here on are imports.
const IMPORTS_FROM: BootId = BootId(IMPORT_BOOT_FIRST);
use crate::record::{GAPS, GapReason};

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
    /// Lost, declared by the device or refused by a full log, by [`GapReason`].
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

/// The account of one boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Account {
    /// First ordinal that was not taken yet.
    pub taken: u64,
    /// First ordinal that is not durable yet: what an ack may say.
    pub durable: u64,
    pub counts: Counts,
}

/// No room for one more device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooManyDevices;

/// The accounts of one device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceAccounts {
    /// At most [`BOOTS_PER_DEVICE_MAX`] and [`IMPORTS_MAX`] imports.
    pub boots: BTreeMap<BootId, Account>,
    /// Boots that were folded away.
    pub folded: Counts,
}

impl DeviceAccounts {
    /// Folds the oldest boot of the kind that `boot` is of when there are as many of
    /// them as are kept: imports must not push out the boot that a device is in.
    fn make_room(&mut self, boot: BootId) {
        let (kind, kept) = if boot < IMPORTS_FROM {
            (BootId(0)..IMPORTS_FROM, BOOTS_PER_DEVICE_MAX)
        } else {
            (IMPORTS_FROM..BootId(u32::MAX), IMPORTS_MAX)
        };
        let same = self.boots.range(kind);
        let oldest = same.clone().next().map(|(oldest, _)| *oldest);
        if let Some(oldest) = oldest.filter(|_| same.count() >= kept)
            && let Some(mut account) = self.boots.remove(&oldest)
        {
            account.close();
            self.folded.add(&account.counts);
        }
    }
}

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
        if self.devices.len() >= DEVICES_MAX && !self.devices.contains_key(&source.uid) {
            return Err(TooManyDevices);
        }
        let device = self.devices.entry(source.uid).or_default();
        self.changed.insert(source.uid);
        if !device.boots.contains_key(&source.boot) {
            device.make_room(source.boot);
        }
        Ok(device.boots.entry(source.boot).or_default())
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
    /// its partitions: `of` says which count they belong to. What lies between them
    /// shows when [`Ledger::close_replay`] is called.
    pub fn replay(
        &mut self,
        source: Source,
        (first, count): (Ordinal, u64),
        of: impl FnOnce(&mut Counts) -> &mut u64,
    ) {
        if let Ok(account) = self.open(source) {
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
        let last = device.and_then(|device| device.boots.range(IMPORTS_FROM..).next_back());
        last.map_or(IMPORTS_FROM, |(boot, _)| BootId(boot.0.saturating_add(1)))
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
        self.devices.iter().map(|(uid, device)| {
            let mut sum = device.folded;
            device.boots.values().for_each(|boot| sum.add(&boot.counts));
            (*uid, sum)
        })
    }

    /// Sum over all devices.
    #[must_use]
    pub fn total(&self) -> Counts {
        let mut sum = Counts::default();
        self.devices().for_each(|(_, counts)| sum.add(&counts));
        sum
    }
}

/// What a run of ordinals from the link is to the account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Run {
    /// The first `skip` were taken before; the rest is new and in order.
    Fresh { skip: u64 },
    /// All of it was taken before.
    Known,
    /// Something before it is missing: go-back-N sends it again.
    Ahead { missing_from: Ordinal },
}

impl Account {
    /// Judges `count` ordinals from `first` on.
    #[must_use]
    pub fn judge(&self, first: Ordinal, count: u64) -> Run {
        let end = first.0.saturating_add(count);
        if first.0 > self.taken {
            Run::Ahead {
                missing_from: Ordinal(self.taken),
            }
        } else if end <= self.taken {
            Run::Known
        } else {
            Run::Fresh {
                skip: self.taken - first.0,
            }
        }
    }

    /// Counts as lost what was taken and is nothing else.
    fn close(&mut self) {
        let rest = self.taken.saturating_sub(self.counts.ordinals());
        self.counts.lost += rest;
    }

    /// Counts `count` new readings.
    pub fn take_readings(&mut self, count: u64) {
        self.taken += count;
        self.counts.readings += count;
    }

    /// Closes a boot with a gap of `count` ordinals up to `end`. What lies between
    /// was acked by a log that lost it, or by the one before this.
    pub fn take_last_gap(&mut self, reason: GapReason, end: Ordinal, count: u64) {
        let first = end.0.saturating_sub(count);
        self.counts.lost += first.saturating_sub(self.taken);
        self.taken = end.0;
        let sum = &mut self.counts.gaps[reason as usize];
        *sum = sum.saturating_add(count);
    }

    /// Counts a new gap of `count` ordinals.
    pub fn take_gap(&mut self, reason: GapReason, count: u64) {
        self.taken = self.taken.saturating_add(count);
        let sum = &mut self.counts.gaps[reason as usize];
        *sum = sum.saturating_add(count);
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
    fn runs_are_judged_by_their_edges() {
        let account = Account {
            taken: 10,
            ..Account::default()
        };
        for (name, first, count, want) in [
            ("old", 0, 9, Run::Known),
            ("up to the edge", 5, 5, Run::Known),
            ("over the edge by one", 5, 6, Run::Fresh { skip: 5 }),
            ("next", 10, 1, Run::Fresh { skip: 0 }),
            (
                "one missing",
                11,
                1,
                Run::Ahead {
                    missing_from: Ordinal(10),
                },
            ),
            ("end of the ordinals", 10, u64::MAX, Run::Fresh { skip: 0 }),
        ] {
            assert_eq!(account.judge(Ordinal(first), count), want, "{name}");
        }
    }

    #[test]
    fn the_oldest_boot_is_folded_and_no_count_is_lost() {
        let mut ledger = Ledger::default();
        for boot in 0..=BOOTS_PER_DEVICE_MAX as u32 {
            let account = ledger.open(source(1, boot)).expect("one device");
            account.take_readings(2);
            account.take_gap(GapReason::RingFull, 3);
        }
        assert_eq!(ledger.get(source(1, 0)), None);
        assert!(ledger.get(source(1, 1)).is_some());
        let total = ledger.total();
        assert_eq!(total.readings, 2 * (BOOTS_PER_DEVICE_MAX as u64 + 1));
        assert_eq!(total.gap_total(), 3 * (BOOTS_PER_DEVICE_MAX as u64 + 1));
    }

    #[test]
    fn imports_push_out_imports_and_never_a_boot() {
        let mut ledger = Ledger::default();
        let live = source(1, 7);
        ledger.open(live).expect("one device").take_readings(1);
        for nth in 0..=IMPORTS_MAX as u32 {
            let boot = ledger.next_import_boot(live.uid);
            assert_eq!(boot, BootId(IMPORT_BOOT_FIRST + nth));
            let account = ledger.open(Source { boot, ..live });
            account.expect("a known device").take_readings(1);
        }
        assert!(ledger.get(live).is_some());
        assert_eq!(ledger.get(source(1, IMPORT_BOOT_FIRST)), None);
        assert_eq!(ledger.total().readings, IMPORTS_MAX as u64 + 2);
    }

    #[test]
    fn devices_are_bounded() {
        let mut ledger = Ledger::default();
        for uid in 0..DEVICES_MAX as u64 {
            assert!(ledger.open(source(uid, 0)).is_ok());
        }
        let one_more = source(DEVICES_MAX as u64, 0);
        assert_eq!(ledger.open(one_more).err(), Some(TooManyDevices));
        assert!(ledger.open(source(0, 1)).is_ok(), "a known device may boot");
    }
}
