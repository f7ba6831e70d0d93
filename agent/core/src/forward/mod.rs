//! Forwarding: from the log to a broker, at least once.
//!
//! The outbox is the log itself: what is to be sent stands between a partition's
//! mark and its durable head. `marks` is what is kept over restarts, with what is acked
//! above the mark (`acked`) and what no broker takes (`parked`); `lane` is one way
//! through a partition and `place` all of them, `giving` what comes next of it;
//! `connection` is the window over what is on its way, `ahead` how far the broker is
//! ahead of the receiver, `receiver` and `lineage` what is
//! known of the far side and of ourselves, `machine` one destination. `polling`,
//! `saving`, `deadlines`, `hearing` and `refusals` are its rules by occasion. Argument
//! and byte table: `agent/core/docs/forward.md`.

mod config;
mod ids;

mod acked;
mod counters;
mod parked;

mod marks;
mod pace;
mod patience;
mod trouble;

mod lane;
mod lineage;

mod ahead;
mod connection;
mod place;

mod giving;
mod receiver;

mod outgoing;

mod machine;
mod saving;

mod deadlines;
mod edge;
mod hearing;
mod polling;
mod refusals;

mod dead_letters;
mod status;

#[cfg(test)]
mod tests;

pub use config::{DEFAULT_DESTINATION, ForwardConfig, Order};
pub use ids::{ConnNo, DestinationId, Refusal, SendNo};
pub use machine::{Forward, ForwardAction};
pub use status::Standing;
