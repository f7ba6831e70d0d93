//! When to read which channel: fixed periods on a grid, without drift. A late loop
//! skips the slots it missed and counts them; it never reads twice to catch up. A
//! sensor that takes its time is begun in its slot and read when it is done, with the
//! tick of its beginning; others are read meanwhile.
//! Knows no sensor and no clock. Bound: `CHANNELS` channels.

use forebay_wire::ids::{ChannelNo, Tick};
use forebay_wire::message::Quality;
use heapless::Vec;

use crate::device::Device;
use crate::sensor::{ChannelSpec, Sensor};

#[derive(Debug, Clone, Copy)]
struct Slot {
    period_us: u64,
    due: Tick,
    missed: u64,
    begun: Option<Begun>,
}

/// A measurement on its way.
#[derive(Debug, Clone, Copy)]
struct Begun {
    at: Tick,
    done: Tick,
}

/// See the module.
#[derive(Debug)]
pub struct Sampler<const CHANNELS: usize> {
    slots: Vec<Slot, CHANNELS>,
    /// Missed slots that the device was not told of.
    untold: u32,
}

impl<const CHANNELS: usize> Sampler<CHANNELS> {
    /// All channels are due at `start`. Takes the first `CHANNELS` of `channels`.
    #[must_use]
    pub fn new(channels: &[ChannelSpec], start: Tick) -> Self {
        let slot = |spec: &ChannelSpec| Slot {
            period_us: u64::from(spec.period_us.max(1)),
            due: start,
            missed: 0,
            begun: None,
        };
        Sampler {
            slots: channels.iter().take(CHANNELS).map(slot).collect(),
            untold: 0,
        }
    }

    /// When the next channel is due, or a measurement done; `None` without channels.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Tick> {
        let at = |slot: &Slot| match slot.begun {
            Some(begun) => slot.due.min(begun.done),
            None => slot.due,
        };
        self.slots.iter().map(at).min()
    }

    /// The channel that has been due longest, if any is; read it now. The next
    /// slot of that channel is the first of its grid after `now`.
    pub fn poll(&mut self, now: Tick) -> Option<ChannelNo> {
        let numbered = (0..).map(ChannelNo).zip(&mut self.slots);
        let (channel, slot) = numbered.min_by_key(|(_, slot)| slot.due)?;
        let late_us = now.0.checked_sub(slot.due.0)?;
        let periods = late_us / slot.period_us + 1;
        slot.due = Tick(slot.due.0 + periods * slot.period_us);
        self.miss(channel, periods - 1);
        Some(channel)
    }

    fn miss(&mut self, channel: ChannelNo, slots: u64) {
        if let Some(slot) = self.slots.get_mut(usize::from(channel.0)) {
            slot.missed += slots;
        }
        let slots = u32::try_from(slots).unwrap_or(u32::MAX);
        self.untold = self.untold.saturating_add(slots);
    }

    /// Takes out the measurement that has been done longest, if any is.
    fn take_done(&mut self, now: Tick) -> Option<(ChannelNo, Tick)> {
        let numbered = (0..).map(ChannelNo).zip(&mut self.slots);
        let begun = numbered.filter_map(|(channel, slot)| {
            let begun = slot.begun.filter(|begun| begun.done <= now)?;
            Some((channel, begun, slot))
        });
        let (channel, begun, slot) = begun.min_by_key(|(_, begun, _)| begun.done)?;
        slot.begun = None;
        Some((channel, begun.at))
    }

    /// True when the measurement that was begun in the slot before still goes on.
    fn is_busy(&self, channel: ChannelNo) -> bool {
        let slot = self.slots.get(usize::from(channel.0));
        slot.is_some_and(|slot| slot.begun.is_some())
    }

    /// Slots of `channel` that passed without a reading, since start.
    #[must_use]
    pub fn missed(&self, channel: ChannelNo) -> u64 {
        self.slots
            .get(usize::from(channel.0))
            .map_or(0, |slot| slot.missed)
    }

    /// Takes over the periods that `device` was told to sample with, and tells it the
    /// slots that passed. The grid of a channel starts again at `now` when its period
    /// has changed. For callers of [`Sampler::poll`]; [`Sampler::run`] does it itself.
    pub fn follow<const RING: usize, const C: usize>(
        &mut self,
        device: &mut Device<RING, C>,
        now: Tick,
    ) {
        for (channel, slot) in (0..).map(ChannelNo).zip(&mut self.slots) {
            let period_us = u64::from(device.period_us(channel));
            if slot.period_us != period_us && period_us > 0 {
                (slot.period_us, slot.due) = (period_us, now);
            }
        }
        device.on_missed(core::mem::take(&mut self.untold));
    }

    /// Reads every sensor that is due or done and hands the readings to `device`;
    /// sensor `i` is channel `i`. `clock` stamps each reading as it is taken or begun.
    /// Returns how many were read; at most one that was done and one that is due per
    /// channel, so a slow bus cannot keep the loop.
    pub fn run<const RING: usize, const C: usize>(
        &mut self,
        mut clock: impl FnMut() -> Tick,
        sensors: &mut [&mut dyn Sensor],
        device: &mut Device<RING, C>,
    ) -> usize {
        let now = clock();
        self.follow(device, now);
        let mut readings = 0;
        while let Some((channel, at)) = self.take_done(now) {
            hand_over(channel, at, read(sensors, channel), device);
            readings += 1;
        }
        for _ in 0..self.slots.len() {
            let Some(channel) = self.poll(now) else { break };
            if self.is_busy(channel) {
                self.miss(channel, 1);
                continue;
            }
            let tick = clock();
            let sensor = sensors.get_mut(usize::from(channel.0));
            let wait_us = sensor.map_or(0, |sensor| sensor.start(tick));
            if wait_us == 0 {
                hand_over(channel, tick, read(sensors, channel), device);
                readings += 1;
            } else if let Some(slot) = self.slots.get_mut(usize::from(channel.0)) {
                let done = Tick(tick.0 + u64::from(wait_us));
                slot.begun = Some(Begun { at: tick, done });
            }
        }
        readings
    }
}

