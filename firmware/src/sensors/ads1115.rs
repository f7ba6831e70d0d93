//! ADS1115 by the `ads1x1x` crate: up to four inputs against ground, one conversion
//! at a time at 860 samples per second.
//!
//! Inputs that fall due together are converted one after the other; each waits for
//! its turn without holding up the loop. A value is saturated at either end.
//! Bound: one input at work, the others in a queue; [`ADS1115_POLLS_MAX`] looks at a
//! conversion, [`BUS_TRIES_MAX`] failures.

use core::cell::RefCell;
use core::fmt;

use ::ads1x1x::channel::{SingleA0, SingleA1, SingleA2, SingleA3};
use ::ads1x1x::ic::{Ads1115 as Ic, Resolution16Bit};
use ::ads1x1x::mode::OneShot;
use ::ads1x1x::{Ads1x1x, DataRate16Bit, FullScaleRange, TargetAddr};
use embedded_hal::i2c::I2c;
use forebay_wire::ids::Tick;
use forebay_wire::message::Quality;
use heapless::Deque;

use crate::limits::BUS_TRIES_MAX;
use crate::sensor::{ChannelSpec, Sensor};
use crate::sensors::guard::GuardedI2c;
use crate::sensors::limits::{ADS1115_CONVERT_US, ADS1115_POLLS_MAX, SHARE_US};
use crate::sensors::tries::{bus, tries};

/// The conversion register may hold only ones: just below 0 V. The crate looks at the
/// configuration before, where a bus of ones is found out.
const CONVERSION: u8 = 0x00;

/// A pin of the chip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    A0,
    A1,
    A2,
    A3,
}

const INPUTS: usize = 4;

struct State<I> {
    driver: Ads1x1x<GuardedI2c<I>, Ic, Resolution16Bit, OneShot>,
    range: FullScaleRange,
    /// Range and rate were written.
    configured: bool,
    /// The input that is being converted, and since when.
    at_work: Option<Input>,
    began: Tick,
    /// Inputs whose turn comes, in the order of their starts.
    queued: Deque<Input, INPUTS>,
}

/// See the module.
pub struct Ads1115<I>(RefCell<State<I>>);

impl<I> fmt::Debug for Ads1115<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ads1115").finish_non_exhaustive()
    }
}

impl<I: I2c> Ads1115<I> {
    /// The chip whose ADDR pin is tied to `address`, for voltages within `range`.
    pub fn new(i2c: I, address: TargetAddr, range: FullScaleRange) -> Self {
        Ads1115(RefCell::new(State {
            driver: Ads1x1x::new_ads1115(GuardedI2c::except(i2c, CONVERSION), address),
            range,
            configured: false,
            at_work: None,
            began: Tick(0),
            queued: Deque::new(),
        }))
    }

    /// The voltage at `input`, in microvolts, called `name` and read each `period_us`.
    pub fn channel(
        &self,
        input: Input,
        name: &'static str,
        period_us: u32,
    ) -> Ads1115Channel<'_, I> {
        let limit = microvolts(i16::MAX, self.0.borrow().range);
        Ads1115Channel {
            chip: self,
            input,
            spec: ChannelSpec {
                quantity: name,
                unit: "V",
                scale: 6,
                range: (-limit, limit),
                period_us,
            },
        }
    }

    /// Gives the bus back.
    pub fn release(self) -> I {
        self.0.into_inner().driver.destroy_ads1115().release()
    }
}

impl<I: I2c> State<I> {
    fn start(&mut self, input: Input, now: Tick) -> u32 {
        let longest_us = u64::from(ADS1115_CONVERT_US) * INPUTS as u64 + SHARE_US;
        if now.0.saturating_sub(self.began.0) > longest_us {
            // Whoever was at work never came for it.
            self.at_work = None;
            self.queued.clear();
        }
        if self.at_work.is_none() {
            self.began = now;
            self.at_work = Some(input);
            self.configure_and_begin(input);
            return ADS1115_CONVERT_US;
        }
        if !self.queued.iter().any(|queued| *queued == input) {
            let queued = self.queued.push_back(input);
            debug_assert!(queued.is_ok(), "each input once");
        }
        (1 + self.queued.len() as u32) * ADS1115_CONVERT_US
    }

