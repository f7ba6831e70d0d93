//! How the heap of a process that runs for months is kept small. glibc gives up to eight
//! heaps per core to threads that allocate at once, and what is freed in one is of no use to
//! the others: with 200 devices that was 20 MB of 65. Knows nothing of who allocates.
#![allow(
    unsafe_code,
    reason = "glibc's settings have no safe call in std or rustix"
)]

/// Heaps that threads share: the loop and the storage thread allocate most.
#[cfg(target_env = "gnu")]
const HEAPS: libc::c_int = 2;
/// A block of this many bytes is of its own and goes back to the system when it is freed.
/// Said, it does not grow with what was freed before.
#[cfg(target_env = "gnu")]
const OWN_BYTES: libc::c_int = 128 * 1024;

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
