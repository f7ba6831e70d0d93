//! The stores against one contract: the trait's text as a model.
// Helpers of tests are tests too; clippy's own exception ends at `#[test]`.
#![allow(clippy::unwrap_used)]

mod contract;
mod evidence;
mod fixture;
