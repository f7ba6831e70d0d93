//! How soon the system gives the loop's thread a processor. All that is answered or acked
//! waits for it, and its turns are short.

/// As `nice` counts: below 0 is before others.
const NICE: i32 = -5;

/// Puts this thread before others where the system lets us: as root, with `CAP_SYS_NICE`, or
/// within `LimitNICE` of systemd. Elsewhere it stays where it is, and is only slower on a
/// processor that has no time left.
pub(super) fn raise() {
    let now = rustix::process::getpriority_process(None);
    // Who gave us more than this knows why.
    if now.is_ok_and(|nice| nice > NICE) {
        let _ = rustix::process::setpriority_process(None, NICE);
    }
}
