//! Tests of forwarding against a model of log, broker and receiver.

mod faults;
mod known_faults;
mod lineage;
mod live;
mod rules;
mod sizes;
mod world;
