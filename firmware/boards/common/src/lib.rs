//! What boards share and a host can test. Knows no chip and no address.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod baud;
pub mod bitbang;
pub mod blink;
pub mod boot;
pub mod cdc;
pub mod clock;
pub mod die;
pub mod identity;
pub mod keep;
pub mod log;
pub mod port;
pub mod stack;
pub mod station;
pub mod uid;
pub mod uptime;

#[cfg(test)]
mod bus_model;
