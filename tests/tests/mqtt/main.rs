//! The MQTT clients, the forwarder and the receiver against real brokers:
//! Mosquitto and the embedded one.
// Helpers of tests are tests too; clippy's own exception ends at `#[test]`.
#![allow(clippy::unwrap_used)]

mod clients;
mod delivery;
mod forwarder;
mod scripted;
mod secrets;
mod secured;
mod support;
