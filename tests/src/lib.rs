//! Simulated world and reference models.

pub mod line;
pub mod mosquitto;
pub mod qemu;
