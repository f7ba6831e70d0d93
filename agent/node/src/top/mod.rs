//! The live view of an agent, of `forebay top` and of the demo: what a person may sort,
//! filter and pause ([`model`]), how it looks ([`view`]), and the terminal that it is
//! drawn on ([`screen`]).
//!
//! Knows no socket: who shows it asks, and hands answers in.

pub mod model;
pub mod screen;
pub mod view;
