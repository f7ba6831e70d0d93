//! Points between the steps of the store at which a test may kill the process.
//! Without the feature `fault-points` a point is nothing.
//!
//! With it, `FOREBAY_FAULT=<point>:<n>` kills the process, as `kill -9` does, when
//! it passes that point for the n-th time, counted from 1.

/// Every point of a store, in the order in which one passes them.
pub const POINTS: [&str; 25] = [
    "open.locked",
    "open.identity",
    "open.epoch",
    "generation.created",
    "carry.synced",
    "append.written",
    "append.rolled",
    "sync.flushed",
    "sync.synced",
    "sync.meta-written",
    "sync.meta-synced",
    "identity.new",
    "identity.renamed",
    "seal.started",
    "seal.blocks-written",
    "seal.synced",
    "seal.renamed",
    "seal.all-renamed",
    "seal.done",
    "unseal.renamed",
    "unseal.removed",
    "remove.noted",
    "remove.unlinked",
    "quarantine.renamed",
    "recover.closed",
];

/// And those of a source of changes, in its order.
pub const SOURCE_POINTS: [&str; 13] = [
    "source.recorded",
    "source.slot-dropped",
    "source.slot-made",
    "source.snapshot-begun",
    "source.snapshot-rows",
    "source.snapshot-ended",
    "source.snapshot-durable",
    "source.snapshot-recorded",
    "source.started",
    "source.received",
    "source.handed-on",
    "source.durable",
    "source.confirmed",
];

/// Passes the point `name`.
#[cfg(not(feature = "fault-points"))]
#[inline]
pub(crate) fn point(_name: &'static str) {}

/// Passes the point `name`, or ends here.
#[cfg(feature = "fault-points")]
pub(crate) fn point(name: &'static str) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    static ASKED: OnceLock<Option<(String, u64)>> = OnceLock::new();
    static PASSED: AtomicU64 = AtomicU64::new(0);

    debug_assert!(
        POINTS.contains(&name) || SOURCE_POINTS.contains(&name),
        "{name} is not listed"
    );
    let asked = ASKED.get_or_init(|| {
        let text = std::env::var("FOREBAY_FAULT").ok()?;
        let (point, count) = text.split_once(':')?;
        Some((point.to_owned(), count.parse().ok()?))
    });
    if let Some((point, count)) = asked
        && point == name
        && PASSED.fetch_add(1, Ordering::SeqCst) + 1 == *count
    {
        let pid = rustix::process::getpid();
        // Nothing may run after this, as after a power cut.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        loop {
            std::thread::park();
        }
    }
}
