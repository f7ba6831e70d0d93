//! Searches for bytes that break `gateway_line`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| forebay_fuzz::run("gateway_line", bytes));
