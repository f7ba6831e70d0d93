//! Accounts over resets: two slots that are written in turn, so that a reset in the
//! middle of a write leaves the other one.
//!
//! Pure; the board keeps the [`Slots`] in memory that start-up code does not clear.
//! Always holds: what is found is whole and the newest that is; with none whole, as
//! after a cold start, nothing is owed. Bound: two records.

use forebay_firmware::Accounts;

const RECORD_WORDS: usize = Accounts::BYTES / 4;
const _: () = assert!(Accounts::BYTES.is_multiple_of(4));
/// Words of a slot: a number that counts the writes, the record, and a check.
pub const SLOT_WORDS: usize = 1 + RECORD_WORDS + 1;

/// One record, whole or not: every bit pattern is one. Words, because a board has to
/// read and write it with volatile accesses, which are not merged.
pub type Slot = [u32; SLOT_WORDS];

/// Where accounts are kept.
pub type Slots = [Slot; 2];

fn write(sequence: u32, accounts: &Accounts) -> Slot {
    let mut slot = [0; SLOT_WORDS];
    slot[0] = sequence;
    let record = accounts.to_bytes();
    let (bytes, _) = record.as_chunks();
    for (word, bytes) in slot[1..].iter_mut().zip(bytes) {
        *word = u32::from_le_bytes(*bytes);
    }
    slot[SLOT_WORDS - 1] = check(&slot);
    slot
}

fn read(slot: &Slot) -> Option<Kept> {
    if slot[SLOT_WORDS - 1] != check(slot) {
        return None;
    }
    let mut record = [0; Accounts::BYTES];
    let (bytes, _) = record.as_chunks_mut();
    for (bytes, word) in bytes.iter_mut().zip(&slot[1..]) {
        *bytes = word.to_le_bytes();
    }
    Some(Kept {
        sequence: slot[0],
        accounts: Accounts::from_bytes(&record)?,
    })
}

/// Ties the number to the record, whose own CRC (its last word) covers only the rest
/// of it: a new number in front of an old record must not count.
fn check(slot: &Slot) -> u32 {
    !(slot[0].rotate_left(7) ^ slot[RECORD_WORDS])
}

/// What the slots hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Kept {
    sequence: u32,
    accounts: Accounts,
}

impl Kept {
    /// The newest whole record; the number that counts on may have wrapped.
    #[must_use]
    pub fn find(slots: &Slots) -> Self {
        match (read(&slots[0]), read(&slots[1])) {
            (Some(a), Some(b)) if b.sequence == a.sequence.wrapping_add(1) => b,
            (Some(kept), _) | (None, Some(kept)) => kept,
            (None, None) => Self::default(),
        }
    }

    #[must_use]
    pub fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// Takes `accounts` over; when they are others, what to write and into which
    /// slot: always the one that does not hold the newest.
    pub fn note(&mut self, accounts: Accounts) -> Option<(usize, Slot)> {
        if accounts == self.accounts {
            return None;
        }
        self.accounts = accounts;
        self.sequence = self.sequence.wrapping_add(1);
        let place = (self.sequence % 2) as usize;
        Some((place, write(self.sequence, &self.accounts)))
    }
}

#[cfg(test)]
mod tests {
    use forebay_firmware::Device;
    use forebay_firmware::wire::ids::Tick;
    use forebay_firmware::wire::message::GapReason;

    use super::*;

    const NOISE: Slots = [[0xa5a5_a5a5; SLOT_WORDS]; 2];
    const ZEROS: Slots = [[0; SLOT_WORDS]; 2];

    fn accounts(produced: u32) -> Accounts {
        let mut device = Device::<4, 1>::unstarted();
        device.on_lost(GapReason::SensorOff, produced, Tick(0));
        device.accounts()
    }

    /// The slots after `writes` of 1, 2, ... readings by one that began with `sequence`.
    fn written(sequence: u32, writes: u32) -> (Slots, Kept) {
        let mut kept = Kept {
            sequence,
            ..Kept::default()
        };
        let mut slots = NOISE;
        for produced in 1..=writes {
            let (place, slot) = kept.note(accounts(produced)).unwrap();
            slots[place] = slot;
        }
        (slots, kept)
    }

    #[test]
    fn the_newest_is_found_and_counted_on() {
        for (name, sequence, writes) in [
            ("one write", 0, 1),
            ("one in each slot", 0, 2),
            ("each twice", 0, 4),
            ("an odd number", 0, 5),
            ("the number wraps", u32::MAX - 1, 2),
            ("it has just wrapped", u32::MAX, 2),
        ] {
            let (slots, kept) = written(sequence, writes);
            assert_eq!(Kept::find(&slots), kept, "{name}");
            assert_eq!(kept.accounts(), &accounts(writes), "{name}");
        }
    }

    #[test]
    fn a_cold_start_owes_nothing() {
        for (name, slots) in [("noise", NOISE), ("zeros", ZEROS)] {
            let mut kept = Kept::find(&slots);
            assert_eq!(kept, Kept::default(), "{name}");
            assert!(kept.accounts().is_empty(), "{name}");
            assert!(kept.note(accounts(1)).is_some(), "{name}");
        }
    }

    #[test]
    fn the_same_is_not_written_again() {
        let (slots, mut kept) = written(0, 3);
        assert_eq!(kept.note(accounts(3)), None);
        assert_eq!(Kept::find(&slots).note(accounts(3)), None);
    }

    /// Whatever order the words are written in, a reset between two of them leaves
    /// the record before; one that comes too late leaves the new one.
    #[test]
    fn a_write_that_was_cut_off_leaves_the_record_before() {
        let (before, mut kept) = written(0, 6);
        let (place, new) = kept.note(accounts(7)).unwrap();
        let old = before[place];
        for cut in 0..=SLOT_WORDS {
            let mut slots = before;
            slots[place][..cut].copy_from_slice(&new[..cut]);
            let want = accounts(if cut == SLOT_WORDS { 7 } else { 6 });
            let found = Kept::find(&slots);
            assert_eq!(found.accounts(), &want, "{cut} words from the start");
            slots[place] = new;
            slots[place][..cut].copy_from_slice(&old[..cut]);
            let want = accounts(if cut == 0 { 7 } else { 6 });
            let found = Kept::find(&slots);
            assert_eq!(found.accounts(), &want, "all but {cut} words, from the end");
        }
    }

    #[test]
    fn one_wrong_bit_is_no_record() {
        let (slots, _) = written(0, 2);
        for bit in 0..SLOT_WORDS * 32 {
            let mut bad = slots[0];
            bad[bit / 32] ^= 1 << (bit % 32);
            assert_eq!(read(&bad), None, "bit {bit}");
        }
    }
}
