//! The pure agent. Bytes, time and randomness come in as arguments, effects
//! leave as values: nothing here reads a clock, opens a file or a socket,
//! starts a thread or draws a random number.
//!
//! The `mod` lines stand in flow order; a stage uses only the stages above it
//! (`cargo xtask tidy` checks that), and the wiring stands in `pipeline`.
#![forbid(unsafe_code)]

pub mod limits;

pub mod json;
pub mod near;
pub mod units;
pub mod utc;

pub mod record;

pub mod change;

pub mod ledger;

pub mod link;

pub mod ingest;

pub mod log;
pub mod meta;
pub mod store;

pub mod retention;

pub mod commit;

pub mod accounts;
pub mod layout;

pub mod checkpoint;

pub mod num;

pub mod engine;
pub mod live;
pub mod topics;
pub mod views;

pub mod losses;

pub mod changes;
pub mod clock;
pub mod parked;

pub mod derive;
pub mod readers;

pub mod exchange;
pub mod recompute;

pub mod payload;

pub mod forward;

pub mod upstream;

pub mod follow;
pub mod query;

pub mod import;

pub mod devices;

pub mod alarms;

pub mod effect;

pub mod pipeline;
