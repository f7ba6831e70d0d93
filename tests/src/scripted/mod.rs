//! A broker that does wrong what a test tells it to: acks that are late, held,
//! turned round, doubled, missing or of nobody; sessions that are forgotten, with a
//! word or without; limits, refusals, connections that are half open, stalled or cut
//! in a packet; messages that are lost, doubled or out of order on their way to the
//! receiver; restarts with the disk as it was, as it was once, or empty. MQTT 5 and
//! 3.1.1, whichever a client speaks.
//!
//! Without faults it is a plain broker. It also looks at what its clients do: a broken
//! rule of the protocol stands in [`Facts::violations`].

mod codec;
mod faults;
mod filter;
mod hub;
mod server;
mod session;
#[cfg(test)]
mod tests;

pub use codec::Version;
pub use faults::{Act, Disk, Facts, Faults, Forget, PerMille, Seen};
pub use server::Broker;
