//! Forwarding: from the log to a broker, at least once and in order.
//!
//! The outbox is the log itself: what is to be sent stands between a partition's
//! mark and its durable head. `marks` is what is kept over restarts, `place` one
//! partition, `connection` the window over what is on its way, `ahead` how far
//! the broker is ahead of the receiver, `receiver` what is
//! known of the far side, `machine` the rules, `hearing` and `refusals` those for
//! what comes back. Argument and byte table: `agent/core/docs/forward.md`.

mod config;
mod ids;

mod counters;
mod marks;
mod patience;

mod ahead;
mod connection;
mod place;

mod outgoing;
mod receiver;

mod machine;

mod hearing;
mod refusals;
mod status;

#[cfg(test)]
mod tests;

pub use config::{DEFAULT_DESTINATION, ForwardConfig, Order};
pub use ids::{ConnNo, DestinationId, Refusal, SendNo};
pub use machine::{Forward, ForwardAction};