    /// What fails here is tried again by the read, which tells of it.
    fn configure_and_begin(&mut self, input: Input) {
        if !self.configured {
            let State { driver, range, .. } = self;
            self.configured = driver.set_data_rate(DataRate16Bit::Sps860).is_ok()
                && driver.set_full_scale_range(*range).is_ok();
        }
        if self.configured {
            // "Would block" is what a begun conversion says.
            let _ = self.step(input);
        }
    }

    /// Begins the conversion of `input`, or says how it ended; `None`: it goes on.
    fn step(&mut self, input: Input) -> Result<Option<i16>, Quality> {
        let answer = match input {
            Input::A0 => self.driver.read(SingleA0),
            Input::A1 => self.driver.read(SingleA1),
            Input::A2 => self.driver.read(SingleA2),
            Input::A3 => self.driver.read(SingleA3),
        };
        match answer {
            Ok(raw) => Ok(Some(raw)),
            Err(nb::Error::WouldBlock) => Ok(None),
            Err(nb::Error::Other(error)) => Err(bus(error)),
        }
    }

    fn read(&mut self, input: Input) -> Result<i32, Quality> {
        if self.at_work.is_some_and(|other| other != input) {
            // Its turn did not come in time.
            return Err(Quality::Stale);
        }
        let raw = self.finish(input);
        self.at_work = None;
        self.next_turn();
        let raw = raw?;
        if raw == i16::MAX || raw == i16::MIN {
            return Err(Quality::Saturated);
        }
        Ok(microvolts(raw, self.range))
    }

    fn finish(&mut self, input: Input) -> Result<i16, Quality> {
        if !self.configured {
            tries(|| {
                self.configure_and_begin(input);
                if self.configured {
                    Ok(())
                } else {
                    Err(Quality::BusError)
                }
            })?;
        }
        let mut failures = 0;
        for _ in 0..ADS1115_POLLS_MAX {
            match self.step(input) {
                Ok(Some(raw)) => return Ok(raw),
                Ok(None) => {}
                Err(quality) => {
                    failures += 1;
                    if failures == BUS_TRIES_MAX {
                        self.configured = false;
                        return Err(quality);
                    }
                }
            }
        }
        Err(Quality::Stale)
    }

    fn next_turn(&mut self) {
        if let Some(input) = self.queued.pop_front() {
            self.at_work = Some(input);
            self.configure_and_begin(input);
        }
    }
}

/// A digit is the full scale / 2^15 (data sheet SBAS444, table 7-1).
fn microvolts(raw: i16, range: FullScaleRange) -> i32 {
    // 6.144 V / 2^15 = 187.5 uV = 375 / 2 uV, and so on.
    let (digit, half) = match range {
        FullScaleRange::Within6_144V => (375, 2),
        FullScaleRange::Within4_096V => (125, 1),
        FullScaleRange::Within2_048V => (125, 2),
        FullScaleRange::Within1_024V => (125, 4),
        FullScaleRange::Within0_512V => (125, 8),
        FullScaleRange::Within0_256V => (125, 16),
    };
    i32::from(raw) * digit / half
}

/// One input of an [`Ads1115`].
pub struct Ads1115Channel<'a, I> {
    chip: &'a Ads1115<I>,
    input: Input,
    spec: ChannelSpec,
}

impl<I> fmt::Debug for Ads1115Channel<'_, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ads1115Channel")
            .field("input", &self.input)
            .field("spec", &self.spec)
            .finish_non_exhaustive()
    }
}

impl<I: I2c> Sensor for Ads1115Channel<'_, I> {
    fn spec(&self) -> ChannelSpec {
        self.spec
    }

    fn start(&mut self, now: Tick) -> u32 {
        self.chip.0.borrow_mut().start(self.input, now)
    }

    fn read(&mut self) -> Result<i32, Quality> {
        self.chip.0.borrow_mut().read(self.input)
    }
}

#[cfg(test)]
mod tests;
