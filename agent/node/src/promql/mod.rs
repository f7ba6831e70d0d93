//! Queries as Prometheus has them: its language, its rules, its answers.
//!
//! Always holds: [`plan`] and [`eval`] are pure; what is not supported is refused by its
//! name and never computed in another way. Bound: [`limits`]. Knows the log only through
//! [`source`].

pub mod ast;
pub mod data;
pub mod error;
pub mod functions;
pub mod labels;
pub mod limits;
pub mod num;
pub mod text;

pub mod plan;

pub mod eval;

pub mod answer;
pub mod form;
pub mod pieces;
pub mod source;

pub mod fetch;
pub mod log;

pub mod ask;
pub mod routes;

#[cfg(test)]
mod bounds;
#[cfg(test)]
mod tests;

pub use routes::routes;
