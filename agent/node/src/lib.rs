//! The process around the pure core.
