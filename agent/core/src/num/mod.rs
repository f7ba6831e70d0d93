//! Numbers that do not drift: exact sums and what is rounded once from them.
//! Knows no time and no window.

pub mod moments;
mod round;
pub mod sketch;
mod u256;
