//! The boots of one device. Bound: [`BOOTS_PER_DEVICE_MAX`] and [`IMPORTS_MAX`] imports;
//! those heard of first are folded into a sum.

use std::collections::BTreeMap;

use forebay_wire::ids::BootId;
use forebay_wire::message::ResetCause;

use super::{Account, Counts};
use crate::limits::{BOOTS_PER_DEVICE_MAX, IMPORT_BOOT_FIRST, IMPORTS_MAX};

/// Boots from here on are imports, unless a device said Hello with one: its ids may be
/// drawn at random.
pub(super) const IMPORTS_FROM: BootId = BootId(IMPORT_BOOT_FIRST);

/// The accounts of one device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceAccounts {
    /// At most [`BOOTS_PER_DEVICE_MAX`] and [`IMPORTS_MAX`] imports.
    pub boots: BTreeMap<BootId, Account>,
    /// Boots that were folded away.
    pub folded: Counts,
}

fn is_import(boot: BootId, account: &Account) -> bool {
    boot >= IMPORTS_FROM && account.reset_cause.is_none()
}

impl DeviceAccounts {
    /// The account of a boot, made when it is new.
    pub(super) fn open(&mut self, boot: BootId) -> &mut Account {
        if !self.boots.contains_key(&boot) {
            let nth = self.next();
            let account = Account {
                nth,
                ..Account::default()
            };
            self.boots.insert(boot, account);
            self.fold();
        }
        // The newest is never folded.
        self.boots.entry(boot).or_default()
    }

    /// The device has said Hello: this is the boot it is in.
    pub(super) fn hello(&mut self, boot: BootId, cause: ResetCause) -> &mut Account {
        let again = self.newest() == Some(boot);
        let nth = self.next();
        let account = self.open(boot);
        account.reset_cause = Some(cause);
        if !again {
            account.nth = nth;
        }
        self.fold();
        self.boots.entry(boot).or_default()
    }

    /// The boot that the device is in, or was in last; none of an import.
    #[must_use]
    pub fn newest(&self) -> Option<BootId> {
        let own = self.boots.iter().filter(|(boot, a)| !is_import(**boot, a));
        own.max_by_key(|(_, account)| account.nth)
            .map(|(boot, _)| *boot)
    }

    /// Boots of the device itself that are over.
    pub fn over(&self) -> impl Iterator<Item = (BootId, &Account)> {
        let newest = self.newest();
        let boots = self.boots.iter().map(|(boot, account)| (*boot, account));
        boots.filter(move |(boot, a)| Some(*boot) != newest && !is_import(*boot, a))
    }

    /// Ordinals taken, over all boots.
    #[must_use]
    pub fn taken(&self) -> u64 {
        let boots = self.boots.values().map(|account| account.taken);
        let add = |sum: u64, taken| sum.saturating_add(taken);
        boots.fold(self.folded.ordinals(), add)
    }

    /// Ordinals taken of the device itself: no import counts.
    #[must_use]
    pub fn taken_live(&self) -> u64 {
        let own = self.boots.iter().filter(|(boot, a)| !is_import(**boot, a));
        let taken = own.map(|(_, account)| account.taken);
        taken.fold(self.folded.ordinals(), u64::saturating_add)
    }

    /// Sum over all boots.
    #[must_use]
    pub fn total(&self) -> Counts {
        let mut sum = self.folded;
        self.boots.values().for_each(|boot| sum.add(&boot.counts));
        sum
    }

    /// A boot for one more import.
    pub(super) fn next_import(&self) -> BootId {
        let imports = self.boots.iter().filter(|(boot, a)| is_import(**boot, a));
        let last = imports.map(|(boot, _)| boot.0).max();
        let mut next = last.map_or(IMPORTS_FROM.0, |last| last.saturating_add(1));
        // A boot that the device has drawn stands there.
        while next < u32::MAX && self.boots.contains_key(&BootId(next)) {
            next += 1;
        }
        BootId(next)
    }

    fn next(&self) -> u64 {
        let last = self.boots.values().map(|account| account.nth).max();
        last.map_or(0, |last| last.saturating_add(1))
    }

    /// Folds what was heard of first, where there are more of a kind than are kept:
    /// imports must not push out the boot that a device is in.
    fn fold(&mut self) {
        for (imports, kept) in [(false, BOOTS_PER_DEVICE_MAX), (true, IMPORTS_MAX)] {
            loop {
                let of_kind =
                    |(boot, account): &(&BootId, &Account)| is_import(**boot, account) == imports;
                let same = self.boots.iter().filter(of_kind);
                let oldest = same.clone().min_by_key(|(_, account)| account.nth);
                let oldest = oldest.map(|(boot, _)| *boot);
                let Some(boot) = oldest.filter(|_| same.count() > kept) else {
                    break;
                };
                if let Some(mut account) = self.boots.remove(&boot) {
                    account.close();
                    self.folded.add(&account.counts);
                }
            }
        }
    }
}
