//! What the boards on Embassy's HALs share: what they measure, the main loop as a future beside the USB
//! port, the hardware as that loop knows it, sleep, panics. Knows no chip's registers.
//!
//! The HAL brings clocks, pins and drivers; all logic is in `forebay-firmware` and
//! `forebay-board-common`, as on the boards that tests run.
#![no_std]

pub mod board;
pub mod delay;
pub mod program;
pub mod run;
pub mod usb;
