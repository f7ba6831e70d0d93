//! A file system for tests whose power can be cut.
//!
//! Two states are kept of all: what a running process sees (live) and what the
//! medium is known to hold (durable), with the changes between them in order.
//! Everything is in memory; [`disk`] is the model and knows no kernel, [`cut`]
//! decides what a cut leaves, [`mount`] shows the model through FUSE.
//!
//! The model, as harsh as the file systems that people use can be:
//!
//! | call | what it makes durable |
//! |---|---|
//! | `write`, `ftruncate`, `fallocate` | nothing |
//! | `sync_file_range` | nothing: it never reaches the file system, and neither the size nor a drive's cache follow it |
//! | `fdatasync`, `fsync` on a file | that file's bytes and its size; not its name, nor anything else |
//! | `fsync` on a directory | the names in it: those that came, went, and were renamed; not what the files hold |
//! | `close`, `rename` | nothing |
//!
//! A rename is one change: a cut leaves the old name or the new one, never neither
//! and never both. A directory whose own name is not durable takes all that is in
//! it along, however often that was synced. All calls after the cut fail until the
//! disk is mounted again.
//!
//! Bound: the memory of the machine; tests hold tens of megabytes.

pub mod cut;
pub mod disk;
mod files;
pub mod mount;

#[cfg(test)]
mod tests;
