//! Devices, bad cables, and the real agent: each fault of the serial link that needs
//! real parts, end to end. What a row of the list of faults is tested by stands in
//! `tests/FAULTS.md`; `cargo xtask torture link` runs the last part for longer.
// Helpers of tests are tests too; clippy's own exception ends at `#[test]`.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod board;
mod lines;
mod load;
mod losses;
mod matrix;
mod noise;
mod rig;
mod rounds;
