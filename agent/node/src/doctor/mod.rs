//! `forebay doctor`: whether all that an agent needs is there.

pub mod disk;
pub mod limits;
