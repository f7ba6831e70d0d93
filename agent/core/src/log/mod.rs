//! The log: keys, blocks and the rules by which records get offsets and become
//! durable. Knows no disk: bytes go to and come from a [`crate::store::Store`].

pub mod appender;
pub mod block;
pub mod builder;
pub mod bytes;
pub mod decode;
mod delta;
mod doubles;
pub mod head;
pub mod index;
pub mod key;
pub mod keyed;
pub mod merge;
mod pack;
pub mod pick;
mod rows;
pub mod scan;
pub mod segment;
mod series;
pub mod topic;
pub mod walk;
mod words;
