//! How the heap of a process that runs for months is kept small. glibc gives up to eight
//! heaps per core to threads that allocate at once, and what is freed in one is of no use to
//! the others: with 200 devices that was 20 MB of 65. Knows nothing of who allocates.
//! What answers of a megabyte leave free between what stays goes back now and then.
#![allow(
    unsafe_code,
    reason = "glibc's settings have no safe call in std or rustix"
)]

use std::time::Duration;

use tokio::time::MissedTickBehavior;

/// Heaps that threads share: the loop and the storage thread allocate most.
#[cfg(target_env = "gnu")]
const HEAPS: libc::c_int = 2;
/// A block of this many bytes is of its own and goes back to the system when it is freed.
/// Said, it does not grow with what was freed before.
#[cfg(target_env = "gnu")]
const OWN_BYTES: libc::c_int = 128 * 1024;

/// How often free pages go back to the system: it takes some milliseconds of a large heap.
const GIVEN_BACK_EVERY: Duration = Duration::from_secs(30);

/// To be called before any thread is started. Elsewhere than on glibc it does nothing.
pub(super) fn keep_small() {
    // SAFETY: mallopt only writes settings of the allocator, and no other thread is there
    // yet. What it refuses stays as it was.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, HEAPS);
        libc::mallopt(libc::M_MMAP_THRESHOLD, OWN_BYTES);
        libc::mallopt(libc::M_TRIM_THRESHOLD, OWN_BYTES);
    }
}

/// Gives pages in which nothing stands back to the system, at once and now and then; never
/// ends.
pub(super) async fn give_back() {
    let mut every = tokio::time::interval(GIVEN_BACK_EVERY);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        every.tick().await;
        // It waits for who allocates: not on a thread of the runtime. That it ended early
        // would only leave more memory.
        let _ = tokio::task::spawn_blocking(trim).await;
    }
}

fn trim() {
    // SAFETY: malloc_trim takes no memory of ours away, and any thread may call it.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}
