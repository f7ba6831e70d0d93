//! What devices say in their logs: frames of `defmt` come from the link, lines of text
//! are kept in memory for `forebay device log`.
//!
//! A thread of its own reads the firmware's files, so that a slow disk holds up no
//! reading. Bounds: see `limits`. A frame that finds the queue full is dropped and
//! counted. Written here rather than taken from the crate `defmt-decoder`: that one turns
//! on a feature of `serde_json` that changes how the whole program holds numbers, and a
//! frame of a few bytes can make it ask for all memory, or panic.

pub mod limits;

pub mod elf;
pub mod format;

mod show;

pub mod frame;

pub mod firmware;

mod kept;

mod thread;

pub use thread::{DeviceLogs, LogRequest};

#[cfg(test)]
mod tests;
