//! What device and gateway both say, byte for byte: ids, readings, frames and
//! messages of the serial link. Knows no clock, no port and no heap.
//!
//! The byte tables stand in `shared/docs/wire.md`; every limit in [`limits`].
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod ids;
pub mod limits;
pub mod message;
