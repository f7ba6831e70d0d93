//! The page in a headless Chromium, before the real binary with simulated devices on real
//! cables: what it shows is what the API says, while a device is unplugged, comes back with
//! a gap, and a late reading arrives.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod access;
mod axe;
mod bare;
mod builds;
mod hours;
mod many;
mod rig;
mod served;
mod walk;
mod zones;
