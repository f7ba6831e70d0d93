//! Queries as Prometheus has them: its language, its rules, its answers.
//!
//! Always holds: [`plan`] and [`eval`] are pure; what is not supported is refused by its
//! name and never computed in another way. Bound: [`limits`]. Knows the log only through
//! what it is handed.

pub mod ast;
pub mod data;
pub mod error;
pub mod eval;
pub mod functions;
pub mod labels;
pub mod limits;
pub mod num;
pub mod plan;
