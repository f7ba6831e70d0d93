//! The boot id, in memory that a reset does not clear.
//!
//! Always holds: an id comes again only when two cold starts draw the same of
//! 2^32, or after as many resets. It is as good as what the board draws with.

use core::mem::MaybeUninit;

use forebay_board_common::boot::{Cause, Record};
use forebay_firmware::wire::ids::BootId;

#[unsafe(link_section = ".uninit.boot")]
static mut RECORD: MaybeUninit<Record> = MaybeUninit::uninit();

fn load() -> Record {
    let place = (&raw const RECORD).cast::<Record>();
    // SAFETY: every bit pattern is a `Record`; volatile, because what stands there
    // was not written by this run. Only `main` and the panic handler come here, and
    // the latter does not return.
    unsafe { place.read_volatile() }
}

fn store(record: Record) {
    let place = (&raw mut RECORD).cast::<Record>();
    // SAFETY: as above; the next run reads it, so it must not be optimised away.
    unsafe { place.write_volatile(record) }
}

/// The id of this boot and why it happened. A cold start takes the number that
/// `random` makes of what the memory held. To be called once, at start.
pub fn begin(random: impl FnOnce(u32) -> u32) -> (BootId, Cause) {
    let found = load();
    let (boot, cause) = found.next(|| random(found.mixed()));
    store(Record::new(boot, false));
    (BootId(boot), cause)
}

/// Keeps the id in use, which is a later one when the gateway knew the first from
/// another boot.
pub fn keep(boot: BootId) {
    if load().boot() != Some(boot.0) {
        store(Record::new(boot.0, false));
    }
}

/// Starts again, and says so in the next Hello.
pub fn request_reset() -> ! {
    if let Some(boot) = load().boot() {
        store(Record::new(boot, true));
    }
    cortex_m::peripheral::SCB::sys_reset()
}
