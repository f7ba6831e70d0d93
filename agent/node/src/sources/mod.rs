//! Sources of changes of tables.

pub mod postgres;
