//! Cuts a byte stream into frames. Owns one line of memory; a run of bytes that
//! is longer than any line is thrown away up to its delimiter, so the tail of an
//! over-long frame can never pass for a frame. After any damage the next frame
//! that starts behind a delimiter decodes.
//!
//! Invariant: every non-empty run between delimiters ends in exactly one counter.
//! Knows neither who sends nor when.

use crate::codec::{DecodeError, DeviceMessage, GatewayMessage};
use crate::frame::{self, DELIMITER, Frame, FrameError};
use crate::limits::LINE_BYTES_MAX;

/// A line without its delimiter.
const BLOCK_BYTES_MAX: usize = LINE_BYTES_MAX - 1;

/// What became of the frames. Empty ones (lone delimiters) are not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// CRC right, and no [`DecodeError`] noted for it.
    pub ok: u64,
    pub crc_bad: u64,
    pub cobs_bad: u64,
    pub overlong: u64,
    /// Of another version, of an unknown kind, or of the wrong direction (an echo).
    pub unknown_kind: u64,
    pub body_bad: u64,
}

impl Counters {
    /// All frames seen.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.ok + self.bad()
    }

    /// Frames that gave no message.
    #[must_use]
    pub fn bad(&self) -> u64 {
        self.crc_bad + self.cobs_bad + self.overlong + self.unknown_kind + self.body_bad
    }

    /// Moves the frame just counted as ok to the counter of what its decoding
    /// found. For callers of [`Deframer::push`] and [`Deframer::push_slice`];
    /// [`Deframer::receive_device`] and its sibling do it themselves.
    pub fn note(&mut self, error: &DecodeError) {
        self.ok = self.ok.saturating_sub(1);
        match error {
            DecodeError::Version { .. }
            | DecodeError::UnknownKind { .. }
            | DecodeError::WrongDirection { .. } => {
                self.unknown_kind += 1;
            }
            DecodeError::Body { .. } => self.body_bad += 1,
        }
    }

    fn count(&mut self, result: &Result<Frame<'_>, FrameError>) {
        match result {
            Ok(_) => self.ok += 1,
            Err(FrameError::Cobs { .. }) => self.cobs_bad += 1,
            Err(FrameError::Crc { .. }) => self.crc_bad += 1,
            Err(FrameError::Overlong { .. }) => self.overlong += 1,
        }
    }
}

/// Why bytes gave no message: the line's fault or the sender's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejected {
    Frame(FrameError),
    Message(DecodeError),
}

