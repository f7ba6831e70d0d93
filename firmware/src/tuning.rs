//! How each channel is sampled now, and what its last reading was: period and
//! threshold as a command or config set them, readings held back, faults counted.
//!
//! Bound: `CHANNELS` channels. All zero bits at start. Knows no frames.

use forebay_wire::Settings;
use forebay_wire::ids::ChannelNo;
use forebay_wire::limits::{ERRORS_MAX, PERIOD_US_MAX, PERIOD_US_MIN};
use forebay_wire::message::Quality;

use crate::limits::SUPPRESSED_MAX;

#[derive(Debug, Clone, Copy)]
struct Channel {
    /// 0: as built.
    period_us: u32,
    threshold: u32,
    /// Of the last reading that was produced.
    value: i32,
    quality: Quality,
    /// There was one.
    seen: bool,
    /// Samples held back since then.
    held: u8,
    errors: u16,
}

const AS_BUILT: Channel = Channel {
    period_us: 0,
    threshold: 0,
    value: 0,
    quality: Quality::Ok,
    seen: false,
    held: 0,
    errors: 0,
};

/// See the module.
#[derive(Debug)]
pub(crate) struct Tuning<const CHANNELS: usize> {
    channels: [Channel; CHANNELS],
    suppressed: u64,
}

impl<const CHANNELS: usize> Tuning<CHANNELS> {
    pub(crate) const fn new() -> Self {
        Tuning {
            channels: [AS_BUILT; CHANNELS],
            suppressed: 0,
        }
    }

    /// Whether a sample becomes a reading; else it is counted as suppressed.
    pub(crate) fn admit(&mut self, channel: ChannelNo, value: i32, quality: Quality) -> bool {
        let Some(last) = self.channels.get_mut(usize::from(channel.0)) else {
            return true;
        };
        let still = last.seen
            && last.quality == quality
            && value.abs_diff(last.value) < last.threshold
            && last.held < SUPPRESSED_MAX;
        if still {
            last.held += 1;
            self.suppressed += 1;
            return false;
        }
        (last.value, last.quality, last.seen, last.held) = (value, quality, true, 0);
        if quality != Quality::Ok && last.errors < ERRORS_MAX {
            last.errors += 1;
        }
        true
    }

    /// Samples held back.
    pub(crate) fn suppressed(&self) -> u64 {
        self.suppressed
    }

    /// Readings without a value.
    pub(crate) fn errors(&self, channel: usize) -> u16 {
        self.channels
            .get(channel)
            .map_or(0, |channel| channel.errors)
    }

    /// The period that was set; 0: as built.
    pub(crate) fn period_us(&self, channel: ChannelNo) -> u32 {
        let channel = self.channels.get(usize::from(channel.0));
        channel.map_or(0, |channel| channel.period_us)
    }

    /// False when it is out of range.
    pub(crate) fn set_period(&mut self, channel: ChannelNo, period_us: u32) -> bool {
        match self.channels.get_mut(usize::from(channel.0)) {
            Some(channel) if (PERIOD_US_MIN..=PERIOD_US_MAX).contains(&period_us) => {
                channel.period_us = period_us;
                true
            }
            Some(_) | None => false,
        }
    }

    pub(crate) fn set_threshold(&mut self, channel: ChannelNo, threshold: u32) {
        if let Some(channel) = self.channels.get_mut(usize::from(channel.0)) {
            channel.threshold = threshold;
        }
    }

