//! The device half of Forebay: sampler, ring and link session, sans-IO.
//!
//! A board (or a simulator) brings the clock, the port and the sensors, and calls
//! in: [`Device::on_sample`] with readings, [`Device::on_rx`] with bytes from the
//! line, [`Device::poll_tx`] for the next line to write, [`Device::next_deadline`]
//! for when to come back. The same code runs on the chip, in the simulated fleet
//! and under the tests of the host. No heap, no clock, no panics on received bytes.
//!
//! Modules stand in flow order; each uses only those above it.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod limits;
pub mod tick;

pub mod sensor;
pub mod sensors;

pub mod isr;
pub mod stats;

pub mod account;
mod front;
mod ring;

mod commands;
mod inbox;
mod log;
mod tuning;

mod backlog;
mod flight;
#[cfg(feature = "spill")]
pub mod spill;

mod session;

pub mod device;
pub mod sampler;

pub use account::{Account, Accounts};
pub use commands::Action;
pub use device::{BadChannels, Device, DeviceConfig, LineBuffer, UnknownChannel};
pub use sampler::Sampler;
pub use sensor::{ChannelSpec, Sensor};
pub use stats::Stats;

// What a board or simulator needs of the wire, so that it depends on one crate.
pub use forebay_wire as wire;

/// Compiles the sensor in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
