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

pub mod cobs;
pub mod crc;
pub mod varint;

mod fields;
pub mod settings;

pub mod deframer;
pub mod frame;

mod bodies;
pub mod codec;
mod control_bodies;
pub mod data;

pub use codec::{DecodeError, DeviceMessage, EncodeError, GatewayMessage, Kept, SCHEMA_HASH};
pub use data::{Data, DataBuilder};
pub use deframer::{Counters, Deframer, Rejected};
pub use frame::{Frame, FrameError, Kind, LINK_VERSION};
pub use settings::{ChannelSetting, Settings, SettingsError};
