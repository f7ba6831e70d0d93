//! Simulated world and reference models.

pub mod line;
pub mod qemu;
