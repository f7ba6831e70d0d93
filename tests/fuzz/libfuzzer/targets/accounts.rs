//! Searches for bytes that break `accounts`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| forebay_fuzz::run("accounts", bytes));
