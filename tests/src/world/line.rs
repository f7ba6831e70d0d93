//! A serial line that delays, flips and drops: lines go in, bytes come out later.

use std::collections::VecDeque;

use super::dice::Dice;

/// Chances per line, in a million.
#[derive(Debug, Clone, Copy)]
pub struct LineFaults {
    /// A bit of the line is flipped.
    pub flip: u64,
    /// The line is lost.
    pub drop: u64,
    /// The line is cut somewhere.
    pub cut: u64,
}

/// No faults.
pub const CLEAN: LineFaults = LineFaults {
    flip: 0,
    drop: 0,
    cut: 0,
};

/// One direction of a line. Order is kept, as on a wire.
#[derive(Debug, Default)]
pub struct Line {
    /// Arrival time and bytes.
    on_the_way: VecDeque<(u64, Vec<u8>)>,
}

impl Line {
    /// Sends bytes at `now`, us.
    pub fn send(&mut self, now: u64, mut bytes: Vec<u8>, faults: LineFaults, dice: &mut Dice) {
        if dice.hit(faults.drop) {
            return;
        }
        if dice.hit(faults.flip) {
            let bit = dice.below(bytes.len() as u64 * 8) as usize;
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        if dice.hit(faults.cut) {
            bytes.truncate(dice.below(bytes.len() as u64) as usize);
        }
        let earliest = now + 200 + bytes.len() as u64 * 87 + dice.below(300);
        let last = self.on_the_way.back().map_or(0, |(at, _)| *at);
        self.on_the_way.push_back((earliest.max(last), bytes));
    }

    /// When the next bytes arrive.
    #[must_use]
    pub fn next(&self) -> Option<u64> {
        self.on_the_way.front().map(|(at, _)| *at)
    }

    /// What has arrived by `now`, piece by piece.
    pub fn receive(&mut self, now: u64) -> Option<Vec<u8>> {
        let due = self.next().is_some_and(|at| at <= now);
        due.then(|| self.on_the_way.pop_front())?
            .map(|(_, bytes)| bytes)
    }

    /// Unplugged: what is on the way is gone.
    pub fn clear(&mut self) {
        self.on_the_way.clear();
    }
}
