//! `forebay ingest`, `forebay log` and what else works on a stopped agent, as an operator runs them: the real binary on
//! real data directories, whole and damaged.

mod damage;
mod export;
mod ingest;
mod look;
mod replay;
mod support;
mod views;
