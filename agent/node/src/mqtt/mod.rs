//! MQTT 5 and 3.1.1 at the edge of the process, over TCP, TLS and websockets: a
//! publisher for the gateway, a subscriber for the upstream, and a broker of MQTT 5
//! for `forebay demo`.
//!
//! Both clients are tasks that own their connection alone and decide nothing:
//! what to send, again or at all, is decided by the core. On any error a client
//! drops all its state and starts a new connection with a new number. That is
//! the one recipe that lost nothing with rumqttc 0.25: a resumed session of it
//! overwrites colliding packets, and a clean one clears what was still queued.

pub mod backoff;
pub mod broker;
pub mod client;
pub mod limits;
pub mod probe;
pub mod publisher;
pub mod settings;
pub mod subscriber;

mod library;
mod outbox;
mod receipts;
mod renewal;
mod security;
mod sends;
mod task;
mod watch;
