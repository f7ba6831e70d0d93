//! What a session hears that is no reading: handed on to whoever knows the devices.

use forebay_wire::message::{ChannelInfo, CmdResult, Health, Hello};

/// One of it.
#[derive(Debug, Clone, PartialEq)]
pub enum Heard {
    /// A device is on this port now, or it is in another boot.
    Hello(Hello),
    /// Its readings may come, and it may be told something.
    Open,
    Channel(ChannelInfo),
    /// Of the boot that it said Hello with.
    Health(Health),
    Result(CmdResult),
    /// A frame of its log.
    Log(Vec<u8>),
}
