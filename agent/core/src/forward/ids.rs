//! What the forwarder and a client of the broker say to each other in numbers.
//!
//! Always holds: a (connection, send) pair names one message for ever, so an
//! ack can never be taken for that of another connection. Knows no broker.

use std::fmt;

/// One of the places that a gateway forwards to, in the order of its config.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DestinationId(pub u8);

/// One connection attempt of a client, counted from 1 and never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnNo(pub u64);

/// Place of a message in everything handed over on its connection, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SendNo(pub u64);

/// Why a broker, or our own check before it, did not take a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The broker has no room for it now.
    Quota,
    /// The broker is not allowed to take this topic from us.
    NotAuthorized,
    TopicInvalid,
    PayloadInvalid,
    /// The broker still holds the packet number; a new connection clears it.
    PacketIdInUse,
    /// The broker gave no reason.
    Unspecified,
    /// A reason of the broker's own.
    Implementation,
    /// The packet is larger than the broker takes; it was not sent.
    TooLarge {
        packet_bytes: usize,
        bytes_max: usize,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quota => f.write_str("the broker's quota is exceeded"),
            Self::NotAuthorized => f.write_str("the broker does not authorise this topic"),
            Self::TopicInvalid => f.write_str("the broker calls the topic invalid"),
            Self::PayloadInvalid => f.write_str("the broker calls the payload invalid"),
            Self::PacketIdInUse => f.write_str("the broker calls the packet id in use"),
            Self::Unspecified => f.write_str("the broker gave no reason"),
            Self::Implementation => f.write_str("the broker gave a reason of its own"),
            Self::TooLarge {
                packet_bytes,
                bytes_max,
            } => {
                write!(
                    f,
                    "the packet has {packet_bytes} bytes and the broker takes {bytes_max}"
                )
            }
        }
    }
}
