//! Waits by counting the core's cycles: at least as long as asked.

use embedded_hal::delay::DelayNs;

/// For a core of `HZ`.
#[derive(Debug)]
pub struct Cycles<const HZ: u32>;

impl<const HZ: u32> DelayNs for Cycles<HZ> {
    fn delay_ns(&mut self, ns: u32) {
        let cycles_per_us = const { HZ.div_ceil(1_000_000) };
        cortex_m::asm::delay(ns.div_ceil(1_000) * cycles_per_us);
    }
}
