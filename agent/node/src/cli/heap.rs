//! How the heap of a process that runs for months is kept small. glibc gives up to eight
//! heaps per core to threads that allocate at once, and what is freed in one is of no use to
//! the others: with 200 devices that was 20 MB of 65. What stays free between what is in use
//! goes back to the system now and then. Knows nothing of who allocates.
#![allow(
    unsafe_code,
    reason = "glibc's settings have no safe call in std or rustix"
)]

use std::time::{Duration, Instant};

/// Heaps that threads share: the loop and the storage thread allocate most. One would save
/// nothing (40.9 MB at the most of an hour instead of 41.0), and the loop would wait for a
/// thread of lower priority that holds it.
#[cfg(target_env = "gnu")]
const HEAPS: libc::c_int = 2;
/// A block of this many bytes is of its own and goes back to the system when it is freed.
/// Said, it does not grow with what was freed before.
#[cfg(target_env = "gnu")]
const OWN_BYTES: libc::c_int = 128 * 1024;

/// How often free pages go back to the system at the most; and it takes no more than one part
/// in so many of the time: a millisecond of a small heap, tens of one of hundreds of megabytes,
/// and whoever allocates waits for it.
const GIVEN_BACK_EVERY: Duration = Duration::from_secs(5);
const GIVEN_BACK_PART: u32 = 1000;

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
    loop {
        let began = Instant::now();
        // It waits for who allocates: not on a thread of the runtime. That it ended early
        // would only leave more memory.
        let _ = tokio::task::spawn_blocking(trim).await;
        tokio::time::sleep(rest(began.elapsed())).await;
    }
}

/// How long nothing is given back after it took so long.
fn rest(took: Duration) -> Duration {
    GIVEN_BACK_EVERY.max(took * GIVEN_BACK_PART)
}

fn trim() {
    // SAFETY: malloc_trim takes no memory of ours away, and any thread may call it.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_long_is_done_less_often() {
        let longest = GIVEN_BACK_EVERY / GIVEN_BACK_PART;
        let us = Duration::from_micros(1);
        for (name, took, want) in [
            ("limit - 1", longest - us, GIVEN_BACK_EVERY),
            ("limit", longest, GIVEN_BACK_EVERY),
            (
                "limit + 1",
                longest + us,
                GIVEN_BACK_EVERY + us * GIVEN_BACK_PART,
            ),
        ] {
            assert_eq!(rest(took), want, "{name}");
        }
    }
}
