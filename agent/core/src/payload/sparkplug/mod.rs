//! Readings for hosts that speak Sparkplug B, version 3.0 of its specification: what they
//! say, in which order. What is kept of it, and where we differ: `agent/core/docs/sparkplug.md`.
//!
//! Always holds: what a host needs to read a message has been said before on the same
//! connection. Bound: as the node's. Knows no broker and no clock.

mod metrics;
mod names;
mod node;
mod proto;
#[cfg(test)]
mod tests;

pub use names::{NodeId, SparkplugMessage};
pub use node::{EdgeNode, Sending};
