//! The process around the pure core.

pub mod store;

pub mod mqtt;
