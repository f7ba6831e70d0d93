//! Simulated world and reference models.

pub mod browser;
pub mod cable;
pub mod certificates;
pub mod http;
pub mod judge;
pub mod line;
pub mod mosquitto;
pub mod namespace;
pub mod postgres;
pub mod powercut;
pub mod process;
pub mod proxy;
pub mod qemu;
pub mod scripted;
pub mod sparkplug;
pub mod tap;
pub mod wait;
pub mod world;
