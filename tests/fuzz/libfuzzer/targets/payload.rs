//! Searches for bytes that break `payload`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| forebay_fuzz::run("payload", bytes));
