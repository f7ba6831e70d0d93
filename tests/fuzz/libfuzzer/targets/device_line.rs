//! Searches for bytes that break `device_line`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| forebay_fuzz::run("device_line", bytes));
