//! Log frames that wait for an idle line. Full, it drops the newest and counts it:
//! what came first says more about a fault than what followed.
//!
//! Bound: [`LOG_RING_BYTES`], one of them per frame for its length. All zero bits
//! at start. Knows nothing of what a frame says.

use forebay_wire::limits::LOG_FRAME_BYTES_MAX;

use crate::limits::LOG_RING_BYTES;

/// See the module.
#[derive(Debug)]
pub(crate) struct LogRing {
    bytes: [u8; LOG_RING_BYTES],
    start: usize,
    used: usize,
    dropped: u32,
}

impl LogRing {
    pub(crate) const fn new() -> Self {
        LogRing {
            bytes: [0; LOG_RING_BYTES],
            start: 0,
            used: 0,
            dropped: 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Frames that found no room, or were empty or too long for the link.
    pub(crate) fn dropped(&self) -> u32 {
        self.dropped
    }

    pub(crate) fn push(&mut self, frame: &[u8]) {
        let fits = (1..=LOG_FRAME_BYTES_MAX).contains(&frame.len())
            && self.used + 1 + frame.len() <= LOG_RING_BYTES;
        if !fits {
            self.dropped = self.dropped.saturating_add(1);
            return;
        }
        self.put(frame.len() as u8);
        frame.iter().for_each(|byte| self.put(*byte));
    }

    /// Moves the oldest frame to the front of `out`; returns its length.
    pub(crate) fn take(&mut self, out: &mut [u8; LOG_FRAME_BYTES_MAX]) -> usize {
        if self.is_empty() {
            return 0;
        }
        let length = usize::from(self.get()).min(LOG_FRAME_BYTES_MAX);
        out[..length].iter_mut().for_each(|byte| *byte = self.get());
        length
    }

    pub(crate) fn clear(&mut self) {
        self.used = 0;
    }

    fn put(&mut self, byte: u8) {
        self.bytes[(self.start + self.used) % LOG_RING_BYTES] = byte;
        self.used += 1;
    }

    fn get(&mut self) -> u8 {
        let byte = self.bytes[self.start % LOG_RING_BYTES];
        self.start = (self.start + 1) % LOG_RING_BYTES;
        self.used = self.used.saturating_sub(1);
        byte
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use std::vec::Vec;

    fn take(ring: &mut LogRing) -> Vec<u8> {
        let mut out = [0; LOG_FRAME_BYTES_MAX];
        let length = ring.take(&mut out);
        out[..length].to_vec()
    }

    #[test]
    fn frames_around_the_limits() {
        let frame = [9; LOG_FRAME_BYTES_MAX + 1];
        for (name, length, dropped) in [
            ("empty", 0, 1),
            ("one byte", 1, 0),
            ("one under", LOG_FRAME_BYTES_MAX - 1, 0),
            ("longest", LOG_FRAME_BYTES_MAX, 0),
            ("one over", LOG_FRAME_BYTES_MAX + 1, 1),
        ] {
            let mut ring = LogRing::new();
            ring.push(&frame[..length]);
            assert_eq!(ring.dropped(), dropped, "{name}");
            let want = if dropped == 0 { &frame[..length] } else { &[] };
            assert_eq!(take(&mut ring), want, "{name}");
        }
    }

    #[test]
    fn room_around_the_limit() {
        for (name, last, dropped) in [("one under", 18, 0), ("full", 19, 0), ("one over", 20, 1)] {
            let mut ring = LogRing::new();
            // Two of 246 with their lengths: 20 bytes are left.
            ring.push(&[1; 245]);
            ring.push(&[2; 245]);
            ring.push(&[3; 20][..last]);
            assert_eq!(ring.dropped(), dropped, "{name}");
        }
        assert_eq!(LOG_RING_BYTES, 2 * 246 + 20);
    }

    proptest! {
        /// Beside a deque of frames: order and bytes are kept, at every place.
        #[test]
        fn as_a_deque_of_frames(steps in prop::collection::vec((0usize..250, 0usize..3), 0..80)) {
            let mut ring = LogRing::new();
            let mut model = VecDeque::new();
            for (at, (length, takes)) in steps.into_iter().enumerate() {
                let frame = std::vec![at as u8; length];
                let used: usize = model.iter().map(|frame: &Vec<u8>| frame.len() + 1).sum();
                ring.push(&frame);
                if (1..=LOG_FRAME_BYTES_MAX).contains(&length) && used + length < LOG_RING_BYTES {
                    model.push_back(frame);
                }
                for _ in 0..takes {
                    prop_assert_eq!(take(&mut ring), model.pop_front().unwrap_or_default());
                }
                prop_assert_eq!(ring.is_empty(), model.is_empty());
            }
        }
    }
}
