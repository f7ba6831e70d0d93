//! Numbers that do not drift: exact sums and what is rounded once from them.
//! Knows no time and no window.

pub mod moments;
pub mod order;
mod round;
pub mod sketch;
pub mod sorted;
mod u256;
