//! What was applied of one device, boot by boot: readings, gaps by reason, and up to
//! which ordinal anything came. An ordinal below that of which neither is known is
//! missing: so the sums close here as they do on the device and on its gateway.
//! Byte table: `agent/core/docs/upstream.md`.
//!
//! Always holds: a boot that is folded away stays in the sums. Bound:
//! [`BOOTS_PER_DEVICE_MAX`] boots, those that were heard of last; so many are a value
//! that the sink takes. Knows no gateway.

use forebay_wire::ids::{BootId, Ordinal};

use crate::ledger::GAP_REASONS;
use crate::limits::{BOOTS_PER_DEVICE_MAX, STORE_VALUE_BYTES_MAX};
use crate::log::bytes::{Malformed, Reader, put_varint};
use crate::record::GapReason;

/// Version of the byte table.
const VERSION: u8 = 1;
/// Longest tally: a varint has ten bytes at most.
const TALLY_BYTES_MAX: usize = 10 * (2 + GAP_REASONS);
const BOOT_BYTES_MAX: usize = 4 + 10 + TALLY_BYTES_MAX;
const DEVICE_BYTES_MAX: usize = 3 + TALLY_BYTES_MAX + BOOTS_PER_DEVICE_MAX * BOOT_BYTES_MAX;
const _: () = assert!(DEVICE_BYTES_MAX <= STORE_VALUE_BYTES_MAX);
const _: () = assert!(BOOTS_PER_DEVICE_MAX <= u8::MAX as usize);
const _: () = assert!(GAP_REASONS <= u8::MAX as usize);

/// What is known of the ordinals of one boot, or of several together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Ordinals that the device gave out, as far as anything here shows.
    pub produced: u64,
    /// Readings applied.
    pub readings: u64,
    /// Readings that will never come, by [`GapReason`].
    pub gaps: [u64; GAP_REASONS],
}

impl Tally {
    /// Ordinals in gaps.
    #[must_use]
    pub fn gap_total(&self) -> u64 {
        let add = |sum: u64, gap: &u64| sum.saturating_add(*gap);
        self.gaps.iter().fold(0, add)
    }

    fn counted(&self) -> u64 {
        self.readings.saturating_add(self.gap_total())
    }

    /// Ordinals of which nothing came, below one of which something did.
    #[must_use]
    pub fn missing(&self) -> u64 {
        self.produced.saturating_sub(self.counted())
    }

    /// Ordinals that came under two identities, as from a log that was restored.
    #[must_use]
    pub fn twice(&self) -> u64 {
        self.counted().saturating_sub(self.produced)
    }

    /// Whether each ordinal is one reading or part of one gap.
    #[must_use]
    pub fn closes(&self) -> bool {
        self.counted() == self.produced
    }

    /// Adds another tally to this one.
    pub fn add(&mut self, other: &Self) {
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut self.produced, other.produced);
        add(&mut self.readings, other.readings);
        for (sum, more) in self.gaps.iter_mut().zip(other.gaps) {
            add(sum, more);
        }
    }

    pub(super) fn take_readings(&mut self, count: u64) {
        self.readings = self.readings.saturating_add(count);
    }

    pub(super) fn take_gap(&mut self, reason: GapReason, count: u64) {
        let sum = &mut self.gaps[reason as usize];
        *sum = sum.saturating_add(count);
    }

    pub(super) fn push(&self, out: &mut Vec<u8>) {
        put_varint(out, self.produced);
        put_varint(out, self.readings);
        self.gaps.iter().for_each(|gap| put_varint(out, *gap));
    }

    pub(super) fn read(reader: &mut Reader<'_>, reasons: u8) -> Result<Self, Malformed> {
        let mut out = Self {
            produced: reader.varint()?,
            readings: reader.varint()?,
            ..Self::default()
        };
        if usize::from(reasons) > GAP_REASONS {
            return Err(reader.malformed());
        }
        for gap in &mut out.gaps[..usize::from(reasons)] {
            *gap = reader.varint()?;
        }
        Ok(out)
    }
}

/// One boot of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BootTally {
    pub boot: BootId,
    /// First ordinal that is looked for: 0, unless the sink is older than its ledger.
    pub from: Ordinal,
    pub tally: Tally,
}

impl BootTally {
    /// Ordinals from `first` on, `count` of them, exist.
    fn reach(&mut self, first: Ordinal, count: u64) {
        let end = self.from.0.saturating_add(self.tally.produced);
        let end = end.max(first.0.saturating_add(count));
        self.from = self.from.min(first);
        self.tally.produced = end - self.from.0;
    }
}

