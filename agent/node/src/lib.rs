//! The process around the pure core.

pub mod config;
pub mod terminal;

pub mod ports;

pub mod sim;

pub mod local;

pub mod store;

pub mod mqtt;

pub mod upstream;

pub mod agent;

pub mod try_run;

pub mod demo;

pub mod cli;
