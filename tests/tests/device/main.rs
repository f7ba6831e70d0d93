//! Devices from the shell: `forebay device` against a running agent, with simulated
//! devices and with the firmware on QEMU.

#![allow(clippy::unwrap_used)] // helpers of tests fail the test too

mod alarms;
mod ledgers;
mod qemu;
mod shell;
mod sim;
mod site;
