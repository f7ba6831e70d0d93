//! The process around the pure core.

pub mod ports;

pub mod exit;

pub mod config;
pub mod progress;
pub mod shell;
pub mod table;
pub mod terminal;

pub mod sim;

pub mod local;

pub mod devlog;

pub mod import;

pub mod export;

pub mod store;

pub mod mqtt;

mod database;

pub mod sources;

pub mod reads;

pub mod agent;

mod sending;

pub mod promql;

pub mod api;

pub mod upstream;

pub mod ingest_cmd;

pub mod try_run;

pub mod verify;

pub mod top;

pub mod demo;

pub mod doctor;

pub mod selftest;

pub mod cli;
