//! Windows over event time: a pure function of the readings it is given.

pub mod config;
