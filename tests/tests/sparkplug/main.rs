//! Readings for hosts that speak Sparkplug B: the rules, and the real parts.
// Helpers of a test are tests too.
#![allow(clippy::unwrap_used)]

mod real;
mod rules;