/// All that was applied of one device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceTally {
    /// The one that was heard of last stands last.
    boots: Vec<BootTally>,
    /// Boots that were folded away.
    folded: Tally,
}

impl DeviceTally {
    /// Boots that are told apart, that heard of last at the end.
    #[must_use]
    pub fn boots(&self) -> &[BootTally] {
        &self.boots
    }

    /// Sum over all boots.
    #[must_use]
    pub fn total(&self) -> Tally {
        let mut sum = self.folded;
        self.boots.iter().for_each(|boot| sum.add(&boot.tally));
        sum
    }

    /// Takes a reading. A boot that is new counts from `from` on.
    pub fn take_reading(&mut self, (boot, from): (BootId, Ordinal), ordinal: Ordinal) {
        self.take_readings((boot, from), (ordinal, ordinal), 1);
    }

    /// Takes `count` readings, of which `first` and `last` are the lowest and highest
    /// ordinal. A boot that is new counts from `from` on.
    pub fn take_readings(
        &mut self,
        (boot, from): (BootId, Ordinal),
        (first, last): (Ordinal, Ordinal),
        count: u64,
    ) {
        let known = self.boot(boot, from);
        known.tally.take_readings(count);
        known.reach(first, (last.0 - first.0).saturating_add(1));
    }

    /// Takes a gap of `count` ordinals from `first` on. A boot that is new counts from
    /// `from` on.
    pub fn take_gap(
        &mut self,
        (boot, from): (BootId, Ordinal),
        reason: GapReason,
        (first, count): (Ordinal, u64),
    ) {
        let known = self.boot(boot, from);
        known.tally.take_gap(reason, count);
        known.reach(first, count);
    }

    /// The tally of `boot`, made when it is new.
    fn boot(&mut self, boot: BootId, from: Ordinal) -> &mut BootTally {
        let known = self.boots.iter().rposition(|known| known.boot == boot);
        match known {
            // The boot that runs, nearly always: nothing moves.
            Some(at) => self.boots[at..].rotate_left(1),
            None => {
                if self.boots.len() >= BOOTS_PER_DEVICE_MAX {
                    let oldest = self.boots.remove(0);
                    self.folded.add(&oldest.tally);
                }
                let tally = Tally::default();
                self.boots.push(BootTally { boot, from, tally });
            }
        }
        self.boots.last_mut().expect("it was put there just now")
    }

