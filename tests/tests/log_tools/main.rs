//! `forebay ingest` and `forebay log` as an operator runs them: the real binary on
//! real data directories, whole and damaged.

mod damage;
mod export;
mod ingest;
mod look;
mod support;
