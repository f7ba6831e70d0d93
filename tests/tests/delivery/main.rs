//! From devices to rows with the real binaries, and a broker that does wrong what a
//! test tells it to. What a row of the list of faults is tested by stands in
//! `tests/FAULTS.md`; `cargo xtask torture delivery` runs the rounds for longer.
// Helpers of tests are tests too; clippy's own exception ends at `#[test]`.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod outages;
mod rig;
mod rounds;
mod schedule;
