//! One direction of a bad cable: what goes in comes out later, and not as it was.
//! Time is an argument, so this is a plain queue with rules.
//!
//! Invariants: the faults of a byte depend on the seed and on the bytes before it
//! alone; bytes keep their order. Bound: takes no more once [`LANE_BYTES_MAX`] wait.

use std::collections::VecDeque;
use std::time::Duration;

use forebay_node::sim::{ByteFaults, FaultCounts, FaultRates};

/// Bytes that wait in a lane before it takes no more: what a UART, its driver and
/// a bridge keep between them.
pub const LANE_BYTES_MAX: usize = 4096;
/// A burst that does not fill up goes out this long after its first byte.
const BURST_WAIT_US: u64 = 200_000;
/// Start, eight data bits, stop.
const BITS_PER_BYTE: u64 = 10;

/// What a lane did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LaneCounts {
    pub bytes_in: u64,
    pub bytes_out: u64,
    /// Bytes lost because nobody was there to take them.
    pub lost: u64,
    pub faults: FaultCounts,
}

/// See the module.
#[derive(Debug)]
pub struct Lane {
    faults: ByteFaults,
    /// When each byte is through.
    queue: VecDeque<(u64, u8)>,
    /// When the wire is free again.
    free_at: u64,
    byte_ns: u64,
    step_us: u64,
    burst: usize,
    garbled: bool,
    stalled: bool,
    lossy: bool,
    counts: LaneCounts,
}

impl Lane {
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            faults: ByteFaults::new(FaultRates::default(), seed),
            queue: VecDeque::new(),
            free_at: 0,
            byte_ns: 0,
            step_us: 1,
            burst: 0,
            garbled: false,
            stalled: false,
            lossy: false,
            counts: LaneCounts::default(),
        }
    }

    pub fn set_rates(&mut self, rates: FaultRates) {
        self.faults.set_rates(rates);
    }

    /// Bits per second; 0: as fast as can be.
    pub fn set_baud(&mut self, baud: u32) {
        self.byte_ns = (BITS_PER_BYTE * 1_000_000_000)
            .checked_div(u64::from(baud))
            .unwrap_or(0);
    }

    /// Bytes come out only at multiples of `step`, as behind a USB latency timer.
    pub fn set_step(&mut self, step: Duration) {
        self.step_us = (step.as_micros() as u64).max(1);
    }

    /// Bytes come out that many at a time; 0: as they come.
    pub fn set_burst(&mut self, bytes: usize) {
        self.burst = bytes.min(LANE_BYTES_MAX);
    }

    /// Every byte is read at another rate than it was sent at.
    pub fn set_garbled(&mut self, garbled: bool) {
        self.garbled = garbled;
    }

    /// Nothing comes out, and soon nothing goes in.
    pub fn set_stalled(&mut self, stalled: bool) {
        self.stalled = stalled;
    }

    /// What its end does not take at once is lost, as in a UART that nobody reads;
    /// else it waits, as behind a flow control.
    pub fn set_lossy(&mut self, lossy: bool) {
        self.lossy = lossy;
    }

    #[must_use]
    pub fn is_lossy(&self) -> bool {
        self.lossy
    }

    /// Whether it takes bytes now.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.queue.len() < LANE_BYTES_MAX
    }

    /// Bytes go in at `now`; the returned ones go back to who sent them.
    pub fn push(&mut self, bytes: &[u8], now_us: u64) -> Vec<u8> {
        self.counts.bytes_in += bytes.len() as u64;
        let (mut out, mut back) = (Vec::with_capacity(bytes.len()), Vec::new());
        self.faults.pass(bytes, &mut out, &mut back);
        self.put(&out, now_us);
        back
    }

    /// Bytes that were never sent, such as an echo, go in behind the others.
    pub fn put(&mut self, bytes: &[u8], now_us: u64) {
        let mut at_ns = self.free_at.max(now_us * 1_000);
        for byte in bytes {
            at_ns += self.byte_ns;
            let at_us = at_ns.div_ceil(1_000).next_multiple_of(self.step_us);
            let byte = if self.garbled { garble(*byte) } else { *byte };
            self.queue.push_back((at_us, byte));
        }
        self.free_at = at_ns;
    }

    /// When something comes out.
    #[must_use]
    pub fn next_due(&self) -> Option<u64> {
        let first = self.queue.front().filter(|_| !self.stalled)?.0;
        let Some(last) = self.burst.checked_sub(1) else {
            return Some(first);
        };
        let full = self.queue.get(last).map(|(at, _)| *at);
        let waited = first + BURST_WAIT_US;
        Some(full.map_or(waited, |at| at.min(waited)))
    }

    /// What has come through at `now`.
    pub fn pop(&mut self, now_us: u64) -> Vec<u8> {
        if self.next_due().is_none_or(|due| due > now_us) {
            return Vec::new();
        }
        let through = self.queue.partition_point(|(at, _)| *at <= now_us);
        let out: Vec<u8> = self.queue.drain(..through).map(|(_, byte)| byte).collect();
        self.counts.bytes_out += out.len() as u64;
        out
    }

    /// Unplugged: what is on the wire is lost.
    pub fn clear(&mut self) {
        self.lose(self.queue.len());
        self.queue.clear();
        self.free_at = 0;
    }

    /// Bytes that found nobody.
    pub fn lose(&mut self, bytes: usize) {
        self.counts.lost += bytes as u64;
    }

    #[must_use]
    pub fn counts(&self) -> LaneCounts {
        LaneCounts {
            faults: self.faults.done(),
            ..self.counts
        }
    }
}