impl core::fmt::Display for Rejected {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Rejected::Frame(error) => error.fmt(f),
            Rejected::Message(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for Rejected {}

/// See the module.
#[derive(Debug, Clone)]
pub struct Deframer {
    block: [u8; BLOCK_BYTES_MAX],
    /// Bytes since the last delimiter; more than the block holds: discarding.
    seen: usize,
    counters: Counters,
}

impl Default for Deframer {
    fn default() -> Self {
        Self::new()
    }
}

impl Deframer {
    #[must_use]
    pub const fn new() -> Self {
        let counters = Counters {
            ok: 0,
            crc_bad: 0,
            cobs_bad: 0,
            overlong: 0,
            unknown_kind: 0,
            body_bad: 0,
        };
        Deframer {
            block: [0; BLOCK_BYTES_MAX],
            seen: 0,
            counters,
        }
    }

    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// For [`Counters::note`].
    pub fn counters_mut(&mut self) -> &mut Counters {
        &mut self.counters
    }

    /// Forgets a half-received frame, as after a reopened port. Counters stay.
    pub fn reset(&mut self) {
        self.seen = 0;
    }

    /// Takes one byte; at a delimiter says what stood before it.
    pub fn push(&mut self, byte: u8) -> Option<Result<Frame<'_>, FrameError>> {
        if byte != DELIMITER {
            if let Some(slot) = self.block.get_mut(self.seen) {
                *slot = byte;
            }
            self.seen = self.seen.saturating_add(1);
            return None;
        }
        let seen = core::mem::take(&mut self.seen);
        if seen == 0 {
            return None;
        }
        let result = match self.block.get_mut(..seen) {
            Some(block) => frame::open(block),
            None => Err(FrameError::Overlong { bytes: seen }),
        };
        self.counters.count(&result);
        Some(result)
    }

    /// Takes many bytes and calls `each` for every frame in them.
    pub fn push_slice(
        &mut self,
        bytes: &[u8],
        mut each: impl FnMut(Result<Frame<'_>, FrameError>),
    ) {
        for byte in bytes {
            if let Some(result) = self.push(*byte) {
                each(result);
            }
        }
    }

    /// The gateway's ear: every message of a device in `bytes`, decoded and counted.
    pub fn receive_device(
        &mut self,
        bytes: &[u8],
        mut each: impl FnMut(Result<DeviceMessage<'_>, Rejected>),
    ) {
        let mut noted = Counters::default();
        for byte in bytes {
            let message = match self.push(*byte) {
                None => continue,
                Some(Err(error)) => Err(Rejected::Frame(error)),
                Some(Ok(frame)) => DeviceMessage::decode(frame).map_err(Rejected::Message),
            };
            if let Err(Rejected::Message(error)) = &message {
                noted.note(error);
            }
            each(message);
        }
        self.merge_noted(&noted);
    }

    /// The device's ear: every message of the gateway in `bytes`, decoded and counted.
    pub fn receive_gateway(
        &mut self,
        bytes: &[u8],
        mut each: impl FnMut(Result<GatewayMessage<'_>, Rejected>),
    ) {
        let mut noted = Counters::default();
        for byte in bytes {
            let message = match self.push(*byte) {
                None => continue,
                Some(Err(error)) => Err(Rejected::Frame(error)),
                Some(Ok(frame)) => GatewayMessage::decode(frame).map_err(Rejected::Message),
            };
            if let Err(Rejected::Message(error)) = &message {
                noted.note(error);
            }
            each(message);
        }
        self.merge_noted(&noted);
    }

    /// Takes what was noted while the messages still borrowed the block.
    fn merge_noted(&mut self, noted: &Counters) {
        self.counters.ok = self
            .counters
            .ok
            .saturating_sub(noted.unknown_kind + noted.body_bad);
        self.counters.unknown_kind += noted.unknown_kind;
        self.counters.body_bad += noted.body_bad;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::FRAME_BYTES_MAX;

    fn counts(bytes: &[u8]) -> Counters {
        let mut deframer = Deframer::new();
        deframer.push_slice(bytes, |_| ());
        *deframer.counters()
    }

    #[test]
    fn lone_delimiters_count_nothing() {
        assert_eq!(counts(&[0; 50]), Counters::default());
    }

    #[test]
    fn runs_around_the_longest_line() {
        for (name, run, overlong) in [
            ("one under", BLOCK_BYTES_MAX - 1, 0),
            ("longest", BLOCK_BYTES_MAX, 0),
            ("one over", BLOCK_BYTES_MAX + 1, 1),
            ("far over", 40 * BLOCK_BYTES_MAX, 1),
        ] {
            let mut bytes = std::vec![1u8; run];
            bytes.push(0);
            let counters = counts(&bytes);
            assert_eq!(
                (counters.overlong, counters.total()),
                (overlong, 1),
                "{name}"
            );
        }
        assert_eq!(BLOCK_BYTES_MAX, FRAME_BYTES_MAX + 1);
    }

    #[test]
    fn noise_of_a_modem_manager() {
        let mut line = [0u8; LINE_BYTES_MAX];
        let length = frame::encode_raw(&mut line, 0x11, &[1, 2, 3]).unwrap();
        let mut bytes = std::vec::Vec::new();
        bytes.extend_from_slice(b"AT\rAT\r\0AT+GCAP\r\0");
        bytes.extend_from_slice(&line[..length]);
        let counters = counts(&bytes);
        assert_eq!((counters.ok, counters.cobs_bad + counters.crc_bad), (1, 2));
    }

    #[test]
    fn reset_forgets_the_half_frame() {
        let mut line = [0u8; LINE_BYTES_MAX];
        let length = frame::encode_raw(&mut line, 0x11, &[1, 2, 3]).unwrap();
        let mut deframer = Deframer::new();
        deframer.push_slice(&line[..length - 3], |_| ());
        deframer.reset();
        deframer.push_slice(&line[..length], |result| assert!(result.is_ok()));
        assert_eq!(
            (deframer.counters().ok, deframer.counters().total()),
            (1, 1)
        );
    }
}
