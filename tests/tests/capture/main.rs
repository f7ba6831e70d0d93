//! Changes of a real PostgreSQL, by its own write log: what arrives, what a missing right
//! or setting says, what becomes of it when the database, its slot or its tables change,
//! and kill -9 at every step.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod agent;
mod breaks;
mod child;
mod kill;
mod rig;
mod rights;
mod rows;
mod speed;
mod tls;
mod values;
