//! Counts the bytes that live on the heap while it is asked to. One thread's worth: a
//! part that counts starts no other.
#![allow(unsafe_code, reason = "an allocator has no safe form")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static IS_ON: AtomicBool = AtomicBool::new(false);
static LIVE: AtomicI64 = AtomicI64::new(0);

fn count(bytes: i64) {
    if IS_ON.load(Relaxed) {
        LIVE.fetch_add(bytes, Relaxed);
    }
}

// SAFETY: everything is the system's allocator's, called with what came in.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as i64 - layout.size() as i64);
        // SAFETY: as above.
        unsafe { System.realloc(at, layout, size) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }
}

/// From here on bytes count; gives those of now.
pub(crate) fn start() -> i64 {
    IS_ON.store(true, Relaxed);
    LIVE.load(Relaxed)
}

/// Up to here; gives those of now.
pub(crate) fn stop() -> i64 {
    IS_ON.store(false, Relaxed);
    LIVE.load(Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lives_counts() {
        let before = start();
        // Room that is asked for and never touched.
        let kept: Vec<u8> = Vec::with_capacity(1 << 30);
        drop(Vec::<u8>::with_capacity(1 << 31));
        let after = stop();
        // Other tests of this process allocate meanwhile, but not that much.
        assert!(after.abs_diff(before + (1 << 30)) < 1 << 29);
        drop(kept);
    }
}
