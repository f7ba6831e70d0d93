//! Simulated world and reference models.

pub mod qemu;
