//! Judges whether a serial line runs at the device's rate: at a wrong one bytes
//! come in, but never a frame. Looks into the bytes only until the first frame
//! is whole; after that it costs nothing. Knows no clock.

use forebay_core::units::Mono;
use forebay_wire::Deframer;

use super::limits::{GARBLED_AFTER, GARBLED_BYTES_MIN};

/// Hears what comes in from the opening of a line on.
#[derive(Debug)]
pub(super) struct RateJudge {
    /// None: judged, one way or the other.
    listening: Option<Box<Listening>>,
}

#[derive(Debug)]
struct Listening {
    deframer: Deframer,
    first: Option<Mono>,
    bytes: usize,
}

impl RateJudge {
    pub(super) fn new() -> Self {
        let listening = Listening {
            deframer: Deframer::new(),
            first: None,
            bytes: 0,
        };
        Self {
            listening: Some(Box::new(listening)),
        }
    }

    /// When [`Self::hear`] wants to be told that no more came in; a device that is not
    /// understood says little.
    pub(super) fn deadline(&self) -> Option<Mono> {
        let listening = self.listening.as_ref()?;
        let enough = listening.bytes >= GARBLED_BYTES_MIN;
        let first = listening.first.filter(|_| enough)?;
        Some(Mono(first.0 + GARBLED_AFTER.as_micros() as u64))
    }

    /// How many bytes came in without a frame in them, if that is the verdict;
    /// it is given once.
    pub(super) fn hear(&mut self, bytes: &[u8], now: Mono) -> Option<usize> {
        let listening = self.listening.as_mut()?;
        if bytes.is_empty() && listening.first.is_none() {
            return None;
        }
        listening.bytes += bytes.len();
        let first = *listening.first.get_or_insert(now);
        let mut good = false;
        listening
            .deframer
            .push_slice(bytes, |frame| good |= frame.is_ok());
        if good {
            self.listening = None;
            return None;
        }
        let waited_us = u128::from(now.0.saturating_sub(first.0));
        if waited_us < GARBLED_AFTER.as_micros() || listening.bytes < GARBLED_BYTES_MIN {
            return None;
        }
        let bytes = listening.bytes;
        self.listening = None;
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_wire::frame::encode_raw;

    const AFTER_US: u64 = GARBLED_AFTER.as_micros() as u64;

    fn frame() -> Vec<u8> {
        let mut line = [0; 64];
        let bytes = encode_raw(&mut line, 0x11, b"any body").unwrap();
        line[..bytes].to_vec()
    }

    #[test]
    fn garbled_around_both_limits() {
        let enough = GARBLED_BYTES_MIN;
        for (name, bytes, at_us, want) in [
            ("time limit-1", enough, AFTER_US - 1, None),
            ("time limit", enough, AFTER_US, Some(enough)),
            ("time limit+1", enough, AFTER_US + 1, Some(enough)),
            ("bytes limit-1", enough - 1, AFTER_US, None),
            ("bytes limit+1", enough + 1, AFTER_US, Some(enough + 1)),
        ] {
            let mut judge = RateJudge::new();
            assert_eq!(judge.hear(&[0xA5], Mono(7)), None, "{name}");
            let rest = vec![0xA5; bytes - 1];
            assert_eq!(judge.hear(&rest, Mono(7 + at_us)), want, "{name}");
        }
    }

    #[test]
    fn the_verdict_comes_without_more_bytes() {
        let mut judge = RateJudge::new();
        assert_eq!(judge.hear(&[], Mono(1)), None, "nothing is no beginning");
        for (name, bytes, want) in [
            ("limit-1", GARBLED_BYTES_MIN - 1, None),
            ("limit", 1, Some(Mono(5 + AFTER_US))),
            ("limit+1", 1, Some(Mono(5 + AFTER_US))),
        ] {
            assert_eq!(judge.hear(&vec![0xA5; bytes], Mono(5)), None, "{name}");
            assert_eq!(judge.deadline(), want, "{name}");
        }
        let told = judge.hear(&[], Mono(5 + AFTER_US));
        assert_eq!(told, Some(GARBLED_BYTES_MIN + 1));
        assert_eq!(judge.deadline(), None, "given once");
    }

    #[test]
    fn one_whole_frame_settles_it_for_good() {
        let mut judge = RateJudge::new();
        assert_eq!(judge.hear(&[0xFF, 0, 0x13], Mono(0)), None);
        assert_eq!(judge.hear(&[0], Mono(1)), None);
        assert_eq!(judge.hear(&frame(), Mono(2)), None);
        assert_eq!(judge.hear(&[0xA5; 4096], Mono(10 * AFTER_US)), None);
    }

    #[test]
    fn the_verdict_is_given_once() {
        let mut judge = RateJudge::new();
        assert_eq!(judge.hear(&[1; 4096], Mono(0)), None);
        assert!(judge.hear(&[1; 4096], Mono(AFTER_US)).is_some());
        assert_eq!(judge.hear(&[1; 4096], Mono(2 * AFTER_US)), None);
    }
}
