//! Tests of forwarding against a model of log, broker and receiver.

mod faults;
mod rules;
mod sizes;
mod world;
