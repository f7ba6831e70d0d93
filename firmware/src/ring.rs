//! The backlog's memory: N elements of twelve bytes, oldest overwritten when full.
//! An element is a reading or a marker for readings lost at that place, so a gap
//! keeps its place among the readings for free. Knows no ordinals.

use forebay_wire::ids::{ChannelNo, Tick};
use forebay_wire::message::{GapReason, Quality, Reading};
use heapless::Deque;

use crate::limits::ELEMENT_BYTES;

/// What an element means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slot {
    Reading(Reading),
    /// `count` readings that never got into the ring; the first at about `tick`.
    Lost {
        reason: GapReason,
        count: u32,
        tick: Tick,
    },
}

/// Packed: 56 bits of tick (2,284 years), five of channel or reason, three of
/// quality, 32 of value or count.
#[derive(Debug, Clone, Copy)]
struct Element {
    tick_low: u32,
    tick_middle: u16,
    tick_high: u8,
    head: u8,
    value: i32,
}

/// Quality bits of a marker; no quality has this number.
const LOST: u8 = 7;
const QUALITY_SHIFT: u32 = 5;
const CHANNEL_MASK: u8 = 0x1F;

const _: () = assert!(size_of::<Element>() == ELEMENT_BYTES);
const _: () = assert!(
    Quality::ALL.len() <= LOST as usize,
    "a quality would look like a marker"
);
const _: () = assert!(forebay_wire::limits::CHANNELS_MAX <= CHANNEL_MASK as usize + 1);

impl Element {
    fn pack(slot: Slot) -> Self {
        let (tick, head, value) = match slot {
            Slot::Reading(reading) => (
                reading.tick,
                (reading.quality as u8) << QUALITY_SHIFT | reading.channel.0 & CHANNEL_MASK,
                reading.value,
            ),
            Slot::Lost {
                reason,
                count,
                tick,
            } => (
                tick,
                LOST << QUALITY_SHIFT | reason as u8,
                count.cast_signed(),
            ),
        };
        let [t0, t1, t2, t3, t4, t5, t6, _] = tick.0.to_le_bytes();
        Element {
            tick_low: u32::from_le_bytes([t0, t1, t2, t3]),
            tick_middle: u16::from_le_bytes([t4, t5]),
            tick_high: t6,
            head,
            value,
        }
    }

    /// The reading, unless it is a marker: for the one loop in which each instruction
    /// counts.
    #[inline(always)]
    fn reading(self) -> Option<Reading> {
        let quality = Quality::from_byte(self.head >> QUALITY_SHIFT)?;
        let high = u32::from(self.tick_middle) | u32::from(self.tick_high) << 16;
        Some(Reading {
            channel: ChannelNo(self.head & CHANNEL_MASK),
            tick: Tick(u64::from(self.tick_low) | u64::from(high) << 32),
            value: self.value,
            quality,
        })
    }

