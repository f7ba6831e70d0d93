//! The MQTT clients against real brokers: Mosquitto and the embedded one.

mod clients;
mod support;
