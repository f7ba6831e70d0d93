//! defmt's logger: raw frames into a ring, from where the main loop gives them to the
//! device, which sends them when the line has nothing else.
//!
//! Always holds: it never waits, with or without a reader. A frame is written inside
//! of a critical section, as others may log from an interrupt.

use core::cell::RefCell;
use core::cell::UnsafeCell;

use critical_section::{Mutex, RestoreState};
use forebay_board_common::log::{FRAME_BYTES_MAX, LogRing};
use forebay_board_common::station::Event;

/// Levels as the gateway asks for them.
const WARN: u8 = 2;
const INFO: u8 = 3;

static RING: Mutex<RefCell<LogRing>> = Mutex::new(RefCell::new(LogRing::new()));

/// Moves the oldest frame into `into` and returns its length.
pub fn take(into: &mut [u8; FRAME_BYTES_MAX]) -> Option<usize> {
    critical_section::with(|cs| RING.borrow_ref_mut(cs).pop(into))
}

/// Frames that were dropped so far.
pub fn dropped() -> u32 {
    critical_section::with(|cs| RING.borrow_ref(cs).dropped())
}

/// Says what happened, if the gateway wants to read lines of that `level`.
pub fn say(event: Event, level: u8) {
    match event {
        Event::Boot { boot, cause } if level >= INFO => {
            defmt::info!("boot {=u32:08x}, reset cause {=u8}", boot.0, cause as u8);
        }
        Event::SessionOpen if level >= INFO => defmt::info!("session open"),
        Event::SessionClosed if level >= INFO => defmt::info!("session closed"),
        Event::BytesDropped(bytes) if level >= WARN => {
            defmt::warn!("{=u32} received bytes dropped so far", bytes);
        }
        Event::Boot { .. } | Event::SessionOpen | Event::SessionClosed | Event::BytesDropped(_) => {
        }
    }
}

/// How to leave the critical section that the open frame is in.
struct Restore(UnsafeCell<RestoreState>);

// SAFETY: touched only between acquire and release, which is inside of a critical section.
unsafe impl Sync for Restore {}

static RESTORE: Restore = Restore(UnsafeCell::new(RestoreState::invalid()));

fn with_ring(work: impl FnOnce(&mut LogRing)) {
    critical_section::with(|cs| work(&mut RING.borrow_ref_mut(cs)));
}

#[defmt::global_logger]
struct Logger;

// SAFETY: a frame's calls are inside of one critical section, so that no other comes between.
unsafe impl defmt::Logger for Logger {
    fn acquire() {
        // SAFETY: ended in `release`, which defmt calls once for each acquire.
        let state = unsafe { critical_section::acquire() };
        // SAFETY: inside of the critical section, as is all that touches it.
        unsafe { *RESTORE.0.get() = state };
        with_ring(LogRing::begin);
    }

    unsafe fn flush() {}

    unsafe fn release() {
        with_ring(LogRing::end);
        // SAFETY: still inside of the critical section.
        let state = unsafe { *RESTORE.0.get() };
        // SAFETY: the state of the one acquire that this release belongs to.
        unsafe { critical_section::release(state) };
    }

    unsafe fn write(bytes: &[u8]) {
        with_ring(|ring| ring.write(bytes));
    }
}
