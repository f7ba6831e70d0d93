//! The log: keys, blocks and the rules by which records get offsets and become
//! durable. Knows no disk: bytes go to and come from a [`crate::store::Store`].

pub mod key;
