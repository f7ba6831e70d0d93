//! What boards with a Cortex-M share and only the chip can run: memory over a reset,
//! paint on the stack, the log, the build id. Knows no chip's registers.
#![no_std]

pub mod boot;
pub mod build_id;
pub mod keep;
pub mod log;
pub mod stack;
