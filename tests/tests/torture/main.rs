//! The log under torture: power cuts, kills, damage and a full disk, each followed
//! by a start that must come, find all that was acked, and go on at once.
//!
//! `cargo xtask torture log` and `cargo xtask torture engine` run these with more rounds and other seeds.
// Helpers of tests are tests too; clippy's own exception ends at `#[test]`.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod agent;
mod check;
mod child;
mod damage;
mod device;
mod engine;
mod full;
mod kill;
mod ledger;
mod plan;
mod points;
mod power;
mod rig;
mod stream;
