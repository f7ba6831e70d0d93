//! Queries of Prometheus's kind against a real agent: beside a Prometheus server that
//! holds the same samples, by clients as they are, and as Grafana asks.

mod beside;
mod client;
mod dashboard;
mod drawn;
mod grafana;
mod queries;
mod rig;
mod samples;
mod web;
