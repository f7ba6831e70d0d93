//! Forwarding: from the log to a broker, at least once and in order.
//!
//! The outbox is the log itself: what is to be sent stands between a partition's
//! mark and its durable head. `connection` is the window over what is on its way,
//! `place` one partition's marks, `machine` the rules.

mod connection;
mod ids;
mod machine;
mod place;

pub use ids::{ConnNo, Refusal, SendNo};
pub use machine::{Forward, ForwardAction, ForwardConfig};
