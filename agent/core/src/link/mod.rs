//! The gateway's half of the device link: clock model and session per port.
//! Bytes in, accepted readings and answers out.

pub mod clock;
pub mod clocks;
mod device;
pub mod heard;
pub mod session;

pub(crate) use self::device::line;