    /// As kept in the sink.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let small = |n: usize| u8::try_from(n).expect("asserted above: both are below 256");
        let mut out = vec![VERSION, small(GAP_REASONS), small(self.boots.len())];
        self.folded.push(&mut out);
        for BootTally { boot, from, tally } in &self.boots {
            out.extend_from_slice(&boot.0.to_be_bytes());
            put_varint(&mut out, from.0);
            tally.push(&mut out);
        }
        out
    }

    /// `None` when the bytes are of no version.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let [version, reasons, boots] = reader.array().ok()?;
        if version != VERSION || usize::from(boots) > BOOTS_PER_DEVICE_MAX {
            return None;
        }
        let mut out = Self {
            folded: Tally::read(&mut reader, reasons).ok()?,
            ..Self::default()
        };
        for _ in 0..boots {
            let read = BootTally {
                boot: BootId(u32::from_be_bytes(reader.array().ok()?)),
                from: Ordinal(reader.varint().ok()?),
                tally: Tally::read(&mut reader, reasons).ok()?,
            };
            if out.boots.iter().any(|known| known.boot == read.boot) {
                return None;
            }
            out.boots.push(read);
        }
        reader.is_at_end().then_some(out)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tally(produced: u64, readings: u64, ring_full: u64) -> Tally {
        Tally {
            produced,
            readings,
            gaps: [ring_full, 0, 0, 0, 0],
        }
    }

    fn at(boot: u32) -> (BootId, Ordinal) {
        (BootId(boot), Ordinal(0))
    }

    #[test]
    fn sums_close_or_say_by_how_much_not() {
        for (name, is, missing, twice) in [
            ("nothing", tally(0, 0, 0), 0, 0),
            ("closes", tally(10, 7, 3), 0, 0),
            ("one missing", tally(10, 7, 2), 1, 0),
            ("one twice", tally(10, 8, 3), 0, 1),
            ("beyond all numbers", tally(u64::MAX, u64::MAX, 3), 0, 0),
        ] {
            assert_eq!((is.missing(), is.twice()), (missing, twice), "{name}");
            assert_eq!(is.closes(), missing + twice == 0, "{name}");
        }
    }

    #[test]
    fn ordinals_come_in_any_order_and_what_lies_between_is_missing() {
        let mut device = DeviceTally::default();
        let boot = (BootId(7), Ordinal(0));
        device.take_reading(boot, Ordinal(9));
        assert_eq!(device.total().missing(), 9);
        device.take_gap(boot, GapReason::PowerLoss, (Ordinal(0), 8));
        device.take_reading(boot, Ordinal(8));
        let total = device.total();
        assert!(total.closes());
        assert_eq!((total.produced, total.readings, total.gaps[3]), (10, 2, 8));
        device.take_gap(boot, GapReason::RingFull, (Ordinal(u64::MAX), u64::MAX));
        assert_eq!(device.total().produced, u64::MAX);
    }

    #[test]
    fn a_boot_that_was_met_in_its_middle_counts_from_there() {
        let mut device = DeviceTally::default();
        let boot = |from| (BootId(7), Ordinal(from));
        device.take_reading(boot(100), Ordinal(100));
        device.take_reading(boot(102), Ordinal(102));
        assert_eq!((device.total().produced, device.total().missing()), (3, 1));
        // One before it comes late.
        device.take_reading(boot(98), Ordinal(98));
        assert_eq!((device.total().produced, device.total().missing()), (5, 2));
        assert_eq!(device.boots()[0].from, Ordinal(98));
    }

    #[test]
    fn boots_at_their_limit_fold_the_one_that_is_silent_longest() {
        let mut device = DeviceTally::default();
        let most = u32::try_from(BOOTS_PER_DEVICE_MAX).expect("a small number");
        for boot in 0..most {
            device.take_reading(at(boot), Ordinal(1));
        }
        // The first is still heard of: the second goes.
        device.take_reading(at(0), Ordinal(0));
        assert_eq!(device.boots().len(), BOOTS_PER_DEVICE_MAX);
        let before = device.total();
        device.take_reading(at(most), Ordinal(0));
        assert_eq!(device.boots().len(), BOOTS_PER_DEVICE_MAX);
        let boots: Vec<u32> = device.boots().iter().map(|known| known.boot.0).collect();
        assert_eq!(boots[0], 2);
        assert_eq!(boots[BOOTS_PER_DEVICE_MAX - 2..], [0, most]);
        let total = device.total();
        assert_eq!(total.readings, before.readings + 1);
        assert_eq!(total.missing(), before.missing());
    }

    /// The byte table, as kept by version 1.
    #[test]
    fn golden_bytes() {
        let mut device = DeviceTally::default();
        device.take_reading(at(0x0102_0304), Ordinal(299));
        device.take_gap(at(0x0102_0304), GapReason::LogFull, (Ordinal(0), 5));
        let bytes = device.to_bytes();
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(text, "010501000000000000000102030400ac02010000000005");
        assert_eq!(DeviceTally::from_bytes(&bytes), Some(device));
    }

    #[test]
    fn fewer_reasons_read_and_more_do_not() {
        let older = [VERSION, 2, 0, 10, 4, 5, 1];
        let read = DeviceTally::from_bytes(&older).expect("written with two reasons");
        assert_eq!(read.total().gaps, [5, 1, 0, 0, 0]);
        assert!(read.total().closes());
        let newer = [VERSION, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(DeviceTally::from_bytes(&newer), None);
    }

    proptest! {
        #[test]
        fn what_is_kept_reads_back(steps in prop::collection::vec((0..40u32, 0..50u64, any::<bool>()), 0..120)) {
            let mut device = DeviceTally::default();
            for (boot, ordinal, gap) in steps {
                let (boot, ordinal) = ((BootId(boot), Ordinal(boot.into())), Ordinal(ordinal));
                if gap {
                    device.take_gap(boot, GapReason::IsrFull, (ordinal, 3));
                } else {
                    device.take_reading(boot, ordinal);
                }
            }
            let bytes = device.to_bytes();
            prop_assert!(bytes.len() <= STORE_VALUE_BYTES_MAX);
            prop_assert_eq!(DeviceTally::from_bytes(&bytes), Some(device));
            for cut in 0..bytes.len() {
                prop_assert_eq!(DeviceTally::from_bytes(&bytes[..cut]), None);
            }
        }

        #[test]
        fn bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..90)) {
            let _ = DeviceTally::from_bytes(&bytes);
        }
    }
}