    fn unpack(self) -> Slot {
        let tick = u64::from(self.tick_low)
            | u64::from(self.tick_middle) << 32
            | u64::from(self.tick_high) << 48;
        let (tick, low) = (Tick(tick), self.head & CHANNEL_MASK);
        match Quality::from_byte(self.head >> QUALITY_SHIFT) {
            Some(quality) => Slot::Reading(Reading {
                channel: ChannelNo(low),
                tick,
                value: self.value,
                quality,
            }),
            None => Slot::Lost {
                reason: GapReason::from_byte(low).expect("only pack writes elements"),
                count: self.value.cast_unsigned(),
                tick,
            },
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Ring<const N: usize> {
    elements: Deque<Element, N>,
}

impl<const N: usize> Ring<N> {
    pub(crate) const fn new() -> Self {
        const { assert!(N > 0, "a ring of no elements") };
        Ring {
            elements: Deque::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.elements.len()
    }

    /// Adds at the back; gives the oldest back when it had to go.
    pub(crate) fn push(&mut self, slot: Slot) -> Option<Slot> {
        let evicted = if self.elements.is_full() {
            self.pop_front()
        } else {
            None
        };
        let pushed = self.elements.push_back(Element::pack(slot));
        assert!(pushed.is_ok(), "room was made");
        evicted
    }

    pub(crate) fn pop_front(&mut self) -> Option<Slot> {
        self.elements.pop_front().map(Element::unpack)
    }

    /// Element `index` from the oldest.
    pub(crate) fn get(&self, index: usize) -> Option<Slot> {
        self.elements.get(index).copied().map(Element::unpack)
    }

    /// The elements from number `index` on, oldest first; none for a marker.
    pub(crate) fn readings_from(&self, index: usize) -> impl Iterator<Item = Option<Reading>> {
        let (older, newer) = self.elements.as_slices();
        let rest = newer
            .get(index.saturating_sub(older.len())..)
            .unwrap_or_default();
        let first = older.get(index..).unwrap_or_default();
        first.iter().chain(rest).map(|element| element.reading())
    }

    /// Puts `slot` in the place of element `index`, which must exist.
    pub(crate) fn replace(&mut self, index: usize, slot: Slot) {
        if let Some(element) = self.elements.get_mut(index) {
            *element = Element::pack(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    fn any_slot() -> impl Strategy<Value = Slot> {
        let tick = (0u64..1 << 56).prop_map(Tick);
        let reading = (
            0u8..32,
            tick.clone(),
            any::<i32>(),
            prop::sample::select(&Quality::ALL[..]),
        )
            .prop_map(|(channel, tick, value, quality)| {
                Slot::Reading(Reading {
                    channel: ChannelNo(channel),
                    tick,
                    value,
                    quality,
                })
            });
        let lost = (
            prop::sample::select(&GapReason::ALL[..]),
            any::<u32>(),
            tick,
        )
            .prop_map(|(reason, count, tick)| Slot::Lost {
                reason,
                count,
                tick,
            });
        prop_oneof![4 => reading, 1 => lost]
    }

    #[derive(Debug, Clone)]
    enum Step {
        Push(Slot),
        Pop,
        Replace(usize, Slot),
    }

    fn any_steps() -> impl Strategy<Value = std::vec::Vec<Step>> {
        let step = prop_oneof![
            6 => any_slot().prop_map(Step::Push),
            3 => Just(Step::Pop),
            1 => (0usize..70, any_slot()).prop_map(|(at, slot)| Step::Replace(at, slot)),
        ];
        prop::collection::vec(step, 0..150)
    }

    /// Beside a VecDeque, compared after every step.
    fn against_the_model<const N: usize>(steps: &[Step]) {
        let mut ring = Ring::<N>::new();
        let mut model = VecDeque::new();
        for step in steps {
            match step {
                Step::Push(slot) => {
                    let evicted = if model.len() == N {
                        model.pop_front()
                    } else {
                        None
                    };
                    model.push_back(*slot);
                    assert_eq!(ring.push(*slot), evicted);
                }
                Step::Pop => assert_eq!(ring.pop_front(), model.pop_front()),
                Step::Replace(at, slot) => {
                    ring.replace(*at, *slot);
                    if let Some(place) = model.get_mut(*at) {
                        *place = *slot;
                    }
                }
            }
            assert_eq!(ring.len(), model.len());
            for at in 0..=N {
                assert_eq!(ring.get(at), model.get(at).copied());
                let readings = model.iter().skip(at).map(|slot| match slot {
                    Slot::Reading(reading) => Some(*reading),
                    Slot::Lost { .. } => None,
                });
                assert!(ring.readings_from(at).eq(readings));
            }
        }
    }

    proptest! {
        #[test]
        fn as_a_deque(steps in any_steps()) {
            against_the_model::<1>(&steps);
            against_the_model::<3>(&steps);
            against_the_model::<5>(&steps);
            against_the_model::<64>(&steps);
        }
    }
}
