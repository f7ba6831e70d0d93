//! What the device owes the gateway, in memory that a reset does not clear.
//!
//! Always holds: an ordinal is noted here before it goes out, so that the next boot
//! can declare each one that a gateway has heard of. A reading that a reset takes
//! between its sample and the note was never told to anybody.

use core::mem::MaybeUninit;

use forebay_board_common::keep::{Kept, SLOT_WORDS, Slots};
use forebay_firmware::Accounts;

#[unsafe(link_section = ".uninit.accounts")]
static mut SLOTS: MaybeUninit<Slots> = MaybeUninit::uninit();

/// The notes; only one of them at a time, in `main`.
pub struct Keep(Kept);

fn load(slot: usize, word: usize) -> u32 {
    // SAFETY: every bit pattern is a word; volatile, because what stands there was
    // not written by this run. Only `main` comes here.
    unsafe { at(slot, word).read_volatile() }
}

fn store(slot: usize, word: usize, value: u32) {
    // SAFETY: as above; the next run reads it, so it must not be optimised away.
    unsafe { at(slot, word).write_volatile(value) }
}

fn at(slot: usize, word: usize) -> *mut u32 {
    assert!(slot < 2 && word < SLOT_WORDS);
    let words = (&raw mut SLOTS).cast::<u32>();
    // SAFETY: inside of the two slots, as was just asserted.
    unsafe { words.add(slot * SLOT_WORDS + word) }
}

impl Keep {
    /// Looks for what earlier boots left. To be called once, at start.
    pub fn begin() -> Self {
        let found = [0, 1].map(|slot| core::array::from_fn(|word| load(slot, word)));
        Self(Kept::find(&found))
    }

    /// What was found or noted last.
    pub fn accounts(&self) -> &Accounts {
        self.0.accounts()
    }

    /// Writes `accounts` down when they have changed.
    pub fn note(&mut self, accounts: Accounts) {
        if let Some((place, slot)) = self.0.note(accounts) {
            for (word, value) in slot.into_iter().enumerate() {
                store(place, word, value);
            }
        }
    }
}
