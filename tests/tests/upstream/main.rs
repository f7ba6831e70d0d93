//! The receiver with real brokers, a real sink and a gateway that sends too much.
// Helpers of tests are tests too; clippy's own exception ends at `#[test]`.
#![allow(clippy::unwrap_used)]

mod fixture;
mod gateway;
mod group;
mod http;
mod kill;
mod process;
