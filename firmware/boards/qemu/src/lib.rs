//! What the boards of QEMU share: registers, semihosting, sleep, faults, and the
//! hardware as the main loop knows it. Knows no board's addresses.
#![no_std]

pub mod board;
pub mod fault;
pub mod host;
pub mod reg;
pub mod wake;
