//! What the boards with an RP2040 or an RP2350 share: timer, temperature and the two
//! lines. One of the features `rp2040` and `rp2350` says which chip it is; with `usb`
//! the line is that of the chip's own USB, else UART 0.
#![no_std]

pub mod chip;

#[cfg(not(feature = "usb"))]
pub mod uart;
#[cfg(feature = "usb")]
pub mod usb;
