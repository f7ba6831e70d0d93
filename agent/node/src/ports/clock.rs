//! The gateway's monotonic clock. Its origin is arbitrary; it never goes back.

use std::time::Instant;

use forebay_core::units::Mono;

/// Counts microseconds from the moment that it was started. Copies agree.
#[derive(Debug, Clone, Copy)]
pub struct MonoClock {
    origin: Instant,
}

impl MonoClock {
    pub fn start() -> Self {
        Self {
            origin: Instant::now(),
        }
    }

    pub fn now(&self) -> Mono {
        self.at(Instant::now())
    }

    /// 0 for an instant before the clock was started.
    pub fn at(&self, instant: Instant) -> Mono {
        let micros = instant.saturating_duration_since(self.origin).as_micros();
        Mono(u64::try_from(micros).unwrap_or(u64::MAX))
    }

    /// The instant at which [`Self::now`] says `mono`.
    pub fn instant(&self, mono: Mono) -> Instant {
        self.origin + std::time::Duration::from_micros(mono.0)
    }
}
