//! Forwarding: from the log to a broker, at least once and in order.

mod ids;

pub use ids::{ConnNo, Refusal, SendNo};
