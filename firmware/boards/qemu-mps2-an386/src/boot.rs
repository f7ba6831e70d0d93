//! The boot id, in memory that a reset does not clear.
//!
//! Always holds: a warm reset takes the next id; a cold start, known by a record
//! that is not intact, takes a random one. So an id comes again only when two
//! cold starts draw the same of 2^32, or after as many resets. Without a
//! debugger to ask, the cold id is what the memory held, mixed: on a board that
//! is weak, and in QEMU (whose memory starts as zeros) always the same.

use core::mem::MaybeUninit;

use forebay_firmware::wire::ids::BootId;

use crate::host;

/// Why the firmware runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, defmt::Format)]
pub enum Cause {
    Cold,
    /// Reset from outside: the button, or QMP's `system_reset`.
    Warm,
    /// Reset by [`request_reset`].
    Software,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct Record {
    magic: u32,
    boot: u32,
    software: u32,
    check: u32,
}

const MAGIC: u32 = 0x666f_7265;

#[unsafe(link_section = ".uninit.boot")]
static mut RECORD: MaybeUninit<Record> = MaybeUninit::uninit();

fn load() -> Record {
    let record = (&raw const RECORD).cast::<Record>();
    // SAFETY: every bit pattern is a `Record`; volatile, because what stands
    // there was not written by this run. Only `main` and the panic handler use it.
    unsafe { record.read_volatile() }
}

fn store(boot: u32, software: bool) {
    let software = software.into();
    let record = Record {
        magic: MAGIC,
        boot,
        software,
        check: check(boot, software),
    };
    let place = (&raw mut RECORD).cast::<Record>();
    // SAFETY: as above; the next run reads it, so it must not be optimised away.
    unsafe { place.write_volatile(record) }
}

const fn check(boot: u32, software: u32) -> u32 {
    !(boot.rotate_left(7) ^ software.wrapping_mul(0x9e37_79b9) ^ MAGIC)
}

/// The id of this boot and why it happened. To be called once, at start.
pub fn begin() -> (BootId, Cause) {
    let old = load();
    let intact = old.magic == MAGIC && old.check == check(old.boot, old.software);
    let (boot, cause) = match (intact, old.software) {
        (true, 0) => (old.boot.wrapping_add(1), Cause::Warm),
        (true, _) => (old.boot.wrapping_add(1), Cause::Software),
        (false, _) => (cold(old), Cause::Cold),
    };
    store(boot, false);
    (BootId(boot), cause)
}

fn cold(old: Record) -> u32 {
    host::random_number().unwrap_or_else(|| {
        [old.magic, old.boot, old.software, old.check]
            .iter()
            .fold(1, |mix: u32, word| (mix ^ word).wrapping_mul(0x0100_0193))
    })
}

/// Keeps the id in use, which is a later one when the gateway knew the first from
/// another boot.
pub fn keep(boot: BootId) {
    if load().boot != boot.0 {
        store(boot.0, false);
    }
}

/// Starts again, and says so in the next Hello.
pub fn request_reset() -> ! {
    store(load().boot, true);
    cortex_m::peripheral::SCB::sys_reset()
}
