//! One chip, several channels: a [`Chip`] measures all its quantities at once, a
//! [`Shared`] holds it, and each [`Channel`] is a [`Sensor`] for one quantity.
//!
//! Always holds: channels that fall due together share one measurement; each takes
//! its value of it once, so that no value is ever sent twice as if it were new. A
//! failure is shared as well: a dead chip costs its tries once, not per channel.
//! Bound: one value per quantity. Knows no bus; blocks for no longer than the chip.

use core::cell::RefCell;
use core::fmt;

use forebay_wire::ids::Tick;
use forebay_wire::message::Quality;

use crate::sensor::{ChannelSpec, Sensor};
use crate::sensors::limits::SHARE_US;

/// A quantity's value of one measurement, scaled as [`Kind`] says.
pub type Value = Result<i32, Quality>;

/// What is the same for all channels of a quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    pub unit: &'static str,
    pub scale: u8,
    pub range: (i32, i32),
}

/// A chip that measures `N` quantities at once.
pub trait Chip<const N: usize> {
    /// Its quantities; `as usize` is the place of each in what [`Chip::collect`] gives.
    type Quantity: Copy + Into<usize>;

    fn kind(&self, quantity: Self::Quantity) -> Kind;

    /// Begins a measurement; says how long until it can be collected, us.
    ///
    /// # Errors
    /// What all quantities of this measurement become.
    fn begin(&mut self) -> Result<u32, Quality> {
        Ok(0)
    }

    /// What was measured.
    ///
    /// # Errors
    /// What all quantities of this measurement become.
    fn collect(&mut self) -> Result<[Value; N], Quality>;
}

/// How far a measurement is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing begun since the last was collected.
    Idle,
    /// Can be collected so many microseconds after it began.
    Begun(u32),
}

#[derive(Debug)]
struct State<C, const N: usize> {
    chip: C,
    stage: Stage,
    /// When the newest measurement began.
    began: Tick,
    /// Values of it that no channel has taken yet.
    values: [Option<Value>; N],
}

/// See the module.
pub struct Shared<C, const N: usize>(RefCell<State<C, N>>);

impl<C, const N: usize> fmt::Debug for Shared<C, N> {
    // Chips are generic over buses, which need not have Debug.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl<C: Chip<N>, const N: usize> Shared<C, N> {
    pub fn new(chip: C) -> Self {
        Shared(RefCell::new(State {
            chip,
            stage: Stage::Idle,
            began: Tick(0),
            values: [None; N],
        }))
    }

    /// A channel of `quantity`, called `name` and read each `period_us`. Make one
    /// per quantity: two of the same would take each other's values.
    pub fn channel(
        &self,
        quantity: C::Quantity,
        name: &'static str,
        period_us: u32,
    ) -> Channel<'_, C, N> {
        let Kind { unit, scale, range } = self.0.borrow().chip.kind(quantity);
        Channel {
            shared: self,
            place: quantity.into(),
            spec: ChannelSpec {
                quantity: name,
                unit,
                scale,
                range,
                period_us,
            },
        }
    }

    /// Gives the chip back.
    pub fn release(self) -> C {
        self.0.into_inner().chip
    }
}

impl<C: Chip<N>, const N: usize> State<C, N> {
    fn start(&mut self, place: usize, now: Tick) -> u32 {
        let age_us = now.0.saturating_sub(self.began.0);
        match self.stage {
            // Another channel began it, and its values are still to come.
            Stage::Begun(wait_us) if age_us <= u64::from(wait_us) + SHARE_US => {
                return u64::from(wait_us).saturating_sub(age_us) as u32;
            }
            Stage::Idle if self.has(place) && age_us <= SHARE_US => return 0,
            Stage::Idle | Stage::Begun(_) => {}
        }
        self.began = now;
        self.begin()
    }

    fn has(&self, place: usize) -> bool {
        self.values.get(place).is_some_and(Option::is_some)
    }

    fn begin(&mut self) -> u32 {
        match self.chip.begin() {
            Ok(wait_us) => {
                self.values = [None; N];
                self.stage = Stage::Begun(wait_us);
                wait_us
            }
            Err(quality) => {
                self.values = [Some(Err(quality)); N];
                self.stage = Stage::Idle;
                0
            }
        }
    }

    fn read(&mut self, place: usize) -> Value {
        if !self.has(place) {
            if self.stage == Stage::Idle {
                // Not started, as by a loop without `start`: what needs no wait is had.
                let wait_us = self.begin();
                if wait_us > 0 {
                    return Err(Quality::Stale);
                }
            }
            if let Stage::Begun(_) = self.stage {
                self.stage = Stage::Idle;
                self.values = match self.chip.collect() {
                    Ok(values) => values.map(Some),
                    Err(quality) => [Some(Err(quality)); N],
                };
            }
        }
        let taken = self.values.get_mut(place).and_then(Option::take);
        taken.unwrap_or(Err(Quality::Stale))
    }
}

/// One quantity of a [`Shared`] chip.
pub struct Channel<'a, C, const N: usize> {
    shared: &'a Shared<C, N>,
    place: usize,
    spec: ChannelSpec,
}

impl<C, const N: usize> fmt::Debug for Channel<'_, C, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Channel");
        debug.field("spec", &self.spec).finish_non_exhaustive()
    }
}

impl<C: Chip<N>, const N: usize> Sensor for Channel<'_, C, N> {
    fn spec(&self) -> ChannelSpec {
        self.spec
    }

    fn start(&mut self, now: Tick) -> u32 {
        self.shared.0.borrow_mut().start(self.place, now)
    }

    fn read(&mut self) -> Value {
        self.shared.0.borrow_mut().read(self.place)
    }
}

#[cfg(test)]
mod tests;
