//! The process around the pure core.

pub mod mqtt;
