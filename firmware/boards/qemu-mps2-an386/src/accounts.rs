//! What this boot and earlier ones owe the gateway, in memory that a reset does not
//! clear, so that the next boot can declare what the reset took from the ring.
//!
//! Two records are written in turn: a reset in the middle of a write spoils one.

use core::mem::MaybeUninit;

use forebay_firmware::{Account, Accounts};

use crate::Device;

type Record = [u8; Accounts::BYTES];

#[unsafe(link_section = ".uninit.accounts")]
static mut RECORDS: MaybeUninit<[Record; 2]> = MaybeUninit::uninit();

/// Place of record `index`, 0 or 1. Only `main` reads and writes there.
fn place(index: usize) -> *mut Record {
    (&raw mut RECORDS).cast::<Record>().wrapping_add(index & 1)
}

/// Keeps the accounts up to date.
pub struct Keeper {
    kept: Account,
    next: usize,
}

impl Keeper {
    /// Gives the started `device` what earlier boots kept.
    pub fn begin(device: &mut Device) -> Self {
        let [a, b] = [0, 1].map(|index| {
            // SAFETY: inside RECORDS, and every bit pattern is a `Record`; volatile,
            // because what stands there was not written by this run.
            Accounts::from_bytes(&unsafe { place(index).read_volatile() })
        });
        if let Some(earlier) = Accounts::later(a, b) {
            device.remember(&earlier);
        }
        Self {
            kept: device.account(),
            next: 0,
        }
    }

    /// To be called between taking readings and sending them.
    pub fn keep(&mut self, device: &Device) {
        let now = device.account();
        if now != self.kept {
            self.kept = now;
            // SAFETY: inside RECORDS; volatile, because the next run reads it.
            unsafe { place(self.next).write_volatile(device.accounts().to_bytes()) };
            self.next ^= 1;
        }
    }
}
