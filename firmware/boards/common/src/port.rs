//! The serial line between its interrupts (or USB tasks) and the main loop.
//!
//! Owns a queue of received bytes, with a stamp for each delimiter, and the one line
//! that is being sent. Always holds: nothing here waits; a received byte that finds
//! its queue full is dropped and counted, and the frame's CRC finds that out. Bound:
//! [`RX_BYTES`], [`RX_FRAMES`] and one line. Knows no frames and no hardware.

use core::cell::RefCell;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use critical_section::Mutex;
use forebay_firmware::wire::frame::DELIMITER;
use forebay_firmware::wire::limits::LINE_BYTES_MAX;
use heapless::Deque;

/// Received bytes that may wait: a full frame and some acks.
pub const RX_BYTES: usize = 512;
/// Received delimiters that may wait, each with its stamp.
pub const RX_FRAMES: usize = 32;
/// Bytes that the main loop takes at once.
pub const CHUNK_BYTES: usize = 64;

/// Bytes that came in, up to a delimiter or to the end of the chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    bytes: [u8; CHUNK_BYTES],
    count: usize,
    /// What the counter of the board showed when the delimiter at the end came.
    pub stamp: Option<u32>,
}

impl Chunk {
    /// Never empty.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.count]
    }
}

#[derive(Debug)]
struct Received {
    bytes: Deque<u8, RX_BYTES>,
    stamps: Deque<u32, RX_FRAMES>,
}

impl Received {
    /// False: there is no room.
    fn push(&mut self, byte: u8, stamp: u32) -> bool {
        if byte == DELIMITER {
            !self.bytes.is_full()
                && self.stamps.push_back(stamp).is_ok()
                && self.bytes.push_back(byte).is_ok()
        } else {
            self.bytes.push_back(byte).is_ok()
        }
    }

    fn pop(&mut self) -> Option<Chunk> {
        let mut chunk = Chunk {
            bytes: [0; CHUNK_BYTES],
            count: 0,
            stamp: None,
        };
        for place in &mut chunk.bytes {
            let Some(byte) = self.bytes.pop_front() else {
                break;
            };
            *place = byte;
            chunk.count += 1;
            if byte == DELIMITER {
                chunk.stamp = self.stamps.pop_front();
                break;
            }
        }
        (chunk.count > 0).then_some(chunk)
    }
}

#[derive(Debug)]
struct Sending {
    line: [u8; LINE_BYTES_MAX],
    count: usize,
    sent: usize,
}

/// See the module. Stands in a `static`.
#[derive(Debug)]
pub struct Port {
    received: Mutex<RefCell<Received>>,
    sending: Mutex<RefCell<Sending>>,
    dropped: AtomicU32,
    reopened: AtomicBool,
}

impl Default for Port {
    fn default() -> Self {
        Self::new()
    }
}

impl Port {
    #[must_use]
    pub const fn new() -> Self {
        Self {
            received: Mutex::new(RefCell::new(Received {
                bytes: Deque::new(),
                stamps: Deque::new(),
            })),
            sending: Mutex::new(RefCell::new(Sending {
                line: [0; LINE_BYTES_MAX],
                count: 0,
                sent: 0,
            })),
            dropped: AtomicU32::new(0),
            reopened: AtomicBool::new(false),
        }
    }

    /// Takes bytes from the hardware; `stamp` is what the counter showed when the
    /// last of them came. To be called from one interrupt, or from one task.
    pub fn on_received(&self, bytes: &[u8], stamp: u32) {
        let dropped = critical_section::with(|cs| {
            let mut received = self.received.borrow_ref_mut(cs);
            let kept = bytes.iter().filter(|byte| received.push(**byte, stamp));
            bytes.len() - kept.count()
        });
        if dropped > 0 {
            self.on_overrun(dropped as u32);
        }
    }

    /// Counts bytes that the hardware itself lost.
    pub fn on_overrun(&self, bytes: u32) {
        // Load and store, as the smallest cores have no more: one writer at a time.
        let dropped = self.dropped.load(Ordering::Relaxed);
        self.dropped
            .store(dropped.wrapping_add(bytes), Ordering::Relaxed);
    }

    /// The oldest bytes that came in.
    pub fn receive(&self) -> Option<Chunk> {
        critical_section::with(|cs| self.received.borrow_ref_mut(cs).pop())
    }

    /// Bytes that were lost on the way to the main loop so far. Wraps.
    pub fn dropped(&self) -> u32 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Whether the last line has left, so that the next one may be sent.
    pub fn is_idle(&self) -> bool {
        critical_section::with(|cs| {
            let sending = self.sending.borrow_ref(cs);
            sending.sent == sending.count
        })
    }

    /// Begins to send a line. To be called when [`Port::is_idle`]; what is over
    /// [`LINE_BYTES_MAX`] is left out.
    pub fn send(&self, line: &[u8]) {
        critical_section::with(|cs| {
            let mut sending = self.sending.borrow_ref_mut(cs);
            let count = line.len().min(LINE_BYTES_MAX);
            sending.line[..count].copy_from_slice(&line[..count]);
            sending.count = count;
            sending.sent = 0;
        });
    }

