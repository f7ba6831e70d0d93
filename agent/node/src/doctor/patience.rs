//! Areas of checks side by side, none longer than it may take.
//!
//! Always holds: findings come in the order of the areas, whichever is done first; an
//! area that hangs, or breaks, costs its own findings only.

use std::fmt;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use super::check::{Check, Finding};

/// Checks that are made together.
pub(super) struct Area {
    /// Stands for them where they are not done in time.
    check: &'static Check,
    limit: Duration,
    look: Box<dyn FnOnce() -> Vec<Finding> + Send>,
}

impl fmt::Debug for Area {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Area")
            .field("check", &self.check.code)
            .finish_non_exhaustive()
    }
}

impl Area {
    pub(super) fn new(
        check: &'static Check,
        limit: Duration,
        look: impl FnOnce() -> Vec<Finding> + Send + 'static,
    ) -> Self {
        Self {
            check,
            limit,
            look: Box::new(look),
        }
    }
}

/// Makes all checks, within `limit` in all.
pub(super) fn all(areas: Vec<Area>, limit: Duration) -> Vec<Finding> {
    let started = Instant::now();
    type Started = (&'static Check, Duration, Receiver<Vec<Finding>>);
    let running: Vec<Started> = areas
        .into_iter()
        .map(|area| {
            let (done, findings) = sync_channel(1);
            let look = area.look;
            // A thread that cannot be had drops its end of the channel, as one that broke.
            let _ = thread::Builder::new().name("doctor".into()).spawn(move || {
                // Nobody listens any more to one that comes too late.
                let _ = done.send(look());
            });
            (area.check, area.limit.min(limit), findings)
        })
        .collect();
    let collected = running.into_iter().flat_map(|(check, limit, findings)| {
        let left = limit.saturating_sub(started.elapsed());
        findings.recv_timeout(left).unwrap_or_else(|error| {
            use std::sync::mpsc::RecvTimeoutError::{Disconnected, Timeout};
            vec![match error {
                Timeout => Finding::fail(
                    check,
                    format!(
                        "not done within {} s: a disk, a device or a network hangs",
                        limit.as_secs()
                    ),
                    "look again; `dmesg` may say what hangs",
                ),
                Disconnected => Finding::fail(
                    check,
                    "the check itself broke",
                    "please report it, with what stands on standard error",
                ),
            }]
        })
    });
    collected.collect()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::super::check::Level;
    use super::super::codes::{BROKER_TCP, CLOCK_YEAR, PORT_THERE};
    use super::*;

    #[test]
    fn one_that_hangs_or_breaks_costs_no_other() {
        let (never, hangs) = channel::<()>();
        let far = Duration::from_secs(60);
        let areas = vec![
            Area::new(&BROKER_TCP, Duration::from_millis(50), move || {
                let _ = hangs.recv();
                Vec::new()
            }),
            Area::new(&PORT_THERE, far, || panic!("broken on purpose")),
            Area::new(&CLOCK_YEAR, far, || vec![Finding::ok(&CLOCK_YEAR, "fine")]),
        ];
        let found = all(areas, far);
        let levels: Vec<_> = found.iter().map(|f| (f.check.code, f.level)).collect();
        let want = [
            ("broker.tcp", Level::Fail),
            ("port.there", Level::Fail),
            ("clock.year", Level::Ok),
        ];
        assert_eq!(levels, want);
        assert!(found[0].text.contains("not done within"), "{found:?}");
        drop(never);
    }

    #[test]
    fn the_time_for_all_counts_too() {
        let (never, hangs) = channel::<()>();
        let area = Area::new(&BROKER_TCP, Duration::from_secs(600), move || {
            let _ = hangs.recv();
            Vec::new()
        });
        let found = all(vec![area], Duration::from_millis(20));
        assert_eq!(found[0].level, Level::Fail);
        drop(never);
    }
}
