//! Log frames between defmt, which writes them bit by bit from anywhere, and the
//! main loop, which sends them when the line has nothing else.
//!
//! Always holds: writing never waits; a frame that does not fit is dropped as a whole
//! and counted. Bound: [`LOG_BYTES`], a frame of [`FRAME_BYTES_MAX`]. Knows no defmt.

use forebay_firmware::wire::limits::LOG_FRAME_BYTES_MAX;
use heapless::Deque;

/// Frames that wait, each with a byte for its length.
pub const LOG_BYTES: usize = 256;
/// A longer frame is dropped.
pub const FRAME_BYTES_MAX: usize = 120;
const _: () = assert!(
    FRAME_BYTES_MAX <= LOG_FRAME_BYTES_MAX,
    "it must fit the link"
);

/// See the module.
#[derive(Debug)]
pub struct LogRing {
    frames: Deque<u8, LOG_BYTES>,
    open: [u8; FRAME_BYTES_MAX],
    /// Bytes of the frame that is being written; more than fit: it is lost.
    written: usize,
    dropped: u32,
}

impl Default for LogRing {
    fn default() -> Self {
        Self::new()
    }
}

impl LogRing {
    #[must_use]
    pub const fn new() -> Self {
        Self {
            frames: Deque::new(),
            open: [0; FRAME_BYTES_MAX],
            written: 0,
            dropped: 0,
        }
    }

    /// Begins a frame; one that was begun and not ended is forgotten.
    pub fn begin(&mut self) {
        self.written = 0;
    }

    /// Adds bytes to the frame.
    pub fn write(&mut self, bytes: &[u8]) {
        let end = self.written.saturating_add(bytes.len());
        if let Some(place) = self.open.get_mut(self.written..end) {
            place.copy_from_slice(bytes);
        }
        self.written = end;
    }

    /// Ends the frame.
    pub fn end(&mut self) {
        let room = LOG_BYTES - self.frames.len();
        let frame = self.open.get(..self.written).unwrap_or_default();
        if frame.is_empty() || frame.len() >= room {
            self.dropped = self.dropped.saturating_add(1);
            return;
        }
        for byte in core::iter::once(&(frame.len() as u8)).chain(frame) {
            // There is room, as was just looked at.
            let _ = self.frames.push_back(*byte);
        }
    }

    /// Moves the oldest frame into `into` and returns its length.
    pub fn pop(&mut self, into: &mut [u8; FRAME_BYTES_MAX]) -> Option<usize> {
        let count = usize::from(self.frames.pop_front()?);
        for place in into.iter_mut().take(count) {
            *place = self.frames.pop_front()?;
        }
        Some(count)
    }

    /// Frames that were dropped so far; saturates.
    #[must_use]
    pub fn dropped(&self) -> u32 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    fn put(ring: &mut LogRing, frame: &[u8]) {
        ring.begin();
        frame.chunks(7).for_each(|part| ring.write(part));
        ring.end();
    }

    fn take(ring: &mut LogRing) -> Option<Vec<u8>> {
        let mut frame = [0; FRAME_BYTES_MAX];
        ring.pop(&mut frame).map(|count| frame[..count].to_vec())
    }

    #[test]
    fn frames_come_out_as_they_went_in_at_every_place_of_the_ring() {
        let mut ring = LogRing::new();
        for round in 0..2_000_usize {
            let frame: Vec<u8> = (0..1 + round % FRAME_BYTES_MAX).map(|n| n as u8).collect();
            put(&mut ring, &frame);
            assert_eq!(take(&mut ring), Some(frame), "round {round}");
        }
        assert_eq!((take(&mut ring), ring.dropped()), (None, 0));
    }

    #[test]
    fn frames_over_the_limits_are_dropped_whole() {
        for (name, bytes, dropped) in [
            ("below", FRAME_BYTES_MAX - 1, 0),
            ("at", FRAME_BYTES_MAX, 0),
            ("above", FRAME_BYTES_MAX + 1, 1),
            ("far above", 5_000, 1),
            ("empty", 0, 1),
        ] {
            let mut ring = LogRing::new();
            put(&mut ring, &std::vec![7; bytes]);
            put(&mut ring, &[1]);
            assert_eq!(ring.dropped(), dropped, "{name}");
            let first = take(&mut ring).unwrap();
            assert_eq!(first.len(), if dropped == 0 { bytes } else { 1 }, "{name}");
        }
    }

    #[test]
    fn a_full_ring_drops_the_newest() {
        let mut ring = LogRing::new();
        let fit = LOG_BYTES / 8;
        (0..fit as u8 + 3).for_each(|n| put(&mut ring, &[n; 7]));
        assert_eq!(ring.dropped(), 3);
        assert_eq!(take(&mut ring), Some(std::vec![0; 7]));
        put(&mut ring, &[99; 7]);
        let rest: Vec<_> = core::iter::from_fn(|| take(&mut ring)).collect();
        assert_eq!((rest.len(), rest.last()), (fit, Some(&std::vec![99; 7])));
    }
}