    /// Sets every channel: one that `settings` does not name is as built. Returns
    /// the channels whose period may have changed, as a bit set.
    pub(crate) fn apply(&mut self, settings: &Settings) -> u32 {
        let mut changed = 0;
        let mut entries = settings.entries.iter().peekable();
        for (number, channel) in (0u8..).zip(&mut self.channels) {
            let entry = entries.next_if(|entry| entry.channel.0 == number);
            let (period_us, threshold) =
                entry.map_or((0, 0), |entry| (entry.period_us, entry.threshold));
            if channel.period_us != period_us {
                changed |= 1 << number;
            }
            (channel.period_us, channel.threshold) = (period_us, threshold);
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_wire::ChannelSetting;

    const A: ChannelNo = ChannelNo(0);

    #[test]
    fn small_changes_are_held_back() {
        let mut tuning = Tuning::<1>::new();
        tuning.set_threshold(A, 10);
        for (name, value, quality, admitted) in [
            ("the first", 100, Quality::Ok, true),
            ("the same", 100, Quality::Ok, false),
            ("one under", 109, Quality::Ok, false),
            ("one under, down", 91, Quality::Ok, false),
            ("at the threshold", 110, Quality::Ok, true),
            ("measured from there", 101, Quality::Ok, false),
            ("at it, down", 100, Quality::Ok, true),
            ("a fault", 0, Quality::BusError, true),
            ("the same fault", 0, Quality::BusError, false),
            ("another fault", 0, Quality::Stale, true),
            ("well again", 100, Quality::Ok, true),
            ("far away", i32::MIN, Quality::Ok, true),
            ("as far as can be", i32::MAX, Quality::Ok, true),
        ] {
            assert_eq!(tuning.admit(A, value, quality), admitted, "{name}");
        }
        assert_eq!((tuning.suppressed(), tuning.errors(0)), (5, 2));
        tuning.set_threshold(A, 0);
        assert!(tuning.admit(A, i32::MAX, Quality::Ok), "every sample");
    }

    #[test]
    fn one_in_so_many_is_produced_anyway() {
        let mut tuning = Tuning::<1>::new();
        tuning.set_threshold(A, u32::MAX);
        assert!(tuning.admit(A, 5, Quality::Ok));
        for round in 1..=3u64 {
            for held in 1..=SUPPRESSED_MAX {
                assert!(!tuning.admit(A, 5, Quality::Ok), "number {held}");
            }
            assert!(tuning.admit(A, 5, Quality::Ok), "round {round}");
            assert_eq!(tuning.suppressed(), round * u64::from(SUPPRESSED_MAX));
        }
    }

    #[test]
    fn errors_stay_at_their_limit() {
        let mut tuning = Tuning::<1>::new();
        for count in 1..=u32::from(ERRORS_MAX) + 2 {
            assert!(tuning.admit(A, 0, Quality::CrcError));
            let want = count.min(ERRORS_MAX.into());
            assert_eq!(u32::from(tuning.errors(0)), want);
        }
    }

    #[test]
    fn periods_around_their_limits() {
        let mut tuning = Tuning::<1>::new();
        for (name, channel, period_us, ok) in [
            ("zero", 0, 0, false),
            ("under", 0, PERIOD_US_MIN - 1, false),
            ("shortest", 0, PERIOD_US_MIN, true),
            ("longest", 0, PERIOD_US_MAX, true),
            ("over", 0, PERIOD_US_MAX + 1, false),
            ("no such channel", 1, PERIOD_US_MIN, false),
        ] {
            assert_eq!(
                tuning.set_period(ChannelNo(channel), period_us),
                ok,
                "{name}"
            );
        }
        assert_eq!(
            tuning.period_us(A),
            PERIOD_US_MAX,
            "the last that was right"
        );
    }

    #[test]
    fn a_config_sets_every_channel() {
        let mut tuning = Tuning::<3>::new();
        assert!(tuning.set_period(A, 5_000));
        tuning.set_threshold(A, 9);
        let mut settings = Settings::default();
        for (channel, period_us) in [(1, 2_000), (2, 0)] {
            let channel = ChannelNo(channel);
            let entry = ChannelSetting {
                channel,
                period_us,
                threshold: 4,
            };
            settings.entries.push(entry).unwrap();
        }
        assert_eq!(tuning.apply(&settings), 0b011, "the third stays as built");
        assert_eq!(
            [0, 1, 2].map(|n| tuning.period_us(ChannelNo(n))),
            [0, 2_000, 0]
        );
        assert_eq!(tuning.channels.map(|channel| channel.threshold), [0, 4, 4]);
        assert_eq!(tuning.apply(&settings), 0);
    }
}
