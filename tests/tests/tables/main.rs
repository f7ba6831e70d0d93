//! Tables from the config, from a file and from a topic of MQTT, with the real binary:
//! every change once, whatever is killed in between, and joined rows in the log.

mod config;
mod file;
mod joined;
mod mqtt;
mod site;
