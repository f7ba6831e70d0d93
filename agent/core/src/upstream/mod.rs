//! The receiving end: which offsets of a gateway's log were applied, so that
//! each is applied once however often and in whatever order it comes.
//!
//! A message has an identity ([`MessageId`]) that a resend repeats byte for
//! byte. The state says which of its offsets are new; rows and the changed marks
//! are then written in one transaction, and only after that the message is acked.
//! Byte tables and the argument: `agent/core/docs/upstream.md`.
//!
//! [`MessageId`]: crate::payload::MessageId

pub mod counters;
pub mod ranges;

pub mod run;

pub mod history;
pub mod keys;

pub mod batch;
pub mod holes;
pub mod log;
pub mod rows;
pub mod state;

pub mod embed;

pub mod tally;

pub mod known;
pub mod ledger;

pub mod apply;

mod conflict;

#[cfg(test)]
mod tests;