/// A byte as a receiver at another rate reads it: something, and rarely a zero.
fn garble(byte: u8) -> u8 {
    byte.rotate_left(3) ^ 0xa5
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(lane: &mut Lane, until_us: u64) -> Vec<(u64, usize)> {
        let mut seen = Vec::new();
        while let Some(due) = lane.next_due().filter(|due| *due <= until_us) {
            seen.push((due, lane.pop(due).len()));
        }
        seen
    }

    #[test]
    fn a_clean_lane_changes_nothing() {
        let mut lane = Lane::new(1);
        let bytes: Vec<u8> = (0..=255).collect();
        assert!(lane.push(&bytes, 5).is_empty());
        assert!(lane.pop(4).is_empty());
        assert_eq!(lane.pop(5), bytes);
        assert_eq!(lane.next_due(), None);
    }

    #[test]
    fn a_paced_lane_takes_as_long_as_a_wire() {
        for (name, baud, bytes, want_us) in [
            ("9,600", 9_600, 960, 1_000_000),
            ("115,200", 115_200, 11_520, 1_000_000),
            ("921,600", 921_600, 92_160, 1_000_000),
        ] {
            let mut lane = Lane::new(1);
            lane.set_baud(baud);
            lane.put(&vec![7; bytes], 0);
            let seen = all(&mut lane, u64::MAX);
            let last = seen.last().unwrap().0;
            assert!(last.abs_diff(want_us) < 2_000, "{name}: {last}");
            assert_eq!(seen.iter().map(|(_, n)| n).sum::<usize>(), bytes, "{name}");
        }
    }

    #[test]
    fn steps_and_bursts() {
        let mut lane = Lane::new(1);
        lane.set_step(Duration::from_millis(16));
        for at_ms in 0..40 {
            lane.push(&[1], at_ms * 1_000);
        }
        let steps = [(0, 1), (16_000, 16), (32_000, 16), (48_000, 7)];
        assert_eq!(all(&mut lane, u64::MAX), steps);

        let mut lane = Lane::new(1);
        lane.set_burst(100);
        lane.push(&[1; 99], 10);
        assert_eq!(lane.next_due(), Some(10 + BURST_WAIT_US), "not full");
        lane.push(&[1; 5], 20);
        assert_eq!(lane.next_due(), Some(20), "full");
        assert_eq!(lane.pop(20).len(), 104);
    }

    #[test]
    fn a_stalled_lane_fills_up_and_gives_all_later() {
        let mut lane = Lane::new(1);
        lane.set_stalled(true);
        for (name, bytes, room) in [
            ("limit-1", LANE_BYTES_MAX - 1, true),
            ("limit", 1, false),
            ("limit+1", 1, false),
        ] {
            lane.push(&vec![1; bytes], 0);
            assert_eq!(lane.has_room(), room, "{name}");
        }
        assert_eq!((lane.next_due(), lane.pop(9).len()), (None, 0));
        lane.set_stalled(false);
        assert_eq!(lane.pop(9).len(), LANE_BYTES_MAX + 1);
    }

    #[test]
    fn a_seed_does_the_same_to_the_same_bytes() {
        let rates = FaultRates {
            echo: 0.01,
            noise: 0.01,
            ..FaultRates::even(0.05)
        };
        let run = |seed, chunk| {
            let mut lane = Lane::new(seed);
            lane.set_rates(rates);
            let bytes: Vec<u8> = (0..=255).cycle().take(3_000).collect();
            let mut echo = Vec::new();
            for part in bytes.chunks(chunk) {
                echo.extend(lane.push(part, 0));
            }
            (lane.pop(0), echo, lane.counts())
        };
        assert_eq!(run(4, 3_000), run(4, 17));
        assert_ne!(run(4, 3_000), run(5, 3_000));
        assert!(run(4, 17).2.faults.total() > 0);
    }

    #[test]
    fn garbled_bytes_are_others_and_an_unplugged_lane_is_empty() {
        let mut lane = Lane::new(1);
        lane.set_garbled(true);
        let bytes: Vec<u8> = (0..=255).collect();
        lane.push(&bytes, 0);
        let got = lane.pop(0);
        assert!(got.iter().zip(&bytes).filter(|(a, b)| a == b).count() < 8);
        lane.push(&bytes, 0);
        lane.clear();
        assert_eq!((lane.next_due(), lane.counts().lost), (None, 256));
    }
}
