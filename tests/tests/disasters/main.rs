//! Disks that are lost, put back or copied, with the real binaries and Mosquitto: nothing
//! new is ever taken for old, and what can still come comes again.
// Helpers of tests are tests too; clippy's own exception ends at `#[test]`.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod cases;
mod rig;
