//! Searches for bytes that break `gateway_body`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| forebay_fuzz::run("gateway_body", bytes));
