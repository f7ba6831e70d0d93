//! A channel that needs no bus: how long the device has run. It shows that one
//! channel's trouble does not delay the others.

use forebay_firmware::wire::message::Quality;
use forebay_firmware::{ChannelSpec, Sensor};

use crate::clock::Clock;

/// Seconds since boot.
#[derive(Debug)]
pub struct Uptime<'a> {
    clock: &'a Clock,
    period_us: u32,
}

impl<'a> Uptime<'a> {
    #[must_use]
    pub fn new(clock: &'a Clock, period_us: u32) -> Self {
        Self { clock, period_us }
    }
}

impl Sensor for Uptime<'_> {
    fn spec(&self) -> ChannelSpec {
        ChannelSpec {
            quantity: "uptime",
            unit: "s",
            scale: 0,
            range: (0, i32::MAX),
            period_us: self.period_us,
        }
    }

    fn read(&mut self) -> Result<i32, Quality> {
        let seconds = self.clock.now().0 / 1_000_000;
        i32::try_from(seconds).map_err(|_| Quality::Saturated)
    }
}
