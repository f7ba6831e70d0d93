//! The PostgreSQL sink with a real server: what it stores and shows, what it says when
//! the server does not do as it should, and the receiver on it under kills.
// Helpers of tests are tests too; clippy's own exception ends at `#[test]`.
#![allow(clippy::unwrap_used)]

mod contract;
mod edges;
mod faults;
#[path = "../upstream/gateway.rs"]
mod gateway;
mod kill;
mod made;
mod partitions;
mod races;
mod tls;
