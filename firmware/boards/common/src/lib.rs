//! What boards share and a host can test. Knows no chip and no address.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod bitbang;
pub mod boot;
pub mod keep;
pub mod uid;

#[cfg(test)]
mod bus_model;
