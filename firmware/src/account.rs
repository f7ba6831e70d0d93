//! What boots still owe the gateway: the ordinals that were given out and never
//! acked. A board keeps the record in memory that a reset does not clear, so that
//! the next boot can declare what the reset took from the ring; else those readings
//! would be missing without anyone knowing that they ever were.
//!
//! Bound: [`ACCOUNTS_MAX`] boots; the oldest goes first.

use forebay_wire::crc::crc32;
use forebay_wire::ids::{BootId, Ordinal};
use heapless::Deque;

use crate::limits::ACCOUNTS_MAX;

/// One boot's ordinals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Account {
    pub boot: BootId,
    /// First ordinal that is not acked.
    pub acked: Ordinal,
    /// First ordinal that was not given out.
    pub produced: Ordinal,
}

impl Account {
    /// Whether every ordinal is acked.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.acked >= self.produced
    }
}

/// Accounts of earlier boots that are not settled, and of this boot, which is last.
#[derive(Debug, PartialEq, Eq, Default)]
pub struct Accounts {
    list: Deque<Account, ACCOUNTS_MAX>,
}

const ACCOUNT_BYTES: usize = 4 + 8 + 8;
const CRC_AT: usize = Accounts::BYTES - 4;

impl Clone for Accounts {
    // The deque's own clone is the one user of `memmove` in an image: 1.5 KB.
    fn clone(&self) -> Self {
        let mut clone = Accounts::new();
        self.iter().for_each(|account| clone.push(*account));
        clone
    }
}

impl Accounts {
    /// Length of the record: per account boot (u32), acked and produced (u64), all
    /// little-endian, unused ones zero; then how many (u32) and a CRC-32.
    pub const BYTES: usize = ACCOUNTS_MAX * ACCOUNT_BYTES + 4 + 4;

    /// The accounts; the last is that of the boot that wrote them.
    pub fn iter(&self) -> impl Iterator<Item = &Account> {
        self.list.iter()
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(crate) const fn new() -> Self {
        Accounts { list: Deque::new() }
    }

    /// Puts the first last.
    pub(crate) fn rotate(&mut self) {
        if let Some(first) = self.list.pop_front() {
            self.push(first);
        }
    }

    /// Adds a younger one; the oldest has to go when there is no room.
    pub(crate) fn push(&mut self, account: Account) {
        if self.list.is_full() {
            self.list.pop_front();
        }
        let pushed = self.list.push_back(account);
        assert!(pushed.is_ok(), "room was made");
    }

    /// Takes out what `settled` says is settled.
    pub(crate) fn settle(&mut self, settled: impl Fn(&Account) -> bool) {
        for _ in 0..self.list.len() {
            if let Some(account) = self.list.pop_front().filter(|account| !settled(account)) {
                self.push(account);
            }
        }
    }

    /// The record to keep. Keep two and write them in turn: a reset in the middle
    /// of a write spoils one.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Accounts::BYTES] {
        let mut record = [0; Accounts::BYTES];
        for (place, account) in record.chunks_exact_mut(ACCOUNT_BYTES).zip(&self.list) {
            place[..4].copy_from_slice(&account.boot.0.to_le_bytes());
            place[4..12].copy_from_slice(&account.acked.0.to_le_bytes());
            place[12..].copy_from_slice(&account.produced.0.to_le_bytes());
        }
        let count = self.list.len() as u32;
        record[CRC_AT - 4..CRC_AT].copy_from_slice(&count.to_le_bytes());
        let crc = crc32(&record[..CRC_AT]);
        record[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        record
    }

    /// Reads a record; `None` when it is not whole, as after a cold start.
    #[must_use]
    pub fn from_bytes(record: &[u8; Accounts::BYTES]) -> Option<Self> {
        let (body, crc) = record.split_at(CRC_AT);
        if crc != crc32(body).to_le_bytes() {
            return None;
        }
        let (places, count) = body.split_at(CRC_AT - 4);
        let count = u32::from_le_bytes(count.try_into().ok()?) as usize;
        if count > ACCOUNTS_MAX {
            return None;
        }
        let mut accounts = Accounts::default();
        for place in places.chunks_exact(ACCOUNT_BYTES).take(count) {
            accounts.push(Account {
                boot: BootId(u32::from_le_bytes(place[..4].try_into().ok()?)),
                acked: Ordinal(u64::from_le_bytes(place[4..12].try_into().ok()?)),
                produced: Ordinal(u64::from_le_bytes(place[12..].try_into().ok()?)),
            });
        }
        Some(accounts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(boot: u32) -> Account {
        Account {
            boot: BootId(boot),
            acked: Ordinal(3),
            produced: Ordinal(u64::from(boot) << 33),
        }
    }

    fn accounts(count: u32) -> Accounts {
        let mut accounts = Accounts::default();
        (0..count).for_each(|boot| accounts.push(account(boot)));
        accounts
    }

    #[test]
    fn records_read_back() {
        let most = ACCOUNTS_MAX as u32;
        for count in [0, 1, most - 1, most] {
            let whole = accounts(count);
            assert_eq!(whole.len(), count as usize);
            assert_eq!(Accounts::from_bytes(&whole.to_bytes()), Some(whole));
        }
        let over = accounts(most + 1);
        assert_eq!(over.len(), ACCOUNTS_MAX);
        assert_eq!(over.iter().next(), Some(&account(1)), "the oldest went");
    }

    #[test]
    fn a_damaged_record_is_none() {
        assert_eq!(
            Accounts::from_bytes(&[0; Accounts::BYTES]),
            None,
            "memory of zeros"
        );
        assert_eq!(
            Accounts::from_bytes(&[0xFF; Accounts::BYTES]),
            None,
            "memory of ones"
        );
        let whole = accounts(3).to_bytes();
        for at in 0..whole.len() {
            let mut damaged = whole;
            damaged[at] ^= 0x10;
            assert_eq!(Accounts::from_bytes(&damaged), None, "byte {at}");
        }
    }

    #[test]
    fn a_count_beyond_the_limit_is_refused_even_with_a_right_crc() {
        let mut record = accounts(3).to_bytes();
        record[CRC_AT - 4] = ACCOUNTS_MAX as u8 + 1;
        let crc = crc32(&record[..CRC_AT]);
        record[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(Accounts::from_bytes(&record), None);
    }
}