    /// The next byte for a transmitter that takes one at a time.
    pub fn next_byte(&self) -> Option<u8> {
        critical_section::with(|cs| {
            let mut sending = self.sending.borrow_ref_mut(cs);
            let byte = *sending.line[..sending.count].get(sending.sent)?;
            sending.sent += 1;
            Some(byte)
        })
    }

    /// Copies the next bytes to send into `packet` and returns how many. They count
    /// as sent only after [`Port::on_packet_sent`]. The rest of a line that was begun
    /// before [`Port::on_reopened`] is dropped here.
    pub fn next_packet(&self, packet: &mut [u8]) -> usize {
        critical_section::with(|cs| {
            let mut sending = self.sending.borrow_ref_mut(cs);
            if self.reopened.load(Ordering::Relaxed) {
                self.reopened.store(false, Ordering::Relaxed);
                sending.sent = sending.count;
            }
            let rest = &sending.line[sending.sent..sending.count];
            let count = rest.len().min(packet.len());
            packet[..count].copy_from_slice(&rest[..count]);
            count
        })
    }

    /// A packet of `count` bytes has been taken over by the hardware.
    pub fn on_packet_sent(&self, count: usize) {
        critical_section::with(|cs| {
            let mut sending = self.sending.borrow_ref_mut(cs);
            sending.sent = (sending.sent + count).min(sending.count);
        });
    }

    /// Somebody has opened the line anew: nobody waits for the rest of what is being
    /// sent, which may be minutes old.
    pub fn on_reopened(&self) {
        self.reopened.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    fn all(port: &Port) -> Vec<(Vec<u8>, Option<u32>)> {
        core::iter::from_fn(|| port.receive())
            .map(|chunk| (chunk.bytes().to_vec(), chunk.stamp))
            .collect()
    }

    #[test]
    fn chunks_end_at_delimiters_with_their_stamps() {
        let port = Port::new();
        for (stamp, byte) in [1, 2, 0, 3, 0, 4].into_iter().enumerate() {
            port.on_received(&[byte], stamp as u32);
        }
        let want = [
            (std::vec![1, 2, 0], Some(2)),
            (std::vec![3, 0], Some(4)),
            (std::vec![4], None),
        ];
        assert_eq!(all(&port), want);
        port.on_received(&[7; CHUNK_BYTES + 1], 9);
        let sizes: Vec<_> = all(&port).iter().map(|(bytes, _)| bytes.len()).collect();
        assert_eq!(sizes, [CHUNK_BYTES, 1]);
    }

    #[test]
    fn what_finds_no_room_is_counted() {
        for (name, byte, most) in [("bytes", 1, RX_BYTES), ("delimiters", 0, RX_FRAMES)] {
            for (over, count) in [(0, most - 1), (0, most), (1, most + 1)] {
                let port = Port::new();
                (0..count).for_each(|_| port.on_received(&[byte], 5));
                assert_eq!(port.dropped(), over, "{count} {name}");
                let kept: usize = all(&port).iter().map(|(bytes, _)| bytes.len()).sum();
                assert_eq!(kept, count - over as usize, "{count} {name}");
            }
        }
    }

    #[test]
    fn no_stamp_goes_to_another_delimiter_when_bytes_are_dropped() {
        let port = Port::new();
        port.on_received(&[1; RX_BYTES], 0);
        port.on_received(&[0], 1);
        assert_eq!(port.dropped(), 1);
        all(&port);
        port.on_received(&[0], 2);
        assert_eq!(all(&port), [(std::vec![0], Some(2))]);
        port.on_overrun(3);
        assert_eq!(port.dropped(), 4);
    }

    #[test]
    fn a_line_goes_out_byte_by_byte_or_in_packets() {
        let port = Port::new();
        assert!(port.is_idle());
        port.send(&[1, 2, 3]);
        assert!(!port.is_idle());
        assert_eq!(port.next_byte(), Some(1));
        let mut packet = [0; 2];
        assert_eq!((port.next_packet(&mut packet), packet), (2, [2, 3]));
        assert!(!port.is_idle(), "not before the hardware has it");
        port.on_packet_sent(2);
        assert!(port.is_idle());
        assert_eq!((port.next_byte(), port.next_packet(&mut packet)), (None, 0));
    }

    #[test]
    fn a_line_from_before_the_port_was_opened_is_not_finished() {
        let port = Port::new();
        port.send(&[1, 2, 3]);
        let mut packet = [0; 2];
        port.next_packet(&mut packet);
        port.on_reopened();
        port.on_packet_sent(2);
        assert_eq!(port.next_packet(&mut packet), 0);
        assert!(port.is_idle());
        port.send(&[4]);
        assert_eq!((port.next_packet(&mut packet), packet[0]), (1, 4));
    }

    #[test]
    fn a_line_is_cut_at_its_limit() {
        for (count, want) in [
            (LINE_BYTES_MAX - 1, LINE_BYTES_MAX - 1),
            (LINE_BYTES_MAX, LINE_BYTES_MAX),
            (LINE_BYTES_MAX + 1, LINE_BYTES_MAX),
        ] {
            let port = Port::new();
            port.send(&std::vec![1; count]);
            let sent = core::iter::from_fn(|| port.next_byte()).count();
            assert_eq!(sent, want);
        }
    }
}
