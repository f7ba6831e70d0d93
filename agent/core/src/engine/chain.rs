//! What a window over another operator's windows holds: one part per inner window, so
//! that a revision of the inner one replaces its part. Figures are made of the parts
//! when they are written. Memory: the inner windows inside the outer ones that can
//! still change. Knows no time but that of the parts.

use std::collections::BTreeMap;

use crate::engine::figures::{Figures, Wants};
use crate::engine::kernel::Fed;
use crate::engine::route::Slot;
use crate::engine::state;
use crate::engine::value::is_null;
use crate::log::bytes::{Malformed, Reader, put_varint, put_zigzag};

/// An inner window: its slot, and its start.
pub(super) type PartId = (Slot, i64);

/// What the inner window said last.
#[derive(Debug, Clone)]
struct Part {
    time: i64,
    value: f64,
    /// All it was made of, where inner windows are merged.
    figures: Option<Box<Figures>>,
}

/// Parts of all windows of an operator, by slot and start of the outer window, or of
/// its pane.
#[derive(Debug, Default)]
pub(super) struct Parts {
    of: BTreeMap<(Slot, i64), BTreeMap<PartId, Part>>,
}

impl Parts {
    /// Puts an inner window's row in the place of the one before. Of what it was made of
    /// only that is kept which is wanted here.
    pub(super) fn put(&mut self, window: (Slot, i64), fed: &Fed<'_>, wants: Wants) {
        let Some(id) = fed.part else {
            return;
        };
        if fed.is_gone {
            if let Some(parts) = self.of.get_mut(&window) {
                parts.remove(&id);
            }
            return;
        }
        let part = Part {
            time: fed.given.time,
            value: fed.given.value,
            figures: fed.figures.map(|inner| {
                let mut figures = Figures::new(wants);
                figures.merge(inner);
                Box::new(figures)
            }),
        };
        self.of.entry(window).or_default().insert(id, part);
    }

    /// Adds what the inner windows said to the figures of a window that takes readings
    /// beside them.
    pub(super) fn add_to(&self, figures: &mut Figures, window: (Slot, i64)) {
        let Some(parts) = self.of.get(&window) else {
            return;
        };
        let mut parts: Vec<(&PartId, &Part)> = parts.iter().collect();
        parts.sort_by_key(|(id, part)| (part.time, **id));
        for (_, part) in parts {
            match &part.figures {
                Some(inner) => figures.merge(inner),
                None if is_null(part.value) => {}
                None => figures.add(part.time, part.value),
            }
        }
    }

    /// Takes an inner window out of all windows of a slot but one: the start of the one
    /// that it was in.
    pub(super) fn take_out(&mut self, (slot, but): (Slot, i64), id: PartId) -> Option<i64> {
        let mut of_slot = self.of.range_mut((slot, i64::MIN)..=(slot, i64::MAX));
        of_slot.find_map(|((_, start), parts)| {
            (*start != but && parts.remove(&id).is_some()).then_some(*start)
        })
    }

    pub(super) fn is_empty(&self, window: (Slot, i64)) -> bool {
        self.of.get(&window).is_none_or(BTreeMap::is_empty)
    }

    /// Gives the parts of a window to another one, which it has become a piece of.
    pub(super) fn rename(&mut self, from: (Slot, i64), to: (Slot, i64)) {
        if let Some(parts) = self.of.remove(&from) {
            self.of.entry(to).or_default().extend(parts);
        }
    }

    pub(super) fn forget(&mut self, window: (Slot, i64)) {
        self.of.remove(&window);
    }

    /// Appends the parts of a slot.
    pub(super) fn encode(&self, slot: Slot, out: &mut Vec<u8>) {
        let of_slot = || self.of.range((slot, i64::MIN)..=(slot, i64::MAX));
        state::put_len(out, of_slot().count());
        for ((_, start), parts) in of_slot() {
            put_zigzag(out, *start);
            state::put_len(out, parts.len());
            for ((from, start), part) in parts {
                put_varint(out, (*from).into());
                put_zigzag(out, *start);
                put_zigzag(out, part.time);
                state::put_f64(out, part.value);
                state::put_bool(out, part.figures.is_some());
                if let Some(figures) = &part.figures {
                    figures.encode(out);
                }
            }
        }
    }

    pub(super) fn decode(
        &mut self,
        slot: Slot,
        wants: Wants,
        from: &mut Reader<'_>,
    ) -> Result<(), Malformed> {
        for _ in 0..state::len(from)? {
            let window = (slot, from.zigzag()?);
            let parts = self.of.entry(window).or_default();
            for _ in 0..state::len(from)? {
                let id = (state::u32(from)?, from.zigzag()?);
                let (time, value) = (from.zigzag()?, state::f64(from)?);
                let figures = if state::bool(from)? {
                    Some(Box::new(Figures::decode(from, wants)?))
                } else {
                    None
                };
                let part = Part {
                    time,
                    value,
                    figures,
                };
                parts.insert(id, part);
            }
        }
        Ok(())
    }
}