fn read(sensors: &mut [&mut dyn Sensor], channel: ChannelNo) -> Result<i32, Quality> {
    match sensors.get_mut(usize::from(channel.0)) {
        Some(sensor) => sensor.read(),
        None => Err(Quality::Stale),
    }
}

fn hand_over<const RING: usize, const C: usize>(
    channel: ChannelNo,
    tick: Tick,
    value: Result<i32, Quality>,
    device: &mut Device<RING, C>,
) {
    // The sampler's channels are the device's, by the list both were built from.
    let known = device.on_sample(channel, tick, value);
    debug_assert!(known.is_ok(), "{known:?}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec as List;

    const A: ChannelNo = ChannelNo(0);
    const B: ChannelNo = ChannelNo(1);

    fn spec(quantity: &'static str, period_us: u32) -> ChannelSpec {
        ChannelSpec {
            quantity,
            unit: "",
            scale: 0,
            range: (i32::MIN, i32::MAX),
            period_us,
        }
    }

    #[test]
    fn a_grid_without_drift() {
        let mut sampler = Sampler::<2>::new(&[spec("a", 1_000), spec("b", 2_500)], Tick(100));
        let mut seen = List::new();
        for now in (0..6_000).step_by(7) {
            while let Some(channel) = sampler.poll(Tick(now)) {
                seen.push((channel, now / 100));
            }
        }
        let want = [
            (A, 1),
            (B, 1),
            (A, 11),
            (A, 21),
            (B, 26),
            (A, 31),
            (A, 41),
            (A, 51),
            (B, 51),
        ];
        assert_eq!(seen, want);
        assert_eq!((sampler.missed(A), sampler.missed(B)), (0, 0));
        assert_eq!(sampler.next_deadline(), Some(Tick(6_100)));
    }

    #[test]
    fn a_late_loop_skips_and_counts() {
        let mut sampler = Sampler::<1>::new(&[spec("a", 1_000)], Tick(0));
        for (name, now, due, missed, next) in [
            ("on time", 0, true, 0, 1_000),
            ("too early", 999, false, 0, 1_000),
            ("exactly due", 1_000, true, 0, 2_000),
            ("just before the next", 2_999, true, 0, 3_000),
            ("at the one after", 4_000, true, 1, 5_000),
            ("long after", 105_500, true, 101, 106_000),
        ] {
            assert_eq!(sampler.poll(Tick(now)).is_some(), due, "{name}");
            assert_eq!(
                (sampler.missed(A), sampler.next_deadline()),
                (missed, Some(Tick(next))),
                "{name}"
            );
        }
    }

    #[test]
    fn no_channels() {
        let mut sampler = Sampler::<0>::new(&[], Tick(0));
        assert_eq!(
            (sampler.poll(Tick(9)), sampler.next_deadline()),
            (None, None)
        );
    }
}
